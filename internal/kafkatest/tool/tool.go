// Package tool is what the commands devkafka and realkafka share: how a topic
// is written on a command line, and when the command ends.
//
// What must never be: a Kafka that goes on after the program that wanted it.
package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Topic to be created at the start.
type Topic struct {
	Name       string
	Partitions int32
	Configs    map[string]string
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// ParseTopic reads name:partitions or name:partitions:compact.
func ParseTopic(s string) (Topic, error) {
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return Topic{}, fmt.Errorf("topic %q: write it as name:partitions or name:partitions:compact", s)
	}
	if !topicName.MatchString(parts[0]) {
		return Topic{}, fmt.Errorf("topic %q: the name of a topic has letters, digits, dots, dashes and underscores only", s)
	}
	n, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || n < 1 {
		return Topic{}, fmt.Errorf("topic %q: %q is not a number of partitions", s, parts[1])
	}
	t := Topic{Name: parts[0], Partitions: int32(n)}
	if len(parts) == 3 {
		if parts[2] != "compact" {
			return Topic{}, fmt.Errorf("topic %q: after the partitions only \"compact\" may stand, not %q", s, parts[2])
		}
		t.Configs = map[string]string{"cleanup.policy": "compact"}
	}
	return t, nil
}

// ParseTopics reads a list, and refuses a name that stands in it twice.
func ParseTopics(list []string) ([]Topic, error) {
	var out []Topic
	seen := map[string]bool{}
	for _, s := range list {
		t, err := ParseTopic(s)
		if err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("topic %q is given twice", t.Name)
		}
		seen[t.Name] = true
		out = append(out, t)
	}
	return out, nil
}

// ErrParentGone is why a lifetime ended when standard input was closed.
var ErrParentGone = errors.New("standard input was closed")

// Lifetime ends on SIGINT and SIGTERM and, when a parent is to be watched, as
// soon as stdin ends: a parent that dies in whatever way closes its pipe.
// The reader of stdin ends with the process.
func Lifetime(parent bool, stdin io.Reader) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if !parent {
		return ctx, stop
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel(ErrParentGone)
	}()
	return ctx, func() { cancel(nil); stop() }
}

// IsPipe says whether stdin is something whose end means anything: not a
// terminal, and not /dev/null.
func IsPipe(stdin *os.File) bool {
	info, err := stdin.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}
