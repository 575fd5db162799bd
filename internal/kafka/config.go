package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Config says where Kafka is and how long to wait for it. Zero durations mean the default.
type Config struct {
	Bootstrap []string // host:port of at least one broker; the others are found from it
	ClientID  string   // what quotas and the broker's logs know us by; default "pillion"

	DialTimeout    time.Duration // dial, TLS and handshakes of one connection; default 5s
	RequestTimeout time.Duration // of a call whose context has no deadline, and of each try of a call that is repeated; default 10s
	MetadataMaxAge time.Duration // how long leaders and topic ids are believed; default 1m

	Security Security // TLS and SASL, over whatever Dial returns

	// Dial replaces net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Logger hclog.Logger // default: none
}

const (
	defaultDialTimeout    = 5 * time.Second
	defaultRequestTimeout = 10 * time.Second
	defaultMetadataMaxAge = time.Minute
)

// Validate says in one sentence what is wrong with the configuration.
func (c Config) Validate() error {
	if len(c.Bootstrap) == 0 {
		return errors.New("no bootstrap servers: set bootstrap_servers to the host:port of at least one broker")
	}
	for _, address := range c.Bootstrap {
		host, port, err := net.SplitHostPort(address)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
			return fmt.Errorf("bootstrap server %q is not host:port, as in kafka:9092", address)
		}
	}
	if c.DialTimeout < 0 || c.RequestTimeout < 0 || c.MetadataMaxAge < 0 {
		return errors.New("kafka timeouts must not be negative")
	}
	return c.Security.Validate()
}

func (c Config) withDefaults() Config {
	if c.ClientID == "" {
		c.ClientID = "pillion"
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = defaultDialTimeout
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = defaultRequestTimeout
	}
	if c.MetadataMaxAge == 0 {
		c.MetadataMaxAge = defaultMetadataMaxAge
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}
