package groupclient

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The coordinator stores a group as one record of __consumer_offsets: every member's subscription and
// share. Where that is larger than the topic takes, the broker answers -1 to everybody, for ever. So it is
// refused here before it is sent.

const (
	offsetsTopic = "__consumer_offsets"
	// defaultLimit is Kafka's message.max.bytes.
	defaultLimit = 1_048_588
	// smallRecord is a size below which no broker is asked for its limit.
	smallRecord = 100_000
	// batchOverhead is what a record batch and the group's own fields take beside the members.
	batchOverhead = 61 + 20 + 150
)

// tooLargeError is a group's record that no broker would store.
type tooLargeError struct {
	what       string // "the plan of group ... (1,000 members)"
	size       int
	limit      int
	assumed    bool // the limit is the default one, as the topic's could not be read
	whatShrink string
}

func (e *tooLargeError) Error() string {
	limit := fmt.Sprintf("max.message.bytes of %s is %d", offsetsTopic, e.limit)
	if e.assumed {
		limit = fmt.Sprintf("a record of %s may have %d by default (grant DescribeConfigs on that topic to this user if it may have more)", offsetsTopic, e.limit)
	}
	return fmt.Sprintf("%s takes %d bytes, and %s: nothing was sent; raise message.max.bytes of the brokers (8388608), or %s", e.what, e.size, limit, e.whatShrink)
}

// recordOf is about how many bytes the coordinator will store for a generation.
func recordOf(joined *kmsg.JoinGroupResponse, assignments []kmsg.SyncGroupRequestGroupAssignment) int {
	size := batchOverhead
	for _, m := range joined.Members {
		instance := 0
		if m.InstanceID != nil {
			instance = len(*m.InstanceID)
		}
		size += memberSize(len(m.MemberID), instance, len(m.ProtocolMetadata))
	}
	for _, a := range assignments {
		size += len(a.MemberAssignment)
	}
	return size
}

// memberSize: the id holds the client's id, which stands once more, and a UUID; then come the host, two
// time limits and lengths.
func memberSize(id, instance, metadata int) int {
	const uuid, host, rest = 37, 16, 26
	return id + instance + max(0, id-uuid) + host + rest + metadata
}

// fits refuses a generation whose record is too large.
func (g *Group) fits(ctx context.Context, size, members int) error {
	limit, assumed := g.recordLimit(ctx, size)
	if limit == 0 || size <= limit {
		return nil
	}
	return &tooLargeError{
		what: fmt.Sprintf("the plan of group %q with the subscriptions of its %d members", g.cfg.Group, members),
		size: size, limit: limit, assumed: assumed,
		whatShrink: "set their offsets.topic.compression.codec=1, start fewer workers, or declare fewer topics and tables",
	}
}

// fitsAlone refuses a subscription that no group could store.
func (g *Group) fitsAlone(ctx context.Context, metadata int) error {
	size := batchOverhead + memberSize(60, len(g.cfg.InstanceID), metadata)
	limit, assumed := g.recordLimit(ctx, size)
	if limit == 0 || size <= limit {
		return nil
	}
	return &tooLargeError{
		what: fmt.Sprintf("what this worker declares to group %q", g.cfg.Group),
		size: size, limit: limit, assumed: assumed, whatShrink: "declare fewer topics and tables, or shorter names",
	}
}

// limit is what a record of the offsets topic may take, as it was found last.
type limit struct {
	bytes   int // 0: whatever it takes, because it is compressed
	assumed bool
	at      time.Time
}

// recordLimit is what a record of the offsets topic may take; 0: it is not known to be too large. It is
// asked for only when a record is not small, and kept for a while.
func (g *Group) recordLimit(ctx context.Context, size int) (bytes int, assumed bool) {
	if size < smallRecord {
		return 0, false
	}
	if g.limit.at.IsZero() || time.Since(g.limit.at) > time.Minute {
		g.limit = g.findLimit(ctx)
	}
	return g.limit.bytes, g.limit.assumed
}

// findLimit asks the coordinator for the topic's limit, and whether it compresses what it stores there.
func (g *Group) findLimit(ctx context.Context) limit {
	found := limit{bytes: defaultLimit, assumed: true, at: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	node, err := g.client.Coordinator(ctx, coordinatorOf, g.cfg.Group)
	if err != nil {
		return found
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, ask := range []struct {
		kind      kmsg.ConfigResourceType
		name, key string
	}{
		{kmsg.ConfigResourceTypeTopic, offsetsTopic, "max.message.bytes"},
		{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(node)), "offsets.topic.compression.codec"},
	} {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName, resource.ConfigNames = ask.kind, ask.name, []string{ask.key}
		req.Resources = append(req.Resources, resource)
	}
	answer, err := g.client.Do(ctx, node, req)
	if err != nil {
		g.log.Debug("the limit of the group's record is not known", "error", err)
		return found
	}
	for _, resource := range answer.(*kmsg.DescribeConfigsResponse).Resources {
		for _, c := range resource.Configs {
			switch {
			case resource.ErrorCode != 0 || c.Value == nil:
			case c.Name == "max.message.bytes":
				if n, err := strconv.Atoi(*c.Value); err == nil && n > 0 && found.bytes > 0 {
					found.bytes, found.assumed = n, false
				}
			case c.Name == "offsets.topic.compression.codec" && *c.Value != "0" && *c.Value != "":
				found.bytes, found.assumed = 0, false
			}
		}
	}
	return found
}
