package frame

import (
	"fmt"
	"testing"
)

var shapes = []struct {
	name  string
	value int
	gaps  bool
}{{"14+30", 30, false}, {"14+110", 110, false}, {"14+110-gaps-nulls", 110, true}, {"14+1000", 1000, false}}

func fill(b *Builder, value []byte, gaps bool) (next int64) {
	key := []byte("key-0123456789")
	b.Reset(1, 1, 1000)
	for at := int64(1000); b.Size() < DefaultTarget; at++ {
		v := value
		if gaps && at%50 == 0 {
			at++
			v = nil
		}
		b.Append(at, 1_700_000_000_000+at, key, v, nil)
		next = at + 1
	}
	return next
}

func BenchmarkBuild(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			value := make([]byte, s.value)
			builder := NewBuilder(Restore)
			var out []byte
			records := 0
			b.ReportAllocs()
			for b.Loop() {
				next := fill(builder, value, s.gaps)
				out = builder.Finish(out[:0], next, []byte("v1:checkpoint"))
				records += builder.Len()
			}
			b.SetBytes(int64(len(out)))
			b.ReportMetric(float64(records)/b.Elapsed().Seconds()/1e6, "Mrec/s")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			builder := NewBuilder(Restore)
			next := fill(builder, make([]byte, s.value), s.gaps)
			out := builder.Finish(nil, next, []byte("v1:checkpoint"))
			b.SetBytes(int64(len(out)))
			b.ReportAllocs()
			records := 0
			for b.Loop() {
				f, err := Parse(out)
				if err != nil {
					b.Fatal(err)
				}
				for r := range f.Records {
					records += len(r.Key) & 1
				}
				records += int(f.Count)
			}
			b.ReportMetric(float64(records)/b.Elapsed().Seconds()/1e6, "Mrec/s")
		})
	}
}

// The data path allocates nothing per record after warm-up.
func TestNoAllocationPerRecord(t *testing.T) {
	for _, s := range shapes {
		t.Run(fmt.Sprint(s.name), func(t *testing.T) {
			value := make([]byte, s.value)
			builder := NewBuilder(Restore)
			builder.WithTimestamps(true)
			out := builder.Finish(nil, fill(builder, value, s.gaps), nil)
			got := testing.AllocsPerRun(20, func() {
				out = builder.Finish(out[:0], fill(builder, value, s.gaps), nil)
			})
			if got != 0 {
				t.Fatalf("building: %v allocations per frame of %d records", got, builder.Len())
			}
			got = testing.AllocsPerRun(20, func() {
				f, _ := Parse(out)
				for range f.Records {
				}
			})
			if got > 2 {
				t.Fatalf("reading: %v allocations per frame", got)
			}
		})
	}
}
