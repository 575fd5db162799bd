package kafka

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

func TestReach(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	for address, want := range map[string]string{
		kafkatest.Fake(t).Addrs()[0]: "",
		nobody: "no Kafka broker answers at " + nobody + " (connect: connection refused): " +
			"check bootstrap_servers, and that Kafka is running and can be reached from here",
	} {
		c, err := New(Config{Bootstrap: []string{address}})
		if err != nil {
			t.Fatal(err)
		}
		limit := kafkatest.Timeout
		if want != "" {
			limit = 200 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err = c.Reach(ctx)
		cancel()
		c.Close()
		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (!errors.Is(err, ErrUnreachable) || err.Error() != want):
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
