//go:build kafka

package journeys

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// position is what is committed of partition 0.
func (j *job) position() int64 {
	j.t.Helper()
	return kafkatest.CommittedOffsets(j.t, j.addrs, j.group)[kafkatest.TopicPartition{Topic: j.in}].Offset
}

// produce writes inputs of partition 0 as one batch.
func (j *job) produce(records ...kafkatest.Record) {
	j.t.Helper()
	kafkatest.Produce(j.t, j.addrs, j.in, records)
}

// outputs are the values of the job's output, in order.
func (j *job) outputs() (values []string) {
	j.t.Helper()
	for _, r := range kafkatest.ReadAll(j.t, j.addrs, j.out, true) {
		values = append(values, string(r.Value))
	}
	return values
}

// list is what the changelog says of the one key.
func (j *job) list() (list []string) {
	j.t.Helper()
	for _, r := range kafkatest.ReadAll(j.t, j.addrs, j.lists(), true) {
		list = elements(j.t, r.Value)
	}
	return list
}

// holds checks what is committed: so many inputs, and what they have made.
func (j *job) holds(position int64, values ...string) {
	j.t.Helper()
	if at := j.position(); at != position {
		j.t.Errorf("position %d, want %d", at, position)
	}
	same(j.t, "outputs", j.outputs(), values)
	same(j.t, "the list", j.list(), values)
}

// fails waits for the end of a pair whose worker stops at a record: exit code 1, and this sentence.
func (s *sidecar) fails(sentence string) {
	s.t.Helper()
	if code := s.exit(); code != 1 {
		s.t.Errorf("exit code %d, want 1", code)
	}
	if said := s.since(0, func(e entry) bool { return strings.HasSuffix(e.text, "pillion: "+sentence) }); len(said) != 1 {
		s.t.Errorf("the worker said %d times: %s", len(said), sentence)
	}
}

// A handler raises, and on_error is Stop: everything before the record is committed and nothing of it. The
// sentence says where, and the next start begins with exactly that record.
func TestAppStopsAtRecord(t *testing.T) {
	for _, style := range []string{"each", "async each"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, style)
			good := numbered(0, 15)
			j.produce(ofValues(slices.Concat(good[:10], []string{"bad"}, good[10:])...)...)
			name := strings.ReplaceAll(style, "async each", "each_async")
			sentence := fmt.Sprintf("%s has failed at %s/0 offset 10: ValueError: no good; what was before is committed, and the next start begins there (handler_failed)", name, j.in)
			for start := range 2 {
				s := j.pair()
				s.fails(sentence)
				j.holds(10, good[:10]...)
				first := s.wait("first record").num("offset")
				if want := int64(10 * start); first != want {
					t.Errorf("start %d begins at %d, want %d", start, first, want)
				}
				if trace := s.since(0, func(e entry) bool { return strings.Contains(e.text, `raise ValueError("no good")`) }); len(trace) != 1 {
					t.Errorf("the line that has raised is shown %d times", len(trace))
				}
			}
			j.declares = append(j.declares, "APP_ON_ERROR=skip")
			s := j.pair()
			j.finish()
			j.holds(16, good...)
			s.drain()
			j.appStores("seen", j.tables())
		})
	}
}

// With @app.process the unit is the batch: nothing of it is committed, and the next start begins with its first record.
func TestAppStopsAtBatch(t *testing.T) {
	for _, style := range []string{"process", "async process"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, style, "APP_ON_ERROR=skip") // which is not asked
			good := numbered(0, 10)
			j.produce(ofValues(good...)...)
			s := j.pair()
			j.finish()
			j.produce(ofValues("lost", "bad", "lost, too")...)
			name := strings.ReplaceAll(style, "async process", "process_async")
			sentence := fmt.Sprintf("%s has failed in the batch of %s/0 from offset 10: ValueError: no good; what was before is committed, and the next start begins there (handler_failed)", name, j.in)
			s.fails(sentence)
			j.holds(10, good...)
			s = j.pair()
			s.fails(sentence)
			if first := s.wait("batch").num("base"); first != 10 {
				t.Errorf("the next start begins at %d, want 10", first)
			}
			j.holds(10, good...)
			j.appStores("seen", j.tables())
		})
	}
}

// poison is a record whose value is no UTF-8.
var poison = kafkatest.Record{Key: []byte("key"), Value: []byte{'a', 0xff, 0xfe}, Headers: []kafkatest.Header{{Key: "trace", Value: []byte("7")}}}

