package groupclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
)

// What can go wrong at a take-over, by real requests: on the in-process Kafka, and with the tag kafka on a real
// one. The former owner is not the code under test: it is franz-go, request by request.

// raw is a transactional producer.
type raw struct {
	t     testing.TB
	cl    *kgo.Client
	id    string
	group string
	pid   int64
	epoch int16
}

func newRaw(t testing.TB, addrs []string, group, incarnation string) *raw {
	t.Helper()
	r := &raw{t: t, id: TransactionalID(group, incarnation), group: group}
	var err error
	// The versions before KIP-890's second part, as the sidecar speaks them.
	r.cl, err = kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.TransactionalID(r.id), kgo.MaxVersions(kversion.V3_7_0()),
		kgo.TransactionTimeout(time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cl.Close)
	if err := r.cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *raw) produce(topic string, partition int32, n int) {
	r.t.Helper()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Key: []byte("k"), Value: fmt.Appendf(nil, "%d", i)})
	}
	if err := r.cl.ProduceSync(r.t.Context(), records...).FirstErr(); err != nil {
		r.t.Fatalf("producing to %s: %v", topic, err)
	}
	var err error
	if r.pid, r.epoch, err = r.cl.ProducerID(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// commitOffset is AddOffsetsToTxn and TxnOffsetCommit.
func (r *raw) commitOffset(topic string, partition int32, offset int64, metadata string) {
	r.t.Helper()
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = r.id, r.pid, r.epoch, r.group
	added, err := add.RequestWith(r.t.Context(), r.cl)
	if err != nil || added.ErrorCode != 0 {
		r.t.Fatalf("AddOffsetsToTxn: %v, %+v", err, added)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = r.id, r.group, r.pid, r.epoch
	rt, rp := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = partition, offset, -1, &metadata
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(r.t.Context(), r.cl)
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		r.t.Fatalf("TxnOffsetCommit: %v, %+v", err, resp)
	}
}

// end is EndTxn.
func (r *raw) end() int16 {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = r.id, r.pid, r.epoch, true
	resp, err := req.RequestWith(r.t.Context(), r.cl)
	if err != nil {
		r.t.Errorf("EndTxn: %v", err)
		return -1
	}
	return resp.ErrorCode
}

// watched is a member's client with somebody who looks on.
type watched struct {
	client
	answer func(kmsg.Request) kmsg.Response // in place of Kafka; nil: Kafka's own
	heard  func(kmsg.Request, kmsg.Response)
	cut    *atomic.Bool // the membership is not served; nil: it is

	mu    sync.Mutex
	inits []string
}

func (w *watched) initialised(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, seen := range w.inits {
		if seen == id {
			return true
		}
	}
	return false
}

func (w *watched) Do(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
	if w.cut != nil && w.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return w.client.Do(ctx, node, req)
}

func (w *watched) ToGroup(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error) {
	resp, err := w.client.ToGroup(ctx, group, req)
	if err == nil && w.heard != nil {
		w.heard(req, resp)
	}
	return resp, err
}

func (w *watched) ToTransaction(ctx context.Context, id string, req kmsg.Request) (kmsg.Response, error) {
	w.mu.Lock()
	w.inits = append(w.inits, id)
	w.mu.Unlock()
	if w.answer != nil {
		if resp := w.answer(req); resp != nil {
			return resp, nil
		}
	}
	return w.client.ToTransaction(ctx, id, req)
}

// stage is one group with its topics, and what a former owner has left of task orders/0: the position 7 of 10
// records, with its claim.
type stage struct {
	t         testing.TB
	addrs     []string
	group     string
	orders    string
	changelog string
	claim     string
}

var stages atomic.Int64

func newStage(t testing.TB, addrs []string, change func(*claim)) *stage {
	t.Helper()
	n := stages.Add(1)
	s := &stage{t: t, addrs: addrs, group: fmt.Sprintf("app-%d", n), orders: fmt.Sprintf("orders-%d", n), changelog: fmt.Sprintf("counts-%d", n)}
	for _, topic := range []string{s.orders, s.changelog} {
		kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	}
	var records []kafkatest.Record
	for range 10 {
		records = append(records, kafkatest.KV("k", "v").On(0))
	}
	kafkatest.Produce(t, addrs, s.orders, records)
	s.claim = claimOf(t, former, func(c *claim) {
		c.Sources = map[string]string{s.orders: shortID(kafkatest.TopicID(t, addrs, s.orders))}
		c.Tables = map[string]string{s.changelog: shortID(kafkatest.TopicID(t, addrs, s.changelog))}
		change(c)
	})
	s.commit(7)
	return s
}

// commit is what an owner commits without a transaction.
func (s *stage) commit(offset int64) {
	s.t.Helper()
	kafkatest.CommitOffsets(s.t, s.addrs, s.group, map[kafkatest.TopicPartition]kafkatest.CommittedOffset{
		{Topic: s.orders}: {Offset: offset, LeaderEpoch: -1, Metadata: s.claim},
	})
}

func (s *stage) former() *raw {
	s.t.Helper()
	return newRaw(s.t, s.addrs, s.group, former)
}

// join is a member with these steps, who has the task.
func (s *stage) join(steps []step, w *watched, log *lines) *member {
	s.t.Helper()
	c := newClient(s.t, s.addrs)
	w.client = c
	m := &member{recorder: newRecorder()}
	cfg := Config{Client: c, Group: s.group, SessionTimeout: 6 * time.Second, HeartbeatInterval: 100 * time.Millisecond, Guarantee: ExactlyOnce}
	cfg.Begin = func(ctx context.Context, incarnation string) error {
		req := kmsg.NewPtrInitProducerIDRequest()
		id := TransactionalID(s.group, incarnation)
		req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, 10_000, -1, -1
		for attempt := 0; ; attempt++ {
			answer, err := c.ToTransaction(ctx, id, req)
			if err != nil {
				return err
			}
			if code := answer.(*kmsg.InitProducerIDResponse).ErrorCode; code == 0 {
				return nil
			} else if !kafka.Pause(ctx, attempt) {
				return fmt.Errorf("InitProducerId: %d", code)
			}
		}
	}
	if log != nil {
		cfg.Logger = log.logger()
	}
	m.Group = newGroup(cfg, w, m.recorder)
	m.Group.steps = steps
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	m.stop = sync.OnceFunc(func() { cancel(); <-done })
	s.t.Cleanup(m.stop)
	p, err := Prepare(s.t.Context(), c, PrepareOptions{Group: s.group}, Declaration{Sets: []DeclaredSet{
		{"orders", []string{s.orders}, []DeclaredTable{{Name: "counts", Changelog: s.changelog}}},
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	m.Join(p)
	return m
}

// take is a take-over that is not waited for longer than 20 s.
func (s *stage) take(m *member) (TakeOver, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	return m.TakeOver(ctx, Task{"orders", 0})
}

func (s *stage) stored() (int64, claim) {
	s.t.Helper()
	at := kafkatest.CommittedOffsets(s.t, s.addrs, s.group)[kafkatest.TopicPartition{Topic: s.orders}]
	c, _, _ := parseClaim(at.Metadata)
	return at.Offset, c
}

// waitsFor calls do once the member was told for the third time that offsets are not stable.
func waitsFor(do func()) func(kmsg.Request, kmsg.Response) {
	var n atomic.Int32
	return func(req kmsg.Request, resp kmsg.Response) {
		fetch, ok := req.(*kmsg.OffsetFetchRequest)
		if !ok || !fetch.RequireStable {
			return
		}
		if _, code := offsetsIn(resp.(*kmsg.OffsetFetchResponse), 0); code == 88 && n.Add(1) == 3 {
			do()
		}
	}
}

// onKafka are the situations by real requests. Each says what is wrong, as those on the model do.
var onKafka = []struct {
	name    string
	run     func(t testing.TB, addrs []string, steps []step) []string
	catches []string // of wrongOrders
}{
	{"a zombie has an open transaction", rawZombie, []string{"without claims", "without fence", "fence as number 5", "stable as number 3"}},
	{"the fence is refused", rawRefusedFence, []string{"without stable", "stable as number 6"}},
	{"a clean hand-over, the offsets' marker is late", rawLateOffsets, []string{"fence of everybody"}},
	{"a clean hand-over, the changelog's marker is late", rawLateChangelog, []string{"ends by the last stable offset", "fence of everybody"}},
}

func rawZombie(t testing.TB, addrs []string, steps []step) []string {
	var wrong findings
	s := newStage(t, addrs, func(*claim) {})
	p := s.former()
	p.produce(s.changelog, 0, 2)
	p.commitOffset(s.orders, 0, 9, s.claim)
	var code atomic.Int32
	code.Store(-2)
	m := s.join(steps, &watched{heard: waitsFor(func() { code.Store(int32(p.end())) })}, nil)
	m.assigned(t, "the task", has(1))
	over, err := s.take(m)
	if code.Load() == -2 {
		code.Store(int32(p.end()))
	}
	wrong.expect(err == nil, "the take-over fails: %v", err)
	wrong.expect(code.Load() != 0, "the zombie's EndTxn is taken")
	wrong.expect(err != nil || over.Positions[s.orders] == 7 && over.Ends["counts"] >= 2, "got %+v", over)
	position, _ := s.stored()
	wrong.expect(position == 7, "stored %d", position)
	m.stop()
	return wrong
}

func rawRefusedFence(t testing.TB, addrs []string, steps []step) []string {
	var wrong findings
	s := newStage(t, addrs, func(*claim) {})
	p := s.former()
	p.produce(s.changelog, 0, 2)
	p.commitOffset(s.orders, 0, 9, s.claim)
	var log lines
	w := &watched{
		heard: waitsFor(func() { p.end() }),
		answer: func(req kmsg.Request) kmsg.Response {
			if init, ok := req.(*kmsg.InitProducerIDRequest); ok && *init.TransactionalID == p.id {
				return initResponse(53)
			}
			return nil
		},
	}
	m := s.join(steps, w, &log)
	m.assigned(t, "the task", has(1))
	over, err := s.take(m)
	p.end()
	wrong.expect(err == nil, "the take-over fails: %v", err)
	wrong.expect(over.Positions[s.orders] == 9, "starts at %d: records are processed twice", over.Positions[s.orders])
	wrong.expect(over.Ends["counts"] >= 2, "ends %v", over.Ends)
	wrong.expect(log.with("Kafka refuses") == 1 && log.with("prefixed ACL") == 1, "the missing right is not said")
	m.stop()
	return wrong
}

// rawLateOffsets: the former owner was told that its transaction is committed, and has released; nothing of the
// transaction's end has reached the brokers of its partitions yet, which is as if it were open.
func rawLateOffsets(t testing.TB, addrs []string, steps []step) []string {
	var wrong findings
	s := newStage(t, addrs, released)
	p := s.former()
	p.produce(s.changelog, 0, 2)
	p.commitOffset(s.orders, 0, 9, s.claim)
	s.commit(9) // the release
	var ended atomic.Bool
	w := &watched{heard: waitsFor(func() { ended.Store(p.end() == 0) })}
	m := s.join(steps, w, nil)
	m.assigned(t, "the task", has(1))
	over, err := s.take(m)
	wrong.expect(err == nil, "the take-over fails: %v", err)
	wrong.expect(ended.Load(), "what an open transaction may still change was taken for stable")
	wrong.expect(over.Positions[s.orders] == 9, "starts at %d", over.Positions[s.orders])
	wrong.expect(over.Ends["counts"] >= 2, "ends %v", over.Ends)
	wrong.expect(!w.initialised(p.id), "who has handed over cleanly was fenced")
	position, c := s.stored()
	wrong.expect(position == 9 && c.Incarnation == m.Incarnation(), "stored %d, %+v", position, c)
	m.stop()
	return wrong
}

// rawLateChangelog: the same, and only the changelog's marker is late.
func rawLateChangelog(t testing.TB, addrs []string, steps []step) []string {
	var wrong findings
	s := newStage(t, addrs, released)
	p := s.former()
	p.produce(s.changelog, 0, 2)
	s.commit(9)
	w := &watched{}
	m := s.join(steps, w, nil)
	m.assigned(t, "the task", has(1))
	over, err := s.take(m)
	wrong.expect(err == nil, "the take-over fails: %v", err)
	wrong.expect(over.Positions[s.orders] == 9, "starts at %d", over.Positions[s.orders])
	wrong.expect(over.Ends["counts"] == 2, "ends %v, 2 records are there", over.Ends)
	wrong.expect(!w.initialised(p.id), "who has handed over cleanly was fenced")
	code := p.end()
	wrong.expect(code == 0, "the late markers are refused")
	if err == nil && code == 0 {
		// A replay up to that end has every row.
		rows := kafkatest.ReadUntil(t, addrs, s.changelog, func(r []kafkatest.Record) bool { return len(r) == 2 })
		wrong.expect(len(rows) == 2, "%d rows", len(rows))
	}
	m.stop()
	return wrong
}

// stepsByRequests runs the situations with the true order and with those that each has to catch.
func stepsByRequests(t *testing.T, addrs []string) {
	orders := map[string]order{}
	for _, o := range wrongOrders() {
		orders[o.name] = o
	}
	for _, s := range onKafka {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			if wrong := s.run(t, addrs, takeOverSteps); len(wrong) > 0 {
				t.Errorf("%v", wrong)
			}
			for _, name := range s.catches {
				o, ok := orders[name]
				if !ok {
					t.Fatalf("no order %q", name)
				}
				wrong := s.run(t, addrs, o.steps)
				if len(wrong) == 0 {
					t.Errorf("%s: nothing is wrong", name)
					continue
				}
				t.Logf("%s: %s", name, wrong[0])
			}
		})
	}
}

func TestEachStepOfATakeOverByRequests(t *testing.T) {
	stepsByRequests(t, kafkatest.Fake(t).Addrs())
}
