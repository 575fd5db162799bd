package fetch

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// script is a cluster that does what a test says. Its one topic is "t" with partitions 0 to 9.
type script struct {
	mu       sync.Mutex
	id       [16]byte
	topicErr error
	leader   int32
	epoch    int32
	end      kafka.Offset // of every leader epoch; LeaderEpoch is the epoch asked for
	endErr   error
	earliest int64
	latest   int64
	calls    []string
	fetch    func(ctx context.Context, node int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error)
}

func newScript() *script {
	return &script{id: ids[0], leader: 1, epoch: 5, end: kafka.Offset{Offset: 1 << 40}, latest: 1 << 40}
}

func (s *script) note(format string, args ...any) {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *script) count(call string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (s *script) change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

func (s *script) topics() map[string]kafka.Topic {
	return map[string]kafka.Topic{"t": {Name: "t", ID: s.id, Err: s.topicErr, Partitions: make([]kafka.Partition, 10)}}
}

func (s *script) Topics(context.Context, ...string) (map[string]kafka.Topic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("topics")
	return s.topics(), nil
}

func (s *script) Refresh(context.Context, ...string) (map[string]kafka.Topic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("refresh")
	return s.topics(), nil
}

func (s *script) Leader(context.Context, kafka.TopicPartition) (int32, int32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("leader")
	return s.leader, s.epoch, nil
}

func (s *script) ForgetLeader(kafka.TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("forget")
}

func (s *script) Denied(int16, string, string) *kafka.AccessError { return nil }

func (s *script) EpochEnd(_ context.Context, _ kafka.TopicPartition, epoch int32) (int32, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("epoch end %d", epoch)
	return s.end.LeaderEpoch, s.end.Offset, s.endErr
}

func (s *script) ListOffsets(_ context.Context, at int64, committed bool, tps ...kafka.TopicPartition) (map[kafka.TopicPartition]kafka.Offset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("offsets %d %v", at, committed)
	offset := s.latest
	if at == kafka.Earliest {
		offset = s.earliest
	}
	return map[kafka.TopicPartition]kafka.Offset{tps[0]: {Offset: offset}}, nil
}

func (s *script) Exchange(ctx context.Context, node int32, x kafka.Exchange) error {
	req := kmsg.NewPtrFetchRequest()
	version := x.MaxVersion()
	req.SetVersion(version)
	if err := req.ReadFrom(x.AppendTo(nil, version)); err != nil {
		return err
	}
	res, err := s.fetch(ctx, node, req)
	if err != nil {
		return err
	}
	res.SetVersion(version)
	b := res.AppendTo(nil)
	return x.ReadBody(bytes.NewReader(b), len(b), version)
}

// reply answers each partition of a request with what fn makes of it.
func reply(req *kmsg.FetchRequest, fn func(p kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition)) *kmsg.FetchResponse {
	res := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.HighWatermark, rp.LastStableOffset = p.Partition, 1<<40, 1<<40
			fn(p, &rp)
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return res
}

// code answers every partition with an error code.
func code(req *kmsg.FetchRequest, code int16) *kmsg.FetchResponse {
	return reply(req, func(_ kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) { out.ErrorCode = code })
}

// data answers every partition with a batch of n records.
func data(t testing.TB, req *kmsg.FetchRequest, n int) *kmsg.FetchResponse {
	return reply(req, func(p kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) {
		out.RecordBatches = handmade{base: p.FetchOffset, records: kv(n), epoch: 5}.encode(t)
	})
}

// steps answers the fetches one after the other, however many loops ask; the last answers all that follow.
func (s *script) steps(fns ...func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error)) {
	var mu sync.Mutex
	s.fetch = func(_ context.Context, _ int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		fn := fns[0]
		if len(fns) > 1 {
			fns = slices.Delete(fns, 0, 1)
		}
		return fn(req)
	}
}

// scripted runs a fetcher on a script until the function returned is called.
func scripted(t testing.TB, s *script, change func(*Config)) (f *Fetcher, stop func()) {
	t.Helper()
	var cfg Config
	if change != nil {
		change(&cfg)
	}
	f, err := newFetcher(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	return f, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if held := f.room.held(); held != 0 {
			t.Errorf("%d bytes of the room are still held", held)
		}
	}
}
