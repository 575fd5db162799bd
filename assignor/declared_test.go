package assignor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// upgrade is a group in which members declare a set differently, some are about to leave, and claims in
// Kafka name whatever they name.
func (w *world) upgrade() {
	logs := []string{"log-a", "log-b", "log-c"}
	w.in.Counts = map[string]int32{"one": int32(1 + w.rnd.IntN(12))}
	w.in.Counts["two"] = w.in.Counts["one"]
	w.in.Claims = map[Task]Claim{}
	for i := range w.in.Members {
		m := &w.in.Members[i]
		s := Set{Sources: []string{"one"}}
		if w.rnd.IntN(3) > 0 {
			s.Sources = append(s.Sources, "two")
		}
		for _, log := range logs {
			if w.rnd.IntN(3) > 0 {
				s.Tables = append(s.Tables, Table{Name: log, Changelog: log})
			}
		}
		m.Sets = []Set{s}
		m.Draining, m.NoStandby = w.rnd.IntN(6) == 0, w.rnd.IntN(6) == 0
	}
	for p := range w.in.Counts["one"] {
		for _, set := range []string{"one", "two", "one,two"} {
			claim := Claim{Sources: []string{"one"}}
			for _, log := range append(logs, "log-gone") {
				if w.rnd.IntN(8) == 0 {
					claim.Changelogs = append(claim.Changelogs, log)
				}
			}
			w.in.Claims[Task{set, p}] = claim
		}
	}
	w.garble()
}

// named are the tables that the claims of a task name and that a member keeps that is not about to leave.
func named(in Input, partition int32) []string {
	var logs []string
	for t, claim := range in.Claims {
		for _, log := range claim.Changelogs {
			if t.Partition == partition && slices.ContainsFunc(in.Members, func(m Member) bool { return !m.Draining && keeps(m, log) }) {
				logs = append(logs, log)
			}
		}
	}
	slices.Sort(logs)
	return slices.Compact(logs)
}

func keeps(m Member, log string) bool {
	return slices.ContainsFunc(m.Sets[0].Tables, func(t Table) bool { return t.Changelog == log })
}

// INVARIANT: while a member that is not about to leave declares a table that the claim names, the task
// is active and standby only on members that declare all such tables.
func TestNoTableGetsAHole(t *testing.T) {
	each(2*cases, func(seed uint64, w *world) {
		w.upgrade()
		p := target(w.in)
		next := Transition(w.in, p)
		for _, err := range []error{Validate(w.in, p), ValidateNext(w.in, next)} {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if again := target(w.shuffled()); !reflect.DeepEqual(again, p) {
			t.Fatalf("seed %d: another order gave another plan", seed)
		}
		for _, m := range w.in.Members {
			share := p.Members[m.ID]
			for _, task := range slices.Concat(share.Active, share.Standby, next.Members[m.ID].Active, next.Members[m.ID].Standby) {
				if m.Draining {
					t.Fatalf("seed %d: %s is about to leave and gets %s", seed, m.ID, task)
				}
				for _, log := range named(w.in, task.Partition) {
					if !keeps(m, log) {
						t.Fatalf("seed %d: %s gets %s and does not keep %s", seed, m.ID, task, log)
					}
				}
			}
		}
		w.checkWaits(t, seed, p)
	})
}

// checkWaits: what has no active waits, and only if nobody may have it; and so does each source that
// the active does not read.
func (w *world) checkWaits(t *testing.T, seed uint64, p Plan) {
	t.Helper()
	now := owners(p)
	for _, u := range p.Sets {
		for partition := range u.Partitions {
			task := Task{u.Key, partition}
			may := 0
			for _, m := range w.in.Members {
				fits := !m.Draining
				for _, log := range named(w.in, partition) {
					fits = fits && keeps(m, log)
				}
				may += boolInt(fits)
			}
			if _, active := now[task]; active != (may > 0) {
				t.Fatalf("seed %d: %s is active: %t, and %d may have it", seed, task, active, may)
			}
			for _, source := range u.Sources {
				i := slices.IndexFunc(w.in.Members, func(m Member) bool { return m.ID == now[task] })
				unread := i >= 0 && !slices.Contains(w.in.Members[i].Sets[0].Sources, source)
				if unread != slices.ContainsFunc(p.Waiting, func(w Wait) bool { return w.Task == task && w.Source == source }) {
					t.Fatalf("seed %d: that %s of %s waits is not named, or it does not", seed, source, task)
				}
			}
		}
	}
}

func TestWhatWaitsIsNamed(t *testing.T) {
	table := func(logs ...string) (tables []Table) {
		for _, log := range logs {
			tables = append(tables, Table{Name: log, Changelog: log})
		}
		return tables
	}
	in := Input{Counts: map[string]int32{"a": 2, "b": 2}, Members: []Member{
		{ID: "m1", Sets: []Set{{Sources: []string{"a"}, Tables: table("x")}}},
		{ID: "m2", Sets: []Set{{Sources: []string{"a", "b"}, Tables: table("y")}}},
	}, Claims: map[Task]Claim{{"a", 0}: {Changelogs: []string{"x", "y"}}, {"b", 1}: {Changelogs: []string{"x", "gone"}}}}
	p := target(in)
	want := []Wait{{Task: Task{"a,b", 0}, Table: "x"}, {Task: Task{"a,b", 1}, Source: "b"}}
	if !slices.Equal(p.Waiting, want) || len(p.Warnings) != 2 || !slices.Equal(p.Members["m1"].Active, []Task{{"a,b", 1}}) {
		t.Errorf("got %+v", p)
	}
	in.Members[0].Draining, in.Members[1].Draining = true, true
	in.Members[0].Owned = []Task{{"a", 1}}
	p = target(in)
	want = []Wait{{Task: Task{"a,b", 0}}, {Task: Task{"a,b", 1}, For: "m1"}}
	if !slices.Equal(p.Waiting, want) || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "about to leave") {
		t.Errorf("all drain: got %+v", p)
	}
	if err := ValidateNext(in, Transition(in, p)); err != nil {
		t.Error(err)
	}
}

