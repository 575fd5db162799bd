// Package frame is the columnar codec of data frames.
//
// A frame is one binary websocket message: a header of 48 bytes, columns, blobs. All numbers are
// little-endian.
//
//	 0 u8  version (1)
//	 1 u8  kind: 1 records, 2 restore, 3 writes
//	 2 u16 flags (below); all other bits are 0
//	 4 u32 stream
//	 8 u32 epoch of the task
//	12 u32 count n
//	16 i64 base offset: the position before the frame; writes: the commit id
//	24 i64 next offset: the position after the frame, across gaps and markers; writes: 0
//	32 u32 key bytes
//	36 u32 value bytes
//	40 u32 header bytes
//	44 u32 checkpoint bytes (restore only, at most 128)
//	48 i32 key length[n]         never negative; a null has length 0 and its bit
//	   i32 value length[n]
//	   i64 timestamp[n]          flag 1 (8-byte aligned, because the header is 48 bytes)
//	   i32 offset delta[n]       flag 4; offset = base + delta, strictly increasing; without it offset = base + i
//	   i32 header length[n]      flag 8
//	   u8  value nulls[(n+7)/8]  flag 16; bit i&7 of byte i/8, lowest bit first; padding bits are 0
//	   u8  key nulls[(n+7)/8]    flag 32
//	   key blob | value blob | header blob | checkpoint
//
// Flag 2 says that the timestamps are LogAppendTime; it needs flag 1. Flags 2 and 4 are refused in
// writes frames. A record's part of the header blob is empty, or u32 count, then per header: u32 key
// length, key, i32 value length (-1: null), value.
//
// Flow: a Builder collects records into separate columns and Finish puts them together once; Parse
// checks all of a frame and hands out views into its bytes.
//
// INVARIANT: Parse(Finish(records)) gives the same records back, null kept apart from empty.
// INVARIANT: what Parse accepts can be read to the end without another check; nothing is allocated
// in proportion to a number that the bytes claim.
//
// The package must never import anything but the standard library, nor allocate per record.
package frame
