package drill

import (
	"reflect"
	"testing"
)

// INVARIANT: the same seed gives the same schedule.
func TestScheduleIsOfTheSeed(t *testing.T) {
	for seed := range uint64(20) {
		p := Plan{Seed: seed, Wave: 3, Faults: 60, Guarantee: ExactlyOnce}
		if !reflect.DeepEqual(Schedule(p), Schedule(p)) {
			t.Fatalf("seed %d: two schedules", seed)
		}
		q, w := p, p
		q.Seed++
		w.Wave++
		if reflect.DeepEqual(Schedule(p), Schedule(q)) || reflect.DeepEqual(Schedule(p), Schedule(w)) {
			t.Fatalf("seed %d: another seed or wave has the same schedule", seed)
		}
	}
	if first := Schedule(Plan{Seed: 7, Wave: 1, Faults: 40, Guarantee: ExactlyOnce})[0].Faults[0].String(); first != firstOfSeven {
		t.Errorf("seed 7 begins with %q: a schedule that was reported can not be played again", first)
	}
}

const firstOfSeven = "worker killed of pair 1 for 750ms during a rebalance"

// All kinds come, alone and together, and a mild schedule leaves sidecars alone.
func TestScheduleHasEverything(t *testing.T) {
	kinds, together, keys := map[Kind]int{}, map[int]int{}, map[int16]int{}
	for seed := range uint64(20) {
		for _, step := range Schedule(Plan{Seed: seed, Faults: 100, Guarantee: ExactlyOnce}) {
			together[len(step.Faults)]++
			for _, f := range step.Faults {
				kinds[f.Kind]++
				for _, key := range f.Keys {
					keys[key]++
				}
				if f.Pair > Pairs || f.Broker > Brokers || f.For < 0 || f.Pair+int(f.Broker)+len(f.Keys) == 0 {
					t.Fatalf("%+v strikes nobody", f)
				}
			}
		}
		for _, step := range Schedule(Plan{Seed: seed, Faults: 100, Guarantee: AtLeastOnce, Mild: true}) {
			for _, f := range step.Faults {
				if f.Kind == SidecarKill || f.Kind == SidecarStop || f.Kind == TxnCoordinator {
					t.Fatalf("a mild schedule has %v", f)
				}
			}
		}
	}
	for _, kind := range []Kind{WorkerKill, WorkerStop, WorkerSlow, WorkerFull, WorkerDies, WorkerWiped, SidecarKill, SidecarStop, PairDrain, RestoreRebalance,
		BrokerKill, BrokerStop, LeaderMove, GroupCoordinator, TxnCoordinator, ConnectionCut, ConnectionsCut, LinkDelay, LinkThrottle, LinkHalfOpen} {
		if kinds[kind] < 10 {
			t.Errorf("%q came %d times in 2,000", kind, kinds[kind])
		}
	}
	if together[1] == 0 || together[2] == 0 || together[3] == 0 || len(keys) < 15 {
		t.Errorf("together %v, kinds of requests %d", together, len(keys))
	}
}
