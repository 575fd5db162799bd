//go:build kafka

package groupclient

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// Members come and go on a real broker, and after each time the group settles: every task has one owner, and
// as many standbys as asked for.
//
// INVARIANT: no task is given to two members of one generation; a task starts where its former owner has
// committed last.

const roundTasks = 8

// rounds is the journey's view of the whole group.
type rounds struct {
	t     *testing.T
	addrs []string
	rnd   *rand.Rand

	mu     sync.Mutex
	given  map[int32]map[Task]string // by generation
	last   map[Task]position
	news   chan struct{}
	errs   []string
	moves  int
	riders []*rider
}

type position struct {
	owner  string
	offset int64
}

// rider is a worker of the simulation on a real client, which keeps a copy of what it shadows.
type rider struct {
	*worker
	of   *rounds
	name string

	mu   sync.Mutex
	now  Assignment
	dead bool
}

func (r *rider) Assigned(a Assignment) {
	r.of.assigned(a)
	r.mu.Lock()
	r.now = a
	r.mu.Unlock()
	r.worker.Assigned(a)
	select {
	case r.of.news <- struct{}{}:
	default:
	}
}

// copies are those of the last assignment: a standby that has caught up at once.
func (r *rider) copies() (copies []Copy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.now.Standby {
		copies = append(copies, Copy{Task: t})
	}
	return copies
}

func (r *rounds) wrong(format string, args ...any) {
	if len(r.errs) < 10 {
		r.errs = append(r.errs, fmt.Sprintf(format, args...))
	}
}

// assigned checks a share against those of the same generation.
func (r *rounds) assigned(a Assignment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.given[a.Generation] == nil {
		r.given[a.Generation] = map[Task]string{}
	}
	for _, t := range a.Active {
		if was := r.given[a.Generation][t]; was != "" && was != a.MemberID {
			r.wrong("generation %d gives %s to %q and %q", a.Generation, t, was, a.MemberID)
		}
		r.given[a.Generation][t] = a.MemberID
	}
}

// saw checks where tasks start.
func (r *rounds) saw(rider *rider, t Task, offset int64, started bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, had := r.last[t]
	if started && had && was.owner != rider.name {
		r.moves++
		r.mayStart(rider, t, offset, was)
	}
	if !started && had && was.owner != rider.name {
		r.wrong("%s has committed %d of %s, which %s owns", rider.name, offset, t, was.owner)
	}
	r.last[t] = position{rider.name, offset}
}

// mayStart: the last commit of a member that was killed may have come through without its knowing.
func (r *rounds) mayStart(rider *rider, t Task, offset int64, was position) {
	former := r.named(was.owner)
	killed := former == nil || former.dead
	if offset != was.offset && !(killed && offset == was.offset+1) {
		r.wrong("%s starts %s at %d, but %s has committed %d", rider.name, t, offset, was.owner, was.offset)
	}
	if !killed && slices.Contains(former.Owned(), t) {
		r.wrong("%s starts %s, which %s owns", rider.name, t, was.owner)
	}
}

func (r *rounds) named(name string) *rider {
	i := slices.IndexFunc(r.riders, func(o *rider) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return r.riders[i]
}

func (r *rounds) join(name string) {
	one := &rider{worker: idleWorker(r.rnd.Uint64()), of: r, name: name}
	one.every, one.linger = 200*time.Millisecond, 100*time.Millisecond
	one.worker.saw = func(t Task, offset int64, started bool) { r.saw(one, t, offset, started) }
	cfg := Config{
		Client: newClient(r.t, r.addrs), Group: "app", SessionTimeout: 6 * time.Second, HeartbeatInterval: 100 * time.Millisecond,
		Replicas: new(1), Copies: one.copies,
	}
	group, err := New(cfg, one)
	if err != nil {
		r.t.Fatal(err)
	}
	one.Group = group
	one.busy.Go(func() { _ = one.Run(one.ctx) })
	p, err := Prepare(r.t.Context(), cfg.Client, PrepareOptions{Group: "app"}, counting())
	if err != nil {
		r.t.Fatal(err)
	}
	one.Join(p)
	r.mu.Lock()
	r.riders = append(r.riders, one)
	r.mu.Unlock()
}

// end lets a member go: drained, left, or killed.
func (r *rounds) end(i int, how string) {
	r.mu.Lock()
	one := r.riders[i]
	one.dead = how != "drain"
	r.mu.Unlock()
	switch how {
	case "drain":
		one.drain()
		fallthrough
	case "leave":
		if err := one.Leave(r.t.Context()); err != nil {
			r.t.Errorf("leaving: %v", err)
		}
	}
	one.kill()
	one.cfg.Client.Close()
	r.mu.Lock()
	r.riders = slices.DeleteFunc(r.riders, func(o *rider) bool { return o == one })
	r.mu.Unlock()
}

// settle waits until every task has one owner, who works on it, and its standby.
func (r *rounds) settle(what string) time.Duration {
	r.t.Helper()
	start := time.Now()
	limit := time.NewTimer(40 * time.Second)
	defer limit.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		wrong := r.unsettled()
		r.mu.Lock()
		errs := slices.Clone(r.errs)
		r.mu.Unlock()
		if len(errs) > 0 {
			r.t.Fatalf("%s: %v", what, errs)
		}
		if wrong == "" {
			return time.Since(start)
		}
		select {
		case <-r.news:
		case <-look.C:
		case <-limit.C:
			r.t.Fatalf("%s: the group does not settle: %s", what, wrong)
		}
	}
}

