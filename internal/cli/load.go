package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// workerEnv are the variables that a worker reads; the sidecar is not surprised by them.
var workerEnv = []string{"PILLION_URL"}

// usageError is a mistake on the command line or in the settings.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// load fills the settings: flags over environment over YAML over defaults. It returns where each
// given value came from, and warnings.
func load(flags *pflag.FlagSet, environ []string) (s Settings, given map[string]string, warnings []string, err error) {
	given = map[string]string{}
	put := func(row setting, value, source string) error {
		if err := row.set(&s, value); err != nil {
			return usagef("%s (%s) %w", row.name, source, err)
		}
		given[row.name] = source
		return nil
	}
	for _, row := range settings {
		if err := row.set(&s, row.deflt); err != nil {
			return s, nil, nil, fmt.Errorf("default of %s %w", row.name, err)
		}
	}
	file, err := readFile(flags)
	if err != nil {
		return s, nil, nil, err
	}
	env, warnings := readEnv(environ)
	for _, row := range settings {
		if v, ok := file[row.name]; ok {
			if err := put(row, v, "in the --config file"); err != nil {
				return s, nil, nil, err
			}
		}
		if v, ok := env[row.env()]; ok {
			if err := put(row, v, row.env()); err != nil {
				return s, nil, nil, err
			}
		}
		if f := flags.Lookup(row.flag()); f != nil && f.Changed {
			if err := put(row, f.Value.String(), "--"+row.flag()); err != nil {
				return s, nil, nil, err
			}
		}
	}
	s.takeSecrets(environ)
	return s, given, warnings, nil
}

func readEnv(environ []string) (values map[string]string, warnings []string) {
	values = map[string]string{}
	known := map[string]bool{}
	for _, row := range settings {
		known[row.env()] = true
	}
	var unknown []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if known[name] {
			values[name] = value
		} else if strings.HasPrefix(name, "PILLION_") && !slices.Contains(workerEnv, name) && !slices.Contains(secretEnv, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		warnings = append(warnings, "environment variables that are no setting are ignored: "+strings.Join(unknown, ", "))
	}
	return values, warnings
}

func readFile(flags *pflag.FlagSet) (map[string]string, error) {
	path, _ := flags.GetString("config")
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("cannot read --config: %w", err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, usagef("%s is not YAML of the form `name: value`: %s", path, whatParserSays(err))
	}
	values := map[string]string{}
	for name, v := range doc {
		if !slices.ContainsFunc(settings, func(r setting) bool { return r.name == name }) {
			return nil, usagef("%s: unknown key %q; %s", path, name, secretOr(name, "`pillion run --help` lists the settings"))
		}
		values[name] = yamlText(v)
	}
	return values, nil
}

// secretOr is advice about a flag or key that is unknown, and other advice where it does not name a secret.
func secretOr(name, other string) string {
	name = strings.ReplaceAll(name, "-", "_")
	for i, file := range []string{"sasl_password", "sasl_oauthbearer_client_secret"} {
		if strings.HasSuffix(name, file) {
			return "secrets are no flag and no key: write it to a file and name that as " + file + "_file, or set " + secretEnv[i]
		}
	}
	return other
}

// whatParserSays is one line that shows nothing of the file: what stands there may be a secret, where it does not belong.
func whatParserSays(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, quotedText.ReplaceAllString(strings.TrimSpace(line), "'...'"))
	}
	return strings.Join(lines, " ")
}

var quotedText = regexp.MustCompile("`.*`|'[^']{2,}'")

func yamlText(v any) string {
	if list, ok := v.([]any); ok {
		items := make([]string, len(list))
		for i, item := range list {
			items[i] = fmt.Sprint(item)
		}
		return strings.Join(items, ",")
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// check refuses combinations that cannot work, and settings whose feature is not built yet.
func (s *Settings) check() error {
	if len(s.BootstrapServers) == 0 {
		return usagef("bootstrap_servers is missing: say where Kafka is with --bootstrap-servers host:port or PILLION_BOOTSTRAP_SERVERS")
	}
	if s.RevokeTimeout < time.Millisecond {
		return usagef("revoke_timeout is %v, must be at least 1ms", s.RevokeTimeout)
	}
	if s.TransactionTimeout < time.Second {
		return usagef("transaction_timeout is %v, must be at least 1s", s.TransactionTimeout)
	}
	if s.TransactionTimeout > s.RevokeTimeout {
		return usagef("transaction_timeout (%v) is more than revoke_timeout (%v): make it shorter", s.TransactionTimeout, s.RevokeTimeout)
	}
	if s.HeartbeatInterval <= 0 || s.HeartbeatInterval*3 > s.SessionTimeout {
		return usagef("heartbeat_interval is %v, must be more than 0 and at most a third of session_timeout (%v)", s.HeartbeatInterval, s.SessionTimeout)
	}
	return nil
}

// printConfig shows every setting with its value and where it came from. What is only known once
// the sidecar has started is a comment.
func printConfig(w io.Writer, o *options) {
	for _, row := range settings {
		line, source := row.name+": "+row.get(&o.Settings), o.given[row.name]
		if source == "" {
			source = "default"
			if own := o.own[row.name]; own != "" {
				line, source = "# "+row.name, own
			}
		}
		fmt.Fprintf(w, "%-44s # %s\n", line, source)
	}
}

// newFlags makes the flag set of a command that takes all settings.
func newFlags(command string) *pflag.FlagSet {
	flags := newFlagsOf(command, settings)
	flags.Bool("print-config", false, "print the settings in force and where each comes from, then exit")
	return flags
}

// rows picks settings by name.
func rows(names ...string) []setting {
	var picked []setting
	for _, row := range settings {
		if slices.Contains(names, row.name) {
			picked = append(picked, row)
		}
	}
	return picked
}

// newFlagsOf makes the flag set of a command that takes some settings.
func newFlagsOf(command string, some []setting) *pflag.FlagSet {
	flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetInterspersed(false)
	flags.SetOutput(io.Discard)
	for _, row := range some {
		if row.kind == "bool" {
			flags.Bool(row.flag(), false, row.help)
			continue
		}
		if other, ok := ofDev[row.name]; ok && command == "dev" {
			row.deflt, row.help = other.deflt, other.help
		}
		flags.VarPF(&flagValue{value: row.deflt, kind: row.kind}, row.flag(), "", row.help)
	}
	flags.String("config", "", "YAML file with settings")
	return flags
}

// flagValue keeps the text; the settings table reads it.
type flagValue struct{ value, kind string }

func (f *flagValue) String() string     { return f.value }
func (f *flagValue) Set(v string) error { f.value = v; return nil }
func (f *flagValue) Type() string       { return f.kind }

var errHelp = errors.New("help")
