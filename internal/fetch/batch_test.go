package fetch

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol/frame"
)

func TestPositions(t *testing.T) {
	txn := int16(attrTransactional)
	for _, tt := range []struct {
		name    string
		from    int64
		until   int64
		batches []handmade
		want    []int64
		next    int64
		epoch   int32
	}{
		{"whole", 0, -1, []handmade{{records: kv(3)}, {base: 3, records: kv(2), epoch: 4}}, []int64{0, 1, 2, 3, 4}, 5, 4},
		{"starts before what is wanted", 2, -1, []handmade{{records: kv(4)}}, []int64{2, 3}, 4, 0},
		{"a batch that is all before", 5, -1, []handmade{{records: kv(3)}, {base: 3, records: kv(4)}}, []int64{5, 6}, 7, 0},
		{"compacted inside", 0, -1, []handmade{{deltas: []int64{1, 5, 6}, records: kv(3), last: 9}}, []int64{1, 5, 6}, 10, 0},
		{"compacted to nothing", 0, -1, []handmade{{last: 9, epoch: 2}}, nil, 10, 2},
		{"a gap between batches", 0, -1, []handmade{{records: kv(1)}, {base: 100, records: kv(1)}}, []int64{0, 100}, 101, 0},
		{"a marker", 0, -1, []handmade{{records: kv(1), producer: 7, attributes: txn}, marker(1, 7, true)}, []int64{0}, 2, 0},
		{"only a marker", 4, -1, []handmade{marker(4, 7, true)}, nil, 5, 0},
		{"until inside a batch", 0, 2, []handmade{{records: kv(4)}}, []int64{0, 1}, 2, 0},
		{"until at the end of a batch", 0, 4, []handmade{{records: kv(4)}, {base: 4, records: kv(4)}}, []int64{0, 1, 2, 3}, 4, 0},
		{"until in a gap inside a batch", 0, 3, []handmade{{deltas: []int64{0, 8}, records: kv(2)}}, []int64{0}, 3, 0},
		{"until in a gap between batches", 0, 50, []handmade{{records: kv(1)}, {base: 100, records: kv(1)}}, []int64{0}, 50, 0},
		{"until by a marker", 0, 2, []handmade{{records: kv(1), producer: 7, attributes: txn}, marker(1, 7, true)}, []int64{0}, 2, 0},
		{"until in a compacted tail", 0, 7, []handmade{{last: 9}}, nil, 7, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := part("t", 0, nil)
			in.Offset, in.Until = tt.from, tt.until
			c, p, err := decode(t, in, tt.batches...)
			if err != nil {
				t.Fatal(err)
			}
			if got := offsets(c.records); !slices.Equal(got, tt.want) {
				t.Errorf("records %v, want %v", got, tt.want)
			}
			if c.pos.Next != tt.next || p.pos.Next != tt.next || c.pos.LeaderEpoch != tt.epoch {
				t.Errorf("position %+v, want next %d epoch %d", c.pos, tt.next, tt.epoch)
			}
			if got := p.reached(); got != (tt.until >= 0) {
				t.Errorf("reached %v", got)
			}
		})
	}
}

