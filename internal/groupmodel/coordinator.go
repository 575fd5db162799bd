package groupmodel

import (
	"fmt"
	"time"
)

// State of a group.
type State uint8

const (
	// Empty: no members; positions may be committed from outside.
	Empty State = iota
	// Preparing (PreparingRebalance): members are waited for in JoinGroup.
	Preparing
	// Completing (CompletingRebalance): the leader's plan is waited for.
	Completing
	// Stable: every member has, or may ask for, its part of the plan.
	Stable
	// Dead: there is no such group.
	Dead
)

func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// newMemberJoin is how long the first JoinGroup of a member may wait.
const newMemberJoin = 5 * time.Minute

// Config of the broker.
type Config struct {
	MinSession, MaxSession time.Duration // 6 s and 30 min when zero
	MaxSize                int           // group.max.size; 0: no limit
	Prefix                 string        // of member ids; "member-" when empty
}

// Coordinator is the coordinator of one group. It is not safe for concurrent use.
type Coordinator struct {
	cfg     Config
	now     time.Time
	out     []Answer
	timers  []timer
	order   int // of timers that are due at once
	lastID  int
	node    int32
	loading time.Time // until then 14

	state      State
	before     State // the state before this one
	generation int32
	leader     string
	members    []*member // in the order in which they came
	pending    []string  // were given an id and have not joined
	unsynced   map[string]bool
	offsets    map[Partition]written
	open       map[string]map[Partition]written // by transaction
	writes     int
	saved      record
}

// written is an offset with its place among all that were.
type written struct {
	Offset
	order int
}

// member of the group. A Token of 0: does not wait.
type member struct {
	id, instance       string
	metadata           string
	session, rebalance time.Duration
	fresh              bool // it has not been part of a generation
	joining, syncing   Token
	plan               string
}

// New makes the coordinator of a group that does not exist yet.
func New(cfg Config) *Coordinator {
	if cfg.MinSession == 0 {
		cfg.MinSession = 6 * time.Second
	}
	if cfg.MaxSession == 0 {
		cfg.MaxSession = 30 * time.Minute
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "member-"
	}
	return &Coordinator{
		cfg: cfg, state: Dead, node: 1, unsynced: map[string]bool{},
		offsets: map[Partition]written{}, open: map[string]map[Partition]written{},
	}
}

// Ask hands in a request. What comes back may answer others, too. A token must not be 0.
func (c *Coordinator) Ask(now time.Time, token Token, req Request) []Answer {
	c.begin(now)
	if now.Before(c.loading) {
		a := Answer{To: token, Code: CoordinatorLoading}
		if _, ok := req.(Heartbeat); ok {
			a.Code = OK // without a look
		}
		c.answer(a)
		return c.out
	}
	switch req := req.(type) {
	case JoinGroup:
		c.joinGroup(token, req)
	case SyncGroup:
		c.syncGroup(token, req)
	case Heartbeat:
		c.answer(Answer{To: token, Code: c.heartbeat(req)})
	case LeaveGroup:
		c.answer(Answer{To: token, Code: c.leave(req)})
		c.left()
	case OffsetCommit:
		c.answer(Answer{To: token, Code: c.offsetCommit(req)})
	case TxnOffsetCommit:
		c.answer(Answer{To: token, Code: c.txnOffsetCommit(req)})
	case EndTxn:
		c.endTxn(req)
		c.answer(Answer{To: token})
	case OffsetFetch:
		c.answer(c.offsetFetch(token, req))
	case DeleteGroup:
		c.answer(Answer{To: token, Code: c.deleteGroup()})
	default:
		panic(fmt.Sprintf("groupmodel: unknown request %T", req))
	}
	c.expire() // what is due at once, as the first rebalance of an empty group
	return c.out
}

// Tick lets time pass.
func (c *Coordinator) Tick(now time.Time) []Answer {
	c.begin(now)
	return c.out
}

func (c *Coordinator) begin(now time.Time) {
	c.out = nil
	c.now = now
	c.expire()
}

func (c *Coordinator) answer(a Answer) {
	if a.To != 0 {
		c.out = append(c.out, a)
	}
}

// State of the group.
func (c *Coordinator) State() State { return c.state }

// Generation is the newest.
func (c *Coordinator) Generation() int32 { return c.generation }

// Leader is the id of the member that leads; empty: nobody.
func (c *Coordinator) Leader() string { return c.leader }

// Members are the ids of all members, in the order in which they came.
func (c *Coordinator) Members() []string {
	ids := make([]string, 0, len(c.members))
	for _, m := range c.members {
		ids = append(ids, m.id)
	}
	return ids
}

// Has says whether the group has this member.
func (c *Coordinator) Has(id string) bool { return c.member(id) != nil }

// Committed is the position of a partition, whatever transactions are open.
func (c *Coordinator) Committed(p Partition) Offset {
	if o, ok := c.offsets[p]; ok {
		return o.Offset
	}
	return Offset{At: -1}
}

func (c *Coordinator) member(id string) *member {
	for _, m := range c.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

func (c *Coordinator) static(instance string) *member {
	for _, m := range c.members {
		if instance != "" && m.instance == instance {
			return m
		}
	}
	return nil
}

func (c *Coordinator) become(s State) { c.before, c.state = c.state, s }

func (c *Coordinator) newID() string {
	c.lastID++
	return fmt.Sprintf("%s%d", c.cfg.Prefix, c.lastID)
}

// known is the check that every request of a member passes.
func (c *Coordinator) known(id, instance string) int16 {
	if instance != "" {
		m := c.static(instance)
		if m == nil {
			return UnknownMember
		}
		if m.id != id {
			return FencedInstance
		}
	}
	if c.member(id) == nil {
		return UnknownMember
	}
	return OK
}
