package specgen

import (
	"encoding/hex"
	"math"
)

// invalidFrames breaks one rule after the other of an otherwise good frame.
func invalidFrames(kind string) []InvalidFrame {
	var out []InvalidFrame
	put := func(name, reason string, b []byte) {
		out = append(out, InvalidFrame{name, hex.EncodeToString(b), reason})
	}
	broken := func(name, reason string, change func(r *raw)) {
		r := rawOf(rich(kind), 0)
		change(r)
		put(name, reason, r.bytes())
	}
	whole := rawOf(rich(kind), 0).bytes()
	put("nothing", "short", nil)
	put("half a header", "short", whole[:24])
	put("a header short of one byte", "short", whole[:47])
	put("only a header", "size", whole[:48])
	put("one byte less", "size", whole[:len(whole)-1])
	put("one byte more", "size", append(whole[:len(whole):len(whole)], 0))
	broken("version 0", "version", func(r *raw) { r.version = 0 })
	broken("version 2", "version", func(r *raw) { r.version = 2 })
	broken("kind 0", "kind", func(r *raw) { r.kind = 0 })
	broken("kind 4", "kind", func(r *raw) { r.kind = 4 })
	broken("stream 0", "stream", func(r *raw) { r.stream = 0 })
	broken("epoch 0", "stream", func(r *raw) { r.epoch = 0 })
	for bit := uint16(64); bit != 0; bit <<= 1 {
		broken("reserved flag", "flags", func(r *raw) { r.flags |= bit })
	}
	broken("LogAppendTime without timestamps", "flags", func(r *raw) {
		r.flags, r.timestamps = r.flags&^fTimestamps|fLogAppendTime, nil
	})
	broken("a column is flagged and not there", "size", func(r *raw) { r.timestamps = nil })
	broken("a column is there and not flagged", "size", func(r *raw) { r.flags &^= fTimestamps })
	broken("count one too many", "size", func(r *raw) { r.count++ })
	broken("count of four thousand million", "size", func(r *raw) { r.count = math.MaxUint32 })
	broken("sizes that overflow 32 bits", "size", func(r *raw) { r.keyBytes, r.valueBytes = math.MaxUint32, r.keyBytes+r.valueBytes+1 })
	broken("key bytes lie", "size", func(r *raw) { r.keyBytes++ })
	broken("value bytes lie", "size", func(r *raw) { r.valueBytes = math.MaxUint32 })
	broken("header bytes lie", "size", func(r *raw) { r.headerBytes++ })
	broken("a null key column without a flag", "size", func(r *raw) { r.flags &^= fNullKeys })
	broken("border between keys and values moved", "length", func(r *raw) { r.keyBytes++; r.valueBytes-- })
	broken("border between values and headers moved", "length", func(r *raw) { r.valueBytes++; r.headerBytes-- })
	broken("negative key length", "length", func(r *raw) { r.keyLens[0], r.keyLens[2] = -1, r.keyLens[2]+r.keyLens[0]+1 })
	broken("negative value length", "length", func(r *raw) { r.valueLens[0] = math.MinInt32 })
	broken("key lengths too short", "length", func(r *raw) { r.keyLens[0]-- })
	broken("lengths that overflow 32 bits", "length", func(r *raw) { r.valueLens[0], r.valueLens[2] = math.MaxInt32, math.MaxInt32 })
	broken("negative header length", "length", func(r *raw) { r.headerLens[0], r.headerLens[1] = -1, r.headerLens[0]+1 })
	broken("header bytes without the flag", "size", func(r *raw) { r.flags, r.headerLens = r.flags&^fHeaders, nil })
	broken("a null value with a length", "null", func(r *raw) { r.valueNulls[0] |= 1 })
	broken("a null key with a length", "null", func(r *raw) { r.keyNulls[0] |= 1 })
	broken("padding of the value nulls", "padding", func(r *raw) { r.valueNulls[0] |= 8 })
	broken("padding of the key nulls", "padding", func(r *raw) { r.keyNulls[0] |= 128 })
	section := func(name string, headers []byte) {
		broken("headers: "+name, "header", func(r *raw) {
			r.headers, r.headerBytes, r.headerLens = headers, uint32(len(headers)), []int32{int32(len(headers)), 0, 0}
		})
	}
	section("three bytes", []byte{1, 0, 0})
	section("more bytes after the last", []byte{0, 0, 0, 0, 9})
	section("count without headers", []byte{1, 0, 0, 0})
	section("count of four thousand million", []byte{255, 255, 255, 255})
	section("key length past the end", []byte{1, 0, 0, 0, 9, 0, 0, 0, 'h', 0, 0, 0, 0})
	section("negative key length", []byte{1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0})
	section("value length past the end", []byte{1, 0, 0, 0, 1, 0, 0, 0, 'h', 5, 0, 0, 0, 'v'})
	section("value length -2", []byte{1, 0, 0, 0, 1, 0, 0, 0, 'h', 254, 255, 255, 255})
	section("no value length", []byte{1, 0, 0, 0, 1, 0, 0, 0, 'h'})
	if kind == "writes" {
		invalidWrites(broken)
	} else {
		invalidPositions(kind, broken)
	}
	return out
}

