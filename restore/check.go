package restore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// Kafka's code and configuration that decide something here.
const (
	codeUnknownTopic = 3

	policyKey        = "cleanup.policy"
	retentionKey     = "delete.retention.ms"
	defaultRetention = 24 * time.Hour

	clocksDiffer = time.Hour // by how much clocks may: past it the age of a checkpoint is not known

	missingFor = 30 * time.Second // how long metadata may not know a topic that exists
)

// plan is from where to where to replay.
type plan struct {
	topicID     [16]byte
	start       int64
	leaderEpoch int32     // of the last batch in the store
	asOf        time.Time // see Checkpoint.Time
	end         int64
	high        int64 // watermark
}

// resetError says that the store cannot be used.
type resetError struct {
	code   string
	reason string
	start  int64 // of the log
}

func (e *resetError) Error() string { return e.reason }

// missingError says that Kafka does not know the topic or partition now.
type missingError struct{ tp kafka.TopicPartition }

func (e *missingError) Error() string {
	return fmt.Sprintf("topic %q with partition %d does not exist: create it, or declare the topic that is meant", e.tp.Topic, e.tp.Partition)
}

// check asks until it knows how to replay. The errors are a *resetError, one that does not pass, or
// that of ctx.
func (s *replay) check(ctx context.Context) (plan, error) {
	began := time.Now()
	for attempt := 0; ; attempt++ {
		p, err := s.checkOnce(ctx)
		if err == nil || ctx.Err() != nil || !s.passes(err, time.Since(began)) {
			return p, err
		}
		if attempt == 0 {
			s.m.log.Warn("a table cannot be looked up, trying on", s.fields("error", err)...)
		}
		if !kafka.Pause(ctx, attempt) {
			return p, ctx.Err()
		}
	}
}

// passes says whether an error may pass by itself.
func (s *replay) passes(err error, after time.Duration) bool {
	var (
		reset *resetError
		gone  *missingError
	)
	switch {
	case errors.As(err, &reset):
		return false
	case errors.As(err, &gone):
		return after < missingFor
	}
	if code, is := kafka.CodeOf(err); is && code == codeUnknownTopic {
		return after < missingFor
	}
	return kafka.Retriable(err) || errors.Is(err, context.DeadlineExceeded)
}

func (s *replay) checkOnce(ctx context.Context) (plan, error) {
	id, err := s.lookUp(ctx)
	if err != nil {
		return plan{}, err
	}
	b, err := s.bounds(ctx)
	if err != nil {
		return plan{}, err
	}
	p := plan{topicID: id, start: b.start, leaderEpoch: -1, asOf: time.Now(), end: b.stable, high: b.high}
	if s.r.Kind == Changelog {
		if p.end = s.r.End; p.end < 0 {
			p.end = b.high
		}
	}
	if s.r.Checkpoint == "" {
		return p, nil
	}
	c, err := ParseCheckpoint(s.r.Checkpoint)
	if err != nil {
		return plan{}, &resetError{protocol.CodeBadCheckpoint, "its checkpoint cannot be read: " + err.Error(), b.start}
	}
	if err := s.valid(ctx, c, id, b); err != nil {
		return plan{}, err
	}
	p.start, p.leaderEpoch, p.asOf = c.Next, c.LeaderEpoch, c.Time
	return p, nil
}

// lookUp is the id of the topic.
func (s *replay) lookUp(ctx context.Context) ([16]byte, error) {
	topics, err := s.m.cluster.Refresh(ctx, s.r.Topic)
	if err != nil {
		return [16]byte{}, err
	}
	topic, ok := topics[s.r.Topic]
	if code, is := kafka.CodeOf(topic.Err); !ok || is && code == codeUnknownTopic {
		return [16]byte{}, &missingError{s.r.tp()}
	}
	if topic.Err != nil {
		return [16]byte{}, topic.Err
	}
	if int(s.r.Partition) >= len(topic.Partitions) {
		return [16]byte{}, &missingError{s.r.tp()}
	}
	return topic.ID, nil
}

// bounds is what a log holds.
type bounds struct{ start, high, stable int64 }

