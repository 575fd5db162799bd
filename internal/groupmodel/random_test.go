package groupmodel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Members that do anything at any time: no request is answered twice, a generation is one generation, and
// a group that is left to itself with no request open has nobody in it when all sessions have ended.
func TestModelHoldsItsInvariantsWhateverIsAsked(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &anything{t: t, seed: seed, r: r, c: New(Config{}), now: time.Unix(1000, 0), made: map[int32]string{}, answered: map[Token]bool{}}
		for range 200 {
			w.step()
		}
		for range 100 {
			w.pass(time.Minute)
		}
		if n := len(w.c.Members()); n != 0 || w.c.State() != Empty && w.c.State() != Dead {
			t.Fatalf("seed %d: %d members are left, the group is %s", seed, n, w.c.State())
		}
	}
}

type anything struct {
	t        *testing.T
	seed     uint64
	r        *rand.Rand
	c        *Coordinator
	now      time.Time
	last     Token
	ids      []string
	made     map[int32]string // what was told of each generation
	answered map[Token]bool
}

func (w *anything) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.hear(w.c.Tick(w.now))
	if at := w.c.Deadline(); !at.IsZero() && !at.After(w.now) {
		w.t.Fatalf("seed %d: Tick has left something due", w.seed)
	}
}

func (w *anything) step() {
	if w.r.IntN(4) == 0 {
		w.pass(time.Duration(w.r.IntN(4000)) * time.Millisecond)
		return
	}
	id := ""
	if len(w.ids) > 0 {
		id = w.ids[w.r.IntN(len(w.ids))]
	}
	generation := w.c.Generation() - int32(w.r.IntN(4)/3)
	w.last++
	var req Request
	switch w.r.IntN(10) {
	case 0:
		req = JoinGroup{Session: 10 * time.Second, Rebalance: 10 * time.Second}
	case 1:
		req = JoinGroup{Instance: "i", Session: 10 * time.Second, Rebalance: 10 * time.Second, KnowsSkip: w.r.IntN(2) == 0}
	case 2, 3, 4:
		req = JoinGroup{Member: id, Session: 10 * time.Second, Rebalance: 10 * time.Second, Metadata: fmt.Sprint(w.r.IntN(3))}
	case 5, 6:
		req = SyncGroup{Member: id, Generation: generation}
	case 7:
		req = Heartbeat{Member: id, Generation: generation}
	case 8:
		req = LeaveGroup{Member: id}
	default:
		if w.r.IntN(10) == 0 {
			w.hear(w.c.Move(w.now, time.Duration(w.r.IntN(2))*time.Second))
			return
		}
		req = OffsetCommit{Member: id, Generation: generation}
	}
	w.hear(w.c.Ask(w.now, w.last, req))
}

func (w *anything) hear(answers []Answer) {
	for _, a := range answers {
		if a.To == 0 || w.answered[a.To] {
			w.t.Fatalf("seed %d: request %d is answered again", w.seed, a.To)
		}
		w.answered[a.To] = true
		if a.Member != "" {
			w.ids = append(w.ids, a.Member)
		}
		if len(a.Members) > 0 && !a.Skip {
			told := fmt.Sprint(a.Leader, a.Members)
			if was, ok := w.made[a.Generation]; ok && was != told && w.c.Node() == 1 && w.c.static("i") == nil {
				w.t.Fatalf("seed %d: generation %d is %s and %s", w.seed, a.Generation, was, told)
			}
			w.made[a.Generation] = told
		}
	}
}
