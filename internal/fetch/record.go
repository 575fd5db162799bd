package fetch

import "math"

// record is where the parts of a record are in the source. Lengths are -1 for null.
type record struct {
	end      int // of the record
	time     int64
	delta    int64
	keyAt    int
	keyLen   int
	valueAt  int
	valueLen int
	at       int // of the headers
	headers  int64
}

// parse reads the record at i of src. It tries the common form first: a length and a delta of at
// most two bytes, a key, a value shorter than 8 KiB, and no headers.
func (r *record) parse(src []byte, i int) bool {
	if len(src)-i < 32 {
		return r.parseAny(src, i)
	}
	w := (*[32]byte)(src[i:])
	length, body := two(w, 0)
	time, k := three(w, body+1) // after the attributes, which mean nothing
	delta, k := two(w, k)
	key, k := two(w, k)
	valueLenAt := i + k + int(key>>1)
	if length|delta|key >= 1<<14 || time >= 1<<21 || (length|delta|key)&1 != 0 || len(src)-valueLenAt < 3 {
		return r.parseAny(src, i)
	}
	r.end = i + body + int(length>>1)
	r.time, r.delta = int64(time>>1)^-int64(time&1), int64(delta>>1)
	r.keyAt, r.keyLen = i+k, int(key>>1)
	v := (*[3]byte)(src[valueLenAt:])
	value, k := uint(v[0]), 1
	if value >= 0x80 {
		value, k = value&0x7f|uint(v[1])<<7, 2
	}
	r.valueAt, r.valueLen = valueLenAt+k, int(value>>1)
	if value >= 1<<14 || value&1 != 0 || r.valueAt+r.valueLen+1 != r.end || r.end > len(src) || src[r.end-1] != 0 {
		return r.parseAny(src, i)
	}
	r.headers, r.at = 0, r.end
	return true
}

// two reads an unsigned varint of one or two bytes. A longer one gives 1<<14 or more.
func two(w *[32]byte, k int) (uint, int) {
	u := uint(w[k&31])
	if u < 0x80 {
		return u, k + 1
	}
	return u&0x7f | uint(w[(k+1)&31])<<7, k + 2
}

// three reads one of up to three bytes. A longer one gives 1<<21 or more.
func three(w *[32]byte, k int) (uint, int) {
	u, k := two(w, k)
	if u < 1<<14 {
		return u, k
	}
	return u&(1<<14-1) | uint(w[k&31])<<14, k + 1
}

// parseAny reads a record of any form.
func (r *record) parseAny(src []byte, i int) bool {
	n, i := varint(src, i)
	if n < 0 || n > int64(len(src)-i) {
		return false
	}
	r.end = i + int(n)
	rec := src[:r.end]
	r.time, i = varint(rec, i+1)
	r.delta, i = varint(rec, i)
	n, i = varint(rec, i)
	if n < -1 || n > int64(len(rec)-i) {
		return false
	}
	r.keyAt, r.keyLen = i, int(n)
	n, i = varint(rec, i+max(int(n), 0))
	if n < -1 || n > int64(len(rec)-i) {
		return false
	}
	r.valueAt, r.valueLen = i, int(n)
	r.headers, r.at = varint(rec, i+max(int(n), 0))
	return r.at <= r.end
}

// field reads a nullable byte string at i. Null is nil, and empty is not.
func field(rec []byte, i int) ([]byte, int) {
	n, i := varint(rec, i)
	if n < -1 || n > int64(len(rec)-i) {
		return nil, invalid
	}
	if n < 0 {
		return nil, i
	}
	end := i + int(n)
	return rec[i:end:end], end
}

// invalid is the index after a varint that is not there or too long. It is past the end of any
// slice, and stays there.
const invalid = math.MaxInt - 1<<20

// varint reads a zigzag number at i and gives the index after it.
func varint(b []byte, i int) (int64, int) {
	var u uint64
	for shift := 0; shift < 64 && i < len(b); shift += 7 {
		c := b[i]
		i++
		if c < 0x80 {
			if shift == 63 && c > 1 {
				break
			}
			u |= uint64(c) << shift
			return int64(u>>1) ^ -int64(u&1), i
		}
		u |= uint64(c&0x7f) << shift
	}
	return 0, invalid
}
