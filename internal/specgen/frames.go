package specgen

import (
	"bytes"
	"encoding/hex"
	"math"
)

// FrameVectors is one file of spec/vectors/frames.
type FrameVectors struct {
	Kind    string         `json:"kind"`
	Valid   []ValidFrame   `json:"valid"`
	Invalid []InvalidFrame `json:"invalid"`
}

// ValidFrame is a frame's bytes and what they mean.
type ValidFrame struct {
	Name  string `json:"name"`
	Hex   string `json:"hex"`
	Frame Frame  `json:"frame"`
}

// InvalidFrame is bytes that must be refused, and the rule that they break.
type InvalidFrame struct {
	Name   string `json:"name"`
	Hex    string `json:"hex"`
	Reason string `json:"reason"`
}

func long(n int64) *Long { l := Long(n); return &l }

func text(s string) Bytes { return append(Bytes{}, s...) }

// frameOf makes a frame of one kind at base 10; positions follow the records.
func frameOf(kind string, records ...Record) Frame {
	f := Frame{Kind: kind, Stream: 12, Epoch: 7, Records: records}
	if records == nil {
		f.Records = []Record{}
	}
	if kind == "writes" {
		f.Commit = long(10)
		return f
	}
	f.Base, f.Next = long(10), long(10+int64(len(records)))
	for i := range records {
		if records[i].Offset == nil {
			records[i].Offset = long(10 + int64(i))
		}
	}
	if len(records) > 0 {
		*f.Next = *records[len(records)-1].Offset + 1
	}
	if kind == "restore" {
		f.Checkpoint = "v1:checkpoint"
	}
	return f
}

func kv(key, value string) Record { return Record{Key: text(key), Value: text(value)} }

func timed(at int64, r Record) Record { r.Timestamp = long(at); return r }

func offset(at int64, r Record) Record { r.Offset = long(at); return r }

// frameVectors gives the vectors of one kind.
func frameVectors(kind string) FrameVectors {
	v := FrameVectors{Kind: kind}
	add := func(name string, f Frame, extra uint16) {
		v.Valid = append(v.Valid, ValidFrame{name, hex.EncodeToString(rawOf(f, extra).bytes()), f})
	}
	add("no records", frameOf(kind), 0)
	add("one record", frameOf(kind, kv("key", "value")), 0)
	add("no records, every column flagged", frameOf(kind), fTimestamps|fHeaders|fNullValues|fNullKeys)
	add("null beside empty", frameOf(kind, Record{Key: text("a")}, kv("b", ""), Record{Value: text("x")}, kv("", "y"), Record{}, kv("", "")), 0)
	var nine []Record
	for i := range 9 { // two bytes of null bits
		nine = append(nine, Record{Key: text(string(rune('a' + i)))})
		if i%2 == 0 {
			nine[i].Value = text("v")
		}
	}
	add("nine records, every other value null", frameOf(kind, nine...), 0)
	add("eight nulls fill a byte", frameOf(kind, make([]Record, 8)...), 0)
	add("nine records, the last key null", frameOf(kind, append(manyKeys(8), Record{Value: text("v")})...), 0)
	add("null bits flagged, none set", frameOf(kind, kv("a", "1"), kv("b", "2")), fNullValues|fNullKeys)
	add("timestamps", frameOf(kind, timed(0, kv("a", "1")), timed(-1, kv("b", "2")), timed(1357020000000, kv("c", "3")),
		timed(math.MaxInt64, kv("d", "4")), timed(math.MinInt64, kv("e", "5"))), 0)
	add("headers repeated, binary, null and empty", frameOf(kind,
		Record{Key: text("a"), Value: text("1"), Headers: [][2]Bytes{{text("h"), text("1")}, {text("h"), text("2")}, {text("n"), nil}, {text("e"), text("")}, {text(""), {0, 0xff, 0x80}}}},
		kv("b", "2"),
		Record{Key: text("c"), Value: text("3"), Headers: [][2]Bytes{{text("ключ"), text("значение")}}}), 0)
	add("binary keys and values", frameOf(kind, Record{Key: Bytes{0, 1, 0xfe, 0xff}, Value: Bytes{0x80}}, Record{Key: Bytes{0xc3}, Value: Bytes{0}}), 0)
	add("a large value", frameOf(kind, Record{Key: text("k"), Value: bytes.Repeat([]byte("0123456789"), 700)}), 0)
	zero := frameOf(kind, kv("a", "1"))
	zero.Stream, zero.Epoch = math.MaxUint32, math.MaxUint32
	add("largest stream and epoch", zero, 0)
	if kind == "writes" {
		largest := frameOf(kind, kv("a", "1"))
		largest.Commit = long(maxInteger)
		add("largest commit id", largest, 0)
		first := frameOf(kind, kv("a", "1"))
		first.Commit = long(1)
		add("commit id 1", first, 0)
	} else {
		addPositions(kind, add)
	}
	addSection(kind, &v)
	v.Invalid = invalidFrames(kind)
	return v
}

