package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/pflag"

	scenarios "github.com/pillion/pillion"
	"github.com/pillion/pillion/internal/conformance"
)

const conformanceUsage = `pillion conformance [flags] -- COMMAND ...

  Play the sidecar against a worker, case by case, and say what was expected and what came. COMMAND is
  started anew for each case, with PILLION_URL and PILLION_TOKEN_FILE; it runs the conformance job that
  spec/scenarios/README.md describes. No Kafka is needed.

  Exit codes: 0 every case passed, 1 one failed, 2 wrong flags.

Flags of conformance:
`

// conformanceCommand is `pillion conformance`.
func (p *process) conformanceCommand(args []string) error {
	flags := pflag.NewFlagSet("conformance", pflag.ContinueOnError)
	flags.Usage = func() {}
	level := flags.String("level", "tables", "what the worker can do: stateless, tables or standby, each with all before it")
	cases := flags.StringArray("case", nil, "play only this case; may be given again")
	list := flags.Bool("list", false, "say which cases there are")
	asJSON := flags.Bool("json", false, "print one JSON object for each case")
	parallel := flags.Int("parallel", min(4, runtime.NumCPU()), "cases at the same time")
	patience := flags.Duration("patience", conformance.DefaultPatience, "how long the worker may take for each thing that it owes")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintf(p.stdout, "%s%s", conformanceUsage, flags.FlagUsages())
			return errHelp
		}
		return usagef("%w; `pillion conformance --help` lists the flags", err)
	}
	if flags.NArg() > 0 && flags.ArgsLenAtDash() != 0 {
		return usagef("%q is no flag: put the worker's command behind --", flags.Arg(0))
	}
	o := conformance.Options{Command: flags.Args(), Environ: append([]string{}, without(p.environ, secretEnv...)...), Level: *level, Cases: *cases, Parallel: *parallel, Patience: *patience}
	if *list && len(o.Command) == 0 {
		o.Command = []string{"none"}
	}
	if err := o.Validate(); err != nil {
		return usagef("%w", err)
	}
	chosen, err := chooseCases(o)
	if err != nil {
		return err
	}
	if *list {
		conformance.List(p.stdout, chosen)
		return nil
	}
	return p.conform(chosen, o, *asJSON)
}

func chooseCases(o conformance.Options) ([]conformance.Scenario, error) {
	files, err := fs.Sub(scenarios.Scenarios, "spec/scenarios")
	if err != nil {
		return nil, err
	}
	all, err := conformance.Load(files)
	if err != nil {
		return nil, fmt.Errorf("spec/scenarios: %w", err)
	}
	chosen, err := conformance.Choose(all, o.Level, o.Cases)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return chosen, nil
}

// conform plays the cases and prints each when it has ended.
func (p *process) conform(chosen []conformance.Scenario, o conformance.Options, asJSON bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var results []conformance.Result
	err := conformance.Run(ctx, chosen, o, func(r conformance.Result) {
		results = append(results, r)
		if asJSON {
			_ = conformance.JSON(p.stdout, r)
			return
		}
		conformance.Text(p.stdout, r)
	})
	if err != nil {
		return fmt.Errorf("stopped: %w", err)
	}
	if !asJSON {
		conformance.Summary(p.stdout, results, o.Level)
	}
	for _, r := range results {
		if !r.Pass {
			return exitError{exitFail}
		}
	}
	return nil
}
