package drill

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/pillion/pillion/internal/kafkatest/faultproxy"
)

const (
	sigterm = syscall.SIGTERM
	sigkill = syscall.SIGKILL

	aim      = 1500 * time.Millisecond // how long a fault waits for what it is to hit
	cutsWait = 10 * time.Second        // and a cut for its request
)

// began notes that a fault strikes now: called directly before it does.
func (l *lab) began(f Fault) func() {
	return func() { l.note(Event{What: FaultBegan, Pair: f.Pair, Fault: &f}) }
}

func (l *lab) note(e Event) {
	e.InFlight = l.cluster.inFlight()
	l.history.Add(e)
}

func (l *lab) missed(f Fault, why string) {
	l.history.Add(Event{What: FaultMissed, Pair: f.Pair, Fault: &f, Text: why})
}

// after heals a fault when its time is over, or when the wave is.
func (l *lab) after(f Fault, heal func()) {
	l.healing.Go(func() {
		select {
		case <-time.After(l.paced(f.For)):
		case <-l.healed.Done():
		}
		heal()
		l.history.Add(Event{What: FaultEnded, Pair: f.Pair, Fault: &f})
	})
}

// inject plays one fault; what heals it goes on by itself.
func (l *lab) inject(ctx context.Context, f Fault) {
	l.await(ctx, f)
	switch f.Kind {
	case BrokerKill, BrokerStop, LeaderMove, GroupCoordinator, TxnCoordinator:
		l.injectBroker(ctx, f)
	case ConnectionCut:
		l.healing.Go(func() { l.cut(ctx, f) })
	case ConnectionsCut, LinkDelay, LinkThrottle, LinkHalfOpen:
		l.injectLinks(f)
	default:
		l.injectPair(ctx, f, l.pairs[f.Pair-1])
	}
}

// await gives the fault a moment to find what it is to hit.
func (l *lab) await(ctx context.Context, f Fault) {
	if f.During == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.paced(aim))
	defer cancel()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		e := Event{What: FaultBegan, Pair: f.Pair, Fault: &f, InFlight: l.cluster.inFlight(), Text: strconv.Itoa(f.Pick % Partitions)}
		if slices.Contains(l.history.Hits(e), f.During) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (l *lab) injectPair(ctx context.Context, f Fault, p *pair) {
	began := l.began(f)
	ok := true
	switch f.Kind {
	case WorkerKill:
		ok = p.worker.end(sigkill, l.paced(f.For), began)
	case SidecarKill:
		ok = p.sidecar.end(sigkill, l.paced(f.For), began)
	case PairDrain:
		ok = p.leave(l.paced(f.For), began)
	case WorkerStop, SidecarStop:
		k := p.worker
		if f.Kind == SidecarStop {
			k = p.sidecar
		}
		var resume func()
		if resume, ok = k.stop(began); ok {
			l.after(f, resume)
		}
	case WorkerSlow:
		l.flag(f, p.ask("slow"), "0.2", began)
	case WorkerFull:
		l.flag(f, p.ask("full"), "", began)
	case WorkerDies:
		l.healing.Go(func() { l.dies(ctx, f, p) })
	case WorkerWiped:
		ok = l.wipe(ctx, p, began)
	case RestoreRebalance:
		l.healing.Go(func() { l.restoreRebalance(ctx, f, p) })
	}
	if !ok {
		l.missed(f, "the process is not up")
	}
}

// flag is a file that asks for something until it is healed.
func (l *lab) flag(f Fault, path, text string, began func()) {
	began()
	_ = os.WriteFile(path, []byte(text), 0o644)
	l.after(f, func() { _ = os.Remove(path) })
}

// dies has the worker kill itself between committed and flush; it says so in its last line, which is the fault.
func (l *lab) dies(ctx context.Context, f Fault, p *pair) {
	mine := &f
	p.dying.Store(mine)
	path := p.ask("die-before-flush")
	p.worker.expect()
	_ = os.WriteFile(path, nil, 0o644)
	ctx, cancel := context.WithTimeout(ctx, l.paced(cutsWait))
	defer cancel()
	_ = again(ctx, "wait until the worker dies", func() (bool, error) {
		return p.dying.Load() != mine || l.healed.Err() != nil, nil
	})
	_ = os.Remove(path)
	if p.dying.CompareAndSwap(mine, nil) {
		p.worker.unexpect()
		l.missed(f, "no commit came")
	}
}

// wipe kills the worker and removes its stores.
func (l *lab) wipe(ctx context.Context, p *pair, began func()) bool {
	p.worker.rest()
	defer p.worker.up()
	if !p.worker.end(sigkill, 0, began) || p.worker.gone(ctx) != nil {
		return false
	}
	_ = os.RemoveAll(filepath.Join(p.dir, "tables"))
	return true
}

