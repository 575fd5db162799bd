package groupclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/internal/kafka"
)

// View is what the coordinator tells of a group: nothing is added to the group's record for it.
// Members say what they hold when they join, so that it is as of the last join. While State is not
// Stable the coordinator tells only who the members are.
type View struct {
	Group   string
	State   string // Stable, PreparingRebalance, CompletingRebalance, Empty, Dead
	Sets    []assignor.United
	Members []ViewMember // by ID
}

// ViewMember is one member of a View. Tasks are by key of the united set.
type ViewMember struct {
	ID         string
	Instance   string
	Host       string
	Address    string // advertised by its worker
	Rack       string
	Generation int32 // of its last sync before this join; -1: none
	Draining   bool
	NoStandby  bool
	Sets       []assignor.Set
	Globals    []string
	Active     []assignor.Task // of the plan
	Standby    []assignor.Task // of the plan
	Owned      []assignor.Task // claimed at the join
	Copies     []assignor.Copy // as of the join
	Unreadable string          // why the member's metadata or share cannot be read; empty: it can
}

// Lag is how far a member's copy of a task was behind at the join.
func (m ViewMember) Lag(t assignor.Task) int64 {
	for _, c := range m.Copies {
		if c.Task == t {
			return c.Lag
		}
	}
	return assignor.UnknownLag
}

// describer is what Describe needs of kafka.Client.
type describer interface {
	ToGroup(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error)
	ForgetCoordinator(kind kafka.CoordinatorKind, key string)
}

// Describe asks the coordinator for a group until ctx ends. A group that is not one of ours, and what
// Kafka refuses for good, is a RefusedError.
func Describe(ctx context.Context, client *kafka.Client, group string) (View, error) {
	return describe(ctx, client, group)
}

func describe(ctx context.Context, client describer, group string) (View, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	for attempt := 0; ; attempt++ {
		answer, err := client.ToGroup(ctx, group, req)
		if err == nil {
			resp := answer.(*kmsg.DescribeGroupsResponse)
			if len(resp.Groups) != 1 {
				return View{}, fmt.Errorf("describing group %q: %d groups in the answer", group, len(resp.Groups))
			}
			described := resp.Groups[0]
			switch code := described.ErrorCode; {
			case code == 0:
				return view(group, described)
			case code == 69: // GROUP_ID_NOT_FOUND, of newer versions
				return View{Group: group, State: "Dead"}, nil
			case code == 14 || code == 15 || code == 16:
				client.ForgetCoordinator(coordinatorOf, group)
				err = &kafka.Error{Code: code, What: fmt.Sprintf("describing group %q", group)}
			case code == 30:
				return View{}, &RefusedError{codeKafkaRefused, fmt.Sprintf("this user may not see group %q; grant Describe on the group to it", group)}
			default:
				err = &kafka.Error{Code: code, What: fmt.Sprintf("describing group %q", group)}
			}
		}
		var denied *kafka.AccessError
		if errors.As(err, &denied) { // of the look-up of the coordinator; who only looks needs no more
			return View{}, &RefusedError{codeKafkaRefused, denied.For("Describe").Error()}
		}
		if !kafka.Retriable(err) {
			return View{}, err
		}
		if !kafka.Pause(ctx, attempt) {
			return View{}, final(ctx, err)
		}
	}
}

func view(group string, g kmsg.DescribeGroupsResponseGroup) (View, error) {
	v := View{Group: group, State: g.State}
	if len(g.Members) > 0 && (g.ProtocolType != protocolType || g.State == "Stable" && g.Protocol != protocolName) {
		return View{}, &RefusedError{codeKafkaRefused, fmt.Sprintf("group %q is of other consumers (protocol %q); take another group_id", group, cmp.Or(g.Protocol, g.ProtocolType))}
	}
	var declared []assignor.Member
	for _, m := range g.Members {
		member := viewMember(m)
		v.Members = append(v.Members, member)
		declared = append(declared, assignor.Member{ID: m.MemberID, Sets: member.Sets})
	}
	v.Sets = assignor.Unite(declared)
	unite := keysOf(v.Sets)
	for i := range v.Members {
		m := &v.Members[i]
		for _, tasks := range [][]assignor.Task{m.Active, m.Standby, m.Owned} {
			for j := range tasks {
				tasks[j].Set = unite(tasks[j].Set)
			}
		}
		for j := range m.Copies {
			m.Copies[j].Task.Set = unite(m.Copies[j].Task.Set)
		}
	}
	slices.SortFunc(v.Members, func(a, b ViewMember) int { return cmp.Compare(a.ID, b.ID) })
	return v, nil
}

func viewMember(m kmsg.DescribeGroupsResponseGroupMember) ViewMember {
	out := ViewMember{ID: m.MemberID, Host: m.ClientHost, Generation: -1}
	if m.InstanceID != nil {
		out.Instance = *m.InstanceID
	}
	if len(m.ProtocolMetadata) > 0 {
		s, err := assignor.DecodeSubscription(m.ProtocolMetadata)
		if err != nil {
			out.Unreadable = fmt.Sprintf("what it says of itself cannot be read: %v", err)
		}
		out.Address, out.Rack, out.NoStandby, out.Draining, out.Generation = s.Address, s.Rack, s.NoStandby, s.Draining, s.Generation
		out.Sets, out.Globals, out.Owned, out.Copies = s.Sets, s.Globals, s.Owned, s.Copies
		if err != nil {
			out.Generation = -1
		}
	}
	share, err := assignor.DecodeAssignment(m.MemberAssignment)
	if err != nil {
		out.Unreadable = cmp.Or(out.Unreadable, fmt.Sprintf("its share of the plan cannot be read: %v", err))
	}
	out.Active, out.Standby = share.Active, share.Standby
	return out
}

// keysOf translates a member's own key to that of the united set.
func keysOf(sets []assignor.United) func(key string) string {
	of := map[string]string{}
	for _, u := range sets {
		for _, source := range u.Sources {
			of[source] = u.Key
		}
	}
	return func(key string) string { return cmp.Or(of[firstSource(key)], key) }
}

// firstSource is one source of a set's key; the others belong to the same united set.
func firstSource(key string) string {
	source, _, _ := strings.Cut(key, ",")
	return source
}
