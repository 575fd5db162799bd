package kafkatest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Timeout bounds every helper of this package. It is long because a broker of
// a loaded two-core machine can be slow, and because no test waits for it
// unless it fails.
const Timeout = 60 * time.Second

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// byName keeps to request versions that name topics by their names.
func byName() kgo.Opt {
	v := kversion.Stable()
	v.SetMaxKeyVersion(8, 9)
	v.SetMaxKeyVersion(9, 9)
	return kgo.MaxVersions(v)
}

// client makes a franz-go client that ends with the call, not with the test:
// a helper leaves nothing behind, so that goleak may be used anywhere.
func client(addrs []string, opts ...kgo.Opt) (*kgo.Client, error) {
	all := append([]kgo.Opt{
		kgo.SeedBrokers(addrs...),
		kgo.ClientID("kafkatest"),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.DialTimeout(5 * time.Second),
	}, opts...)
	cl, err := kgo.NewClient(all...)
	if err != nil {
		return nil, fmt.Errorf("make a kafka client for %v: %w", addrs, err)
	}
	return cl, nil
}

// with runs fn with a client and the deadline of all helpers.
func with(t testing.TB, what string, addrs []string, fn func(context.Context, *kgo.Client) error, opts ...kgo.Opt) {
	t.Helper()
	cl, err := client(addrs, opts...)
	if err != nil {
		t.Fatalf("kafkatest: %s: %v", what, err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := fn(ctx, cl); err != nil {
		t.Fatalf("kafkatest: %s at %v: %v", what, addrs, err)
	}
}

// again calls fn until it is done, fails, or the context ends. There is no
// event to wait for at another process, so it asks.
func again(ctx context.Context, what string, fn func() (done bool, err error)) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := fn()
		if err != nil || done {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}

// codeError makes an error of a Kafka error code and its message, nil for 0.
func codeError(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil && *message != "" {
		return fmt.Errorf("%w: %s", err, *message)
	}
	return err
}
