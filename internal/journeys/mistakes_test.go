//go:build kafka

package journeys

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// within is how long a first mistake may stay unsaid.
const within = 5 * time.Second

// novice is a worker of mistakes.py on topics of its own.
type novice struct {
	t                        *testing.T
	addrs                    []string
	place                    place
	group                    string
	Sources, Tables, Outputs []string
	mistake                  string
	maxFrame                 string   // empty: the client's
	flags                    []string // of its sidecar
}

// newNovice makes no mistake yet: its source exists, and has one record.
func newNovice(t *testing.T) *novice {
	t.Helper()
	n := &novice{t: t, addrs: oneBroker(t), place: newPlace(t), group: topicName(t)}
	n.Sources, n.Tables, n.Outputs = []string{n.group + "-in"}, []string{"counts"}, []string{}
	kafkatest.CreateTopic(t, n.addrs, n.Sources[0], 1, nil)
	kafkatest.Produce(t, n.addrs, n.Sources[0], []kafkatest.Record{kafkatest.KV("key", "value")})
	return n
}

// topicName is a name that Kafka takes, made of the test's.
func topicName(t *testing.T) string {
	return strings.NewReplacer("/", "-", " ", "-", "'", "").Replace(t.Name()) + "-" + strconv.FormatUint(rand.Uint64(), 36)[:5]
}

func (n *novice) changelog() string { return n.group + "-counts-changelog" }

// sidecar starts the novice's sidecar.
func (n *novice) sidecar() *sidecar {
	n.t.Helper()
	return n.place.run(n.t, n.addrs, nil, append([]string{"--group-id", n.group, "--auto-offset-reset", "earliest"}, n.flags...)...)
}

// spoken is a worker whose stderr is kept apart from its events.
type spoken struct {
	*process
	file string
}

// worker starts the novice; url and token say where it looks for its sidecar.
func (n *novice) worker(url, token string) *spoken {
	n.t.Helper()
	declare, err := json.Marshal(map[string]any{"sources": n.Sources, "tables": n.Tables, "outputs": n.Outputs})
	if err != nil {
		n.t.Fatal(err)
	}
	env := []string{
		"PILLION_URL=" + url, "PILLION_TOKEN_FILE=" + token, "DECLARE=" + string(declare),
		"MISTAKE=" + n.mistake, "MAX_FRAME=" + n.maxFrame,
	}
	w := &spoken{file: filepath.Join(n.t.TempDir(), "stderr")}
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("the worker's stderr\n%s", w.stderr())
		}
	})
	w.process = start(n.t, "worker", env, "sh", "-c", `exec "$@" 2>"$0"`, w.file, python(n.t), script("mistakes.py"))
	return w
}

