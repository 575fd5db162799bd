//go:build kafka

package groupmodel

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/pillion/pillion/internal/kafkatest"
)

// onKafka runs a script against a real broker.
type onKafka struct {
	t      *testing.T
	addrs  []string
	broker *kafkatest.RealBroker // of its own, when it may be restarted
	group  string

	mu     sync.Mutex
	got    []Answer
	news   chan struct{}
	cancel map[Token]context.CancelFunc
	txns   map[string]producer
	slow   time.Duration // how much more is waited for what should not be answered
	open   sync.WaitGroup
}

type producer struct {
	id    int64
	epoch int16
}

const (
	quiet   = 150 * time.Millisecond // in which nothing else may be answered
	patient = 20 * time.Second       // for what has to be answered
)

// ask sends a request on a connection of its own, which stands before that: what comes later is only the way
// to the broker.
func (k *onKafka) ask(token Token, r Request) {
	ctx, cancel := context.WithCancel(context.Background())
	k.mu.Lock()
	k.cancel[token] = cancel
	k.mu.Unlock()
	cl, err := k.connect(ctx, r)
	k.open.Go(func() {
		defer cancel()
		a := Answer{Code: gone}
		if err == nil {
			defer cl.Close()
			if got, err := k.send(ctx, cl.SeedBrokers()[0], r); err == nil {
				a = got
			}
		}
		a.To = token
		k.mu.Lock()
		k.got = append(k.got, a)
		k.mu.Unlock()
		select {
		case k.news <- struct{}{}:
		default:
		}
	})
}

func (k *onKafka) settle(want []Token, longer bool) []Answer {
	end := time.After(patient)
	for !k.has(want) {
		select {
		case <-k.news:
			continue
		case <-end:
		}
		break
	}
	if longer {
		time.Sleep(quiet * k.slow)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	got := k.got
	k.got = nil
	return got
}

func (k *onKafka) has(want []Token) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	have := map[Token]bool{}
	for _, a := range k.got {
		have[a.To] = true
	}
	for _, token := range want {
		if !have[token] {
			return false
		}
	}
	return true
}

func (k *onKafka) wait(d time.Duration) { time.Sleep(d) }

func (k *onKafka) cut(token Token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel[token]()
}

func (k *onKafka) state() string {
	g := kafkatest.GroupState(k.t, k.addrs, k.group)
	return fmt.Sprintf("%s %d", g.State, len(g.Members))
}

func (k *onKafka) restart() {
	k.broker.Stop()
	k.broker.Start()
	kafkatest.GroupState(k.t, k.addrs, k.group)
}

func (k *onKafka) close() {
	k.mu.Lock()
	for _, cancel := range k.cancel {
		cancel()
	}
	k.mu.Unlock()
	k.open.Wait()
}

// connect makes the connection: that for JoinGroup and SyncGroup, or the one for all else.
func (k *onKafka) connect(ctx context.Context, r Request) (*kgo.Client, error) {
	v := kversion.Stable()
	for key, most := range map[int16]int16{8: 9, 9: 7, 22: 4, 25: 3, 26: 3, 28: 3} {
		v.SetMaxKeyVersion(key, most) // topics by name, transactions as the sidecar has them
	}
	if j, ok := r.(JoinGroup); ok && !j.KnowsSkip {
		v.SetMaxKeyVersion(11, 8)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.addrs...), kgo.MaxVersions(v))
	if err != nil {
		return nil, err
	}
	var hello kmsg.Request
	switch r.(type) {
	case JoinGroup, SyncGroup:
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, hello = "nobody's", req
	default:
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, hello = "nobody's", req
	}
	if _, err := cl.SeedBrokers()[0].Request(ctx, hello); err != nil {
		cl.Close()
		return nil, err
	}
	return cl, nil
}

func (k *onKafka) send(ctx context.Context, b *kgo.Broker, r Request) (Answer, error) {
	if txn, ok := r.(TxnOffsetCommit); ok {
		if err := k.begin(ctx, b, txn.Transaction); err != nil {
			return Answer{}, err
		}
	}
	resp, err := b.Request(ctx, k.wire(r))
	if err != nil {
		return Answer{}, err
	}
	return answerOf(resp), nil
}

