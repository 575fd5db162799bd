package groupsim

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
)

// Mutants are all of them.
var Mutants = []Mutant{RetryClaimsNothing, LetsGoAtOnce, NoGeneration, EndsEarly, PromotesEarly, MissesRow, AheadOfKafka, SilentAfterHung}
