package drill

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest/faultproxy"
)

// INVARIANT: a fault counts only when the history shows something pending where it struck.
func TestWhatAFaultHits(t *testing.T) {
	commit := []Event{{At: at(10), What: CommitBegan, Pair: 1, Life: 5, Task: "in/3", ID: 7}}
	restore := []Event{{At: at(10), What: TaskAssigned, Pair: 1, Life: 5, Task: "in/3", Role: "active"}}
	takeOver := []Event{{At: at(10), What: GroupAssigned, Pair: 1, Life: 2, Generation: 3, Active: 2}, {At: at(11), What: TaskPromoted, Pair: 1, Life: 2, Task: "in/3"}}
	revoke := []Event{{At: at(10), What: TaskRevoked, Pair: 1, Life: 2, Task: "in/3"}}
	flying := func(node int32, pair int, keys ...int16) (list []faultproxy.Request) {
		for _, key := range keys {
			list = append(list, faultproxy.Request{Node: node, Who: pairName(pair), Key: key})
		}
		return list
	}
	ofPair := func(n int) *Fault { return &Fault{Kind: WorkerKill, Pair: n} }
	ofBroker := func(n int32) *Fault { return &Fault{Kind: BrokerKill, Broker: n} }
	for name, c := range map[string]struct {
		before   []Event
		fault    *Fault
		at       int
		text     string
		node     int64
		inFlight []faultproxy.Request
		want     []Phase
	}{
		"nothing is pending":               {nil, ofPair(1), 20, "", 0, nil, nil},
		"a commit":                         {commit, ofPair(1), 20, "", 0, nil, []Phase{Commit}},
		"a commit of somebody else":        {commit, ofPair(2), 20, "", 0, nil, nil},
		"a commit that has not begun":      {commit, ofPair(1), 9, "", 0, nil, nil},
		"a commit that has its answer":     {append(commit, Event{At: at(15), What: CommitEnded, Pair: 1, Life: 5, ID: 7}), ofPair(1), 20, "", 0, nil, nil},
		"the answer of another life":       {append(commit, Event{At: at(15), What: CommitEnded, Pair: 1, Life: 4, ID: 7}), ofPair(1), 20, "", 0, nil, []Phase{Commit}},
		"a commit of a dead worker":        {append(commit, Event{At: at(15), What: WorkerEnded, Pair: 1, Life: 5}), ofPair(1), 20, "", 0, nil, nil},
		"a restore":                        {restore, ofPair(1), 20, "", 0, nil, []Phase{Restore}},
		"a table that is whole":            {append(restore, Event{At: at(15), What: TaskRestored, Pair: 1, Task: "in/3"}), ofPair(1), 20, "", 0, nil, nil},
		"a table of a revoked task":        {append(restore, Event{At: at(9), What: TaskRevoked, Pair: 1, Task: "in/3"}, Event{At: at(11), What: WorkerRevoking, Pair: 1, Task: "in/3"}, Event{At: at(15), What: TaskReleased, Pair: 1, Task: "in/3"}), ofPair(1), 20, "", 0, nil, nil},
		"a take-over":                      {takeOver, ofPair(1), 20, "", 0, nil, []Phase{TakeOver}},
		"a take-over that is done":         {append(takeOver, Event{At: at(15), What: TaskRunning, Pair: 1, Task: "in/4"}), ofPair(1), 20, "", 0, nil, nil},
		"a revoke":                         {revoke, ofPair(1), 20, "", 0, nil, []Phase{Rebalance}},
		"a join in flight":                 {nil, ofPair(1), 20, "", 0, flying(2, 1, keyJoinGroup), []Phase{Rebalance}},
		"a fence in flight":                {nil, ofPair(1), 20, "", 0, flying(2, 1, keyInitProducer), []Phase{TakeOver}},
		"a join of somebody else":          {nil, ofPair(1), 20, "", 0, flying(2, 3, keyJoinGroup), nil},
		"a fetch is nothing":               {nil, ofPair(1), 20, "", 0, flying(2, 1, keyFetch, keyHeartbeat, keyMetadata), nil},
		"a broker with a commit":           {nil, ofBroker(2), 20, "", 0, flying(2, 1, keyTxnOffsets), []Phase{Commit}},
		"a commit at another broker":       {commit, ofBroker(2), 20, "", 0, flying(3, 1, keyProduce), nil},
		"a broker with a restore's fetch":  {restore, ofBroker(2), 20, "", 0, flying(2, 1, keyFetch), []Phase{Restore}},
		"a broker with nobody's request":   {nil, ofBroker(2), 20, "", 0, []faultproxy.Request{{Node: 2, Key: keyProduce}}, nil},
		"leaders of a task that commits":   {commit, &Fault{Kind: LeaderMove, Broker: 2}, 20, "3", 1, nil, []Phase{Commit}},
		"leaders of another task":          {commit, &Fault{Kind: LeaderMove, Broker: 2}, 20, "4", 1, nil, nil},
		"the group's coordinator":          {revoke, &Fault{Kind: GroupCoordinator, Broker: 2}, 20, "1", 1, flying(1, 2, keyOffsetCommit), []Phase{Rebalance, Commit}},
		"a transaction's coordinator":      {commit, &Fault{Kind: TxnCoordinator, Broker: 2}, 20, "1", 1, flying(1, 2, keyEndTxn), []Phase{Commit}},
		"another transaction's, elsewhere": {commit, &Fault{Kind: TxnCoordinator, Broker: 2}, 20, "1", 1, flying(3, 2, keyEndTxn), nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := Event{At: at(c.at), What: FaultBegan, Pair: c.fault.Pair, Fault: c.fault, InFlight: c.inFlight, Text: c.text, ID: c.node}
			tally := Count(append([]Event{e}, c.before...)) // in the order of hearing, not of time
			counted := 0
			if len(c.want) > 0 {
				counted = 1
			}
			k := tally.ByKind[c.fault.Kind]
			var got []Phase
			for _, phase := range Phases {
				if k.Hits[phase] > 0 {
					got = append(got, phase)
				}
			}
			slices.Sort(c.want)
			slices.Sort(got)
			if tally.Injected != 1 || tally.Counted != counted || !slices.Equal(got, c.want) {
				t.Errorf("hits %v (%+v), want %v", got, tally, c.want)
			}
		})
	}
}

