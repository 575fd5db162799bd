package groupsim

import (
	"testing"
	"time"
)

// step is a request to the coordinator of transactions, and the code that it is answered with. What is waited
// for before is the markers of the transaction before.
type step struct {
	what   string // init, add, commit, abort
	epoch  int16
	code   int16
	waits  bool
	given  int16 // by an init
	reason string
}

// txnScript is run against the model, and with the build tag kafka against a broker.
var txnScript = []step{
	{what: "init", epoch: -1, given: 0},
	{what: "commit", epoch: 0, code: invalidState, reason: "nothing has begun"},
	{what: "add", epoch: 0},
	{what: "commit", epoch: 0},
	{what: "commit", epoch: 0, waits: true, reason: "what is committed stays so"},
	{what: "abort", epoch: 0, code: invalidState},
	{what: "add", epoch: 0},
	{what: "abort", epoch: 0},
	{what: "abort", epoch: 0, waits: true},
	{what: "commit", epoch: 0, code: invalidState},
	{what: "init", epoch: 0, given: 1, reason: "the owner's next epoch"},
	{what: "init", epoch: 0, given: 1, reason: "asked for again, as the answer was lost"},
	{what: "add", epoch: 0, code: producerFenced},
	{what: "commit", epoch: 0, code: producerFenced},
	{what: "add", epoch: 1},
	{what: "init", epoch: 1, code: concurrent, reason: "an open transaction is aborted, as by anybody else"},
	{what: "commit", epoch: 1, code: producerFenced},
	{what: "init", epoch: 1, given: 2, waits: true, reason: "which left the next epoch to its owner"},
	{what: "init", epoch: -1, given: 3},
	{what: "add", epoch: 3},
	{what: "init", epoch: -1, code: concurrent},
	{what: "init", epoch: 3, given: 4, waits: true, reason: "who fences has not finished"},
	{what: "init", epoch: -1, given: 5, reason: "and now it has"},
	{what: "add", epoch: 4, code: producerFenced},
	{what: "init", epoch: 4, code: producerFenced},
}

func TestTheCoordinatorOfTransactionsAnswersAsBrokersDo(t *testing.T) {
	w := &World{opt: Options{Seed: 2}, exact: true}
	w.rng = newDice(2)
	k := newKafka(w)
	w.kafka = k
	l := &life{name: "a", over: true}
	k.lives[l.name] = l
	p := &transactional{life: l, epoch: -1, last: -1}
	k.producers[l] = p
	log := k.order[0].log("t")
	other := &life{name: "b"}
	for i, s := range txnScript {
		if s.waits {
			w.pass(w.now+2*time.Second, nil)
		}
		var code int16
		var given any
		switch s.what {
		case "init":
			by := l
			if s.epoch < 0 && i > 0 {
				by = other
			}
			code, given = k.initProducer(p, s.epoch, by)
		case "add":
			code = k.addToTxn(p, s.epoch, []*changelog{log})
		default:
			code = k.endTxn(p, s.epoch, s.what == "commit")
		}
		if code != s.code || s.what == "init" && code == 0 && given != any(s.given) {
			t.Errorf("step %d, %+v: the model answers %d, %v", i, s, code, given)
		}
	}
}
