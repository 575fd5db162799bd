package produce

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codec compresses the records of a batch. It may be used by several goroutines.
type codec struct {
	attribute uint16
	compress  func(dst, src []byte) ([]byte, error) // appends
}

// newCodec makes the codec of a name; nil is none.
func newCodec(name string) (*codec, error) {
	switch name {
	case "none":
		return nil, nil
	case "gzip":
		return &codec{1, streaming(func() streamWriter { return gzip.NewWriter(nil) })}, nil
	case "snappy":
		return &codec{2, func(dst, src []byte) ([]byte, error) {
			return append(dst, s2.EncodeSnappy(nil, src)...), nil
		}}, nil
	case "lz4":
		return &codec{3, streaming(newLZ4)}, nil
	case "zstd":
		// One encoder at a time: EncodeAll needs no goroutine of its own.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithZeroFrames(true))
		if err != nil {
			return nil, fmt.Errorf("zstd encoder: %w", err)
		}
		return &codec{4, func(dst, src []byte) ([]byte, error) { return e.EncodeAll(src, dst), nil }}, nil
	}
	return nil, fmt.Errorf("compression %q is not one of none, gzip, snappy, lz4, zstd", name)
}

type streamWriter interface {
	io.WriteCloser
	Reset(io.Writer)
}

// newLZ4 makes a writer of independent blocks, which is what the Java client reads.
func newLZ4() streamWriter {
	w := lz4.NewWriter(nil)
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block256Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)); err != nil {
		panic("lz4 options: " + err.Error()) // constants
	}
	return w
}

// streaming compresses with pooled writers.
func streaming(make func() streamWriter) func(dst, src []byte) ([]byte, error) {
	pool := sync.Pool{New: func() any { return make() }}
	return func(dst, src []byte) ([]byte, error) {
		w := pool.Get().(streamWriter)
		defer pool.Put(w)
		out := bytes.NewBuffer(dst)
		w.Reset(out)
		if _, err := w.Write(src); err != nil {
			return nil, fmt.Errorf("compressing a batch: %w", err)
		}
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("compressing a batch: %w", err)
		}
		return out.Bytes(), nil
	}
}
