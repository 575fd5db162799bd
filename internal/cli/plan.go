package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/pillion/pillion/internal/plan"
)

const planUsage = `pillion plan [--input FILE] [--next] [--json]
    Print who would own and who would shadow each partition of a group, without Kafka.
    The group is one JSON object on stdin or in FILE:

    {"replicas": 1, "topics": {"orders": 4, "orders-log": 4},
     "members": [{"id": "a", "generation": 7, "sources": ["orders"],
                  "tables": [{"name": "t", "changelog": "orders-log"}],
                  "active": {"orders": [0, 1]}, "standby": {"orders-log": [2]}}, ...]}

    Optional: of the group capacity (most actives of one set on a member), warmups (copies made at once so
    that a task that is to move is warm there; 0: it moves cold) and acceptable_lag (records that a warm
    copy may be behind); of a member sets in place of sources and tables, globals, rack, draining,
    no_standby, lags (of its standbys, in their order: {"orders-log": [120]}).
`

// planCommand is `pillion plan`. Bad input is one sentence and exit code 2.
func (p *process) planCommand(args []string) error {
	flags := pflag.NewFlagSet("plan", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	input := flags.String("input", "-", "file with the group; - is stdin")
	next := flags.Bool("next", false, "what the next generation hands out on the way to the target")
	asJSON := flags.Bool("json", false, "print JSON in place of a table")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(p.stdout, "%s\nFlags of plan:\n%s", planUsage, flags.FlagUsages())
		return errHelp
	case err != nil:
		return usagef("%w; `pillion plan --help` lists the flags", err)
	case flags.NArg() > 0:
		return usagef("%q is no flag: name a file with --input, or give the group on stdin", flags.Arg(0))
	}
	from := p.stdin
	if *input != "-" {
		file, err := os.Open(*input)
		if err != nil {
			return usagef("--input cannot be read: %w", err)
		}
		defer file.Close()
		from = file
	}
	request, err := plan.Read(from)
	if err != nil {
		return usageError{err}
	}
	result, err := request.Plan(*next)
	if err != nil {
		return usageError{err}
	}
	if *asJSON {
		return result.JSON(p.stdout)
	}
	return result.Table(p.stdout)
}
