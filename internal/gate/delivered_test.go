package gate

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
)

// Whoever waits has delivered nothing yet; whoever queued has, before the frame can be written.
func TestDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, g := ledger(50, 50, 1)
		frame := func(next uint64) []byte {
			b := make([]byte, 48)
			binary.LittleEndian.PutUint64(b[24:], next)
			return b
		}
		if g.Delivered() != 0 {
			t.Fatal("delivered before the first frame")
		}
		for _, next := range []uint64{7, 9} {
			if err := g.Send(t.Context(), 1, frame(next)); err != nil {
				t.Fatal(err)
			}
		}
		waiting := make(chan error, 1)
		go func() { waiting <- g.Send(t.Context(), 1, frame(12)) }()
		pending(t, waiting)
		if got := g.Delivered(); got != 9 {
			t.Fatalf("delivered %d, want 9", got)
		}
		c.Grant(100, map[uint32]int64{1: 100})
		ended(t, waiting, nil)
		if got := g.Delivered(); got != 12 {
			t.Fatalf("delivered %d, want 12", got)
		}
		g.Close()
		if got := g.Delivered(); got != 12 {
			t.Fatalf("delivered %d after the close, want 12", got)
		}
	})
}
