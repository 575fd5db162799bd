package protocol

// Role is what a worker does for a task.
type Role string

const (
	RoleActive  Role = "active"
	RoleStandby Role = "standby"
	// RoleGlobal marks one partition of a global table: it is opened, restored and followed
	// like a task, but belongs to every worker and to no plan.
	RoleGlobal Role = "global"
)

// TableKind says who writes the topic behind a table.
type TableKind string

const (
	TableChangelog TableKind = "changelog" // written by the task's active only
	TableSource    TableKind = "source"    // an upstream topic, read-only
	TableGlobal    TableKind = "global"    // an upstream topic, read-only, every partition everywhere
)

// Software names one side of the connection in logs.
type Software struct {
	Name     string `json:"name" rule:"nonempty"`
	Version  string `json:"version" rule:"nonempty"`
	Language string `json:"language,omitempty"`
}

// Window is a pair of byte counts: for the whole connection and for each stream.
type Window struct {
	Connection int64 `json:"connection" rule:"min=1"`
	Stream     int64 `json:"stream" rule:"min=1"`
}

// Table declares a table of a set. Exactly one of Changelog and SourceTopic may be given;
// with neither, the changelog is "<group>-<name>-changelog".
type Table struct {
	Name        string `json:"name" rule:"name"`
	Changelog   string `json:"changelog,omitempty"`
	SourceTopic string `json:"source_topic,omitempty"`
}

// Set declares source topics that are read together, and the tables kept with them.
type Set struct {
	Name    string   `json:"name" rule:"name"`
	Sources []string `json:"sources" rule:"nonempty"`
	Tables  []Table  `json:"tables,omitempty"`
}

// FlatTable declares a table of a hello without sets. Sources names source topics that it is kept with;
// without it the table goes with the sources that have as many partitions as its topic.
type FlatTable struct {
	Name        string   `json:"name" rule:"name"`
	Changelog   string   `json:"changelog,omitempty"`
	SourceTopic string   `json:"source_topic,omitempty"`
	Sources     []string `json:"sources,omitempty" rule:"filled"`
}

// Level is how much of the protocol a worker can do; each has all of the one before.
type Level string

const (
	LevelStateless Level = "stateless" // sources and outputs only
	LevelTables    Level = "tables"    // also tables; what a hello without a level has
	LevelStandby   Level = "standby"   // also copies of tasks that others process
)

// Global declares a read-only table of which the worker holds every partition.
type Global struct {
	Name  string `json:"name" rule:"name"`
	Topic string `json:"topic" rule:"nonempty"`
}

// Hello is the worker's first message.
type Hello struct {
	ID       int64    `json:"id" rule:"min=1"`
	Versions []int    `json:"versions" rule:"nonempty"` // protocol versions spoken, newest first
	Client   Software `json:"client"`
	Features []string `json:"features,omitempty"`
	MaxFrame int64    `json:"max_frame" rule:"min=1"` // largest frame that the worker accepts, in bytes
	Credit   Window   `json:"credit"`                 // initial limits for what the sidecar sends
	Group    string   `json:"group,omitempty"`
	Level    Level    `json:"level,omitempty" rule:"oneof=stateless tables standby"`
	Sets     []Set    `json:"sets,omitempty"`
	// Sources and Tables stand in place of Sets: the sidecar groups them.
	Sources  []string    `json:"sources,omitempty" rule:"filled"`
	Tables   []FlatTable `json:"tables,omitempty"`
	Globals  []Global    `json:"globals,omitempty"`
	Outputs  []string    `json:"outputs,omitempty" rule:"filled"`
	Replicas *int        `json:"replicas,omitempty" rule:"min=0"`
	Address  string      `json:"address,omitempty"`
	Resume   string      `json:"resume,omitempty"` // reserved
}

// The guarantees of a Welcome.
const (
	AtLeastOnce = "at_least_once"
	ExactlyOnce = "exactly_once"
)

