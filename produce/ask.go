package produce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// The codes of the coordinators that this package tells apart.
const (
	codeMetadataTooLarge       = 12
	codeCoordinatorLoading     = 14
	codeCoordinatorUnavailable = 15
	codeNotCoordinator         = 16
	codeIllegalGeneration      = 22
	codeUnknownMember          = 25
	codeRebalancing            = 27
	codeCommitTooLarge         = 28
	codeTopicDenied            = 29
	codeGroupDenied            = 30
	codeInvalidTxnState        = 48
	codeInvalidMapping         = 49
	codeInvalidTimeout         = 50
	codeConcurrent             = 51
	codeCoordinatorFenced      = 52
	codeTransactionalDenied    = 53
	codeNotAttempted           = 55
	codeFencedInstance         = 82
	codeProducerFenced         = 90
	codeAbortable              = 120
)

// fences says whether the transaction coordinator means by a code that the producer is over. 49 comes
// when the id has another producer, or was forgotten after a week: that is the end of an incarnation
// too, for whoever takes the id anew might take it from somebody.
func fences(code int16) bool {
	return code == codeOldEpoch || code == codeProducerFenced || code == codeInvalidMapping
}

// asking is a request to a coordinator that is repeated until it has a definite answer.
type asking struct {
	what string
	make func() kmsg.Request
	code func(kmsg.Response) int16 // of the whole answer; codeNone: the rest is the caller's
	send func(context.Context, kmsg.Request) (kmsg.Response, error)
	lost func() // forgets the coordinator
	// attempt is the time limit of one.
	attempt time.Duration

	// doubt: an attempt may have been carried out whose answer is not known. Requests may be repeated
	// below us too, and what a coordinator answers with 15 and 16 may be in its log all the same.
	doubt bool
	waits int // how often it was told to wait
}

// toCoordinator asks the transaction coordinator.
func (t *Transactions) toCoordinator(what string, make func() kmsg.Request, code func(kmsg.Response) int16) *asking {
	return &asking{
		what: what, make: make, code: code, attempt: t.attemptTimeout(),
		send: func(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
			return t.cluster.ToTransaction(ctx, t.cfg.ID, req)
		},
		lost: func() { t.cluster.ForgetCoordinator(kafka.Transaction, t.cfg.ID) },
	}
}

// toGroup asks the group coordinator.
func (t *Transactions) toGroup(what string, make func() kmsg.Request, code func(kmsg.Response) int16) *asking {
	a := t.toCoordinator(what, make, code)
	a.send = func(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
		return t.cluster.ToGroup(ctx, t.cfg.Group, req)
	}
	a.lost = func() { t.cluster.ForgetCoordinator(kafka.Group, t.cfg.Group) }
	return a
}

// until repeats until the answer is definite. The error is set when ctx has ended first, or nothing
// else will ever come.
func (a *asking) until(ctx context.Context) (kmsg.Response, int16, error) {
	for attempt := 0; ; attempt++ {
		resp, code, err := a.once(ctx)
		if err == nil && !passes(code) {
			return resp, code, nil
		}
		if err != nil && (final(err) || ctx.Err() != nil) {
			return nil, 0, err
		}
		if !a.pause(ctx, code, attempt) {
			return nil, 0, fmt.Errorf("%w: %w", context.Cause(ctx), a.said(code, err))
		}
	}
}

// once makes one attempt and takes note of what it leaves in doubt.
func (a *asking) once(ctx context.Context) (kmsg.Response, int16, error) {
	ctx, cancel := context.WithTimeout(ctx, a.attempt)
	defer cancel()
	req := a.make()
	ctx, tries := kafka.CountTries(ctx, kmsg.Key(req.Key()))
	resp, err := a.send(ctx, req)
	if err != nil {
		a.doubt = a.doubt || tries.Written()
		return nil, 0, fmt.Errorf("%s: %w", a.what, err)
	}
	code := a.code(resp)
	a.doubt = a.doubt || tries.Repeated() || leavesDoubt(code)
	if movesCoordinator(code) {
		a.lost()
	}
	return resp, code, nil
}

