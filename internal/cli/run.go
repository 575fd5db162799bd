package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// runCommand is `pillion run`.
func (p *process) runCommand(args []string) error {
	o, err := p.parse(newFlags("run"), args, nil)
	if err != nil {
		return err
	}
	return p.run(context.Background(), o)
}

// run serves until it is drained. The first SIGTERM or SIGINT drains; a second one ends at once.
func (p *process) run(ctx context.Context, o *options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)

	pairs := make([]*pair, o.workers)
	for i := range pairs {
		made, err := p.newPair(o, i)
		if err != nil {
			for _, earlier := range pairs[:i] {
				earlier.close()
			}
			return err
		}
		pairs[i] = made
	}
	limitMemory(p.environ, pairs)
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay(ctx, signals, pairs, cancel)
	}()
	admission := pairs[0].sidecar.admit(ctx, cancel)
	var err error
	if ctx.Err() == nil {
		err = runPairs(ctx, pairs)
	} else { // no worker is started for that
		for _, pair := range pairs {
			pair.close()
		}
	}
	cancel()
	<-done
	return admission.ends(err)
}

// runPairs serves until all pairs have ended. When one ends the others go on: they take its tasks. The
// error is that of the first pair that ended with one.
func runPairs(ctx context.Context, pairs []*pair) error {
	ended := make(chan error, len(pairs))
	for _, pair := range pairs {
		go func() { ended <- pair.Run(ctx) }()
	}
	var first error
	for left := len(pairs) - 1; left >= 0; left-- {
		err := <-ended
		if err == nil {
			continue
		}
		if first == nil {
			first = err
		}
		if left > 0 && ctx.Err() == nil {
			pairs[0].sidecar.log.Warn("a pair has ended, the others go on", "error", err, "left", left)
		}
	}
	return first
}

// newPair makes the sidecar of a worker, and the worker when there is a command.
func (p *process) newPair(o *options, i int) (made *pair, err error) {
	made = &pair{}
	defer func() {
		if err != nil {
			made.close()
		}
	}()
	s := o.Settings
	if len(o.command) > 0 {
		if made.dir, err = os.MkdirTemp("", "pillion-"); err != nil {
			return made, err
		}
		if s, err = o.beside(made.dir, i); err != nil {
			return made, err
		}
	}
	token, err := readToken(s.TokenFile)
	if err != nil {
		return made, err
	}
	log := newLogger(s, p, numbered("pillion", o, i))
	for _, w := range o.warnings {
		log.Warn(w)
	}
	if made.sidecar, err = newSidecar(s, token, log); err != nil {
		return made, err
	}
	made.sidecar.drains.begin = func() { made.drain(syscall.SIGTERM) }
	if len(o.command) == 0 {
		if token == "" {
			log.Warn("no token_file is set: every local process can connect as the worker")
		}
		log.Info("waiting for a worker", "url", made.sidecar.bridge.URL())
		return made, nil
	}
	env := append(without(without(p.environ, secretEnv...), "PILLION_URL", "PILLION_TOKEN_FILE"),
		"PILLION_URL="+made.sidecar.bridge.URL(), "PILLION_TOKEN_FILE="+s.TokenFile)
	made.child = newChild(o.command, env, numbered("worker", o, i), p.stdout, p.stderr, log, o.restart)
	return made, nil
}

func numbered(name string, o *options, i int) string {
	if o.workers > 1 {
		return fmt.Sprintf("%s-%d", name, i+1)
	}
	return name
}

// beside are the settings of the i-th sidecar that has its worker as a child: a socket and a token of
// its own in dir, and probes only when they are asked for.
func (o *options) beside(dir string, i int) (Settings, error) {
	s := o.Settings
	if o.given["listen"] == "" {
		s.Listen = "unix:" + filepath.Join(dir, "worker.sock")
	} else if o.workers > 1 {
		return s, usagef("--listen names one address, but --workers is %d: leave --listen out", o.workers)
	}
	if o.given["ops_listen"] == "" {
		s.OpsListen = ""
	} else if i > 0 {
		var err error
		if s.OpsListen, err = nthPort(s.OpsListen, i); err != nil {
			return s, err
		}
	}
	if s.TokenFile == "" {
		s.TokenFile = filepath.Join(dir, "token")
	}
	return s, nil
}

func without(environ []string, names ...string) []string {
	var kept []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		drop := false
		for _, n := range names {
			drop = drop || n == name
		}
		if !drop {
			kept = append(kept, kv)
		}
	}
	return kept
}
