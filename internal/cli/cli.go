// Package cli is the command `pillion`: it reads settings, puts the packages together and runs them.
//
// Commands: run (the sidecar, alone or with its worker as a child), dev (the same with a Kafka of its
// own), plan (the assignor without Kafka), version. Only this package reads flags and environment.
//
// Exit codes: 0 done; 1 the sidecar failed; 2 a mistake in the command line or settings; with a child
// its own exit code (128 + signal when it was killed).
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Version is set by the linker.
var Version = "dev"

const (
	exitOK    = 0
	exitFail  = 1
	exitUsage = 2
)

const usage = `pillion - the Kafka sidecar of one worker process

  pillion run --bootstrap-servers HOST:PORT [flags] [-- COMMAND ...]
      Start the sidecar; with a command also the worker, as its child.
  pillion dev [flags] -- COMMAND ...
      The same with an in-process Kafka that ends with it (needs the binary devkafka beside pillion).
      Missing topics are made, and a worker may be stopped in a debugger.
  pillion drain [--listen ADDRESS] [--token-file FILE]
      Have a running sidecar hand over its tasks and end; wait until it has.
  pillion group --group-id GROUP --bootstrap-servers HOST:PORT [--json]
      Print who owns and who shadows what in a group.
  pillion plan [--input FILE] [--next] [--json]
      Print how a group's partitions would be shared, without Kafka; the group is JSON.
  pillion conformance [--level stateless|tables|standby] -- COMMAND ...
      Check a client that somebody wrote: play the sidecar against it, without Kafka.
  pillion version

pillion run --help lists the flags. Every setting --some-name is also PILLION_SOME_NAME in the environment
and some_name in the YAML file of --config (all flags but --config, --print-config, --workers, --restart); flags win over the environment, that over the file.
With a COMMAND, listen is a Unix socket of its own and ops_listen is off, unless they are given.

Exit codes: 0 done, 1 the sidecar failed, 2 wrong flags or settings; with a COMMAND its own exit code
(128 + signal when it was killed).
`

// Main runs one command and returns its exit code.
func Main(args, environ []string, stdout, stderr io.Writer) int {
	return (&process{environ: environ, stdin: os.Stdin, stdout: stdout, stderr: stderr}).main(args)
}

func (p *process) main(args []string) int {
	err := p.dispatch(args)
	var usageErr usageError
	var exit exitError
	switch {
	case err == nil, errors.Is(err, errHelp):
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usageErr):
		fmt.Fprintf(p.stderr, "pillion: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(p.stderr, "pillion: %v\n", err)
		return exitFail
	}
}

// process is what a command sees of the outside.
type process struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// exitError carries the exit code of a worker.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (p *process) dispatch(args []string) error {
	if len(args) == 0 {
		fmt.Fprint(p.stderr, usage)
		return exitError{exitUsage}
	}
	switch args[0] {
	case "run":
		return p.runCommand(args[1:])
	case "dev":
		return p.devCommand(args[1:])
	case "conformance":
		return p.conformanceCommand(args[1:])
	case "drain":
		return p.drainCommand(args[1:])
	case "group":
		return p.groupCommand(args[1:])
	case "plan":
		return p.planCommand(args[1:])
	case "version", "--version":
		fmt.Fprintf(p.stdout, "pillion %s\n", Version)
		return nil
	case "help", "--help", "-h":
		fmt.Fprint(p.stdout, usage)
		return nil
	default:
		return usagef("unknown command %q: use run, dev, drain, group, conformance, plan or version", args[0])
	}
}

// options are the settings of a command and its child.
type options struct {
	Settings
	given    map[string]string // where each setting that is not a default came from
	own      map[string]string // what a setting that was not given will be instead of its default
	warnings []string
	command  []string
	workers  int
	restart  bool
}

// parse reads the arguments of run or dev. It returns errHelp when there is nothing more to do.
func (p *process) parse(flags *pflag.FlagSet, args []string, adjust func(*options) error) (*options, error) {
	workers := flags.Int("workers", 1, "start so many pairs of sidecar and worker")
	restart := flags.Bool("restart", false, "start a worker again that was killed or crashed; the sidecar stays")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintf(p.stdout, "%s\nFlags of %s:\n%s", usage, flags.Name(), flags.FlagUsages())
			return nil, errHelp
		}
		return nil, usagef("%w; %s", err, secretOr(err.Error(), fmt.Sprintf("`pillion %s --help` lists the flags", flags.Name())))
	}
	s, given, warnings, err := load(flags, p.environ)
	if err != nil {
		return nil, err
	}
	s.standbysGiven = given["num_standby_replicas"] != ""
	if given["transaction_timeout"] == "" { // its default is no reason to refuse a shorter revoke_timeout
		s.TransactionTimeout = min(s.TransactionTimeout, s.RevokeTimeout)
	}
	o := &options{Settings: s, given: given, own: map[string]string{}, warnings: warnings, command: flags.Args(), workers: *workers, restart: *restart}
	if len(o.command) > 0 && flags.ArgsLenAtDash() != 0 {
		return nil, usagef("%q is no flag: put the worker's command behind --", strings.Join(o.command, " "))
	}
	if o.workers < 1 {
		return nil, usagef("--workers is %d, must be at least 1", o.workers)
	}
	if len(o.command) == 0 && (o.workers > 1 || o.restart) {
		return nil, usagef("--workers and --restart need a worker's command behind --")
	}
	if len(o.command) > 0 {
		o.own["listen"], o.own["ops_listen"] = "a Unix socket of the pair's own", "off, as the worker is a child"
		o.own["token_file"] = "a file of the pair's own"
	}
	if adjust != nil {
		if err := adjust(o); err != nil {
			return nil, err
		}
	}
	if print, _ := flags.GetBool("print-config"); print {
		printConfig(p.stdout, o)
		for _, w := range o.warnings {
			fmt.Fprintln(p.stderr, "pillion:", w)
		}
		return nil, errHelp
	}
	return o, o.check()
}