func (s *replay) bounds(ctx context.Context) (b bounds, err error) {
	if b.start, err = s.offset(ctx, kafka.Earliest, false); err != nil {
		return b, err
	}
	if b.high, err = s.offset(ctx, kafka.Latest, false); err != nil {
		return b, err
	}
	b.stable, err = s.offset(ctx, kafka.Latest, true)
	return b, err
}

func (s *replay) offset(ctx context.Context, at int64, committed bool) (int64, error) {
	tp := s.r.tp()
	found, err := s.m.cluster.ListOffsets(ctx, at, committed, tp)
	if err != nil {
		return 0, err
	}
	o, ok := found[tp]
	if !ok {
		return 0, fmt.Errorf("offsets of %s: not in the answer", tp)
	}
	return o.Offset, o.Err
}

// valid says with a *resetError when the log does not continue what is in the store.
func (s *replay) valid(ctx context.Context, c Checkpoint, id [16]byte, b bounds) error {
	refuse := func(code, format string, args ...any) error {
		return &resetError{code, fmt.Sprintf(format, args...), b.start}
	}
	if c.TopicID != id && c.TopicID != ([16]byte{}) && id != ([16]byte{}) {
		if s.r.Kind == Changelog && s.r.Follow {
			return fmt.Errorf("the changelog was created anew since the checkpoint of this copy: nothing is wiped, it may be the last one; "+
				"restore the topic, or remove the store of partition %d", s.r.Partition)
		}
		return refuse(protocol.CodeRecreated, "the topic was created anew since its checkpoint")
	}
	if high := max(b.high, s.r.End); c.Next > high {
		past, err := s.past(ctx, c.Next)
		if err != nil {
			return err
		}
		if past {
			return refuse(protocol.CodePastEnd, "its checkpoint, offset %d, is past the end of the log, %d", c.Next, high)
		}
	}
	if c.Next < b.start {
		return refuse(protocol.CodeBelowLogStart, "its checkpoint, offset %d, is below the start of the log, %d", c.Next, b.start)
	}
	if c.Next < b.high {
		retention, err := s.retention(ctx)
		if err != nil {
			return err
		}
		switch age := time.Since(c.Time); {
		case retention < 0:
		case age > retention:
			return refuse(protocol.CodeTombstonesExpired, "it was whole %v ago, the topic keeps tombstones for %v: deletions may be missed",
				age.Round(time.Second), retention)
		case age < -clocksDiffer:
			return refuse(protocol.CodeTombstonesExpired, "its checkpoint is of a time that lies %v ahead, a clock was wrong: deletions may be missed",
				-age.Round(time.Second))
		}
	}
	if c.LeaderEpoch < 0 {
		return nil
	}
	epoch, end, err := s.m.cluster.EpochEnd(ctx, s.r.tp(), c.LeaderEpoch)
	if err != nil {
		return err
	}
	if end < c.Next {
		return refuse(protocol.CodeTruncated, "its checkpoint is offset %d of leader epoch %d, which ends at %d now (epoch %d): the log was truncated",
			c.Next, c.LeaderEpoch, end, epoch)
	}
	return nil
}

// past asks a second time, and the leader anew, whether the log ends before an offset.
func (s *replay) past(ctx context.Context, next int64) (bool, error) {
	s.m.cluster.ForgetLeader(s.r.tp())
	high, err := s.offset(ctx, kafka.Latest, false)
	return next > high, err
}

// retention is how long the topic keeps tombstones; negative: it does not compact. A topic whose
// configuration may not be read is taken for one with the defaults.
func (s *replay) retention(ctx context.Context) (time.Duration, error) {
	configs, err := s.m.cluster.TopicConfigs(ctx, s.r.Topic, policyKey, retentionKey)
	if err != nil {
		if _, is := kafka.CodeOf(err); is && !kafka.Retriable(err) {
			return defaultRetention, nil
		}
		return 0, err
	}
	if policy := configs[policyKey]; policy != "" && !strings.Contains(policy, "compact") {
		return -1, nil
	}
	ms, err := strconv.ParseInt(configs[retentionKey], 10, 64)
	if err != nil || ms < 0 {
		return defaultRetention, nil
	}
	if ms > int64(defaultRetention/time.Millisecond)*36500 { // a century; no overflow
		return -1, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}
