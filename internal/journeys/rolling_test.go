//go:build kafka

package journeys

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// Four pairs are replaced one after the other, while records flow, by pairs that read one more source.
// Where a task is with a pair that does not know the source, it waits at its position, and is named.
func TestRollingDeployAddsASource(t *testing.T) {
	t.Parallel()
	d := newDeploy(t)
	more := d.newSource("more")
	d.old = release{"old", []string{d.in}, []string{"counts"}}
	d.new = release{"new", []string{d.in, more.in}, []string{"counts"}}
	d.begin(more)
	d.replace("a")
	d.named(more.in)
	d.back("a") // its task was with an old pair meanwhile, and comes back with what waited
	d.replace("b", "c", "d")
	if at := kafkatest.CommittedOffsets(t, d.addrs, d.group); at[kafkatest.TopicPartition{Topic: more.in}].Offset == 0 {
		t.Errorf("nothing of the new source is committed before the end: %v", at)
	}
	d.finished()
	d.counted("counts")
	d.end(d.names...)
	d.sound()
}

// The same with one more table. It begins empty and counts what its task reads from the moment that the
// task is first opened with it. From then on an old pair must not have the task, or hold its copy: what it
// would process would be missing in the new table.
func TestRollingDeployAddsATable(t *testing.T) {
	t.Parallel()
	d := newDeploy(t)
	d.old = release{"old", []string{d.in}, []string{"counts"}}
	d.new = release{"new", []string{d.in}, []string{"counts", "again"}}
	d.begin()
	d.replace("a", "b")
	d.back("a") // its task waits with the other new pair, whatever the old ones have
	d.replace("c", "d")
	d.finished()
	d.counted("counts", "again")
	for p := range d.partitions {
		if from := d.span(d.in, p, "again"); from.first == 0 {
			t.Errorf("partition %d: there was nothing before the table, so that nothing is shown", p)
		}
	}
	d.end(d.names...)
	d.sound()
}

// The same with one table less. What the table counted stays whole: a new pair gets no task before the
// last old one leaves.
func TestRollingDeployRemovesATable(t *testing.T) {
	t.Parallel()
	d := newDeploy(t)
	d.old = release{"old", []string{d.in}, []string{"counts", "again"}}
	d.new = release{"new", []string{d.in}, []string{"counts"}}
	d.begin()
	d.replace("a", "b", "c")
	for p := range d.partitions {
		if at := d.does(p); at.active != "d" {
			t.Errorf("partition %d is with %q while the last old pair lives", p, at.active)
		}
	}
	d.replace("d")
	d.finished()
	d.counted("counts", "again")
	d.end(d.names...)
	d.sound()
}

// release is what the workers of one version declare.
type release struct {
	name            string
	sources, tables []string
}

// deploy is a gang of four whose pairs are replaced by those of another release.
type deploy struct {
	*gang
	old, new release
	names    []string           // of the pairs that live
	runs     map[string]release // by name
	inputs   []*job             // a job of its own for each source
	feeders  []*feeder
	claimed  []map[string]bool // by partition: the tables that the claim named when the last change began
}

func newDeploy(t *testing.T) *deploy {
	t.Helper()
	d := &deploy{gang: newGang(t, oneBroker(t), 4), runs: map[string]release{}}
	d.program, d.pause = "rolling.py", 100*time.Millisecond
	d.inputs = []*job{d.job}
	return d
}

// newSource makes another topic with the same keys.
func (d *deploy) newSource(name string) *job {
	d.t.Helper()
	j := *d.job
	j.in = d.group + "-" + name
	kafkatest.CreateTopic(d.t, d.addrs, j.in, d.partitions, nil)
	return &j
}

// begin starts four old pairs, and records in all sources.
func (d *deploy) begin(more ...*job) {
	d.t.Helper()
	d.inputs = append(d.inputs, more...)
	for i, j := range d.inputs {
		d.feeders = append(d.feeders, j.feed(i*10_000_000))
	}
	d.change(func() {
		for _, name := range []string{"a", "b", "c", "d"} {
			d.start(d.old, name)
		}
	})
}

