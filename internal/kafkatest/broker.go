//go:build kafka

package kafkatest

import (
	"context"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// Versions of Kafka that tests run with.
const (
	Latest   = kafkaproc.Latest
	Previous = kafkaproc.Previous
)

// Option changes a real Kafka.
type Option func(*kafkaproc.Config)

// Property sets a line of server.properties.
func Property(key, value string) Option {
	return func(c *kafkaproc.Config) { c.Properties[key] = value }
}

// Heap sets the memory of each broker's JVM, "512m"; the default is 256m.
func Heap(size string) Option { return func(c *kafkaproc.Config) { c.Heap = size } }

// Version chooses the Kafka of a Cluster.
func Version(v string) Option { return func(c *kafkaproc.Config) { c.Version = v } }

// RealBroker is one node of a real Kafka. Its methods end the test when they
// fail. They may be called only from the test's own goroutine.
type RealBroker struct {
	t    testing.TB
	node *kafkaproc.Node
}

// Broker starts a real Kafka of one node and waits until it answers. Data goes
// to a directory of the test. It is killed when the test ends, and the end of
// its log is printed when the test has failed.
func Broker(t testing.TB, version string, options ...Option) *RealBroker {
	t.Helper()
	return Cluster(t, 1, append([]Option{Version(version)}, options...)...).Nodes[0]
}

// ID is the node id: 1, 2, 3.
func (b *RealBroker) ID() int32 { return b.node.ID }

// Addr is host:port, the same for all of its lives.
func (b *RealBroker) Addr() string { return b.node.Addr }

// Addrs is Addr as a list, for bootstrap_servers.
func (b *RealBroker) Addrs() []string { return []string{b.node.Addr} }

// Kill ends it with SIGKILL. A single node that is started again after that
// needs about 3 s until it answers, since its old session must expire.
func (b *RealBroker) Kill() { b.t.Helper(); b.must("kill", b.node.Kill()) }

// Pause halts it with SIGSTOP: connections stay open, nothing answers.
func (b *RealBroker) Pause() { b.t.Helper(); b.must("pause", b.node.Pause()) }

// Continue ends a pause.
func (b *RealBroker) Continue() { b.t.Helper(); b.must("continue", b.node.Continue()) }

// Stop ends it with SIGTERM and waits: leaders are handed over first.
func (b *RealBroker) Stop() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	b.must("stop", b.node.Stop(ctx))
}

// Start starts it again on the same data and port, and waits until it answers.
func (b *RealBroker) Start() {
	b.t.Helper()
	b.must("start", b.node.Start(context.Background()))
}

// Running says whether its process is there, paused or not.
func (b *RealBroker) Running() bool { return b.node.Running() }

// Log is the end of what it has printed so far.
func (b *RealBroker) Log(lines int) string { return b.node.Log(lines) }

func (b *RealBroker) must(what string, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("kafkatest: %s broker %d: %v", what, b.node.ID, err)
	}
}
