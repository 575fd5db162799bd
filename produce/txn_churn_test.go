package produce

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// txnChurn commits units of several tasks while disturb is called at several points in the middle, takes
// a new transactional id after each fence, and then compares what a read_committed reader sees with what
// was told.
type txnChurn struct {
	addrs   []string
	cluster txnCluster
	timeout time.Duration // of transactions
	commits int           // of each task
	disturb []func()      // spread evenly over the commits
	perUnit int           // records; default 10
	table   string        // the topics; default table and out
	out     string

	mu      sync.Mutex
	current *Transactions
	lives   int
}

// fate is what a unit was told.
type fate struct {
	key string
	err error
	at  Landed
}

// live is the producer of the present incarnation, or a new one after old.
func (c *txnChurn) live(t *testing.T, old *Transactions) *Transactions {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == old {
		c.lives++
		x := transactionsOf(t, Config{Compression: "none"}, c.cluster, TransactionsConfig{ID: fmt.Sprint(txnID, "-", c.lives), Group: txnGroup, Timeout: c.timeout})
		if err := x.Init(limited(t)); err != nil {
			t.Error(err)
		}
		start(t, x)
		c.current = x
	}
	return c.current
}

// fence takes the transactional id of the present incarnation over, as the next owner of a task does.
func (c *txnChurn) fence(t *testing.T) {
	c.mu.Lock()
	id := c.current.cfg.ID
	c.mu.Unlock()
	ctx := limited(t)
	for {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, 10_000, -1, -1
		got, err := c.cluster.ToTransaction(ctx, id, req)
		if err == nil && got.(*kmsg.InitProducerIDResponse).ErrorCode == 0 {
			return
		}
		if !pause(ctx, 10*time.Millisecond) {
			t.Error("the id cannot be taken over")
			return
		}
	}
}

func (c *txnChurn) run(t *testing.T) {
	t.Helper()
	if c.perUnit == 0 {
		c.perUnit = 10
	}
	if c.table == "" {
		c.table, c.out = "table", "out"
	}
	topics(t, c.addrs, "in", c.table, c.out)
	var (
		group sync.WaitGroup
		fates [churnTasks][]fate
		count atomic.Int64
	)
	x := c.live(t, nil)
	every := int64(churnTasks*c.commits) / int64(len(c.disturb)+1)
	due := make(chan struct{}, len(c.disturb))
	began := time.Now()
	for n := range churnTasks {
		group.Go(func() {
			x, head := x, int64(0)
			for i := range c.commits {
				var f fate
				f, x, head = c.commit(t, x, n, i, head)
				fates[n] = append(fates[n], f)
				if k := count.Add(1); k%every == 0 && k/every <= int64(len(c.disturb)) {
					due <- struct{}{}
				}
			}
		})
	}
	disturbing(&group, due, c.disturb)
	took := time.Since(began)
	t.Logf("%d units in %v, %d lives", churnTasks*c.commits, took, c.lives)
	c.check(t, fates)
}

func (c *txnChurn) commit(t *testing.T, x *Transactions, task, i int, head int64) (fate, *Transactions, int64) {
	var table, out []rec
	f := fate{key: fmt.Sprintf("t%d-%05d", task, i)}
	for j := range c.perUnit {
		key := fmt.Sprintf("%s-%02d", f.key, j)
		table, out = append(table, kv(key, "a row of some length that fills a batch")), append(out, kv(key, "out"))
	}
	w := changelog(c.table, int32(task), writes(table...))
	w.Head = head
	r, err := x.Commit(limited(t), Unit{Writes: []Write{w, output(c.out, writes(out...))}, Positions: at(int32(task), int64(i))})
	f.err, f.at = err, r.Changelogs[c.table]
	var (
		unknown  *UnknownError
		rejected *RejectedError
	)
	switch {
	case err == nil:
		head = f.at.Next
	case errors.As(err, &unknown):
		select {
		case <-unknown.Ended:
		case <-limited(t).Done():
			t.Errorf("%s: its end does not come", f.key)
		}
		head = -1
	case errors.As(err, &rejected), errors.Is(err, ErrFenced):
	default:
		t.Errorf("%s: %v", f.key, err)
	}
	if errors.Is(err, ErrFenced) {
		x = c.live(t, x)
	}
	return f, x, head
}

