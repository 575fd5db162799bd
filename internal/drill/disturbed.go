package drill

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// disturbances are the moments from which on at_least_once may repeat something: a sidecar was killed or
// stopped, lost its membership, ended without leaving the group (a second signal ends it at once), or left it while
// it was not known how a write had ended.
func disturbances(events []Event) (moments []time.Time) {
	unknown := map[int]time.Time{} // by pair
	lost := losses{last: map[int]int64{}, began: map[int64]time.Time{}}
	members := map[int]bool{} // lives of sidecars
	for _, e := range byTime(events) {
		struck := e.What == FaultBegan && (e.Fault.Kind == SidecarKill || e.Fault.Kind == SidecarStop)
		switch {
		case e.What == InDoubt:
			unknown[e.Pair] = e.At
		case e.What == GroupAssigned:
			lost.assigned(e)
			members[e.Life] = true
		case e.What == GroupLost, e.What == SidecarEnded && members[e.Life]:
			moments = append(moments, lost.since(e))
		case struck, e.What == GroupLeft && e.At.Sub(unknown[e.Pair]) < 2*doubt:
			moments = append(moments, e.At)
		}
		if e.What == GroupLeft || e.What == SidecarEnded {
			delete(members, e.Life)
		}
	}
	return moments
}

// losses tells since when a membership was over that was found to be: who is cut off hears of it last, when others
// have had its tasks for a while, or never, when it is killed before.
type losses struct {
	last  map[int]int64       // generation that a pair was in last
	began map[int64]time.Time // when the first one was told of a generation
}

func (l losses) assigned(e Event) {
	l.last[e.Pair] = e.Generation
	if _, known := l.began[e.Generation]; !known {
		l.began[e.Generation] = e.At
	}
}

// since is when a generation began without the pair, or when the loss was found, what comes first.
func (l losses) since(e Event) time.Time {
	since := e.At
	for generation, at := range l.began {
		if generation > l.last[e.Pair] && at.Before(since) {
			since = at
		}
	}
	return since
}

// doubt is how long before a disturbance something may have been written that it made come again: what was in
// flight, at most a request's patience, unless its commit was open for longer.
const doubt = 15 * time.Second

// doubts are what explains a second output of an input.
type doubts struct {
	moments []time.Time
	open    map[int32][]span // commits that did not end well, by partition
}

type span struct{ from, to time.Time }

func newDoubts(events []Event) doubts {
	return doubts{disturbances(events), openCommits(events)}
}

// openCommits are how long each commit was open that was not told committed: it is retried for as long as Kafka does
// not answer.
func openCommits(events []Event) map[int32][]span {
	type commit struct {
		life int
		id   int64
	}
	began, open := map[commit]Event{}, map[int32][]span{}
	end := func(c commit, at time.Time) {
		if b, known := began[c]; known {
			_, partition, _ := strings.Cut(b.Task, "/")
			n, _ := strconv.Atoi(partition)
			open[int32(n)] = append(open[int32(n)], span{b.At, at})
			delete(began, c)
		}
	}
	for _, e := range byTime(events) {
		c := commit{e.Life, e.ID}
		switch {
		case e.What == CommitBegan:
			began[c] = e
		case e.What == CommitEnded && e.OK:
			delete(began, c)
		case e.What == CommitEnded:
			end(c, e.At)
		case e.What == WorkerEnded:
			for c := range began {
				if c.life == e.Life {
					end(c, e.At)
				}
			}
		}
	}
	return open
}

// explain says whether a disturbance lies between two outputs of one input, by the times in milliseconds at which
// they were made: the one that was made first may have landed last, when its sidecar had lost its membership.
func (d doubts) explain(partition int32, one, other int64) bool {
	made, to := time.UnixMilli(min(one, other)), time.UnixMilli(max(one, other))
	from, until := made.Add(-time.Second), made.Add(doubt)
	for _, c := range d.open[partition] {
		if c.from.Before(made.Add(doubt)) && c.to.After(made) && c.to.After(until) {
			until = c.to.Add(time.Second) // its end is noted before what has ended it
		}
	}
	return slices.ContainsFunc(d.moments, func(m time.Time) bool {
		return m.After(from) && m.Before(to) && m.Before(until)
	})
}
