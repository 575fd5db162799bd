package cli

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
)

// A sidecar that many bad workers come to, on one Kafka and in one membership.
type besieged struct {
	*sidecar
	addrs      []string
	url        string
	round      int
	generation int32
}

func besiege(t *testing.T) *besieged {
	t.Helper()
	fake := kafkatest.Fake(t, kfake.NumBrokers(1))
	fake.Topic(t, "in", 2, nil)
	fake.Topic(t, "out", 1, nil)
	fake.Topic(t, "bulk", 1, nil)
	var bulk []kafkatest.Record
	for range 32 {
		bulk = append(bulk, kafkatest.Record{Value: make([]byte, 256<<10)})
	}
	kafkatest.Produce(t, fake.Addrs(), "bulk", bulk, kafkatest.InBatchesOf(1))

	s := serve(t, fake.Addrs(), "--group-id", "besieged", "--max-commit-bytes", "256KiB", "--worker-grace", "5m",
		"--revoke-timeout", "20s", "--session-timeout", "1m")
	return &besieged{sidecar: s, addrs: fake.Addrs(), url: s.bridge.URL()}
}

// serve runs a sidecar with these settings until the test ends.
func serve(t *testing.T, addrs []string, args ...string) *sidecar {
	t.Helper()
	flags := newFlags("run")
	args = append([]string{"--bootstrap-servers", addrs[0], "--listen", "127.0.0.1:0", "--ops-listen", ""}, args...)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	settings, _, _, err := load(flags, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSidecar(settings, testToken, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// honest is a good worker: it finds everything as the last good one left it, takes one record of each
// partition, commits a row and an output for it, and goes.
func (b *besieged) honest(t *testing.T) {
	t.Helper()
	b.round++
	value := strconv.Itoa(b.round)
	kafkatest.Produce(t, b.addrs, "in", []kafkatest.Record{
		{Partition: 0, Key: []byte("k"), Value: []byte(value)}, {Partition: 1, Key: []byte("k"), Value: []byte(value)},
	})
	p := work(t, b.url)
	for partition := range 2 {
		task := p.task(fmt.Sprintf("s/%d", partition))
		for len(task.records) == 0 {
			p.hear()
		}
		if got := string(task.records[0].Value); got != value || len(task.records) != 1 {
			t.Fatalf("round %s begins at record %s of %d", value, got, len(task.records))
		}
		if got := task.rows["rounds"]; b.round > 1 && got != strconv.Itoa(b.round-1) {
			t.Fatalf("round %s: the table holds %q", value, got)
		}
		id := p.id()
		p.binary(writes(task.changelog(), task.Epoch, id, []byte("rounds"), value))
		p.binary(writes(task.Outputs[0].Stream, task.Epoch, id, []byte("k"), value))
		p.commit(task, id, task.next)
		hearsOf(p, func(m protocol.Committed) bool { return m.Re == id })
	}
	if err := p.ws.Close(); err != nil {
		t.Fatal(err)
	}
	if got := len(kafkatest.ReadAll(t, b.addrs, "out", true)); got != 2*b.round {
		t.Fatalf("%d outputs after round %s", got, value)
	}
	if now := b.runner.Status().Generation; b.generation == 0 {
		b.generation = now
	} else if now != b.generation {
		t.Fatalf("the group went from generation %d to %d", b.generation, now)
	}
}

// Whatever a worker does: it gets the documented answer, the group does not notice, and the next worker
// finds everything right.
func TestHostileWorkers(t *testing.T) {
	b := besiege(t)
	b.honest(t)
	if b.generation == 0 {
		t.Fatal("the first worker found no membership")
	}
	for _, attack := range attacks {
		ok := t.Run(attack.name, func(t *testing.T) {
			attack.on(t, b)
			b.honest(t)
		})
		if !ok {
			return // the membership or the tables are not what the next one expects
		}
	}
}
