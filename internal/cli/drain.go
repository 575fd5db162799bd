package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pillion/pillion/internal/plan"
)

// dialWithin is how long a listener may take to accept a connection.
const dialWithin = 5 * time.Second

// drainCommand is `pillion drain`: it asks a running sidecar to hand everything over and waits until it
// has. Where the sidecar listens it reads from the same flags, environment and file as the sidecar
// itself, or from the worker's PILLION_URL.
func (p *process) drainCommand(args []string) error {
	flags := newFlagsOf("drain", rows("listen", "token_file"))
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintf(p.stdout, drainUsage, flags.FlagUsages())
			return nil
		}
		return usagef("%w; `pillion drain --help` lists the flags", err)
	}
	if flags.NArg() > 0 {
		return usagef("pillion drain takes no arguments, got %q", strings.Join(flags.Args(), " "))
	}
	s, given, _, err := load(flags, p.environ)
	if err != nil {
		return err
	}
	if url := lookup(p.environ, "PILLION_URL"); url != "" && given["listen"] == "" {
		s.Listen = strings.TrimSuffix(strings.TrimPrefix(url, "ws://"), "/")
	}
	token, err := showToken(s.TokenFile)
	if err != nil {
		return err
	}
	done, err := askDrain(context.Background(), s.Listen, token)
	if err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, done)
	return nil
}

const drainUsage = `pillion drain - hand over what a sidecar has, and end it

The worker finishes and commits what it has in hand, its tasks go to others of the group, the sidecar leaves
the group and exits with 0. Waits until that is done; one line says how it went.

Exit codes: 0 done, 1 it was not (a sentence says why), 2 wrong flags or settings.

Flags:
%s`

// showToken is the token that the sidecar asks for; unlike the sidecar's own reading it makes none.
func showToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", usagef("cannot read token_file: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	return token, checkToken(path, token)
}

var errSilent = fmt.Errorf("is no sidecar, it says nothing for %v", dialWithin)

// askDrain sends the request and waits for its answer, as long as the drain takes.
func askDrain(ctx context.Context, listen, token string) (string, error) {
	host, tr := listen, &http.Transport{DisableKeepAlives: true}
	dialer := net.Dialer{Timeout: dialWithin}
	if socket, ok := strings.CutPrefix(listen, "unix:"); ok {
		host = "localhost"
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	} else {
		tr.DialContext = dialer.DialContext
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/drain", nil)
	if err != nil || strings.TrimPrefix(listen, "unix:") == "" {
		return "", usagef("listen %q is no address: give 127.0.0.1:7420 or unix:/path", listen)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(dialWithin, func() { cancel(errSilent) })
	defer silent.Stop()
	heard := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { silent.Stop(); return nil }}
	resp, err := tr.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, heard)))
	var dial *net.OpError
	switch {
	case err != nil && context.Cause(ctx) == errSilent:
		return "", fmt.Errorf("what listens at %s %w: is --listen right?", listen, errSilent)
	case errors.As(err, &dial) && dial.Op == "dial":
		return "", fmt.Errorf("no sidecar listens at %s: it has ended already, or --listen is another (%w)", listen, dial.Err)
	case err != nil:
		return "", fmt.Errorf("the sidecar at %s ended without an answer: look at its log for how the drain went", listen)
	}
	defer resp.Body.Close()
	return drainAnswer(listen, resp)
}

func drainAnswer(listen string, resp *http.Response) (string, error) {
	var said struct {
		Drained bool
		Tasks   int
		TookMS  int64 `json:"took_ms"`
		Message string
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil {
		err = json.Unmarshal(raw, &said)
	}
	switch {
	case err != nil || said.Message == "" && !said.Drained:
		return "", fmt.Errorf("what answers at %s is no sidecar that can drain (%s): is --listen right?", listen, resp.Status)
	case said.Drained:
		took := (time.Duration(said.TookMS) * time.Millisecond).Round(10 * time.Millisecond)
		if said.Tasks == 0 {
			return fmt.Sprintf("drained in %v: there was no task to hand over", took), nil
		}
		return fmt.Sprintf("drained in %v: %s handed over", took, plan.Counted(said.Tasks, "task")), nil
	case resp.StatusCode == http.StatusNotFound:
		return "", fmt.Errorf("the sidecar at %s is too old to be drained this way: send it SIGTERM", listen)
	default:
		return "", fmt.Errorf("the sidecar at %s has not drained: %s", listen, said.Message)
	}
}

// lookup finds a variable in an environment.
func lookup(environ []string, name string) string {
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}
