package counting

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pillion/pillion/bench/internal/machine"
)

var small = Job{records: 103, keys: 10, partitions: 4}

// The right counts are those of the records that are filled in.
func TestCounts(t *testing.T) {
	got := map[string]string{}
	n := map[string]byte{}
	for _, k := range small.order() {
		n[string(key(k))]++
		got[string(key(k))] = "\x00\x00\x00\x00\x00\x00\x00" + string(rune(n[string(key(k))]))
	}
	if !maps.Equal(got, small.counts()) {
		t.Fatalf("counted %q, said %q", got, small.counts())
	}
}

// changelog is one that is right: each key once, in transactions or not.
func changelog(transactional bool) table {
	t := table{rows: maps.Clone(small.counts()), written: 40}
	if transactional {
		t.transactional = t.written
	}
	return t
}

func TestCheck(t *testing.T) {
	for _, once := range []bool{true, false} {
		w := Way{Name: "w", Once: once}
		if err := w.check(small, changelog(once)); err != nil {
			t.Fatal(err)
		}
		for what, spoil := range map[string]func(*table){
			"a wrong count":   func(t *table) { t.rows[string(key(3))] = "12345678" },
			"a missing key":   func(t *table) { delete(t.rows, string(key(3))) },
			"a key too many":  func(t *table) { t.rows["x"] = "" },
			"one transaction": func(t *table) { t.transactional = 1 },
		} {
			bad := changelog(once)
			spoil(&bad)
			if w.check(small, bad) == nil {
				t.Errorf("%s passed with once %t", what, once)
			}
		}
	}
}

// A changelog is folded as a reader of it does: the last value of a key, nulls, and no markers.
func TestFold(t *testing.T) {
	transactional, marker := kgo.RecordAttrsOpts{Transactional: true}, kgo.RecordAttrsOpts{Transactional: true, Control: true}
	record := func(attrs kgo.RecordAttrsOpts, key string, value []byte) *kgo.Record {
		return &kgo.Record{Key: []byte(key), Value: value, Attrs: kgo.NewRecordAttrs(attrs)}
	}
	folded := table{rows: map[string]string{}}
	for _, r := range []*kgo.Record{
		record(transactional, "a", []byte("1")), record(marker, "", []byte{}), record(kgo.RecordAttrsOpts{}, "b", []byte("1")),
		record(transactional, "a", []byte("2")), record(kgo.RecordAttrsOpts{}, "b", nil),
	} {
		folded.add(r)
	}
	if folded.written != 4 || folded.transactional != 2 || !maps.Equal(folded.rows, map[string]string{"a": "2"}) {
		t.Fatalf("%+v", folded)
	}
}

func TestWindow(t *testing.T) {
	at := time.Now()
	from := moment{at, []int64{10, 20}, machine.Snapshot{Busy: 1000, Total: 5000}, [3]float64{1, 2, 0.5}, 0.25}
	to := moment{at.Add(2 * time.Second), []int64{510, 520}, machine.Snapshot{Busy: 1400, Total: 5400}, [3]float64{2, 2.5, 1}, 0.5}
	f := window(from, to, 40)
	if f.Speed() != 500 || f.commits != 10 || f.Own != 1 || f.Children != 0.75 || f.Broker != 0.5 || f.PerCPU() != 1000/1.5 {
		t.Errorf("%+v", f)
	}
	if f.elsewhere != 0.5 { // 4 s less 1, 0.5 and 0.5
		t.Errorf("others had %g of the machine, not a half", f.elsewhere)
	}
	if n := moved([]int64{1, 2, 3}, []int64{1, 3, 4}); n != 2 {
		t.Errorf("%d partitions moved, not 2", n)
	}
}

func run1(speed float64, disturbed bool) Figures {
	return Figures{Records: int64(speed), Seconds: 1, Own: 1, Broker: 1, disturbed: disturbed}
}

// A ratio is that of each round against the best of the others in it; disturbed rounds count only when needed.
func TestPaired(t *testing.T) {
	r := Rounds{
		"a": {run1(100, false), run1(200, false), run1(300, false), run1(900, false)},
		"b": {run1(100, false), run1(100, false), run1(100, false), run1(100, true)},
		"c": {run1(50, false), run1(400, false), run1(50, false), run1(50, false)},
	}
	for _, c := range []struct {
		others    []string
		want      []float64
		disturbed int
	}{
		{[]string{"b"}, []float64{1, 2, 3}, 0},
		{[]string{"b", "c"}, []float64{1, 0.5, 3}, 0},
		{[]string{"c"}, []float64{2, 0.5, 6, 18}, 0},
		{[]string{"d"}, nil, 0},
	} {
		got, disturbed := r.paired("a", Figures.Speed, c.others...)
		if !slices.Equal(got, c.want) || disturbed != c.disturbed {
			t.Errorf("%v: %v, %d disturbed", c.others, got, disturbed)
		}
	}
	r["b"][0].disturbed = true
	if got, disturbed := r.paired("a", Figures.Speed, "b"); len(got) != 4 || disturbed != 2 {
		t.Errorf("%v, %d disturbed: two calm rounds are not enough", got, disturbed)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(c.values); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("median of %v is %g", c.values, got)
		}
	}
}

// A line is made when its ways were run, and says how many rounds were disturbed.
func TestLine(t *testing.T) {
	r := Rounds{"a": {run1(90, true)}, "b": {run1(60, false)}}
	want := []string{"the next figure is of 1 rounds, 1 of them disturbed", "BENCH x 1.50 x"}
	if lines := r.Line("BENCH x %.2f x", "a", Figures.Speed, "b"); !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
	if lines := r.Line("BENCH x %.2f x", "a", Figures.Speed, "c"); lines != nil {
		t.Errorf("a line of what was not run: %q", lines)
	}
}

func TestWanted(t *testing.T) {
	all := []Way{{Name: "a"}, {Name: "b"}}
	for _, c := range []struct {
		wanted string
		n      int
	}{{"", 2}, {"b", 1}, {"b,a", 2}} {
		if ways, err := (&Options{wanted: c.wanted}).Wanted(all); err != nil || len(ways) != c.n {
			t.Errorf("%q: %d ways, %v", c.wanted, len(ways), err)
		}
	}
	if _, err := (&Options{wanted: "a,c"}).Wanted(all); err == nil {
		t.Error("an unknown way passed")
	}
}
