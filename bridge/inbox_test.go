package bridge

import (
	"math/rand/v2"
	"testing"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

func testInbox(t testing.TB, change func(*Config)) (*inbox, *Config) {
	t.Helper()
	cfg := &Config{Listen: "127.0.0.1:0", Token: "t", MaxCommitBytes: 4000, MaxBufferedWrites: 8000,
		Window: protocol.Window{Connection: 2000, Stream: 1000}}
	if change != nil {
		change(cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return newInbox(cfg), cfg
}

func take(t testing.TB, in *inbox, stream, epoch uint32, commit int64, size int) verdict {
	t.Helper()
	b := writes(stream, epoch, commit, size)
	if len(b) != size {
		t.Fatalf("frame of %d bytes, want %d", len(b), size)
	}
	h, err := frame.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	return in.take(h, b)
}

func TestCreditOverrun(t *testing.T) {
	in, _ := testInbox(t, nil)
	in.openStream(1, true)
	if v := take(t, in, 1, 1, 1, 999); v.err != nil {
		t.Fatal(v.err)
	}
	if v := take(t, in, 1, 1, 1, 500); v.err != nil { // one byte of credit was left
		t.Fatal(v.err)
	}
	if v := take(t, in, 1, 1, 1, 100); v.close != protocol.CloseCreditOverrun || v.err.Code != protocol.CodeCreditOverrun {
		t.Fatalf("stream overrun: %+v", v)
	}
	m, ok := in.grant()
	if !ok || m.Streams[1] != 1499+1000 || m.Connection != 1499+2000 {
		t.Fatalf("grant %+v", m)
	}
	if _, ok := in.grant(); ok {
		t.Fatal("granted twice")
	}
	// The connection's limit, over many streams.
	in, _ = testInbox(t, nil)
	for s := range uint32(4) {
		in.openStream(s+1, true)
	}
	for s := range uint32(2) {
		if v := take(t, in, s+1, 1, 1, 1000); v.err != nil {
			t.Fatal(v.err)
		}
	}
	if v := take(t, in, 3, 1, 1, 100); v.close != protocol.CloseCreditOverrun {
		t.Fatalf("connection overrun: %+v", v)
	}
	// A stranger's stream spends the connection's credit too.
	in, _ = testInbox(t, nil)
	take(t, in, 99, 1, 1, 2000)
	if v := take(t, in, 99, 1, 1, 100); v.close != protocol.CloseCreditOverrun {
		t.Fatalf("stranger's overrun: %+v", v)
	}
}

// Credit is withheld when too much is under way, and given when a commit ends. One whole commit
// always has room.
func TestWithheldCredit(t *testing.T) {
	in, cfg := testInbox(t, nil)
	in.openStream(1, true)
	var under []*protocol.Writes
	send := func(id int64, size int) {
		t.Helper()
		if v := take(t, in, 1, 1, id, size); v.err != nil {
			t.Fatal(v.err)
		}
	}
	end := func(id int64) {
		t.Helper()
		w, v := in.commit(commit(id, 1))
		if v.err != nil || w.Err != nil {
			t.Fatalf("%v %v", v.err, w.Err)
		}
		under = append(under, w)
	}
	grant := func() protocol.Credit { m, _ := in.grant(); return m }
	id := int64(0)
	for in.buffered+1000 <= cfg.MaxBufferedWrites+cfg.MaxCommitBytes {
		id++
		send(id, 1000)
		end(id)
		if m := grant(); m.Connection != 1000*id+2000 {
			t.Fatalf("commit %d: %+v, %d buffered", id, m, in.buffered)
		}
	}
	send(id+1, 1000)
	if m := grant(); m.Connection != 0 || m.Streams[1] == 0 {
		t.Fatalf("the connection's credit must be withheld: %+v", m)
	}
	send(id+1, 1000) // the rest of the window
	if v := take(t, in, 1, 1, id+1, 100); v.close != protocol.CloseCreditOverrun {
		t.Fatalf("past the withheld credit: %+v", v)
	}
	if bound := cfg.MaxBufferedWrites + cfg.MaxCommitBytes + cfg.Window.Connection; in.buffered > bound {
		t.Fatalf("%d bytes buffered, bound %d", in.buffered, bound)
	}
	in.done(under[0])
	in.done(under[0])
	if m := grant(); m.Connection != 0 {
		t.Fatalf("still too much: %+v", m)
	}
	in.done(under[1])
	if m := grant(); m.Connection != in.conn.received+2000 {
		t.Fatalf("%+v", m)
	}
}

func TestDroppedBytesAreCredited(t *testing.T) {
	in, _ := testInbox(t, nil)
	in.openStream(1, true)
	in.openStream(2, true)
	take(t, in, 1, 1, 1, 600)
	in.closeStream(1) // lost in the middle of a commit
	if in.buffered != 0 {
		t.Fatalf("%d bytes stay", in.buffered)
	}
	if v := take(t, in, 1, 1, 1, 600); v.err != nil || v.drop != "stale" {
		t.Fatalf("%+v", v)
	}
	if m, _ := in.grant(); m.Connection != 1200+2000 || m.Streams != nil {
		t.Fatalf("%+v", m)
	}
	// The worker may leave it unfinished and go on with another task.
	if v := take(t, in, 2, 1, 2, 600); v.err != nil {
		t.Fatalf("%+v", v)
	}
	w, v := in.commit(commit(2, 1))
	if v.err != nil || w.Err != nil || w.Bytes != 600 {
		t.Fatalf("%+v %+v", w, v)
	}
	w, _ = in.commit(commit(1, 1)) // after all
	if w.Err == nil || w.Err.Code != protocol.CodeStaleEpoch {
		t.Fatalf("%+v", w)
	}
}

func TestCommitOfAnotherEpoch(t *testing.T) {
	in, _ := testInbox(t, nil)
	in.openStream(1, true)
	take(t, in, 1, 1, 1, 600)
	w, v := in.commit(commit(1, 2))
	if v.err != nil || w.Err == nil || w.Err.Code != protocol.CodeBadMessage || w.Frames != nil || in.buffered != 0 {
		t.Fatalf("%+v %+v", w, v)
	}
}

func TestAbandonedCommitsAreBounded(t *testing.T) {
	in, _ := testInbox(t, func(c *Config) { c.Window = protocol.Window{Connection: 1 << 30, Stream: 1 << 30} })
	in.openStream(5, true)
	in.closeStream(5)
	for id := int64(1); id < 3*maxRefused; id++ { // stale: the session knows by the epoch
		if v := take(t, in, 5, 1, id, 100); v.err != nil {
			t.Fatalf("commit %d: %+v", id, v)
		}
	}
	for id := int64(10_000); ; id++ {
		v := take(t, in, 99, 1, id, 100)
		if len(in.refused) > maxRefused+1 {
			t.Fatalf("%d refused commits are kept", len(in.refused))
		}
		if v.close == protocol.CloseBadMessage {
			return
		}
		if v.err == nil || v.err.Code != protocol.CodeUnknownStream {
			t.Fatalf("%+v", v)
		}
	}
}

// INVARIANT: bytes that the worker may send and buffered bytes stay within the bound. INVARIANT: a
// commit that lost a frame for any reason carries Writes.Err, or the connection ends.
func TestInboxInvariants(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		in, cfg := testInbox(t, nil)
		open := map[uint32]bool{}
		var next uint32
		var under []*protocol.Writes
		var sent, kept int64 // bytes of the commit that is being sent
		id, epoch := int64(1), uint32(1)
		limit := cfg.Window.Connection // what a correct worker knows
		limits := map[uint32]int64{}
		used := map[uint32]int64{}
		var total int64
		for range 400 {
			switch rnd.IntN(10) {
			case 0:
				next++
				open[next], limits[next] = true, cfg.Window.Stream
				in.openStream(next, true)
			case 1:
				for s := range open {
					in.closeStream(s)
					delete(open, s)
					break
				}
			case 2, 3:
				w, v := in.commit(commit(id, epoch))
				if v.err != nil {
					t.Fatalf("seed %d: %+v", seed, v)
				}
				if w.Err == nil && w.Bytes != sent || w.Err != nil && (w.Bytes != 0 || w.Frames != nil) {
					t.Fatalf("seed %d: %d bytes were sent, %+v", seed, sent, w)
				}
				under = append(under, w)
				id, sent, epoch = id+1, 0, uint32(rnd.IntN(3)+1)
			case 4:
				if len(under) > 0 {
					i := rnd.IntN(len(under))
					in.done(under[i])
					under = append(under[:i], under[i+1:]...)
				}
			case 5, 6:
				if m, ok := in.grant(); ok {
					limit = max(limit, m.Connection)
					for s, l := range m.Streams {
						limits[s] = l
					}
				}
			default:
				s := uint32(rnd.IntN(int(next) + 2))
				if s == 0 || total >= limit || used[s] >= limits[s] && limits[s] > 0 {
					continue
				}
				n := 60 + rnd.IntN(900)
				if v := take(t, in, s, epoch, id, n); v.close != 0 {
					t.Fatalf("seed %d: a correct worker was cut off: %+v", seed, v)
				}
				sent += int64(n)
				total += int64(n)
				used[s] += int64(n)
			}
			kept = 0
			for _, w := range under {
				kept += w.Bytes
			}
			if in.open != nil {
				kept += in.open.bytes
			}
			if kept != in.buffered {
				t.Fatalf("seed %d: %d bytes are kept, %d counted", seed, kept, in.buffered)
			}
			if bound := cfg.MaxBufferedWrites + cfg.MaxCommitBytes + cfg.Window.Connection + 1000; in.buffered > bound {
				t.Fatalf("seed %d: %d bytes buffered, bound %d", seed, in.buffered, bound)
			}
		}
		for _, w := range under { // all end: nobody waits for ever
			in.done(w)
		}
		in.grant()
		if in.conn.announced-in.conn.received <= 0 {
			t.Fatalf("seed %d: no credit although nothing is under way", seed)
		}
	}
}