func manyKeys(n int) []Record {
	var list []Record
	for i := range n {
		list = append(list, kv(string(rune('a'+i)), "v"))
	}
	return list
}

// addPositions adds what only frames with offsets have.
func addPositions(kind string, add func(string, Frame, uint16)) {
	add("gaps", frameOf(kind, offset(10, kv("a", "1")), offset(13, kv("b", "2")), offset(14, kv("c", "3")), offset(900, kv("d", "4"))), 0)
	add("a gap before the first record", frameOf(kind, offset(12, kv("a", "1")), offset(13, kv("b", "2"))), 0)
	add("largest delta", frameOf(kind, offset(10, kv("a", "1")), offset(10+math.MaxInt32, kv("b", "2"))), 0)
	add("deltas flagged without a gap", frameOf(kind, kv("a", "1"), kv("b", "2")), fDeltas)
	logTime := frameOf(kind, timed(5, kv("a", "1")), timed(5, kv("b", "2")))
	logTime.LogAppendTime = true
	add("LogAppendTime", logTime, 0)
	after := frameOf(kind, kv("a", "1"))
	*after.Next = 40
	add("next offset past markers", after, 0)
	marker := frameOf(kind)
	*marker.Next = 12
	add("no records, position moves", marker, 0)
	first := frameOf(kind, offset(0, kv("a", "1")))
	*first.Base = 0
	add("from offset 0", first, 0)
	top := frameOf(kind, offset(maxInteger-1, kv("a", "1")))
	*top.Base = maxInteger - 1
	add("largest position", top, 0)
	end := frameOf(kind)
	*end.Base, *end.Next = maxInteger, maxInteger
	add("no records at the largest position", end, 0)
	everything := frameOf(kind, timed(1, offset(11, Record{Key: text("k"), Headers: [][2]Bytes{{text("h"), text("v")}}})), timed(2, offset(14, Record{Value: text("value")})))
	everything.LogAppendTime = true
	*everything.Next = 20
	add("every column", everything, 0)
	if kind == "restore" {
		none := frameOf(kind, kv("a", "1"))
		none.Checkpoint = ""
		add("no checkpoint", none, 0)
		long := frameOf(kind, kv("a", "1"))
		long.Checkpoint = string(bytes.Repeat([]byte("~"), 127)) + " "
		add("longest checkpoint", long, 0)
	}
}

// addSection adds a header section that says itself that it is empty.
func addSection(kind string, v *FrameVectors) {
	f := frameOf(kind, kv("a", "1"))
	r := rawOf(f, fHeaders)
	r.headerLens, r.headers, r.headerBytes = []int32{4}, []byte{0, 0, 0, 0}, 4
	v.Valid = append(v.Valid, ValidFrame{"a header section of count 0", hex.EncodeToString(r.bytes()), f})
}
