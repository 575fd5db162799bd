package produce

import (
	"errors"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// The Kafka codes that this package tells apart.
const (
	codeServerError        = -1
	codeNone               = 0
	codeCorrupt            = 2
	codeUnknownTopic       = 3
	codeNoLeader           = 5
	codeNotLeader          = 6
	codeTimedOut           = 7
	codeNotAvailable       = 8
	codeReplicaUnavailable = 9
	codeTooLarge           = 10
	codeNetwork            = 13
	codeRecordListTooLarge = 18
	codeNotEnoughReplicas  = 19
	codeNotEnoughAfter     = 20
	codeOutOfOrder         = 45
	codeDuplicate          = 46
	codeOldEpoch           = 47
	codeStorage            = 56
	codeUnknownProducer    = 59
	codeFencedLeader       = 74
	codeUnknownLeader      = 75
	codeThrottled          = 89
	codeUnknownTopicID     = 100
	codeInconsistentID     = 103
)

// verdict is what to do after one attempt.
type verdict int

const (
	took     verdict = iota // acknowledged
	again                   // this attempt appended nothing; repeat
	ask                     // as again, but the leader or the topic may have changed
	inDoubt                 // it may have appended; repeat
	newID                   // the broker does not go on with this producer id
	tooLarge                // over the topic's limit
	refusal                 // no repetition helps
)

// judge is the table from Kafka's code to the verdict. A code that is not in it is a refusal.
var judge = map[int16]verdict{
	codeNone:               took,
	codeDuplicate:          took,
	codeCorrupt:            again, // damaged on the way: ours are right when they leave
	codeNotAvailable:       again,
	codeReplicaUnavailable: again,
	codeNotEnoughReplicas:  again,
	codeThrottled:          again,
	codeUnknownTopic:       ask,
	codeNoLeader:           ask,
	codeNotLeader:          ask,
	codeFencedLeader:       ask,
	codeUnknownLeader:      ask,
	codeUnknownTopicID:     ask,
	codeInconsistentID:     ask,
	codeServerError:        inDoubt,
	codeTimedOut:           inDoubt, // appended by the leader, not yet by enough replicas
	codeNetwork:            inDoubt,
	codeNotEnoughAfter:     inDoubt,
	codeStorage:            inDoubt,
	codeOutOfOrder:         newID,
	codeOldEpoch:           newID,
	codeUnknownProducer:    newID,
	codeTooLarge:           tooLarge,
	codeRecordListTooLarge: tooLarge,
}

// outcome is the end of one attempt.
type outcome struct {
	verdict verdict
	code    int16
	base    int64 // when it took; -1: the broker did not say
	err     error
}

// fromCode judges a broker's answer for one partition.
func fromCode(code int16, base int64, what string) outcome {
	v, known := judge[code]
	if !known {
		v = refusal
	}
	o := outcome{verdict: v, code: code, base: base}
	if v != took {
		o.err = &kafka.Error{Code: code, What: what}
	} else if code == codeDuplicate {
		o.base = -1
	}
	return o
}

// fromError judges an attempt without an answer. Nothing is appended for certain only when no
// connection was made on which the request could have been written.
func fromError(err error, written bool) outcome {
	if written {
		return outcome{verdict: inDoubt, err: err}
	}
	return outcome{verdict: ask, err: err}
}

// beforeSending judges what went wrong before the attempt had anything to send.
func beforeSending(err error) outcome {
	code, is := kafka.CodeOf(err)
	if v, known := judge[code]; is && !kafka.Retriable(err) && (!known || v == tooLarge) {
		return outcome{verdict: refusal, code: code, err: err}
	}
	var version *kafka.VersionError
	if errors.As(err, &version) {
		return outcome{verdict: refusal, err: err}
	}
	return outcome{verdict: ask, code: code, err: err}
}

// namesTopic says whether the code means that the topic may be gone or another one.
func namesTopic(code int16) bool {
	return code == codeUnknownTopic || code == codeUnknownTopicID || code == codeInconsistentID
}

// mayHaveAppended says whether a leader may have appended a batch and answer with the code all the same:
// one that lost its place while it waited for the other replicas.
func mayHaveAppended(code int16) bool { return code == codeNotLeader }

// codeFor is the protocol's word for a refusal.
func codeFor(o outcome) string {
	if o.verdict == tooLarge {
		return protocol.CodeRecordTooLarge
	}
	return protocol.CodeKafkaRefused
}
