package restore

import (
	"math"
	"testing"
	"time"
)

func TestCheckpoint(t *testing.T) {
	for _, c := range []Checkpoint{
		{Time: time.UnixMilli(0)},
		{TopicID: [16]byte{1, 255}, Next: math.MaxInt64, LeaderEpoch: math.MaxInt32, Time: time.UnixMilli(math.MaxInt64)},
		{Next: 5, LeaderEpoch: -1, Time: time.UnixMilli(time.Now().UnixMilli())},
	} {
		s := c.String()
		got, err := ParseCheckpoint(s)
		if err != nil || got != c || len(s) > 128 {
			t.Errorf("%+v became %+v, %v (%d bytes)", c, got, err, len(s))
		}
	}
	for _, s := range []string{"", "v1:", "v2:abc", "v1:" + "A", Checkpoint{Next: -1}.String(), Checkpoint{LeaderEpoch: -2}.String(),
		Checkpoint{Time: time.UnixMilli(0)}.String() + "A", Checkpoint{Time: time.UnixMilli(0)}.String()[:50]} {
		if c, err := ParseCheckpoint(s); err == nil {
			t.Errorf("%q became %+v", s, c)
		}
	}
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add("")
	f.Add("v1:")
	f.Add(Checkpoint{TopicID: [16]byte{7}, Next: 77, LeaderEpoch: 3, Time: time.UnixMilli(1e12)}.String())
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCheckpoint(s)
		if err == nil && c.String() != s {
			t.Errorf("%q became %+v, which is %q", s, c, c.String())
		}
	})
}
