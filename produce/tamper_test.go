package produce

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// tampered is a client whose requests a test sees, holds, loses and answers in the broker's place.
type tampered struct {
	*kafka.Client

	mu     sync.Mutex
	hooks  map[kmsg.Key]hook
	counts map[kmsg.Key]int
	trace  []kmsg.Key // of requests answered
}

// hook is called with the number of the request, from 1, of its kind.
type hook func(n int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error)

func tamper(c *kafka.Client) *tampered {
	return &tampered{Client: c, hooks: map[kmsg.Key]hook{}, counts: map[kmsg.Key]int{}}
}

func (c *tampered) on(key kmsg.Key, h hook) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks[key], c.counts[key] = h, 0
}

func (c *tampered) off(key kmsg.Key) { c.on(key, nil) }

func (c *tampered) through(ctx context.Context, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
	key := kmsg.Key(req.Key())
	c.mu.Lock()
	c.counts[key]++
	n, h := c.counts[key], c.hooks[key]
	c.mu.Unlock()
	sent := false
	traced := func() (kmsg.Response, error) {
		sent = true
		resp, err := send()
		if err == nil {
			c.mu.Lock()
			c.trace = append(c.trace, key)
			c.mu.Unlock()
		}
		return resp, err
	}
	if h == nil {
		return traced()
	}
	resp, err := h(n, req, traced)
	if err != nil && !sent {
		kafka.NoteTry(ctx, req.Key()) // lost on its way
	}
	return resp, err
}

func (c *tampered) count(key kmsg.Key) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[key]
}

// traced are the requests that were answered since the last call.
func (c *tampered) traced() []kmsg.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.trace
	c.trace = nil
	return out
}

func (c *tampered) Do(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
	return c.through(ctx, req, func() (kmsg.Response, error) { return c.Client.Do(ctx, node, req) })
}

func (c *tampered) ToTransaction(ctx context.Context, id string, req kmsg.Request) (kmsg.Response, error) {
	return c.through(ctx, req, func() (kmsg.Response, error) { return c.Client.ToTransaction(ctx, id, req) })
}

func (c *tampered) ToGroup(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error) {
	return c.through(ctx, req, func() (kmsg.Response, error) { return c.Client.ToGroup(ctx, group, req) })
}

var errGone = fmt.Errorf("connection: %w", io.ErrUnexpectedEOF)

// answerLost carries requests out whose answers do not arrive, as long as which says so.
func answerLost(which func(n int) bool) hook {
	return func(n int, _ kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		resp, err := send()
		if err == nil && which(n) {
			return nil, errGone
		}
		return resp, err
	}
}

// requestLost loses requests on their way.
func requestLost(which func(n int) bool) hook {
	return func(n int, _ kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		if which(n) {
			return nil, errGone
		}
		return send()
	}
}

func only(wanted ...int) func(int) bool {
	return func(n int) bool {
		for _, w := range wanted {
			if n == w {
				return true
			}
		}
		return false
	}
}

func always(int) bool { return true }

// answered answers some requests in the broker's place.
func answered(which func(n int) bool, make func(req kmsg.Request) kmsg.Response) hook {
	return func(n int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		if which(n) {
			return make(req), nil
		}
		return send()
	}
}

func endTxnCode(code int16) func(kmsg.Request) kmsg.Response {
	return func(kmsg.Request) kmsg.Response { return &kmsg.EndTxnResponse{ErrorCode: code} }
}

func addPartitionsCode(code int16) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		return eachAdded(req, func(string, int32) int16 { return code })
	}
}

// eachAdded makes an answer with a code for each partition.
func eachAdded(req kmsg.Request, code func(topic string, partition int32) int16) *kmsg.AddPartitionsToTxnResponse {
	resp := &kmsg.AddPartitionsToTxnResponse{Version: 3}
	for _, topic := range req.(*kmsg.AddPartitionsToTxnRequest).Topics {
		out := kmsg.NewAddPartitionsToTxnResponseTopic()
		out.Topic = topic.Topic
		for _, p := range topic.Partitions {
			q := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			q.Partition, q.ErrorCode = p, code(topic.Topic, p)
			out.Partitions = append(out.Partitions, q)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// eachPosition is a hook that changes the answers to TxnOffsetCommit.
func eachPosition(which func(n int) bool, change func(*kmsg.TxnOffsetCommitResponse)) hook {
	return func(n int, _ kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		resp, err := send()
		if err == nil && which(n) {
			change(resp.(*kmsg.TxnOffsetCommitResponse))
		}
		return resp, err
	}
}

// eachProduced is a hook that changes the answers to Produce for one topic.
func eachProduced(topic string, code int16) hook {
	return func(_ int, _ kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		resp, err := send()
		if err != nil {
			return nil, err
		}
		for i, t := range resp.(*kmsg.ProduceResponse).Topics {
			for j := range t.Partitions {
				if t.Topic == topic {
					resp.(*kmsg.ProduceResponse).Topics[i].Partitions[j].ErrorCode = code
				}
			}
		}
		return resp, err
	}
}

// held keeps the first request of a kind until release is called; begun is closed when it is there.
func held() (h hook, begun chan struct{}, release func()) {
	begun = make(chan struct{})
	free := make(chan struct{})
	return func(n int, _ kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		if n == 1 {
			close(begun)
			<-free
		}
		return send()
	}, begun, sync.OnceFunc(func() { close(free) })
}

// result of a Commit under way.
type result struct {
	r   Result
	err error
}

func commitLater(t testing.TB, x *Transactions, u Unit) chan result {
	done := make(chan result, 1)
	ctx := limited(t)
	go func() {
		r, err := x.Commit(ctx, u)
		done <- result{r, err}
	}()
	return done
}

func get(t testing.TB, done chan result) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(60 * time.Second):
		t.Fatal("a commit does not end")
		return result{}
	}
}

// queued waits until so many commits wait for the next transaction.
func queuedUp(t testing.TB, x *Transactions, n int) {
	t.Helper()
	eventually(t, "commits in the queue", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return len(x.queue) == n
	})
}
