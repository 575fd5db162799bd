package groupclient

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// client is what a group needs of kafka.Client.
type client interface {
	Do(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error)
	Coordinator(ctx context.Context, kind kafka.CoordinatorKind, key string) (int32, error)
	ForgetCoordinator(kind kafka.CoordinatorKind, key string)
	Denied(code int16, name, operation string) *kafka.AccessError
	ToGroup(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error)
	ToTransaction(ctx context.Context, id string, req kmsg.Request) (kmsg.Response, error)
	Topics(ctx context.Context, names ...string) (map[string]kafka.Topic, error)
	Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error)
	ListOffsets(ctx context.Context, at int64, committed bool, tps ...kafka.TopicPartition) (map[kafka.TopicPartition]kafka.Offset, error)
}

// phase is where Run is. Only Run's goroutine changes it.
type phase uint8

const (
	resting phase = iota // not a member, and not asked to be one
	joining
	stable
)

// Group is one membership of one group. Its methods may be called from any goroutine.
type Group struct {
	cfg     Config
	client  client
	handler Handler
	log     hclog.Logger
	poke    chan struct{} // something below mu has changed
	ended   chan struct{} // closed when Run has returned

	// Of Run's goroutine only.
	phase    phase
	nonce    uint64
	request  *kmsg.JoinGroupRequest // to repeat; nil: build a new one
	failures int                    // in a row, for pauses
	reach    reach
	counts   map[string]int32 // partition counts seen last, by topic
	next     time.Time        // of the next heartbeat
	outdated bool             // the share of a returning static member is of another declaration
	said     []string         // warnings of the plan made last
	limit    limit            // of the group's record
	warm     warming          // copies that warm up
	synced   int32            // generation of the last sync; -1: none since the last loss
	joinedIn int32            // generation of the last JoinGroup that was answered; -1: none
	syncedAs string           // member id of the last sync
	toldWait bool             // the handler was told what take-overs wait for

	partSince time.Time // a join waits for releases since; zero: none does
	steps     []step    // of a take-over

	mu        sync.Mutex
	want      *Prepared // nil: not asked to be a member
	follow    time.Time // a follow-up join is wanted since; zero: none
	urgent    bool      // the follow-up does not wait for other releases
	suspect   bool      // a commit was told that the membership is over: heartbeat now
	between   bool      // a JoinGroup may have been answered whose SyncGroup is not
	leaving   []chan error
	identity  identity
	owned     map[Task]*ownedTask
	claimed   []Task    // what the last JoinGroup claimed
	joined    *Prepared // what the last JoinGroup subscribed to
	confirmed moment    // when the coordinator was asked last that knew us
	draining  bool      // everything is being handed over; see Drain
	newest    int32     // generation of the last JoinGroup that was answered; -1: none
	fenced    error     // why the present incarnation has to end; see Fenced

	parting     map[Task]*ownedTask // let go of, and claimed until a release is written
	made        map[string]bool     // what was done once in this membership; see once
	flights     map[string]*flight  // what is being done so
	waits       map[Task]string     // what take-overs wait for
	deniedFence bool                // it was said that we lack the right to fence
}

// identity is who we are to the coordinator. Commits use the one that is current when they are sent.
type identity struct {
	member      string
	generation  int32 // -1: no membership
	incarnation string
}

// ownedTask is a task from the sync that gave it until its release.
type ownedTask struct {
	active   bool             // the last sync gave it to us; false: it has to be revoked
	taken    bool             // a take-over has succeeded
	claim    claim            // of the take-over
	position map[string]int64 // committed last, by source

	// Under exactly once only.
	open      string    // the claim as it is written with each commit
	doubt     bool      // a transaction was begun, and its end was not told: position may be behind
	since     time.Time // of doubt
	releasing bool      // the last commit was made
	taking    int       // take-overs under way
	out       bool      // a claim of ours may be written that is not released
	unsure    int32     // the generation of a claim or release that was not answered; 0: none
	late      int32     // the generation of a claim that was not answered; 0: none

	sent   claim             // the claim that was sent last; it may not have landed
	wrote  map[string]int64  // the positions that it was sent with, by source
	before map[string]string // whose claim it was to replace, by source
}

// Copy is a task whose tables the worker keeps without being its active. Lag is in records;
// negative: not known.
type Copy struct {
	Task Task
	Lag  int64
}

// New makes a group. It does nothing until Run and Join.
func New(cfg Config, handler Handler) (*Group, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return newGroup(cfg, cfg.Client, handler), nil
}

func newGroup(cfg Config, c client, handler Handler) *Group {
	cfg = cfg.withDefaults()
	return &Group{
		cfg: cfg, client: c, handler: handler, log: cfg.Logger.With("group", cfg.Group),
		poke: make(chan struct{}, 1), ended: make(chan struct{}),
		counts: map[string]int32{}, synced: -1, joinedIn: -1, newest: -1,
		identity: identity{generation: -1, incarnation: newIncarnation()},
		owned:    map[Task]*ownedTask{}, parting: map[Task]*ownedTask{},
		made: map[string]bool{}, flights: map[string]*flight{}, waits: map[Task]string{},
		steps: takeOverSteps,
	}
}

// newIncarnation names one life of the member: it is part of claims and of the transactional id.
func newIncarnation() string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Incarnation names the current life of this member. It changes with every loss.
func (g *Group) Incarnation() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.identity.incarnation
}

