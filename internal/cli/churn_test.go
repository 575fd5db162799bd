//go:build kafka

package cli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
)

const (
	churns        = 300 // joins and leaves
	churnTasks    = 6
	churnReplicas = 1
	churnMembers  = 4   // at most at once
	churnRest     = 100 // after so many of them, all have left
	churnPause    = 20 * time.Millisecond
)

// Members join and leave, three hundred times in a row, on a real broker, while records flow. After each
// the group settles: every task active on one member, in equal shares, with its copy on another, if that
// one's worker can hold it (every fourth cannot). Nothing is lost, nothing is counted twice, and when all have left nothing of them is left in the process.
func TestThreeHundredJoinsAndLeaves(t *testing.T) {
	broker := kafkatest.Broker(t, kafkatest.Latest, kafkatest.Heap("512m"))
	kafkatest.CreateTopic(t, broker.Addrs(), "in", churnTasks, nil)
	c := &churn{t: t, addrs: broker.Addrs(), board: newBoard(), rand: rand.New(rand.NewPCG(7, 300)), disks: map[string]map[string]*mateStore{}}
	stop := c.produce()
	c.one() // what is made once is made
	c.one()
	before := c.rest()
	for range churns / churnRest {
		c.round(churnRest)
		c.gone(before)
	}
	c.report()

	c.join()
	stop()
	c.finish()
	c.leave(0)
	c.exact()
}

// churn is a group whose members come and go.
type churn struct {
	t     *testing.T
	addrs []string
	board *board
	rand  *rand.Rand
	disks map[string]map[string]*mateStore // by the member's place

	paused atomic.Bool // nothing is produced

	members []*member
	joined  int
	changes int
	settled []time.Duration // how long each change took
}

// member is one sidecar and its worker.
type member struct {
	*sidecar
	name  string
	place string // names its disk
	level protocol.Level
	ended chan struct{} // both have
	err   error         // of the sidecar's Run
	code  int           // that the worker was sent away with
	log   *lastLines
}

// round makes so many changes, and ends with nobody.
func (c *churn) round(changes int) {
	for left := changes; left > 0; {
		switch n := len(c.members); {
		case left > n+2 && c.rand.IntN(5) == 0 && n > 0 && n < churnMembers: // two at once
			c.change(func() { c.begin(); c.quit(c.rand.IntN(n)) })
			left -= 2
			c.changes += 2
			continue
		case n == left, n == churnMembers, n > 1 && c.rand.IntN(2) == 0:
			c.leave(c.rand.IntN(n))
		default:
			c.join()
		}
		left--
		c.changes++
	}
}

func (c *churn) one() {
	c.join()
	c.leave(0)
}

func (c *churn) join() { c.change(func() { c.begin() }) }

func (c *churn) leave(i int) { c.change(func() { c.quit(i) }) }

// change does something and waits until the group has settled and records go on.
func (c *churn) change(do func()) {
	c.t.Helper()
	began := time.Now()
	do()
	soon(c.t, func() bool { c.board.check(c.t); return len(c.unsettled()) == 0 }, c.words)
	c.settled = append(c.settled, time.Since(began))
	if len(c.members) == 0 {
		return
	}
	was := c.board.committed()
	var stuck []string
	soon(c.t, func() bool {
		stuck = nil
		now := c.board.committed()
		for partition := range churnTasks {
			if task := fmt.Sprintf("s/%d", partition); now[task] == was[task] {
				stuck = append(stuck, task)
			}
		}
		c.board.check(c.t)
		return len(stuck) == 0
	}, func() string {
		return fmt.Sprintf("no record of %v is committed: %v\n%s", stuck, c.board.where(stuck), c.words())
	})
}

// names are those of all members, and of those whose workers can hold copies.
func (c *churn) names() (all, able []string) {
	for _, m := range c.members {
		all = append(all, m.name)
		if m.level == protocol.LevelStandby {
			able = append(able, m.name)
		}
	}
	return all, able
}

// unsettled says what is not yet as it shall be.
func (c *churn) unsettled() []string {
	all, able := c.names()
	what := c.board.unsettled(all, able, churnTasks, churnReplicas)
	for _, m := range c.members {
		if a, b := m.runner.Status().Generation, c.members[0].runner.Status().Generation; a != b {
			what = append(what, fmt.Sprintf("%s is in generation %d, %s in %d", m.name, a, c.members[0].name, b))
		}
	}
	return what
}

// words is what there is to say when a change did not come to its end.
func (c *churn) words() string {
	all, able := c.names()
	text := fmt.Sprintf("change %d with %v, copies at %v:\n    %s\n", c.changes+1, all, able, strings.Join(c.unsettled(), "\n    "))
	for _, m := range c.members {
		text += fmt.Sprintf("%s %+v said\n%s", m.name, m.runner.Status(), m.log)
	}
	return text + stacks()
}

