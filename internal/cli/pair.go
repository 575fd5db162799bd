package cli

import (
	"context"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
)

// childPatience is how long a worker may take to exit by itself after its sidecar has drained.
const childPatience = 3 * time.Second

// pair is a sidecar and, with a command, its worker. When one ends the other does: a worker that
// exits drains the sidecar; a drained sidecar lets the worker exit, and helps after a while.
type pair struct {
	sidecar *sidecar
	child   *child // nil: the worker is started by somebody else
	dir     string // of socket and token; removed at the end
}

// Run serves until both have ended. Its error carries the worker's exit code.
func (p *pair) Run(ctx context.Context) error {
	defer p.close()
	if p.child == nil {
		return p.sidecar.Run(ctx)
	}
	var code int
	drained := make(chan struct{})
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer close(drained)
		err := p.sidecar.Run(ctx)
		if err != nil {
			p.child.dismiss() // nothing was told to it: it would look for its sidecar until its patience ends
		}
		return err
	})
	parts.Go(func() error {
		var err error
		code, err = p.child.Run(ctx, drained)
		if err == nil {
			level := hclog.Info
			if code != 0 {
				level = hclog.Warn
			}
			p.sidecar.log.Log(level, "the worker has ended", "exit_code", code)
		}
		p.sidecar.drain()
		return err
	})
	if err := parts.Wait(); err != nil {
		return err
	}
	if code != 0 {
		return exitError{code}
	}
	return nil
}

// drain hands everything over. A worker that has not connected yet has nothing to finish: it gets the
// signal at once.
func (p *pair) drain(s syscall.Signal) {
	if p.child != nil {
		p.child.ending(s)
		if !p.sidecar.runner.Status().Worker {
			p.child.signal(s)
		}
	}
	p.sidecar.drain()
}

func (p *pair) signal(s syscall.Signal) {
	if p.child != nil {
		p.child.signal(s)
	}
}

func (p *pair) kill() { p.signal(syscall.SIGKILL) }

func (p *pair) close() {
	if p.sidecar != nil {
		p.sidecar.close()
	}
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

// nthPort adds n to the port of an address; port 0 stays 0.
func nthPort(address string, n int) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", usagef("ops_listen %q is not host:port", address)
	}
	number, err := strconv.Atoi(port)
	if err != nil || number == 0 {
		return address, nil
	}
	return net.JoinHostPort(host, strconv.Itoa(number+n)), nil
}
