package transcripts

import (
	"slices"
	"strings"
	"testing"
)

// exception is what this sidecar does not do, or not yet: lines that have all these words. Instead are
// the lines that take the place of the first of them, so that the rest can be played.
type exception struct {
	transcript string
	words      []string
	why        string
	instead    []string
}

const (
	noStandby = "standby copies are not built yet"
	another   = "a sidecar of a later version says it; ours has no such message"
)

var exceptions = []exception{
	{"standby", []string{`"role": "standby"`}, noStandby, nil},
	{"standby", []string{`"type": "opened"`}, noStandby, nil},
	{"standby", []string{`"kind":"restore"`}, noStandby, nil},
	{"standby", []string{`"type": "promoted"`}, noStandby + ": the task is opened as the active from the store's checkpoint", []string{
		`{"from": "sidecar", "message": {"type": "assign", "id": 1, "task": "flights/3", "set": "flights", "partition": 3, "role": "active", "epoch": 2, "sources": [{"topic": "flights", "stream": 2, "position": 104}], "tables": [{"name": "plane_stats", "topic": "flights-app-plane_stats-changelog", "kind": "changelog", "stream": 3}], "outputs": [{"topic": "late-arrivals", "stream": 4}]}}`,
		`{"from": "worker", "message": {"type": "opened", "re": 1, "task": "flights/3", "epoch": 2, "checkpoints": {"plane_stats": "v1:a:4:0:3"}}}`,
		`{"from": "sidecar", "message": {"type": "restored", "id": 2, "task": "flights/3", "epoch": 2}}`,
	}},
	{"standby", []string{`"type": "demoted"`}, noStandby + ": the task is asked for", []string{
		`{"from": "sidecar", "message": {"type": "revoke", "id": 3, "task": "flights/3", "epoch": 2, "deadline_ms": 10000, "code": "rebalance"}}`,
		`{"from": "worker", "message": {"type": "released", "re": 3, "task": "flights/3", "epoch": 2}}`,
	}},
	{"promoted_revoked", []string{`"role": "standby"`}, noStandby, nil},
	{"promoted_revoked", []string{`"type": "opened"`}, noStandby, nil},
	{"promoted_revoked", []string{`"kind":"restore"`}, noStandby, nil},
	{"promoted_revoked", []string{`"type": "promoted"`}, noStandby + ": the task is opened as the active", []string{
		`{"from": "sidecar", "message": {"type": "assign", "id": 1, "task": "flights/3", "set": "flights", "partition": 3, "role": "active", "epoch": 2, "sources": [{"topic": "flights", "stream": 2, "position": 104}], "tables": [{"name": "plane_stats", "topic": "flights-app-plane_stats-changelog", "kind": "changelog", "stream": 3}], "outputs": [{"topic": "late-arrivals", "stream": 4}]}}`,
		`{"from": "worker", "message": {"type": "opened", "re": 1, "task": "flights/3", "epoch": 2, "checkpoints": {"plane_stats": null}}}`,
		`{"from": "sidecar", "message": {"type": "restored", "id": 2, "task": "flights/3", "epoch": 2}}`,
	}},
	{"errors", []string{"zz_news"}, another, nil},
	{"errors", []string{"zz_question"}, another, nil},
	{"lost", []string{`"kind":"records"`, `"dropped": true`}, "the gate of an epoch that is over lets nothing through", nil},
}

// except puts what this sidecar does in the place of what it does not.
func except(t *testing.T, name string, lines []line) []line {
	t.Helper()
	used := make([]bool, len(exceptions))
	var out []line
	for _, l := range lines {
		i := slices.IndexFunc(exceptions, func(e exception) bool { return e.transcript == name && e.covers(l) })
		if i < 0 {
			out = append(out, l)
			continue
		}
		t.Logf("line %d (%s): %s", l.number, l.kind(), exceptions[i].why)
		if !used[i] {
			for _, other := range exceptions[i].instead {
				instead := parse(t, other)
				instead.number = l.number
				out = append(out, instead)
			}
		}
		used[i] = true
	}
	for i, e := range exceptions {
		if e.transcript == name && !used[i] {
			t.Errorf("there is no line with %q any more: remove the exception", e.words)
		}
	}
	return out
}

func (e exception) covers(l line) bool {
	for _, w := range e.words {
		if !strings.Contains(l.text, w) {
			return false
		}
	}
	return l.From != ""
}
