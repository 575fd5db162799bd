//go:build kafka

package journeys

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/restore"
)

// styles are the kinds of handlers.
var styles = []string{"process", "each", "async process", "async each"}

// newApp is a job whose worker is written with pillion.Worker: app_lists.py, which appends each value to
// the list of its key with t[k].append(x).
func newApp(t *testing.T, addrs []string, partitions int32, style string, env ...string) *job {
	t.Helper()
	j := newJob(t, addrs, partitions)
	j.pause = 30 * time.Millisecond
	j.program, j.declares = "app_lists.py", append([]string{"APP_STYLE=" + style}, env...)
	return j
}

func (j *job) lists() string { return j.changelogOf("seen") }

// tables is where the worker has its stores.
func (j *job) tables() string { return filepath.Join(j.state, "tables") }

// checkLists is check for lists: every value once, in its place, in the list of its key and in the output.
func (j *job) checkLists() {
	j.t.Helper()
	if again := j.checkListsBut(0); again > 0 {
		j.t.Errorf("%d values came twice", again)
	}
}

// checkListsBut is checkLists where every value may have come so many times more, if that is all that is
// promised: nothing is lost, and what comes again comes in order. It gives how many came again.
func (j *job) checkListsBut(times int) (again int) {
	j.t.Helper()
	if !j.mayRepeat() {
		times = 0
	}
	j.finish()
	want, outputs, got := map[string][]string{}, map[string][]string{}, map[string][]string{}
	for _, r := range kafkatest.ReadAll(j.t, j.addrs, j.in, true) {
		want[string(r.Key)] = append(want[string(r.Key)], string(r.Value))
	}
	for _, r := range kafkatest.ReadAll(j.t, j.addrs, j.out, true) {
		outputs[string(r.Key)] = append(outputs[string(r.Key)], string(r.Value))
	}
	for _, r := range kafkatest.ReadAll(j.t, j.addrs, j.lists(), true) {
		list := elements(j.t, r.Value)
		if was := got[string(r.Key)]; times == 0 && (len(list) <= len(was) || !slices.Equal(list[:len(was)], was)) {
			j.t.Errorf("changelog: %q at offset %d of partition %d has %d elements and does not go on from the %d before: an element was lost, or written twice",
				r.Key, r.Offset, r.Partition, len(list), len(was))
		}
		got[string(r.Key)] = list
	}
	if len(want) == 0 {
		j.t.Error("there is no input, so that nothing is shown")
	}
	return j.sameLists("list", got, want, times) + j.sameLists("outputs", outputs, want, times)
}

// sameLists compares lists by key with the inputs.
func (j *job) sameLists(what string, got, want map[string][]string, times int) (again int) {
	j.t.Helper()
	wrong := 0
	for key, list := range want {
		once, most := firsts(got[key])
		again += len(got[key]) - len(once)
		if slices.Equal(once, list) && most <= 1+times {
			continue
		}
		if wrong++; wrong <= 3 {
			j.t.Errorf("%s of %q: %d values, %d different ones, one of them %d times; want %d:\n    got  %s\n    want %s",
				what, key, len(got[key]), len(once), most, len(list), short(got[key]), short(list))
		}
	}
	if wrong > 0 || len(got) > len(want) {
		j.t.Errorf("%s: %d of %d keys are wrong, and there are %d", what, wrong, len(want), len(got))
	}
	return again
}

// firsts are the different values in the order of their first coming, and how often the most frequent one is there.
func firsts(list []string) (once []string, most int) {
	times := map[string]int{}
	for _, v := range list {
		if times[v]++; times[v] == 1 {
			once = append(once, v)
		}
		most = max(most, times[v])
	}
	return once, most
}

func short(list []string) string {
	if len(list) > 40 {
		list = append(slices.Clone(list[:20]), append([]string{"…"}, list[len(list)-20:]...)...)
	}
	return strings.Join(list, " ")
}

func elements(t *testing.T, value []byte) (list []string) {
	t.Helper()
	if err := json.Unmarshal(value, &list); err != nil {
		t.Fatalf("the changelog holds %q: %v", value, err)
	}
	return list
}

// appStores compares the SQLite files of ended workers, row by row, with the changelog up to the store's own
// checkpoint. It gives how many stores hold all of their partition.
func (j *job) appStores(table string, dirs ...string) (whole int) {
	j.t.Helper()
	log := kafkatest.ReadAll(j.t, j.addrs, j.changelogOf(table), true)
	stores := 0
	for _, dir := range dirs {
		dump := start(j.t, "dump", nil, python(j.t), script("dump.py"), dir)
		if code := dump.exit(); code != 0 {
			j.t.Fatalf("the worker's files cannot be read:\n%s", dump.tail(20))
		}
		rows := map[string]string{}
		said := dump.since(0, func(entry) bool { return true })
		for i, e := range slices.Backward(said) { // a file comes before its rows
			if e.is("row") {
				rows[e.str("key")] = e.str("value")
				continue
			}
			if e.str("table") == table {
				stores++
				if j.sameRows(said[i], rows, log) {
					whole++
				}
			}
			rows = map[string]string{}
		}
	}
	if j.t.Logf("%d stores of %s compared row by row, %d of them whole", stores, table, whole); stores == 0 {
		j.t.Error("there are no stores, so that nothing is shown")
	}
	return whole
}

func (j *job) sameRows(file entry, rows map[string]string, log []kafkatest.Record) (whole bool) {
	j.t.Helper()
	next := int64(0)
	if text := file.str("checkpoint"); text != "" {
		at, err := restore.ParseCheckpoint(text)
		if err != nil {
			j.t.Fatal(err)
		}
		next = at.Next
	}
	want := map[string]string{}
	whole = true
	for _, r := range log {
		switch {
		case int64(r.Partition) != file.num("partition"):
		case r.Offset >= next:
			whole = false
		case r.Value == nil:
			delete(want, string(r.Key))
		default:
			want[string(r.Key)] = string(r.Value)
		}
	}
	for key := range want {
		if rows[key] != want[key] {
			j.t.Errorf("%s, complete up to %d: the row of %q is %.200q, want %.200q", file.str("path"), next, key, rows[key], want[key])
		}
	}
	if len(rows) != len(want) {
		j.t.Errorf("%s, complete up to %d, has %d rows, want %d", file.str("path"), next, len(rows), len(want))
	}
	return whole
}

// ofValues are inputs of partition 0 with these values, of one key.
func ofValues(values ...string) (records []kafkatest.Record) {
	for _, v := range values {
		records = append(records, kafkatest.KV("key", v))
	}
	return records
}

// numbered are so many values, counted from one number on.
func numbered(from, count int) (values []string) {
	for n := from; n < from+count; n++ {
		values = append(values, fmt.Sprintf("value-%d", n))
	}
	return values
}