func TestAMissedFaultDoesNotCount(t *testing.T) {
	tally := Count([]Event{{At: at(1), What: CommitBegan, Pair: 1, ID: 1}, {At: at(2), What: FaultMissed, Pair: 1, Fault: &Fault{Kind: WorkerKill, Pair: 1}}})
	if tally.Injected != 0 || tally.Counted != 0 || tally.Missed != 1 {
		t.Errorf("%+v", tally)
	}
}

// A history that was written is read again as it was, and counts alike.
func TestHistoryRoundTrip(t *testing.T) {
	var file bytes.Buffer
	h := NewHistory(&file)
	h.Add(Event{At: at(1), What: CommitBegan, Pair: 2, Life: 3, Task: "in/1", ID: 4})
	h.Add(Event{At: at(2), What: FaultBegan, Pair: 2, Fault: &Fault{Kind: SidecarStop, Pair: 2, For: 5}, InFlight: []faultproxy.Request{{Node: 1, Who: "pair-2", Key: keyProduce, Since: at(1)}}})
	read, err := ReadHistory(&file)
	if err != nil || !reflect.DeepEqual(read, h.Events()) {
		t.Errorf("read %+v, %v; want %+v", read, err, h.Events())
	}
	if !reflect.DeepEqual(Count(read), Count(h.Events())) || Count(read).Counted != 1 {
		t.Errorf("counts %+v", Count(read))
	}
}