func (d *deploy) start(r release, name string) {
	d.t.Helper()
	d.declares = []string{
		"JOB_SOURCES=" + strings.Join(r.sources, ","), "JOB_TABLES=" + strings.Join(r.tables, ","), "JOB_VERSION=" + r.name,
	}
	d.runs[name] = r
	d.join(name)
	d.names = append(d.names, name)
	slices.Sort(d.names)
}

func (d *deploy) stop(name string) {
	d.t.Helper()
	d.end(name)
	d.names = slices.DeleteFunc(d.names, func(n string) bool { return n == name })
}

// replace drains each of these pairs and starts one of the new release in its place, with its disk.
func (d *deploy) replace(names ...string) {
	d.t.Helper()
	for _, name := range names {
		d.change(func() { d.stop(name) })
		d.change(func() { d.start(d.new, name) })
	}
}

// back drains a pair of the new release and starts it again.
func (d *deploy) back(name string) { d.t.Helper(); d.replace(name) }

// change does something, waits until the group has settled, and until records have gone on.
func (d *deploy) change(do func()) {
	d.t.Helper()
	d.claimed = d.claims()
	do()
	began, what := time.Now(), ""
	until(d.t, fmt.Sprintf("%v have settled", d.names), func() bool {
		if what = d.unsettled(); what != "" && time.Since(began) > patience*9/10 {
			d.t.Fatalf("%v do not settle: %s", d.names, what)
		}
		return what == ""
	})
	d.flowing(100)
}

// holders are the pairs that have one partition, by the words of their workers.
type holders struct {
	active  string
	standby []string
}

func (d *deploy) does(p int32) (h holders) {
	d.t.Helper()
	task := fmt.Sprintf("job/%d", p)
	for _, name := range d.names {
		said := d.workers[name].since(0, func(e entry) bool {
			return e.str("task") == task && !e.is("commit") && e.fields["event"] != nil
		})
		if len(said) == 0 {
			continue
		}
		switch last := said[len(said)-1]; {
		case last.is("active"):
			h.active = strings.TrimPrefix(h.active+","+name, ",")
		case last.is("demoted"), last.is("assigned", "role", "standby"):
			h.standby = append(h.standby, name)
		}
	}
	return h
}

// unsettled says what is not yet as it shall be: all in one generation, each task active on one pair
// that may have it and shadowed by another that may, each pair that may have all with one at least.
func (d *deploy) unsettled() string {
	d.t.Helper()
	generation := d.pairs[d.names[0]].generation()
	for _, name := range d.names {
		if g := d.pairs[name].generation(); g == 0 || g != generation {
			return fmt.Sprintf("%s is in generation %d, %s in %d", name, g, d.names[0], generation)
		}
	}
	now, has := d.claims(), map[string]bool{}
	able := map[string]int{}
	for p := range d.partitions {
		h := d.does(p)
		before, after := d.may(d.claimed[p]), d.may(now[p])
		for _, name := range after {
			able[name]++
		}
		has[h.active] = true
		switch {
		case !slices.Contains(before, h.active):
			return fmt.Sprintf("partition %d is active on %q, and may be on %v, since its claim names %v", p, h.active, before, d.claimed[p])
		case len(h.standby) != min(1, len(before)-1) && len(h.standby) != min(1, len(after)-1):
			return fmt.Sprintf("partition %d, active on %q, has copies on %q, and may on %v", p, h.active, h.standby, after)
		case slices.ContainsFunc(h.standby, func(name string) bool { return !slices.Contains(before, name) }):
			return fmt.Sprintf("partition %d has copies on %q, and may on %v", p, h.standby, before)
		}
	}
	for _, name := range d.names {
		if able[name] == int(d.partitions) && !has[name] {
			return name + " has nothing"
		}
	}
	return ""
}

// may are the living pairs that may have a task whose claim names these tables: those that declare all of
// them that anybody living declares.
func (d *deploy) may(claimed map[string]bool) (names []string) {
	wanted := map[string]bool{}
	for _, name := range d.names {
		for _, table := range d.runs[name].tables {
			wanted[table] = wanted[table] || claimed[table]
		}
	}
	for _, name := range d.names {
		has := slices.Clone(d.runs[name].tables)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(wanted)), func(table string) bool { return wanted[table] && !slices.Contains(has, table) }) {
			names = append(names, name)
		}
	}
	return names
}