// begin makes the offsets part of a transaction.
func (k *onKafka) begin(ctx context.Context, b *kgo.Broker, txn string) error {
	id := k.group + "-" + txn
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorType, find.CoordinatorKeys = id, 1, []string{id}
	start := kmsg.NewPtrInitProducerIDRequest()
	start.TransactionalID, start.TransactionTimeoutMillis = &id, 60_000
	start.ProducerID, start.ProducerEpoch = -1, -1
	for ; ; time.Sleep(100 * time.Millisecond) {
		if _, err := b.Request(ctx, find); err != nil {
			return err
		}
		resp, err := b.Request(ctx, start)
		if err != nil {
			return err
		}
		begun := resp.(*kmsg.InitProducerIDResponse)
		if c := begun.ErrorCode; c == 14 || c == 15 || c == 16 || c == 51 {
			continue
		}
		k.txns[txn] = producer{begun.ProducerID, begun.ProducerEpoch}
		break
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.Group = id, k.group
	add.ProducerID, add.ProducerEpoch = k.txns[txn].id, k.txns[txn].epoch
	resp, err := b.Request(ctx, add)
	if err == nil && resp.(*kmsg.AddOffsetsToTxnResponse).ErrorCode != 0 {
		err = fmt.Errorf("AddOffsetsToTxn: %d", resp.(*kmsg.AddOffsetsToTxnResponse).ErrorCode)
	}
	return err
}

// INVARIANT: the model answers as a real broker does. The script fixes every answer, so that both have
// given the same when both pass.
func TestScriptsOnKafka(t *testing.T) {
	short := []kafkatest.Option{
		kafkatest.Property("group.min.session.timeout.ms", fmt.Sprint(scriptSession.Milliseconds())),
		kafkatest.Property("group.max.size", fmt.Sprint(scriptSize)),
	}
	shared := kafkatest.Broker(t, kafkatest.Latest, short...)
	kafkatest.CreateTopic(t, shared.Addrs(), scriptPartition.Topic, 1, nil)
	settle(t, shared.Addrs())
	var running sync.WaitGroup
	for _, s := range append(tableScripts(t), readScripts(t)...) {
		running.Go(func() { // scripts wait more than they work
			t.Run(s.name, func(t *testing.T) { s.compare(t, shared, short) })
		})
	}
	running.Wait()
}

// compare runs a script on both.
func (s script) compare(t *testing.T, broker *kafkatest.RealBroker, options []kafkatest.Option) {
	if s.restarts() {
		broker = kafkatest.Broker(t, kafkatest.Latest, options...)
		kafkatest.CreateTopic(t, broker.Addrs(), scriptPartition.Topic, 1, nil)
		settle(t, broker.Addrs())
	}
	// A machine that is busy is late, and the scripts have times: then all of them are longer, in a new group.
	var trace, errs []string
	for _, scale := range []int{1, 3, 8} {
		k := &onKafka{
			t: t, addrs: broker.Addrs(), broker: broker, group: fmt.Sprintf("%s-%d", s.name, scale), news: make(chan struct{}, 1),
			cancel: map[Token]context.CancelFunc{}, txns: map[string]producer{}, slow: time.Duration(scale),
		}
		trace, errs = s.play(k, scale)
		k.close()
		if len(errs) == 0 {
			break
		}
		t.Logf("at scale %d: %s", scale, strings.Join(errs, "\n"))
	}
	if len(errs) > 0 {
		t.Error("Kafka answers otherwise")
	}
	if onModel, _ := s.play(newOnModel(), 1); len(errs) == 0 && fmt.Sprint(trace) != fmt.Sprint(onModel) {
		t.Errorf("Kafka answered %q\nthe model  %q", trace, onModel)
	}
}

// settle waits until the group coordinator is there.
func settle(t *testing.T, addrs []string) {
	t.Helper()
	kafkatest.GroupState(t, addrs, "none")
}

func (s script) restarts() bool {
	for _, st := range s.steps {
		if st.who == "restart" {
			return true
		}
	}
	return false
}
