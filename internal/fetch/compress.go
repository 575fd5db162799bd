package fetch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	codecNone = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

// errLarge says that a batch is larger than the decoder's limit when it is decompressed.
var errLarge = errors.New("too large when decompressed")

// inflater decompresses the records of batches one behind the other.
type inflater struct {
	limit int    // of one batch
	out   []byte // what was decompressed since restart
	begin int    // of the last batch in out
	gzip  *gzip.Reader
	past  [1]byte // to see whether there is more
	zstd  *zstd.Decoder
}

// restart forgets what was decompressed.
func (d *inflater) restart() { d.out = d.out[:0] }

// inflate appends the records of a batch to out, and says where they begin.
func (d *inflater) inflate(codec int16, src []byte) (begin int, err error) {
	d.begin = len(d.out)
	out := d.out
	switch codec {
	case codecGzip:
		out, err = d.gunzip(out, src)
	case codecSnappy:
		out, err = d.unsnappy(out, src)
	case codecLZ4:
		out, err = d.unlz4(out, src)
	case codecZstd:
		out, err = d.unzstd(out, src)
	default:
		return 0, corrupt("compression %d is not known", codec)
	}
	if err == nil {
		d.out = out
		return d.begin, nil
	}
	d.out = out[:d.begin]
	if errors.Is(err, errLarge) {
		return 0, errLarge
	}
	return 0, corrupt("%s: %v", [...]string{codecGzip: "gzip", codecSnappy: "snappy", codecLZ4: "lz4", codecZstd: "zstd"}[codec], err)
}

// left is how many more bytes the batch may have.
func (d *inflater) left(out []byte) int { return d.limit - (len(out) - d.begin) }

// close ends what the decoders hold.
func (d *inflater) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}

// shrink lets go of a buffer that is larger than most batches need.
func (d *inflater) shrink(keep int) {
	if cap(d.out) > keep {
		d.out = nil
	}
}

func (d *inflater) gunzip(out, src []byte) ([]byte, error) {
	in := bytes.NewReader(src)
	if d.gzip == nil {
		r, err := gzip.NewReader(in)
		if err != nil {
			return out, err
		}
		d.gzip = r
	} else if err := d.gzip.Reset(in); err != nil {
		return out, err
	}
	for {
		room := out[len(out):cap(out)]
		if len(room) == 0 {
			bigger, ok := d.grow(out, 1)
			if out = bigger; !ok {
				room = d.past[:] // only the end fits now
			} else {
				room = out[len(out):cap(out)]
			}
		}
		n, err := d.gzip.Read(room)
		if n > d.left(out) {
			return out, errLarge
		}
		out = out[:len(out)+n]
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
}

// grow makes room for n more bytes, up to the limit. What is allocated is at most twice what is
// there, so that it cannot be driven by a claim alone.
func (d *inflater) grow(out []byte, n int) ([]byte, bool) {
	if n > d.left(out) {
		return out, false
	}
	if len(out)+n <= cap(out) {
		return out, true
	}
	bigger := make([]byte, len(out), min(max(2*cap(out), len(out)+n, 64<<10), d.begin+d.limit))
	copy(bigger, out)
	return bigger, true
}

// maxSnappyRatio is more than snappy can ever reach: a copy of 64 bytes takes at least 3, or 2 for
// up to 11.
const maxSnappyRatio = 32

var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// unsnappy reads the framing of Java's snappy (xerial) and bare blocks.
func (d *inflater) unsnappy(out, src []byte) ([]byte, error) {
	if !bytes.HasPrefix(src, xerial) {
		return d.snappyBlock(out, src)
	}
	if len(src) < 16 {
		return out, io.ErrUnexpectedEOF
	}
	src = src[16:] // magic, version, lowest compatible version
	for len(src) > 0 {
		if len(src) < 4 {
			return out, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(src)
		if src = src[4:]; uint64(n) > uint64(len(src)) {
			return out, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = d.snappyBlock(out, src[:n]); err != nil {
			return out, err
		}
		src = src[n:]
	}
	return out, nil
}

func (d *inflater) snappyBlock(out, src []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return out, err
	}
	if n > len(src)*maxSnappyRatio {
		return out, fmt.Errorf("a block of %d bytes claims %d", len(src), n)
	}
	out, ok := d.grow(out, n)
	if !ok {
		return out, errLarge
	}
	if n == 0 {
		return out, nil
	}
	if _, err := snappy.Decode(out[len(out):len(out)+n], src); err != nil {
		return out, err
	}
	return out[:len(out)+n], nil
}

func (d *inflater) unzstd(out, src []byte) ([]byte, error) {
	if d.zstd == nil {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(d.limit)), zstd.IgnoreChecksum(true))
		if err != nil {
			return out, err
		}
		d.zstd = r
	}
	var h zstd.Header
	if err := h.Decode(src); err == nil && h.HasFCS {
		if h.FrameContentSize > uint64(d.left(out)) {
			return out, errLarge
		}
		out, _ = d.grow(out, int(h.FrameContentSize))
	}
	// The limit of the library counts what it appends to, so that is nothing.
	behind, err := d.zstd.DecodeAll(src, out[len(out):])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return out, errLarge
	}
	if err != nil {
		return out, err
	}
	if n := len(out) + len(behind); n <= cap(out) {
		copy(out[len(out):n], behind) // itself, as a rule
		return out[:n], nil
	}
	return append(out, behind...), nil
}

