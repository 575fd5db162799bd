package cli

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/pillion/pillion/bridge"
	"github.com/pillion/pillion/feed"
	"github.com/pillion/pillion/groupclient"
	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/ops"
	"github.com/pillion/pillion/produce"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/restore"
	"github.com/pillion/pillion/session"
)

// sidecar is every part of one sidecar, put together.
type sidecar struct {
	settings Settings
	log      hclog.Logger
	client   *kafka.Client
	runner   *session.Runner
	group    *groupPort
	locator  *locator
	bridge   *bridge.Server
	fetcher  *fetch.Fetcher
	restore  *restore.Manager
	feed     *feed.Feeder
	producer *produce.Producer
	transact *transactions
	metrics  *ops.Metrics
	ops      *ops.Server // nil: off
	bound    int64       // of its memory, in bytes
	drains   *drains
}

// newSidecar listens for the worker and makes every part; nothing runs yet.
func newSidecar(s Settings, token string, log hclog.Logger) (*sidecar, error) {
	c := &sidecar{settings: s, log: log, metrics: ops.NewMetrics()}
	c.drains = &drains{begin: c.drain, tasks: c.tasks, ended: make(chan struct{})}
	if err := c.make(token); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *sidecar) make(token string) (err error) {
	s, log := c.settings, c.log
	if c.client, err = s.connect(log.Named("kafka")); err != nil {
		return err
	}
	listener := bridge.Config{
		Listen: s.Listen, Token: token, AllowedOrigins: s.AllowedOrigins, MaxCommitBytes: s.MaxCommitBytes,
		Logger: log.Named("bridge"), Metrics: c.metrics.Bridge(), Recycle: func(f []byte) { c.fetcher.Recycle(f) },
	}
	if err := listener.Validate(); err != nil {
		return usageError{err}
	}
	if c.runner, err = session.NewRunner(c.sessionConfig(&listener), log.Named("session")); err != nil {
		return usageError{err}
	}
	if err := c.makeDataPath(); err != nil {
		return err
	}
	listener.Vet = func(h protocol.Hello) *bridge.Refusal {
		if no := c.runner.Vet(h); no != nil {
			return &bridge.Refusal{Close: no.Close, Code: no.Code, Message: no.Message}
		}
		return nil
	}
	listener.Drain = c.drains.wait
	events := &bridgeEvents{runner: c.runner, ids: map[*bridge.Conn]session.ConnID{}}
	if c.bridge, err = bridge.New(listener, events); err != nil {
		return err
	}
	if s.OpsListen != "" {
		c.ops, err = ops.New(ops.Config{
			Listen: s.OpsListen, Metrics: c.metrics, Session: c.runner.Status, Alive: c.runner.Alive, Bridge: c.bridge.Stats, Copies: c.runner.Copies, Logger: log.Named("ops"),
		})
		if err != nil {
			return err
		}
	}
	bound := newMemoryBound(&listener)
	c.bound = bound.total()
	log.Info("memory that this sidecar takes at most", "bound_bytes", c.bound, "bridge_bytes", bound.bridge,
		"fetch_bytes", bound.fetch, "produce_bytes", bound.produce, "runtime_bytes", runtimeBytes)
	return nil
}

func (c *sidecar) sessionConfig(listener *bridge.Config) session.Config {
	s := c.settings
	return session.Config{
		Group: s.GroupID, DefaultGroup: s.defaultGroup, Guarantee: s.ProcessingGuarantee, Version: Version,
		WorkerGrace: s.WorkerGrace, RevokeTimeout: s.RevokeTimeout, MaxProcessing: s.MaxProcessing,
		DrainTimeout: s.DrainTimeout, Limits: listener.Limits(), Credit: listener.Window,
	}
}