func TestAbortedTransactionsAreLeftOut(t *testing.T) {
	txn := int16(attrTransactional)
	data := func(base, producer int64) handmade {
		return handmade{base: base, producer: producer, attributes: txn, records: kv(2)}
	}
	for _, tt := range []struct {
		name    string
		aborts  []aborted
		batches []handmade
		want    []int64
	}{
		{"none", nil, []handmade{data(0, 7), marker(2, 7, true)}, []int64{0, 1}},
		{"one", []aborted{{7, 0}}, []handmade{data(0, 7), marker(2, 7, false), data(3, 7)}, []int64{3, 4}},
		{"twice the same producer", []aborted{{7, 0}, {7, 6}}, []handmade{
			data(0, 7), marker(2, 7, false), data(3, 7), marker(5, 7, true), data(6, 7), marker(8, 7, false), data(9, 7),
		}, []int64{3, 4, 9, 10}},
		{"interleaved", []aborted{{7, 0}}, []handmade{data(0, 7), data(2, 8), data(4, 7), marker(6, 8, true), marker(7, 7, false)}, []int64{2, 3}},
		{"the later one ends first", []aborted{{8, 2}, {7, 0}}, []handmade{data(0, 7), data(2, 8), marker(4, 8, false), data(5, 7), data(7, 9), marker(9, 7, false)}, []int64{7, 8}},
		{"began before the answer", []aborted{{7, -5}}, []handmade{data(0, 7), marker(2, 7, false)}, nil},
		{"not transactional", []aborted{{7, 0}}, []handmade{{producer: 7, records: kv(2)}}, []int64{0, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCollector(t)
			in := part("t", 0, c)
			p := newPump(idle(t, nil), in)
			var raw []byte
			for _, b := range tt.batches {
				raw = append(raw, b.encode(t)...)
			}
			if err := feed(p, raw, tt.aborts...); err != nil {
				t.Fatal(err)
			}
			if got := offsets(c.records); !slices.Equal(got, tt.want) {
				t.Errorf("records %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTimestampTypesAreKeptApart(t *testing.T) {
	at := func(ms int64) []kafkatest.Record {
		r := kv(2)
		for i := range r {
			r[i].Timestamp = time.UnixMilli(ms + int64(i))
		}
		return r
	}
	batches := []handmade{
		{records: at(1000), firstTime: 900, maxTime: 1001},
		{base: 2, records: at(1000), attributes: attrLogAppendTime, maxTime: 5000},
		{base: 4, records: at(-1), firstTime: -1, maxTime: -1},
	}
	c, _, err := decode(t, part("t", 0, nil), batches...)
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, r := range c.records {
		got = append(got, r.Timestamp.UnixMilli())
		if r.LogAppendTime != (r.Offset == 2 || r.Offset == 3) {
			t.Errorf("offset %d: log append time %v", r.Offset, r.LogAppendTime)
		}
	}
	if want := []int64{1000, 1001, 5000, 5000, -1, 0}; !slices.Equal(got, want) || len(c.frames) != 3 {
		t.Errorf("%d frames with times %v, want 3 with %v", len(c.frames), got, want)
	}
	in := part("t", 0, nil)
	in.Timestamps = false
	if c, _, err = decode(t, in, batches...); err != nil || len(c.frames) != 1 || c.frames[0].Has(frame.FlagTimestamps) {
		t.Errorf("without timestamps: %d frames, %v", len(c.frames), err)
	}
}

func TestHeadersOnlyWhenWanted(t *testing.T) {
	r := kv(3)
	r[1].Headers = []kafkatest.Header{{Key: "a", Value: []byte{1}}, {Key: "a"}, {Key: "", Value: []byte{}}}
	for _, wanted := range []bool{true, false} {
		in := part("t", 0, nil)
		in.Headers = wanted
		c, _, err := decode(t, in, handmade{records: r})
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(r)
		if !wanted {
			want[1].Headers = nil
		}
		for i := range want {
			want[i].Offset = int64(i)
		}
		same(t, c.records, want)
		if c.frames[0].Has(frame.FlagHeaders) != wanted {
			t.Errorf("wanted %v: flags %b", wanted, c.frames[0].Flags)
		}
	}
}

func TestDistantOffsetsAreCut(t *testing.T) {
	far := int64(math.MaxInt32) + 10
	c, p, err := decode(t, part("t", 0, nil),
		handmade{records: kv(1)}, handmade{base: far, records: kv(1)}, handmade{base: far + math.MaxInt32, records: kv(1)})
	if err != nil {
		t.Fatal(err)
	}
	if got := offsets(c.records); !slices.Equal(got, []int64{0, far, far + math.MaxInt32}) || p.pos.Next != far+math.MaxInt32+1 {
		t.Errorf("records %v, position %d", got, p.pos.Next)
	}
}

func TestLargeRecords(t *testing.T) {
	big := kafkatest.Record{Key: []byte("k"), Value: make([]byte, 1<<20)}
	small := kafkatest.KV("k", "v")
	records := []kafkatest.Record{small, small, big, small}
	c, _, err := decode(t, part("t", 0, nil), handmade{records: records})
	if err != nil {
		t.Fatal(err)
	}
	var counts []uint32
	for _, f := range c.frames {
		counts = append(counts, f.Count)
	}
	if !slices.Equal(counts, []uint32{2, 1, 1}) {
		t.Errorf("frames of %v records: a record larger than a frame travels alone", counts)
	}

	in := part("t", 0, nil)
	in.MaxFrame = 500 << 10
	c, _, err = decode(t, in, handmade{base: 10, records: records})
	large := as[*RecordTooLargeError](t, err)
	if large.Offset != 12 || large.Limit != in.MaxFrame || large.Size < 1<<20 || c.pos.Next != 12 || len(c.records) != 2 {
		t.Errorf("%v at %+v", large, c.pos)
	}

	exact := 48 + 8 + 8 + 1 + 1<<20
	in.MaxFrame = int64(exact)
	if _, _, err = decode(t, in, handmade{records: records[2:3]}); err != nil {
		t.Errorf("a record that just fits: %v", err)
	}
	in.MaxFrame--
	_, _, err = decode(t, in, handmade{records: records[2:3]})
	as[*RecordTooLargeError](t, err)
}

func TestCutLastBatchIsLeft(t *testing.T) {
	whole := handmade{records: kv(3)}.encode(t)
	next := handmade{base: 3, records: kv(3)}.encode(t)
	for _, n := range []int{1, 11, 16, 17, 60, len(next) - 1} {
		c := newCollector(t)
		p := newPump(idle(t, nil), part("t", 0, c))
		if err := feed(p, append(slices.Clone(whole), next[:n]...)); err != nil {
			t.Fatalf("%d bytes of the next: %v", n, err)
		}
		if c.pos.Next != 3 {
			t.Errorf("%d bytes of the next: position %d", n, c.pos.Next)
		}
	}
}

func TestBadBatches(t *testing.T) {
	record := appendRecord(nil, kafkatest.KV("k", "v"), 0, 0)
	second := appendRecord(nil, kafkatest.KV("k", "v"), 0, 1)
	change := func(i int, to byte) []byte {
		b := slices.Clone(record)
		b[i] = to
		return b
	}
	for _, tt := range []struct {
		name string
		bad  handmade
		want string
		good int64 // records of the bad batch before what is bad
	}{
		{"checksum", handmade{records: kv(1), badCRC: true}, "checksum", 0},
		{"too few records", handmade{body: record, count: 2, last: 1}, "cut", 1},
		{"too many records", handmade{body: append(slices.Clone(record), second...), count: 1, last: 1}, "after the last record", 1},
		{"record longer than batch", handmade{body: change(0, 60), count: 1}, "cut", 0},
		{"negative record", handmade{body: change(0, 61), count: 1}, "cut", 0},
		{"negative key", handmade{body: change(4, 3), count: 1}, "cut", 0},
		{"key past the record", handmade{body: change(4, 40), count: 1}, "cut", 0},
		{"headers that are not there", handmade{body: change(len(record)-1, 2), count: 1}, "headers", 0},
		{"negative headers", handmade{body: change(len(record)-1, 1), count: 1}, "headers", 0},
		{"offset past the last", handmade{body: change(3, 2), count: 1}, "order", 0},
		{"offset twice", handmade{body: append(slices.Clone(record), record...), count: 2, last: 1}, "order", 1},
		{"more records than offsets", handmade{records: kv(1), count: 5}, "last delta", 0},
		{"unknown codec", handmade{records: kv(1), attributes: 5}, "compression 5", 0},
		{"bad gzip", handmade{attributes: codecGzip, body: []byte("x"), count: 1}, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.bad.base = 2
			c, _, err := decode(t, part("t", 3, nil), handmade{records: kv(2)}, tt.bad)
			bad := as[*CorruptError](t, err)
			if !strings.Contains(bad.Reason, tt.want) || bad.Topic != "t" || bad.Partition != 3 || bad.Position != 2+tt.good {
				t.Errorf("%v", bad)
			}
			if c.pos.Next != 2+tt.good || int64(len(c.records)) != 2+tt.good {
				t.Errorf("what was good before: position %d, %d records", c.pos.Next, len(c.records))
			}
		})
	}
}

func TestOldFormatsAreNamed(t *testing.T) {
	c, _, err := decode(t, part("t", 3, nil), handmade{records: kv(2)}, handmade{base: 2, magic: 1, records: kv(1)})
	if old := as[*FormatError](t, err); old.Magic != 1 || old.Position != 2 || c.pos.Next != 2 {
		t.Errorf("%v", old)
	}
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		t.Error("an old format is not corrupt")
	}
}

func TestAnswerWithoutProgressIsCorrupt(t *testing.T) {
	in := part("t", 0, nil)
	in.Offset = 50
	_, _, err := decode(t, in, handmade{records: kv(2)})
	as[*CorruptError](t, err)
}

func TestSinkErrorsAreItsOwn(t *testing.T) {
	c := newCollector(t)
	c.refuse = errors.New("no")
	p := newPump(idle(t, nil), part("t", 0, c))
	err := feed(p, handmade{records: kv(2)}.encode(t))
	if !errors.Is(err, c.refuse) || classify(err) != fatal {
		t.Errorf("%v", err)
	}
}

func TestCheckpointsGoIntoRestoreFrames(t *testing.T) {
	c := newCollector(t)
	in := part("t", 0, c)
	in.Kind = frame.Restore
	in.Checkpoint = func(next int64, epoch int32) []byte { return []byte{byte('0' + next), byte('a' + epoch)} }
	p := newPump(idle(t, nil), in)
	if err := feed(p, append(handmade{records: kv(2), epoch: 1}.encode(t), handmade{base: 2, last: 3, epoch: 2}.encode(t)...)); err != nil {
		t.Fatal(err)
	}
	if got := string(c.frames[0].Checkpoint()); got != "6c" {
		t.Errorf("checkpoint %q", got)
	}
}
