package session

import (
	"fmt"
	"time"

	"github.com/pillion/pillion/protocol"
)

// TaskID names a task by the worker's own name of its set. A global table's partition is a task of
// its own with Global set; it is in no plan.
type TaskID struct {
	Set       string
	Partition int32
	Global    bool
}

// String is the task's name on the wire.
func (t TaskID) String() string { return fmt.Sprintf("%s/%d", t.Set, t.Partition) }

// ConnID names a worker connection; a newer one has a higher number.
type ConnID uint64

// PreparedTable is a declared table with the topic that holds it.
type PreparedTable struct {
	Name, Topic string
	Kind        protocol.TableKind
}

// PreparedSet is a declared set, checked against Kafka.
type PreparedSet struct {
	Name       string
	Sources    []string
	Partitions int32
	Tables     []PreparedTable
}

// PreparedGlobal is a declared global table, checked against Kafka.
type PreparedGlobal struct {
	Name, Topic string
	Partitions  int32
}

// Prepared is a hello whose topics exist and fit. Handle is the group edge's own form of it.
type Prepared struct {
	Group   string
	Sets    []PreparedSet
	Globals []PreparedGlobal
	Outputs []string
	Handle  any
	// What the group is told of the worker beside its declarations.
	NoStandby bool // it cannot hold standbys: it is given none
	Address   string
	Replicas  *int // standbys of each task that it asks for; nil: it does not say
}

func (p *Prepared) set(name string) *PreparedSet {
	for i := range p.Sets {
		if p.Sets[i].Name == name {
			return &p.Sets[i]
		}
	}
	return nil
}

// TakeOver is what the take-over of a task found: where each source continues (and the id of its
// topic), and the high watermark of each changelog table, captured after the claim.
type TakeOver struct {
	Positions map[string]int64
	TopicIDs  map[string][16]byte
	Ends      map[string]int64
}

// Config holds the session's limits. Zero durations mean: no limit (MaxProcessing) or at once.
type Config struct {
	Group         string // overrules hello; may be empty
	DefaultGroup  string // when neither names one
	Guarantee     string
	Version       string
	WorkerGrace   time.Duration
	RevokeTimeout time.Duration
	MaxProcessing time.Duration
	DrainTimeout  time.Duration
	RetryDelay    time.Duration // before a failed step of Kafka is tried again; default 500 ms
	Limits        protocol.Limits
	Credit        protocol.Window // initial limits for what the worker sends
}

// Validate fills defaults and refuses what cannot work.
func (c *Config) Validate() error {
	if c.RetryDelay == 0 {
		c.RetryDelay = 500 * time.Millisecond
	}
	if c.Guarantee == "" {
		c.Guarantee = protocol.AtLeastOnce
	}
	if c.RevokeTimeout <= 0 {
		return fmt.Errorf("revoke_timeout must be more than 0, is %v", c.RevokeTimeout)
	}
	if c.Limits.MaxOutstandingCommits == 0 {
		c.Limits.MaxOutstandingCommits = 2
	}
	return nil
}
