package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataExchange is a request with its own codec and buffers.
type metadataExchange struct {
	message
	body    []byte
	busy    atomic.Bool
	entered chan struct{}
	leave   int // bytes not read
}

func newMetadataExchange() *metadataExchange {
	req := kmsg.NewPtrMetadataRequest()
	return &metadataExchange{message: *newMessage(req), body: make([]byte, 64<<10), entered: make(chan struct{}, 64)}
}

func (x *metadataExchange) ReadBody(r io.Reader, size int, version int16) error {
	x.busy.Store(true)
	defer x.busy.Store(false)
	x.entered <- struct{}{}
	x.version = version
	_, err := io.ReadFull(r, x.body[:size-x.leave])
	return err
}

func TestExchange(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	x := newMetadataExchange()
	for range 3 {
		if err := c.Exchange(t.Context(), 2, x); err != nil {
			t.Fatal(err)
		}
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.SetVersion(x.version)
	if err := resp.ReadFrom(x.body); err != nil || len(resp.Brokers) != 3 {
		t.Errorf("%d brokers, %v", len(resp.Brokers), err)
	}
	x.leave = 10
	dialled := k.wire.dials.Load()
	for range 20 {
		if err := c.Exchange(t.Context(), 2, x); err != nil {
			t.Fatal(err)
		}
	}
	if k.wire.dials.Load() > dialled+2 { // the Transport may dial for itself
		t.Error("an answer that was not read to its end cost the connection")
	}
}

// INVARIANT: when a call has returned, nothing touches its request or its buffers any more.
func TestCancelledExchangeIsAtRest(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(200, "flights")) // a long answer
	c := k.client(t)
	ends := map[string]func(x *metadataExchange) context.Context{
		"cancel": func(x *metadataExchange) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-x.entered; cancel() }()
			return ctx
		},
		"deadline": func(*metadataExchange) context.Context { return deadline(t, 50*time.Millisecond) },
	}
	for name, end := range ends {
		if err := c.Exchange(t.Context(), 1, newMetadataExchange()); err != nil {
			t.Fatal(err)
		}
		k.wire.halve(true)
		x := newMetadataExchange()
		var err error
		within(t, name, func() { err = c.Exchange(end(x), 1, x) })
		if x.busy.Load() {
			t.Errorf("%s: still reading", name)
		}
		clear(x.body) // the race detector tells if another goroutine may write here
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "cancel" && Retriable(err) {
			t.Errorf("a cancelled call is retriable: %v", err)
		}
		k.wire.halve(false)
	}
	if err := c.Exchange(t.Context(), 1, newMetadataExchange()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A cancelled call must not hold its connection until the broker answers.
func TestCancelledCallLeavesNoConnection(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	if _, err := c.Do(t.Context(), 1, listGroups()); err != nil {
		t.Fatal(err)
	}
	k.wire.freeze(k.addrs[1])
	ctx, cancel := context.WithCancel(t.Context())
	var before int
	go func() {
		k.wire.await(func() bool { before = k.wire.client; return k.wire.held > 0 })
		cancel()
	}()
	if _, err := c.Do(ctx, 1, listGroups()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	k.wire.await(func() bool { return k.wire.client < before })
}

func (s *sockets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func TestCallBeforeItsStartNeverRuns(t *testing.T) {
	x := newMetadataExchange()
	call := newCall(t.Context(), x, 9, 1, "me")
	call.settle()
	if _, err := call.RawExchange(nil); !errors.Is(err, errAbandoned) {
		t.Error(err)
	}
}

// answer is what a connection says to request 5.
func answer(size, id uint32, rest string) []byte {
	b := binary.BigEndian.AppendUint32(nil, size)
	return append(binary.BigEndian.AppendUint32(b, id), rest...)
}

type stream struct {
	io.Reader
	bytes.Buffer
}

func (s *stream) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func TestAnswers(t *testing.T) {
	const rigid, flexible = 2, 3 // of ListGroups
	for _, test := range []struct {
		name    string
		version int16
		in      []byte
		body    string
		err     string
	}{
		{"body", rigid, answer(7, 5, "abc"), "abc", ""},
		{"empty body", rigid, answer(4, 5, ""), "", ""},
		{"no tags", flexible, answer(8, 5, "\x00abc"), "abc", ""},
		{"tags", flexible, answer(14, 5, "\x02\x01\x02xy\x07\x00abc"), "abc", ""},
		{"other answer", rigid, answer(7, 6, "abc"), "", "answer to request 6 where 5 was asked"},
		{"not Kafka", rigid, []byte("HTTP/1.1 400 Bad Request"), "", "not a Kafka broker"},
		{"too short", rigid, answer(3, 5, ""), "", "answer of 3 bytes"},
		{"negative", rigid, answer(1<<31, 5, ""), "", "not a Kafka broker"},
		{"cut off", rigid, answer(9, 5, "abc"), "", "EOF"},
		{"nothing", rigid, nil, "", "EOF"},
		{"tags past the end", flexible, answer(8, 5, "\x01\x01\x7fa"), "", "EOF"},
		{"tags without end", flexible, answer(8, 5, "\xff\xff\xff\xff"), "", "EOF"},
	} {
		m := newMessage(kmsg.NewPtrListGroupsRequest())
		call := newCall(t.Context(), m, test.version, 5, "me")
		err := call.run(&stream{Reader: bytes.NewReader(test.in)})
		if test.err == "" && (err != nil || string(m.body) != test.body) {
			t.Errorf("%s: %q, %v", test.name, m.body, err)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.err)
		}
	}
}

// FuzzAnswer: whatever a broker sends, an answer is read or refused, and never read past its end.
func FuzzAnswer(f *testing.F) {
	f.Add(answer(7, 5, "abcNEXT"), false)
	f.Add(answer(14, 5, "\x02\x01\x02xy\x07\x00abc"), true)
	f.Add(answer(1<<31-1, 5, "x"), true)
	f.Add([]byte("HTTP/1.1 400"), false)
	f.Fuzz(func(t *testing.T, in []byte, flexible bool) {
		version := int16(2)
		if flexible {
			version = 3
		}
		m := newMessage(kmsg.NewPtrListGroupsRequest())
		call := newCall(t.Context(), m, version, 5, "me")
		r := bytes.NewReader(in)
		if err := call.run(&stream{Reader: r}); err != nil {
			return
		}
		if read, want := len(in)-r.Len(), int(binary.BigEndian.Uint32(in))+4; read != want {
			t.Errorf("read %d bytes of an answer of %d", read, want)
		}
		_, _ = m.response()
	})
}

// The header must be what franz-go's own formatter writes.
func TestHeader(t *testing.T) {
	for _, version := range []int16{2, 4} {
		req := kmsg.NewPtrListGroupsRequest()
		call := newCall(t.Context(), newMessage(req), version, 77, "me")
		req.SetVersion(version)
		want := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, req, 77)
		if !bytes.Equal(call.out, want) {
			t.Errorf("v%d: %x, want %x", version, call.out, want)
		}
	}
}

func BenchmarkExchange(b *testing.B) {
	x := newMetadataExchange()
	in := answer(4+32<<10, 5, string(make([]byte, 32<<10)))
	r := bytes.NewReader(in)
	s := &stream{Reader: r}
	x.entered = make(chan struct{}, b.N+1)
	b.ReportAllocs()
	for b.Loop() {
		r.Reset(in)
		call := newCall(context.Background(), x, 8, 5, "me")
		if err := call.run(s); err != nil {
			b.Fatal(err)
		}
		<-x.entered
		call.keepBuffer()
	}
}
