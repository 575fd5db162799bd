package gate_test

import (
	"testing"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol/frame"
)

type nowhere struct{}

func (nowhere) Enqueue(*gate.Gate, uint32, []byte) {}

// What a worker owes a commit for ends behind the last record, not behind the gap or marker after it.
func TestRecordsEndBehindTheLastRecord(t *testing.T) {
	for _, c := range []struct {
		name      string
		offsets   []int64
		times     bool
		next      int64
		records   int64
		delivered int64
	}{
		{"no frame", nil, false, 0, 0, 0},
		{"contiguous", []int64{10, 11}, false, 12, 12, 12},
		{"a marker behind", []int64{10, 11}, true, 13, 12, 13},
		{"gaps", []int64{10, 15}, true, 20, 16, 20},
		{"gaps without times", []int64{12, 15}, false, 16, 16, 16},
		{"no records", []int64{}, false, 30, 0, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			credit := gate.NewCredit(nowhere{}, 1<<20, 1<<20)
			credit.Open(1)
			g := gate.New(1, credit)
			if c.offsets != nil {
				b := frame.NewBuilder(frame.Records)
				b.WithTimestamps(c.times)
				b.Reset(1, 1, 10)
				for _, o := range c.offsets {
					b.Append(o, 1, []byte("k"), []byte("v"), nil)
				}
				if err := g.Send(t.Context(), 1, b.Finish(nil, c.next, nil)); err != nil {
					t.Fatal(err)
				}
			}
			if g.Records() != c.records || g.Delivered() != c.delivered {
				t.Errorf("records up to %d, delivered %d; want %d and %d", g.Records(), g.Delivered(), c.records, c.delivered)
			}
		})
	}
}
