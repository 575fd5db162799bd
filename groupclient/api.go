package groupclient

import (
	"errors"
	"fmt"
)

// Declaration is what a worker says in its hello, in Kafka's names: sets, or flat sources and tables,
// which Prepare puts into sets by their partition counts.
type Declaration struct {
	Sets    []DeclaredSet
	Sources []string
	Tables  []DeclaredTable
	Globals []DeclaredGlobal
	Outputs []string

	Address   string // advertised to those who ask where a key is
	Replicas  *int   // standbys of each task that the worker asks for; nil: it does not say
	NoStandby bool   // the worker cannot hold standbys
}

// DeclaredSet is a set of source topics that are read together, with the tables kept with them.
type DeclaredSet struct {
	Name    string
	Sources []string
	Tables  []DeclaredTable
}

// DeclaredTable is a table of a set. At most one of Changelog and SourceTopic is given; with
// neither, the changelog is "<group>-<table>-changelog".
type DeclaredTable struct {
	Name        string
	Changelog   string
	SourceTopic string
	Sources     []string // of a flat declaration: the sources that it is kept with; empty: those with its partition count
}

// DeclaredGlobal is a read-only table of which the worker holds every partition.
type DeclaredGlobal struct {
	Name  string
	Topic string
}

// Prepared is a declaration that has been checked against Kafka: every topic exists and every
// partition count fits. It is what a Group joins with.
type Prepared struct {
	Group    string
	Sets     []PreparedSet
	Globals  []PreparedGlobal
	Outputs  []string
	TopicIDs map[string][16]byte // of every topic named; zero when the broker has no topic ids
	Created  map[string]int32    // topics that were missing and were created, with their partitions
	Warnings []string            // one sentence each, for the log and the worker

	Address   string
	Replicas  *int // asked for by the worker; Config.Replicas overrules it
	NoStandby bool
}

// PreparedSet is a declared set with its partition count.
type PreparedSet struct {
	Name       string
	Sources    []string
	Partitions int32
	Tables     []PreparedTable
}

// PreparedTable is a table with its topic. Source marks a read-only table that others write.
type PreparedTable struct {
	Name   string
	Topic  string
	Source bool
}

// PreparedGlobal is a global table with its partition count.
type PreparedGlobal struct {
	Name       string
	Topic      string
	Partitions int32
}

// Task is one partition number of a set, by the worker's own name of the set.
type Task struct {
	Set       string
	Partition int32
}

func (t Task) String() string { return fmt.Sprintf("%s/%d", t.Set, t.Partition) }

// Assignment is what a generation gives to this member. A task that is owned and no longer in
// Active has to be revoked: finished, committed with CommitReleased, and let go with Release.
type Assignment struct {
	Generation int32
	MemberID   string
	Leader     bool
	Active     []Task
	Standby    []Task
	Warnings   []string // of the plan; on the leader only
}

// Handler hears of the membership, in order, from Run's goroutine. It must not block, and it must
// not call methods of the Group that wait (TakeOver, Commit, CommitReleased, Leave).
type Handler interface {
	// Assigned: a generation is stable. Sent after every sync, also when nothing changed.
	Assigned(a Assignment)
	// Rebalancing: the group is building a new generation; what is owned stays owned.
	Rebalancing()
	// Lost: the membership is over and with it every task. Nothing of them may be committed.
	// Run joins again by itself.
	Lost(code string, err error)
	// Fatal: Kafka refuses for good. The group rests until the next Join.
	Fatal(err error)
	// Waiting: one sentence on what keeps the group from going on; code "ok" and no message when
	// that is over.
	Waiting(code, message string)
}

// TakeOver is where a task starts.
type TakeOver struct {
	Positions map[string]int64    // by source topic: the next offset to read
	Ends      map[string]int64    // by table with a changelog: high watermark captured after the claim
	TopicIDs  map[string][16]byte // of the sources and of every table's topic, as found at the take-over
}

// RefusedError is a request that Pillion refuses in words: what, where, what to do.
// Code is one of the worker protocol's error codes.
type RefusedError struct {
	Code    string
	Message string
}

func (e *RefusedError) Error() string { return e.Message }

// Codes of RefusedError, Handler.Lost and Handler.Waiting: words of the worker protocol
// (spec/codes.json; a test compares).
const (
	codeOK              = "ok"
	codeUnknownTopic    = "unknown_topic"
	codeCountMismatch   = "count_mismatch"
	codeTopicNotAllowed = "topic_not_allowed"
	codeBadDeclaration  = "bad_declaration"
	codeLostPosition    = "lost_position"
	codeLostState       = "lost_state"
	codeUnreachable     = "kafka_unreachable"
	codeKafkaRefused    = "kafka_refused"
	codeRebalance       = "rebalance"
	codeFenced          = "fenced"
)

var (
	// ErrRebalancing: the group is between two generations. Repeat after the next Assigned, if the
	// task is still owned.
	ErrRebalancing = errors.New("group is rebalancing")
	// ErrLost: the membership under which the task was owned is over. Nothing may be committed.
	ErrLost = errors.New("group membership lost")
)
