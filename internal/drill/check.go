package drill

import (
	"encoding/json"
	"maps"
	"slices"
)

// Check says which promises are broken. It is pure: it believes the facts alone. Under at_least_once it checks
// what that promises: exactly the same until a sidecar is killed, stopped or loses its membership (see
// disturbances); after that inputs may have come again, and rows are right only as their changelog has them.
func Check(f Facts) []Violation {
	var r report
	exact := f.Guarantee == ExactlyOnce || len(disturbances(f.History)) == 0
	table, outputs := Answer(f.Inputs)
	f.checkOutputs(&r, outputs, exact)
	fold := folds(f.Changelog)
	f.checkTable(&r, table, fold, exact)
	f.checkStores(&r)
	f.checkPositions(&r)
	f.checkActives(&r)
	for _, text := range f.Down {
		r.add(ProcessDown, "%s", text)
	}
	for _, text := range f.Exits {
		r.add(StrangeExit, "%s", text)
	}
	for _, text := range f.Stuck {
		r.add(NotAtRest, "%s", text)
	}
	for _, m := range f.Memory {
		if m.Bytes > m.Bound {
			r.add(TooMuch, "the sidecar of pair %d took %d bytes, its bound is %d", m.Pair, m.Bytes, m.Bound)
		}
	}
	return r.done()
}

// checkOutputs: each input has exactly one output, with the values that the answer has; of one key the join
// never sees an older row of the source table than before.
func (f *Facts) checkOutputs(r *report, want map[int64]Output, exact bool) {
	seen := make(map[int64]Output, len(want))
	revs := map[string]int64{}
	doubts := newDoubts(f.History)
	for _, o := range f.Outputs {
		w, known := want[o.ID]
		if !known {
			r.add(WrongOutput, "output %d of partition %d is of input %d, which is none", o.Offset, o.Partition, o.ID)
			continue
		}
		first, again := seen[o.ID]
		if !again {
			seen[o.ID] = o
		} else if exact || !doubts.explain(o.Partition, first.At, o.At) {
			r.add(DoubleOutput, "input %d (key %s) has an output at offset %d of partition %d and another at %d", o.ID, o.Key, first.Offset, o.Partition, o.Offset)
		}
		same := o.Key == w.Key && o.Amount == w.Amount && o.Factor == w.Factor
		if !same || exact && (o.Count != w.Count || o.Sum != w.Sum) {
			r.add(WrongOutput, "output %d of partition %d: %+v, want %+v", o.Offset, o.Partition, o, w)
		}
		if exact && o.Rev < revs[o.Key] {
			r.add(StaleJoin, "output %d of partition %d (key %s) saw rev %d of the source table, one before it rev %d", o.Offset, o.Partition, o.Key, o.Rev, revs[o.Key])
		}
		revs[o.Key] = max(revs[o.Key], o.Rev)
	}
	for _, in := range f.Inputs {
		if _, ok := seen[in.ID]; !ok {
			r.add(LostRecord, "input %d (key %s, offset %d of partition %d) has no output", in.ID, in.Key, in.Offset, in.Partition)
		}
	}
}

// folds are the rows that a log comes to, by partition.
func folds(log []Row) map[int32]map[string]string {
	out := map[int32]map[string]string{}
	for _, row := range log {
		if out[row.Partition] == nil {
			out[row.Partition] = map[string]string{}
		}
		if row.Value == nil {
			delete(out[row.Partition], row.Key)
		} else {
			out[row.Partition][row.Key] = string(row.Value)
		}
	}
	return out
}

// checkTable: the fold of the changelog is the answer.
func (f *Facts) checkTable(r *report, want map[string]Total, fold map[int32]map[string]string, exact bool) {
	found := map[string]bool{}
	for partition, rows := range fold {
		for key, text := range rows {
			var got Total
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				r.add(WrongRow, "changelog of partition %d: %q of key %s is no total", partition, text, key)
				continue
			}
			found[key] = true
			w, known := want[key]
			switch {
			case !known:
				r.add(WrongRow, "changelog of partition %d has key %s, no input has", partition, key)
			case exact && got.Count < w.Count:
				r.add(StaleRow, "changelog of partition %d: key %s is %+v, want %+v", partition, key, got, w)
			case exact && got != w:
				r.add(WrongRow, "changelog of partition %d: key %s is %+v, want %+v", partition, key, got, w)
			}
		}
	}
	for key := range want {
		if !found[key] {
			r.add(LostRecord, "key %s has inputs and no row in the changelog", key)
		}
	}
}

// checkStores: each file, of an active or of a standby, is the fold of its log up to the file's own position;
// of each partition of the table at least one is whole.
func (f *Facts) checkStores(r *report) {
	logs := map[string][]Row{"totals": f.Changelog, "ref": f.Refs}
	ends, whole := map[int32]int64{}, map[int32]bool{}
	for _, row := range f.Changelog {
		ends[row.Partition] = row.Offset + 1
	}
	for _, s := range f.Stores {
		var before []Row
		for _, row := range logs[s.Table] {
			if row.Partition == s.Partition && row.Offset < s.Next {
				before = append(before, row)
			}
		}
		want := folds(before)[s.Partition]
		if s.Table == "totals" && s.Next >= ends[s.Partition] {
			whole[s.Partition] = true
		}
		if maps.Equal(want, s.Rows) {
			continue
		}
		for key := range mergedKeys(want, s.Rows) {
			if want[key] != s.Rows[key] {
				r.add(StaleRow, "pair %d's store of %s/%d, complete up to %d (%s): key %s is %q, its log says %q", s.Pair, s.Table, s.Partition, s.Next, s.Path, key, s.Rows[key], want[key])
			}
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(ends)) {
		if !whole[partition] {
			r.add(NoStore, "no worker has a store of totals/%d that is complete up to %d", partition, ends[partition])
		}
	}
}

func mergedKeys(a, b map[string]string) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}

// checkPositions: committed positions never go back, and end at the ends of the source.
func (f *Facts) checkPositions(r *report) {
	type place struct {
		source    int
		partition int32
	}
	at, last := map[place]int64{}, 0
	for _, in := range f.Inputs {
		last = max(last, in.Source)
	}
	for _, p := range f.Positions {
		last = max(last, p.Source)
		where := place{p.Source, p.Partition}
		if p.Next < at[where] {
			r.add(RolledBack, "position %d of partition %d was committed after %d", p.Next, p.Partition, at[where])
		}
		at[where] = p.Next
	}
	for partition, end := range f.Ends {
		if got := at[place{last, partition}]; got != end {
			r.add(NotConsumed, "partition %d: %d is committed, the source ends at %d", partition, got, end)
		}
	}
}
