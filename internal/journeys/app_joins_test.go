//go:build kafka

package journeys

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// Two topics are read together and share a table; each record finds the rows of a source table and of a
// global one, which were whole before. The worker is killed in between.
func TestAppJoins(t *testing.T) {
	t.Parallel()
	const keys, each = 6, 300
	j := newApp(t, oneBroker(t), 3, "")
	j.program = "app_joins.py"
	second, names, places := j.group+"-second", j.group+"-names", j.group+"-places"
	compacted := map[string]string{"cleanup.policy": "compact"}
	kafkatest.CreateTopic(t, j.addrs, second, 3, nil)
	kafkatest.CreateTopic(t, j.addrs, names, 3, compacted)
	kafkatest.CreateTopic(t, j.addrs, places, 2, compacted)
	j.declares = []string{"JOB_SECOND=" + second, "JOB_NAMES=" + names, "JOB_PLACES=" + places}
	record := func(topic string, n int) kafkatest.Record {
		key := n % keys
		return kafkatest.KV(fmt.Sprint("key-", key), fmt.Sprint(topic, "-", n)).On(int32(key % 3))
	}
	for key := range keys {
		kafkatest.Produce(t, j.addrs, names, []kafkatest.Record{kafkatest.KV(fmt.Sprint("key-", key), fmt.Sprint("name-", key)).On(int32(key % 3))})
	}
	kafkatest.Produce(t, j.addrs, places, []kafkatest.Record{kafkatest.KV("one-0", "here").On(1), kafkatest.KV("two-299", "there").On(0)})

	s := j.pair("--restart")
	put := func(from, to int) {
		for topic, name := range map[string]string{j.in: "one", second: "two"} {
			records := []kafkatest.Record{}
			for n := from; n < to; n++ {
				records = append(records, record(name, n))
			}
			kafkatest.Produce(t, j.addrs, topic, records)
		}
	}
	for from := 0; from < each; from += 100 {
		put(from, from+100)
		until(t, "some of it is done", func() bool { return j.committed() > int64(2*from) })
		killChild(s)
	}
	until(t, "all is done", func() bool { return j.committed() == 2*each })
	s.running(3)

	want, got, lists := map[string]int{}, map[string]int{}, map[string][]string{}
	for n := range each {
		for _, name := range []string{"one", "two"} {
			r := record(name, n)
			place := map[string]string{"one-0": "here", "two-299": "there"}[string(r.Value)]
			if place == "" {
				place = "None"
			}
			want[fmt.Sprintf("%s name-%d %s", r.Value, n%keys, place)]++
		}
	}
	for _, r := range kafkatest.ReadAll(t, j.addrs, j.out, true) {
		got[string(r.Value)]++
	}
	compare(t, "outputs", got, want)
	for _, r := range kafkatest.ReadAll(t, j.addrs, j.lists(), true) {
		lists[string(r.Key)] = elements(t, r.Value)
	}
	for key := range keys {
		for _, name := range []string{"one", "two"} {
			var all []string
			for n := key; n < each; n += keys {
				all = append(all, fmt.Sprint(name, "-", n))
			}
			mine := slices.DeleteFunc(slices.Clone(lists[fmt.Sprint("key-", key)]), func(v string) bool { return !strings.HasPrefix(v, name) })
			if !slices.Equal(mine, all) {
				t.Errorf("key-%d has of topic %s\n    got  %s\n    want %s", key, name, short(mine), short(all))
			}
		}
	}
	s.drain()
	j.appStores("seen", j.tables())
}

// A worker that gets no task is ready, and stops like any other.
func TestAppWithoutTasksIsReady(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 1, "")
	other := *j
	other.place, other.state = newPlace(t), t.TempDir()
	j.produce(ofValues("1")...)
	one := j.embedded("10.0.0.1:80", []string{"key"})
	one.wait("looked", "row key", "1", "owner key", "10.0.0.1:80")
	two := other.embedded("10.0.0.2:80", []string{"key"})
	two.wait("ready")
	two.wait("looked", "owner key", "10.0.0.1:80")
	if rows := two.since(0, func(e entry) bool { return e.str("row key") != "" }); len(rows) > 0 {
		t.Error("it has a row without a task")
	}
	two.drain()
	one.drain()
}
