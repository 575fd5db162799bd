package groupclient

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// What can go wrong at a take-over, each with its true order and with every order in which one step is left out
// or moved: nothing is wrong in the first, and something is in each of the others, or the table says why not.

// situation is one of them: it takes over with these steps, and says what is wrong then.
type situation struct {
	name string
	run  func(b *bench, steps []step) (wrong []string)
}

var situations = []situation{
	{"the task is just taken", plainTaking},
	{"a zombie has an open transaction", zombie},
	{"the fence is refused", refusedFence},
	{"a slow owner wakes up in its own take-over", slowOwner},
	{"our claim is found", claimIsFound},
	{"an owner of at_least_once writes until our claim stands", lateWrite},
	{"a clean hand-over whose markers are late", lateMarkers},
}

// order is a list of steps that is not the true one.
type order struct {
	name  string
	steps []step
	// harmless is why nothing is wrong with it; empty: something is.
	harmless string
}

func names(steps []step) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.name)
	}
	return strings.Join(all, " ")
}

func at(steps []step, name string) int {
	return slices.IndexFunc(steps, func(s step) bool { return s.name == name })
}

// orders are all in which one step is left out or moved, and the variants of a step that are wrong.
func wrongOrders() []order {
	var all []order
	seen := map[string]bool{names(takeOverSteps): true}
	add := func(name string, steps []step) {
		if seen[names(steps)] {
			return
		}
		seen[names(steps)] = true
		o := order{name: name, steps: steps}
		if begin := at(steps, "begin"); begin >= 0 && begin < at(steps, "claim") {
			rest := slices.Delete(slices.Clone(steps), begin, begin+1)
			truth := slices.Delete(slices.Clone(takeOverSteps), at(takeOverSteps, "begin"), at(takeOverSteps, "begin")+1)
			if names(rest) == names(truth) {
				o.harmless = "a producer that is initialised early is initialised before the claim"
			}
		}
		all = append(all, o)
	}
	for i, s := range takeOverSteps {
		without := slices.Delete(slices.Clone(takeOverSteps), i, i+1)
		add("without "+s.name, without)
		for j := range takeOverSteps {
			add(fmt.Sprintf("%s as number %d", s.name, j+1), slices.Insert(slices.Clone(without), j, s))
		}
	}
	instead := func(name, what string, do func(*taking, context.Context) error) {
		steps := slices.Clone(takeOverSteps)
		steps[at(steps, name)] = step{name + " " + what, do}
		add(name+" "+what, steps)
	}
	instead("ends", "by the last stable offset", func(o *taking, ctx context.Context) error {
		changelog := tp(o.set.Tables[0].Topic, o.t.Partition)
		found, err := o.client.ListOffsets(ctx, kafka.Latest, true, changelog)
		o.ends = map[string]int64{"counts": found[changelog].Offset}
		return err
	})
	instead("fence", "of everybody", func(o *taking, ctx context.Context) error {
		for source, c := range o.claims {
			c.Released = false
			o.claims[source] = c
		}
		return o.fence(ctx)
	})
	return all
}

// wrongs runs one situation on a fake clock.
func (s situation) wrongs(t *testing.T, steps []step) (wrong []string) {
	synctest.Test(t, func(t *testing.T) { wrong = s.run(newBench(t), steps) })
	return wrong
}

func TestEachStepOfATakeOverIsNeededWhereItIs(t *testing.T) {
	for _, s := range situations {
		if wrong := s.wrongs(t, takeOverSteps); len(wrong) > 0 {
			t.Errorf("%s: %v", s.name, wrong)
		}
	}
	var table []string
	for _, o := range wrongOrders() {
		var shown []string
		for _, s := range situations {
			if wrong := s.wrongs(t, o.steps); len(wrong) > 0 {
				shown = append(shown, s.name+": "+wrong[0])
			}
		}
		switch {
		case o.harmless == "" && len(shown) == 0:
			t.Errorf("%s (%s): no situation shows that it is wrong", o.name, names(o.steps))
		case o.harmless != "" && len(shown) > 0:
			t.Errorf("%s is said to be harmless (%s): %v", o.name, o.harmless, shown)
		case o.harmless != "":
			table = append(table, o.name+": harmless, "+o.harmless)
		default:
			table = append(table, fmt.Sprintf("%s: %d situations, first: %s", o.name, len(shown), shown[0]))
		}
	}
	t.Logf("%d orders:\n%s", len(table), strings.Join(table, "\n"))
}

const former = "former"

// formerly leaves what an owner named former has committed for task orders/1: the position 7 of 10 records, and a
// changelog of 3.
func (b *bench) formerly(change func(*claim)) (text string) {
	c := claim{Incarnation: former, Guarantee: ExactlyOnce, Sources: map[string]string{"orders": shortID([16]byte{1})},
		Tables: map[string]string{"g-counts-changelog": shortID([16]byte{2})}}
	change(&c)
	text, err := c.encode()
	if err != nil {
		panic(err)
	}
	b.model.set(func() {
		b.model.offsets[tp("orders", 1)] = committed{7, text}
		b.model.last["orders"], b.model.last["g-counts-changelog"] = 10, 3
	})
	return text
}

