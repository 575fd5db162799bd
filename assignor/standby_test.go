package assignor

import (
	"slices"
	"testing"
)

// made counts standbys on members that had nothing of the task.
func made(before, after Plan) (n int) {
	for id, share := range after.Members {
		for _, task := range share.Standby {
			had := slices.Contains(before.Members[id].Standby, task) || slices.Contains(before.Members[id].Active, task)
			n += boolInt(!had)
		}
	}
	return n
}

// A member that leaves takes its actives and its copies with it; as many copies are made anew, and more
// only to even them out: each of the others gets at most one more share rounded up.
func TestCopiesStay(t *testing.T) {
	each(cases, func(seed uint64, w *world) {
		if len(w.in.Members) < 3 {
			return
		}
		before := target(w.in)
		w.settle(before, 1)
		w.leave()
		after := target(w.in)
		lost := 0
		for id, share := range before.Members {
			if _, lives := after.Members[id]; !lives {
				lost += len(share.Active) + len(share.Standby)
			}
		}
		// Promotions use copies up, too: at most as many as there were orphans. Odd shares of each set may shift.
		if got, most := made(before, after), lost+len(after.Members)*len(after.Sets); got > most {
			t.Fatalf("seed %d: %d copies made, %d lost", seed, got, lost)
		}
	})
}

// With copies to choose from, the most caught-up becomes the active, and the standby.
func TestTheMostCaughtUpCopyIsPreferred(t *testing.T) {
	set := Set{Sources: []string{"a"}}
	member := func(id string, lag int64) Member {
		return Member{ID: id, Generation: 1, Sets: []Set{set}, Copies: []Copy{{Task{"a", 0}, CoarseLag(lag)}}}
	}
	in := Input{Counts: map[string]int32{"a": 1}, Options: Options{Replicas: 1},
		Members: []Member{member("m1", -1), member("m2", 900), member("m3", 0), member("m4", 70), {ID: "m5", Sets: []Set{set}}}}
	p := target(in)
	if len(p.Members["m3"].Active) != 1 || len(p.Members["m4"].Standby) != 1 {
		t.Errorf("got %+v", p.Members)
	}
}

// A member's tasks are shadowed by many others, not by one: when it dies, no other gets them all.
func TestAMembersTasksHaveManyStandbys(t *testing.T) {
	w := faust(100, 10, 1)
	p := target(w.in)
	for id, share := range p.Members {
		by := map[string]int{}
		for other, s := range p.Members {
			for _, task := range s.Standby {
				by[other] += boolInt(slices.Contains(share.Active, task))
			}
		}
		for other, n := range by {
			if n > 3 {
				t.Errorf("%s shadows %d of the 10 tasks of %s", other, n, id)
			}
		}
	}
}

// A worker that cannot hold copies gets none, and the others have as many as there can be.
func TestMembersThatHoldNoCopies(t *testing.T) {
	each(cases, func(seed uint64, w *world) {
		for i := range w.in.Members {
			w.in.Members[i].NoStandby = w.rnd.IntN(2) == 0
		}
		w.garble()
		p := target(w.in)
		if err := Validate(w.in, p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkBalance(t, seed, p)
		w.settle(p, 9)
		if again := target(w.shuffled()); made(p, again) > 0 {
			t.Fatalf("seed %d: a settled plan moved", seed)
		}
	})
}
