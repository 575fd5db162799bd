//go:build kafka

package journeys

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/restore"
)

// gang is a group of pairs that share the tasks of one job. Each has tables of its own.
type gang struct {
	*job
	flags   []string
	timed   bool                // what is measured is time
	pairs   map[string]*sidecar // by name; the latest of that name
	workers map[string]*process // who speaks for the worker: the sidecar that started it, or itself
	before  []*process          // those of earlier lives
	lives   []*sidecar          // all that ever were
	dirs    map[string]string   // the workers' directories
}

// newGang makes a job for several pairs with one standby copy of each task.
func newGang(t *testing.T, addrs []string, partitions int32, flags ...string) *gang {
	t.Helper()
	flags = append([]string{"--num-standby-replicas", "1"}, flags...)
	return &gang{
		job: newJob(t, addrs, partitions), flags: flags,
		pairs: map[string]*sidecar{}, workers: map[string]*process{}, dirs: map[string]string{},
	}
}

// join starts a pair. One of the same name that was there before left its disk to it.
func (g *gang) join(names ...string) {
	g.t.Helper()
	for _, name := range names {
		s := g.of(name).pair(g.flags...)
		g.add(name, s, s.process)
	}
}

// joinApart starts a sidecar and a worker beside it, which nobody starts again.
func (g *gang) joinApart(name string) {
	g.t.Helper()
	j := g.of(name)
	s := j.sidecar(g.flags...)
	g.add(name, s, j.worker(s))
}

// of is the job with the place and disk of one pair.
func (g *gang) of(name string) *job {
	g.t.Helper()
	j := *g.job
	j.place = newPlace(g.t)
	j.place.timed = g.timed
	if g.dirs[name] == "" {
		g.dirs[name] = g.t.TempDir()
	}
	j.state = g.dirs[name]
	return &j
}

func (g *gang) add(name string, s *sidecar, worker *process) {
	if was := g.pairs[name]; was != nil {
		g.before = append(g.before, was.process)
		if g.workers[name] != was.process {
			g.before = append(g.before, g.workers[name])
		}
	}
	s.name = "sidecar " + name
	g.pairs[name], g.workers[name] = s, worker
	g.lives = append(g.lives, s)
}

// settled waits until these pairs have every task in equal shares, each with its copies, and all that is
// assigned is in place: records of actives flow, and each copy is followed. Shares are uneven while tasks wait
// for copies that warm up.
func (g *gang) settled(names ...string) {
	g.t.Helper()
	replicas := min(1, len(names)-1)
	until(g.t, fmt.Sprintf("%v share the tasks", names), func() bool {
		running, standby, least, most := 0.0, 0.0, math.Inf(1), 0.0
		for _, name := range names {
			own := g.pairs[name].metric("pillion_tasks", `state="running"`)
			running, least, most = running+own, min(least, own), max(most, own)
			standby += g.pairs[name].metric("pillion_tasks", `state="shadowing"`)
		}
		return running == float64(g.partitions) && standby == float64(int(g.partitions)*replicas) && most-least <= 1
	})
}

// owns gives the partitions that a pair's worker had records of last, by its own words.
func (g *gang) owns(name string) (partitions []int64) {
	g.t.Helper()
	for p := range int64(g.partitions) {
		task := fmt.Sprintf("job/%d", p)
		last := g.workers[name].since(0, func(e entry) bool {
			return e.str("task") == task && (e.is("active") || e.is("lost") || e.is("revoking") || e.is("demoted"))
		})
		if len(last) > 0 && last[len(last)-1].is("active") {
			partitions = append(partitions, p)
		}
	}
	return partitions
}

// end drains these pairs one after the other.
func (g *gang) end(names ...string) {
	g.t.Helper()
	for _, name := range names {
		g.pairs[name].drain()
	}
}

// commits of one partition that the workers saw committed, in the order of their time.
func (g *gang) commits(partition int64) (all []entry) {
	said := slices.AppendSeq(slices.Clone(g.before), maps.Values(g.workers))
	for _, p := range said {
		all = append(all, p.since(0, func(e entry) bool {
			return e.is("commit", "ok", true) && e.num("partition") == partition
		})...)
	}
	slices.SortFunc(all, func(a, b entry) int { return a.at().Compare(b.at()) })
	return all
}

// at is when a worker said it.
func (e entry) at() time.Time {
	seconds, _ := e.fields["at"].(float64)
	return time.UnixMicro(int64(seconds * 1e6))
}

// order checks that what was committed of each partition never went back, whoever committed: a former
// owner's commit that is accepted shows as a step back.
func (g *gang) order() {
	g.t.Helper()
	for p := range int64(g.partitions) {
		next := map[string]int64{} // by topic; "" in a job of one source
		for _, c := range g.commits(p) {
			topic := c.str("topic")
			if c.num("base") < next[topic] {
				g.t.Errorf("partition %d: a commit of [%d, %d) was accepted after one up to %d", p, c.num("base"), c.num("next"), next[topic])
			}
			next[topic] = c.num("next")
		}
	}
}