func (r *rounds) unsettled() string {
	owners, shadows := map[Task]*rider{}, map[Task]*rider{}
	generation := int32(-1)
	for _, one := range r.riders {
		one.mu.Lock()
		a := one.now
		one.mu.Unlock()
		if generation >= 0 && a.Generation != generation {
			return "generations differ"
		}
		generation = a.Generation
		for _, t := range a.Active {
			owners[t] = one
		}
		for _, t := range a.Standby {
			if shadows[t] != nil {
				return fmt.Sprintf("%s has two standbys", t)
			}
			shadows[t] = one
		}
		if len(one.Owned()) != len(a.Active) {
			return one.name + " has not let go"
		}
	}
	for p := range int32(roundTasks) {
		task := Task{"orders", p}
		r.mu.Lock()
		last := r.last[task].owner
		r.mu.Unlock()
		switch {
		case owners[task] == nil:
			return fmt.Sprintf("%s has no owner", task)
		case last != owners[task].name:
			return fmt.Sprintf("%s is not worked on", task)
		case len(r.riders) > 1 && (shadows[task] == nil || shadows[task] == owners[task]):
			return fmt.Sprintf("%s has no standby beside its owner", task)
		}
	}
	return ""
}

func TestMembersComeAndGoOnKafka(t *testing.T) {
	addrs := kafkatest.Broker(t, kafkatest.Latest).Addrs()
	kafkatest.CreateTopic(t, addrs, "orders", roundTasks, nil)
	for p := range int32(roundTasks) {
		records := make([]kafkatest.Record, 20_000)
		for i := range records {
			records[i] = kafkatest.KV("k", "v").On(p)
		}
		kafkatest.Produce(t, addrs, "orders", records)
	}
	seed := uint64(time.Now().UnixNano())
	n := 60
	if v, err := strconv.Atoi(os.Getenv("PILLION_ROUNDS")); err == nil {
		n = v
	}
	r := &rounds{
		t: t, addrs: addrs, rnd: rand.New(rand.NewPCG(seed, 7)), news: make(chan struct{}, 1),
		given: map[int32]map[Task]string{}, last: map[Task]position{},
	}
	defer func() {
		for len(r.riders) > 0 {
			r.end(0, "kill")
		}
	}()
	var longest time.Duration
	var history []string
	for i := range n {
		what := r.step(i)
		history = append(history, what)
		longest = max(longest, r.settle(fmt.Sprintf("seed %d, round %d, %v", seed, i, history)))
	}
	t.Logf("%d joins and leaves, %d tasks moved, the group settled within %s; seed %d", n, r.moves, longest.Round(time.Millisecond), seed)
	g := kafkatest.WaitGroup(t, addrs, "app", func(g kafkatest.Group) bool { return g.State == "Stable" })
	if len(g.Members) != len(r.riders) {
		t.Errorf("the broker knows %d members, not %d", len(g.Members), len(r.riders))
	}
}

// step is one member that comes or goes; now and then two things at once.
func (r *rounds) step(i int) string {
	if n := len(r.riders); n < 2 || n < 5 && r.rnd.IntN(2) == 0 {
		r.join(fmt.Sprintf("rider-%d", i))
		if r.rnd.IntN(4) == 0 {
			r.join(fmt.Sprintf("rider-%d+", i))
			return "join, join"
		}
		return "join"
	}
	how := []string{"leave", "leave", "drain", "drain", "drain", "drain", "leave", "drain"}[r.rnd.IntN(8)]
	if r.rnd.IntN(20) == 0 {
		how = "kill"
	}
	r.end(r.rnd.IntN(len(r.riders)), how)
	return how
}