func (c *sidecar) makeDataPath() (err error) {
	post := c.runner.Post
	c.locator = newLocator(func(ctx context.Context, group string) (groupclient.View, error) {
		return groupclient.Describe(ctx, c.client, group)
	})
	c.group = &groupPort{
		settings: c.settings, client: c.client, log: c.log, post: post, metrics: c.metrics, locator: c.locator, copies: c.copies,
	}
	if c.fetcher, err = fetch.New(fetch.Config{Client: c.client, Logger: c.log.Named("fetch")}); err != nil {
		return err
	}
	c.restore, err = restore.New(restore.Config{
		Client: c.client, Fetcher: c.fetcher, Handler: restoreEvents{post}, Logger: c.log.Named("restore"),
	})
	if err != nil {
		return err
	}
	c.feed, err = feed.New(feed.Config{Fetcher: c.fetcher, Handler: feedEvents{post}, Logger: c.log.Named("feed")})
	if err != nil {
		return err
	}
	c.producer, err = produce.New(produce.Config{
		Client: c.client, Compression: c.settings.CompressionType, Logger: c.log.Named("produce"),
	})
	c.transact = &transactions{producer: c.producer, group: c.group, timeout: c.settings.TransactionTimeout, metrics: c.metrics}
	c.group.begin = c.transact.begin
	return err
}

// copies is what the group hears of the tables that the worker keeps without being their active.
func (c *sidecar) copies() []groupclient.Copy {
	var list []groupclient.Copy
	for _, copy := range c.runner.Copies() {
		list = append(list, groupclient.Copy{Task: groupTask(copy.Task), Lag: copy.Lag})
	}
	return list
}

// Run serves until the session ends (after drain, or because Kafka refuses for good) or ctx ends.
// Nothing is left running when it returns.
func (c *sidecar) Run(ctx context.Context) error {
	defer c.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts, ctx := errgroup.WithContext(ctx)
	c.group.run = func(run func(context.Context) error) {
		parts.Go(func() error { return stopped(run(ctx)) })
	}
	c.transact.run = c.group.run
	for _, run := range []func(context.Context) error{
		c.bridge.Run, c.fetcher.Run, c.restore.Run, c.feed.Run, c.producer.Run, c.group.watch,
	} {
		parts.Go(func() error { return stopped(run(ctx)) })
	}
	if c.ops != nil {
		parts.Go(func() error { return stopped(c.ops.Run(ctx)) })
	}
	parts.Go(func() error {
		defer cancel()
		err := c.runner.Run(ctx, session.Ports{
			Group: c.group, Restorer: restorePort{c.restore}, Feeder: feedPort{c.feed},
			Producer: producePort{producer: c.producer, transactions: c.transact, now: time.Now, metrics: c.metrics},
			Locator:  c.locator,
		})
		c.drains.over(err, c.runner.Status().GaveUp)
		return stopped(err)
	})
	return parts.Wait()
}

// stopped forgets the error of a part that was told to stop.
func stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// tasks is how many tasks this sidecar is the active of.
func (c *sidecar) tasks() int {
	status := c.runner.Status()
	n := -status.Standbys
	for _, of := range status.Tasks {
		n += of
	}
	return n
}

// drain hands everything over; Run ends when that is done.
func (c *sidecar) drain() { c.runner.Post(session.Drain{}) }

func (c *sidecar) close() {
	if c.bridge != nil {
		c.bridge.Close()
	}
	if c.ops != nil {
		c.ops.Close()
	}
	if c.client != nil {
		c.client.Close()
	}
}

// streamFault says to the worker what ended a replay or a feed. What a person must act on is said
// without the places it came through.
func streamFault(err error) (code, message string) {
	var large *fetch.RecordTooLargeError
	var unknown *fetch.UnknownTopicError
	var denied *kafka.AccessError
	switch {
	case errors.As(err, &denied):
		return protocol.CodeKafkaRefused, denied.Error()
	case errors.As(err, &large):
		return protocol.CodeRecordTooLarge, large.Error()
	case errors.As(err, &unknown):
		return protocol.CodeUnknownTopic, unknown.Error()
	}
	return protocol.CodeInternal, err.Error()
}

// newLogger makes the logger of the settings.
func newLogger(s Settings, p *process, name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{
		Name: name, Level: hclog.LevelFromString(s.LogLevel), Output: p.stderr, JSONFormat: s.LogFormat == "json",
		TimeFormat: "2006-01-02T15:04:05.000Z0700",
	})
}
