package fetch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol/frame"
)

// Config is how much is fetched, and how much of it is held. The zero value of each number stands
// for its default.
type Config struct {
	Client *kafka.Client
	// FrameBytes is the size at which a frame is cut (256 KiB; of a restore twice that). With many
	// partitions it is less, so that the frames that wait for their sinks stay within BufferBytes
	// altogether.
	FrameBytes int
	// PartitionBytes is how much of one partition is asked for at once (1 MiB).
	PartitionBytes int
	// ResponseBytes is how much is asked for in one request (4 MiB).
	ResponseBytes int
	// BufferBytes is how many raw bytes are held for all partitions together (64 MiB). A single
	// batch may be as large as half of it.
	BufferBytes int64
	// BatchBytes is how large a batch may be when it is decompressed (128 MiB).
	BatchBytes int
	// MaxWait is how long a broker may hold a request when there is nothing new (500 ms).
	MaxWait time.Duration
	// MetadataLag is how long a topic may be unknown before the partition is stopped (30 s).
	MetadataLag time.Duration
	Logger      hclog.Logger
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.FrameBytes, frame.DefaultTarget)
	def(&c.PartitionBytes, 1<<20)
	def(&c.ResponseBytes, 4<<20)
	def(&c.BatchBytes, 128<<20)
	if c.BufferBytes == 0 {
		c.BufferBytes = 64 << 20
	}
	if c.MaxWait == 0 {
		c.MaxWait = 500 * time.Millisecond
	}
	if c.MetadataLag == 0 {
		c.MetadataLag = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Validate says what is wrong with the numbers, after defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.FrameBytes < 1<<10:
		return fmt.Errorf("fetch: frames of %d bytes are too small, at least 1024 are needed", c.FrameBytes)
	case c.PartitionBytes < 1<<10 || c.PartitionBytes > 1<<30:
		return fmt.Errorf("fetch: %d bytes per partition, must be 1 KiB to 1 GiB", c.PartitionBytes)
	case c.ResponseBytes < c.PartitionBytes || c.ResponseBytes > 1<<30:
		return fmt.Errorf("fetch: %d bytes per response, must be at least the %d of a partition and at most 1 GiB", c.ResponseBytes, c.PartitionBytes)
	case c.BufferBytes < 4*int64(c.PartitionBytes):
		return fmt.Errorf("fetch: buffers of %d bytes, must be at least 4 times the %d of a partition", c.BufferBytes, c.PartitionBytes)
	case c.BatchBytes < c.PartitionBytes || c.BatchBytes > 1<<30:
		return fmt.Errorf("fetch: batches of %d bytes, must be at least the %d of a partition and at most 1 GiB", c.BatchBytes, c.PartitionBytes)
	case c.MaxWait < 0 || c.MaxWait > time.Minute:
		return fmt.Errorf("fetch: a wait of %v, must be 0 to 1m", c.MaxWait)
	case c.MetadataLag < 0:
		return errors.New("fetch: a negative metadata lag")
	}
	return nil
}

// Position is where a partition is, and what its leader said last.
type Position struct {
	Next          int64 // the offset that comes next
	LeaderEpoch   int32 // of the last batch that was applied, -1: none
	HighWatermark int64 // -1: not known yet, like the two below
	StableOffset  int64
	LogStart      int64
}

// Partition is one partition to be read, always read_committed.
type Partition struct {
	Topic      string
	TopicID    [16]byte // zero: whatever the topic's id is at the first look
	Partition  int32
	Offset     int64 // the first offset wanted
	LastEpoch  int32 // leader epoch of the last batch applied before, -1: none
	Kind       frame.Kind
	Stream     uint32
	Epoch      uint32
	MaxFrame   int64 // the worker's largest frame; 0: no limit
	Timestamps bool  // wanted columns
	Headers    bool
	Until      int64 // stop at this position; negative: never
	// Checkpoint gives the checkpoint of a restore frame. It may be nil.
	Checkpoint func(next int64, leaderEpoch int32) []byte
	Sink       Sink
}

// Sink takes what was read of one partition. Its methods are called from one goroutine, in order.
type Sink interface {
	// Frame takes a frame, and owns it. It may block as long as it likes, until ctx ends. An error
	// stops the partition.
	Frame(ctx context.Context, f []byte, p Position) error
	// Progress follows the frames of each response, also of an empty one. It must not block.
	Progress(p Position)
	// Stopped is the last call: nil when Until was reached or the partition was removed.
	Stopped(err error)
}

// cluster is what the package needs of kafka.Client.
type cluster interface {
	Exchange(ctx context.Context, node int32, x kafka.Exchange) error
	Topics(ctx context.Context, names ...string) (map[string]kafka.Topic, error)
	Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error)
	Leader(ctx context.Context, tp kafka.TopicPartition) (node, leaderEpoch int32, err error)
	ForgetLeader(tp kafka.TopicPartition)
	EpochEnd(ctx context.Context, tp kafka.TopicPartition, leaderEpoch int32) (int32, int64, error)
	ListOffsets(ctx context.Context, at int64, committed bool, tps ...kafka.TopicPartition) (map[kafka.TopicPartition]kafka.Offset, error)
	Denied(code int16, name, operation string) *kafka.AccessError
}
