package fetch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol/frame"
)

// variety makes records with everything that a record may have.
func variety(n int, seed uint64) []kafkatest.Record {
	r := rand.New(rand.NewPCG(seed, 1))
	some := func(most int) []byte {
		switch r.IntN(8) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		b := make([]byte, r.IntN(most)+1)
		for i := range b {
			b[i] = byte('a' + r.IntN(4))
		}
		return b
	}
	out := make([]kafkatest.Record, n)
	at := time.UnixMilli(1_700_000_000_000)
	for i := range out {
		at = at.Add(time.Duration(r.IntN(2000)-500) * time.Millisecond)
		out[i] = kafkatest.Record{Key: some(30), Value: some(300), Timestamp: at}
		if r.IntN(5) == 0 {
			for range r.IntN(4) {
				out[i].Headers = append(out[i].Headers, kafkatest.Header{Key: string(some(5)), Value: some(9)})
			}
		}
	}
	return out
}

func only(records []kafkatest.Record, partition int32) (out []kafkatest.Record) {
	for _, r := range records {
		if r.Partition == partition {
			out = append(out, r)
		}
	}
	return out
}

func TestEqualsFranzGoForEveryCodec(t *testing.T) {
	fake := kafkatest.Fake(t)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			const partitions = 4
			topic := "codec-" + codec
			fake.Topic(t, topic, partitions, nil)
			for p := range int32(partitions) {
				records := variety(3000, uint64(p))
				for i := range records {
					records[i].Partition = p
				}
				kafkatest.Produce(t, fake.Addrs(), topic, records, kafkatest.Compressed(codec), kafkatest.InBatchesOf(700+int(p)))
			}
			want := kafkatest.ReadAll(t, fake.Addrs(), topic, true)
			f := running(t, fake.Addrs(), func(c *Config) { c.FrameBytes = 16 << 10 })
			for p := range int32(partitions) {
				c := newCollector(t)
				in := part(topic, p, c)
				in.Until = 3000
				f.Add(in)
				if err := c.end(); err != nil {
					t.Fatal(err)
				}
				same(t, c.records, only(want, p))
				if len(c.frames) < 20 {
					t.Errorf("%d frames of 16 KiB", len(c.frames))
				}
			}
		})
	}
}

func TestFramesOfARestoreAreLarger(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "t", 1, nil)
	kafkatest.Produce(t, fake.Addrs(), "t", variety(3000, 1))
	f := running(t, fake.Addrs(), func(c *Config) { c.FrameBytes = 16 << 10 })
	frames := map[frame.Kind]int{}
	for _, kind := range []frame.Kind{frame.Records, frame.Restore} {
		c := newCollector(t)
		in := part("t", 0, c)
		in.Kind, in.Until = kind, 3000
		f.Add(in)
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		frames[kind] = len(c.frames)
	}
	if 3*frames[frame.Restore] > 2*frames[frame.Records] {
		t.Errorf("%d frames of a restore, %d of records", frames[frame.Restore], frames[frame.Records])
	}
}

