package gate

import (
	"testing"
	"testing/synctest"
)

// INVARIANT of standbys: they do not starve what is not theirs.
func TestStreamsThatGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, active := ledger(400, 400, 1, 2)
		copies := New(1, c)
		c.Yield(2, true)
		frame := make([]byte, 60)
		sent := func(g *Gate, stream uint32) chan error {
			done := make(chan error, 1)
			go func() { done <- g.Send(t.Context(), stream, frame) }()
			synctest.Wait()
			return done
		}
		ended(t, sent(copies, 2), nil)
		ended(t, sent(copies, 2), nil) // 60 of the 100 were used: one more
		waits := sent(copies, 2)
		pending(t, waits)
		for range 4 { // the rest of the window is for others
			ended(t, sent(active, 1), nil)
		}
		last := sent(active, 1)
		ended(t, last, nil) // 360 of 400: one more
		behind := sent(active, 1)
		pending(t, behind)
		c.Grant(400+120, map[uint32]int64{2: 400 + 120})
		ended(t, behind, nil) // it came later, and goes first
		ended(t, waits, nil)
		c.Yield(2, false)
		c.Yield(2, false)
		if c.yielding != 0 {
			t.Errorf("%d bytes of nobody", c.yielding)
		}
	})
}

// A stream that gives way and is forgotten leaves its room to the others of its kind.
func TestAForgottenStreamGivesNoWayAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, g := ledger(400, 400, 1, 2)
		c.Yield(1, true)
		c.Yield(2, true)
		if err := g.Send(t.Context(), 1, make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 1)
		go func() { waits <- g.Send(t.Context(), 2, make([]byte, 10)) }()
		pending(t, waits)
		c.Forget(1)
		ended(t, waits, nil)
		c.Refund(2, 10)
		if c.yielding != 0 {
			t.Errorf("%d bytes of nobody", c.yielding)
		}
	})
}
