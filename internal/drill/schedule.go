package drill

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pillion/pillion/internal/kafkatest/faultproxy"
)

// Kind of a fault.
type Kind string

// The kinds. Each strikes a pair, a broker, or the links of a pair to the brokers.
const (
	WorkerKill       Kind = "worker killed"
	WorkerStop       Kind = "worker stopped"
	WorkerSlow       Kind = "worker slow"
	WorkerFull       Kind = "worker's disk full"
	WorkerDies       Kind = "worker killed between committed and flush"
	WorkerWiped      Kind = "worker killed and its disk lost"
	SidecarKill      Kind = "sidecar killed"
	SidecarStop      Kind = "sidecar stopped"
	PairDrain        Kind = "pair drained"
	RestoreRebalance Kind = "rebalance in the middle of a restore"
	BrokerKill       Kind = "broker killed"
	BrokerStop       Kind = "broker stopped"
	LeaderMove       Kind = "leaders moved"
	GroupCoordinator Kind = "group coordinator moved"
	TxnCoordinator   Kind = "transaction coordinator moved"
	ConnectionCut    Kind = "connection cut"
	ConnectionsCut   Kind = "all connections cut"
	LinkDelay        Kind = "links delayed"
	LinkThrottle     Kind = "links throttled"
	LinkHalfOpen     Kind = "links half-open"
	SourceRecreated  Kind = "source deleted and created anew"
)

// Fault is one thing that goes wrong.
type Fault struct {
	Kind   Kind
	Pair   int                 // 1 to Pairs; 0: none
	Broker int32               // 1 to Brokers; 0: none
	Keys   []int16             // ConnectionCut: in the middle of one of these requests
	Stage  faultproxy.Stage    // and where
	Lost   faultproxy.HalfOpen // LinkHalfOpen
	Pick   int                 // LeaderMove: which partition, by number
	For    time.Duration       // until it is healed
	During Phase               // the executor waits a moment for this, so that the fault hits something
}

// Step is what happens at one moment, together.
type Step struct {
	After  time.Duration // since the step before
	Faults []Fault
}

// Lab's measures.
const (
	Pairs      = 4
	Brokers    = 3
	Partitions = 8
)

// Kafka's numbers of requests.
const (
	keyProduce       = 0
	keyFetch         = 1
	keyListOffsets   = 2
	keyMetadata      = 3
	keyOffsetCommit  = 8
	keyOffsetFetch   = 9
	keyCoordinator   = 10
	keyJoinGroup     = 11
	keyHeartbeat     = 12
	keyLeaveGroup    = 13
	keySyncGroup     = 14
	keyInitProducer  = 22
	keyAddPartitions = 24
	keyAddOffsets    = 25
	keyEndTxn        = 26
	keyTxnOffsets    = 28
	keySaslHandshake = 17
	keySaslAuth      = 36
)

// keyNames are as Kafka calls them.
var keyNames = map[int16]string{
	keyProduce: "Produce", keyFetch: "Fetch", keyListOffsets: "ListOffsets", keyMetadata: "Metadata", keyOffsetCommit: "OffsetCommit",
	keyOffsetFetch: "OffsetFetch", keyCoordinator: "FindCoordinator", keyJoinGroup: "JoinGroup", keyHeartbeat: "Heartbeat",
	keyLeaveGroup: "LeaveGroup", keySyncGroup: "SyncGroup", keyInitProducer: "InitProducerId", keyAddPartitions: "AddPartitionsToTxn",
	keyAddOffsets: "AddOffsetsToTxn", keyEndTxn: "EndTxn", keyTxnOffsets: "TxnOffsetCommit", keySaslHandshake: "SaslHandshake", keySaslAuth: "SaslAuthenticate",
}

func keyName(key int16) string {
	if name, ok := keyNames[key]; ok {
		return name
	}
	return fmt.Sprintf("api %d", key)
}

func (f Fault) String() string {
	words := []string{string(f.Kind)}
	if f.Pair > 0 {
		words = append(words, fmt.Sprintf("of pair %d", f.Pair))
	}
	if f.Broker > 0 {
		words = append(words, fmt.Sprintf("broker %d", f.Broker))
	}
	if len(f.Keys) > 0 {
		words = append(words, string(f.Stage), "of "+keyName(f.Keys[0]))
	}
	if f.Lost != "" {
		words = append(words, "losing "+string(f.Lost))
	}
	if f.For > 0 {
		words = append(words, "for "+f.For.Round(10*time.Millisecond).String())
	}
	if f.During != "" {
		words = append(words, "during a "+string(f.During))
	}
	return strings.Join(words, " ")
}

// Plan says which faults a schedule may have.
type Plan struct {
	Seed      uint64
	Wave      int
	Faults    int // how many, at least
	Guarantee Guarantee
	Mild      bool // only faults under which at_least_once is exact: no sidecar is killed or stopped
}

