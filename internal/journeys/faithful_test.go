//go:build kafka

package journeys

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pillion/pillion/internal/kafkatest"
)

// told is a record in the words of copies.py.
func told(r kafkatest.Record, offset, timestamp bool) string {
	value := func(b []byte) string {
		switch {
		case b == nil:
			return "null"
		case len(b) > 64:
			return fmt.Sprintf("%d bytes", len(b))
		default:
			return hex.EncodeToString(b)
		}
	}
	out := fmt.Sprintf("key %s value %s", value(r.Key), value(r.Value))
	for _, h := range r.Headers {
		out += fmt.Sprintf(" header %s=%s", h.Key, value(h.Value))
	}
	if timestamp {
		out += fmt.Sprintf(" at %d", r.Timestamp.UnixMilli())
	}
	if offset {
		out = fmt.Sprintf("offset %d %s", r.Offset, out)
	}
	return out
}

func toldAll(records []kafkatest.Record, offset, timestamp bool) []string {
	var out []string
	for _, r := range records {
		out = append(out, told(r, offset, timestamp))
	}
	return out
}

// said is the same of what copies.py has said.
func said(s *sidecar, event string, offset, timestamp bool) []string {
	word := func(v any) string {
		if v == nil {
			return "null"
		}
		return v.(string)
	}
	var out []string
	for _, e := range s.since(0, func(e entry) bool { return e.is(event) }) {
		text := fmt.Sprintf("key %s value %s", word(e.fields["key"]), word(e.fields["value"]))
		for _, h := range e.fields["headers"].([]any) {
			pair := h.([]any)
			text += fmt.Sprintf(" header %s=%s", pair[0], word(pair[1]))
		}
		if timestamp {
			text += fmt.Sprintf(" at %d", e.num("timestamp"))
		}
		if offset {
			text = fmt.Sprintf("offset %d %s", e.num("offset"), text)
		}
		out = append(out, text)
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n    got  %s\n    want %s", what, strings.Join(got, "\n         "), strings.Join(want, "\n         "))
	}
}

// strange are records of all the kinds that a careless client would change.
func strange() []kafkatest.Record {
	at := time.UnixMilli(1_500_000_000_123)
	later := time.UnixMilli(1_700_000_000_000)
	return []kafkatest.Record{
		{Key: []byte("plain"), Value: []byte("value"), Timestamp: at},
		{Key: nil, Value: []byte("no key"), Timestamp: later},
		{Key: []byte{}, Value: []byte("empty key"), Timestamp: at},
		{Key: []byte("empty"), Value: []byte{}, Timestamp: at},
		{Key: []byte("gone"), Value: []byte("soon"), Timestamp: at},
		{Key: []byte("gone"), Value: nil, Timestamp: later},
		{Key: nil, Value: nil, Timestamp: at},
		{Key: []byte{0, 255, 10}, Value: []byte{0, 1, 2, 254}, Timestamp: at, Headers: []kafkatest.Header{
			{Key: "trace", Value: []byte{0, 255}}, {Key: "trace", Value: []byte("again")},
			{Key: "null", Value: nil}, {Key: "empty", Value: []byte{}}, {Key: "", Value: []byte("no name")},
		}},
	}
}

