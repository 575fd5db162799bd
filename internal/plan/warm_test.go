package plan

import (
	"strings"
	"testing"
)

// warming is a group of which c has died: the copy of its task is with a, which is full already.
const warming = `{"replicas": 1, "warmups": WARMUPS, "acceptable_lag": 100, "topics": {"orders": 4, "orders-log": 4}, "members": [
	{"id": "a", "generation": 7, "sources": ["orders"], "tables": [{"name": "t", "changelog": "orders-log"}],
	 "active": {"orders": [0, 1]}, "standby": {"orders-log": [2, 3]}, "lags": {"orders-log": [LAG, 0]}},
	{"id": "b", "generation": 7, "sources": ["orders"], "tables": [{"name": "t", "changelog": "orders-log"}],
	 "active": {"orders": [3]}, "standby": {"orders-log": [0, 1]}}]}`

func TestTheNextGenerationShowsWarmUps(t *testing.T) {
	for name, c := range map[string]struct {
		warmups, lag string
		next, warm   bool
	}{
		"the target":      {"2", "5", false, false},
		"next":            {"2", "5", true, true},
		"off":             {"0", "5", true, false},
		"a copy too late": {"2", "-1", true, false},
	} {
		r := planned(t, read(t, strings.NewReplacer("WARMUPS", c.warmups, "LAG", c.lag).Replace(warming)), c.next)
		var table, text strings.Builder
		if err := r.Table(&table); err != nil {
			t.Fatal(err)
		}
		if err := r.JSON(&text); err != nil {
			t.Fatal(err)
		}
		named := strings.Contains(text.String(), `"warming": [{"set":"orders","partition":2,"from":"a","to":"b"}]`)
		said := strings.Contains(table.String(), "warms up: orders 2 at b, until then with a\n")
		if named != c.warm || said != c.warm || (r.Moves.Cold == 0) != c.warm {
			t.Errorf("%s:\n%s%s", name, table.String(), text.String())
		}
	}
}

func TestWarmUpsThatWaitForTheirTurn(t *testing.T) {
	r := planned(t, read(t, `{"warmups": 1, "topics": {"orders": 6}, "members": [
		{"id": "a", "generation": 7, "sources": ["orders"], "tables": [{"name": "t", "changelog": "log"}], "active": {"orders": [0, 1, 2, 3, 4, 5]}},
		{"id": "b", "sources": ["orders"], "tables": [{"name": "t", "changelog": "log"}]}]}`), true)
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "later, when fewer copies are being made") || len(r.Warming) != 3 {
		t.Errorf("%s", table.String())
	}
}

func TestBadWarmUpsAreRefused(t *testing.T) {
	for change, want := range map[string]string{
		`"warmups": 2|"warmups": -2`:                 "warmups is -2: 0 (tasks move cold) or more are possible",
		`"acceptable_lag": 100|"acceptable_lag": -1`: "acceptable_lag is -1: 0 or more are possible",
		`[5, 0]|[5]`:     `member "a": lags: "orders-log" has 1, and standby has 2 partitions of it: give one for each, or none`,
		`[5, 0]|[5, -3]`: `member "a": lags: "orders-log" has -3: -1 (not known) or more are possible`,
	} {
		was, is, _ := strings.Cut(change, "|")
		text := strings.Replace(strings.NewReplacer("WARMUPS", "2", "LAG", "5").Replace(warming), was, is, 1)
		if _, err := Read(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", is, err)
		}
	}
}