// oneActive checks the sidecars' logs: in one generation no task ran at two members, and every revoke
// was answered or ran out of time.
func (g *gang) oneActive() {
	g.t.Helper()
	ran := map[string]*sidecar{}
	for _, s := range g.lives {
		generation := int64(0)
		for _, e := range s.since(0, func(e entry) bool { return e.is("task running") || e.is("assigned") && e.fields["generation"] != nil }) {
			if e.is("assigned") {
				generation = e.num("generation")
				continue
			}
			key := fmt.Sprintf("%s in generation %d", e.str("task"), generation)
			if other, ok := ran[key]; ok && other != s {
				g.t.Errorf("%s ran at %s and at %s", key, other.name, s.name)
			}
			ran[key] = s
		}
		g.revokesEnd(s)
	}
}

func (g *gang) revokesEnd(s *sidecar) {
	g.t.Helper()
	open := map[string]int{}
	for _, e := range s.since(0, func(entry) bool { return true }) {
		switch {
		case e.is("task revoked"):
			open[e.str("task")]++
		case e.is("task released"), e.is("revoke timed out"), e.is("lost"):
			delete(open, e.str("task"))
		}
	}
	if len(open) > 0 && s.exit() == 0 {
		g.t.Errorf("%s was asked for %v and never let go", s.name, open)
	}
}

// copies compares every store of every pair, active or standby, row by row with the changelog up to the
// store's own checkpoint. The workers have ended, by whatever means.
func (g *gang) copies() (whole int) {
	g.t.Helper()
	logs := map[string]map[int32][]kafkatest.Record{} // by table
	stores := 0
	for name, dir := range g.dirs {
		for _, s := range g.stores(dir) {
			if logs[s.table] == nil {
				logs[s.table] = map[int32][]kafkatest.Record{}
				for _, r := range kafkatest.ReadAll(g.t, g.addrs, g.changelogOf(s.table), true) {
					logs[s.table][r.Partition] = append(logs[s.table][r.Partition], r)
				}
			}
			log := logs[s.table][s.partition]
			at, want := s.next(g.t), map[string]int{}
			for _, r := range log {
				if r.Offset < at {
					want[string(r.Key)] = number(g.t, r)
				}
			}
			compare(g.t, fmt.Sprintf("store of %s, partition %d at %s, complete up to %d", s.table, s.partition, name, at), s.rows, want)
			stores++
			if n := len(log); n == 0 || at > log[n-1].Offset {
				whole++
			}
		}
	}
	g.t.Logf("%d stores compared row by row, %d of them whole", stores, whole)
	if stores < int(g.partitions) {
		g.t.Errorf("only %d stores were found for %d partitions", stores, g.partitions)
	}
	return whole
}

// store is one SQLite file of a worker.
type store struct {
	path, table, checkpoint string
	partition               int32
	rows                    map[string]int
}

// next is the offset that the store is complete up to.
func (s store) next(t *testing.T) int64 {
	t.Helper()
	if s.checkpoint == "" {
		if len(s.rows) > 0 {
			t.Errorf("%s has %d rows and no checkpoint", s.path, len(s.rows))
		}
		return 0
	}
	c, err := restore.ParseCheckpoint(s.checkpoint)
	if err != nil {
		t.Fatalf("%s: %v", s.path, err)
	}
	return c.Next
}

// stores reads the worker's files of all tables.
func (g *gang) stores(dir string) (list []store) {
	g.t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "tables")); err != nil {
		return nil // it never had a task
	}
	dump := start(g.t, "dump", nil, python(g.t), script("dump.py"), filepath.Join(dir, "tables"))
	if code := dump.exit(); code != 0 {
		g.t.Fatalf("the worker's files cannot be read:\n%s", dump.tail(20))
	}
	for _, e := range dump.since(0, func(entry) bool { return true }) {
		if e.is("file") {
			list = append(list, store{
				path: e.str("path"), table: e.str("table"), checkpoint: e.str("checkpoint"), partition: int32(e.num("partition")), rows: map[string]int{},
			})
		} else if e.is("row") {
			n, err := strconv.Atoi(strings.TrimSpace(e.str("value")))
			if err != nil {
				g.t.Fatalf("%s holds %q", list[len(list)-1].path, e.str("value"))
			}
			list[len(list)-1].rows[e.str("key")] = n
		}
	}
	return list
}

// sound is what must hold after every journey of a gang. All pairs have ended.
func (g *gang) sound() {
	g.t.Helper()
	g.order()
	g.oneActive()
	g.copies()
}

// killWorker is SIGKILL to a pair's worker, which is not started again.
func (g *gang) killWorker(name string) time.Time {
	g.t.Helper()
	starts := g.workers[name].waitAll(0, 1, "start")
	pid := int(starts[0].num("pid"))
	at := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		g.t.Fatalf("kill worker %s: %v", name, err)
	}
	return at
}
