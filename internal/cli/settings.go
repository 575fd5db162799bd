package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/pillion/pillion/internal/kafka"
)

// Settings are everything that a user can set. Each has one name: flag --group-id, environment
// PILLION_GROUP_ID, YAML key group_id.
type Settings struct {
	BootstrapServers    []string
	GroupID             string
	GroupInstanceID     string
	AllowedTopics       []string
	AutoOffsetReset     string
	OnLostPosition      string
	ProcessingGuarantee string
	AcceptStateLoss     bool
	Rack                string

	NumStandbyReplicas    int
	MaxWarmupReplicas     int
	AcceptableRecoveryLag int

	WorkerGrace        time.Duration
	MaxProcessing      time.Duration
	SessionTimeout     time.Duration
	HeartbeatInterval  time.Duration
	RevokeTimeout      time.Duration
	TransactionTimeout time.Duration
	DrainTimeout       time.Duration

	MaxCommitBytes  int64
	CompressionType string

	Listen         string
	OpsListen      string
	TokenFile      string
	AllowedOrigins []string

	CreateTopics int

	LogLevel  string
	LogFormat string

	Security kafka.Security

	defaultGroup  string // of dev
	standbysGiven bool   // num_standby_replicas overrules the worker's hello
}

// setting is one row of the table that flags, environment, YAML, --print-config and the README share.
type setting struct {
	name  string // in YAML
	kind  string // as --help names the value
	deflt string
	help  string
	set   func(s *Settings, v string) error
	get   func(s *Settings) string // as YAML takes it
}

func (s setting) flag() string { return strings.ReplaceAll(s.name, "_", "-") }
func (s setting) env() string  { return "PILLION_" + strings.ToUpper(s.name) }

// settings is the table, in the order of --help.
var settings = append([]setting{
	list("bootstrap_servers", "", "Kafka brokers, host:port, separated by commas; the only one required", func(s *Settings) *[]string { return &s.BootstrapServers }),
	text("group_id", "", "consumer group; overrules the worker's hello", func(s *Settings) *string { return &s.GroupID }),
	text("group_instance_id", "", "static membership: a name that no other member has", func(s *Settings) *string { return &s.GroupInstanceID }),
	list("allowed_topics", "", "topics the worker may name, exact or prefix*; empty: all", func(s *Settings) *[]string { return &s.AllowedTopics }),
	choice("auto_offset_reset", "earliest", "where to begin when nothing is committed and there is no state", func(s *Settings) *string { return &s.AutoOffsetReset }, "earliest", "latest", "none"),
	choice("on_lost_position", "fail", "what to do when a committed position is gone", func(s *Settings) *string { return &s.OnLostPosition }, "fail", "earliest", "latest"),
	choice("processing_guarantee", "exactly_once", "what a crash may repeat", func(s *Settings) *string { return &s.ProcessingGuarantee }, "exactly_once", "at_least_once"),
	boolean("accept_state_loss", "open tasks although a changelog is missing or was created anew", func(s *Settings) *bool { return &s.AcceptStateLoss }),
	text("rack", "", "rack or zone of this sidecar", func(s *Settings) *string { return &s.Rack }),
	integer("num_standby_replicas", "0", "warm copies of each task", func(s *Settings) *int { return &s.NumStandbyReplicas }),
	integer("max_warmup_replicas", "2", "copies made at once so that a task that is to move is warm there; 0: tasks move cold", func(s *Settings) *int { return &s.MaxWarmupReplicas }),
	integer("acceptable_recovery_lag", "10000", "records that a warm copy may be behind", func(s *Settings) *int { return &s.AcceptableRecoveryLag }),
	duration("worker_grace", "10s", "how long a worker may be gone before the group is left", func(s *Settings) *time.Duration { return &s.WorkerGrace }),
	duration("max_processing", "5m", "how long a worker may make no progress while it owes some; 0: no limit", func(s *Settings) *time.Duration { return &s.MaxProcessing }),
	duration("session_timeout", "10s", "how long the broker waits for a heartbeat of this sidecar", func(s *Settings) *time.Duration { return &s.SessionTimeout }),
	duration("heartbeat_interval", "500ms", "time between heartbeats", func(s *Settings) *time.Duration { return &s.HeartbeatInterval }),
	duration("revoke_timeout", "10s", "how long the worker may take for its last commit of a task", func(s *Settings) *time.Duration { return &s.RevokeTimeout }),
	duration("transaction_timeout", "10s", "after which Kafka aborts a transaction of ours; not more than revoke_timeout", func(s *Settings) *time.Duration { return &s.TransactionTimeout }),
	duration("drain_timeout", "25s", "how long a drain may take before everything is given up", func(s *Settings) *time.Duration { return &s.DrainTimeout }),
	size("max_commit_bytes", "16MiB", "writes of one commit", func(s *Settings) *int64 { return &s.MaxCommitBytes }),
	choice("compression_type", "lz4", "compression of what the worker writes", func(s *Settings) *string { return &s.CompressionType }, "none", "gzip", "snappy", "lz4", "zstd"),
	text("listen", "127.0.0.1:7420", "where the worker connects: loopback host:port or unix:/path", func(s *Settings) *string { return &s.Listen }),
	text("ops_listen", ":9420", "probes and metrics; empty: off", func(s *Settings) *string { return &s.OpsListen }),
	text("token_file", "", "file with the token that the worker must show; made when it is missing", func(s *Settings) *string { return &s.TokenFile }),
	list("allowed_origins", "", "Origin headers that are let in (browsers); empty: none", func(s *Settings) *[]string { return &s.AllowedOrigins }),
	integer("create_topics", "0", "development: partitions of missing sources and outputs; 0: refuse", func(s *Settings) *int { return &s.CreateTopics }),
	choice("log_level", "info", "log level", func(s *Settings) *string { return &s.LogLevel }, "debug", "info", "warn", "error"),
	choice("log_format", "text", "log format", func(s *Settings) *string { return &s.LogFormat }, "text", "json"),
}, securityRows...)

