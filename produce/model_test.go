package produce

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// model is a Kafka that breaks as it is told: what a broker does with idempotent
// batches, and what can happen to a request on its way. It takes uncompressed batches.
type model struct {
	mu         sync.Mutex
	rng        *rand.Rand
	trouble    float64 // how many of the requests meet a fault
	fault      func(*model) fault
	partitions int32
	id         [16]byte
	gone       bool  // the topic is deleted
	noEpochs   error // the answer to EpochEnd; nil: it is known
	logs       map[kafka.TopicPartition]*modelLog
	pids       int64
	requests   int
	late       sync.WaitGroup // requests that land after they were given up
	broken     []string       // what must never have happened
}

type modelLog struct {
	records   []string
	epoch     int32
	producers map[int64]*modelProducer
}

type modelProducer struct {
	last [][2]int64 // first sequence and base offset of the last five batches
	next int32
}

// fault is what happens to one request.
type fault struct {
	before  error         // it was never written
	lost    bool          // it is not applied
	late    time.Duration // it is applied that much later
	code    int16         // answered in place of applying it
	after   int16         // answered although it was applied
	noReply error         // the answer does not arrive
	slow    time.Duration // before anything
}

var errLost = fmt.Errorf("connection: %w", io.EOF)

func newModel(seed uint64, partitions int32) *model {
	return &model{rng: rand.New(rand.NewPCG(seed, 1)), partitions: partitions, id: [16]byte{1}, logs: map[kafka.TopicPartition]*modelLog{}, fault: randomFault}
}

// randomFault needs mu.
func randomFault(m *model) fault {
	if m.rng.Float64() >= m.trouble {
		return fault{slow: time.Duration(m.rng.IntN(20)) * time.Millisecond}
	}
	pick := func(codes ...int16) int16 { return codes[m.rng.IntN(len(codes))] }
	switch m.rng.IntN(8) {
	case 0:
		return fault{before: errors.New("connection refused")}
	case 1:
		return fault{lost: true, noReply: errLost}
	case 2, 3:
		return fault{noReply: errLost}
	case 4:
		return fault{noReply: errLost, late: time.Duration(m.rng.IntN(3000)) * time.Millisecond}
	case 5:
		return fault{code: pick(codeNotLeader, codeNotEnoughReplicas, codeUnknownTopic, codeNoLeader, codeCorrupt, codeThrottled)}
	case 6:
		return fault{after: pick(codeTimedOut, codeNotEnoughAfter, codeServerError, codeStorage, codeNetwork)}
	}
	return fault{slow: time.Duration(m.rng.IntN(12)) * time.Second}
}

func (m *model) Do(ctx context.Context, _ int32, req kmsg.Request) (kmsg.Response, error) {
	m.mu.Lock()
	f := m.fault(m)
	m.requests++
	m.mu.Unlock()
	if f.slow > 0 && !pause(ctx, f.slow) {
		return nil, ctx.Err()
	}
	if f.before != nil {
		return nil, f.before
	}
	kafka.NoteTry(ctx, req.Key())
	req.SetVersion(12)
	var got kmsg.ProduceRequest
	got.SetVersion(12)
	if err := got.ReadFrom(req.AppendTo(nil)); err != nil {
		return nil, err
	}
	if f.late > 0 {
		m.late.Go(func() { time.Sleep(f.late); m.apply(&got, fault{}) })
		return nil, f.noReply
	}
	resp := m.apply(&got, f)
	if f.noReply != nil {
		return nil, f.noReply
	}
	return resp, nil
}