// Run is the membership. It serves until ctx ends, and does not leave the group by itself.
func (g *Group) Run(ctx context.Context) error {
	defer g.finish()
	for ctx.Err() == nil {
		g.tellWaits()
		if done := g.takeLeaving(); done != nil {
			g.leave(ctx, done)
			continue
		}
		if why := g.takeFenced(); why != nil {
			g.lose(why, false)
			continue
		}
		switch g.phase {
		case resting:
			g.rest(ctx)
		case joining:
			g.join(ctx)
		case stable:
			g.beat(ctx)
		}
	}
	return nil
}

func (g *Group) finish() {
	close(g.ended)
	for _, done := range g.takeLeaving() {
		done <- errors.New("the group's loop has ended")
	}
}

// rest waits for a Join.
func (g *Group) rest(ctx context.Context) {
	g.mu.Lock()
	wanted := g.want != nil
	g.mu.Unlock()
	if wanted {
		g.phase = joining
		return
	}
	g.pause(ctx, time.Hour)
}

// pause waits for something to do, at most d.
func (g *Group) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-g.poke:
	}
}

func (g *Group) wake() {
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

// Join makes Run join, or join again, with this subscription. Nothing happens when it is what the
// group has joined with already. It lets go of tasks whose set is not declared any more, or
// declared differently: their commits have to be at their ends.
func (g *Group) Join(p Prepared) {
	g.mu.Lock()
	changed := g.want == nil || !sameSubscription(*g.want, p)
	if changed {
		g.want = &p
		g.follow, g.urgent = time.Now(), true
		g.dropUndeclared(p)
	}
	g.mu.Unlock()
	if changed {
		g.wake()
	}
}

func sameSubscription(a, b Prepared) bool {
	return reflect.DeepEqual(a.Sets, b.Sets) && reflect.DeepEqual(a.Globals, b.Globals) &&
		a.Address == b.Address && a.NoStandby == b.NoStandby && reflect.DeepEqual(a.Replicas, b.Replicas)
}

// dropUndeclared needs g.mu.
func (g *Group) dropUndeclared(p Prepared) {
	if g.joined == nil {
		return
	}
	for t := range g.owned {
		if !slices.ContainsFunc(p.Sets, func(s PreparedSet) bool { return s.Name == t.Set && g.joined.has(s) }) {
			g.letGo(t)
		}
	}
}

func (p Prepared) has(set PreparedSet) bool {
	return slices.ContainsFunc(p.Sets, func(s PreparedSet) bool { return reflect.DeepEqual(s, set) })
}

// Release lets go of tasks: the next JoinGroup does not claim them, and a follow-up join is made. A task whose
// claim may stand is released in Kafka by Run first; see parting.go.
// There is no call that adds claims: whatever a sync gave is claimed until it is released or lost.
func (g *Group) Release(tasks ...Task) {
	g.mu.Lock()
	changed := false
	for _, t := range tasks {
		if _, ok := g.owned[t]; ok {
			g.letGo(t)
			changed = true
		}
	}
	if changed && g.follow.IsZero() {
		g.follow = time.Now()
	}
	g.mu.Unlock()
	if changed {
		g.wake()
	}
}

// Owned are the tasks that are ours until they are released. A JoinGroup claims these, and what is parting.
func (g *Group) Owned() []Task {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.SortedFunc(maps.Keys(g.owned), compareTasks)
}

// Drain says with every JoinGroup from now on that this member is about to leave: it is given nothing
// new, and what it lets go of with Release goes to others while it still works on the rest. It asks for
// no join by itself, the first Release does. Over with Leave.
func (g *Group) Drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.draining = true
}

// Leave leaves the group and lets go of everything. It returns when the coordinator has answered or
// ctx has ended. A Join may follow.
func (g *Group) Leave(ctx context.Context) error {
	done := make(chan error, 1)
	g.mu.Lock()
	g.want = nil
	g.leaving = append(g.leaving, done)
	g.mu.Unlock()
	g.wake()
	select {
	case err := <-done:
		return err
	case <-g.ended:
		return fmt.Errorf("leaving group %q: the group's loop has ended", g.cfg.Group)
	case <-ctx.Done():
		return fmt.Errorf("leaving group %q: %w", g.cfg.Group, ctx.Err())
	}
}

func (g *Group) takeLeaving() []chan error {
	g.mu.Lock()
	defer g.mu.Unlock()
	leaving := g.leaving
	g.leaving = nil
	return leaving
}

// interrupted: Leave or Fenced wants the loop, so a long request is given up.
func (g *Group) interrupted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.leaving) > 0 || g.fenced != nil
}

// lose ends the membership and with it every task.
// INVARIANT: after a loss nothing is claimed and no commit of a lost task is sent.
func (g *Group) lose(err error, forgetMember bool) {
	g.mu.Lock()
	member := g.identity.member
	if forgetMember {
		member = ""
	}
	had := g.identity.generation >= 0
	g.identity = identity{member: member, generation: -1, incarnation: newIncarnation()}
	clear(g.owned)
	clear(g.parting)
	g.made, g.newest, g.fenced, g.between = map[string]bool{}, -1, nil, true
	g.mu.Unlock()
	g.request, g.synced = nil, -1
	g.phase = joining
	g.coldAgain()
	if had {
		g.log.Debug("membership lost", "error", err) // our caller says it
		g.handler.Lost(codeFenced, err)
	}
}

// refuse rests until the next Join.
func (g *Group) refuse(err error) {
	g.mu.Lock()
	g.want = nil
	g.follow = time.Time{}
	g.mu.Unlock()
	g.request = nil
	g.phase = resting
	g.over()
	g.log.Error("kafka refuses the group", "error", err)
	g.handler.Fatal(err)
}
