package assignor

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// warmGroup is a group of one set with a table.
func warmGroup(partitions int32, replicas int, members ...Member) Input {
	set := Set{Sources: []string{"a"}, Tables: []Table{{Name: "t", Changelog: "log"}}}
	for i := range members {
		if members[i].Sets == nil {
			members[i].Sets = []Set{set}
		}
		if members[i].Generation == 0 {
			members[i].Generation = 1
		}
	}
	return Input{Members: members, Counts: map[string]int32{"a": partitions},
		Options: Options{Replicas: replicas, MaxWarmups: 2, AcceptableLag: warmLag}}
}

func tasks(partitions ...int32) (list []Task) {
	for _, p := range partitions {
		list = append(list, Task{"a", p})
	}
	return list
}

func copies(lag int64, partitions ...int32) (list []Copy) {
	for _, p := range partitions {
		list = append(list, Copy{Task{"a", p}, lag})
	}
	return list
}

func transit(t *testing.T, in Input) Plan {
	t.Helper()
	next := Transition(in, target(in))
	if err := ValidateNext(in, next); err != nil {
		t.Fatalf("%v\n%+v", err, next)
	}
	return next
}

// Of three members one dies. The member with the copy of its task is full already: it gets the task all
// the same, and the other one makes a copy.
func TestAnOrphanGoesToItsCopyThoughThatMemberIsFull(t *testing.T) {
	in := warmGroup(4, 1,
		Member{ID: "x", Owned: tasks(0, 1), Copies: copies(5, 2)},
		Member{ID: "y", Owned: tasks(3), Copies: copies(5, 0, 1)},
	)
	in.Members[1].Copies = copies(5, 0)
	in.Members[0].Copies = copies(5, 2, 3)
	next := transit(t, in)
	if at := owners(next)[Task{"a", 2}]; at != "x" {
		t.Errorf("the orphan goes to %q: %+v", at, next)
	}
	if len(next.Warming) != 1 || next.Warming[0].From != "x" || next.Warming[0].To != "y" || next.Warming[0].Later {
		t.Errorf("warming %+v", next.Warming)
	}
	in.Members[0].Owned, in.Members[0].Copies = tasks(0, 1, 2), copies(5, 3)
	in.Members[1].Copies = slices.Concat(copies(5, 0, 1), copies(0, next.Warming[0].Task.Partition))
	next = transit(t, in)
	if len(next.Warming) != 0 || len(next.Waiting) != 1 || next.Waiting[0].For != "x" || next.Waiting[0].To != "y" {
		t.Errorf("once the copy is warm: %+v", next)
	}
}

func TestANewMemberWarmsUpFirst(t *testing.T) {
	in := warmGroup(8, 0, Member{ID: "x", Owned: tasks(0, 1, 2, 3, 4, 5, 6, 7)}, Member{ID: "y", Generation: -1})
	next := transit(t, in)
	begun, later := 0, 0
	for _, w := range next.Warming {
		begun, later = begun+boolInt(!w.Later), later+boolInt(w.Later)
	}
	if begun != 2 || later != 2 || len(next.Members["x"].Active) != 8 || len(next.Members["y"].Standby) != 2 || len(next.Waiting) != 0 {
		t.Fatalf("%+v", next)
	}
	first := next.Members["y"].Standby
	for _, lag := range []int64{UnknownLag, 1 << 20, warmLag + 1} { // not warm yet: it goes on with these
		in.Members[1].Copies = []Copy{{first[0], lag}, {first[1], lag}}
		if next = transit(t, in); !slices.Equal(next.Members["y"].Standby, first) || len(next.Waiting) != 0 {
			t.Fatalf("lag %d: %+v", lag, next)
		}
	}
	in.Members[1].Copies = []Copy{{first[0], warmLag}, {first[1], 1 << 20}}
	next = transit(t, in)
	if len(next.Waiting) != 1 || next.Waiting[0] != (Wait{Task: first[0], For: "x", To: "y"}) || len(next.Members["y"].Standby) != 3 {
		t.Errorf("one is warm: %+v", next)
	}
}