// Limits are the sizes that the sidecar accepts, in bytes.
type Limits struct {
	MaxFrame              int64 `json:"max_frame" rule:"min=1"`
	MaxControl            int64 `json:"max_control" rule:"min=1"`
	MaxCommitBytes        int64 `json:"max_commit_bytes" rule:"min=1"`
	MaxOutstandingCommits int   `json:"max_outstanding_commits" rule:"min=1"` // per task
}

// Deadlines are in milliseconds.
type Deadlines struct {
	Revoke        int64 `json:"revoke_ms" rule:"min=1"`
	WorkerGrace   int64 `json:"worker_grace_ms" rule:"min=0"`
	MaxProcessing int64 `json:"max_processing_ms" rule:"min=0"` // 0: no limit
}

// Welcome answers Hello.
type Welcome struct {
	Re        int64     `json:"re" rule:"min=1"`
	Version   int       `json:"version" rule:"min=1"`
	Session   string    `json:"session" rule:"nonempty"` // names this connection in logs of both sides
	Sidecar   Software  `json:"sidecar"`
	Features  []string  `json:"features,omitempty"`
	Group     string    `json:"group" rule:"nonempty"`
	Guarantee string    `json:"guarantee" rule:"oneof=at_least_once exactly_once"` // AtLeastOnce or ExactlyOnce
	Limits    Limits    `json:"limits"`
	Credit    Window    `json:"credit"` // initial limits for what the worker sends
	Deadlines Deadlines `json:"deadlines"`
	Resume    string    `json:"resume,omitempty"` // reserved
}

// SourceStream is a source partition of an assigned task. Position is where its records begin.
type SourceStream struct {
	Topic    string `json:"topic" rule:"nonempty"`
	Stream   uint32 `json:"stream" rule:"min=1"`
	Position int64  `json:"position" rule:"min=0"`
}

// TableStream is a table partition of an assigned task: restore frames come on the stream,
// and, for a changelog, writes frames go on it.
type TableStream struct {
	Name   string    `json:"name" rule:"nonempty"`
	Topic  string    `json:"topic" rule:"nonempty"`
	Kind   TableKind `json:"kind" rule:"oneof=changelog source global"`
	Stream uint32    `json:"stream" rule:"min=1"`
}

// OutputStream is where writes of this task to an output topic go.
type OutputStream struct {
	Topic  string `json:"topic" rule:"nonempty"`
	Stream uint32 `json:"stream" rule:"min=1"`
}

// Assign gives the worker a task under a new epoch. Answer: Opened.
// Task is "<set>/<partition>"; for a global table "<table>/<partition>" with Role global.
type Assign struct {
	ID        int64          `json:"id" rule:"min=1"`
	Task      string         `json:"task" rule:"nonempty"`
	Set       string         `json:"set" rule:"nonempty"`
	Partition int32          `json:"partition" rule:"min=0"`
	Role      Role           `json:"role" rule:"oneof=active standby global"`
	Epoch     uint32         `json:"epoch" rule:"min=1"`
	Sources   []SourceStream `json:"sources,omitempty"`
	Tables    []TableStream  `json:"tables,omitempty"`
	Outputs   []OutputStream `json:"outputs,omitempty"`
}

// Opened answers Assign (every table of the task) and Reset (the one table).
// A nil checkpoint means an empty store.
type Opened struct {
	Re          int64              `json:"re" rule:"min=1"`
	Task        string             `json:"task" rule:"nonempty"`
	Epoch       uint32             `json:"epoch" rule:"min=1"`
	Checkpoints map[string]*string `json:"checkpoints,omitempty" rule:"checkpoint"`
}

// Restoring tells how far a replay has come. Rate is records per second; Remaining counts offsets to
// the end (an upper bound of records); ETA is in milliseconds, -1 when not known. WaitsFor says what a
// replay that stands still waits for.
type Restoring struct {
	Task      string `json:"task" rule:"nonempty"`
	Epoch     uint32 `json:"epoch" rule:"min=1"`
	Table     string `json:"table" rule:"nonempty"`
	Records   int64  `json:"records" rule:"min=0"`
	Bytes     int64  `json:"bytes" rule:"min=0"`
	Rate      int64  `json:"rate" rule:"min=0"`
	Remaining int64  `json:"remaining" rule:"min=0"`
	ETA       int64  `json:"eta_ms" rule:"min=-1"`
	WaitsFor  string `json:"waits_for,omitempty"`
}

