package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"github.com/pillion/pillion/groupclient"
	"github.com/pillion/pillion/internal/kafka"
)

const (
	// groupWithin is how long Kafka may take to answer `pillion group`.
	groupWithin = 20 * time.Second
	// settleWithin is how long a rebalance is waited for: only a stable group's shares are told.
	settleWithin = 3 * time.Second
	settleEvery  = 200 * time.Millisecond
)

const groupUsage = `pillion group - who owns and who shadows what in a group

Asks the group's coordinator, without being a member. Lags are as of each member's last join. While the group
rebalances shares are not told: that is waited for, up to %v.

Exit codes: 0 shown, 1 there is no such group or Kafka does not answer, 2 wrong flags or settings.

Flags:
%s`

// groupCommand is `pillion group`.
func (p *process) groupCommand(args []string) error {
	flags := newFlagsOf("group", kafkaRows("group_id"))
	asJSON := flags.Bool("json", false, "print JSON in place of a table")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintf(p.stdout, groupUsage, settleWithin, flags.FlagUsages())
			return nil
		}
		return usagef("%w; `pillion group --help` lists the flags", err)
	}
	s, _, _, err := load(flags, p.environ)
	switch {
	case err != nil:
		return err
	case flags.NArg() > 0:
		return usagef("pillion group takes no arguments, got %q: name the group with --group-id", strings.Join(flags.Args(), " "))
	case len(s.BootstrapServers) == 0:
		return usagef("bootstrap_servers is missing: say where Kafka is with --bootstrap-servers host:port or PILLION_BOOTSTRAP_SERVERS")
	case s.GroupID == "":
		return usagef("group_id is missing: name the group with --group-id or PILLION_GROUP_ID")
	}
	client, err := s.connect(hclog.NewNullLogger())
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), groupWithin)
	defer cancel()
	if err := refused(client.Admitted(ctx)); err != nil {
		return err
	}
	report, err := lookAt(ctx, client, s.GroupID)
	if err != nil {
		return err
	}
	if !*asJSON {
		_, err := p.stdout.Write([]byte(report.table(width(p.stdout, p.environ))))
		return err
	}
	out := json.NewEncoder(p.stdout)
	out.SetEscapeHTML(false)
	return out.Encode(report)
}

// lookAt describes a group and the topics of its sets.
func lookAt(ctx context.Context, client *kafka.Client, group string) (groupReport, error) {
	view, err := settled(ctx, func(ctx context.Context) (groupclient.View, error) { return groupclient.Describe(ctx, client, group) })
	if err != nil {
		return groupReport{}, err
	}
	if view.State == "Dead" {
		return groupReport{}, fmt.Errorf("there is no group %q in this Kafka: is group_id spelled as the workers spell it?", group)
	}
	counts := map[string]int32{}
	if names := sourcesOf(view); len(names) > 0 {
		topics, err := client.Topics(ctx, names...)
		if err != nil {
			return groupReport{}, err
		}
		for name, topic := range topics {
			var denied *kafka.AccessError
			if errors.As(topic.Err, &denied) {
				return groupReport{}, denied
			}
			counts[name] = int32(len(topic.Partitions))
		}
	}
	return reportOf(view, counts), nil
}

// settled asks until the group is stable, for a while.
func settled(ctx context.Context, describe func(context.Context) (groupclient.View, error)) (groupclient.View, error) {
	enough := time.NewTimer(settleWithin)
	defer enough.Stop()
	for {
		view, err := describe(ctx)
		if err != nil || !strings.HasSuffix(view.State, "Rebalance") {
			return view, err
		}
		select {
		case <-time.After(settleEvery):
		case <-enough.C:
			return view, nil
		case <-ctx.Done():
			return view, nil
		}
	}
}

func sourcesOf(view groupclient.View) (names []string) {
	for _, u := range view.Sets {
		names = append(names, u.Sources...)
	}
	return names
}