// pause waits before the next attempt. The markers of the transaction before take some milliseconds.
func (a *asking) pause(ctx context.Context, code int16, attempt int) bool {
	if code != codeConcurrent {
		return kafka.Pause(ctx, attempt-a.waits)
	}
	a.waits++
	return sleep(ctx, concurrentPause(a.waits))
}

// concurrentPause is 5 to 10 ms, and more when that has not helped for long.
func concurrentPause(waits int) time.Duration {
	base := 5 * time.Millisecond * time.Duration(1+min(waits/50, 9))
	return base + rand.N(base)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (a *asking) said(code int16, err error) error {
	if err != nil {
		return err
	}
	if code == codeNone {
		return fmt.Errorf("%s was not answered at first", a.what)
	}
	return &kafka.Error{Code: code, What: a.what}
}

// passes says whether a code of a coordinator passes by itself.
func passes(code int16) bool {
	return code == codeConcurrent || movesCoordinator(code) || leavesDoubt(code) || code == codeThrottled
}

func movesCoordinator(code int16) bool {
	return code == codeCoordinatorLoading || code == codeCoordinatorUnavailable || code == codeNotCoordinator || code == codeCoordinatorFenced
}

// leavesDoubt says whether what was asked may have happened, or happen, all the same.
func leavesDoubt(code int16) bool {
	switch code {
	case codeServerError, codeTimedOut, codeNetwork, codeCoordinatorUnavailable, codeNotCoordinator, codeCoordinatorFenced,
		codeNotEnoughReplicas, codeNotEnoughAfter, codeStorage:
		return true
	}
	return false
}

// final says whether an error without an answer will be the same next time.
func final(err error) bool {
	var version *kafka.VersionError
	var denied *kafka.AccessError // of the look-up of the coordinator
	return errors.As(err, &version) || errors.As(err, &denied) || errors.Is(err, context.Canceled)
}

// initProducer asks for a producer id and epoch of the transactional id: after the given one, or, for
// Init, whatever there was.
func (t *Transactions) initProducer(ctx context.Context, after identity) (identity, error) {
	a := t.toCoordinator("asking for the producer id of transactional id "+t.cfg.ID, func() kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = &t.cfg.ID
		req.TransactionTimeoutMillis = int32(t.cfg.Timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = after.id, after.epoch
		return req
	}, func(r kmsg.Response) int16 { return r.(*kmsg.InitProducerIDResponse).ErrorCode })
	got, code, err := a.until(ctx)
	switch {
	case err != nil:
		return identity{}, err
	case code == codeNone:
		resp := got.(*kmsg.InitProducerIDResponse)
		t.p.own.add(resp.ProducerID)
		return identity{id: resp.ProducerID, epoch: resp.ProducerEpoch, generation: after.generation + 1}, nil
	case fences(code):
		return identity{}, fencedBy(code, a.what)
	case code == codeInvalidTimeout:
		return identity{}, &RejectedError{
			Code:    protocol.CodeKafkaRefused,
			Message: fmt.Sprintf("the brokers allow no transactions as long as %v: lower transaction_timeout, or raise transaction.max.timeout.ms of the brokers", t.cfg.Timeout),
			Err:     &kafka.Error{Code: code, What: a.what},
		}
	}
	return identity{}, t.refusedBy(code, a.what, t.cfg.ID, "Write")
}

// renew takes the next epoch, so that nothing of the present one can have an effect any more, and
// repeats until it has it: without it there is no next transaction. It says whether it has.
//
// INVARIANT: after a request that was sent and not answered, the epoch changes before the next
// transaction begins, and never by (-1, -1).
func (t *Transactions) renew(ctx context.Context, why error) bool {
	for attempt := 0; ; attempt++ {
		id, err := t.initProducer(ctx, t.id)
		if err == nil {
			t.log.Info("the producer has a new epoch", "producer", id.id, "epoch", id.epoch, "because", why)
			t.id = id
			for _, l := range t.lanes {
				l.sequence = 0
			}
			return true
		}
		if errors.Is(err, ErrFenced) {
			t.fence(err)
			return false
		}
		if attempt == 0 {
			t.log.Warn("the producer gets no new epoch, trying on", "error", err)
		}
		if !kafka.Pause(ctx, attempt) {
			return false
		}
	}
}
