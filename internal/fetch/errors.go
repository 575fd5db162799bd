package fetch

import (
	"errors"
	"fmt"

	"github.com/pillion/pillion/internal/kafka"
)

// ErrStopped is what a partition is stopped with when the fetcher does not run any more.
var ErrStopped = errors.New("the fetcher has ended")

// OutOfRangeError says that the log does not hold the position, twice by the word of its leader.
type OutOfRangeError struct {
	Topic     string
	Partition int32
	Position  int64
	LogStart  int64
	End       int64 // high watermark
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("%s/%d: position %d is out of range, the log has %d to %d", e.Topic, e.Partition, e.Position, e.LogStart, e.End)
}

// TruncatedError says that the log was cut before the position after it had been read: an unclean
// election lost records. EndOffset is where the epoch that was read last ends now, -1 when the
// leader does not know it.
type TruncatedError struct {
	Topic     string
	Partition int32
	Position  int64
	LastEpoch int32
	EndEpoch  int32
	EndOffset int64
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("%s/%d: position %d was read in leader epoch %d, which now ends at %d (epoch %d): the log was truncated",
		e.Topic, e.Partition, e.Position, e.LastEpoch, e.EndOffset, e.EndEpoch)
}

// RecreatedError says that the topic has another id than the one that was read: it was deleted and
// created again.
type RecreatedError struct {
	Topic   string
	Was, Is [16]byte
}

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("topic %s was deleted and created again (id %x, before %x)", e.Topic, e.Is, e.Was)
}

// UnknownTopicError says that Kafka has known neither topic nor partition for as long as metadata
// may lag.
type UnknownTopicError struct {
	Topic     string
	Partition int32
}

func (e *UnknownTopicError) Error() string {
	return fmt.Sprintf("partition %d of topic %q does not exist any more; create it, or declare the topic that is meant", e.Partition, e.Topic)
}

// RecordTooLargeError says that a record does not fit the worker's largest frame, or that a batch
// does not fit the buffers.
type RecordTooLargeError struct {
	Topic     string
	Partition int32
	Offset    int64
	Size      int64
	Limit     int64
	What      string // "frame" or "batch"
}

func (e *RecordTooLargeError) Error() string {
	if e.What == "batch" {
		return fmt.Sprintf("the record batch at offset %d of topic %q, partition %d, takes %d bytes or more, but this sidecar holds %d; write smaller batches to the topic",
			e.Offset, e.Topic, e.Partition, e.Size, e.Limit)
	}
	return fmt.Sprintf("the record at offset %d of topic %q, partition %d, needs a frame of %d bytes, but this worker takes %d; raise max_frame in the worker, or write smaller records to the topic",
		e.Offset, e.Topic, e.Partition, e.Size, e.Limit)
}

// CorruptError says that the bytes of a partition are not what they must be, also when they are
// fetched again.
type CorruptError struct {
	Topic     string
	Partition int32
	Position  int64
	Reason    string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s/%d at position %d: corrupt: %s", e.Topic, e.Partition, e.Position, e.Reason)
}

func corrupt(format string, args ...any) *CorruptError {
	return &CorruptError{Reason: fmt.Sprintf(format, args...)}
}

// FormatError says that a partition has record batches older than Kafka 0.11.
type FormatError struct {
	Topic     string
	Partition int32
	Position  int64
	Magic     int8
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s/%d at position %d: record format %d is not supported, only 2 (Kafka 0.11 and later): write the topic anew with a current client",
		e.Topic, e.Partition, e.Position, e.Magic)
}

// rule is what an error code means for a partition.
type rule uint8

const (
	retry      rule = iota // ask again after a pause
	relocate               // the leader is another, or knows better: look it up and ask again
	identify               // the topic may be another: compare its id, then ask again
	missing                // may exist in a moment
	outOfRange             // the position is not in the log, perhaps
	again                  // the bytes are bad, perhaps only this time
	fatal                  // no use in asking again
)