func (m *model) apply(req *kmsg.ProduceRequest, f fault) *kmsg.ProduceResponse {
	m.mu.Lock()
	defer m.mu.Unlock()
	resp := &kmsg.ProduceResponse{Version: 12}
	for _, t := range req.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic = t.Topic
		for _, q := range t.Partitions {
			a := kmsg.NewProduceResponseTopicPartition()
			a.Partition, a.BaseOffset = q.Partition, -1
			switch {
			case f.code != 0:
				a.ErrorCode = f.code
			case m.gone:
				a.ErrorCode = codeUnknownTopic
			case !f.lost:
				a.ErrorCode, a.BaseOffset = m.append(kafka.TopicPartition{Topic: t.Topic, Partition: q.Partition}, q.Records)
				if f.after != 0 && a.ErrorCode == 0 {
					a.ErrorCode, a.BaseOffset = f.after, -1
				}
			}
			out.Partitions = append(out.Partitions, a)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (m *model) log(tp kafka.TopicPartition) *modelLog {
	l := m.logs[tp]
	if l == nil {
		l = &modelLog{producers: map[int64]*modelProducer{}}
		m.logs[tp] = l
	}
	return l
}

// append is the broker's: needs mu.
func (m *model) append(tp kafka.TopicPartition, raw []byte) (code int16, base int64) {
	l := m.log(tp)
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil || b.Magic != 2 || int(b.Length) != len(raw)-12 {
		m.broken = append(m.broken, fmt.Sprintf("a batch that cannot be read: %v", err))
		return 87, -1
	}
	if crc := crc32.Checksum(raw[atAttributes:], castagnoli); uint32(b.CRC) != crc {
		m.broken = append(m.broken, "a wrong crc")
		return codeCorrupt, -1
	}
	p := l.producers[b.ProducerID]
	if p == nil {
		if b.FirstSequence != 0 {
			return codeUnknownProducer, -1
		}
		p = &modelProducer{}
		l.producers[b.ProducerID] = p
	}
	for _, seen := range p.last {
		if seen[0] == int64(b.FirstSequence) {
			return 0, seen[1]
		}
	}
	if b.FirstSequence != p.next {
		return codeOutOfOrder, -1
	}
	base = int64(len(l.records))
	rest := b.Records
	for range b.NumRecords {
		n, size := kbinVarint(rest)
		var r kmsg.Record
		if err := r.ReadFrom(rest[:size+n]); err != nil {
			m.broken = append(m.broken, fmt.Sprintf("a record that cannot be read: %v", err))
		}
		rest = rest[size+n:]
		l.records = append(l.records, string(r.Key)+"="+string(r.Value))
	}
	p.next = nextSequence(p.next, b.NumRecords)
	if p.last = append(p.last, [2]int64{int64(b.FirstSequence), base}); len(p.last) > 5 {
		p.last = p.last[1:]
	}
	return 0, base
}

// kbinVarint reads a zigzag varint: its value and its size.
func kbinVarint(b []byte) (value, size int) {
	var u uint64
	for i, c := range b {
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int(int64(u>>1) ^ -int64(u&1)), i + 1
		}
	}
	return 0, 0
}

func (m *model) Any(context.Context, kmsg.Request) (kmsg.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rng.Float64() < m.trouble/2 {
		return &kmsg.InitProducerIDResponse{ErrorCode: 15}, nil
	}
	m.pids++
	return &kmsg.InitProducerIDResponse{ProducerID: m.pids}, nil
}

func (m *model) Topics(_ context.Context, names ...string) (map[string]kafka.Topic, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]kafka.Topic{}
	for _, name := range names {
		t := kafka.Topic{Name: name, ID: m.id}
		for i := range m.partitions {
			t.Partitions = append(t.Partitions, kafka.Partition{Index: i, Leader: i % 3})
		}
		if m.gone {
			t = kafka.Topic{Name: name, Err: &kafka.Error{Code: codeUnknownTopic}}
		}
		out[name] = t
	}
	return out, nil
}

func (m *model) Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error) {
	return m.Topics(ctx, names...)
}

func (m *model) Leader(_ context.Context, tp kafka.TopicPartition) (int32, int32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return -1, -1, &kafka.Error{Code: codeUnknownTopic}
	}
	return tp.Partition % 3, m.log(tp).epoch, nil
}

func (m *model) ForgetLeader(kafka.TopicPartition) {}

func (m *model) ListOffsets(_ context.Context, _ int64, _ bool, tps ...kafka.TopicPartition) (map[kafka.TopicPartition]kafka.Offset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[kafka.TopicPartition]kafka.Offset{tps[0]: {Offset: int64(len(m.log(tps[0]).records))}}, nil
}

func (m *model) EpochEnd(_ context.Context, tp kafka.TopicPartition, epoch int32) (int32, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.noEpochs != nil {
		return -1, -1, m.noEpochs
	}
	return epoch, int64(len(m.log(tp).records)), nil
}

func (m *model) TopicConfigs(context.Context, string, ...string) (map[string]string, error) {
	return map[string]string{limitKey: "2000"}, nil
}
