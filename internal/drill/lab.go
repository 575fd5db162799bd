package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/pillion/pillion/internal/nodeclient"
)

// Options of a drill.
type Options struct {
	Seed       uint64
	Faults     int           // ends when so many have counted (and a wave is over); 0: no limit
	Time       time.Duration // or after so long
	PerWave    int           // faults of a wave; default 40
	Guarantee  Guarantee
	Mild       bool    // no sidecar is killed or stopped: at_least_once is exact
	Plain      bool    // past TLS, SCRAM and the proxies: only to look for a fault
	Pace       float64 // all times are so many times longer: for a machine that is slow; default 1
	Rate       int     // inputs a second; default 150
	Recreate   int     // the source is deleted and created anew after each such wave; 0: never
	Dir        string
	Checkout   string
	Python     string
	Binary     string    // of pillion; empty: it is built
	Out        io.Writer // what happens, for people
	HistoryOut io.Writer // every event, a line each; may be nil
}

// lab is the running whole.
type lab struct {
	options      Options
	dir, sockets string
	checkout     string
	binary       string // pillion
	python, node string
	preload      string // full.so
	group        string
	in, ref, out string
	cluster      *cluster
	pairs        []*pair
	history      *History
	load         *load
	healing      sync.WaitGroup
	running      sync.WaitGroup
	stop         context.CancelFunc
	read         readback
	source       int // the life of the source topic
	earliest     bool
	files        []io.Closer     // the logs of the processes
	healed       context.Context // ends when a wave's faults are over
}

func (l *lab) changelog() string { return l.group + "-totals-changelog" }

func (l *lab) lostPosition() string {
	if l.earliest {
		return "earliest"
	}
	return "fail"
}

// newLab builds what is needed and starts everything. Sidecars and workers are not up yet.
func newLab(ctx context.Context, o Options) (_ *lab, err error) {
	l := &lab{options: o, dir: o.Dir, checkout: o.Checkout, python: o.Python, binary: o.Binary, group: "drill", in: "in", ref: "ref", out: "out", history: NewHistory(o.HistoryOut)}
	ctx, l.stop = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.sockets, err = os.MkdirTemp("", "drill-"); err != nil { // short: the path of a socket has a limit
		return nil, err
	}
	if err := l.build(ctx); err != nil {
		return nil, err
	}
	for n := 1; n <= Pairs; n++ {
		p, err := l.newPair(n)
		if err != nil {
			return nil, err
		}
		l.pairs = append(l.pairs, p)
	}
	if l.cluster, err = startCluster(ctx, filepath.Join(l.dir, "kafka"), l.who); err != nil {
		return nil, err
	}
	begin, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, topic := range []string{l.in, l.ref, l.out} {
		if err := l.cluster.createTopic(begin, topic, Partitions); err != nil {
			return nil, err
		}
	}
	if l.load, err = newLoad(begin, l.cluster, l.in, l.ref, o.Rate, o.Seed); err != nil {
		return nil, err
	}
	l.running.Go(func() { l.load.run(ctx) })
	for _, p := range l.pairs {
		l.running.Go(func() { p.sidecar.run(ctx) })
		l.running.Go(func() { p.worker.run(ctx) })
	}
	l.running.Go(func() { l.watchMemory(ctx) })
	return l, nil
}

func (l *lab) build(ctx context.Context) error {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	if l.binary == "" {
		l.binary = filepath.Join(l.dir, "pillion")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", l.binary, "./cmd/sidecar")
		cmd.Dir = l.checkout
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build ./cmd/sidecar: %w\n%s", err, out)
		}
	}
	if _, err := os.Stat(l.python); err != nil {
		return fmt.Errorf("the drill needs a Python with the client: run `make setup` (%w)", err)
	}
	l.preload = filepath.Join(l.dir, "full.so")
	source := filepath.Join(l.checkout, "internal", "drill", "testdata", "full.c")
	if out, err := exec.CommandContext(ctx, "cc", "-O1", "-shared", "-fPIC", "-o", l.preload, source, "-ldl").CombinedOutput(); err != nil {
		return fmt.Errorf("build full.c: %w\n%s", err, out)
	}
	var err error
	l.node, err = nodeclient.Compile(ctx, l.checkout, "drill")
	return err
}

// close ends everything; nothing is left running.
func (l *lab) close() {
	l.stop()
	l.running.Wait()
	l.healing.Wait()
	if l.cluster != nil {
		l.cluster.close()
	}
	for _, f := range l.files {
		_ = f.Close()
	}
	_ = os.RemoveAll(l.sockets)
}

func (l *lab) watchMemory(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, p := range l.pairs {
				p.measure()
			}
		case <-ctx.Done():
			return
		}
	}
}

// up starts every pair, and waits until the group is whole.
func (l *lab) up(ctx context.Context) error {
	for _, p := range l.pairs {
		p.sidecar.up()
		p.worker.up()
	}
	return l.whole(ctx, rest)
}

// whole waits until four members share the group, each task runs, and every process is up.
func (l *lab) whole(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return again(ctx, "wait until the group is whole", func() (bool, error) {
		state, members, err := l.cluster.groupState(ctx, l.group)
		if err != nil {
			return false, err
		}
		if state != "Stable" || members != Pairs {
			return false, fmt.Errorf("the group is %s with %d members", state, members)
		}
		if err := l.history.Settled(); err != nil {
			return false, err
		}
		if down := l.down(); len(down) > 0 {
			return false, errors.New(down[0])
		}
		return true, nil
	})
}

// down are the processes that should be up and are not.
func (l *lab) down() (list []string) {
	for _, p := range l.pairs {
		for _, k := range []*keeper{p.sidecar, p.worker} {
			if k.pid() == 0 {
				list = append(list, k.name+" is not up")
			}
		}
	}
	for _, n := range l.cluster.kafka.Nodes {
		if !n.Running() {
			list = append(list, fmt.Sprintf("broker %d is not up", n.ID))
		}
	}
	return list
}

// consumed waits until the position of each partition is the end of the source.
func (l *lab) consumed(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return again(ctx, "wait until every input is committed", func() (bool, error) {
		ends, err := l.cluster.highWatermarks(ctx, l.in)
		if err != nil {
			return false, err
		}
		at, err := l.cluster.committed(ctx, l.group, l.in)
		if err != nil {
			return false, err
		}
		for p := range int32(Partitions) {
			if at[p] != ends[p] && ends[p] > 0 {
				return false, fmt.Errorf("partition %d is at %d of %d", p, at[p], ends[p])
			}
		}
		return true, nil
	})
}

// drain ends every pair as a pod ends: SIGTERM to all sidecars together; a worker that is still there when its
// sidecar has gone gets one, too. What does not end well is told.
func (l *lab) drain(ctx context.Context) (stuck []string) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for _, p := range l.pairs {
		p.worker.rest()
		p.sidecar.rest()
		p.leave(0, func() {})
	}
	for _, p := range l.pairs {
		for _, k := range []*keeper{p.sidecar, p.worker} {
			if k == p.worker && !k.goneWithin(ctx, 3*time.Second) {
				k.end(sigterm, 0, func() {})
			}
			if err := k.gone(ctx); err != nil {
				stuck = append(stuck, err.Error()+" within a minute of SIGTERM to its sidecar")
				k.end(sigkill, 0, func() {})
				_ = k.gone(context.WithoutCancel(ctx))
			}
		}
	}
	return stuck
}

func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.options.Out, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