// Restored says that all tables of the task have reached their ends. It travels behind the task's
// restore frames. Answer: Ready.
type Restored struct {
	ID    int64  `json:"id" rule:"min=1"`
	Task  string `json:"task" rule:"nonempty"`
	Epoch uint32 `json:"epoch" rule:"min=1"`
}

// Ready answers Restored and Promoted.
type Ready struct {
	Re    int64  `json:"re" rule:"min=1"`
	Task  string `json:"task" rule:"nonempty"`
	Epoch uint32 `json:"epoch" rule:"min=1"`
}

// Promoted makes a standby the active under a new epoch. Answer: Ready.
type Promoted struct {
	ID      int64          `json:"id" rule:"min=1"`
	Task    string         `json:"task" rule:"nonempty"`
	Epoch   uint32         `json:"epoch" rule:"min=1"`
	Sources []SourceStream `json:"sources,omitempty"`
	Tables  []TableStream  `json:"tables,omitempty"`
	Outputs []OutputStream `json:"outputs,omitempty"`
}

// Demoted makes an active a standby under a new epoch.
type Demoted struct {
	Task   string        `json:"task" rule:"nonempty"`
	Epoch  uint32        `json:"epoch" rule:"min=1"`
	Tables []TableStream `json:"tables,omitempty"`
}

// Revoke asks for the task back. Answer: Released, within DeadlineMS. Code: rebalance or drain.
type Revoke struct {
	ID         int64  `json:"id" rule:"min=1"`
	Task       string `json:"task" rule:"nonempty"`
	Epoch      uint32 `json:"epoch" rule:"min=1"`
	DeadlineMS int64  `json:"deadline_ms" rule:"min=0"`
	Code       string `json:"code" rule:"nonempty"`
}

// Released answers Revoke, behind the worker's last commit of the task.
type Released struct {
	Re    int64  `json:"re" rule:"min=1"`
	Task  string `json:"task" rule:"nonempty"`
	Epoch uint32 `json:"epoch" rule:"min=1"`
}

// Lost ends an epoch at once.
type Lost struct {
	Task    string `json:"task" rule:"nonempty"`
	Epoch   uint32 `json:"epoch" rule:"min=1"`
	Code    string `json:"code" rule:"nonempty"`
	Message string `json:"message,omitempty"`
}

// Reset asks the worker to wipe one store. Frames from NextOffset follow. Answer: Opened.
type Reset struct {
	ID         int64  `json:"id" rule:"min=1"`
	Task       string `json:"task" rule:"nonempty"`
	Epoch      uint32 `json:"epoch" rule:"min=1"`
	Table      string `json:"table" rule:"nonempty"`
	Stream     uint32 `json:"stream" rule:"min=1"`
	NextOffset int64  `json:"next_offset" rule:"min=0"`
	Code       string `json:"code" rule:"nonempty"`
	Message    string `json:"message,omitempty"`
}

// Commit ends a commit whose writes frames (commit id = ID) came directly before it.
// SourceNext gives, per source topic of the task, the next position to read; a topic that is left out
// keeps its position; at least one is named.
type Commit struct {
	ID         int64            `json:"id" rule:"min=1"`
	Task       string           `json:"task" rule:"nonempty"`
	Epoch      uint32           `json:"epoch" rule:"min=1"`
	SourceNext map[string]int64 `json:"source_next" rule:"nonempty min=0"`
}

// Committed answers Commit: whole in Kafka. Checkpoints holds the new checkpoint of each table written.
type Committed struct {
	Re          int64             `json:"re" rule:"min=1"`
	Task        string            `json:"task" rule:"nonempty"`
	Epoch       uint32            `json:"epoch" rule:"min=1"`
	Checkpoints map[string]string `json:"checkpoints,omitempty" rule:"checkpoint"`
}

