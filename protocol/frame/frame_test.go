package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func mustParse(t testing.TB, b []byte) *Frame {
	t.Helper()
	f, err := Parse(b)
	if err != nil {
		t.Fatalf("parse %x: %v", b, err)
	}
	return f
}

func build(kind Kind, base int64, records ...Record) *Builder {
	b := NewBuilder(kind)
	b.WithTimestamps(true)
	b.Reset(7, 3, base)
	for _, r := range records {
		b.Append(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers)
	}
	return b
}

// same compares with null kept apart from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func sameRecord(a, b Record) bool {
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp &&
		same(a.Key, b.Key) && same(a.Value, b.Value) && bytes.Equal(a.Headers, b.Headers)
}

func randomBytes(r *rand.Rand, limit int) []byte {
	switch r.IntN(5) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, r.IntN(limit))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func randomRecords(r *rand.Rand, base int64) []Record {
	records := make([]Record, r.IntN(40))
	offset, gaps, nulls, headers := base, r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(3) == 0
	for i := range records {
		if gaps && r.IntN(3) == 0 {
			offset += int64(r.IntN(1000))
		}
		records[i] = Record{Offset: offset, Timestamp: r.Int64() - r.Int64(), Key: randomBytes(r, 30), Value: randomBytes(r, 300)}
		if !nulls {
			records[i].Key, records[i].Value = append([]byte{}, records[i].Key...), append([]byte{}, records[i].Value...)
		}
		if headers && r.IntN(2) == 0 {
			for range r.IntN(4) {
				records[i].Headers = AppendHeader(records[i].Headers, randomBytes(r, 10), randomBytes(r, 10))
			}
		}
		offset++
	}
	return records
}

// INVARIANT: Parse(Finish(records)) gives the same records back, null kept apart from empty.
func TestRoundTripGivesTheSameRecordsBack(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		kind, base := Kind(1+r.IntN(3)), int64(1+r.IntN(1<<40))
		records := randomRecords(r, base)
		b := build(kind, base, records...)
		next, checkpoint := base, []byte("v1:checkpoint")
		if len(records) > 0 {
			next = records[len(records)-1].Offset + 1 + int64(r.IntN(5))
		}
		out := b.Finish(nil, next, checkpoint)
		f := mustParse(t, out)
		wantSize := b.Size() + len(f.Checkpoint())
		if len(out) != wantSize {
			t.Fatalf("seed %d: size %d, said %d", seed, len(out), wantSize)
		}
		if kind != Restore {
			checkpoint = nil
		}
		if kind == Writes {
			next = 0
			for i := range records {
				records[i].Offset = int64(i)
			}
		}
		if f.Kind != kind || f.Stream != 7 || f.Epoch != 3 || f.Base != base || f.Next != next || !bytes.Equal(f.Checkpoint(), checkpoint) {
			t.Fatalf("seed %d: header %+v", seed, f.Header)
		}
		if got := slices.Collect(f.Records); !slices.EqualFunc(got, records, sameRecord) {
			t.Fatalf("seed %d:\n got %v\nwant %v", seed, got, records)
		}
	}
}

func TestOffsetDeltasOnlyWhenThereIsAGap(t *testing.T) {
	k := []byte("k")
	f := mustParse(t, build(Records, 5, Record{Offset: 5, Key: k}, Record{Offset: 6, Key: k}).Finish(nil, 7, nil))
	if f.Has(FlagOffsetDeltas) || f.Last() != 6 {
		t.Fatalf("flags %b, last %d", f.Flags, f.Last())
	}
	f = mustParse(t, build(Records, 5, Record{Offset: 5, Key: k}, Record{Offset: 9, Key: k}).Finish(nil, 12, nil))
	if !f.Has(FlagOffsetDeltas) || f.Last() != 9 {
		t.Fatalf("flags %b, last %d", f.Flags, f.Last())
	}
	f = mustParse(t, build(Records, 5).Finish(nil, 9, nil))
	if f.Count != 0 || f.Last() != 4 || f.Next != 9 {
		t.Fatalf("%+v", f.Header)
	}
}

