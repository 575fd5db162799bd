package produce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// task writes commits one after the other, to a changelog partition of its own and to shared outputs.
type task struct {
	number   int32
	outcomes []error // by commit
	landed   []Landed
	sizes    []int
}

func (k *task) key(commit, i int) string { return fmt.Sprintf("t%d-c%04d-r%03d", k.number, commit, i) }

func (k *task) run(ctx context.Context, p *Producer, commits int, rng *rand.Rand) {
	for c := range commits {
		var table, out []rec
		k.sizes = append(k.sizes, 1+rng.IntN(40))
		for i := range k.sizes[c] {
			table = append(table, kv(k.key(c, i), strings.Repeat("v", rng.IntN(300))))
			out = append(out, kv(k.key(c, i), strings.Repeat("o", rng.IntN(300))))
		}
		r, err := p.Write(ctx, []Write{changelog("topic", k.number, writes(table...)), output("out", writes(out...))})
		k.outcomes = append(k.outcomes, err)
		k.landed = append(k.landed, r.Changelogs["topic"])
	}
}

var first = kafka.TopicPartition{Topic: "topic"}

// INVARIANT: whatever happens to requests and answers, a commit that is whole is in the log once, one
// that is rejected is not there, one whose end is unknown is there at most once; and the records of a
// task are in the order of its commits.
func TestFaultsNeverDoubleNorLose(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testFaults(t, seed) })
		})
	}
}

func testFaults(t *testing.T, seed uint64) {
	m := newModel(seed, 8)
	m.trouble = float64(seed%5) * 0.2
	timeout := 2 * time.Minute
	if seed%3 == 0 {
		timeout = 3 * time.Second // many end as unknown or rejected
	}
	p := running(t, Config{Compression: "none", MaxBatchBytes: 1 << 10, DeliveryTimeout: timeout}, m)
	var (
		group sync.WaitGroup
		tasks []*task
	)
	for n := range int32(4) {
		k := &task{number: n}
		tasks = append(tasks, k)
		group.Go(func() { k.run(t.Context(), p, 15, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	group.Wait()
	m.mu.Lock()
	m.trouble = 0
	m.mu.Unlock()
	// What is in doubt is still being repeated; one more commit to each lane waits for it.
	for n := range m.partitions {
		for _, topic := range []string{"topic", "out"} {
			for p.writeLast(t, topic, n) != nil { // until the request of the last fault is given up
				continue
			}
		}
	}
	m.late.Wait()
	m.check(t, tasks)
}

func (p *Producer) writeLast(t *testing.T, topic string, partition int32) error {
	_, err := p.Write(t.Context(), []Write{changelog(topic, partition, writes(kv("last", "")))})
	return err
}

// check compares the logs with what the tasks were told.
func (m *model) check(t *testing.T, tasks []*task) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, what := range m.broken {
		t.Error(what)
	}
	count := map[string]int{}
	for tp, l := range m.logs {
		last := map[byte]string{} // by task
		for _, r := range l.records {
			key, _, _ := strings.Cut(r, "=")
			if key == "last" {
				continue
			}
			if key <= last[key[1]] {
				t.Errorf("%s: %s after %s", tp, key, last[key[1]])
			}
			last[key[1]] = key
			count[tp.Topic+"/"+key]++
		}
	}
	whole, failed := 0, 0
	for _, k := range tasks {
		for c, err := range k.outcomes {
			if err == nil {
				whole++
			} else {
				failed++
			}
			m.checkCommit(t, k, c, err, count)
		}
	}
	t.Logf("%d commits whole, %d not, %d requests", whole, failed, m.requests)
}

func (m *model) checkCommit(t *testing.T, k *task, c int, err error, count map[string]int) {
	t.Helper()
	var (
		rejected *RejectedError
		unknown  *UnknownError
	)
	table := m.log(kafka.TopicPartition{Topic: "topic", Partition: k.number}).records
	for i := range k.sizes[c] {
		for _, topic := range []string{"topic/", "out/"} {
			n, key := count[topic+k.key(c, i)], topic+k.key(c, i)
			switch {
			case err == nil && n != 1:
				t.Errorf("%s is there %d times, its commit is whole", key, n)
			case errors.As(err, &rejected) && n != 0:
				t.Errorf("%s is there, its commit was rejected: %v", key, err)
			case n > 1:
				t.Errorf("%s is there %d times", key, n)
			case err != nil && !errors.As(err, &rejected) && !errors.As(err, &unknown):
				t.Errorf("commit %d ended with %v", c, err)
			}
		}
		if at := k.landed[c]; err == nil && !strings.HasPrefix(table[at.Base+int64(i)], k.key(c, i)) {
			t.Errorf("commit %d of task %d landed at %d, where %s is", c, k.number, at.Base, table[at.Base+int64(i)])
		}
	}
	if at := k.landed[c]; err == nil && at.Next != at.Base+int64(k.sizes[c]) {
		t.Errorf("commit %d of task %d landed at %+v", c, k.number, at)
	}
}

// faultAt makes a fault of the n-th request.
func faultAt(n int, f fault) func(*model) fault {
	return func(m *model) fault {
		if m.requests == n {
			return f
		}
		return fault{}
	}
}

func TestLateLandingComesBeforeWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1, 1)
		m.fault = func(*model) fault { return fault{noReply: errLost, lost: true} }
		p := running(t, Config{Compression: "none", DeliveryTimeout: 5 * time.Second}, m)
		_, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", "1")))})
		var unknown *UnknownError
		if !errors.As(err, &unknown) || unknown.Code != protocol.CodeKafkaUnreachable {
			t.Fatalf("got %v", err)
		}
		landed := func() bool {
			synctest.Wait()
			select {
			case <-unknown.Ended:
				return true
			default:
				return false
			}
		}
		if landed() {
			t.Error("it has ended while it may still land")
		}
		// The next commit waits behind the one in doubt; while that lasts, nothing of it is sent.
		_, err = p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("b", "2")))})
		var rejected *RejectedError
		if !errors.As(err, &rejected) {
			t.Fatalf("got %v", err)
		}
		m.mu.Lock()
		m.fault = func(*model) fault { return fault{} }
		m.mu.Unlock()
		r, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("c", "3")))})
		if err != nil || r.Changelogs["topic"].Base != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		equal(t, "log", m.logs[first].records, []string{"a=1", "c=3"})
		if !landed() {
			t.Error("it has landed and not ended")
		}
	})
}