// Where nothing can warm up, or nothing has to, tasks move at once.
// A member that cannot open its copies has begun all that may be made at once. Another one that comes has
// its turn all the same; a copy that gets on is not given up for it.
func TestAStuckWarmUpDoesNotHoldUpOthers(t *testing.T) {
	for lag, want := range map[int64][]string{UnknownLag: {"stuck", "z"}, 4 * warmLag: {"stuck", "stuck"}} {
		in := warmGroup(6, 0, Member{ID: "x", Owned: tasks(0, 1, 2, 3, 4, 5)},
			Member{ID: "stuck", Copies: copies(lag, 3, 4)}, Member{ID: "z", Generation: -1})
		var begun []string
		for _, w := range transit(t, in).Warming {
			if !w.Later {
				begun = append(begun, w.To)
			}
		}
		if slices.Sort(begun); !slices.Equal(begun, want) {
			t.Errorf("lag %d: copies are made by %v, want %v", lag, begun, want)
		}
	}
}

func TestWhatDoesNotWarmUp(t *testing.T) {
	for name, change := range map[string]func(in *Input){
		"off":               func(in *Input) { in.Options.MaxWarmups = 0 },
		"no standbys there": func(in *Input) { in.Members[1].NoStandby = true },
		"no tables": func(in *Input) {
			in.Members[0].Sets, in.Members[1].Sets = []Set{{Sources: []string{"a"}}}, []Set{{Sources: []string{"a"}}}
		},
		"the holder leaves":   func(in *Input) { in.Members[0].Draining = true },
		"it is warm already":  func(in *Input) { in.Members[1].Copies = copies(3, 0, 1) },
		"the holder has died": func(in *Input) { in.Members[0].Owned = nil },
	} {
		in := warmGroup(2, 0, Member{ID: "x", Owned: tasks(0, 1)}, Member{ID: "y", Generation: -1})
		change(&in)
		if next := transit(t, in); len(next.Warming) != 0 || len(next.Members["y"].Active)+len(next.Waiting) == 0 {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

// When nobody is warm, a copy that is much further than the goal's counts all the same.
func TestAnOrphanGoesToTheBestCopyThereIs(t *testing.T) {
	for name, c := range map[string]struct {
		x, y int64
		want string
	}{
		"much better":    {1 << 20, 1 << 30, "x"},
		"not much":       {1 << 20, 1 << 21, "y"},
		"y's is unknown": {1 << 20, UnknownLag, "x"},
		"both unknown":   {UnknownLag, UnknownLag, "y"},
		"y is warm":      {0, warmLag, "y"},
	} {
		in := warmGroup(4, 1, Member{ID: "x", Owned: tasks(0, 1), Copies: copies(c.x, 2)}, Member{ID: "y", Owned: tasks(3), Copies: copies(c.y, 2)})
		if at := owners(transit(t, in))[Task{"a", 2}]; at != c.want {
			t.Errorf("%s: it goes to %q", name, at)
		}
	}
}

// A member that is about to leave does not keep its tasks, and they do not go cold for that.
func TestTasksOfALeavingMemberGoToTheirCopies(t *testing.T) {
	in := warmGroup(4, 1,
		Member{ID: "x", Owned: tasks(0, 1), Copies: copies(0, 2, 3)},
		Member{ID: "y", Owned: tasks(2, 3), Draining: true},
		Member{ID: "z", Generation: -1},
	)
	next := transit(t, in)
	if len(next.Waiting) != 2 || next.Waiting[0].To != "x" || next.Waiting[1].To != "x" || len(next.Warming) != 2 {
		t.Errorf("%+v", next)
	}
}

func TestACapacityIsKept(t *testing.T) {
	in := warmGroup(4, 1, Member{ID: "x", Owned: tasks(0, 1), Copies: copies(0, 2, 3)}, Member{ID: "y", Generation: -1, Owned: nil})
	in.Options.Capacity = 3
	if next := transit(t, in); len(next.Members["x"].Active) != 3 {
		t.Errorf("%+v", next)
	}
}

func TestValidateFindsFaultsOfWarmUps(t *testing.T) {
	in := warmGroup(4, 0, Member{ID: "x", Owned: tasks(0, 1, 2, 3)}, Member{ID: "y", Generation: -1})
	for name, change := range map[string]func(p *Plan){
		"goes cold": func(p *Plan) {
			p.Members["x"] = Share{Active: tasks(1, 2, 3)}
			p.Members["y"] = Share{Standby: tasks(1)}
			p.Warming = []Warmup{{Task{"a", 1}, "x", "y", false}}
			p.Waiting = []Wait{{Task: Task{"a", 0}, For: "x", To: "y"}}
		},
		"no copy is made": func(p *Plan) { p.Members["y"] = Share{} },
		"not named":       func(p *Plan) { p.Warming = nil },
		"of another":      func(p *Plan) { p.Warming[0].From = "y" },
		"to nobody":       func(p *Plan) { p.Warming[0].To = "z" },
		"later":           func(p *Plan) { p.Warming[0].Later = true },
		"no such task":    func(p *Plan) { p.Warming[0].Task.Partition = 9 },
		"too many": func(p *Plan) {
			p.Members["y"], p.Warming = Share{Standby: tasks(0, 1, 2)}, nil
			for _, task := range tasks(0, 1, 2) {
				p.Warming = append(p.Warming, Warmup{task, "x", "y", false})
			}
		},
	} {
		p := transit(t, in)
		change(&p)
		if ValidateNext(in, p) == nil {
			t.Errorf("%s was not found", name)
		}
	}
}

func TestAssignmentsNameWarmUps(t *testing.T) {
	in := warmGroup(8, 0, Member{ID: "x", Owned: tasks(0, 1, 2, 3, 4, 5, 6, 7)}, Member{ID: "y", Generation: -1})
	in.Counts["b"] = 2
	for i := range in.Members {
		in.Members[i].Sets = append(slices.Clone(in.Members[i].Sets), Set{Sources: []string{"b"}})
	}
	next := transit(t, in)
	want := AssignmentOf(next, "y")
	b := must(EncodeAssignment(want))
	got, err := DecodeAssignment(b)
	if err != nil || len(want.Warming) != 2 || !slices.Equal(got.Warming, want.Warming) || got.WarmLag != warmLag {
		t.Fatalf("%+v, %v", got, err)
	}
	if own := got.OwnWarming([]string{"a"}); len(own) != 2 || len(got.OwnWarming([]string{"b"})) != 0 {
		t.Errorf("own %v", own)
	}
	if x := AssignmentOf(next, "x"); len(x.Warming) != 0 {
		t.Errorf("%+v", x)
	}

	// Who does not know of warm-ups reads the rest: it comes before.
	want.Warming = nil
	if old := must(EncodeAssignment(want)); !bytes.HasPrefix(dataOf(b), dataOf(old)) {
		t.Error("what an older reader knows has changed")
	}
	// And who comes later adds behind it.
	e := reader{b: b}
	e.int16()
	e.topicPartitions()
	later := writer{}
	later.int16(assignmentVersion)
	later.topicPartitions(nil)
	later.bytes(append(e.bytes(), 9, 9, 9))
	if got, err = DecodeAssignment(later.b); err != nil || len(got.Warming) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range len(dataOf(b)) {
		cut := writer{}
		cut.int16(assignmentVersion)
		cut.topicPartitions(nil)
		cut.bytes(dataOf(b)[:n])
		if _, err := DecodeAssignment(cut.b); err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// dataOf is the user data of an assignment.
func dataOf(b []byte) []byte {
	e := reader{b: b}
	e.int16()
	e.topicPartitions()
	return e.bytes()
}