// Bytes that do not decode stop the app at exactly their record, whatever kind the handler is.
func TestAppStopsAtPoison(t *testing.T) {
	for _, style := range []string{"process", "each"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, style)
			good := numbered(0, 8)
			j.produce(slices.Concat(ofValues(good[:5]...), []kafkatest.Record{poison}, ofValues(good[5:]...))...)
			for range 2 {
				s := j.pair()
				if code := s.exit(); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				where := fmt.Sprintf("pillion: the record at %s/0 offset 5 cannot be processed: its value does not decode: ", j.in)
				said := s.since(0, func(e entry) bool { return strings.Contains(e.text, where) })
				if len(said) != 1 || !strings.HasSuffix(said[0].text, "; the next start begins with it (on_error: Skip or DeadLetter pass it over) (undecodable)") {
					t.Errorf("the worker said %v, want %q and why", said, where)
				}
				j.holds(5, good[:5]...)
			}
			j.declares = append(j.declares, "APP_ON_ERROR=skip")
			s := j.pair()
			j.finish()
			j.holds(9, good...)
			s.drain()
			j.appStores("seen", j.tables())
		})
	}
}

// DeadLetter: the record as it came, with what was wrong and where in headers behind its own; nothing else of it.
func TestAppDeadLetters(t *testing.T) {
	for _, style := range []string{"process", "each", "async each"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, style, "APP_ON_ERROR=dead")
			dead := j.withDead()
			good := numbered(0, 6)
			inputs := slices.Concat(ofValues(good[:3]...), []kafkatest.Record{poison}, ofValues(good[3:]...))
			bad := kafkatest.Record{Key: []byte("key"), Value: []byte("bad"), Headers: []kafkatest.Header{{Key: "pillion-topic", Value: []byte("an older one")}, {Key: "null"}}}
			if style != "process" { // where a handler's error concerns its batch
				inputs = append(inputs, bad)
			}
			j.produce(inputs...)
			s := j.pair()
			j.finish()
			j.holds(int64(len(inputs)), good...)
			letters := kafkatest.ReadAll(t, j.addrs, dead, true)
			wants := []kafkatest.Record{poison, bad}[:len(inputs)-6]
			if len(letters) != len(wants) {
				t.Fatalf("%d dead letters, want %d", len(letters), len(wants))
			}
			for i, want := range wants {
				j.sameLetter(letters[i], want, []string{"3", "7"}[i], []string{"does not decode", "ValueError: no good"}[i])
			}
			s.drain()
			j.appStores("seen", j.tables())
		})
	}
}

// withDead gives the job a topic of dead letters.
func (j *job) withDead() string {
	j.t.Helper()
	dead := j.group + "-dead"
	kafkatest.CreateTopic(j.t, j.addrs, dead, 1, nil)
	j.declares = append(j.declares, "APP_DEAD="+dead)
	return dead
}

func (j *job) sameLetter(got, want kafkatest.Record, offset, why string) {
	j.t.Helper()
	n := len(want.Headers)
	if len(got.Headers) != n+4 {
		j.t.Fatalf("a dead letter has the headers %v, and had %v", got.Headers, want.Headers)
	}
	place := []kafkatest.Header{{Key: "pillion-topic", Value: []byte(j.in)}, {Key: "pillion-partition", Value: []byte("0")}, {Key: "pillion-offset", Value: []byte(offset)}}
	want.Headers = slices.Concat(want.Headers, got.Headers[n:n+1], place)
	same(j.t, "a dead letter", []string{told(got, false, false)}, []string{told(want, false, false)})
	if h := got.Headers[n]; h.Key != "pillion-error" || !strings.Contains(string(h.Value), why) {
		j.t.Errorf("a dead letter's error is %s: %s, want %q", h.Key, h.Value, why)
	}
}

// A function is asked: it sees where, the bytes and the error, and says what happens to each record.
func TestAppAsksOnError(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 1, "each", "APP_ON_ERROR=function")
	dead := j.withDead()
	j.produce(slices.Concat(ofValues("one"), []kafkatest.Record{poison}, ofValues("bad", "two"))...)
	s := j.pair()
	j.finish()
	j.holds(4, "one", "two")
	failures := s.waitAll(0, 2, "failure")
	for i, want := range []string{
		fmt.Sprint(j.in, " 0 1 b'key' b'a\\xff\\xfe' true"), fmt.Sprint(j.in, " 0 2 b'key' b'bad' false"),
	} {
		e := failures[i]
		if got := fmt.Sprint(e.str("topic"), " ", e.num("partition"), " ", e.num("offset"), " ", e.str("key"), " ", e.str("value"), " ", e.fields["decoding"]); got != want {
			t.Errorf("on_error saw %s, want %s", got, want)
		}
	}
	if got := failures[1].str("error"); got != "ValueError('no good')" {
		t.Errorf("on_error saw %s", got)
	}
	if letters := kafkatest.ReadAll(t, j.addrs, dead, true); len(letters) != 1 || string(letters[0].Value) != "bad" {
		t.Errorf("the dead letters are %v, want the one that a handler refused", letters)
	}
	s.drain()
}

// A handler that awaits what somebody else has cancelled has failed, like any other.
func TestAppAwaitsWhatWasCancelled(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 1, "async each")
	j.produce(ofValues("one", "cancelled", "two")...)
	s := j.pair()
	s.fails(fmt.Sprintf("each_async has failed at %s/0 offset 1: RuntimeError: what it awaited was cancelled; what was before is committed, and the next start begins there (handler_failed)", j.in))
	j.holds(1, "one")
}
