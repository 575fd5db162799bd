package groupmodel

// Waits stands in Table for a request that is not answered yet.
const Waits int16 = -101

// Who sends a request, in Table.
type Who string

const (
	// Member has been given the newest generation (in Preparing and later states: the one before the
	// next).
	Member Who = "member"
	// Behind is a member with an older generation.
	Behind Who = "behind"
	// Stranger is no member, and gives an id and a generation.
	Stranger Who = "stranger"
	// Outside gives neither.
	Outside Who = "outside"
)

// Row is what a coordinator answers in one state of the group to one kind of member. Outside has no
// answer to Heartbeat and SyncGroup: such a one does not send them.
type Row struct {
	State                                               State
	Who                                                 Who
	Heartbeat, OffsetCommit, TxnOffsetCommit, SyncGroup int16
}

// Table is the table of group states, as measured on a broker. A test walks through it on the model and on a
// real one.
var Table = []Row{
	{Preparing, Member, Rebalancing, OK, OK, Rebalancing},
	{Preparing, Behind, IllegalGeneration, IllegalGeneration, IllegalGeneration, IllegalGeneration},
	{Preparing, Stranger, UnknownMember, UnknownMember, UnknownMember, UnknownMember},
	{Preparing, Outside, OK, UnknownMember, OK, OK},

	{Completing, Member, OK, Rebalancing, OK, Waits},
	{Completing, Behind, IllegalGeneration, IllegalGeneration, IllegalGeneration, IllegalGeneration},
	{Completing, Stranger, UnknownMember, UnknownMember, UnknownMember, UnknownMember},
	{Completing, Outside, OK, UnknownMember, OK, OK},

	{Stable, Member, OK, OK, OK, OK},
	{Stable, Behind, IllegalGeneration, IllegalGeneration, IllegalGeneration, IllegalGeneration},
	{Stable, Stranger, UnknownMember, UnknownMember, UnknownMember, UnknownMember},
	{Stable, Outside, OK, UnknownMember, OK, OK},

	{Empty, Stranger, UnknownMember, UnknownMember, UnknownMember, UnknownMember},
	{Empty, Outside, OK, OK, OK, OK},

	{Dead, Stranger, UnknownMember, GroupNotFound, IllegalGeneration, UnknownMember},
}