func text(name, deflt, help string, at func(*Settings) *string) setting {
	return setting{name, "string", deflt, help,
		func(s *Settings, v string) error { *at(s) = v; return nil },
		func(s *Settings) string { return yamlString(*at(s)) }}
}

// yamlString quotes what YAML would read as something else.
func yamlString(v string) string {
	quoted, _ := yaml.Marshal(v)
	return strings.TrimSpace(string(quoted))
}

func choice(name, deflt, help string, at func(*Settings) *string, values ...string) setting {
	set := func(s *Settings, v string) error {
		for _, known := range values {
			if v == known {
				*at(s) = v
				return nil
			}
		}
		return fmt.Errorf("is %q, must be %s", v, oneOf(values))
	}
	return setting{name, strings.Join(values, "|"), deflt, help, set, func(s *Settings) string { return *at(s) }}
}

func oneOf(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

func list(name, deflt, help string, at func(*Settings) *[]string) setting {
	set := func(s *Settings, v string) error {
		*at(s) = nil
		for _, item := range strings.Split(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*at(s) = append(*at(s), item)
			}
		}
		return nil
	}
	return setting{name, "list", deflt, help, set, func(s *Settings) string { return yamlString(strings.Join(*at(s), ",")) }}
}

func boolean(name, help string, at func(*Settings) *bool) setting {
	set := func(s *Settings, v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("is %q, must be true or false", v)
		}
		*at(s) = b
		return nil
	}
	return setting{name, "bool", "false", help, set, func(s *Settings) string { return strconv.FormatBool(*at(s)) }}
}

func integer(name, deflt, help string, at func(*Settings) *int) setting {
	set := func(s *Settings, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return fmt.Errorf("is %q, must be a whole number, 0 or more", v)
		}
		*at(s) = n
		return nil
	}
	return setting{name, "number", deflt, help, set, func(s *Settings) string { return strconv.Itoa(*at(s)) }}
}

func duration(name, deflt, help string, at func(*Settings) *time.Duration) setting {
	set := func(s *Settings, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil && v == "0" {
			d, err = 0, nil
		}
		if err != nil || d < 0 {
			return fmt.Errorf("is %q, must be a duration such as 500ms, 10s or 5m", v)
		}
		*at(s) = d
		return nil
	}
	return setting{name, "duration", deflt, help, set, func(s *Settings) string { return durationText(*at(s)) }}
}

// durationText is 5m for what Go calls 5m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

func size(name, deflt, help string, at func(*Settings) *int64) setting {
	set := func(s *Settings, v string) error {
		for _, u := range sizeUnits {
			number, ok := strings.CutSuffix(v, u.suffix)
			if !ok {
				continue
			}
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			if err != nil || n <= 0 || n > (1<<40)/u.bytes {
				break
			}
			*at(s) = n * u.bytes
			return nil
		}
		return fmt.Errorf("is %q, must be a size in bytes or with KiB, MiB or GiB, such as 16MiB", v)
	}
	return setting{name, "size", deflt, help, set, func(s *Settings) string { return sizeText(*at(s)) }}
}

func sizeText(n int64) string {
	for _, u := range []int{2, 1, 0} { // GiB, MiB, KiB
		if unit := sizeUnits[u]; n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}
