package produce

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// state is where a batch stands; guarded by its commit.
type state int

const (
	queued   state = iota // no attempt of it can be in Kafka
	underway              // an attempt is being made, no earlier one is in doubt
	doubtful              // an attempt may have landed; it must be repeated until that is known
	landed                // acknowledged
	refused               // Kafka will not take it; it is not there
	dropped               // never sent
	unknown               // given up with an attempt in doubt
)

// batch is records of one commit for one partition.
type batch struct {
	tp        kafka.TopicPartition
	topicID   [16]byte
	changelog bool
	records   []byte // a whole record batch; stamped at its first attempt
	count     int32
	commit    *commit
	lane      *lane
	before    *batch // of the same commit and partition
	head      int64  // of a changelog's first: where it must land; -1: not checked

	// Of the lane's goroutine.
	stamped   bool
	under     identity
	explained bool // between the place where it had to land and its own is nothing but ours

	// Guarded by commit.mu.
	state state
	base  int64
}

// want is where a batch has to land; -1: anywhere. The one before it must have landed.
func (b *batch) want() int64 {
	if b.before != nil {
		return b.before.base + int64(b.before.count)
	}
	return b.head
}

// commit is the fate of one Write.
type commit struct {
	batches []*batch
	records int64
	bytes   int64
	sticky  map[string]int32 // where its records without a key go, by topic
	done    chan struct{}    // closed when every batch has ended

	mu        sync.Mutex
	open      int  // batches that have not ended
	abandoned bool // nothing more of it is to be sent for the first time
	code      string
	cause     error // of the first failure
}

func newCommit() *commit { return &commit{done: make(chan struct{})} }

// add is for planning only.
func (c *commit) add(b *batch) {
	b.commit = c
	c.batches = append(c.batches, b)
	c.open++
	c.records += int64(b.count)
	c.bytes += int64(len(b.records))
}

// wants says whether the batch is still to be sent. One that is not is dropped, unless something of
// it may be in Kafka.
func (c *commit) wants(b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.abandoned && b.state != doubtful {
		c.end(b, dropped)
		return false
	}
	return true
}

// begin is wants directly before an attempt.
func (c *commit) begin(b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case b.state == doubtful:
	case c.abandoned:
		c.end(b, dropped)
		return false
	default:
		b.state = underway
	}
	return true
}

// retry takes note of an attempt that was no answer, or one that did not append.
func (c *commit) retry(b *batch, doubt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case doubt:
		b.state = doubtful
	case b.state == underway:
		b.state = queued
	}
}

func (c *commit) doubts(b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return b.state == doubtful
}

func (c *commit) land(b *batch, base int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.base = base
	c.end(b, landed)
}

// refuse ends a batch that Kafka will not take. If an earlier attempt is in doubt, so is the end.
func (c *commit) refuse(b *batch, code string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(code, cause)
	if b.state == doubtful {
		c.end(b, unknown)
		return
	}
	c.end(b, refused)
}

// spoil makes the commit fail although its batches may all have landed.
func (c *commit) spoil(code string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(code, cause)
}

// stop ends a batch because the producer ends.
func (c *commit) stop(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(protocol.CodeKafkaUnreachable, ErrStopped)
	if b.state == doubtful || b.state == underway {
		c.end(b, unknown)
		return
	}
	c.end(b, dropped)
}

// abandon gives the commit up. What may be in Kafka is repeated until that is known.
func (c *commit) abandon(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(protocol.CodeKafkaUnreachable, cause)
}

func (c *commit) fail(code string, cause error) {
	c.abandoned = true
	if c.cause == nil {
		c.code, c.cause = code, cause
	}
}

func (c *commit) end(b *batch, s state) {
	b.state = s
	if c.open--; c.open == 0 {
		close(c.done)
	}
}

// verdict is the answer to Write: nil only when every batch has landed.
func (c *commit) verdict() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := map[state]int{}
	for _, b := range c.batches {
		n[b.state]++
	}
	all := len(c.batches)
	if n[landed] == all && c.cause == nil {
		return nil
	}
	if n[queued]+n[dropped]+n[refused] == all {
		r := rejectedBy(c.cause)
		r.Code = c.code
		return r
	}
	return &UnknownError{
		Code:    c.code,
		Message: fmt.Sprintf("%d of %d batches are in Kafka, of %d it is not known: %v", n[landed], all, n[underway]+n[doubtful]+n[unknown], c.cause),
		Err:     c.cause,
		Ended:   c.done,
	}
}

// rejectedBy refuses a commit that was given up before anything was sent.
func rejectedBy(cause error) *RejectedError {
	message := fmt.Sprintf("nothing was written: %v", cause)
	if errors.Is(cause, errDeadline) {
		message = "nothing was written: no broker took it in time; check that Kafka is up and reachable"
	}
	return &RejectedError{Code: protocol.CodeKafkaUnreachable, Message: message, Err: cause}
}

// result is for a commit of which every batch has landed.
func (c *commit) result() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Result{Changelogs: map[string]Landed{}, Records: c.records, Bytes: c.bytes}
	for _, b := range c.batches {
		if !b.changelog {
			continue
		}
		at, seen := r.Changelogs[b.tp.Topic]
		if !seen {
			at = Landed{Base: b.base, LeaderEpoch: -1, TopicID: b.topicID}
		}
		at.Next = b.base + int64(b.count)
		r.Changelogs[b.tp.Topic] = at
	}
	return r
}
