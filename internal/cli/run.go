package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
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
	parts, ctx := errgroup.WithContext(ctx)
	for _, pair := range pairs {
		parts.Go(func() error { return pair.Run(ctx) })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay(ctx, signals, pairs, cancel)
	}()
	err := parts.Wait()
	cancel()
	<-done
	return err
}

// relay hands signals on until ctx ends.
func relay(ctx context.Context, signals <-chan os.Signal, pairs []*pair, stop func()) {
	draining := false
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			ends := s == syscall.SIGTERM || s == syscall.SIGINT
			if ends && draining {
				for _, p := range pairs {
					p.kill()
				}
				stop()
				return
			}
			draining = draining || ends
			for _, p := range pairs {
				if ends {
					p.drain(s.(syscall.Signal))
				} else {
					p.signal(s.(syscall.Signal))
				}
			}
		}
	}
}

// newPair makes the sidecar of a worker, and the worker when there is a command.
func (p *process) newPair(o *options, i int) (*pair, error) {
	s := o.Settings
	name := "pillion"
	if o.workers > 1 {
		name = fmt.Sprintf("pillion-%d", i+1)
	}
	made := &pair{child: nil}
	token, err := readToken(s.TokenFile)
	if err != nil {
		return nil, err
	}
	if len(o.command) > 0 {
		dir, err := os.MkdirTemp("", "pillion-")
		if err != nil {
			return nil, err
		}
		made.dir = dir
		if o.given["listen"] == "" {
			s.Listen = "unix:" + filepath.Join(dir, "worker.sock")
		} else if o.workers > 1 {
			return nil, usagef("--listen names one address, but --workers is %d: leave --listen out", o.workers)
		}
		if o.given["ops_listen"] == "" {
			s.OpsListen = ""
		} else if o.workers > 1 && i > 0 {
			if s.OpsListen, err = nthPort(s.OpsListen, i); err != nil {
				return nil, err
			}
		}
		if token == "" {
			if token, s.TokenFile, err = makeToken(dir); err != nil {
				made.close()
				return nil, err
			}
		}
	}
	log := newLogger(s, p, name)
	for _, w := range o.warnings {
		log.Warn(w)
	}
	if made.sidecar, err = newSidecar(s, token, log); err != nil {
		made.close()
		return nil, err
	}
	if len(o.command) > 0 {
		label := "worker"
		if o.workers > 1 {
			label = fmt.Sprintf("worker-%d", i+1)
		}
		env := append(without(p.environ, "PILLION_URL", "PILLION_TOKEN_FILE"),
			"PILLION_URL="+made.sidecar.bridge.URL(), "PILLION_TOKEN_FILE="+s.TokenFile)
		made.child = newChild(o.command, env, label, p.stdout, p.stderr, log, o.restart)
	} else {
		log.Info("waiting for a worker", "url", made.sidecar.bridge.URL())
	}
	return made, nil
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

func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", usagef("cannot read token_file: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", usagef("token_file %s is empty: write a token into it", path)
	}
	return token, nil
}

func makeToken(dir string) (token, path string, err error) {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return "", "", err
	}
	token, path = hex.EncodeToString(raw), filepath.Join(dir, "token")
	return token, path, os.WriteFile(path, []byte(token+"\n"), 0o600)
}