// Aborted answers Commit: nothing of it is or will be visible.
type Aborted struct {
	Re      int64  `json:"re" rule:"min=1"`
	Task    string `json:"task" rule:"nonempty"`
	Epoch   uint32 `json:"epoch" rule:"min=1"`
	Code    string `json:"code" rule:"nonempty"`
	Message string `json:"message"`
}

// Stale answers Commit: its epoch is over; nothing of it is or will be visible.
type Stale struct {
	Re    int64  `json:"re" rule:"min=1"`
	Task  string `json:"task" rule:"nonempty"`
	Epoch uint32 `json:"epoch" rule:"min=1"`
}

// Unknown answers Commit: how it ended cannot be told.
type Unknown struct {
	Re      int64  `json:"re" rule:"min=1"`
	Task    string `json:"task" rule:"nonempty"`
	Epoch   uint32 `json:"epoch" rule:"min=1"`
	Code    string `json:"code" rule:"nonempty"`
	Message string `json:"message"`
}

// Locate asks which members of the group hold a key's task. Key is base64; Partition stands in place of
// it. Table or Set or both are named. Answer: Located.
type Locate struct {
	ID        int64  `json:"id" rule:"min=1"`
	Table     string `json:"table,omitempty"`
	Set       string `json:"set,omitempty"`
	Key       string `json:"key,omitempty" rule:"base64"`
	Partition *int32 `json:"partition,omitempty" rule:"min=0"`
}

// Holder is a member of the group and the address that its worker advertised.
type Holder struct {
	Member  string `json:"member" rule:"nonempty"`
	Address string `json:"address,omitempty"`
}

// Shadow is a member that keeps a copy. Lag is about how many records it was behind at its last join, -1
// when that is not known.
type Shadow struct {
	Member  string `json:"member" rule:"nonempty"`
	Address string `json:"address,omitempty"`
	Lag     int64  `json:"lag" rule:"min=-1"`
}

// Located answers Locate. Stale: the group is rebalancing, or has changed since it was asked.
type Located struct {
	Re        int64    `json:"re" rule:"min=1"`
	Set       string   `json:"set" rule:"nonempty"`
	Partition int32    `json:"partition" rule:"min=0"`
	Task      string   `json:"task" rule:"nonempty"`
	Active    *Holder  `json:"active,omitempty"` // nil: nobody at this moment
	Standbys  []Shadow `json:"standbys,omitempty"`
	Stale     bool     `json:"stale"`
}

// Progress restarts the worker's progress clock.
type Progress struct{}

// Credit gives cumulative limits of data-frame bytes, counted from the start of the connection
// (Connection) and of each stream. A limit that is left out is unchanged; limits never go down.
type Credit struct {
	Connection int64            `json:"connection,omitempty" rule:"min=0"`
	Streams    map[uint32]int64 `json:"streams,omitempty" rule:"min=0"`
}

// Waiting tells what the sidecar waits for. Code ok: it is there.
type Waiting struct {
	Code    string `json:"code" rule:"nonempty"`
	Message string `json:"message,omitempty"`
}

// Error refuses a request (Re), or tells the reason of the close that follows.
// Task, Epoch and Stream name what it is about, when it is about one.
type Error struct {
	Re      int64  `json:"re,omitempty" rule:"min=0"`
	Code    string `json:"code" rule:"nonempty"`
	Message string `json:"message"`
	Task    string `json:"task,omitempty"`
	Epoch   uint32 `json:"epoch,omitempty"`
	Stream  uint32 `json:"stream,omitempty"`
}

// Writes is the data of one commit as it came from the worker: whole writes frames, unparsed.
type Writes struct {
	ID     int64
	Frames [][]byte
	Bytes  int64
	Err    *Error // the buffer was dropped, and why; Frames is nil then
}
