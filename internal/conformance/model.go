package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// model is what Kafka would hold: the changelogs and read-only topics of tables, committed positions,
// outputs. It outlives connections and processes.
type model struct {
	logs      map[string]*log  // by "<table>/<partition>"
	positions map[string]int64 // committed, by task
	changes   map[string][]pair
	points    map[string]point // every checkpoint that was given
	serial    int
}

// log is one partition of a table's topic.
type log struct {
	records []record // with offsets
	end     int64
}

type pair struct{ key, value data }

func (p pair) String() string { return p.key.String() + " = " + p.value.String() }

// point is what a checkpoint means.
type point struct {
	log      string
	position int64
	void     bool // it came with the answer to a commit of an epoch that was over: no store may have it
}

func newModel() *model {
	return &model{logs: map[string]*log{}, positions: map[string]int64{}, changes: map[string][]pair{}, points: map[string]point{}}
}

func (m *model) log(name string) *log {
	if m.logs[name] == nil {
		m.logs[name] = &log{}
	}
	return m.logs[name]
}

// checkpoint makes a new one. It has all characters that a careless client breaks.
func (m *model) checkpoint(log string, position int64, void bool) string {
	m.serial++
	c := fmt.Sprintf(`v1:%s@%d #%d ~"\/<&>'{} `, log, position, m.serial)
	m.points[c] = point{log, position, void}
	return c
}

// newest is the position of the newest checkpoint of a log.
func (m *model) newest(log string) (position int64) {
	for _, at := range m.points {
		if at.log == log && !at.void {
			position = max(position, at.position)
		}
	}
	return position
}

// from are the records at and after a position.
func (l *log) from(position int64) []record {
	at := slices.IndexFunc(l.records, func(r record) bool { return *r.Offset >= position })
	if at < 0 {
		return nil
	}
	return l.records[at:]
}

// write appends what a commit brings. A marker follows, as behind a transaction: the end is no
// record's offset + 1.
func (l *log) write(records []record) {
	numbered, end := number(records, l.end)
	l.records = append(l.records, numbered...)
	l.end = end + 1
}

// table is what a log adds up to.
func (l *log) table() map[string]data {
	rows := map[string]data{}
	for _, r := range l.records {
		switch {
		case r.Key == nil:
		case r.Value == nil:
			delete(rows, string(r.Key))
		default:
			rows[string(r.Key)] = r.Value
		}
	}
	return rows
}

func sameRows(want, have map[string]data) bool {
	return maps.EqualFunc(want, have, data.equal)
}

func rowsText(rows map[string]data) string {
	if len(rows) == 0 {
		return "no rows"
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, pair{data(k), rows[k]}.String())
	}
	return list(out)
}

func pairsText(pairs []pair) string {
	if len(pairs) == 0 {
		return "none"
	}
	var out []string
	for _, p := range pairs {
		out = append(out, p.String())
	}
	return list(out)
}

// list is for people: the first ones of many.
func list(words []string) string {
	if n := len(words); n > 12 {
		words = append(slices.Clone(words[:12]), fmt.Sprintf("… (%d in all)", n))
	}
	return strings.Join(words, ", ")
}