// Schedule is a pure function of the plan: the same seed, the same schedule.
func Schedule(p Plan) (steps []Step) {
	r := rand.New(rand.NewPCG(p.Seed, uint64(p.Wave)))
	deck := p.deck()
	total := 0
	for _, d := range deck {
		total += d.weight
	}
	for n := 0; n < p.Faults; {
		step := Step{After: time.Duration(200+r.IntN(1800)) * time.Millisecond}
		together := []int{1, 1, 1, 2, 2, 3}[r.IntN(6)]
		for range together {
			at := r.IntN(total)
			for _, d := range deck {
				if at -= d.weight; at < 0 {
					step.Faults = append(step.Faults, d.make(r))
					break
				}
			}
		}
		n += len(step.Faults)
		steps = append(steps, step)
	}
	return steps
}

type card struct {
	weight int
	make   func(r *rand.Rand) Fault
}

// deck is what is drawn from.
func (p Plan) deck() (deck []card) {
	phase := func(r *rand.Rand, of ...Phase) Phase { return of[r.IntN(len(of))] }
	pair := func(kind Kind, weight int, least, most int, during ...Phase) {
		deck = append(deck, card{weight, func(r *rand.Rand) Fault {
			return Fault{Kind: kind, Pair: 1 + r.IntN(Pairs), For: millis(r, least, most), During: phase(r, during...)}
		}})
	}
	broker := func(kind Kind, weight int, least, most int) {
		deck = append(deck, card{weight, func(r *rand.Rand) Fault {
			return Fault{Kind: kind, Broker: 1 + r.Int32N(Brokers), For: millis(r, least, most), During: phase(r, Commit, Commit, TakeOver, Rebalance)}
		}})
	}
	pair(WorkerKill, 12, 50, 1500, Commit, Commit, Restore, Rebalance)
	pair(WorkerStop, 6, 200, 3000, Commit, Restore, TakeOver)
	pair(WorkerSlow, 3, 1000, 4000, Commit)
	pair(WorkerFull, 3, 300, 2500, Commit, Restore)
	pair(WorkerDies, 5, 50, 300, Commit)
	pair(WorkerWiped, 3, 50, 500, Commit, Restore)
	pair(PairDrain, 3, 50, 1500, Commit, Restore)
	pair(RestoreRebalance, 3, 1500, 3000, Commit)
	if !p.Mild {
		pair(SidecarKill, 12, 50, 1500, Commit, Commit, TakeOver, Restore, Rebalance)
		pair(SidecarStop, 9, 200, 6000, Commit, Commit, TakeOver, Restore, Rebalance)
	}
	broker(BrokerKill, 3, 200, 2000)
	broker(BrokerStop, 3, 500, 4000)
	deck = append(deck,
		card{7, func(r *rand.Rand) Fault {
			return Fault{Kind: LeaderMove, Pick: r.IntN(1 << 16), Broker: 1 + r.Int32N(Brokers), During: phase(r, Commit, Restore, TakeOver)}
		}},
		card{3, func(r *rand.Rand) Fault {
			return Fault{Kind: GroupCoordinator, Broker: 1 + r.Int32N(Brokers), During: phase(r, Commit, Rebalance, TakeOver)}
		}})
	keys := []int16{keyProduce, keyProduce, keyFetch, keyListOffsets, keyOffsetCommit, keyOffsetFetch, keyJoinGroup, keySyncGroup, keyHeartbeat, keyCoordinator, keyMetadata, keyInitProducer}
	if p.Guarantee == ExactlyOnce {
		keys = append(keys, keyAddPartitions, keyAddPartitions, keyAddOffsets, keyAddOffsets, keyTxnOffsets, keyTxnOffsets, keyTxnOffsets, keyEndTxn, keyEndTxn, keyEndTxn)
		deck = append(deck, card{3, func(r *rand.Rand) Fault {
			return Fault{Kind: TxnCoordinator, Broker: 1 + r.Int32N(Brokers), Pick: r.IntN(1 << 16), During: Commit}
		}})
	}
	deck = append(deck,
		card{30, func(r *rand.Rand) Fault {
			return Fault{Kind: ConnectionCut, Keys: []int16{keys[r.IntN(len(keys))]}, Stage: faultproxy.Stages[r.IntN(len(faultproxy.Stages))]}
		}},
		card{4, func(r *rand.Rand) Fault {
			return Fault{Kind: ConnectionsCut, Pair: 1 + r.IntN(Pairs), During: phase(r, Commit, TakeOver, Rebalance)}
		}},
		card{3, func(r *rand.Rand) Fault {
			return Fault{Kind: LinkDelay, Pair: 1 + r.IntN(Pairs), For: millis(r, 500, 4000), During: phase(r, Commit, TakeOver)}
		}},
		card{3, func(r *rand.Rand) Fault {
			return Fault{Kind: LinkThrottle, Broker: 1 + r.Int32N(Brokers), For: millis(r, 500, 4000), During: phase(r, Commit, Restore)}
		}},
		card{5, func(r *rand.Rand) Fault {
			lost := []faultproxy.HalfOpen{faultproxy.Deaf, faultproxy.Dumb}[r.IntN(2)]
			return Fault{Kind: LinkHalfOpen, Pair: 1 + r.IntN(Pairs), Broker: r.Int32N(Brokers + 1), Lost: lost, For: millis(r, 300, 5000), During: phase(r, Commit, TakeOver, Rebalance)}
		}})
	return deck
}

func millis(r *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+r.IntN(most-least)) * time.Millisecond
}