// A checkpoint may do without the leader epoch; a commit must not wait for one that is never told.
func TestABrokerThatTellsNoEpochsHoldsUpNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1, 1)
		m.noEpochs = &kafka.VersionError{API: "OffsetForLeaderEpoch"}
		p := running(t, Config{Compression: "none"}, m)
		began := time.Now()
		r, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", "1")))})
		if at := r.Changelogs["topic"]; err != nil || at.Next != 1 || at.LeaderEpoch != -1 {
			t.Errorf("%+v, %v", r, err)
		}
		if took := time.Since(began); took > time.Second { // of the bubble: nothing was waited for
			t.Errorf("it took %v", took)
		}
	})
}

func TestNothingSentIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1, 2)
		m.fault = func(*model) fault { return fault{before: errors.New("connection refused")} }
		p := running(t, Config{Compression: "none", DeliveryTimeout: 5 * time.Second}, m)
		_, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", "1"))), changelog("topic", 1, writes(kv("a", "1")))})
		var rejected *RejectedError
		if !errors.As(err, &rejected) || rejected.Code != protocol.CodeKafkaUnreachable {
			t.Fatalf("got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := p.Write(ctx, []Write{changelog("topic", 0, writes(kv("a", "1")))}); !errors.As(err, &rejected) || !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	})
}

// INVARIANT: a lane changes its producer id only when every batch it has sent has a definite answer.
func TestProducerIDIsReplacedOnlyWithoutDoubt(t *testing.T) {
	for _, code := range []int16{codeOutOfOrder, codeOldEpoch, codeUnknownProducer} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(1, 1)
			p := running(t, Config{Compression: "none"}, m)
			commit := func(key string) error {
				_, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv(key, "")))})
				return err
			}
			m.fault = faultAt(1, fault{code: code})
			for _, key := range []string{"a", "b", "c"} {
				if err := commit(key); err != nil {
					t.Fatal(err)
				}
			}
			equal(t, "log", m.logs[first].records, []string{"a=", "b=", "c="})
			if m.pids != 2 {
				t.Errorf("%d producer ids", m.pids)
			}
			// Now the answer to an attempt is lost, and the next one is refused.
			m.fault = func(m *model) fault {
				switch m.requests {
				case 4:
					return fault{noReply: errLost}
				case 5:
					return fault{code: code}
				}
				return fault{}
			}
			var unknown *UnknownError
			if err := commit("d"); !errors.As(err, &unknown) {
				t.Fatalf("got %v", err)
			}
			if err := commit("e"); err != nil {
				t.Fatal(err)
			}
			equal(t, "log", m.logs[first].records, []string{"a=", "b=", "c=", "d=", "e="})
		})
	}
}

func TestRefusalOfKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1, 2)
		p := running(t, Config{Compression: "none"}, m)
		m.fault = faultAt(0, fault{code: 29})
		_, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", "")))})
		var rejected *RejectedError
		if !errors.As(err, &rejected) || rejected.Code != protocol.CodeKafkaRefused {
			t.Fatalf("got %v", err)
		}
		m.fault = faultAt(1, fault{code: codeTooLarge})
		if _, err = p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", "")))}); !errors.As(err, &rejected) || rejected.Code != protocol.CodeRecordTooLarge {
			t.Fatalf("got %v", err)
		}
		if _, err = p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("b", "")))}); err != nil {
			t.Fatal(err)
		}
		equal(t, "log", m.logs[first].records, []string{"b="})
	})
}

func TestDuplicateWithoutAnOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1, 1)
		p := running(t, Config{Compression: "none"}, m)
		m.fault = faultAt(0, fault{after: codeDuplicate})
		r, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", ""), kv("b", "")))})
		if at := r.Changelogs["topic"]; err != nil || at.Base != 0 || at.Next != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

func TestTopicDeletedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1, 1)
		p := running(t, Config{Compression: "none"}, m)
		m.fault = func(m *model) fault { m.gone = true; return fault{} }
		began := time.Now()
		_, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", "")))})
		var rejected *RejectedError
		if !errors.As(err, &rejected) || rejected.Code != protocol.CodeUnknownTopic || time.Since(began) > time.Minute {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
	})
}

// Acknowledged records that are gone are told, not passed over.
func TestTruncatedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1, 1)
		p := running(t, Config{Compression: "none"}, m)
		commit := func() error {
			_, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", ""), kv("b", "")))})
			return err
		}
		if err := commit(); err != nil {
			t.Fatal(err)
		}
		delete(m.logs, first)
		var unknown *UnknownError
		if err := commit(); !errors.As(err, &unknown) || unknown.Code != protocol.CodeTruncated {
			t.Fatalf("got %v", err)
		}
		if err := commit(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestStopWhileInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1, 1)
		m.fault = func(*model) fault { return fault{lost: true, noReply: errLost} }
		p, err := newProducer(Config{Compression: "none"}, m)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		time.AfterFunc(3*time.Second, cancel)
		_, err = p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", "")))})
		var unknown *UnknownError
		if !errors.As(err, &unknown) || !errors.Is(err, ErrStopped) {
			t.Errorf("got %v", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		var rejected *RejectedError
		if _, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", "")))}); !errors.As(err, &rejected) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A leader that loses its place while it waits for the other replicas has appended the batch and answers
// that it is no leader: the batch may be there.
func TestALeaderThatLostItsPlaceMayHaveAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1, 1)
		p := running(t, Config{Compression: "none", DeliveryTimeout: 5 * time.Second}, m)
		m.fault = func(m *model) fault {
			if m.requests == 0 {
				return fault{after: codeNotLeader}
			}
			return fault{before: errors.New("connection refused")}
		}
		_, err := p.Write(t.Context(), []Write{changelog("topic", 0, writes(kv("a", "")))})
		unknownOf(t, err)
		equal(t, "log", m.logs[first].records, []string{"a="})
	})
}