// begin starts a member in the first free place.
func (c *churn) begin() {
	c.t.Helper()
	c.joined++
	m := &member{name: fmt.Sprintf("member %d", c.joined), ended: make(chan struct{}), log: &lastLines{}}
	if m.level = protocol.LevelStandby; c.joined%4 == 0 {
		m.level = protocol.LevelTables
	}
	for i := 0; ; i++ {
		m.place = strconv.Itoa(i)
		if !slices.ContainsFunc(c.members, func(other *member) bool { return other.place == m.place }) {
			break
		}
	}
	if c.disks[m.place] == nil {
		c.disks[m.place] = map[string]*mateStore{}
	}
	m.sidecar = c.sidecar(m.log)
	ctx, cancel := context.WithCancel(context.Background())
	c.t.Cleanup(cancel)
	var both sync.WaitGroup
	both.Go(func() { m.err = m.Run(ctx) })
	w := newMate(c.t, c.board, m.name, m.bridge.URL(), m.level, c.disks[m.place])
	both.Go(func() { m.code = w.run(); c.board.leave(m.name) })
	go func() { both.Wait(); cancel(); close(m.ended) }()
	c.members = append(c.members, m)
}

func (c *churn) sidecar(log *lastLines) *sidecar {
	c.t.Helper()
	flags := newFlags("run")
	err := flags.Parse([]string{
		"--bootstrap-servers", c.addrs[0], "--listen", "127.0.0.1:0", "--ops-listen", "", "--group-id", "churn",
		"--num-standby-replicas", strconv.Itoa(churnReplicas), "--heartbeat-interval", "100ms",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	settings, _, _, err := load(flags, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	settings.standbysGiven = true // as the command says it
	s, err := newSidecar(settings, testToken, hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Debug}))
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// quit drains a member and waits until it and its worker have ended.
func (c *churn) quit(i int) {
	c.t.Helper()
	m := c.members[i]
	m.drain()
	select {
	case <-m.ended:
	case <-time.After(patience):
		c.t.Fatalf("%s does not come to its end: %s", m.name, c.words())
	}
	if m.err != nil || m.code != 4411 {
		c.t.Fatalf("%s ended with %v, its worker was sent away with %d:\n%s", m.name, m.err, m.code, m.log)
	}
	c.members = slices.Delete(c.members, i, i+1)
}

// produce makes a record for each task every few milliseconds, until stop.
func (c *churn) produce() (stop func()) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		defer cl.Close()
		tick := time.NewTicker(churnPause)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			for p := range int32(churnTasks) {
				if c.paused.Load() {
					break
				}
				key := fmt.Appendf(nil, "key-%d-%d", p, n%5)
				cl.Produce(context.Background(), &kgo.Record{Topic: "in", Partition: p, Key: key, Value: []byte("x")}, func(_ *kgo.Record, err error) {
					if err != nil {
						c.board.fault("produce: %v", err)
					}
				})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		if err := cl.Flush(context.Background()); err != nil {
			c.board.fault("produce: %v", err)
		}
	})
	stop = func() { cancel(); done.Wait() }
	c.t.Cleanup(stop)
	return stop
}

// finish waits until everything that is in the input is committed.
func (c *churn) finish() {
	c.t.Helper()
	ends := kafkatest.EndOffsets(c.t, c.addrs, "in")
	soon(c.t, func() bool {
		at := kafkatest.CommittedOffsets(c.t, c.addrs, "churn")
		for p, end := range ends {
			if at[kafkatest.TopicPartition{Topic: "in", Partition: p}].Offset != end.Stable {
				return false
			}
		}
		return true
	}, c.words)
}

// exact compares the changelog with the input: each key counted one by one to as many as there are. And
// every store that is left on a disk with the changelog, up to where it says that it is complete.
func (c *churn) exact() {
	c.t.Helper()
	c.board.check(c.t)
	want, counts := map[string]int{}, map[string]int{}
	for _, r := range kafkatest.ReadAll(c.t, c.addrs, "in", true) {
		want[string(r.Key)]++
	}
	log := kafkatest.ReadAll(c.t, c.addrs, "churn-t-changelog", true)
	for _, r := range log {
		n, _ := strconv.Atoi(string(r.Value))
		if counts[string(r.Key)]++; counts[string(r.Key)] != n {
			c.t.Fatalf("%q is %q at offset %d of partition %d, and it is record %d of that key", r.Key, r.Value, r.Offset, r.Partition, counts[string(r.Key)])
		}
	}
	if !maps.Equal(counts, want) {
		c.t.Errorf("the table has %v, the input %v", counts, want)
	}
	for place, disk := range c.disks {
		for task, store := range disk {
			rows, next := map[string]int{}, (&mate{board: c.board}).position(store)
			for _, r := range log {
				if fmt.Sprintf("s/%d", r.Partition) == task && r.Offset < next {
					rows[string(r.Key)]++
				}
			}
			if !maps.Equal(rows, store.rows) {
				c.t.Errorf("the store of %s in place %s, complete up to %d, holds %v, not %v", task, place, next, store.rows, rows)
			}
		}
	}
}

// report says how long it took.
func (c *churn) report() {
	slices.Sort(c.settled)
	at := func(share float64) time.Duration {
		return c.settled[int(share*float64(len(c.settled)-1))].Round(time.Millisecond)
	}
	records := 0
	for _, n := range c.board.committed() {
		records += n
	}
	c.t.Logf("%d joins and leaves of up to %d members, %d tasks, %d copies each: settled after %v (median), %v (p99), %v (at most); %d records meanwhile; %s",
		c.changes, churnMembers, churnTasks, churnReplicas, at(0.5), at(0.99), at(1), records, c.board)
}

// lastLines keeps the end of a log.
type lastLines struct {
	mu    sync.Mutex
	lines [][]byte
}

func (l *lastLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines[max(0, len(l.lines)-80):], bytes.Clone(b))
	return len(b), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.Join(l.lines, nil))
}
