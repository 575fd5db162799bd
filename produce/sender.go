package produce

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

const (
	maxRequests     = 4       // under way to one broker; each has its own connection
	maxRequestBytes = 8 << 20 // of one request, unless one batch is larger

	lowestProduce = 7  // the first that takes zstd
	topicIDs      = 13 // the first that names topics by id
	transactional = 11 // the last whose brokers do not add partitions to the transaction by themselves
)

// sender packs what several lanes have for one broker into shared requests. It has no goroutine:
// a lane that comes while fewer than maxRequests are under way sends for all that wait.
type sender struct {
	node    int32
	cluster cluster
	timeout time.Duration

	transaction string // the transactional id; "": none

	mu      sync.Mutex
	waiting []*parcel
	active  int
}

// parcel is one batch on its way. A lane has one at a time, so a request has one for a partition.
type parcel struct {
	b      *batch
	answer chan outcome  // buffered
	lead   chan struct{} // buffered: it is this parcel's lane that sends next
	leads  bool          // guarded by sender.mu: lead was given
}

// send makes one attempt.
func (s *sender) send(ctx context.Context, b *batch) outcome {
	x := &parcel{b: b, answer: make(chan outcome, 1), lead: make(chan struct{}, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, x)
	if s.active < maxRequests {
		s.active++
		x.give()
	}
	s.mu.Unlock()
	for {
		select {
		case <-x.lead:
			s.flush(ctx)
		case o := <-x.answer:
			select {
			case <-x.lead: // another lane took the parcel along; the right to send goes on
				s.pass()
			default:
			}
			return o
		}
	}
}

// give makes the parcel's lane send; under sender.mu, once.
func (x *parcel) give() {
	x.leads = true
	x.lead <- struct{}{}
}

// pass gives the right to send to a parcel that waits for it, or back.
func (s *sender) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.waiting {
		if !x.leads {
			x.give()
			return
		}
	}
	s.active--
}

// flush sends one request and passes the right to send on.
func (s *sender) flush(ctx context.Context) {
	runtime.Gosched() // lanes that became ready in the same moment come along
	parcels := s.take()
	outcomes := s.exchange(ctx, parcels)
	s.pass()
	for i, x := range parcels {
		x.answer <- outcomes[i]
	}
}

func (s *sender) take() []*parcel {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, bytes := 0, 0
	for ; n < len(s.waiting); n++ {
		if bytes += len(s.waiting[n].b.records); n > 0 && bytes > maxRequestBytes {
			break
		}
	}
	parcels := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	return parcels
}

// exchange makes one request of the parcels. There is an outcome for each.
func (s *sender) exchange(ctx context.Context, parcels []*parcel) []outcome {
	outcomes := make([]outcome, len(parcels))
	if len(parcels) == 0 {
		return outcomes
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	req.TimeoutMillis = int32((s.timeout * 3 / 4).Milliseconds())
	var highest int16
	req.Topics, highest = requestTopics(parcels)
	if s.transaction != "" {
		req.TransactionID = &s.transaction
		highest = transactional
	}
	ctx, tries := kafka.CountTries(ctx, kmsg.Produce)
	got, err := s.cluster.Do(ctx, s.node, kafka.Between(req, lowestProduce, highest))
	resp, ok := got.(*kmsg.ProduceResponse)
	if err == nil && !ok {
		err = fmt.Errorf("answered with %T", got)
	}
	for i, x := range parcels {
		if err != nil {
			outcomes[i] = fromError(fmt.Errorf("writing to broker %d: %w", s.node, err), tries.Written())
			continue
		}
		outcomes[i] = find(resp, x.b)
	}
	return outcomes
}

// requestTopics groups the parcels by topic. Topics are named by id, from version 13 on, only when
// all ids are known.
func requestTopics(parcels []*parcel) (topics []kmsg.ProduceRequestTopic, highest int16) {
	highest = topicIDs
	at := map[string]int{}
	for _, x := range parcels {
		i, ok := at[x.b.tp.Topic]
		if !ok {
			i = len(topics)
			at[x.b.tp.Topic] = i
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = x.b.tp.Topic, x.b.topicID
			topics = append(topics, t)
			if t.TopicID == ([16]byte{}) {
				highest = topicIDs - 1
			}
		}
		q := kmsg.NewProduceRequestTopicPartition()
		q.Partition, q.Records = x.b.tp.Partition, x.b.records
		topics[i].Partitions = append(topics[i].Partitions, q)
	}
	return topics, highest
}

// find is the answer for a batch, by the topic's name or (from version 13) its id.
func find(resp *kmsg.ProduceResponse, b *batch) outcome {
	what := fmt.Sprintf("writing to %s/%d", b.tp.Topic, b.tp.Partition)
	for _, t := range resp.Topics {
		if t.Topic != b.tp.Topic && (resp.Version < topicIDs || t.TopicID != b.topicID) {
			continue
		}
		for _, q := range t.Partitions {
			if q.Partition == b.tp.Partition {
				return fromCode(q.ErrorCode, q.BaseOffset, what)
			}
		}
	}
	return outcome{verdict: inDoubt, err: fmt.Errorf("%s: the broker's answer leaves it out", what)}
}