func TestTransactionsAreReadCommitted(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "txn", 1, nil)
	for i := range 12 {
		how := kafkatest.Committed(fmt.Sprintf("id-%d", i%3))
		if i%4 == 1 || i%4 == 2 {
			how = kafkatest.Aborted(fmt.Sprintf("id-%d", i%3))
		}
		kafkatest.Produce(t, fake.Addrs(), "txn", variety(50, uint64(i)), how, kafkatest.InBatchesOf(20))
	}
	// Two at once, of which one is aborted: their batches alternate.
	a := kafkatest.Begin(t, fake.Addrs(), "a")
	b := kafkatest.Begin(t, fake.Addrs(), "b")
	for i := range 5 {
		a.Produce("txn", variety(10, uint64(100+i))...)
		b.Produce("txn", variety(10, uint64(200+i))...)
	}
	a.Abort()
	b.Commit()
	abortInside(t, fake.Addrs(), "txn")
	kafkatest.Produce(t, fake.Addrs(), "txn", variety(10, 99), kafkatest.Aborted("tail"))
	want := kafkatest.ReadAll(t, fake.Addrs(), "txn", true)
	end := kafkatest.EndOffsets(t, fake.Addrs(), "txn")[0].HighWatermark
	if len(want) != 6*50+50 {
		t.Fatalf("franz-go reads %d records", len(want))
	}
	f := running(t, fake.Addrs(), nil)
	for _, from := range []int64{0, 1, 55, 170, end - 30} {
		c := newCollector(t)
		in := part("txn", 0, c)
		in.Offset, in.Until = from, end
		f.Add(in)
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		var expect []kafkatest.Record
		for _, r := range want {
			if r.Offset >= from {
				expect = append(expect, r)
			}
		}
		same(t, c.records, expect)
		if c.pos.Next != end {
			t.Errorf("from %d: ended at %d, want %d, past the last marker", from, c.pos.Next, end)
		}
	}
}

// abortInside makes a transaction that is aborted while one that began before it goes on, to be aborted too:
// a broker lists them in the order of their ends.
func abortInside(t *testing.T, addrs []string, topic string) {
	t.Helper()
	outer := kafkatest.Begin(t, addrs, "outer")
	outer.Produce(topic, variety(10, 300)...)
	inner := kafkatest.Begin(t, addrs, "inner")
	inner.Produce(topic, variety(10, 301)...)
	inner.Abort()
	outer.Produce(topic, variety(10, 302)...)
	outer.Abort()
}

func TestStartsInTheMiddleOfABatchAndEndsInOne(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "middle", 1, nil)
	kafkatest.Produce(t, fake.Addrs(), "middle", variety(1000, 1), kafkatest.InBatchesOf(100), kafkatest.Compressed("zstd"))
	all := kafkatest.ReadAll(t, fake.Addrs(), "middle", true)
	f := running(t, fake.Addrs(), nil)
	for _, r := range [][2]int64{{0, 1}, {50, 51}, {99, 101}, {100, 200}, {150, 733}, {999, 1000}, {1000, 1000}, {700, 20}} {
		c := newCollector(t)
		in := part("middle", 0, c)
		in.Offset, in.Until = r[0], r[1]
		f.Add(in)
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		same(t, c.records, all[r[0]:max(r[0], r[1])])
		if r[0] < r[1] && c.pos.Next != r[1] {
			t.Errorf("%v: ended at %d", r, c.pos.Next)
		}
	}
}

func TestNewRecordsArriveAtTheEnd(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "live", 2, nil)
	f := running(t, fake.Addrs(), func(c *Config) { c.MaxWait = 10 * time.Second })
	c := newCollector(t)
	remove := f.Add(part("live", 1, c))
	c.until("an empty answer", func() bool { return len(c.progress) > 0 })
	for i := range 20 {
		kafkatest.Produce(t, fake.Addrs(), "live", []kafkatest.Record{kafkatest.KV("k", fmt.Sprint(i)).On(1)})
		c.until("the record", func() bool { return len(c.records) == i+1 })
	}
	c.until("progress", func() bool {
		last := c.progress[len(c.progress)-1]
		return last.Next == 20 && last.HighWatermark == 20 && last.StableOffset == 20 && last.LogStart == 0
	})
	remove()
	if err := c.end(); err != nil {
		t.Fatalf("removed: %v", err)
	}
}