// A member that drains hands its tasks on one by one, as it lets go of them.
func TestADrain(t *testing.T) {
	w := newWorld(1, 3, 1, 1, 1)
	for topic := range w.in.Counts {
		w.in.Counts[topic] = 6
	}
	w.settle(target(w.in), 1)
	before := target(w.in)
	leaving := &w.in.Members[0]
	leaving.Draining = true
	slow := leaving.Owned[1]
	leaving.Owned = []Task{slow}
	goal := target(w.in)
	next := Transition(w.in, goal)
	if err := ValidateNext(w.in, next); err != nil {
		t.Fatal(err)
	}
	to := owners(goal)[slow]
	if len(next.Waiting) != 1 || next.Waiting[0] != (Wait{Task: slow, For: leaving.ID, To: to}) {
		t.Errorf("waits %+v", next.Waiting)
	}
	if slices.Contains(before.Members[to].Standby, slow) && !slices.Contains(next.Members[to].Standby, slow) {
		t.Errorf("the copy of %s that will be promoted is given up", slow)
	}
	if share := goal.Members[leaving.ID]; len(share.Active)+len(share.Standby) > 0 {
		t.Errorf("the leaving member gets %+v", share)
	}
	if m := MovesOf(w.in, goal); m != (Moves{1, 0}) {
		t.Errorf("moves %+v", m)
	}
}

// A holder that becomes a standby is listed as one of its own task, beyond their number; the next
// active keeps its copy.
func TestAHolderBecomesAStandby(t *testing.T) {
	each(cases, func(seed uint64, w *world) {
		w.garble()
		goal := target(w.in)
		next := Transition(w.in, goal)
		for _, wait := range next.Waiting {
			if wait.For == "" {
				continue
			}
			if slices.Contains(goal.Members[wait.For].Standby, wait.Task) != slices.Contains(next.Members[wait.For].Standby, wait.Task) {
				t.Fatalf("seed %d: %s holds %s", seed, wait.For, wait.Task)
			}
			for _, m := range w.in.Members {
				if m.ID == wait.To && w.in.Options.Replicas > 0 && slices.ContainsFunc(m.Copies, func(c Copy) bool { return c.Task == wait.Task }) &&
					!slices.Contains(next.Members[m.ID].Standby, wait.Task) {
					t.Fatalf("seed %d: %s gives up its copy of %s", seed, m.ID, wait.Task)
				}
			}
		}
	})
}

func TestCapacityWhereOnlyFewMayHaveTheTasks(t *testing.T) {
	in := Input{Counts: map[string]int32{"a": 4}, Claims: map[Task]Claim{}, Options: Options{Capacity: 2}, Members: []Member{
		{ID: "m1", Sets: []Set{{Sources: []string{"a"}, Tables: []Table{{Name: "t", Changelog: "t"}}}}}, {ID: "m2", Sets: []Set{{Sources: []string{"a"}}}},
	}}
	for p := range int32(3) {
		in.Claims[Task{"a", p}] = Claim{Changelogs: []string{"t"}}
	}
	if _, err := Target(in); fmt.Sprintf("%T", err) != "*assignor.CapacityError" {
		t.Errorf("got %v", err)
	}
	in.Options.Capacity = 0
	if p := target(in); len(p.Members["m1"].Active) != 3 {
		t.Errorf("got %+v", p)
	}
}