// stderr is all that the worker has said there.
func (w *spoken) stderr() string {
	w.t.Helper()
	text, err := os.ReadFile(w.file)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// ends waits for the worker's end: soon after it came to this point, with one sentence and this code.
func (w *spoken) ends(point string, code int, sentence string) {
	w.t.Helper()
	w.wait(point)
	began := time.Now()
	got := w.exit()
	took := time.Since(began)
	if said := w.stderr(); said != sentence+"\n" {
		w.t.Errorf("the worker said\n%s\nwant\n%s", said, sentence)
	}
	if got != code {
		w.t.Errorf("exit code %d, want %d", got, code)
	}
	if took > within {
		w.t.Errorf("it took %v", took)
	}
}

// says waits for a sentence of a worker that lives on.
func (w *spoken) says(point, sentence string) {
	w.t.Helper()
	w.wait(point)
	began := time.Now()
	until(w.t, "the worker says something", func() bool { return strings.HasSuffix(w.stderr(), "\n") })
	took := time.Since(began)
	if said := w.stderr(); said != sentence+"\n" {
		w.t.Errorf("the worker said\n%s\nwant\n%s", said, sentence)
	}
	if took > within {
		w.t.Errorf("it took %v", took)
	}
}

// end is how a worker ends.
type end struct {
	point string // of the worker, from which on the time counts
	code  int
	says  string
}

var firstMistakes = map[string]func(n *novice) end{
	"unknown topic": func(n *novice) end {
		n.Sources = []string{n.group + "-inn"}
		return end{"start", 2, fmt.Sprintf(`pillion: topic %q (a source of set "words") does not exist, or this user may not see it; create it, or correct its name (unknown_topic)`,
			n.Sources[0])}
	},
	"counts differ": func(n *novice) end {
		other := n.group + "-other"
		kafkatest.CreateTopic(n.t, n.addrs, other, 3, nil)
		n.Sources = append(n.Sources, other)
		return end{"start", 2, fmt.Sprintf(`pillion: topic %q (a source) has 3 partitions but %q of the same set "words" has 1; topics that are read together need the same number: create one of them anew (count_mismatch)`,
			other, n.Sources[0])}
	},
	"changelog's count differs": func(n *novice) end {
		kafkatest.CreateTopic(n.t, n.addrs, n.changelog(), 2, map[string]string{"cleanup.policy": "compact"})
		return end{"start", 2, fmt.Sprintf(`pillion: topic %q (a changelog) has 2 partitions but %q of the same set "words" has 1; topics that are read together need the same number: create one of them anew (count_mismatch)`,
			n.changelog(), n.Sources[0])}
	},
	"version too old": func(n *novice) end {
		n.mistake = "version"
		return end{"start", 2, "pillion: this sidecar speaks protocol version 1, the worker's client offers [0]: update the older of the two (version)"}
	},
	"source record too large": func(n *novice) end {
		n.maxFrame = "100000"
		kafkatest.Produce(n.t, n.addrs, n.Sources[0], []kafkatest.Record{kafkatest.KV("key", strings.Repeat("x", 150_000))})
		return end{"start", 2, fmt.Sprintf(`pillion: the record at offset 1 of topic %q, partition 0, needs a frame of 150067 bytes, but this worker takes 100000; raise max_frame in the worker, or write smaller records to the topic (record_too_large)`,
			n.Sources[0])}
	},
	"output too large": func(n *novice) end {
		n.Outputs = []string{n.group + "-out"}
		kafkatest.CreateTopic(n.t, n.addrs, n.Outputs[0], 1, map[string]string{"max.message.bytes": "1000"})
		return end{"records", 2, fmt.Sprintf(`pillion: a record for topic %q takes 2073 bytes, the topic allows 1000; make it smaller or raise max.message.bytes of the topic (record_too_large)`,
			n.Outputs[0])}
	},
	"row too large": func(n *novice) end {
		n.mistake = "large row"
		return end{"records", 2, fmt.Sprintf(`pillion: a record for topic %q takes 2000077 bytes, the topic allows 1048588; make it smaller or raise max.message.bytes of the topic (record_too_large)`,
			n.changelog())}
	},
	"null key": func(n *novice) end {
		n.mistake = "null key"
		return end{"records", 2, fmt.Sprintf(`pillion: a record for table 'counts' of task words/0 has a null key, which its changelog %s cannot keep; give each row a key (null_key)`, n.changelog())}
	},
	"no bytes": func(n *novice) end {
		n.mistake = "no bytes"
		return end{"records", 2, "pillion: table 'counts' takes bytes as keys and values; encode them first (usage)"}
	},
	"undeclared output": func(n *novice) end {
		n.mistake = "undeclared output"
		return end{"records", 2, "pillion: topic 'elsewhere' is not an output of this worker; add it to outputs in connect() (undeclared_output)"}
	},
}

func TestFirstMistakes(t *testing.T) {
	for name, mistake := range firstMistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNovice(t)
			want := mistake(n)
			s := n.sidecar()
			n.worker(s.url, s.token).ends(want.point, want.code, want.says)
		})
	}
}

func TestNoSidecar(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	n := &novice{t: t, Sources: []string{"in"}, Tables: []string{}, Outputs: []string{}}
	url := "unix:" + filepath.Join(at.dir, "s")
	n.worker(url, filepath.Join(at.dir, "token")).ends("start", 3, fmt.Sprintf(
		"pillion: no sidecar answers at %s; start it with 'pillion run', or set PILLION_URL to where it listens (sidecar_unreachable)", url))
}