// check reads what is committed. Units that were answered as not written are absent, whole ones are
// there, in order and where they were said to be; those of an unknown end are one or the other.
func (c *txnChurn) check(t *testing.T, fates [churnTasks][]fate) {
	t.Helper()
	count := map[string]map[string]int{}
	first := map[string]int64{}
	for _, topic := range []string{c.table, c.out} {
		count[topic] = map[string]int{}
		last := map[string]string{}
		for _, r := range kafkatest.ReadAll(t, c.addrs, topic, true) {
			key := string(r.Key)
			count[topic][key[:8]]++
			if place := fmt.Sprint(r.Partition, key[:2]); key <= last[place] {
				t.Errorf("%s/%d: %s after %s", topic, r.Partition, key, last[place])
			} else {
				last[place] = key
			}
			if topic == c.table && key[9:] == "00" {
				first[key[:8]] = r.Offset
			}
		}
	}
	outcomes := map[string]int{}
	for task, all := range fates {
		committed := int64(-1)
		sure := true
		for i, f := range all {
			table, out := count[c.table][f.key], count[c.out][f.key]
			var unknown *UnknownError
			there := table == c.perUnit && out == c.perUnit
			absent := table == 0 && out == 0
			switch {
			case f.err == nil:
				outcomes["committed"]++
				committed, sure = int64(i), true
				if !there || first[f.key] != f.at.Base || f.at.Next != f.at.Base+int64(c.perUnit) {
					t.Errorf("%s is committed at %+v; there are %d rows from %d on and %d outputs", f.key, f.at, table, first[f.key], out)
				}
			case errors.As(f.err, &unknown):
				outcomes["unknown"]++
				if !there && !absent {
					t.Errorf("%s is unknown; there are %d rows and %d outputs", f.key, table, out)
				}
				if there {
					committed = int64(i)
				}
			default:
				outcomes["not"]++
				if !absent {
					t.Errorf("%s was not committed (%v); there are %d rows and %d outputs", f.key, f.err, table, out)
				}
			}
		}
		if sure {
			eventually(t, fmt.Sprintf("position %d of task %d", committed, task), func() bool { return committedAt(t, c.addrs, int32(task)) == committed })
		}
	}
	t.Logf("units: %v", outcomes)
	if outcomes["committed"] == 0 {
		t.Error("nothing was committed")
	}
}

// every loses each n-th answer to requests of a kind.
func every(n int) hook { return answerLost(func(i int) bool { return i%n == 0 }) }

func TestTransactionsChurn(t *testing.T) {
	fake := kafkatest.Fake(t)
	topics(t, fake.Addrs(), "in", "table", "out")
	move := func() {
		for partition := range int32(4) {
			for _, topic := range []string{"table", "out"} {
				_ = fake.MoveTopicPartition(topic, partition, (kafkatest.Leader(t, fake.Addrs(), topic, partition)+1)%3)
			}
		}
	}
	c := tamper(newClient(t, fake.Addrs()))
	for key, n := range map[kmsg.Key]int{kmsg.Produce: 23, kmsg.EndTxn: 7, kmsg.TxnOffsetCommit: 11, kmsg.AddOffsetsToTxn: 13, kmsg.AddPartitionsToTxn: 17, kmsg.InitProducerID: 5} {
		c.on(key, every(n))
	}
	churn := &txnChurn{addrs: fake.Addrs(), cluster: c, commits: 60}
	churn.disturb = []func(){move, func() { churn.fence(t) }, move, func() { churn.fence(t) }, func() { churn.fence(t) }, move}
	churn.run(t)
}

// txnSteps are the requests of a transaction.
var txnSteps = []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn}

// interrupt does something directly before the next request of a kind, or directly after its answer.
func interrupt(c *tampered, key kmsg.Key, answered bool, do func()) {
	hit, done := make(chan struct{}), make(chan struct{})
	wait := func() { close(hit); <-done }
	c.on(key, func(n int, _ kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		if n == 1 && !answered {
			wait()
		}
		resp, err := send()
		if n == 1 && answered {
			wait()
		}
		return resp, err
	})
	<-hit
	do()
	c.off(key)
	close(done)
}

func TestFencedAtEachStep(t *testing.T) { testFencedAtEachStep(t, kafkatest.Fake(t).Addrs()) }

// testFencedAtEachStep takes the transactional id over at each step of a transaction: nothing of it is
// there, or all of it where it had been committed just before.
func testFencedAtEachStep(t *testing.T, addrs []string) {
	c := tamper(newClient(t, addrs))
	churn := &txnChurn{addrs: addrs, cluster: c, commits: 60, table: "steps", out: "steps-out"}
	for _, key := range txnSteps {
		for _, answered := range []bool{false, true} {
			churn.disturb = append(churn.disturb, func() { interrupt(c, key, answered, func() { churn.fence(t) }) })
		}
	}
	churn.run(t)
	if want := 1 + len(churn.disturb); churn.lives != want {
		t.Errorf("%d lives, want %d", churn.lives, want)
	}
}
