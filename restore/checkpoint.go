package restore

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Checkpoint is what a store is complete up to. The worker keeps its text and returns it verbatim.
type Checkpoint struct {
	TopicID     [16]byte // zero: the brokers have no topic ids
	Next        int64    // the first offset that is not in the store
	LeaderEpoch int32    // of the last batch applied; -1: not known
	// Time is when the store was last known to hold everything up to the end of the log, or when the
	// replay from its start began: from then on count the topic's tombstones.
	Time time.Time
}

const (
	checkpointPrefix = "v1:"
	checkpointBytes  = 16 + 8 + 4 + 8
)

var checkpointText = base64.RawURLEncoding.Strict()

// ErrBadCheckpoint is in the errors of ParseCheckpoint.
var ErrBadCheckpoint = errors.New("bad checkpoint")

// String is the text that the worker keeps: 51 bytes.
func (c Checkpoint) String() string { return string(c.append(nil)) }

func (c Checkpoint) append(dst []byte) []byte {
	var raw [checkpointBytes]byte
	be := binary.BigEndian
	copy(raw[:16], c.TopicID[:])
	be.PutUint64(raw[16:], uint64(c.Next))
	be.PutUint32(raw[24:], uint32(c.LeaderEpoch))
	be.PutUint64(raw[28:], uint64(c.Time.UnixMilli()))
	dst = append(dst, checkpointPrefix...)
	return checkpointText.AppendEncode(dst, raw[:])
}

// ParseCheckpoint reads what String wrote, and nothing else.
func ParseCheckpoint(s string) (Checkpoint, error) {
	text, ok := strings.CutPrefix(s, checkpointPrefix)
	if !ok {
		return Checkpoint{}, fmt.Errorf("%w: it does not begin with %q", ErrBadCheckpoint, checkpointPrefix)
	}
	if len(text) != checkpointText.EncodedLen(checkpointBytes) {
		return Checkpoint{}, fmt.Errorf("%w: %d bytes long", ErrBadCheckpoint, len(s))
	}
	raw, err := checkpointText.DecodeString(text)
	if err != nil || len(raw) != checkpointBytes {
		return Checkpoint{}, fmt.Errorf("%w: not base64url", ErrBadCheckpoint)
	}
	be := binary.BigEndian
	c := Checkpoint{
		TopicID:     [16]byte(raw[:16]),
		Next:        int64(be.Uint64(raw[16:])),
		LeaderEpoch: int32(be.Uint32(raw[24:])),
		Time:        time.UnixMilli(int64(be.Uint64(raw[28:]))),
	}
	if c.Next < 0 || c.LeaderEpoch < -1 || c.Time.UnixMilli() < 0 {
		return Checkpoint{}, fmt.Errorf("%w: next offset %d, leader epoch %d, time %d", ErrBadCheckpoint, c.Next, c.LeaderEpoch, c.Time.UnixMilli())
	}
	return c, nil
}
