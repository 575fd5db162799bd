package conformance

import (
	"os"
	"slices"
	"testing"
	"time"
)

// mutants are mistakes of the mini worker, and for each the cases that must find it: PROTOCOL.md's ten
// usual ones first.
var mutants = []struct {
	mutation string
	cases    []string
}{
	{"small-messages", []string{"large_record"}},                             // 1
	{"deflate", []string{"handshake"}},                                       // 1
	{"pings-and-gives-up", []string{"blocked"}},                              // 1
	{"proxy", []string{"handshake"}},                                         // 1
	{"null-is-empty", []string{"null_and_empty", "tombstones"}},              // 2
	{"last-offset-plus-1", []string{"gap"}},                                  // 3
	{"rows-before-committed", []string{"aborted_rows", "reconnect_rows"}},    // 4
	{"two-transactions", []string{"killed", "restore_broken_off"}},           // 5
	{"sends-commits-again", []string{"reconnect"}},                           // 6
	{"repeats-aborted", []string{"aborted"}},                                 // 6
	{"mixes-commits", []string{"two_tasks"}},                                 // 7
	{"stale-without-credit", []string{"lost"}},                               // 8
	{"grants-on-arrival", []string{"slow"}},                                  // 9
	{"grants-past-threshold", []string{"empty_frame"}},                       // 9
	{"empty-frame-ignored", []string{"empty_frame", "checkpoint_of_frames"}}, // 10

	{"silent-after-hung", []string{"hung"}},
	{"no-token", []string{"handshake"}},
	{"token-untrimmed", []string{"handshake"}},
	{"origin", []string{"handshake"}},
	{"level-tables", []string{"standby"}},
	{"comes-again-unauthorized", []string{"unauthorized"}},
	{"redirects-are-final", []string{"not_a_sidecar"}},
	{"comes-again-always", []string{"closed_for_good", "superseded"}},
	{"level-stateless", []string{"restore"}},
	{"no-pause", []string{"busy"}},
	{"reconnects-when-superseded", []string{"superseded"}},
	{"drained-fails", []string{"drained"}},
	{"dies-at-sigterm", []string{"stop", "stop_idle"}},
	{"too-many-commits", []string{"process"}},
	{"credit-ignored", []string{"little_credit"}},
	{"uncut-frames", []string{"small_limits"}},
	{"goes-on-after-nonsense", []string{"bad_message"}},
	{"no-offset-check", []string{"offset_mismatch", "restore_mismatch"}},
	{"optional-refused", []string{"unknown_things"}},
	{"unknown-field", []string{"unknown_things"}},
	{"unknown-code", []string{"unknown_things"}},
	{"ready-twice", []string{"assign"}},
	{"released-first", []string{"revoke"}},
	{"revoke-takes-all", []string{"revoke"}},
	{"tombstones-last", []string{"tombstones"}},
	{"trims-checkpoints", []string{"restore_checkpoint"}},
	{"parses-task-names", []string{"partitions"}},
	{"first-checkpoint-kept", []string{"checkpoint_of_frames", "standby_lost"}},
	{"no-pending-rows", []string{"pending"}},
	{"store-after-lost", []string{"lost_committed"}},
	{"reset-keeps-rows", []string{"reset", "standby_reset"}},
	{"processes-while-reset", []string{"reset_queued", "global_reset"}},
	{"promoted-empty", []string{"standby"}},
	{"reads-once", []string{"pieces", "misaligned"}},
	{"bad-frames-skipped", []string{"bad_frame"}},
	{"refuses-headers", []string{"columns"}},
	{"tcp-only", []string{"unix_socket"}},
	{"refused-exits-0", []string{"refused"}},
	{"waits-for-lost", []string{"aborted_released"}},
	{"answers-by-task", []string{"lost_in_flight"}},
	{"stuck-behind-lost", []string{"credit_lost"}},
	{"lost-is-fatal", []string{"revoke_timeout"}},
	{"revoke-only-running", []string{"revoke_early"}},
	{"never-released-while-unanswered", []string{"revoke_unanswered"}},
	{"unknown-is-committed", []string{"unknown_end"}},
	{"checkpoint-without-rows", []string{"released_committed"}},
	{"first-value-kept", []string{"restore"}},
	{"ready-needs-frames", []string{"restore_nothing", "standby_empty"}},
	{"restore-without-credit", []string{"many_rows"}},
	{"tables-frozen", []string{"source_table"}},
	{"one-global-partition", []string{"global"}},
	{"reset-only-running", []string{"reset_restoring"}},
	{"waits-for-all-restores", []string{"standby_beside"}},
	{"promoted-not-revoked", []string{"promoted_revoked"}},
	{"waits-for-queued-epochs", []string{"promoted_queued"}},
	{"settles-later", []string{"demote_committed"}},
	{"demoted-closes", []string{"demote"}},
	{"demoted-keeps-pending", []string{"demote_busy", "demoted_queued"}},
}

// Every mistake is found by the case that is there for it. What a worker must not do shows only while
// time passes: on a busy machine a mutant has three tries to show it.
func TestMutantsFail(t *testing.T) {
	t.Parallel()
	room := make(chan struct{}, 4)
	for _, m := range mutants {
		t.Run(m.mutation, func(t *testing.T) {
			t.Parallel()
			room <- struct{}{}
			defer func() { <-room }()
			left := m.cases
			for range 3 {
				if left = passing(t, m.mutation, left); len(left) == 0 {
					return
				}
			}
			t.Errorf("passes %v", left)
		})
	}
}

// passing plays cases against a mutant and gives those that it passes.
func passing(t *testing.T, mutation string, cases []string) (left []string) {
	t.Helper()
	chosen, err := Choose(scenarios(t), "standby", cases)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Command: []string{os.Args[0], "mini", mutation}, Level: "standby", Parallel: 2, Patience: 3 * time.Second}
	err = Run(t.Context(), chosen, o, func(r Result) {
		switch {
		case r.Pass:
			left = append(left, r.Case)
		case r.Hint == "" || r.Expected == "" || r.Came == "" || r.Line == 0:
			t.Errorf("case %s fails without saying why: %+v", r.Case, r)
		default:
			t.Logf("%s: expected %s; came %s", r.Case, r.Expected, r.Came)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// A case that no mutant fails may be one that cannot fail.
func TestEveryCaseHasAMutant(t *testing.T) {
	for _, s := range scenarios(t) {
		found := slices.ContainsFunc(mutants, func(m struct {
			mutation string
			cases    []string
		}) bool {
			return slices.Contains(m.cases, s.Name)
		})
		if !found {
			t.Errorf("no mutant fails case %s", s.Name)
		}
	}
}
