package groupsim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/session"
)

// kafka is everything that is not a member: the coordinator, the logs, and the truth about each task.
type kafka struct {
	w        *World
	group    *groupmodel.Coordinator
	away     time.Duration // no coordinator until then
	token    groupmodel.Token
	waiting  map[groupmodel.Token]func(groupmodel.Answer)
	tick     time.Duration // of the tick that is on its way; 0: none
	tasks    map[session.TaskID]*truth
	order    []*truth
	lives    map[string]*life
	plans    map[int32]map[session.TaskID]string // generation -> task -> active
	joinedIn map[string]int32                    // by member: the newest generation that it has joined
	told     map[int64]bool                      // take-overs that have come to a good end
	endsOf   map[int64]map[string]int64          // take-over -> table -> end of its changelog when the claim was there

	producers   map[*life]*transactional
	txnAway     time.Duration // no coordinator of transactions until then
	heldBack    time.Duration // markers are, until then
	leadersAway time.Duration // of changelogs, until then
	placed      int64         // positions, so far
}

// partitions of each set.
const partitions = 2

// truth is a task as Kafka has it.
type truth struct {
	id     session.TaskID
	source groupmodel.Partition
	end    int64 // of the source
	logs   map[string]*changelog

	claim    claim // that stands
	position int64 // committed
	order    int64 // of the position, among all that were written
	feeders  []*feeder
}

// life is an incarnation of a member.
type life struct {
	name   string
	member string
	over   bool                    // it crashed, or lost its membership: what it had in flight may be repeated
	left   bool                    // and nothing was in flight
	doubt  map[session.TaskID]bool // what was written may be repeated, as the worker was told
}

func newKafka(w *World) *kafka {
	k := &kafka{
		w: w, group: groupmodel.New(groupmodel.Config{}), waiting: map[groupmodel.Token]func(groupmodel.Answer){},
		tasks: map[session.TaskID]*truth{}, lives: map[string]*life{}, plans: map[int32]map[session.TaskID]string{},
		endsOf: map[int64]map[string]int64{}, told: map[int64]bool{}, joinedIn: map[string]int32{},
		producers: map[*life]*transactional{},
	}
	for s := range 1 + w.rng.IntN(2) {
		name := fmt.Sprintf("s%d", s)
		for p := range int32(partitions) {
			t := &truth{id: session.TaskID{Set: name, Partition: p}, source: groupmodel.Partition{Topic: name, Index: p}, logs: map[string]*changelog{}}
			t.log("t").begun = true
			k.tasks[t.id] = t
			k.order = append(k.order, t)
		}
	}
	return k
}

// fenced: it has crashed, or the coordinator does not know it any more, though it has not left; or it is a
// static member that was silent while a generation was made: Kafka keeps it, with what it said before.
func (k *kafka) fenced(l *life) bool {
	return l.over || !l.left && (!k.group.Has(l.member) || k.joinedIn[l.member] < k.group.Generation())
}

// claim is what stands beside a position. Each take-over has a number.
type claim struct {
	by       *life
	takeOver int64
	released bool
	tables   []string
}

func (c claim) text() string {
	state := "open"
	if c.released {
		state = "released"
	}
	return fmt.Sprintf("%s %d %s %s", c.by.name, c.takeOver, state, strings.Join(c.tables, ","))
}

func (k *kafka) parse(text string) claim {
	fields := strings.Split(text, " ")
	if len(fields) != 4 {
		k.w.fail("a position without a claim: %q", text)
	}
	number, _ := strconv.ParseInt(fields[1], 10, 64)
	return claim{k.lives[fields[0]], number, fields[2] == "released", strings.Split(fields[3], ",")}
}

// arrive is a request that has reached the coordinator's node.
func (k *kafka) arrive(node int32, req groupmodel.Request, answer func(groupmodel.Answer)) {
	if k.w.now < k.away || node != k.group.Node() {
		answer(groupmodel.Answer{Code: groupmodel.NotCoordinator})
		return
	}
	before := answer
	if txn, ok := req.(txnOffsets); ok {
		if code := k.verifyOffsets(txn); code != groupmodel.OK {
			answer(groupmodel.Answer{Code: code})
			return
		}
		answer = func(a groupmodel.Answer) {
			if a.Code == groupmodel.OK {
				k.acceptedInTxn(txn)
			}
			before(a)
		}
		req = txn.req
	}
	if commit, ok := req.(groupmodel.OffsetCommit); ok {
		answer = func(a groupmodel.Answer) {
			if a.Code == groupmodel.OK {
				k.accepted(commit)
			}
			before(a)
		}
		if k.w.opt.Mutant == NoGeneration {
			commit.Generation, commit.Member = k.group.Generation(), k.anybody(commit.Member)
			req = commit
		}
	}
	k.ask(req, answer)
}