// claims are the tables that the claim of each partition names.
func (d *deploy) claims() []map[string]bool {
	d.t.Helper()
	claims := make([]map[string]bool, d.partitions)
	at := kafkatest.CommittedOffsets(d.t, d.addrs, d.group)
	for p := range claims {
		claims[p] = map[string]bool{}
		_, tables, _ := strings.Cut(at[kafkatest.TopicPartition{Topic: d.in, Partition: int32(p)}].Metadata, " t=")
		for _, table := range slices.Concat(d.old.tables, d.new.tables) {
			claims[p][table] = strings.Contains(","+tables, ","+d.changelogOf(table)+":")
		}
	}
	return claims
}

// named checks that a leader has said that a source waits.
func (d *deploy) named(source string) {
	d.t.Helper()
	for _, name := range d.names {
		s := d.pairs[name]
		if len(s.since(0, func(e entry) bool { return e.is("assigned", "leader", true) })) == 0 {
			continue
		}
		said := s.since(0, func(e entry) bool {
			return e.str("@level") == "warn" && strings.Contains(e.str("@message"), fmt.Sprintf("source %q", source))
		})
		if len(said) > 0 {
			d.t.Logf("%s, a leader: %s", name, said[0].str("@message"))
			return
		}
	}
	d.t.Errorf("no leader says that source %s waits", source)
}

// finished stops the records and waits until all are committed, each with one output.
func (d *deploy) finished() {
	d.t.Helper()
	for _, f := range d.feeders {
		f.end()
	}
	outputs, want := map[string]int{}, map[string]int{}
	for _, j := range d.inputs {
		j.finish()
		for _, r := range kafkatest.ReadAll(d.t, d.addrs, j.in, true) {
			want[string(r.Value)]++
		}
	}
	for _, r := range kafkatest.ReadAll(d.t, d.addrs, d.out, true) {
		outputs[string(r.Value)]++
	}
	compare(d.t, "outputs", outputs, want)
}

// span is a part of a source partition.
type span struct{ first, next int64 }

// span is what was processed of a source partition by workers that have a table, by their own words: it
// must be one piece, or the table has a hole.
func (d *deploy) span(source string, p int32, table string) (all span) {
	d.t.Helper()
	var pieces []span
	for _, c := range d.commits(int64(p)) {
		r := d.old
		if c.str("version") == d.new.name {
			r = d.new
		}
		if c.str("topic") == source && slices.Contains(r.tables, table) {
			pieces = append(pieces, span{c.num("base"), c.num("next")})
		}
	}
	slices.SortFunc(pieces, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for i, piece := range pieces {
		if i == 0 {
			all = piece
			continue
		}
		if piece.first != all.next {
			d.t.Errorf("%s of %s-%d: [%d, %d) is missing", table, source, p, all.next, piece.first)
		}
		all.next = piece.next
	}
	return all
}

// counted compares each table with the inputs that its workers had to count: all from the position at
// which the task was first opened with the table, to that at which it was last.
func (d *deploy) counted(tables ...string) {
	d.t.Helper()
	for _, table := range tables {
		want, got := map[string]int{}, map[string]int{}
		for _, j := range d.inputs {
			spans := map[int32]span{}
			for p := range d.partitions {
				spans[p] = d.span(j.in, p, table)
				d.t.Logf("%s counts %s-%d from %d to %d", table, j.in, p, spans[p].first, spans[p].next)
			}
			for _, r := range kafkatest.ReadAll(d.t, d.addrs, j.in, true) {
				if s := spans[r.Partition]; s.first <= r.Offset && r.Offset < s.next {
					want[string(r.Key)]++
				}
			}
		}
		for _, r := range kafkatest.ReadAll(d.t, d.addrs, d.changelogOf(table), true) {
			n := number(d.t, r)
			if n <= got[string(r.Key)] {
				d.t.Errorf("%s: %q went from %d to %d at offset %d of partition %d", table, r.Key, got[string(r.Key)], n, r.Offset, r.Partition)
			}
			got[string(r.Key)] = n
		}
		compare(d.t, table, got, want)
	}
}