func TestWrongToken(t *testing.T) {
	t.Parallel()
	n := newNovice(t)
	s := n.sidecar()
	wrong := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(wrong, []byte("a guess"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.worker(s.url, wrong).ends("start", 2, fmt.Sprintf(
		"pillion: the sidecar at %s refuses the token; set PILLION_TOKEN_FILE to the file that the sidecar reads its token from (unauthorized)", s.url))
}

func TestSuperseded(t *testing.T) {
	t.Parallel()
	n := newNovice(t)
	s := n.sidecar()
	older := n.worker(s.url, s.token)
	older.wait("committed")
	newer := n.worker(s.url, s.token)
	newer.wait("start")
	older.ends("committed", 2, "pillion: a newer worker has connected to this sidecar: run one worker for each sidecar (superseded)")
	newer.wait("assigned")
	if said := newer.stderr(); said != "" {
		t.Errorf("the newer worker said %s", said)
	}
}

// A worker that waits for Kafka says so, and goes on by itself.
func TestKafkaUnreachable(t *testing.T) {
	t.Parallel()
	port, release, err := kafkaproc.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	n := &novice{t: t, place: newPlace(t), group: "app", addrs: []string{fmt.Sprint("127.0.0.1:", port)}, Sources: []string{"in"}, Tables: []string{"counts"}, Outputs: []string{}}
	s := n.sidecar()
	w := n.worker(s.url, s.token)
	w.says("connected", fmt.Sprintf(
		"pillion: no Kafka broker answers at %s (connect: connection refused): check bootstrap_servers, and that Kafka is running and can be reached from here (kafka_unreachable)", n.addrs[0]))
	f := kafkatest.Fake(t, kfake.Ports(port), kfake.SeedTopics(1, "in"))
	kafkatest.Produce(t, f.Addrs(), "in", []kafkatest.Record{kafkatest.KV("key", "value")})
	w.wait("committed")
}

// What is gone while nobody was there is found at the next start, and nothing is skipped.
func TestLostThings(t *testing.T) {
	const set = "set the position with kafka-consumer-groups --reset-offsets, or start the sidecar with --on-lost-position earliest or latest (lost_position)"
	for name, lose := range map[string]func(n *novice) string{
		"records deleted": func(n *novice) string {
			kafkatest.Produce(n.t, n.addrs, n.Sources[0], []kafkatest.Record{kafkatest.KV("key", "2"), kafkatest.KV("key", "3")})
			kafkatest.DeleteRecords(n.t, n.addrs, n.Sources[0], 0, 2)
			return fmt.Sprintf("pillion: the committed position 1 of %s-0 in group %q is below the start of the log, 2; %s", n.Sources[0], n.group, set)
		},
		"source created anew": func(n *novice) string { // Kafka has deleted its position with it
			n.again(n.Sources[0])
			return fmt.Sprintf("pillion: nothing is committed for %s-0 in group %q, but changelog %q is not empty; %s", n.Sources[0], n.group, n.changelog(), set)
		},
		"one of two sources created anew": func(n *novice) string {
			n.again(n.Sources[1])
			return fmt.Sprintf("pillion: topic %q was deleted or created anew since group %q committed a position of %s-0; %s", n.Sources[1], n.group, n.Sources[1], set)
		},
		"changelog deleted": func(n *novice) string {
			kafkatest.DeleteTopic(n.t, n.addrs, n.changelog())
			return fmt.Sprintf("pillion: changelog %q of table \"counts\" was deleted or created anew since group %q last used it (task words/0), so that the table is lost; "+
				"restore the topic, or start the sidecar with --accept-state-loss to go on with what is there (lost_state)", n.changelog(), n.group)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNovice(t)
			if strings.HasPrefix(name, "one of two") {
				n.Sources = append(n.Sources, n.group+"-second")
				kafkatest.CreateTopic(t, n.addrs, n.Sources[1], 1, nil)
			}
			s := n.sidecar()
			w := n.worker(s.url, s.token)
			w.wait("committed")
			if code := s.stop(); code != 0 {
				t.Errorf("the sidecar ended with %d", code)
			}
			if code := w.exit(); code != 0 {
				t.Errorf("the worker ended with %d", code)
			}
			says := lose(n)
			s = n.sidecar()
			n.worker(s.url, s.token).ends("start", 2, says)
		})
	}
}

// again deletes a topic and creates it anew.
func (n *novice) again(topic string) {
	n.t.Helper()
	kafkatest.DeleteTopic(n.t, n.addrs, topic)
	kafkatest.CreateTopic(n.t, n.addrs, topic, 1, nil)
}

// What is lost under a running worker ends it too. A topic is looked for a while before it is gone.
func TestLostWhileRunning(t *testing.T) {
	for name, lose := range map[string]func(n *novice, w *spoken) string{
		"records deleted": func(n *novice, w *spoken) string {
			w.signal(syscall.SIGSTOP)
			large := kafkatest.KV("key", strings.Repeat("x", 900_000)) // many times what is sent ahead
			kafkatest.Produce(n.t, n.addrs, n.Sources[0], slices.Repeat([]kafkatest.Record{large}, 30))
			kafkatest.DeleteRecords(n.t, n.addrs, n.Sources[0], 0, 31)
			w.signal(sigcont)
			return fmt.Sprintf(`pillion: the committed position \d+ of %s-0 in group "%s" is below the start of the log, 31; `+
				`set the position with kafka-consumer-groups --reset-offsets, or start the sidecar with --on-lost-position earliest or latest \(lost_position\)`, n.Sources[0], n.group)
		},
		"changelog deleted": func(n *novice, _ *spoken) string {
			kafkatest.DeleteTopic(n.t, n.addrs, n.changelog())
			kafkatest.Produce(n.t, n.addrs, n.Sources[0], []kafkatest.Record{kafkatest.KV("key", "2")})
			return fmt.Sprintf(`pillion: nothing was written: partition 0 of changelog "%s" does not exist any more; restore it \(unknown_topic\)`, n.changelog())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNovice(t)
			s := n.sidecar()
			w := n.worker(s.url, s.token)
			w.wait("committed")
			pattern := "^" + lose(n, w) + "\n$"
			if code := w.exit(); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			if said := w.stderr(); !regexp.MustCompile(pattern).MatchString(said) {
				t.Errorf("the worker said\n%s\nwant\n%s", said, pattern)
			}
		})
	}
}
