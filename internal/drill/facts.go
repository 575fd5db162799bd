package drill

import "fmt"

// Facts are all that a check looks at: what was read back from Kafka and from the workers' files at rest, and
// the history.
type Facts struct {
	Guarantee Guarantee
	Inputs    []Input         // in the order of source, partition, offset
	Outputs   []Output        // in the order of partition, offset
	Changelog []Row           // the same
	Refs      []Row           // of the source table's topic
	Positions []Position      // every one that was ever committed, in the order of the coordinator's log
	Ends      map[int32]int64 // of the source's partitions, of its present life
	Stores    []Store
	Down      []string // processes that should be up when the faults were healed, and are not
	Exits     []string // ends of processes that no fault explains
	Stuck     []string // what did not come to rest in time
	Memory    []Memory
	History   []Event
}

// Row is a record of a changelog or of the source table's topic. A nil value removes the key.
type Row struct {
	Partition int32
	Offset    int64
	Key       string
	Value     []byte
}

// Position is one commit of a position.
type Position struct {
	Source    int
	Partition int32
	Next      int64
}

// Store is one file of a worker.
type Store struct {
	Pair      int
	Path      string
	Table     string
	Partition int32
	Next      int64 // what its checkpoint says
	Rows      map[string]string
}

// Memory is the most that a sidecar was seen to take.
type Memory struct {
	Pair         int
	Bytes, Bound int64
}

// Violation is a promise that was broken.
type Violation struct {
	Name string // which, in two or three words
	Text string
}

func (v Violation) String() string { return v.Name + ": " + v.Text }

// The names of violations.
const (
	LostRecord   = "lost record"
	DoubleOutput = "doubled output"
	WrongOutput  = "wrong output"
	WrongRow     = "wrong row"
	StaleRow     = "stale row"
	RolledBack   = "rolled-back position"
	NotConsumed  = "position not at the end"
	TwoActives   = "two actives"
	StaleJoin    = "join went back"
	ProcessDown  = "process down"
	StrangeExit  = "unexplained exit"
	NotAtRest    = "not at rest"
	TooMuch      = "memory out of bounds"
	NoStore      = "no whole store"
)

// report collects violations, a few of each name in full.
type report struct {
	list   []Violation
	counts map[string]int
}

const toldOfEach = 10

func (r *report) add(name, format string, args ...any) {
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	if r.counts[name]++; r.counts[name] <= toldOfEach {
		r.list = append(r.list, Violation{name, fmt.Sprintf(format, args...)})
	}
}

func (r *report) done() []Violation {
	for i := range r.list {
		v := &r.list[i]
		if n := r.counts[v.Name]; n > toldOfEach {
			v.Text += fmt.Sprintf(" (the first of %d)", n)
			r.counts[v.Name] = 0
		}
	}
	return r.list
}
