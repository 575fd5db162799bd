package assignor

import (
	"reflect"
	"slices"
	"testing"
)

// A group that goes from any state to its target in steps: in each generation members hold what they
// were given, let go of what they were not, and nobody is given what another still holds.
func TestTransitionReachesTheTarget(t *testing.T) {
	each(cases, func(seed uint64, w *world) {
		w.settle(target(w.in), 1)
		w.join(w.in.Members[0].Sets)
		if len(w.in.Members) > 2 {
			w.leave()
		}
		var goal Plan
		for generation := int32(2); ; generation++ {
			goal = target(w.in)
			next := Transition(w.in, goal)
			if err := ValidateNext(w.in, next); err != nil {
				t.Fatalf("seed %d generation %d: %v", seed, generation, err)
			}
			if len(next.Waiting) == 0 {
				if !reflect.DeepEqual(next.Members, goal.Members) {
					t.Fatalf("seed %d: nothing waits and the target is not reached", seed)
				}
				return
			}
			if generation > 50 {
				t.Fatalf("seed %d: no end", seed)
			}
			w.step(next, generation)
		}
	})
}

// step: everybody takes what it is given; of what is revoked some is released before the next join.
func (w *world) step(next Plan, generation int32) {
	for i := range w.in.Members {
		m := &w.in.Members[i]
		given := next.Members[m.ID].Active
		var owned []Task
		for _, task := range m.Owned {
			if !slices.Contains(given, task) && w.rnd.IntN(3) == 0 {
				owned = append(owned, task) // not released yet
			}
		}
		m.Owned = append(owned, given...)
		m.Generation = generation
	}
}

func TestTransitionOfGarbledClaimsIsValid(t *testing.T) {
	each(cases, func(seed uint64, w *world) {
		w.garble()
		next := Transition(w.in, target(w.in))
		if err := ValidateNext(w.in, next); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if again := Transition(w.shuffled(), target(w.shuffled())); !reflect.DeepEqual(again, next) {
			t.Fatalf("seed %d: another order gave another plan", seed)
		}
	})
}

func TestValidateFindsFaults(t *testing.T) {
	set := Set{Sources: []string{"a"}}
	in := Input{Counts: map[string]int32{"a": 2}, Options: Options{Replicas: 1}, Members: []Member{
		{ID: "m1", Generation: 1, Sets: []Set{set}, Owned: []Task{{"a", 0}}}, {ID: "m2", Sets: []Set{set}}, {ID: "m3"},
	}}
	a0, a1 := Task{"a", 0}, Task{"a", 1}
	plan := func(m1, m2, m3 Share, waiting ...Wait) Plan {
		return Plan{Sets: []United{{Key: "a", Sources: []string{"a"}, Partitions: 2}},
			Members: map[string]Share{"m1": m1, "m2": m2, "m3": m3}, Waiting: waiting}
	}
	good := plan(Share{[]Task{a0}, []Task{a1}}, Share{[]Task{a1}, []Task{a0}}, Share{})
	if err := ValidateNext(in, good); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]Plan{
		"two actives":          plan(Share{[]Task{a0, a1}, nil}, Share{[]Task{a1}, []Task{a0}}, Share{}),
		"no active":            plan(Share{[]Task{a0}, []Task{a1}}, Share{nil, []Task{a0}}, Share{}),
		"no standby":           plan(Share{[]Task{a0}, nil}, Share{[]Task{a1}, []Task{a0}}, Share{}),
		"standby beside":       plan(Share{[]Task{a0}, []Task{a0}}, Share{[]Task{a1}, nil}, Share{}),
		"undeclared":           plan(Share{[]Task{a0}, []Task{a1}}, Share{nil, []Task{a0}}, Share{[]Task{a1}, nil}),
		"out of range":         plan(Share{[]Task{a0, {"a", 2}}, []Task{a1}}, Share{[]Task{a1}, []Task{a0}}, Share{}),
		"unknown set":          plan(Share{[]Task{a0, {"b", 0}}, []Task{a1}}, Share{[]Task{a1}, []Task{a0}}, Share{}),
		"held by another":      plan(Share{[]Task{a1}, []Task{a0}}, Share{[]Task{a0}, []Task{a1}}, Share{}),
		"waits and is active":  plan(Share{[]Task{a0}, []Task{a1}}, Share{[]Task{a1}, []Task{a0}}, Share{}, Wait{Task: a1, For: "m1", To: "m2"}),
		"waits for no holder":  plan(Share{[]Task{a0}, []Task{a1}}, Share{nil, []Task{a0}}, Share{}, Wait{Task: a1, For: "m1", To: "m2"}),
		"stranger in the plan": {Sets: good.Sets, Members: map[string]Share{"m1": good.Members["m1"], "m2": good.Members["m2"], "m4": {}}},
	} {
		if ValidateNext(in, bad) == nil {
			t.Errorf("%s was not found", name)
		}
	}
}
