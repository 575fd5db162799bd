package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Codes that decide something in this package or its users.
const (
	codeUnknownTopic           = 3
	codeLeaderNotAvailable     = 5
	codeCoordinatorLoading     = 14
	codeCoordinatorUnavailable = 15
	codeNotCoordinator         = 16
	codeMechanism              = 33
	codeSASLState              = 34
	codeTopicExists            = 36
	codeBadReplicationFactor   = 38
	codeNotController          = 41
	codeAuthentication         = 58
)

// ErrUnreachable is in the errors of calls that no broker answered in time.
var ErrUnreachable = errors.New("no Kafka broker answers")

var errNoBroker = errors.New("no such broker")

// Error is an error code of Kafka.
type Error struct {
	Code int16
	What string // what was asked, and of what: "creating topic flights"
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (Kafka error %d)", e.What, CodeName(e.Code), e.Code)
}

// CodeName is the protocol's name of an error code, as in NOT_COORDINATOR.
func CodeName(code int16) string {
	if known, ok := codes[code]; ok {
		return known.name
	}
	return "UNKNOWN_CODE"
}

// CodeOf finds the Kafka error code in an error.
func CodeOf(err error) (int16, bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Code, true
	}
	var denied *AccessError
	if errors.As(err, &denied) {
		return denied.Code, true
	}
	return 0, false
}

// Retriable tells whether the same call may succeed later without anything being changed: codes
// that Kafka calls so, brokers that do not answer, and time limits. A cancelled call is not.
func Retriable(err error) bool {
	var version *VersionError
	switch code, ok := CodeOf(err); {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errClosed) || errors.As(err, &version):
		return false
	case ok:
		return codes[code].retriable
	default:
		return connectionFailed(err) || refusal(err) != nil || errors.Is(err, ErrUnreachable) || isNoBroker(err) ||
			errors.Is(err, context.DeadlineExceeded)
	}
}

// transportError is a request that got no answer.
type transportError struct {
	api, address string
	err          error
}

func (e *transportError) Error() string {
	return fmt.Sprintf("%s to broker at %s: %v", e.api, e.address, e.err)
}

func (e *transportError) Unwrap() error { return e.err }

// connectionFailed tells that a broker gave no answer, not even a bad one.
func connectionFailed(err error) bool {
	var transport *transportError
	return errors.As(err, &transport) && !errors.Is(err, context.Canceled) && !errors.Is(err, errClosed)
}

func isNoBroker(err error) bool { return errors.Is(err, errNoBroker) }

// lost tells that a connection broke during a request, as one does that idled in the pool while
// the broker restarted.
func lost(err error) bool {
	var dial *dialError
	if errors.As(err, &dial) || !connectionFailed(err) {
		return false
	}
	var renew *renewError
	if errors.As(err, &renew) {
		return true
	}
	for _, broken := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED,
	} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}

// ended returns why the context of a failed request is over, or nil if it is not. The socket's
// deadline is the context's and may strike first, as an i/o timeout.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var timeout net.Error
	deadline, ok := ctx.Deadline()
	if ok && errors.As(err, &timeout) && timeout.Timeout() && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// unreachableError is one sentence for the user.
type unreachableError struct {
	addresses []string
	cause     error // the end of the context
	last      error // what the broker asked last said, if anything
}

func (e *unreachableError) Error() string {
	why := e.last
	if refused := refusal(e.last); refused != nil {
		return refused.Message // it answers, and has said what to do
	}
	var transport *transportError
	if errors.As(e.last, &transport) {
		why = transport.err
	}
	if why == nil {
		why = e.cause
	}
	var dialled *net.OpError
	if len(e.addresses) == 1 && errors.As(why, &dialled) {
		why = dialled.Err // the address is said already
	}
	if errors.Is(why, context.DeadlineExceeded) {
		why = errors.New("no answer in time")
	}
	return fmt.Sprintf("%v at %s (%v): check bootstrap_servers, and that Kafka is running and can be reached from here",
		ErrUnreachable, strings.Join(e.addresses, ", "), why)
}

func (e *unreachableError) Unwrap() []error {
	all := []error{ErrUnreachable, e.cause}
	if e.last != nil {
		all = append(all, e.last)
	}
	return all
}

// unreachable is the error of a call that asked all brokers until its context ended.
func (c *Client) unreachable(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	addresses := make([]string, 0, len(c.brokers))
	for address := range c.brokers {
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	return &unreachableError{addresses: addresses, cause: cause, last: last}
}

// endOf is the error of a call that was repeated until its context ended: what the brokers said, if
// they said anything, rather than that the last try found no time.
func endOf(ctx context.Context, said, err error) error {
	if said == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", said, context.Cause(ctx))
}

const (
	backoffFirst = 50 * time.Millisecond
	backoffLast  = time.Second
)

// Backoff is how long to wait after the attempt of that number (from 0) failed: doubling to one
// second, with jitter, so that many sidecars do not come back at once.
func Backoff(attempt int) time.Duration {
	if attempt < 0 {
		return 0
	}
	limit := backoffLast
	if attempt < 5 {
		limit = min(limit, backoffFirst<<attempt)
	}
	return limit/2 + rand.N(limit/2+1)
}

// Pause waits for the Backoff of the attempt. False: the context ends first.
func Pause(ctx context.Context, attempt int) bool {
	timer := time.NewTimer(Backoff(attempt))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
