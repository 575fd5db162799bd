package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestCodesAreTheProtocols(t *testing.T) {
	for code := int16(-2); code < 200; code++ {
		want := kerr.TypedErrorForCode(code)
		got, ok := codes[code]
		switch {
		case code == 0 || want.Code != code:
			if ok {
				t.Errorf("code %d is not of the protocol", code)
			}
		case got.name != want.Message || got.retriable != want.Retriable:
			t.Errorf("code %d is %+v, want %s %v", code, got, want.Message, want.Retriable)
		}
	}
	if CodeName(3) != "UNKNOWN_TOPIC_OR_PARTITION" || CodeName(999) != "UNKNOWN_CODE" {
		t.Error(CodeName(3), CodeName(999))
	}
}

func TestRetriable(t *testing.T) {
	transport := func(err error) error {
		return fmt.Errorf("x: %w", &transportError{api: "Fetch", address: "b:1", err: err})
	}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{&Error{Code: 16}, true},
		{&Error{Code: 30}, false},
		{fmt.Errorf("wrapped: %w", &Error{Code: 6}), true},
		{&VersionError{}, false},
		{transport(io.EOF), true},
		{transport(syscall.ECONNRESET), true},
		{transport(&dialError{syscall.ECONNREFUSED}), true},
		{transport(context.DeadlineExceeded), true},
		{transport(context.Canceled), false},
		{transport(errClosed), false},
		{context.DeadlineExceeded, true},
		{context.Canceled, false},
		{&unreachableError{cause: context.DeadlineExceeded}, true},
		{errNoBroker, true},
		{errors.New("else"), false},
	} {
		if got := Retriable(test.err); got != test.want {
			t.Errorf("Retriable(%v) = %v", test.err, got)
		}
	}
}

func TestLost(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{io.EOF, true},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, true},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, true},
		{context.DeadlineExceeded, false},
		{&dialError{io.EOF}, false},
		{errors.New("not a Kafka broker"), false},
	} {
		if got := lost(&transportError{err: test.err}); got != test.want {
			t.Errorf("lost(%v) = %v", test.err, got)
		}
	}
	if lost(io.EOF) {
		t.Error("an EOF that is not a connection's is lost")
	}
}

func TestCodeOf(t *testing.T) {
	err := fmt.Errorf("doing: %w", &Error{Code: 22, What: "committing"})
	if code, ok := CodeOf(err); !ok || code != 22 {
		t.Error(code, ok)
	}
	if want := "doing: committing: ILLEGAL_GENERATION (Kafka error 22)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if _, ok := CodeOf(io.EOF); ok {
		t.Error("EOF has a code")
	}
}

func TestBackoff(t *testing.T) {
	for attempt := range 70 {
		limit := time.Second
		if attempt < 5 {
			limit = min(limit, 50*time.Millisecond<<attempt)
		}
		for range 50 {
			if d := Backoff(attempt); d < limit/2 || d > limit {
				t.Fatalf("attempt %d: %v, want %v to %v", attempt, d, limit/2, limit)
			}
		}
	}
	if Backoff(-1) != 0 {
		t.Error("before the first attempt nothing is waited for")
	}
}
