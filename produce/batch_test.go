package produce

import (
	"math"
	"testing"

	"github.com/pillion/pillion/protocol/frame"
)

func TestSequenceWraps(t *testing.T) {
	for _, c := range [][3]int32{{0, 1, 1}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}, {math.MaxInt32 - 5, 5, math.MaxInt32}} {
		if got := nextSequence(c[0], c[1]); got != c[2] {
			t.Errorf("after %d records from %d: %d, want %d", c[1], c[0], got, c[2])
		}
	}
}

// INVARIANT: a batch is never larger than planned: bounds are bounds.
func FuzzRecordSize(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), []byte("h"), []byte("v"), int64(5), int32(7))
	f.Add([]byte{}, []byte{}, []byte{}, []byte{}, int64(-5), int32(math.MaxInt32))
	f.Fuzz(func(t *testing.T, key, value, hk, hv []byte, time int64, offset int32) {
		if offset < 0 {
			return
		}
		r := frame.Record{Key: key, Value: value, Headers: frame.AppendHeader(frame.AppendHeader(nil, hk, hv), hk, nil)}
		if len(key)%3 == 0 {
			r.Key, r.Value = nil, nil
		}
		got := appendRecord(nil, time, offset, r)
		body := recordBody(time, offset, r)
		if len(got) != varintSize(int64(body))+body || len(got) > recordSize(r) {
			t.Errorf("%d bytes, body said %d, bound %d", len(got), body, recordSize(r))
		}
	})
}

func BenchmarkPlan(b *testing.B) {
	for _, codec := range []string{"none", "lz4"} {
		b.Run(codec, func(b *testing.B) { benchmarkPlan(b, codec) })
	}
}

const benchRecords = 20_000

func benchmarkPlan(b *testing.B, codec string) {
	p, w := planned(b, codec)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.plan(b.Context(), w); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*2*benchRecords)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

func planned(tb testing.TB, codec string) (*Producer, []Write) {
	p, err := newProducer(Config{Compression: codec}, newModel(1, 8))
	if err != nil {
		tb.Fatal(err)
	}
	p.limits.set("topic", defaultLimit)
	p.limits.set("out", defaultLimit)
	var records []rec
	for i := range benchRecords {
		records = append(records, kv(string(rune('a'+i%26))+"-key", "a value of some length, about like a row of a table "+string(rune('a'+i%20))))
	}
	return p, []Write{changelog("topic", 0, writes(records...)), output("out", writes(records...))}
}

// The data path must not allocate for each record.
func TestAllocationsPerRecord(t *testing.T) {
	p, w := planned(t, "lz4")
	perRun := testing.AllocsPerRun(5, func() {
		if _, err := p.plan(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	})
	if per := perRun / (2 * benchRecords); per > 0.01 {
		t.Errorf("%.4f allocations per record", per)
	}
}
