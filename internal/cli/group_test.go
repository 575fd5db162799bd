package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/groupclient"
)

func tasks(set string, partitions ...int32) (list []assignor.Task) {
	for _, p := range partitions {
		list = append(list, assignor.Task{Set: set, Partition: p})
	}
	return list
}

// A group in the middle of a hand-over: b holds orders/3 still, which nobody is given.
func handOver() groupReport {
	return reportOf(groupclient.View{
		Group: "shop", State: groupStable,
		Sets: []assignor.United{{Key: "orders,payments", Sources: []string{"orders", "payments"}}, {Key: "ticks", Sources: []string{"ticks"}}, {Key: "gone", Sources: []string{"gone"}}},
		Members: []groupclient.ViewMember{
			{ID: "pillion-aaaaaaaaaaaaaaaaaa1", Host: "/10.0.0.1", Address: "a:8080", Rack: "z1", Generation: 6,
				Active: append(tasks("orders,payments", 2, 0, 1), tasks("ticks", 0)...), Standby: tasks("orders,payments", 5, 4, 3),
				Copies: []assignor.Copy{{Task: tasks("orders,payments", 4)[0], Lag: 7}, {Task: tasks("orders,payments", 5)[0], Lag: 7}}},
			{ID: "pillion-aaaaaaaaaaaaaaaaaa2", Host: "/10.0.0.2", Address: "b:8080", Rack: "z2", Generation: 7, Draining: true,
				Owned: tasks("orders,payments", 3), Active: tasks("orders,payments", 4, 5)},
			{ID: "old", Host: "10.0.0.3:1234", Generation: -1, NoStandby: true, Unreadable: "what it says of itself cannot be read: version 9"},
		},
	}, map[string]int32{"orders": 6, "payments": 6, "ticks": 2})
}

