package groupsim

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	oneSeed  = flag.Uint64("groupsim.seed", 0, "run only this seed, and print its history")
	runs     = flag.Uint64("groupsim.runs", 10_000, "how many seeds are run")
	from     = flag.Uint64("groupsim.from", 1, "the first seed")
	historyN = flag.Int("groupsim.history", 400, "lines of a failed run's history that are printed, from its end; 0: all")
)

// What a run needs is gone with it: to collect it often is a waste.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// replayed runs a seed again with its history.
func replayed(t *testing.T, seed uint64, mutant Mutant) {
	t.Helper()
	out := Run(Options{Seed: seed, Mutant: mutant, Record: true})
	history := out.History
	if *historyN > 0 && len(history) > *historyN {
		history = history[len(history)-*historyN:]
	}
	t.Fatalf("seed %d: %s\nto see it again: go test ./internal/groupsim -run TestGroups -groupsim.seed %d\nhistory:\n%s",
		seed, out.Err, seed, strings.Join(history, "\n"))
}

func TestGroupsHoldTheirInvariantsWhateverHappens(t *testing.T) {
	if *oneSeed != 0 {
		out := Run(Options{Seed: *oneSeed, Record: true})
		t.Logf("seed %d: %q, %+v\n%s", *oneSeed, out.Err, out.Tally, strings.Join(out.History, "\n"))
		if out.Err != "" {
			t.Fail()
		}
		return
	}
	n := *runs
	if testing.Short() {
		n = min(n, 500)
	}
	tally, failed := many(n, None)
	if failed != 0 {
		replayed(t, failed, None)
	}
	t.Logf("%d runs: %+v", n, tally)
	if tally.Moves == 0 || tally.Repeats == 0 || tally.Commits == 0 || tally.Records == 0 || tally.Fences == 0 || tally.Unknown == 0 || tally.TimedOut == 0 {
		t.Errorf("the runs do not see enough: %+v", tally)
	}
}

// many runs seeds on all processors; it gives the lowest seed that fails.
func many(n uint64, mutant Mutant) (sum Tally, failed uint64) {
	var mu sync.Mutex
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed := *from + next.Add(1) - 1
				last := *from + n
				if mutant.exact() { // half of the seeds cannot find it
					seed, last = 2*seed, 2*last
				}
				mu.Lock()
				stop := failed != 0 && failed < seed
				mu.Unlock()
				if seed >= last || stop {
					return
				}
				out := Run(Options{Seed: seed, Mutant: mutant})
				mu.Lock()
				sum.Add(out.Tally)
				if out.Err != "" && (failed == 0 || seed < failed) {
					failed = seed
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return sum, failed
}

// A simulation that finds nothing may be one that cannot: mistakes made on purpose have to be found.
func TestMutantsAreFound(t *testing.T) {
	for _, mutant := range Mutants {
		t.Run(string(mutant), func(t *testing.T) {
			const within = 3000
			_, failed := many(within, mutant)
			if failed == 0 {
				t.Fatalf("not found in %d runs", within)
			}
			t.Logf("seed %d: %s", failed, Run(Options{Seed: failed, Mutant: mutant}).Err)
		})
	}
}

func TestTheSameSeedGivesTheSameHistory(t *testing.T) {
	for seed := range uint64(50) {
		a, b := Run(Options{Seed: seed, Record: true}), Run(Options{Seed: seed, Record: true})
		if a.Tally != b.Tally || strings.Join(a.History, "\n") != strings.Join(b.History, "\n") {
			for i := range min(len(a.History), len(b.History)) {
				if a.History[i] != b.History[i] {
					t.Fatalf("seed %d differs in line %d:\n%s\n%s", seed, i, a.History[i], b.History[i])
				}
			}
			t.Fatalf("seed %d differs: %+v, %+v", seed, a.Tally, b.Tally)
		}
	}
}