// exactly is a member under exactly_once whose producer is the model's, with these steps.
func (b *bench) exactly(steps []step, change ...func(*Config)) *member {
	m := b.start(append(change, func(c *Config) {
		c.Guarantee = ExactlyOnce
		c.Begin = func(_ context.Context, incarnation string) error {
			b.model.set(func() { b.model.initialise(TransactionalID("g", incarnation)) })
			return nil
		}
	})...)
	m.Group.steps = steps
	m.Join(orders(4))
	pass(time.Second)
	return m
}

var one = Task{"orders", 1}

// take is a take-over of orders/1 that is not waited for longer than a minute.
func (m *member) take(t testing.TB) (TakeOver, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return m.TakeOver(ctx, one)
}

type findings []string

func (f *findings) expect(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}

func (b *bench) stored() (int64, claim) {
	b.model.mu.Lock()
	defer b.model.mu.Unlock()
	at := b.model.offsets[tp("orders", 1)]
	c, _, _ := parseClaim(at.metadata)
	return at.offset, c
}

func plainTaking(b *bench, steps []step) []string {
	var wrong findings
	b.formerly(func(c *claim) { c.Released = true })
	m := b.exactly(steps)
	defer m.stop()
	over, err := m.take(b.t)
	wrong.expect(err == nil, "the take-over fails: %v", err)
	end, ok := over.Ends["counts"]
	wrong.expect(over.Positions["orders"] == 7 && len(over.Positions) == 1, "positions %v", over.Positions)
	wrong.expect(ok && end == 3, "ends %v", over.Ends)
	position, c := b.stored()
	wrong.expect(position == 7 && c.Incarnation == m.Incarnation() && !c.Released, "stored %d, %+v", position, c)
	return wrong
}

// halfway is the former owner's producer, which has written and sent its positions, and not ended its transaction.
func (b *bench) halfway() *producer {
	text := b.formerly(func(*claim) {})
	p := b.model.newProducer(TransactionalID("g", former))
	p.produce("g-counts-changelog", 2)
	p.commitOffset(tp("orders", 1), committed{9, text})
	return p
}

// zombie: the former owner has written, has sent its positions, and wakes up while it is waited for, or later.
func zombie(b *bench, steps []step) []string {
	var wrong findings
	p := b.halfway()
	m := b.exactly(steps)
	defer m.stop()
	code, waits := int16(-1), 0
	b.model.set(func() {
		b.model.answer = func(req kmsg.Request) kmsg.Response {
			if fetch, ok := req.(*kmsg.OffsetFetchRequest); !ok || !fetch.RequireStable {
				return nil
			}
			resp := b.model.offsetFetch(req.(*kmsg.OffsetFetchRequest))
			if resp.Topics[0].Partitions[0].ErrorCode == 88 {
				if waits++; waits == 3 {
					code = p.commit()
				}
			}
			return resp
		}
	})
	over, err := m.take(b.t)
	wrong.expect(err == nil, "the take-over fails: %v", err)
	if code < 0 {
		code = p.commit()
	}
	wrong.expect(code != 0, "the zombie's EndTxn is taken")
	wrong.expect(err != nil || over.Positions["orders"] == 7, "starts at %d", over.Positions["orders"])
	position, _ := b.stored()
	wrong.expect(position == 7, "stored %d", position)
	return wrong
}

// refusedFence: we lack the right to fence; the former owner ends its transaction some seconds later.
func refusedFence(b *bench, steps []step) []string {
	var wrong findings
	p := b.halfway()
	m := b.exactly(steps)
	defer m.stop()
	b.model.set(func() { b.model.denied = true })
	time.AfterFunc(5*time.Second, func() { p.commit() })
	over, err := m.take(b.t)
	pass(10 * time.Second)
	wrong.expect(err == nil, "the take-over fails: %v", err)
	wrong.expect(over.Positions["orders"] == 9, "starts at %d, records are processed twice", over.Positions["orders"])
	wrong.expect(over.Ends["counts"] == 6, "ends %v", over.Ends)
	position, _ := b.stored()
	wrong.expect(position == 9, "stored %d", position)
	told := slices.ContainsFunc(m.all(), func(e event) bool {
		return e.what == "waiting" && e.code == codeRebalance && strings.Contains(e.text, "transaction")
	})
	wrong.expect(told, "nobody was told what is waited for")
	return wrong
}

// sleeper is a member's connection: its process can be stopped. When it goes on, the take-over gets to run
// before the membership learns anything.
type sleeper struct {
	*line
}

func (s *sleeper) ToGroup(ctx context.Context, _ string, req kmsg.Request) (kmsg.Response, error) {
	return s.model.Do(ctx, 0, req)
}

