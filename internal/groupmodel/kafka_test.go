//go:build kafka

package groupmodel

import (
	"context"
	"fmt"
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

func (k *onKafka) ask(token Token, r Request) {
	ctx, cancel := context.WithCancel(context.Background())
	k.mu.Lock()
	k.cancel[token] = cancel
	k.mu.Unlock()
	k.open.Go(func() {
		defer cancel()
		a, err := k.exchange(ctx, r)
		if err != nil {
			a = Answer{Code: gone}
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
		time.Sleep(quiet)
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

// exchange sends one request on a connection of its own.
func (k *onKafka) exchange(ctx context.Context, r Request) (Answer, error) {
	v := kversion.Stable()
	for key, most := range map[int16]int16{8: 9, 9: 7, 22: 4, 25: 3, 26: 3, 28: 3} {
		v.SetMaxKeyVersion(key, most) // topics by name, transactions as the sidecar has them
	}
	if j, ok := r.(JoinGroup); ok && !j.KnowsSkip {
		v.SetMaxKeyVersion(11, 8)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.addrs...), kgo.MaxVersions(v))
	if err != nil {
		return Answer{}, err
	}
	defer cl.Close()
	return k.send(ctx, cl.SeedBrokers()[0], r)
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
	k := &onKafka{
		t: t, addrs: broker.Addrs(), broker: broker, group: s.name, news: make(chan struct{}, 1),
		cancel: map[Token]context.CancelFunc{}, txns: map[string]producer{},
	}
	defer k.close()
	onKafka := s.play(t, k)
	onModel := s.play(t, newOnModel())
	if fmt.Sprint(onKafka) != fmt.Sprint(onModel) {
		t.Errorf("Kafka answered %q\nthe model  %q", onKafka, onModel)
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
