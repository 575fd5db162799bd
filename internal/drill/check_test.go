package drill

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

// sound are the facts of a small drill in which everything is right: two partitions, two keys each, six inputs
// of each key; pair 1 has the actives, pair 2 the standbys.
func sound() Facts {
	f := Facts{Guarantee: ExactlyOnce, Ends: map[int32]int64{}}
	sums := map[string]Total{}
	for n := range 24 {
		partition := int32(n % 2)
		k := fmt.Sprintf("key-%d", n%4)
		offset := f.Ends[partition]
		f.Ends[partition]++
		in := Input{Partition: partition, Offset: offset, Key: k, ID: int64(n + 1), Amount: int64(10 * n)}
		f.Inputs = append(f.Inputs, in)
		sum := sums[k]
		sum.Count++
		sum.Sum += in.Amount
		sums[k] = sum
		f.Outputs = append(f.Outputs, Output{Partition: partition, Offset: 2 * offset, At: at(100 * n).UnixMilli(), Key: k, ID: in.ID, Amount: in.Amount,
			Count: sum.Count, Sum: sum.Sum, Factor: factor(k), Rev: int64(n)})
		value, _ := json.Marshal(sum)
		f.Changelog = append(f.Changelog, Row{Partition: partition, Offset: 2 * offset, Key: k, Value: value})
		f.Positions = append(f.Positions, Position{Partition: partition, Next: offset + 1})
	}
	for partition, end := range f.Ends {
		f.Stores = append(f.Stores, f.store(1, partition, 2*end), f.store(2, partition, end))
	}
	f.Memory = []Memory{{Pair: 1, Bytes: 10, Bound: 20}}
	f.History = []Event{
		{At: at(0), What: GroupAssigned, Pair: 1, Life: 1, Generation: 1, Active: 2},
		{At: at(1), What: TaskRunning, Pair: 1, Life: 1, Task: "in/0", Generation: 1},
		{At: at(2), What: TaskRunning, Pair: 1, Life: 1, Task: "in/1", Generation: 1},
		{At: at(10), What: GroupAssigned, Pair: 1, Life: 1, Generation: 2, Active: 1},
		{At: at(11), What: TaskRevoked, Pair: 1, Life: 1, Task: "in/1"},
		{At: at(12), What: TaskReleased, Pair: 1, Life: 1, Task: "in/1"},
		{At: at(13), What: GroupAssigned, Pair: 1, Life: 1, Generation: 3, Active: 1},
		{At: at(13), What: GroupAssigned, Pair: 2, Life: 2, Generation: 3, Active: 1},
		{At: at(14), What: TaskPromoted, Pair: 2, Life: 2, Task: "in/1", Generation: 3},
	}
	return f
}

// store is what a right file holds that is complete up to next.
func (f *Facts) store(pair int, partition int32, next int64) Store {
	s := Store{Pair: pair, Path: "p", Table: "totals", Partition: partition, Next: next, Rows: map[string]string{}}
	for _, row := range f.Changelog {
		if row.Partition == partition && row.Offset < next {
			s.Rows[row.Key] = string(row.Value)
		}
	}
	return s
}

