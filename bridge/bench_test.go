package bridge

import (
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// BenchmarkWriter is the way of frames from the gate to a worker that throws them away.
func BenchmarkWriter(b *testing.B) {
	for _, listen := range []string{"tcp", "unix"} {
		for _, size := range []int{1 << 10, 16 << 10, frame.DefaultTarget} {
			b.Run(fmt.Sprintf("%s/%d", listen, size), func(b *testing.B) {
				s, r := start(b, func(c *Config) {
					if listen == "unix" {
						c.Listen = "unix:" + b.TempDir() + "/s"
					}
				})
				h := testHello()
				h.Credit = protocol.Window{Connection: 1 << 52, Stream: 1 << 52}
				w, c := workerWith(b, s, r, h)
				c.OpenStream(1, false)
				g := gate.New(1, c.Credit())
				f := records(1, 1, 0, size)
				var reader sync.WaitGroup
				reader.Go(func() { io.Copy(io.Discard, w.NetConn()) })
				b.SetBytes(int64(len(f)))
				for b.Loop() {
					if err := g.Send(b.Context(), 1, f); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
				c.Close(protocol.CloseDone, "")
				w.NetConn().Close()
				reader.Wait()
			})
		}
	}
}

// BenchmarkIncoming is the way of writes frames from their bytes into the buffer of a commit.
func BenchmarkIncoming(b *testing.B) {
	build := frame.NewBuilder(frame.Writes)
	build.Reset(1, 1, 1)
	for build.Size() < frame.DefaultTarget {
		build.Append(0, 0, []byte("a key of some length"), make([]byte, 80), nil)
	}
	f := build.Finish(nil, 0, nil)
	h, err := frame.ParseHeader(f)
	if err != nil {
		b.Fatal(err)
	}
	in, _ := testInbox(b, func(c *Config) {
		c.Window = protocol.Window{Connection: 1 << 20, Stream: 1 << 20}
		c.MaxCommitBytes, c.MaxBufferedWrites = 16<<20, 32<<20
	})
	in.openStream(1, true)
	b.SetBytes(int64(len(f)))
	for b.Loop() {
		if _, err := frame.Parse(f); err != nil {
			b.Fatal(err)
		}
		if v := in.take(h, f); v.err != nil {
			b.Fatal(v.err)
		}
		in.grant()
		w, _ := in.commit(commit(1, 1))
		in.done(w)
	}
	b.ReportMetric(float64(b.N)*float64(build.Len())/b.Elapsed().Seconds(), "records/s")
}
