package kafka

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// floors are the versions below which a broker silently ignores a field that we rely on, so that
// the request would seem to work: static membership (JoinGroup), generation and member of
// transactional commits (TxnOffsetCommit), require_stable (OffsetFetch), and so on. Every broker
// since 2.8 offers them.
var floors = map[kmsg.Key]int16{
	kmsg.ListOffsets:          5,
	kmsg.Metadata:             8,
	kmsg.OffsetCommit:         7,
	kmsg.OffsetFetch:          7,
	kmsg.FindCoordinator:      2,
	kmsg.JoinGroup:            5,
	kmsg.Heartbeat:            3,
	kmsg.LeaveGroup:           3,
	kmsg.SyncGroup:            3,
	kmsg.CreateTopics:         5,
	kmsg.InitProducerID:       3,
	kmsg.OffsetForLeaderEpoch: 3,
	kmsg.TxnOffsetCommit:      3,
}

// ceilings are the last versions before a field changes its meaning: topic ids in place of names,
// several groups or transactions in one request, the second transaction protocol. Between goes past
// them.
var ceilings = map[kmsg.Key]int16{
	kmsg.ListOffsets:        7,
	kmsg.Metadata:           12,
	kmsg.OffsetCommit:       9,
	kmsg.OffsetFetch:        7,
	kmsg.FindCoordinator:    3,
	kmsg.ApiVersions:        0,
	kmsg.InitProducerID:     4,
	kmsg.AddPartitionsToTxn: 3,
	kmsg.AddOffsetsToTxn:    3,
	kmsg.EndTxn:             3,
	kmsg.TxnOffsetCommit:    3,
}

// versioned is a request whose sender chose the range of versions.
type versioned struct {
	kmsg.Request
	lowest, highest int16
}

// Between limits the versions that a request is sent with, where the sender's use of its fields
// needs more or less than the package's own limits.
func Between(req kmsg.Request, lowest, highest int16) kmsg.Request {
	return versioned{Request: req, lowest: lowest, highest: highest}
}

func limits(req kmsg.Request) (lowest, highest int16) {
	if v, ok := req.(versioned); ok {
		return v.lowest, min(v.highest, v.Request.MaxVersion())
	}
	key := kmsg.Key(req.Key())
	highest = req.MaxVersion()
	if ceiling, ok := ceilings[key]; ok {
		highest = min(highest, ceiling)
	}
	return floors[key], highest
}

// VersionError means that a broker is too old or too new for a request.
type VersionError struct {
	Address         string
	API             string
	Lowest, Highest int16 // what we speak
	Offered         bool  // false: the broker does not know the API at all
	Min, Max        int16 // what the broker speaks
}

func (e *VersionError) Error() string {
	const supported = "Pillion supports Kafka 2.8 to 4.x"
	switch {
	case !e.Offered:
		return fmt.Sprintf("broker at %s does not offer %s: %s", e.Address, e.API, supported)
	case e.Max < e.Lowest:
		return fmt.Sprintf("broker at %s is too old: it speaks %s up to version %d, needed is %d; %s",
			e.Address, e.API, e.Max, e.Lowest, supported)
	default:
		return fmt.Sprintf("broker at %s is too new: it speaks %s from version %d, known is up to %d; %s",
			e.Address, e.API, e.Min, e.Highest, supported)
	}
}

// pick chooses the highest version that both sides speak.
func pick(address string, offered map[int16][2]int16, x Exchange) (int16, error) {
	known, ok := offered[x.Key()]
	version := min(x.MaxVersion(), known[1])
	if !ok || version < known[0] || version < x.MinVersion() {
		return 0, &VersionError{
			Address: address, API: kmsg.NameForKey(x.Key()), Lowest: x.MinVersion(), Highest: x.MaxVersion(),
			Offered: ok, Min: known[0], Max: known[1],
		}
	}
	return version, nil
}

// Versions tells the lowest and highest version of each API that a node offers.
func (c *Client) Versions(ctx context.Context, node int32) (map[int16][2]int16, error) {
	ctx, end := c.begin(ctx)
	defer end()
	var versions map[int16][2]int16
	err := c.atNode(ctx, node, func(b *broker) (err error) {
		versions, err = b.pool().offered(ctx)
		return err
	})
	return maps.Clone(versions), err
}

// Broker is one of the cluster, with the lowest and highest version of each API that it offers.
type Broker struct {
	ID       int32
	Address  string
	Versions map[int16][2]int16
}

// Brokers asks every broker of the cluster for its versions.
func (c *Client) Brokers(ctx context.Context) ([]Broker, error) {
	ctx, end := c.begin(ctx)
	defer end()
	if _, err := c.refresh(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	all := make([]Broker, 0, len(c.nodes))
	for node, address := range c.nodes {
		all = append(all, Broker{ID: node, Address: address})
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	for i := range all {
		versions, err := c.Versions(ctx, all[i].ID)
		if err != nil {
			return nil, err
		}
		all[i].Versions = versions
	}
	return all, nil
}
