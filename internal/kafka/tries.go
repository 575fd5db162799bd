package kafka

import (
	"context"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Tries is how often a request was written to a connection. A call repeats a request that got no answer, so
// that one which was written more often than it was answered may be carried out later, after requests that
// follow it.
type Tries struct {
	key     int16
	written atomic.Int32
}

type triesKey struct{}

// CountTries counts the requests of a kind that are made with the context.
func CountTries(ctx context.Context, key kmsg.Key) (context.Context, *Tries) {
	t := &Tries{key: int16(key)}
	return context.WithValue(ctx, triesKey{}, t), t
}

// Written says whether one may have come to the broker, answered or not.
func (t *Tries) Written() bool { return t.written.Load() > 0 }

// Repeated says whether one that was answered was written before, and not answered.
func (t *Tries) Repeated() bool { return t.written.Load() > 1 }

// NoteTry counts a request that is about to be written: for the client, and for what stands in its place.
func NoteTry(ctx context.Context, key int16) {
	if t, ok := ctx.Value(triesKey{}).(*Tries); ok && t.key == key {
		t.written.Add(1)
	}
}