const (
	lz4Magic     = 0x184D2204
	lz4Skippable = 0x184D2A50 // to ...5F
	lz4History   = 64 << 10

	lz4Linked      = 0x20 // bit clear: blocks are linked
	lz4BlockSum    = 0x10
	lz4ContentSize = 0x08
	lz4ContentSum  = 0x04
	lz4DictID      = 0x01
)

var errLZ4 = errors.New("not an lz4 frame")

// unlz4 walks lz4 frames itself: the library's reader copies each block once more. The checksums of
// the frame are not looked at, the batch has its own over all bytes.
func (d *inflater) unlz4(out, src []byte) ([]byte, error) {
	for len(src) > 0 {
		if len(src) < 4 {
			return out, io.ErrUnexpectedEOF
		}
		magic := binary.LittleEndian.Uint32(src)
		if magic&^0xf == lz4Skippable {
			if len(src) < 8 {
				return out, io.ErrUnexpectedEOF
			}
			n := binary.LittleEndian.Uint32(src[4:])
			if src = src[8:]; uint64(n) > uint64(len(src)) {
				return out, io.ErrUnexpectedEOF
			}
			src = src[n:]
			continue
		}
		if magic != lz4Magic {
			return out, errLZ4
		}
		var err error
		if out, src, err = d.lz4Frame(out, src[4:]); err != nil {
			return out, err
		}
	}
	return out, nil
}

// lz4Frame decompresses one frame, whose magic is behind us, and gives what follows it.
func (d *inflater) lz4Frame(out, src []byte) ([]byte, []byte, error) {
	if len(src) < 3 {
		return out, nil, io.ErrUnexpectedEOF
	}
	flags, block := src[0], src[1]
	if flags>>6 != 1 || flags&lz4DictID != 0 {
		return out, nil, errLZ4
	}
	head := 3 // flags, block size, checksum of the header
	if flags&lz4ContentSize != 0 {
		head += 8
	}
	size := block >> 4 & 7
	if size < 4 || len(src) < head {
		return out, nil, errLZ4
	}
	maxBlock := 64 << 10 << (2 * (size - 4))
	src = src[head:]
	begin := len(out)
	for {
		if len(src) < 4 {
			return out, nil, io.ErrUnexpectedEOF
		}
		word := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if word == 0 {
			break
		}
		n := int(word &^ (1 << 31))
		if n > len(src) || n > maxBlock {
			return out, nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = d.lz4Block(out, begin, src[:n], word>>31 != 0, flags&lz4Linked == 0, maxBlock); err != nil {
			return out, nil, err
		}
		if src = src[n:]; flags&lz4BlockSum != 0 {
			if len(src) < 4 {
				return out, nil, io.ErrUnexpectedEOF
			}
			src = src[4:]
		}
	}
	if flags&lz4ContentSum != 0 {
		if len(src) < 4 {
			return out, nil, io.ErrUnexpectedEOF
		}
		src = src[4:]
	}
	return out, src, nil
}

// lz4Block appends one block; a linked one may look back into those of its frame, from begin on.
func (d *inflater) lz4Block(out []byte, begin int, src []byte, stored, linked bool, maxBlock int) ([]byte, error) {
	if stored {
		out, ok := d.grow(out, len(src))
		if !ok {
			return out, errLarge
		}
		return append(out, src...), nil
	}
	// A byte of a block makes at most 255. What it does make is not said: try with less first.
	most := min(maxBlock, 255*len(src)+16)
	for want := min(most, 4*len(src)+lz4History); ; want = min(most, 4*want) {
		room := min(want, d.left(out))
		out, _ = d.grow(out, room)
		var n int
		var err error
		if linked && len(out) > begin {
			n, err = lz4.UncompressBlockWithDict(src, out[len(out):len(out)+room], out[max(begin, len(out)-lz4History):])
		} else {
			n, err = lz4.UncompressBlock(src, out[len(out):len(out)+room])
		}
		switch {
		case err == nil:
			return out[:len(out)+n], nil
		case room < want:
			return out, errLarge
		case want == most:
			return out, err
		}
	}
}
