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
	another = "a sidecar of a later version says it; ours has no such message"
)

var exceptions = []exception{
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
