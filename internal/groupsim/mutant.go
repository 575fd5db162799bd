package groupsim

import "slices"

// Mutant is a mistake made on purpose, to see whether it is found.
type Mutant string

const (
	// None: all is as it should be.
	None Mutant = ""
	// RetryClaimsNothing: an owner whose JoinGroup was not answered claims nothing in the next one.
	RetryClaimsNothing Mutant = "an owner claims nothing in a retried join"
	// LetsGoAtOnce: a task that a sync takes away is not claimed any more, before the last commit.
	LetsGoAtOnce Mutant = "a release before the last commit"
	// NoGeneration: commits are not fenced by their generation.
	NoGeneration Mutant = "no generation on commits"
	// EndsEarly: a replay says that it has reached its end when it has not.
	EndsEarly Mutant = "a replay that ends early"
	// PromotesEarly: a copy is promoted where it is, and not at the end that the take-over has captured.
	PromotesEarly Mutant = "a promotion that does not wait for the end"
	// MissesRow: a copy leaves out a row now and then.
	MissesRow Mutant = "a copy that misses a row"
	// AheadOfKafka: a store takes a commit before it is answered.
	AheadOfKafka Mutant = "a store ahead of Kafka"
	// SilentAfterHung: a worker that was hung, and owes nothing any more, says nothing.
	SilentAfterHung Mutant = "a worker that is silent after it was hung"
	// NoFence: transactions of former owners are not ended.
	NoFence Mutant = "no fence"
	// ClaimsLate: a take-over looks at its generation, and reads the claims after it.
	ClaimsLate Mutant = "a generation that is checked before the claims are read"
	// NoCheck: a take-over does not look at its generation.
	NoCheck Mutant = "a take-over that does not check its generation"
	// PlainPositions: a take-over begins at positions that an open transaction may still change.
	PlainPositions Mutant = "a take-over at plain positions"
	// StableEnd: a restore ends at the last stable offset, and not at the high watermark.
	StableEnd Mutant = "a restore to the last stable offset"
	// EndFirst: the ends are captured before the fence and the claim.
	EndFirst Mutant = "ends that are captured before the claim"
	// OldRelease: a task is released at the position known, whatever became of its transaction.
	OldRelease Mutant = "a release at the old position"
	// NoLateRelease: a claim of a take-over that failed is not released.
	NoLateRelease Mutant = "a take-over that failed and is not released"
	// TakesItBack: a producer that was fenced takes its transactional id back.
	TakesItBack Mutant = "a fenced producer that takes its id back"
	// OffsetsFirst: positions are sent before the writes.
	OffsetsFirst Mutant = "positions that are sent before the writes"
	// FencedIsAborted: an end that was sent twice, and then fenced, is answered as aborted.
	FencedIsAborted Mutant = "an end without an answer that is aborted when it is fenced"
	// MarkersAreForeign: markers behind the head of a changelog are taken for writes of others.
	MarkersAreForeign Mutant = "markers that are taken for writes of others"
	// LateClaims: a task is worked on although a plain commit of its position has had no answer.
	LateClaims Mutant = "a claim without an answer that comes late"
	// AnswersFirst: committed is answered while positions of the transaction may be under way once more.
	AnswersFirst Mutant = "an answer before the transaction is settled"
	// LatePositions: after positions without an answer the epoch stays, so that they land in the next transaction.
	LatePositions Mutant = "the epoch stays after positions without an answer"
	// StaleWrites: after a write without an answer the epoch stays.
	StaleWrites Mutant = "the epoch stays after a write without an answer"
)

// exact: only runs of exactly_once can find it.
func (m Mutant) exact() bool { return slices.Index(Mutants, m) >= slices.Index(Mutants, NoFence) }

// Mutants are all of them; those behind NoFence are of exactly_once.
var Mutants = []Mutant{
	RetryClaimsNothing, LetsGoAtOnce, NoGeneration, EndsEarly, PromotesEarly, MissesRow, AheadOfKafka, SilentAfterHung,
	NoFence, ClaimsLate, NoCheck, PlainPositions, StableEnd, EndFirst, OldRelease, NoLateRelease, TakesItBack, OffsetsFirst,
	FencedIsAborted, MarkersAreForeign, StaleWrites, LatePositions, LateClaims, AnswersFirst,
}
