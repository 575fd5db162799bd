// Package assignor decides which member of a group owns and which one shadows each task, and holds
// the codecs of what members and leader tell each other. It is pure: values in, values out.
//
// Flow, on the leader of a generation:
//
//	DecodeSubscription (each member) → Unite (declarations to sets) → Target → Validate →
//	Transition → ValidateNext → EncodeAssignment (each member)
//
// Members that declare sources without sets go through GroupFlat first.
//
// Target says where everything should end up, Transition what to hand out in this generation on the
// way there: a task is given only after its old owner has let go of it. The old owner sees that the
// task is no longer among its actives, finishes, and joins again without claiming it. What neither
// can give away yet is named in Plan.Waiting.
//
// Target's rules, and which goes before which, stand at Target. They are exact: a plan is a flow of
// least price (flow.go, solve.go), for the actives (actives.go) and then for the standbys around them
// (standby.go, squeeze.go, racks.go).
//
// Claims: a member's Owned tasks carry the generation of its last sync. Where two members claim a
// task the newest generation wins; the order of the input never matters. Input.Claims are others:
// what owners have written beside their positions in Kafka (see entitled).
//
// INVARIANT: a task of the group is active on at most one member of a generation.
// INVARIANT: no task is given to a member while another living member holds the newest claim to it.
// INVARIANT: the result depends on the set of members, never on their order.
//
// The package must never do I/O, read a clock, use randomness or import anything but the standard
// library.
package assignor