// restoreRebalance takes a worker's disk, makes its restore slow, and has another pair leave in the middle of it.
func (l *lab) restoreRebalance(ctx context.Context, f Fault, p *pair) {
	slow := p.ask("slow-restore")
	_ = os.WriteFile(slow, []byte("0.4"), 0o644)
	defer os.Remove(slow)
	if !l.wipe(ctx, p, func() {}) {
		l.missed(f, "the worker is not up")
		return
	}
	wait, cancel := context.WithTimeout(ctx, l.paced(cutsWait))
	defer cancel()
	err := again(wait, "wait for a restore", func() (bool, error) {
		for _, pending := range l.history.Pending(f.Pair) {
			if pending.Phase == Restore {
				return true, nil
			}
		}
		return l.healed.Err() != nil, l.healed.Err()
	})
	other := l.pairs[f.Pair%Pairs]
	if err != nil || !other.leave(f.For/2, l.began(f)) {
		l.missed(f, "no restore came")
		return
	}
	select {
	case <-time.After(l.paced(f.For)):
	case <-l.healed.Done():
	}
	l.history.Add(Event{What: FaultEnded, Pair: f.Pair, Fault: &f})
}

// cut waits for its request at any broker.
func (l *lab) cut(ctx context.Context, f Fault) {
	hit := make(chan bool, 2*len(l.cluster.proxies))
	var armed []*faultproxy.Armed
	for _, p := range l.cluster.proxies {
		armed = append(armed, p.Arm(faultproxy.Cut{Keys: f.Keys, Stage: f.Stage}, func(r faultproxy.Request) {
			struck := f
			struck.Pair = pairNumber(r.Who)
			l.note(Event{What: FaultBegan, Pair: struck.Pair, Fault: &struck, ID: int64(r.Node)})
			hit <- true
		}))
	}
	struck := false
	select {
	case struck = <-hit:
	case <-time.After(l.paced(cutsWait)):
	case <-l.healed.Done():
	case <-ctx.Done():
	}
	for i, p := range l.cluster.proxies {
		p.Disarm(armed[i])
	}
	if !struck && len(hit) == 0 {
		l.missed(f, "no such request came")
	}
}

func (l *lab) injectLinks(f Fault) {
	began := l.began(f)
	who := ""
	if f.Pair > 0 {
		who = pairName(f.Pair)
	}
	if f.Kind == ConnectionsCut {
		began()
		for _, p := range l.cluster.proxies {
			p.CutAll(who)
		}
		return
	}
	weather := faultproxy.Weather{Who: who}
	switch f.Kind {
	case LinkDelay:
		weather.Delay = 40*time.Millisecond + f.For/20
	case LinkThrottle:
		weather.Throttle = 20_000
	case LinkHalfOpen:
		weather.HalfOpen = f.Lost
	}
	began()
	var lifts []func()
	for i, p := range l.cluster.proxies {
		if f.Broker == 0 || int(f.Broker) == i+1 {
			lifts = append(lifts, p.Set(weather))
		}
	}
	l.after(f, func() {
		for _, lift := range lifts {
			lift()
		}
	})
}

// injectBroker: of three brokers one may be away, so one such fault at a time.
func (l *lab) injectBroker(ctx context.Context, f Fault) {
	if !l.cluster.broken.TryLock() {
		l.missed(f, "another broker is away")
		return
	}
	c, began := l.cluster, l.began(f)
	node := c.kafka.Nodes[f.Broker-1]
	recover := func(heal func() error) {
		l.after(f, func() {
			defer c.broken.Unlock()
			err := heal()
			if err == nil || node.Running() { // a slow one may yet come
				wait, cancel := context.WithTimeout(ctx, rest)
				defer cancel()
				err = c.inSync(wait, l.in, l.out, l.changelog(), "__consumer_offsets")
			}
			if err != nil && ctx.Err() == nil {
				l.history.Add(Event{What: "a broker does not recover", Text: err.Error()})
			}
		})
	}
	switch f.Kind {
	case BrokerKill:
		began()
		_ = node.Kill()
		recover(func() error { return node.Start(ctx) })
	case BrokerStop:
		began()
		_ = node.Pause()
		recover(node.Continue)
	default:
		defer c.broken.Unlock()
		l.move(ctx, f)
	}
}

func (l *lab) move(ctx context.Context, f Fault) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	partition, topics := int32(f.Pick%Partitions), []string{l.in, l.out, l.changelog()}
	switch f.Kind {
	case GroupCoordinator:
		partition, topics = coordinatorPartition(l.group), []string{"__consumer_offsets"}
	case TxnCoordinator:
		partition, topics = int32(f.Pick%4), []string{"__transaction_state"}
	}
	struck := false
	err := l.cluster.move(ctx, partition, f.Broker, func(from int32) {
		struck = true
		l.note(Event{What: FaultBegan, Fault: &f, ID: int64(from), Text: strconv.Itoa(int(partition))})
	}, topics...)
	if !struck {
		l.missed(f, errors.Join(err).Error())
	}
}

// coordinatorPartition is the partition of __consumer_offsets, of four, that a group is in.
func coordinatorPartition(group string) int32 { return (javaHash(group) & 0x7fffffff) % 4 }

// javaHash is String.hashCode.
func javaHash(s string) (h int32) {
	for _, c := range []byte(s) {
		h = 31*h + int32(c)
	}
	return h
}
