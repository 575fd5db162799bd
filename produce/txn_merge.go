package produce

import (
	"context"
	"time"
)

// mergeBytes is how much of outputs is packed anew so that units share batches. Above it the batches are
// large by themselves.
const mergeBytes = 8 << 20

// mergeWait is how long the topics may be looked up for it, where they are not known any more.
const mergeWait = 300 * time.Millisecond

// merge packs the outputs of units that write to the same partitions together. A partition has one
// batch under way, so that one for each unit would cost a round trip each.
func (x *transaction) merge(ctx context.Context) {
	if !x.worthMerging() {
		return
	}
	x.t.packing.Lock()
	defer x.t.packing.Unlock()
	if !x.allStay() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mergeWait)
	defer cancel()
	k := newPacking(x.t.p)
	defer k.release()
	for _, u := range x.units {
		var outputs []Write
		for _, w := range u.writes {
			if !w.Changelog {
				outputs = append(outputs, w)
			}
		}
		if err := k.pack(ctx, outputs, u.commit.sticky); err != nil {
			return // then without
		}
	}
	if k.flushAll() != nil {
		return
	}
	for _, b := range k.commit.batches {
		if x.streams[b.tp] == nil {
			return // the topic has got partitions meanwhile, which are not in the transaction
		}
	}
	x.shareOut(k.commit.batches)
}

func (x *transaction) worthMerging() bool {
	bytes, several := int64(0), false
	for _, s := range x.order {
		for i, b := range s.batches {
			if !b.batch.changelog {
				bytes += int64(len(b.batch.records))
				several = several || i > 0 && b.owner() != s.batches[0].owner()
			}
		}
	}
	return several && bytes <= mergeBytes
}

// shareOut puts the batches in the place of those of the single units.
func (x *transaction) shareOut(batches []*batch) {
	writers := map[*stream][]*unit{}
	for _, s := range x.order {
		var kept []share
		for _, b := range s.batches {
			if b.batch.changelog {
				kept = append(kept, b)
			} else if n := len(writers[s]); n == 0 || writers[s][n-1] != b.owner() {
				writers[s] = append(writers[s], b.owner())
			}
		}
		s.batches = kept
	}
	for _, b := range batches {
		s := x.streams[b.tp]
		b.lane = s.lane
		s.batches = append(s.batches, share{writers[s], b})
	}
}

// allStay says whether no caller has gone: the frames of one that has are its own again.
func (x *transaction) allStay() bool {
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	for _, u := range x.units {
		if u.stage == ended {
			return false
		}
	}
	return true
}