func TestLeadersMove(t *testing.T) {
	fake := kafkatest.Fake(t, kfake.NumBrokers(3))
	fake.Topic(t, "moving", 1, nil)
	// As long as a new leader has no batch of its own epoch, kfake does not know where the one before
	// ended, unlike Kafka: until then it says that it does not lead yet.
	var empty atomic.Bool
	fake.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if !empty.Load() {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		topic, p := kmsg.NewOffsetForLeaderEpochResponseTopic(), kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		p.ErrorCode = codeNotLeader
		topic.Topic, topic.Partitions = "moving", append(topic.Partitions, p)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
	f := running(t, fake.Addrs(), nil)
	c := newCollector(t)
	f.Add(part("moving", 0, c))
	var want []kafkatest.Record
	for i := range int32(6) {
		empty.Store(true)
		if err := fake.MoveTopicPartition("moving", 0, i%3); err != nil {
			t.Fatal(err)
		}
		want = append(want, kafkatest.Produce(t, fake.Addrs(), "moving", variety(100, uint64(i)))...)
		empty.Store(false)
		c.until("the records after the move", func() bool { return len(c.records) == len(want) })
	}
	same(t, c.records, want)
}

// TestBrokenConnectionsAndInjectedErrors has the broker cut connections and answer errors while
// records are read.
func TestBrokenConnectionsAndInjectedErrors(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "broken", 1, nil)
	want := kafkatest.Produce(t, fake.Addrs(), "broken", variety(4000, 1), kafkatest.InBatchesOf(50), kafkatest.Compressed("lz4"))
	var fetches atomic.Int32
	fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		switch n := fetches.Add(1); n % 4 {
		case 1:
			return nil, errors.New("cut"), true
		case 2:
			codes := []int16{codeNotLeader, codeFencedEpoch, codeUnknownEpoch, codeStorage, codeUnknown, codeUnknownTopicID}
			res := code(req.(*kmsg.FetchRequest), codes[int(n/4)%len(codes)])
			res.SetVersion(req.GetVersion())
			return res, nil, true
		}
		return nil, nil, false
	})
	f := running(t, fake.Addrs(), func(c *Config) { c.PartitionBytes, c.BufferBytes = 64<<10, 1<<20 })
	c := newCollector(t)
	in := part("broken", 0, c)
	in.Until = 4000
	f.Add(in)
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	same(t, c.records, want)
	if fetches.Load() < 8 {
		t.Errorf("%d fetches", fetches.Load())
	}
}

func TestTopicCreatedAnewIsNotReadSilently(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "anew", 1, nil)
	kafkatest.Produce(t, fake.Addrs(), "anew", variety(10, 1))
	was := kafkatest.TopicID(t, fake.Addrs(), "anew")
	f := running(t, fake.Addrs(), nil)
	c := newCollector(t)
	f.Add(part("anew", 0, c))
	c.until("the records", func() bool { return len(c.records) == 10 })
	kafkatest.DeleteTopic(t, fake.Addrs(), "anew")
	kafkatest.CreateTopic(t, fake.Addrs(), "anew", 1, nil)
	kafkatest.Produce(t, fake.Addrs(), "anew", variety(30, 2))
	other := as[*RecreatedError](t, c.end())
	if other.Was != was || other.Is != kafkatest.TopicID(t, fake.Addrs(), "anew") || len(c.records) != 10 {
		t.Errorf("%v, %d records", other, len(c.records))
	}
}

func TestDeletedHeadIsOutOfRange(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "head", 1, nil)
	kafkatest.Produce(t, fake.Addrs(), "head", variety(100, 1), kafkatest.InBatchesOf(10))
	kafkatest.DeleteRecords(t, fake.Addrs(), "head", 0, 40)
	f := running(t, fake.Addrs(), nil)
	for at, want := range map[int64]bool{0: true, 39: true, 40: false, 100: false, 101: true} {
		c := newCollector(t)
		in := part("head", 0, c)
		in.Offset = at
		remove := f.Add(in)
		if !want {
			c.until("an answer", func() bool { return len(c.progress) > 0 })
			remove()
			if err := c.end(); err != nil {
				t.Errorf("position %d: %v", at, err)
			}
			continue
		}
		if out := as[*OutOfRangeError](t, c.end()); out.Position != at || out.LogStart != 40 || out.End != 100 {
			t.Errorf("position %d: %+v", at, out)
		}
	}
}
