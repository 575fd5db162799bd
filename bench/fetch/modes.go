package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol/frame"
)

// readers read a whole topic and count its records, by mode.
var readers = map[string]func(context.Context, string) (int64, error){
	"fetch": readFetch, "franz-go": readFranz, "franz-go+": readFranzFrames, "franz-go-pools": readFranzPools, "kafka-go": readKafkaGo,
}

// measure reads a topic in one mode and prints CPU and wall seconds.
func measure(ctx context.Context, m, topic string) error {
	read, ok := readers[m]
	if !ok {
		return fmt.Errorf("no mode %q", m)
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	cpu, wall := cpuSeconds(), time.Now()
	for range *repeat {
		n, err := read(ctx, topic)
		if err != nil {
			return err
		}
		if n != int64(*records) {
			return fmt.Errorf("%s read %d records, want %d", m, n, *records)
		}
	}
	times := float64(*repeat)
	fmt.Printf("%.4f %.4f\n", (cpuSeconds()-cpu)/times, time.Since(wall).Seconds()/times)
	return nil
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// counter is a sink that looks at the frames' headers only.
type counter struct {
	fetcher *fetch.Fetcher
	records *atomic.Int64
	ended   chan<- error
}

func (c counter) Frame(_ context.Context, b []byte, _ fetch.Position) error {
	h, err := frame.ParseHeader(b)
	c.records.Add(int64(h.Count))
	if *recycle {
		c.fetcher.Recycle(b)
	}
	return err
}
func (c counter) Progress(fetch.Position) {}
func (c counter) Stopped(err error)       { c.ended <- err }

func readFetch(ctx context.Context, topic string) (int64, error) {
	client, err := kafka.New(kafka.Config{Bootstrap: strings.Split(*brokers, ",")})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	f, err := fetch.New(fetch.Config{Client: client})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	defer func() { cancel(); <-done }()

	var tps []kafka.TopicPartition
	for p := range *partitions {
		tps = append(tps, kafka.TopicPartition{Topic: topic, Partition: int32(p)})
	}
	ends, err := client.ListOffsets(ctx, kafka.Latest, false, tps...)
	if err != nil {
		return 0, err
	}
	var count atomic.Int64
	ended := make(chan error, len(tps))
	for _, tp := range tps {
		f.Add(fetch.Partition{
			Topic: topic, Partition: tp.Partition, Stream: 1, Epoch: 1, LastEpoch: -1, Kind: frame.Restore, Headers: true,
			Until: ends[tp].Offset, Sink: counter{f, &count, ended},
		})
	}
	for range tps {
		if err := <-ended; err != nil {
			return 0, err
		}
	}
	return count.Load(), nil
}

func readFranz(ctx context.Context, topic string) (int64, error) {
	var bytes int64
	return franz(ctx, topic, func(p kgo.FetchTopicPartition) int64 {
		for _, r := range p.Records {
			bytes += int64(len(r.Key) + len(r.Value))
		}
		return int64(len(p.Records))
	})
}

func readFranzFrames(ctx context.Context, topic string) (int64, error) {
	builders := map[int32]*frame.Builder{}
	return franz(ctx, topic, func(p kgo.FetchTopicPartition) int64 {
		b := builders[p.Partition]
		if b == nil {
			b = frame.NewBuilder(frame.Restore)
			b.Reset(1, 1, 0)
			builders[p.Partition] = b
		}
		size := 0
		for _, r := range p.Records {
			b.Append(r.Offset, 0, r.Key, r.Value, nil)
			if size += 8 + len(r.Key) + len(r.Value); size >= frame.DefaultTarget {
				b.Finish(nil, r.Offset+1, nil)
				b.Reset(1, 1, r.Offset+1)
				size = 0
			}
		}
		return int64(len(p.Records))
	})
}

func franz(ctx context.Context, topic string, each func(kgo.FetchTopicPartition) int64, opts ...kgo.Opt) (int64, error) {
	cl, err := kgo.NewClient(append(opts,
		kgo.SeedBrokers(strings.Split(*brokers, ",")...), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	var count int64
	for count < int64(*records) {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) { count += each(p) })
	}
	return count, nil
}

func readKafkaGo(ctx context.Context, topic string) (int64, error) {
	var (
		wg    sync.WaitGroup
		count atomic.Int64
		errs  = make(chan error, *partitions)
	)
	for p := range *partitions {
		wg.Go(func() {
			n, err := readKafkaGoPartition(ctx, topic, p)
			count.Add(n)
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	var all error
	for err := range errs {
		all = errors.Join(all, err)
	}
	return count.Load(), all
}

func readKafkaGoPartition(ctx context.Context, topic string, p int) (int64, error) {
	addrs := strings.Split(*brokers, ",")
	conn, err := kafkago.DialLeader(ctx, "tcp", addrs[0], topic, p)
	if err != nil {
		return 0, err
	}
	end, err := conn.ReadLastOffset()
	conn.Close()
	if err != nil || end == 0 {
		return 0, err
	}
	r := kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: addrs, Topic: topic, Partition: p, MinBytes: 1, MaxBytes: 4 << 20,
		MaxWait: 500 * time.Millisecond, IsolationLevel: kafkago.ReadCommitted, QueueCapacity: 1000,
	})
	defer r.Close()
	for n := int64(0); ; {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return n, err
		}
		if n++; m.Offset+1 >= end {
			return n, nil
		}
	}
}