// slowOwner: between each two steps a member is stopped, for longer than its session; another takes the task over.
func slowOwner(b *bench, steps []step) (wrong []string) {
	for stop := range steps {
		fresh := newBench(b.t)
		for _, w := range fresh.slowOwner(steps, stop) {
			wrong = append(wrong, fmt.Sprintf("stopped before %s: %s", steps[stop].name, w))
		}
	}
	return wrong
}

func (b *bench) slowOwner(steps []step, stop int) []string {
	var wrong findings
	b.formerly(func(*claim) {})
	slow := &sleeper{&line{model: b.model}}
	asleep, awake := make(chan struct{}), make(chan struct{})
	stopping := slices.Clone(steps)
	was := stopping[stop].do
	stopping[stop].do = func(o *taking, ctx context.Context) error {
		close(asleep)
		<-awake
		return was(o, ctx)
	}
	a := b.exactly(stopping, func(c *Config) { c.Logger = nil })
	a.Group.mu.Lock()
	a.Group.client = slow
	a.Group.mu.Unlock()
	result := make(chan error, 1)
	go func() {
		_, err := a.take(b.t)
		result <- err
	}()
	select {
	case <-asleep:
	case err := <-result:
		wrong.expect(false, "the take-over fails: %v", err)
		a.stop()
		return wrong
	}
	slow.cut.Store(true)
	was2 := a.Incarnation()
	second := b.exactly(takeOverSteps)
	pass(30 * time.Second)
	_, err := second.take(b.t)
	wrong.expect(err == nil, "the new owner's take-over fails: %v", err)
	b.model.set(func() { b.model.inits = nil })
	close(awake)
	err = <-result
	if err == nil {
		err = a.Commit(b.t.Context(), one, map[string]int64{"orders": 8})
		wrong.expect(err != nil, "the slow owner has committed")
	}
	wrong.expect(!b.model.initialised(TransactionalID("g", second.Incarnation())), "the new owner was fenced")
	position, c := b.stored()
	wrong.expect(position == 7 && c.Incarnation == second.Incarnation(), "stored %d of %s, and the owner is %s", position, c.Incarnation, second.Incarnation())
	wrong.expect(a.Incarnation() == was2, "the slow owner has learned what it must not know yet")
	a.stop()
	second.stop()
	return wrong
}

// claimIsFound: whoever reads our claim and fences us fences a producer that is there.
func claimIsFound(b *bench, steps []step) []string {
	var wrong findings
	b.formerly(func(c *claim) { c.Released = true })
	m := b.exactly(steps)
	defer m.stop()
	b.model.set(func() {
		b.model.accepted = func(_ kafka.TopicPartition, _ string, _ int64, metadata string) {
			c, _, _ := parseClaim(metadata)
			wrong.expect(b.model.txns[TransactionalID("g", c.Incarnation)] != nil, "a claim stands whose producer is not initialised")
		}
	})
	_, err := m.take(b.t)
	wrong.expect(err == nil, "the take-over fails: %v", err)
	return wrong
}

// lateWrite: nothing fences an owner of at_least_once. What it has written until our claim stands is restored.
func lateWrite(b *bench, steps []step) []string {
	var wrong findings
	b.formerly(func(c *claim) { c.Guarantee = AtLeastOnce })
	m := b.exactly(steps)
	defer m.stop()
	b.model.set(func() {
		b.model.accepted = func(kafka.TopicPartition, string, int64, string) { b.model.last["g-counts-changelog"]++ }
	})
	over, err := m.take(b.t)
	wrong.expect(err == nil, "the take-over fails: %v", err)
	wrong.expect(over.Ends["counts"] == 4, "ends %v", over.Ends)
	wrong.expect(!b.model.initialised(TransactionalID("g", former)), "fenced")
	return wrong
}

// lateMarkers: the former owner has ended its transaction, was answered, and has released; the markers land later.
func lateMarkers(b *bench, steps []step) []string {
	var wrong findings
	text := b.formerly(func(c *claim) { c.Released = true })
	p := b.model.newProducer(TransactionalID("g", former))
	p.produce("g-counts-changelog", 2)
	p.commitOffset(tp("orders", 1), committed{9, text})
	b.model.set(func() { b.model.hold = true })
	wrong.expect(p.commit() == 0, "the clean end is refused")
	b.model.set(func() { b.model.offsets[tp("orders", 1)] = committed{9, text} }) // the release
	// The marker of __consumer_offsets lands first, that of the changelog long after.
	b.model.set(func() {
		x := b.model.txns[p.id]
		x.offsets = nil
	})
	m := b.exactly(steps)
	defer m.stop()
	time.AfterFunc(20*time.Second, b.model.markers)
	over, err := m.take(b.t)
	wrong.expect(err == nil, "the take-over fails: %v", err)
	wrong.expect(over.Positions["orders"] == 9, "starts at %d", over.Positions["orders"])
	wrong.expect(over.Ends["counts"] == 5, "ends %v, 5 records are there", over.Ends)
	wrong.expect(!b.model.initialised(p.id), "who has handed over cleanly was fenced")
	pass(30 * time.Second)
	return wrong
}