// Everything arrives as it was, on the way in, out, into the changelog and back: null is not empty,
// tombstones, headers in their order, timestamps, gaps in the offsets, a record larger than a frame.
// The environment names a proxy that is not there: nobody asks it.
func TestRecordsAreFaithful(t *testing.T) {
	t.Parallel()
	addrs := oneBroker(t)
	j := newJob(t, addrs, 1)
	j.in, j.out = j.group+"-odd", j.group+"-copies"
	large := map[string]string{"max.message.bytes": "8000000", "retention.ms": "-1"} // some are years old
	kafkatest.CreateTopic(t, addrs, j.in, 1, large)
	kafkatest.CreateTopic(t, addrs, j.out, 1, large)
	changelog := j.group + "-copy-changelog"
	kafkatest.CreateTopic(t, addrs, changelog, 1, map[string]string{"max.message.bytes": "8000000", "cleanup.policy": "compact"})

	kafkatest.Produce(t, addrs, j.in, strange())
	kafkatest.Produce(t, addrs, j.in, []kafkatest.Record{kafkatest.KV("aborted", "never seen")}, kafkatest.Aborted(j.group+"-a"))
	kafkatest.Produce(t, addrs, j.in, []kafkatest.Record{kafkatest.KV("committed", "seen")}, kafkatest.Committed(j.group+"-c"))
	huge := make([]byte, 3<<20)
	for i := range huge {
		huge[i] = byte(i * i >> 3)
	}
	kafkatest.Produce(t, addrs, j.in, []kafkatest.Record{{Key: []byte("huge"), Value: huge}}, kafkatest.WithClientOptions(kgo.ProducerBatchMaxBytes(8_000_000)))
	kafkatest.Produce(t, addrs, j.in, strange(), kafkatest.Compressed("zstd"))

	s := j.copies()
	j.finish()
	want := kafkatest.ReadAll(t, addrs, j.in, true)
	same(t, "what the worker was given", said(s, "record", true, true), toldAll(want, true, true))
	same(t, "the outputs", toldAll(kafkatest.ReadAll(t, addrs, j.out, true), false, true), toldAll(want, false, true))
	var rows []kafkatest.Record
	for _, r := range want {
		if r.Headers = nil; r.Key != nil {
			rows = append(rows, r)
		}
	}
	written := kafkatest.ReadAll(t, addrs, changelog, true)
	same(t, "the changelog", toldAll(written, false, false), toldAll(rows, false, false))
	s.drain()

	s = j.copies() // has no checkpoint: everything again
	s.wait("whole")
	same(t, "what was restored", said(s, "restored record", true, false), toldAll(written, true, false))
	s.drain()
}

// Compacted gaps, at the head, in the middle and at the end of logs: positions go across them, and a
// replay ends.
func TestCompactedGaps(t *testing.T) {
	t.Parallel()
	addrs := oneBroker(t)
	j := newJob(t, addrs, 1)
	compacted := map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
		"min.compaction.lag.ms": "0", "max.compaction.lag.ms": "100", "delete.retention.ms": "0",
	}
	j.in = j.group + "-gaps"
	changelog := j.group + "-copy-changelog"
	kafkatest.CreateTopic(t, addrs, j.in, 1, compacted)
	kafkatest.CreateTopic(t, addrs, changelog, 1, compacted)
	for i := range 20 {
		kafkatest.Produce(t, addrs, j.in, []kafkatest.Record{
			kafkatest.KV("often", fmt.Sprint(i)), kafkatest.KV(fmt.Sprint("once-", i), "here"), kafkatest.Tombstone(fmt.Sprint("gone-", i)),
		})
	}
	compact(t, addrs, j.in)
	want := withoutRoll(kafkatest.ReadAll(t, addrs, j.in, true))
	s := j.copies()
	j.finish()
	same(t, "what the worker was given", rollLess(said(s, "record", true, true)), toldAll(want, true, true))
	kafkatest.Produce(t, addrs, j.in, []kafkatest.Record{kafkatest.KV("often", "last"), kafkatest.KV("once-0", "last")})
	j.finish()
	s.drain()

	compact(t, addrs, changelog)
	want = withoutRoll(kafkatest.ReadAll(t, addrs, changelog, true))
	s = j.copies()
	s.wait("whole")
	same(t, "what was restored", rollLess(said(s, "restored record", true, false)), toldAll(want, true, false))
	s.drain()
}

func rollLess(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, hex.EncodeToString([]byte("roll"))) })
}

// compact waits until the cleaner has been everywhere: each key is there once and no tombstone is left.
// What rolls the segments, and is itself still being cleaned, is of the key "roll".
func compact(t *testing.T, addrs []string, topic string) {
	t.Helper()
	until(t, topic+" is compacted", func() bool {
		kafkatest.Produce(t, addrs, topic, []kafkatest.Record{kafkatest.KV("roll", "over")})
		seen := map[string]bool{}
		for _, r := range withoutRoll(kafkatest.ReadAll(t, addrs, topic, true)) {
			if r.Value == nil || seen[string(r.Key)] {
				return false
			}
			seen[string(r.Key)] = true
		}
		return true
	})
}

func withoutRoll(records []kafkatest.Record) []kafkatest.Record {
	return slices.DeleteFunc(records, func(r kafkatest.Record) bool { return string(r.Key) == "roll" })
}

// copies starts copies.py as the child of a sidecar, on a TCP port, with a dead proxy in the environment.
func (j *job) copies() *sidecar {
	j.t.Helper()
	env := j.env()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		env = append(env, name+"=http://127.0.0.1:9")
	}
	env = append(env, "NO_PROXY=", "no_proxy=")
	return j.place.run(j.t, j.addrs, env, "--group-id", j.group, "--listen", "127.0.0.1:0", "--", python(j.t), script("copies.py"))
}
