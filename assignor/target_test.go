package assignor

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

const cases = 400

func owners(p Plan) map[Task]string {
	at := map[Task]string{}
	for id, share := range p.Members {
		for _, t := range share.Active {
			at[t] = id
		}
	}
	return at
}

// spread is the difference between the most and the fewest of a count by member.
func spread(p Plan, count func(Share) int) int {
	var counts []int
	for _, share := range p.Members {
		counts = append(counts, count(share))
	}
	return slices.Max(counts) - slices.Min(counts)
}

func checkBalance(t testing.TB, seed uint64, p Plan) {
	t.Helper()
	if got := spread(p, func(s Share) int { return len(s.Active) }); got > 1 {
		t.Fatalf("seed %d: totals differ by %d", seed, got)
	}
	for _, set := range p.Sets {
		got := spread(p, func(s Share) int {
			n := 0
			for _, task := range s.Active {
				n += boolInt(task.Set == set.Key)
			}
			return n
		})
		if got > 1 {
			t.Fatalf("seed %d: shares of %s differ by %d", seed, set.Key, got)
		}
	}
}

func TestTargetIsValidAndBalanced(t *testing.T) {
	each(cases, func(seed uint64, w *world) {
		if seed%2 == 1 {
			w.garble()
		}
		p := target(w.in)
		if err := Validate(w.in, p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkBalance(t, seed, p)
	})
}

func TestTargetDoesNotDependOnTheOrderOfTheInput(t *testing.T) {
	each(cases, func(seed uint64, w *world) {
		w.garble()
		want := target(w.in)
		for range 3 {
			if got := target(w.shuffled()); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: another order gave another plan", seed)
			}
		}
	})
}

func TestAnUnchangedGroupIsAFixedPoint(t *testing.T) {
	each(cases, func(seed uint64, w *world) {
		first := target(w.in)
		w.settle(first, 1)
		if second := target(w.in); !reflect.DeepEqual(first, second) {
			t.Fatalf("seed %d: a settled plan moved\n%v\n%v", seed, first, second)
		}
	})
}

// A group that has seen many changes is settled, too.
func TestALargeSettledGroupIsAFixedPoint(t *testing.T) {
	w := newWorld(3, 100, 5, 1, 1)
	for topic := range w.in.Counts {
		w.in.Counts[topic] = 247
	}
	for generation := range int32(20) {
		w.settle(target(w.in), generation)
		w.leave()
		w.join(w.in.Members[0].Sets)
	}
	p := target(w.in)
	w.settle(p, 30)
	if again := target(w.in); !reflect.DeepEqual(owners(again), owners(p)) {
		t.Error("a settled plan moved")
	}
}

func TestAnOrphanGoesToItsStandby(t *testing.T) {
	for n := 2; n < 40; n++ {
		w := newWorld(uint64(n), n, 1, 1, 1+n%2)
		for topic := range w.in.Counts {
			w.in.Counts[topic] = int32(n) // one task each
		}
		before := target(w.in)
		w.settle(before, 1)
		orphan := before.Members[w.in.Members[0].ID].Active[0]
		w.in.Members = w.in.Members[1:]
		owner := owners(target(w.in))[orphan]
		if !slices.Contains(before.Members[owner].Standby, orphan) {
			t.Fatalf("%d members: %s went cold to %s", n, orphan, owner)
		}
	}
}