func TestFitsRefusesWhatCannotBeADelta(t *testing.T) {
	b := build(Records, 100, Record{Offset: 100})
	for offset, want := range map[int64]bool{99: false, 100: false, 101: true, 100 + math.MaxInt32: true, 101 + math.MaxInt32: false} {
		if b.Fits(offset) != want {
			t.Errorf("offset %d: fits %v", offset, !want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	b.Append(100, 0, nil, nil, nil)
}

func TestBuilderGivesAGiantBufferUp(t *testing.T) {
	b := NewBuilder(Records)
	b.Reset(1, 1, 0)
	b.Append(0, 0, nil, make([]byte, maxKeep+1), nil)
	b.Reset(1, 1, 1)
	if cap(b.values) != 0 {
		t.Fatalf("kept %d bytes", cap(b.values))
	}
}

func TestHeadersKeepOrderRepeatsAndNulls(t *testing.T) {
	var raw []byte
	want := []string{"a=[1]", "a=[2]", "b=null", "c=[]", "=[0 255]"}
	raw = AppendHeader(raw, []byte("a"), []byte{1})
	raw = AppendHeader(raw, []byte("a"), []byte{2})
	raw = AppendHeader(raw, []byte("b"), nil)
	raw = AppendHeader(raw, []byte("c"), []byte{})
	raw = AppendHeader(raw, nil, []byte{0, 255})
	if err := CheckHeaders(raw); err != nil {
		t.Fatal(err)
	}
	var got []string
	for k, v := range Headers(raw) {
		if v == nil {
			got = append(got, string(k)+"=null")
		} else {
			got = append(got, fmt.Sprintf("%s=%v", k, v))
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for cut := 1; cut < len(raw); cut++ {
		if CheckHeaders(raw[:cut]) == nil {
			t.Fatalf("accepted %d of %d bytes", cut, len(raw))
		}
	}
}

// full is a restore frame with every column.
func full() []byte {
	h := AppendHeader(nil, []byte("h"), []byte("v"))
	b := build(Restore, 10,
		Record{Offset: 11, Timestamp: 1, Key: []byte("k"), Value: nil, Headers: h},
		Record{Offset: 14, Timestamp: 2, Key: nil, Value: []byte("value")})
	b.SetLogAppendTime(true)
	return b.Finish(nil, 20, []byte("v1:x"))
}

func TestParseRefuses(t *testing.T) {
	le := binary.LittleEndian
	// Column places in full(): key lengths 48, value lengths 56, timestamps 64, deltas 80,
	// header lengths 88, value nulls 96, key nulls 97, key blob 98, value blob 99, headers 104.
	for _, c := range []struct {
		name   string
		reason Reason
		change func(b []byte) []byte
	}{
		{"empty", ReasonShort, func([]byte) []byte { return nil }},
		{"short header", ReasonShort, func(b []byte) []byte { return b[:47] }},
		{"version", ReasonVersion, func(b []byte) []byte { b[0] = 2; return b }},
		{"kind 0", ReasonKind, func(b []byte) []byte { b[1] = 0; return b }},
		{"kind 4", ReasonKind, func(b []byte) []byte { b[1] = 4; return b }},
		{"reserved flag", ReasonFlags, func(b []byte) []byte { b[2] |= 64; return b }},
		{"reserved high flag", ReasonFlags, func(b []byte) []byte { b[3] |= 128; return b }},
		{"one byte less", ReasonSize, func(b []byte) []byte { return b[:len(b)-1] }},
		{"one byte more", ReasonSize, func(b []byte) []byte { return append(b, 0) }},
		{"count lies", ReasonSize, func(b []byte) []byte { le.PutUint32(b[12:], math.MaxUint32); return b }},
		{"key bytes lie", ReasonSize, func(b []byte) []byte { le.PutUint32(b[32:], math.MaxUint32); return b }},
		{"blob border moved", ReasonLength, func(b []byte) []byte { b[32]++; b[36]--; return b }},
		{"negative key length", ReasonLength, func(b []byte) []byte { le.PutUint32(b[48:], math.MaxUint32); return b }},
		{"value length one too many", ReasonLength, func(b []byte) []byte { b[60]++; return b }},
		{"null value with a length", ReasonNull, func(b []byte) []byte { b[96] |= 2; return b }},
		{"null key with a length", ReasonNull, func(b []byte) []byte { b[97] |= 1; return b }},
		{"value padding", ReasonPadding, func(b []byte) []byte { b[96] |= 4; return b }},
		{"key padding", ReasonPadding, func(b []byte) []byte { b[97] |= 128; return b }},
		{"equal deltas", ReasonOffset, func(b []byte) []byte { b[84] = 1; return b }},
		{"negative delta", ReasonOffset, func(b []byte) []byte { le.PutUint32(b[80:], math.MaxUint32); return b }},
		{"next not past last", ReasonOffset, func(b []byte) []byte { le.PutUint64(b[24:], 14); return b }},
		{"next before base", ReasonOffset, func(b []byte) []byte { le.PutUint64(b[24:], 9); return b }},
		{"negative base", ReasonOffset, func(b []byte) []byte { le.PutUint64(b[16:], math.MaxUint64); return b }},
		{"header count", ReasonHeader, func(b []byte) []byte { b[104] = 2; return b }},
		{"header key length", ReasonHeader, func(b []byte) []byte { le.PutUint32(b[108:], math.MaxUint32); return b }},
		{"header value length -2", ReasonHeader, func(b []byte) []byte { le.PutUint32(b[113:], math.MaxUint32-1); return b }},
		{"checkpoint byte", ReasonCheckpoint, func(b []byte) []byte { b[len(b)-1] = 0x1f; return b }},
		{"checkpoint in a records frame", ReasonCheckpoint, func(b []byte) []byte { b[1] = byte(Records); return b }},
		{"checkpoint too long", ReasonCheckpoint, func(b []byte) []byte { b[44] = 129; return append(b, make([]byte, 125)...) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.change(slices.Clone(full())))
			var bad *Error
			if !errors.As(err, &bad) || bad.Reason != c.reason {
				t.Fatalf("got %v, want reason %s", err, c.reason)
			}
		})
	}
	mustParse(t, full())
}

func TestParseRefusesWritesWithOffsets(t *testing.T) {
	good := build(Writes, 9, Record{Key: []byte("k"), Value: []byte("v")}).Finish(nil, 0, nil)
	mustParse(t, good)
	for name, change := range map[string]func(b []byte){
		"offset deltas":   func(b []byte) { b[2] |= byte(FlagOffsetDeltas) },
		"log append time": func(b []byte) { b[2] |= byte(FlagLogAppendTime) },
		"next":            func(b []byte) { b[24] = 1 },
		"commit id 0":     func(b []byte) { b[16] = 0 },
		"commit id large": func(b []byte) { b[23] = 1 },
	} {
		b := slices.Clone(good)
		change(b)
		if _, err := Parse(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(full())
	f.Add(build(Writes, 9, Record{Key: []byte("k")}).Finish(nil, 0, nil))
	f.Add(build(Records, 9).Finish(nil, 12, nil))
	f.Add([]byte{1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := Parse(b)
		if err != nil {
			return
		}
		// INVARIANT: what Parse accepts can be read to the end without another check.
		again := NewBuilder(fr.Kind)
		again.WithTimestamps(fr.Has(FlagTimestamps))
		again.SetLogAppendTime(fr.Has(FlagLogAppendTime))
		again.Reset(fr.Stream, fr.Epoch, fr.Base)
		records := slices.Collect(fr.Records)
		for _, r := range records {
			for range Headers(r.Headers) {
			}
			if !again.Fits(r.Offset) {
				t.Fatalf("offset %d does not fit", r.Offset)
			}
			again.Append(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers)
		}
		if len(records) != int(fr.Count) {
			t.Fatalf("%d of %d records", len(records), fr.Count)
		}
		second := mustParse(t, again.Finish(nil, fr.Next, fr.Checkpoint()))
		if !slices.EqualFunc(slices.Collect(second.Records), records, sameRecord) {
			t.Fatal("not the same records after another round")
		}
	})
}