func (k *kafka) ask(req groupmodel.Request, answer func(groupmodel.Answer)) {
	k.token++
	k.waiting[k.token] = answer
	k.hear(k.group.Ask(k.w.clock(), k.token, req))
}

// anybody is a member whom the coordinator takes a commit from.
func (k *kafka) anybody(id string) string {
	if members := k.group.Members(); !k.group.Has(id) && len(members) > 0 {
		return members[0]
	}
	return id
}

func (k *kafka) hear(answers []groupmodel.Answer) {
	for _, a := range answers {
		if a.Code == groupmodel.OK && a.Member != "" {
			k.joinedIn[a.Member] = a.Generation
		}
		do := k.waiting[a.To]
		delete(k.waiting, a.To)
		do(a)
	}
	at := k.group.Deadline()
	if at.IsZero() {
		return
	}
	due := at.Sub(k.w.start)
	if k.tick != 0 && k.tick <= due && k.tick > k.w.now {
		return
	}
	k.tick = due
	k.w.after(due-k.w.now, func() {
		if k.tick == due {
			k.tick = 0
		}
		k.hear(k.group.Tick(k.w.clock()))
	})
}

// move takes the coordinator elsewhere. It may take a while until there is one, and until it has loaded.
func (k *kafka) move() {
	k.away = k.w.now + k.w.between(0, 2*time.Second)
	loading := k.away - k.w.now + k.w.between(0, time.Second)
	k.w.note("kafka: the coordinator moves; away for %s, loaded after %s", k.away-k.w.now, loading)
	k.hear(k.group.Move(k.w.clock(), loading))
	for id, generation := range k.joinedIn { // what was not stored is made anew
		k.joinedIn[id] = min(generation, k.group.Generation())
	}
}

// accepted is a commit of positions that the coordinator took.
//
// INVARIANT: none comes from a former owner. A task goes to another owner when the former one has released
// it, or is out of the group; the new one begins where the former has committed last.
func (k *kafka) accepted(commit groupmodel.OffsetCommit) {
	for p, o := range commit.Offsets {
		t := k.tasks[session.TaskID{Set: p.Topic, Partition: p.Index}]
		c := k.parse(o.Metadata)
		k.w.tally.Commits++
		switch {
		case c.takeOver > t.claim.takeOver:
			k.taken(t, c, o.At)
		case c.takeOver < t.claim.takeOver && c.by != t.claim.by:
			k.w.fail("%s: a commit of %s was accepted, and since then %s has taken the task over", t.id, c.by.name, t.claim.by.name)
		case o.At < t.position:
			k.w.fail("%s: %s takes the position back from %d to %d", t.id, c.by.name, t.position, o.At)
		}
		for _, table := range c.tables {
			if l := t.log(table); l.begun && o.At > l.seen() && l.decided == l.end() {
				k.w.fail("%s: %s commits position %d, and the effect of record %d is not in %s", t.id, c.by.name, o.At, l.seen(), table)
			}
		}
		k.placed++
		t.claim, t.position, t.order = c, o.At, k.placed
	}
}

func (k *kafka) taken(t *truth, c claim, at int64) {
	was := t.claim
	if was.by != nil && was.by != c.by && !was.released && k.undecided(t, was.by) {
		k.w.fail("%s: %s takes over from %s, whose transaction is not fenced", t.id, c.by.name, was.by.name)
	}
	if was.by != nil && was.by != c.by {
		k.w.tally.Moves++
		switch {
		case was.released || was.by.left || k.fenced(was.by):
		case !k.told[was.takeOver]: // it does not know of its claim, as the answer was lost
			k.w.tally.Unreleased++
		default:
			k.w.fail("%s: %s takes over from %s, which is in the group and has not released it", t.id, c.by.name, was.by.name)
		}
	}
	if at != t.position {
		k.w.fail("%s: %s begins at %d, and %d was committed", t.id, c.by.name, at, t.position)
	}
	ends := map[string]int64{}
	for table, l := range t.logs {
		ends[table] = l.end()
	}
	k.endsOf[c.takeOver] = ends
	if k.w.opt.Record {
		k.w.note("kafka: %s claims %s at %d, its changelogs end at %v", c.by.name, t.id, at, ends)
	}
}

// planned is what a generation gives to a member.
//
// INVARIANT: never two actives of a task in one generation.
func (k *kafka) planned(generation int32, member string, active []session.TaskID) {
	if k.plans[generation] == nil {
		k.plans[generation] = map[session.TaskID]string{}
		k.w.tally.Generations++
	}
	for _, id := range active {
		if other, ok := k.plans[generation][id]; ok && other != member {
			k.w.fail("%s is active on %s and on %s in generation %d", id, other, member, generation)
		}
		k.plans[generation][id] = member
	}
}