// The codes of Kafka that a fetch, or what goes before it, can end with.
const (
	codeUnknown              = -1
	codeOutOfRange           = 1
	codeCorrupt              = 2
	codeUnknownTopic         = 3
	codeLeaderNotAvailable   = 5
	codeNotLeader            = 6
	codeTimedOut             = 7
	codeBrokerNotAvailable   = 8
	codeReplicaNotAvailable  = 9
	codeNetwork              = 13
	codeInvalidTopic         = 17
	codeTopicAuthorization   = 29
	codeClusterAuthorization = 31
	codeUnsupportedVersion   = 35
	codeStorage              = 56
	codeSessionNotFound      = 70
	codeSessionEpoch         = 71
	codeListenerNotFound     = 72
	codeFencedEpoch          = 74
	codeUnknownEpoch         = 75
	codeUnsupportedCodec     = 76
	codeOffsetNotAvailable   = 78
	codeThrottled            = 89
	codeUnknownTopicID       = 100
	codeInconsistentTopicID  = 103
	codeOffsetMovedToTiered  = 109
)

// rules is the whole of what is done about a code. A code that is not here is retried, with a
// warning.
var rules = map[int16]rule{
	codeUnknown:              retry,
	codeOutOfRange:           outOfRange,
	codeCorrupt:              again,
	codeUnknownTopic:         missing,
	codeLeaderNotAvailable:   relocate,
	codeNotLeader:            relocate,
	codeTimedOut:             retry,
	codeBrokerNotAvailable:   relocate,
	codeReplicaNotAvailable:  relocate,
	codeNetwork:              relocate,
	codeInvalidTopic:         fatal,
	codeTopicAuthorization:   fatal,
	codeClusterAuthorization: fatal,
	codeUnsupportedVersion:   fatal,
	codeStorage:              relocate,
	codeSessionNotFound:      retry,
	codeSessionEpoch:         retry,
	codeListenerNotFound:     relocate,
	codeFencedEpoch:          relocate,
	codeUnknownEpoch:         relocate,
	codeUnsupportedCodec:     fatal,
	codeOffsetNotAvailable:   retry,
	codeThrottled:            retry,
	codeUnknownTopicID:       identify,
	codeInconsistentTopicID:  identify,
	codeOffsetMovedToTiered:  fatal,
}

// partitionError is an error code of a response for one partition.
func partitionError(code int16) error {
	return &kafka.Error{Code: code, What: "fetch"}
}

// refused is partitionError, and says which right is missing where one is.
func (s *seat) refused(code int16) error {
	if denied := s.node.f.client.Denied(code, s.topic, "Read"); denied != nil {
		return denied
	}
	return partitionError(code)
}

// classify finds the rule of any error that a partition can meet. Connections that break and
// brokers that are away are no codes: the leader is looked up again.
func classify(err error) rule {
	var bad *CorruptError
	if errors.As(err, &bad) {
		return again
	}
	if code, ok := kafka.CodeOf(err); ok {
		return rules[code] // retry when it is not there
	}
	var version *kafka.VersionError
	if isTyped(err) || errors.As(err, &version) {
		return fatal
	}
	return relocate
}

// isTyped says whether the error is one that the caller decides about.
func isTyped(err error) bool {
	var (
		rangeErr  *OutOfRangeError
		truncated *TruncatedError
		recreated *RecreatedError
		unknown   *UnknownTopicError
		large     *RecordTooLargeError
		format    *FormatError
		sink      *sinkError
	)
	return errors.As(err, &rangeErr) || errors.As(err, &truncated) || errors.As(err, &recreated) ||
		errors.As(err, &unknown) || errors.As(err, &large) || errors.As(err, &format) || errors.As(err, &sink)
}

// sinkError keeps an error of the sink apart from those of Kafka.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }

// at fills in where a partition's bytes were bad.
func (p *pump) at(err error) error {
	var bad *CorruptError
	if errors.As(err, &bad) {
		bad.Topic, bad.Partition, bad.Position = p.Topic, p.tp.Partition, p.pos.Next
	}
	var format *FormatError
	if errors.As(err, &format) {
		format.Topic, format.Partition, format.Position = p.Topic, p.tp.Partition, p.pos.Next
	}
	return err
}
