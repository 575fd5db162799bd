package fetch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// text is n bytes that compress well but not absurdly.
func text(n int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefgh"[r.IntN(8)]
		if i > 200 && r.IntN(3) > 0 {
			b[i] = b[i-100-r.IntN(100)]
		}
	}
	return b
}

func lz4Of(t testing.TB, b []byte, options ...lz4.Option) []byte {
	t.Helper()
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(options...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func xerialOf(b []byte, block int) []byte {
	out := append(bytes.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(b) > 0 {
		n := min(block, len(b))
		packed := snappy.Encode(nil, b[:n])
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(packed))), packed...)
		b = b[n:]
	}
	return out
}

// linked compresses b in blocks of 64 KiB, each of which looks back into the one before.
func linked(t testing.TB, b []byte) []byte {
	t.Helper()
	out := binary.LittleEndian.AppendUint32(nil, lz4Magic)
	out = append(out, 0x40, 0x40, 0) // version 1, linked, 64 KiB; the header's checksum is not looked at
	// A literal block, then one that only refers to it: token, offset of 64 KiB - 1, match lengths.
	first := b[:64<<10]
	out = binary.LittleEndian.AppendUint32(out, uint32(len(first))|1<<31)
	out = append(out, first...)
	match := []byte{0x0f, 0xff, 0xff}
	match = append(match, 81)                            // 15 + 81 + 4 = 100 bytes
	match = append(match, 0x50, 'l', 'a', 's', 't', '!') // five literals end a block
	out = binary.LittleEndian.AppendUint32(out, uint32(len(match)))
	out = append(out, match...)
	return append(out, 0, 0, 0, 0)
}

func TestCodecs(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	two := append(lz4Of(t, []byte("one")), lz4Of(t, []byte("two"))...)
	skippable := append([]byte{0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9}, lz4Of(t, []byte("one"))...)
	for _, b := range [][]byte{{}, []byte("a"), text(1000), text(64 << 10), text(300 << 10), make([]byte, 1<<20)} {
		random := make([]byte, min(len(b), 100<<10))
		for i := range random {
			random[i] = byte(rand.Uint32())
		}
		d := &inflater{limit: 4 << 20}
		defer d.close()
		for _, b := range [][]byte{b, random} {
			for name, tt := range map[string]struct {
				codec int16
				src   []byte
			}{
				"gzip":           {codecGzip, pack(t, codecGzip, b)},
				"snappy":         {codecSnappy, pack(t, codecSnappy, b)},
				"xerial":         {codecSnappy, xerialOf(b, 32<<10)},
				"lz4":            {codecLZ4, lz4Of(t, b)},
				"lz4 64 KiB":     {codecLZ4, lz4Of(t, b, lz4.BlockSizeOption(lz4.Block64Kb))},
				"lz4 checksums":  {codecLZ4, lz4Of(t, b, lz4.BlockChecksumOption(true), lz4.ChecksumOption(true))},
				"lz4 with size":  {codecLZ4, lz4Of(t, b, lz4.SizeOption(uint64(len(b))))},
				"lz4 no content": {codecLZ4, lz4Of(t, b, lz4.ChecksumOption(false))},
				"zstd":           {codecZstd, z.EncodeAll(b, nil)},
			} {
				d.restart()
				for range 2 { // the second behind the first
					begin, err := d.inflate(tt.codec, tt.src)
					if err != nil || !bytes.Equal(d.out[begin:], b) {
						t.Fatalf("%s of %d bytes: %v, %d bytes", name, len(b), err, len(d.out)-begin)
					}
				}
				if want := bytes.Repeat(b, 2); !bytes.Equal(d.out, want) {
					t.Fatalf("%s: the first batch has changed", name)
				}
			}
		}
	}
	d := &inflater{limit: 1 << 20}
	for want, src := range map[string][]byte{"onetwo": two, "one": skippable} {
		d.restart()
		if _, err := d.inflate(codecLZ4, src); err != nil || string(d.out) != want {
			t.Errorf("%q, %v", d.out, err)
		}
	}
}

func TestLinkedLZ4Blocks(t *testing.T) {
	b := text(64 << 10)
	src := linked(t, b)
	d := &inflater{limit: 1 << 20, out: []byte("before")}
	begin, err := d.inflate(codecLZ4, src)
	if err != nil {
		t.Fatal(err)
	}
	want := append(bytes.Clone(b), b[1:101]...)
	want = append(want, "last!"...)
	if !bytes.Equal(d.out[begin:], want) {
		t.Errorf("%d bytes, want %d", len(d.out)-begin, len(want))
	}
}

func TestDecompressedSizeIsLimited(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	const limit = 256 << 10
	for _, b := range [][]byte{make([]byte, 8<<20), text(limit + 1)} {
		for name, tt := range map[string]struct {
			codec int16
			src   []byte
		}{
			"gzip": {codecGzip, pack(t, codecGzip, b)}, "snappy": {codecSnappy, pack(t, codecSnappy, b)},
			"xerial": {codecSnappy, xerialOf(b, 1<<20)}, "lz4": {codecLZ4, lz4Of(t, b)}, "zstd": {codecZstd, z.EncodeAll(b, nil)},
		} {
			d := &inflater{limit: limit}
			_, err := d.inflate(tt.codec, tt.src)
			d.close()
			if !errors.Is(err, errLarge) {
				t.Errorf("%s of %d bytes with a limit of %d: %v", name, len(b), limit, err)
			}
			if cap(d.out) > limit {
				t.Errorf("%s: %d bytes are kept", name, cap(d.out))
			}
		}
	}
}

func TestBatchesAtTheLimitFit(t *testing.T) {
	b := text(1 << 20)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for name, tt := range map[string]struct {
		codec int16
		src   []byte
	}{
		"gzip": {codecGzip, pack(t, codecGzip, b)}, "snappy": {codecSnappy, pack(t, codecSnappy, b)},
		"lz4": {codecLZ4, lz4Of(t, b)}, "zstd": {codecZstd, z.EncodeAll(b, nil)},
	} {
		d := &inflater{limit: len(b)}
		if _, err := d.inflate(tt.codec, tt.src); err != nil || !bytes.Equal(d.out, b) {
			t.Errorf("%s: %v", name, err)
		}
		d.close()
	}
}

func FuzzInflate(f *testing.F) {
	for codec := int16(codecGzip); codec <= codecZstd; codec++ {
		f.Add(codec, pack(f, codec, text(100)))
	}
	f.Add(int16(codecSnappy), xerialOf(text(100), 40))
	f.Add(int16(codecLZ4), linked(f, text(64<<10)))
	f.Fuzz(func(t *testing.T, codec int16, src []byte) {
		d := &inflater{limit: 1 << 18, out: []byte("before")}
		defer d.close()
		begin, err := d.inflate(codec&7, src)
		var bad *CorruptError
		switch {
		case err == nil:
			if len(d.out)-begin > d.limit {
				t.Errorf("%d bytes with a limit of %d", len(d.out)-begin, d.limit)
			}
		case !errors.Is(err, errLarge) && !errors.As(err, &bad):
			t.Errorf("%T: %v", err, err)
		}
		if !bytes.HasPrefix(d.out, []byte("before")) || cap(d.out) > 4*d.limit {
			t.Errorf("the batch before has changed, or %d bytes are kept", cap(d.out))
		}
	})
}
