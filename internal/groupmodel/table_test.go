package groupmodel

import (
	"fmt"
	"strings"
	"testing"
)

// setups bring a group of two, a (who leads) and b, into a state in which b is a Member of generation 2.
var setups = map[State]string{
	Stable: `
		a join -> 79
		a join -> 0 gen=1 leader=a members=a:x
		a sync plan=a:all -> 0 plan=all
		b join -> 79
		b join -> waits
		a join -> 0 gen=2 leader=a members=a:x,b:x
		  b got 0 gen=2 leader=a
		b sync -> waits
		a sync plan=a:half,b:half -> 0 plan=half
		  b got 0 plan=half`,
	Completing: `
		a join -> 79
		a join -> 0 gen=1 leader=a members=a:x
		a sync plan=a:all -> 0 plan=all
		b join -> 79
		b join -> waits
		a join -> 0 gen=2 leader=a members=a:x,b:x
		  b got 0 gen=2 leader=a`,
	Empty: `
		a join -> 79
		a join -> 0 gen=1 leader=a members=a:x
		a sync plan=a:all -> 0 plan=all
		a leave -> 0`,
	Dead: `group state -> Dead 0`,
}

// tableScripts is Table as scripts, one for each state.
func tableScripts(t *testing.T) []script {
	t.Helper()
	setups[Preparing] = setups[Stable] + `
		a join -> waits`
	var scripts []script
	for _, state := range []State{Stable, Preparing, Completing, Empty, Dead} {
		var text strings.Builder
		text.WriteString(setups[state])
		var last []string // what changes the state
		for _, row := range Table {
			if row.State != state {
				continue
			}
			who := map[Who]string{Member: "b", Behind: "b", Stranger: "c", Outside: "o"}[row.Who]
			opts := map[Who]string{Behind: " gen=1", Stranger: " id=c gen=2", Outside: " id=- gen=-1"}[row.Who]
			ask := func(verb, more string, code int16) {
				line := fmt.Sprintf("%s %s%s%s -> %d", who, verb, opts, more, code)
				if verb == "sync" && code == OK {
					line += " plan=half"
				}
				if verb == "sync" && code == Waits {
					last = append(last, fmt.Sprintf("%s sync%s -> waits", who, opts))
					return
				}
				fmt.Fprintln(&text, "\n"+line)
			}
			ask("commit", " at=1", row.OffsetCommit)
			ask("txncommit", " at=2", row.TxnOffsetCommit)
			if row.Who != Outside {
				ask("heartbeat", "", row.Heartbeat)
				ask("sync", "", row.SyncGroup)
			}
		}
		s := script{name: "table-" + state.String()}
		for n, line := range append(strings.Split(text.String(), "\n"), last...) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			if err := s.add(n+1, line); err != nil {
				t.Fatal(err)
			}
		}
		scripts = append(scripts, s)
	}
	return scripts
}

func TestTableOfGroupStates(t *testing.T) {
	for _, s := range tableScripts(t) {
		t.Run(s.name, func(t *testing.T) { s.check(t) })
	}
}
