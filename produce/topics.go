package produce

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

const (
	limitKey     = "max.message.bytes"
	defaultLimit = 1048588 // the broker's default of it
	limitAge     = 5 * time.Minute
)

// target is what has to be known of a topic before records are packed for it.
type target struct {
	name       string
	id         [16]byte
	partitions int32
	live       []int32 // with a leader; all when none has
	limit      int     // of a batch
}

// limits remembers the largest batch of each topic.
type limits struct {
	mu    sync.Mutex
	known map[string]limit
}

type limit struct {
	bytes int
	read  time.Time
}

func (l *limits) get(topic string) (v limit, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.known[topic]
	return v, ok && time.Since(v.read) < limitAge
}

func (l *limits) set(topic string, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]limit{}
	}
	l.known[topic] = limit{bytes, time.Now()}
}

func (l *limits) forget(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, topic)
}

// target asks until it knows the topic or ctx ends. The errors are *RejectedError.
func (p *Producer) target(ctx context.Context, name string) (*target, error) {
	for attempt := 0; ; attempt++ {
		t, err := p.describe(ctx, name, attempt > 0)
		if err == nil {
			return t, nil
		}
		var rejected *RejectedError
		if errors.As(err, &rejected) {
			return nil, err
		}
		if attempt == 0 {
			p.log.Warn("topic cannot be looked up, trying on", "topic", name, "error", err)
		}
		if !kafka.Pause(ctx, attempt) {
			return nil, &RejectedError{
				Code:    protocol.CodeKafkaUnreachable,
				Message: fmt.Sprintf("topic %q could not be looked up: %v", name, err),
				Err:     errors.Join(context.Cause(ctx), err),
			}
		}
	}
}

// describe looks a topic up once; refresh passes by the cache.
func (p *Producer) describe(ctx context.Context, name string, refresh bool) (*target, error) {
	ask := p.cluster.Topics
	if refresh {
		ask = p.cluster.Refresh
	}
	topics, err := ask(ctx, name)
	if err != nil {
		return nil, err
	}
	topic, ok := topics[name]
	if missing(topic, ok) && !refresh { // it may be newer than the cache
		return p.describe(ctx, name, true)
	}
	if missing(topic, ok) {
		return nil, &RejectedError{
			Code:    protocol.CodeUnknownTopic,
			Message: fmt.Sprintf("topic %q does not exist; create it, or write to another", name),
		}
	}
	if topic.Err != nil {
		if kafka.Retriable(topic.Err) {
			return nil, topic.Err
		}
		return nil, refusedTopic(name, topic.Err)
	}
	t := &target{name: name, id: topic.ID}
	var all []int32
	for _, q := range topic.Partitions {
		t.partitions = max(t.partitions, q.Index+1)
		all = append(all, q.Index)
		if q.Err == nil && q.Leader >= 0 {
			t.live = append(t.live, q.Index)
		}
	}
	if len(t.live) == 0 {
		t.live = all
	}
	if t.limit, err = p.limit(ctx, name); err != nil {
		return nil, err
	}
	return t, nil
}

func missing(t kafka.Topic, ok bool) bool {
	if !ok {
		return true
	}
	code, is := kafka.CodeOf(t.Err)
	return (is && code == codeUnknownTopic) || (t.Err == nil && len(t.Partitions) == 0)
}

// limit is the largest batch that the topic takes. When Kafka cannot be asked just now, the last
// answer counts; when it must not be asked, the broker's default does.
func (p *Producer) limit(ctx context.Context, name string) (int, error) {
	known, fresh := p.limits.get(name)
	if fresh {
		return known.bytes, nil
	}
	configs, err := p.cluster.TopicConfigs(ctx, name, limitKey)
	if err != nil {
		if _, is := kafka.CodeOf(err); is && !kafka.Retriable(err) {
			p.log.Warn("the largest message of the topic may not be asked for; the default counts", "topic", name, "error", err)
			p.limits.set(name, defaultLimit)
			return defaultLimit, nil
		}
		if known.bytes > 0 {
			return known.bytes, nil
		}
		return 0, err
	}
	n, err := strconv.Atoi(configs[limitKey])
	if err != nil || n <= 0 {
		n = defaultLimit
	}
	p.limits.set(name, n)
	return n, nil
}

func refusedTopic(name string, err error) *RejectedError {
	return &RejectedError{
		Code:    protocol.CodeKafkaRefused,
		Message: fmt.Sprintf("Kafka refuses topic %q: %v; check its name and the ACLs of this user", name, err),
		Err:     err,
	}
}