func TestGroupTable(t *testing.T) {
	const want = `
group shop: Stable, after generation 7: 3 members, 8 tasks in 3 sets, 3 standbys

MEMBER                       ADDRESS  HOST      RACK  SET              ACTIVE  STANDBY (LAG)
old                                   10.0.0.3        -                -       -
pillion-aaaaaaaaaaaaaaaaaa1  a:8080   10.0.0.1  z1    orders,payments  0-2     3 (?), 4-5 (7)
                                                      ticks            0       -
pillion-aaaaaaaaaaaaaaaaaa2  b:8080   10.0.0.2  z2    orders,payments  4-5     -

old cannot hold standbys
old: what it says of itself cannot be read: version 9
pillion-aaaaaaaaaaaaaaaaaa2 is draining
set gone: its topics do not exist
waits: orders,payments 3: pillion-aaaaaaaaaaaaaaaaaa2 has to let go first
waits: ticks 1: nobody has it
lag: about how many records behind a copy was when its member joined last
`
	if got := handOver().table(0); got != want[1:] {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}

func TestGroupTableOfFewColumns(t *testing.T) {
	const want = `
pillion-aaaaaaaaaaaaaaaaaa1  a:8080
    10.0.0.1  z1
  orders,payments
    active 0-2
    standby 3 (?), 4-5 (7)
  ticks
    active 0
    standby -
`
	if got := handOver().table(40); !strings.Contains(got, want) || !strings.Contains(got, "old  10.0.0.3\n  nothing\n") {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}

// Whatever there is to show, no line is longer than the terminal, but for words that cannot be broken.
func TestNoLineIsTooLong(t *testing.T) {
	var v groupclient.View
	v.Group, v.State = "g", groupStable
	v.Sets = []assignor.United{{Key: "orders", Sources: []string{"orders"}}}
	for m := range int32(3) {
		member := groupclient.ViewMember{ID: fmt.Sprintf("pillion-%d%030d", m, 7), Host: "/10.0.0.1", Address: fmt.Sprintf("10.0.0.%d:8080", m), Rack: "zone"}
		for p := m; p < 200; p += 3 {
			member.Active = append(member.Active, assignor.Task{Set: "orders", Partition: p})
			copied := assignor.Task{Set: "orders", Partition: (p + 1) % 200}
			member.Standby = append(member.Standby, copied)
			member.Copies = append(member.Copies, assignor.Copy{Task: copied, Lag: int64(p % 7)})
		}
		v.Members = append(v.Members, member)
	}
	r := reportOf(v, map[string]int32{"orders": 200})
	if len(r.Waiting) != 0 {
		t.Errorf("waiting: %v", r.Waiting)
	}
	for _, width := range []int{30, 40, 50, 60, 70, 80, 85, 86, 90, 100, 120, 200} {
		text := r.table(width)
		if isTable := strings.Contains(text, "MEMBER"); isTable != (width >= 86) {
			t.Errorf("%d columns: a table: %v", width, isTable)
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && n > 36 {
				t.Fatalf("%d columns: a line of %d: %q", width, n, line)
			}
		}
		for p := range 200 {
			if !strings.Contains(text, fmt.Sprint(p)) {
				t.Fatalf("%d columns: partition %d is not shown", width, p)
			}
		}
	}
}

func TestGroupWithoutMembers(t *testing.T) {
	empty := reportOf(groupclient.View{Group: "g", State: "Empty"}, nil)
	if got := empty.table(80); got != "group g: Empty: 0 members\n" {
		t.Errorf("got %q", got)
	}
	b, err := json.Marshal(empty)
	if want := `{"group":"g","state":"Empty","after_generation":-1,"sets":[],"members":[],"waiting":[]}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v", b, err)
	}
	silent := reportOf(groupclient.View{Group: "g", State: "PreparingRebalance", Members: []groupclient.ViewMember{{ID: "a", Host: "/h", Generation: -1}}}, nil)
	if got := silent.table(80); !strings.HasPrefix(got, "group g: PreparingRebalance, shares are told when that is over: 1 member\n") {
		t.Errorf("got %q", got)
	}
}

func TestGroupJSON(t *testing.T) {
	b, err := json.Marshal(handOver())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"sets":[{"set":"gone","sources":["gone"],"partitions":0},{"set":"orders,payments","sources":["orders","payments"],"partitions":6}`,
		`{"id":"pillion-aaaaaaaaaaaaaaaaaa1","host":"10.0.0.1","address":"a:8080","rack":"z1","shares":[{"set":"orders,payments","active":[0,1,2],` +
			`"standby":[{"partition":3,"lag":-1},{"partition":4,"lag":7},{"partition":5,"lag":7}]},{"set":"ticks","active":[0],"standby":[]}]}`,
		`"waiting":[{"set":"orders,payments","partition":3,"held_by":"pillion-aaaaaaaaaaaaaaaaaa2"},{"set":"ticks","partition":1}]`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s\nhas no %s", b, want)
		}
	}
}

// A rebalance is waited for, but not for ever.
func TestARebalanceIsWaitedFor(t *testing.T) {
	for until, want := range map[time.Duration]string{0: groupStable, time.Second: groupStable, time.Minute: "CompletingRebalance"} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			v, err := settled(t.Context(), func(context.Context) (groupclient.View, error) {
				if time.Since(began) < until {
					return groupclient.View{State: "CompletingRebalance"}, nil
				}
				return groupclient.View{State: groupStable}, nil
			})
			if err != nil || v.State != want || time.Since(began) > settleWithin {
				t.Errorf("%v: %s after %v, %v", until, v.State, time.Since(began), err)
			}
		})
	}
	if _, err := settled(t.Context(), func(context.Context) (groupclient.View, error) { return groupclient.View{}, errors.New("no") }); err == nil {
		t.Error("an error is lost")
	}
}

func TestGroupCommandMistakes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "bootstrap_servers is missing"},
		{[]string{"--bootstrap-servers", "h:1"}, "group_id is missing"},
		{[]string{"--bootstrap-servers", "h:1", "--group-id", "g", "x"}, `takes no arguments, got "x"`},
		{[]string{"--rack", "z"}, "lists the flags"},
	} {
		if code, _, stderr := pillion(nil, append([]string{"group"}, c.args...)...); code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: %d %q, want %q", c.args, code, stderr, c.want)
		}
	}
	if code, stdout, _ := pillion(nil, "group", "--help"); code != exitOK || !strings.Contains(stdout, "--json") {
		t.Errorf("--help: %d %q", code, stdout)
	}
}