func TestTheNewestClaimWins(t *testing.T) {
	set := Set{Sources: []string{"a"}}
	in := Input{Counts: map[string]int32{"a": 2}, Members: []Member{
		{ID: "m1", Generation: 3, Sets: []Set{set}, Owned: []Task{{"a", 0}}},
		{ID: "m2", Generation: 5, Sets: []Set{set}, Owned: []Task{{"a", 0}}},
	}}
	want := map[Task]string{{"a", 0}: "m2", {"a", 1}: "m1"}
	if got := owners(target(in)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDeclarationsThatOverlapAreOneSet(t *testing.T) {
	members := []Member{
		{ID: "m1", Sets: []Set{{Sources: []string{"a"}}, {Sources: []string{"b"}, Tables: []Table{{Name: "t", Changelog: "log"}}}}},
		{ID: "m2", Sets: []Set{{Sources: []string{"b", "c"}}}},
		{ID: "m3", Sets: []Set{{Sources: []string{"d"}, Tables: []Table{{Name: "t", Changelog: "log"}, {Name: "s", Changelog: "src", Source: true}}}}},
		{ID: "m4", Sets: []Set{{Sources: []string{"e"}, Tables: []Table{{Name: "s", Changelog: "src", Source: true}}}}},
	}
	var keys []string
	for _, u := range Unite(members) {
		keys = append(keys, u.Key)
	}
	if want := []string{"a", "b,c,d", "e"}; !slices.Equal(keys, want) {
		t.Errorf("got %v, want %v", keys, want)
	}
}

func TestMembersGetOnlyWhatTheyDeclare(t *testing.T) {
	a, b := Set{Sources: []string{"a"}}, Set{Sources: []string{"b"}}
	in := Input{Counts: map[string]int32{"a": 5, "b": 4}, Options: Options{Replicas: 2}, Members: []Member{
		{ID: "m1", Sets: []Set{a}}, {ID: "m2", Sets: []Set{a, b}}, {ID: "m3", Sets: []Set{b}, NoStandby: true}, {ID: "m4"},
	}}
	if err := Validate(in, target(in)); err != nil {
		t.Error(err)
	}
}

func TestAMissingTopicIsAWarning(t *testing.T) {
	in := Input{Counts: map[string]int32{}, Members: []Member{{ID: "m1", Sets: []Set{{Sources: []string{"gone"}}}}}}
	p := target(in)
	if len(p.Warnings) != 1 || len(p.Members["m1"].Active) != 0 {
		t.Errorf("got %+v", p)
	}
}

func largeInput() *world {
	w := newWorld(1, 1000, 4, 1, 1)
	for topic := range w.in.Counts {
		w.in.Counts[topic] = 2500
	}
	return w
}

func TestALargeGroupIsPlannedFast(t *testing.T) {
	w := largeInput()
	start := time.Now()
	p := target(w.in)
	fresh := time.Since(start)
	w.settle(p, 1)
	w.leave()
	start = time.Now()
	after := target(w.in)
	leave := time.Since(start)
	if err := Validate(w.in, after); err != nil {
		t.Fatal(err)
	}
	t.Logf("1,000 members x 10,000 tasks x 1 replica: fresh %s, after a leave %s", fresh, leave)
	if limit := 5 * time.Second; fresh > limit || leave > limit { // a quadratic plan takes minutes under -race
		t.Errorf("fresh %s, after a leave %s", fresh, leave)
	}
}

// The leader's part of a generation, 1,000 members x 10,000 tasks x 1 replica: Target and Transition.
func BenchmarkPlanFresh1000x10000(b *testing.B) {
	w := largeInput()
	for b.Loop() {
		Transition(w.in, target(w.in))
	}
}

func BenchmarkPlanLeave1000x10000(b *testing.B) {
	w := largeInput()
	w.settle(target(w.in), 1)
	w.leave()
	for b.Loop() {
		Transition(w.in, target(w.in))
	}
}

func ExampleTarget() {
	orders := Set{Sources: []string{"orders"}}
	in := Input{Counts: map[string]int32{"orders": 3}, Options: Options{Replicas: 1}, Members: []Member{
		{ID: "a", Generation: 7, Sets: []Set{orders}, Owned: []Task{{"orders", 0}, {"orders", 1}, {"orders", 2}}},
		{ID: "b", Generation: -1, Sets: []Set{orders}},
	}}
	target, _ := Target(in)
	next := Transition(in, target)
	fmt.Println("target:", target.Members["b"].Active)
	fmt.Printf("next:   %v waits: %+v\n", next.Members["b"].Active, next.Waiting)
	// Output:
	// target: [orders/2]
	// next:   [] waits: [{Task:orders/2 For:a To:b Source: Table:}]
}
