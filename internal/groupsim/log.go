package groupsim

// changelog of one table of one task. Its records are keys and values; a value is the offset of the source
// record that it comes from. Beside them there are the markers of transactions.
type changelog struct {
	t         *truth
	table     string
	recs      []rec
	open      []opened // transactions without a marker here, by their first records
	decided   int64    // the transactions of all records before it are committed or aborted
	state     map[int32]int64
	hash      uint64
	begun     bool
	from      int64   // the first source record that it has the effect of
	first     []*life // who has written the effect of each one since then, first
	top       int64   // behind the newest source record of which an effect was written, visible or not
	followers []*replay
	sequences map[*transactional]*sequence
}

type rec struct {
	key    int32
	value  int64
	hash   uint64 // of the whole table, after this record; of those that are decided
	by     *life
	txn    *txn // nil: in none
	marker bool
}

type opened struct {
	txn   *txn
	first int64
}

// sequence is what a partition knows of a producer.
type sequence struct {
	epoch int16
	next  int
	bases map[int]int64 // of its batches, by their first numbers
}

func (t *truth) log(table string) *changelog {
	if t.logs[table] == nil {
		t.logs[table] = &changelog{t: t, table: table, state: map[int32]int64{}, sequences: map[*transactional]*sequence{}}
	}
	return t.logs[table]
}

// end is the high watermark.
func (l *changelog) end() int64 { return int64(len(l.recs)) }

// stable is the last stable offset: read_committed reads up to there.
func (l *changelog) stable() int64 {
	if len(l.open) > 0 {
		return l.open[0].first
	}
	return l.end()
}

// visible says whether a decided record is one for read_committed.
func (r rec) visible() bool { return !r.marker && (r.txn == nil || r.txn.state == committing) }

// at is the hash of the table at a position.
func (l *changelog) at(position int64) uint64 {
	if position == 0 {
		return 0
	}
	return l.recs[position-1].hash
}

func mix(key int32, value int64) uint64 {
	x := uint64(key)*0x9e3779b97f4a7c15 + uint64(value+1)*0xbf58476d1ce4e5b9
	x ^= x >> 29
	x *= 0x94d049bb133111eb
	return x ^ x>>32
}

// seen is the position up to which the effect of every source record is there.
func (l *changelog) seen() int64 { return l.from + int64(len(l.first)) }

// append writes to a changelog.
func (k *kafka) append(l *changelog, by *life, x *txn, writes []write) (base, next int64) {
	base = l.end()
	for _, wr := range writes {
		l.recs = append(l.recs, rec{key: wr.key, value: wr.value, by: by, txn: x})
		l.top = max(l.top, wr.value+1)
	}
	k.fold(l)
	for _, r := range l.followers {
		r.wake()
	}
	return base, l.end()
}

// mark writes the marker of a transaction.
func (k *kafka) mark(l *changelog, x *txn) {
	l.recs = append(l.recs, rec{by: x.of.life, txn: x, marker: true})
	for i, o := range l.open {
		if o.txn == x {
			l.open = append(l.open[:i:i], l.open[i+1:]...)
			break
		}
	}
	if s := l.sequences[x.of]; s == nil || s.epoch < x.ended {
		l.sequences[x.of] = &sequence{epoch: x.ended, bases: map[int]int64{}}
	}
	k.fold(l)
	for _, r := range l.followers {
		r.wake()
	}
}

// fold goes on as far as transactions are decided.
func (k *kafka) fold(l *changelog) {
	for ; l.decided < l.end(); l.decided++ {
		r := &l.recs[l.decided]
		if r.txn != nil && r.txn.state == ongoing {
			return
		}
		if r.visible() {
			k.effect(l, r)
		}
		r.hash = l.hash
	}
}

// effect is that of a visible record. That of each source record has to come once, and in order. Without
// transactions it may come again: of what a sidecar had in flight when it ended, and of what was answered as unknown.
//
// INVARIANT: no source record is lost, and none is repeated without a reason; under exactly_once there is none.
func (k *kafka) effect(l *changelog, r *rec) {
	if !l.begun { // a table that was added begins where its first owner is
		l.begun, l.from = true, r.value
	}
	seen := l.seen()
	switch {
	case r.value > seen:
		k.w.fail("%s: %s writes the effect of record %d of %s into %s, and that of %d is not there", l.t.id, r.by.name, r.value, l.t.source.Topic, l.table, seen)
	case r.value == seen:
		l.first = append(l.first, r.by)
	case k.w.exact:
		k.w.fail("%s: the effect of record %d is in %s twice, by %s and by %s", l.t.id, r.value, l.table, l.first[r.value-l.from].name, r.by.name)
	default:
		k.w.tally.Repeats++
		first := l.first[r.value-l.from]
		if !k.fenced(first) && !first.doubt[l.t.id] && !k.fenced(r.by) && !r.by.doubt[l.t.id] {
			k.w.fail("%s: the effect of record %d, written by %s, is written again by %s, and nothing was in doubt", l.t.id, r.value, first.name, r.by.name)
		}
	}
	if old, ok := l.state[r.key]; ok {
		l.hash ^= mix(r.key, old)
	}
	l.state[r.key] = r.value
	l.hash ^= mix(r.key, r.value)
}

// land is a batch of a transaction at its partition's leader. The first one of a transaction is verified: the
// coordinator has to know it.
func (k *kafka) land(l *changelog, of *transactional, epoch int16, number int, writes []write) (code int16, base int64) {
	s := l.sequences[of]
	switch {
	case s == nil:
		s = &sequence{epoch: epoch, next: number, bases: map[int]int64{}}
	case epoch < s.epoch:
		return oldEpoch, 0
	case epoch > s.epoch && number != 0:
		return outOfOrder, 0
	case epoch > s.epoch:
		s = &sequence{epoch: epoch, bases: map[int]int64{}}
	case number > s.next:
		return outOfOrder, 0
	case number < s.next:
		if base, ok := s.bases[number]; ok {
			return 0, base
		}
		return outOfOrder, 0
	}
	x := of.now
	known := false
	for _, o := range l.open {
		known = known || o.txn == x && x != nil && x.epoch == epoch
	}
	if !known {
		if code := of.verify(epoch, func(x *txn) bool { return x.has(l) }); code != 0 {
			return code, 0
		}
		l.open = append(l.open, opened{x, l.end()})
	}
	base, _ = k.append(l, of.life, x, writes)
	s.bases[s.next] = base
	s.next += len(writes)
	l.sequences[of] = s
	return 0, base
}