// named are the names of violations, each once.
func named(violations []Violation) (names []string) {
	for _, v := range violations {
		if !slices.Contains(names, v.Name) {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestSoundFactsAreSound(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		f := sound()
		f.Guarantee = g
		if v := Check(f); len(v) > 0 {
			t.Errorf("%s: %v", g, v)
		}
	}
}

// broken are facts in which one thing is wrong, with the names that must be found.
var broken = map[string]struct {
	breaks func(f *Facts)
	names  []string
	text   string // in one of the violations
}{
	"a record is lost": {func(f *Facts) { f.Outputs = slices.Delete(f.Outputs, 7, 8) }, []string{LostRecord}, "input 8 (key key-3, offset 3 of partition 1)"},
	"a key is lost":    {func(f *Facts) { f.Changelog = withoutKey(f.Changelog, "key-2") }, []string{LostRecord, StaleRow}, "key key-2 has inputs"},
	"an output is doubled": {func(f *Facts) {
		o := f.Outputs[5]
		o.Offset, o.At = 99, o.At+1000
		f.Outputs = append(f.Outputs, o)
	}, []string{DoubleOutput, StaleJoin}, "input 6 (key key-1) has an output at offset 4 of partition 1 and another at 99"},
	"an output is of nothing": {func(f *Facts) { f.Outputs = append(f.Outputs, Output{ID: 77}) }, []string{WrongOutput}, "of input 77, which is none"},
	"a sum is wrong":          {func(f *Facts) { f.Outputs[3].Sum++ }, []string{WrongOutput}, "key-3"},
	"a join is wrong":         {func(f *Facts) { f.Outputs[3].Factor = 0 }, []string{WrongOutput}, "Factor:0"},
	"a join goes back":        {func(f *Facts) { f.Outputs[20].Rev = 1 }, []string{StaleJoin}, "saw rev 1"},
	"a row counts twice": {func(f *Facts) {
		f.Changelog[len(f.Changelog)-1].Value = []byte(`{"count":7,"sum":1}`)
		f.Stores[0], f.Stores[2] = f.store(1, f.Stores[0].Partition, 99), f.store(1, f.Stores[2].Partition, 99)
	}, []string{WrongRow}, "want {Count:6"},
	"a row is stale in the changelog": {func(f *Facts) {
		f.Changelog = append(f.Changelog, Row{Partition: 1, Offset: 90, Key: "key-3", Value: f.Changelog[3].Value})
		for i, s := range f.Stores {
			f.Stores[i] = f.store(s.Pair, s.Partition, s.Next+99)
		}
	}, []string{StaleRow}, "key key-3 is {Count:1"},
	"a row is stale in an active's store": {func(f *Facts) { change(f.Stores[0].Rows) }, []string{StaleRow}, "pair 1's store of totals"},
	"a row is stale in a standby's store": {func(f *Facts) { change(f.Stores[1].Rows) }, []string{StaleRow}, "pair 2's store of totals"},
	"a row too many in a store":           {func(f *Facts) { f.Stores[1].Rows["key-9"] = "x" }, []string{StaleRow}, `key key-9 is "x", its log says ""`},
	"no whole store":                      {func(f *Facts) { f.Stores[0] = f.store(1, f.Stores[0].Partition, 3) }, []string{NoStore}, "totals/"},
	"a position is rolled back": {func(f *Facts) {
		f.Positions = append(f.Positions, Position{Partition: 1, Next: 4}, Position{Partition: 1, Next: 12})
	}, []string{RolledBack}, "position 4 of partition 1 was committed after 12"},
	"a position is not at the end": {func(f *Facts) { f.Ends[0]++ }, []string{NotConsumed}, "partition 0: 12 is committed, the source ends at 13"},
	"two actives": {func(f *Facts) {
		f.History = append(f.History, Event{At: at(20), What: TaskRunning, Pair: 3, Life: 3, Task: "in/1", Generation: 3})
	}, []string{TwoActives}, "in/1 ran in generation 3 at pair 2 (life 2) and at pair 3 (life 3)"},
	"two actives, one of them kept": {func(f *Facts) {
		f.History = append(f.History, Event{At: at(20), What: GroupAssigned, Pair: 1, Life: 1, Generation: 4},
			Event{At: at(21), What: TaskRunning, Pair: 3, Life: 3, Task: "in/0", Generation: 4})
	}, []string{TwoActives}, "in/0 ran in generation 4"},
	"a process is down":    {func(f *Facts) { f.Down = []string{"sidecar 3 is not up"} }, []string{ProcessDown}, "sidecar 3"},
	"a process has ended":  {func(f *Facts) { f.Exits = []string{"exit code 2"} }, []string{StrangeExit}, "exit code 2"},
	"it comes to no rest":  {func(f *Facts) { f.Stuck = []string{"partition 3"} }, []string{NotAtRest}, "partition 3"},
	"memory out of bounds": {func(f *Facts) { f.Memory[0].Bytes = 21 }, []string{TooMuch}, "took 21 bytes, its bound is 20"},
}

func withoutKey(log []Row, key string) []Row {
	return slices.DeleteFunc(slices.Clone(log), func(r Row) bool { return r.Key == key })
}

func change(rows map[string]string) {
	for key := range rows {
		rows[key] = `{"count":1,"sum":1}`
		return
	}
}

// INVARIANT: each kind of wrong is named, and nothing else is.
func TestEachWrongIsNamed(t *testing.T) {
	for name, c := range broken {
		t.Run(name, func(t *testing.T) {
			f := sound()
			c.breaks(&f)
			violations := Check(f)
			if got := named(violations); !slices.Equal(got, c.names) {
				t.Errorf("named %q, want %q:\n%v", got, c.names, violations)
			}
			if !slices.ContainsFunc(violations, func(v Violation) bool { return strings.Contains(v.Text, c.text) }) {
				t.Errorf("no violation says %q:\n%v", c.text, violations)
			}
		})
	}
}

// Under at_least_once an input may come again when a sidecar was killed or stopped in between, and not else.
func TestAtLeastOnce(t *testing.T) {
	killed := func(f *Facts, ms int) {
		f.History = append(f.History, Event{At: at(ms), What: FaultBegan, Pair: 1, Fault: &Fault{Kind: SidecarKill, Pair: 1}})
	}
	again := func(f *Facts, n int, ms int) {
		o := f.Outputs[n]
		o.Offset, o.At, o.Count = 99, at(ms).UnixMilli(), o.Count+1
		f.Outputs = append(f.Outputs, o)
	}
	for name, c := range map[string]struct {
		breaks func(f *Facts)
		names  []string
	}{
		"nothing was killed":      {func(f *Facts) { again(f, 5, 900) }, []string{DoubleOutput, StaleJoin, WrongOutput}},
		"a sidecar was killed":    {func(f *Facts) { killed(f, 700); again(f, 5, 900) }, nil},
		"it was killed afterward": {func(f *Facts) { killed(f, 1700); again(f, 5, 900) }, []string{DoubleOutput}},
		"it was killed long ago":  {func(f *Facts) { killed(f, -5000); again(f, 5, 900) }, []string{DoubleOutput}},
		"it was killed long after, while the commit was open": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(500), What: CommitBegan, Pair: 1, Life: 3, Task: "in/1", ID: 7},
				Event{At: at(60_001), What: CommitEnded, Pair: 1, Life: 3, ID: 7})
			killed(f, 60_000)
			again(f, 5, 90_000)
		}, nil},
		"it was killed long after, and the commit had ended": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(500), What: CommitBegan, Pair: 1, Life: 3, Task: "in/1", ID: 7},
				Event{At: at(700), What: CommitEnded, Pair: 1, Life: 3, ID: 7, OK: true})
			killed(f, 60_000)
			again(f, 5, 90_000)
		}, []string{DoubleOutput}},
		"it was killed long after, while the commit of another task was open": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(500), What: CommitBegan, Pair: 1, Life: 3, Task: "in/0", ID: 7})
			killed(f, 60_000)
			again(f, 5, 90_000)
		}, []string{DoubleOutput}},
		"a pair left the group": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(700), What: GroupLeft, Pair: 1})
			again(f, 5, 900)
		}, []string{DoubleOutput, StaleJoin, WrongOutput}},
		"a pair left the group and a write in doubt": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(650), What: InDoubt, Pair: 1}, Event{At: at(700), What: GroupLeft, Pair: 1})
			again(f, 5, 900)
		}, nil},
		"a pair was expelled, and found it out later": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(690), What: GroupAssigned, Pair: 1, Life: 90, Generation: 70},
				Event{At: at(700), What: GroupAssigned, Pair: 2, Life: 91, Generation: 71}, Event{At: at(1700), What: GroupLost, Pair: 1, Life: 90})
			again(f, 5, 900)
		}, nil},
		"a pair was expelled, and killed before it found out": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(690), What: GroupAssigned, Pair: 1, Life: 90, Generation: 70},
				Event{At: at(700), What: GroupAssigned, Pair: 2, Life: 91, Generation: 71}, Event{At: at(1700), What: SidecarEnded, Pair: 1, Life: 90, OK: true})
			again(f, 5, 900)
		}, nil},
		"a pair was expelled afterward": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(690), What: GroupAssigned, Pair: 1, Life: 90, Generation: 70},
				Event{At: at(1600), What: GroupAssigned, Pair: 2, Life: 91, Generation: 71}, Event{At: at(1700), What: GroupLost, Pair: 1, Life: 90})
			again(f, 5, 900)
		}, []string{DoubleOutput}},
		"a sidecar ended without leaving": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(690), What: GroupAssigned, Pair: 1, Life: 90, Generation: 70}, Event{At: at(700), What: SidecarEnded, Pair: 1, Life: 90, OK: true})
			again(f, 5, 900)
		}, nil},
		"a sidecar left and ended": {func(f *Facts) {
			f.History = append(f.History, Event{At: at(690), What: GroupAssigned, Pair: 1, Life: 90, Generation: 70},
				Event{At: at(695), What: GroupLeft, Pair: 1, Life: 90}, Event{At: at(700), What: SidecarEnded, Pair: 1, Life: 90, OK: true})
			again(f, 5, 900)
		}, []string{DoubleOutput, StaleJoin, WrongOutput}},
		"the first one landed last": {func(f *Facts) {
			killed(f, 700)
			again(f, 5, 900)
			late, soon := &f.Outputs[5], &f.Outputs[len(f.Outputs)-1]
			late.Offset, soon.Offset = soon.Offset, late.Offset
			slices.SortFunc(f.Outputs, func(a, b Output) int { return cmp.Compare(a.Offset, b.Offset) })
		}, nil},
		"a record is lost": {func(f *Facts) { killed(f, 700); f.Outputs = f.Outputs[1:] }, []string{LostRecord}},
		"a row counts twice": {func(f *Facts) {
			killed(f, 700)
			f.Changelog[23].Value = []byte(`{"count":7,"sum":1}`)
			for i, s := range f.Stores {
				f.Stores[i] = f.store(s.Pair, s.Partition, 99)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			f.Guarantee = AtLeastOnce
			c.breaks(&f)
			if v := Check(f); !slices.Equal(named(v), c.names) {
				t.Errorf("named %q, want %q: %v", named(v), c.names, v)
			}
		})
	}
}
