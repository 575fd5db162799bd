package groupclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/kafka"
)

// Values of AutoOffsetReset and OnLostPosition.
const (
	ResetEarliest = "earliest"
	ResetLatest   = "latest"
	ResetNone     = "none" // AutoOffsetReset only
	ResetFail     = "fail" // OnLostPosition only
)

// Guarantees that a claim names.
const (
	AtLeastOnce = "at_least_once"
	ExactlyOnce = "exactly_once"
)

// Config is how a member behaves. Client and Group are required; zero durations take the defaults.
type Config struct {
	Client     *kafka.Client
	Group      string
	InstanceID string // group.instance.id; empty: a dynamic member
	Rack       string

	SessionTimeout    time.Duration // 10s
	HeartbeatInterval time.Duration // 500ms
	RebalanceTimeout  time.Duration // 10s: how long the coordinator waits for members to join again

	// TransactionTimeout is that of our producer's transactions: what is not ended by then is ended by Kafka. 10s
	TransactionTimeout time.Duration

	AutoOffsetReset string // earliest (default), latest, none
	OnLostPosition  string // fail (default), earliest, latest
	Guarantee       string // at_least_once (default), exactly_once
	Replicas        *int   // standbys of each task; nil: as many as the leader's worker asks for
	AcceptStateLoss bool

	// MaxWarmups is how many copies a plan of ours lets be made at once for tasks that are to move; 0:
	// tasks move to members without a copy. AcceptableLag is how many records a copy may be behind to be
	// warm; members tell lags coarsely, and up to twice as much may pass. ProbingInterval is how often
	// the leader plans anew while tasks wait for copies and nobody says that one is warm.
	MaxWarmups      int
	AcceptableLag   int64
	ProbingInterval time.Duration // 60s

	// Copies are the tasks whose tables the worker keeps without being their active. It is called by
	// Run's goroutine when a JoinGroup is built, and at heartbeats while a copy warms up, and must not
	// block. Nil: none.
	Copies func() []Copy

	// Begin initialises the producer of an incarnation. Under exactly_once it is called in TakeOver, until it
	// has succeeded once for the incarnation, before the first claim of that incarnation is written. Nil:
	// nothing.
	Begin func(ctx context.Context, incarnation string) error

	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	setDefault(&c.SessionTimeout, 10*time.Second)
	setDefault(&c.HeartbeatInterval, 500*time.Millisecond)
	setDefault(&c.RebalanceTimeout, 10*time.Second)
	setDefault(&c.ProbingInterval, 60*time.Second)
	setDefault(&c.TransactionTimeout, 10*time.Second)
	setDefault(&c.AutoOffsetReset, ResetEarliest)
	setDefault(&c.OnLostPosition, ResetFail)
	setDefault(&c.Guarantee, AtLeastOnce)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Validate says in one error everything that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Client == nil, "groupclient: no Kafka client")
	refuse(c.Group == "", "groupclient: group_id is empty")
	refuse(c.SessionTimeout < 0 || c.HeartbeatInterval < 0 || c.RebalanceTimeout < 0 || c.TransactionTimeout < 0, "groupclient: a negative time")
	refuse(c.HeartbeatInterval*3 > c.SessionTimeout,
		"groupclient: heartbeat_interval %s must be at most a third of session_timeout %s", c.HeartbeatInterval, c.SessionTimeout)
	refuse(!slices.Contains([]string{ResetEarliest, ResetLatest, ResetNone}, c.AutoOffsetReset),
		"groupclient: auto_offset_reset %q is not earliest, latest or none", c.AutoOffsetReset)
	refuse(!slices.Contains([]string{ResetFail, ResetEarliest, ResetLatest}, c.OnLostPosition),
		"groupclient: on_lost_position %q is not fail, earliest or latest", c.OnLostPosition)
	refuse(!slices.Contains([]string{AtLeastOnce, ExactlyOnce}, c.Guarantee),
		"groupclient: processing_guarantee %q is not at_least_once or exactly_once", c.Guarantee)
	refuse(c.Replicas != nil && *c.Replicas < 0, "groupclient: num_standby_replicas is negative")
	refuse(c.MaxWarmups < 0 || c.AcceptableLag < 0, "groupclient: max_warmup_replicas or acceptable_recovery_lag is negative")
	refuse(c.ProbingInterval < time.Second, "groupclient: a probing interval under 1s")
	return errors.Join(errs...)
}
