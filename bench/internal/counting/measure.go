package counting

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/pillion/pillion/bench/internal/machine"
)

const (
	runLimit = 10 * time.Minute
	stopping = 30 * time.Second
	between  = 10 * time.Millisecond // looks at what is committed
)

// Way is one way to count. Its command runs until SIGTERM, as the given group, whose changelog is group-counts-changelog.
type Way struct {
	Name    string
	Once    bool // every record of its changelog belongs to a transaction
	Command func(j Job, group, dir string) []string
}

// Changelog is where a group writes the table.
func Changelog(group string) string { return group + "-" + Table + "-changelog" }

// Table is the name of the table of counts.
const Table = "counts"

// Figures are what one run measured, between two commits: the first after the warm-up, and the last.
type Figures struct {
	Records   int64
	Seconds   float64
	commits   float64 // of one partition, a second
	Own       float64 // CPU seconds of the processes that were started
	Children  float64 // CPU seconds of those of them that the first one started: the workers of a sidecar
	Broker    float64 // CPU seconds of the broker
	elsewhere float64 // share of the machine that others had
	written   int     // records of the changelog, warm-up included
	disturbed bool    // others had too much of it
}

// Speed is records per second.
func (f Figures) Speed() float64 { return float64(f.Records) / f.Seconds }

// PerCPU is records per CPU second, the broker's included: what it costs whoever else uses the machine.
func (f Figures) PerCPU() float64 { return float64(f.Records) / (f.Own + f.Broker) }

// PerWorkerCPU is records per CPU second of the worker alone, which a sidecar has started.
func (f Figures) PerWorkerCPU() float64 { return float64(f.Records) / f.Children }

func (f Figures) String() string {
	own := fmt.Sprintf("%.2f", f.Own/f.millions())
	if f.Children > 0 {
		own = fmt.Sprintf("%s (the worker's %.2f)", own, f.Children/f.millions())
	}
	return fmt.Sprintf("%7.0f records/s  %5.1f commits/s of a partition  %s + %.2f broker CPU s per M records  %.2f M changelog records  elsewhere %2.0f %%",
		f.Speed(), f.commits, own, f.Broker/f.millions(), float64(f.written)/1e6, 100*f.elsewhere)
}

func (f Figures) millions() float64 { return float64(f.Records) / 1e6 }

// measure counts once in fresh processes as a fresh group, and checks the counts.
func (w Way) measure(ctx context.Context, o *Options, j Job, c *cluster) (f Figures, err error) {
	dir, err := os.MkdirTemp("", "bench-counting-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()

	group := strings.ReplaceAll(w.Name, "/", "-") + dir[strings.LastIndex(dir, "-"):]
	changelog := Changelog(group)
	if err := c.create(ctx, changelog, j.partitions, map[string]string{"cleanup.policy": "compact"}); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, c.remove(context.WithoutCancel(ctx), changelog)) }()
	p, err := start(w.Command(j, group, dir), o.Verbose)
	if err != nil {
		return f, err
	}
	f, err = p.watch(ctx, c, j, group, int64(o.Warmup))
	if err := errors.Join(err, p.stop()); err != nil {
		return f, fmt.Errorf("%w\n%s", err, p.said.String())
	}
	t, err := c.fold(ctx, changelog, j.partitions)
	if err != nil {
		return f, err
	}
	f.written = t.written
	return f, w.check(j, t)
}

// check refuses a run that counted wrong, or under another guarantee than it says.
func (w Way) check(j Job, t table) error {
	if want := j.counts(); !maps.Equal(t.rows, want) {
		wrong := 0
		for k, v := range want {
			if t.rows[k] != v {
				wrong++
			}
		}
		return fmt.Errorf("the changelog has %d rows, not %d, and %d of the right ones are wrong or missing", len(t.rows), len(want), wrong)
	}
	if want := map[bool]int{true: t.written, false: 0}[w.Once]; t.transactional != want {
		return fmt.Errorf("%d of %d records of the changelog were written in transactions, not %d", t.transactional, t.written, want)
	}
	return nil
}

// process is a way at work.
type process struct {
	cmd   *exec.Cmd
	said  *strings.Builder
	ended chan error
}

func start(args []string, verbose bool) (*process, error) {
	p := &process{exec.Command(args[0], args[1:]...), &strings.Builder{}, make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if verbose {
		p.cmd.Stdout, p.cmd.Stderr = os.Stderr, os.Stderr
	}
	p.cmd.WaitDelay = stopping
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p, nil
}

// stop ends it as an operator does, and waits. It may be called once, after watch.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return nil // watch has said so
	}
	select {
	case <-p.ended: // Java's code is 143, ours is 0
		return nil
	case <-time.After(stopping):
		return errors.Join(errors.New("it did not end when told to"), p.cmd.Process.Kill())
	}
}

// moment is a look at everything that is measured.
type moment struct {
	at        time.Time
	committed []int64
	machine   machine.Snapshot
	cpu       [3]float64 // the processes', the broker's, ours
	first     float64    // of the processes the one that started the others
}

// watch looks at what is committed until all is.
func (p *process) watch(ctx context.Context, c *cluster, j Job, group string, warmup int64) (Figures, error) {
	broker, err := machine.Listener(c.addrs[0])
	if err != nil {
		return Figures{}, err
	}
	var first *moment
	var seen []int64
	commits := 0
	for tick := time.NewTicker(between); ; {
		select {
		case err := <-p.ended:
			return Figures{}, fmt.Errorf("it ended before everything was counted: %w", err)
		case <-ctx.Done():
			return Figures{}, ctx.Err()
		case <-tick.C:
		}
		now, err := c.committed(ctx, group, j.Topic(), j.partitions)
		if kerr.IsRetriable(err) && first == nil {
			continue // the coordinator is not there yet
		}
		if err != nil {
			return Figures{}, err
		}
		if first != nil {
			commits += moved(seen, now)
		}
		seen = now
		done := sum(now)
		if done < warmup || first != nil && done < int64(j.records) {
			continue
		}
		m, err := p.look(now, broker)
		if err != nil {
			return Figures{}, err
		}
		if first != nil {
			return window(*first, m, commits), nil
		}
		if done == int64(j.records) {
			return Figures{}, errors.New("everything was counted before the first look: more records are needed")
		}
		first = &m
	}
}

// moved counts the partitions whose position is another one.
func moved(before, now []int64) (n int) {
	for p := range now {
		if now[p] != before[p] {
			n++
		}
	}
	return n
}

func (p *process) look(committed []int64, broker int) (m moment, err error) {
	m = moment{at: time.Now(), committed: committed}
	if m.machine, err = machine.Look(); err != nil {
		return m, err
	}
	all, err := machine.Processes()
	for i, pid := range []int{p.cmd.Process.Pid, broker, os.Getpid()} {
		if pid != 0 {
			m.cpu[i] = machine.CPU(all, pid)
		}
	}
	m.cpu[2] -= m.cpu[0] // they are our children
	m.first = all[p.cmd.Process.Pid].Ticks / machine.Ticks
	return m, err
}

// window is what happened between two moments.
func window(from, to moment, commits int) Figures {
	var used [3]float64
	var all float64
	for i := range used {
		used[i] = to.cpu[i] - from.cpu[i]
		all += used[i]
	}
	f := Figures{
		Records: sum(to.committed) - sum(from.committed), Seconds: to.at.Sub(from.at).Seconds(),
		Own: used[0], Children: used[0] - (to.first - from.first), Broker: used[1], elsewhere: to.machine.Elsewhere(from.machine, all),
	}
	f.commits = float64(commits) / float64(len(to.committed)) / f.Seconds
	return f
}