// rich has three records (the second null), timestamps and headers.
func rich(kind string) Frame {
	return frameOf(kind,
		timed(1, Record{Key: text("key"), Value: text("value"), Headers: [][2]Bytes{{text("h"), text("v")}}}),
		timed(2, Record{}),
		timed(3, kv("other", "thing")))
}

func invalidWrites(broken func(string, string, func(*raw))) {
	broken("commit id 0", "offset", func(r *raw) { r.base = 0 })
	broken("commit id -1", "offset", func(r *raw) { r.base = -1 })
	broken("commit id past 2^53-1", "offset", func(r *raw) { r.base = maxInteger + 1 })
	broken("a next offset", "offset", func(r *raw) { r.next = 1 })
	broken("a negative next offset", "offset", func(r *raw) { r.next = -1 })
	broken("offset deltas", "flags", func(r *raw) { r.flags, r.deltas = r.flags|fDeltas, []int32{0, 1, 2} })
	broken("LogAppendTime", "flags", func(r *raw) { r.flags |= fLogAppendTime })
	broken("a checkpoint", "checkpoint", func(r *raw) { r.checkpoint, r.cpBytes = []byte("v1:x"), 4 })
}

func invalidPositions(kind string, broken func(string, string, func(*raw))) {
	broken("negative base offset", "offset", func(r *raw) { r.base = -1 })
	broken("next before base", "offset", func(r *raw) { r.next = r.base - 1 })
	broken("next at the last record", "offset", func(r *raw) { r.next-- })
	broken("next past 2^53-1", "offset", func(r *raw) { r.next = maxInteger + 1 })
	broken("base and next past 2^53-1", "offset", func(r *raw) { r.base, r.next = maxInteger+1, maxInteger+4 })
	broken("largest next offset", "offset", func(r *raw) { r.next = math.MaxInt64 })
	deltas := func(name string, d ...int32) {
		broken("deltas: "+name, "offset", func(r *raw) { r.flags, r.deltas, r.next = r.flags|fDeltas, d, 20 })
	}
	deltas("the same twice", 0, 1, 1)
	deltas("going back", 0, 5, 4)
	deltas("negative", -1, 1, 2)
	deltas("past next", 0, 1, 10)
	deltas("negative after the largest", 0, math.MaxInt32, math.MinInt32)
	if kind == "records" {
		broken("a checkpoint", "checkpoint", func(r *raw) { r.checkpoint, r.cpBytes = []byte("v1:x"), 4 })
		return
	}
	broken("checkpoint of 129 bytes", "checkpoint", func(r *raw) { r.checkpoint, r.cpBytes = make([]byte, 129), 129 })
	broken("checkpoint with a line feed", "checkpoint", func(r *raw) { r.checkpoint[2] = '\n' })
	broken("checkpoint with 0x1f", "checkpoint", func(r *raw) { r.checkpoint[0] = 0x1f })
	broken("checkpoint with 0x7f", "checkpoint", func(r *raw) { r.checkpoint[0] = 0x7f })
	broken("checkpoint that is not ASCII", "checkpoint", func(r *raw) { r.checkpoint[2] = 0x80 })
	broken("checkpoint bytes lie", "size", func(r *raw) { r.cpBytes++ })
}
