package drill

import (
	"fmt"
	"slices"
	"strings"
)

// phaseOf is what a request is part of, by its kind alone. Fetch and the like are part of nothing by themselves.
func phaseOf(key int16) (Phase, bool) {
	switch key {
	case keyProduce, keyAddPartitions, keyAddOffsets, keyTxnOffsets, keyEndTxn, keyOffsetCommit:
		return Commit, true
	case keyJoinGroup, keySyncGroup:
		return Rebalance, true
	case keyInitProducer, keyOffsetFetch:
		return TakeOver, true
	}
	return "", false
}

// hits is what a fault hit: the phases that were pending at that instant where it struck. A fault of a pair
// hits what is pending at that pair, in the history or in flight at any broker. A fault of a broker hits what
// is in flight there, and the restores of those who fetch there. One that moves coordinators strikes all pairs.
func hits(e Event, now *pendings) (found []Phase) {
	f := e.Fault
	add := func(p Phase) {
		if !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	moves := f.Kind == LeaderMove || f.Kind == GroupCoordinator || f.Kind == TxnCoordinator
	if moves {
		return movesHit(e, now)
	}
	atBroker := f.Pair == 0 && f.Broker > 0
	for _, r := range e.InFlight {
		if f.Pair > 0 && r.Who != pairName(f.Pair) || atBroker && r.Node != f.Broker || r.Who == "" {
			continue
		}
		if phase, ok := phaseOf(r.Key); ok {
			add(phase)
		}
		if r.Key == keyFetch && atBroker {
			for _, p := range now.of(pairNumber(r.Who)) {
				if p.Phase == Restore {
					add(Restore)
				}
			}
		}
	}
	if !atBroker {
		for _, p := range now.of(e.Pair) {
			add(p.Phase)
		}
	}
	return found
}

// movesHit is hits of a move. Leaders of a partition: commits and restores of that partition's task. The group's
// coordinator: whatever is pending at all, since it goes through there; that of transactions: what is in flight
// at the broker that had it.
func movesHit(e Event, now *pendings) (found []Phase) {
	for _, p := range now.of(0) {
		fits := e.Fault.Kind == GroupCoordinator || e.Fault.Kind == LeaderMove && strings.HasSuffix(p.Task, "/"+e.Text)
		if fits && !slices.Contains(found, p.Phase) {
			found = append(found, p.Phase)
		}
	}
	for _, r := range e.InFlight {
		phase, ok := phaseOf(r.Key)
		fits := e.Fault.Kind == GroupCoordinator && slices.Contains([]int16{keyJoinGroup, keySyncGroup, keyOffsetCommit, keyTxnOffsets, keyOffsetFetch}, r.Key) ||
			e.Fault.Kind == TxnCoordinator && slices.Contains([]int16{keyInitProducer, keyAddPartitions, keyAddOffsets, keyEndTxn}, r.Key)
		if ok && fits && r.Node == int32(e.ID) && !slices.Contains(found, phase) {
			found = append(found, phase)
		}
	}
	return found
}

func pairName(n int) string { return fmt.Sprintf("pair-%d", n) }

func pairNumber(name string) (n int) {
	_, _ = fmt.Sscanf(name, "pair-%d", &n)
	return n
}
