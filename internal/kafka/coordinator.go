package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// CoordinatorKind says what a coordinator coordinates.
type CoordinatorKind int8

// The kinds, with the numbers of the protocol.
const (
	Group       CoordinatorKind = 0
	Transaction CoordinatorKind = 1
)

func (k CoordinatorKind) String() string {
	if k == Transaction {
		return "transaction"
	}
	return "group"
}

// operation is the right that a member, or the owner of a transactional id, needs; it holds that to
// look for the coordinator.
func (k CoordinatorKind) operation() string {
	if k == Transaction {
		return "Write"
	}
	return "Read"
}

type coordinatorKey struct {
	kind CoordinatorKind
	key  string
}

// Coordinator finds the node that coordinates a group or transactional id. While there is none, as
// in a cluster whose internal topics are just being made, it asks again until the context ends.
func (c *Client) Coordinator(ctx context.Context, kind CoordinatorKind, key string) (int32, error) {
	ctx, end := c.begin(ctx)
	defer end()
	return c.coordinator(ctx, kind, key)
}

func (c *Client) coordinator(ctx context.Context, kind CoordinatorKind, key string) (int32, error) {
	at := coordinatorKey{kind, key}
	c.mu.Lock()
	node, ok := c.coordinators[at]
	c.mu.Unlock()
	if ok {
		return node, nil
	}
	what := fmt.Sprintf("finding the coordinator of %s %s", kind, key)
	var said error
	for attempt := 0; ; attempt++ {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorType = key, int8(kind)
		answer, err := c.any(ctx, req)
		if err != nil {
			return -1, endOf(ctx, said, fmt.Errorf("%s: %w", what, err))
		}
		resp := answer.(*kmsg.FindCoordinatorResponse)
		if resp.ErrorCode == 0 && resp.NodeID >= 0 {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.brokers != nil {
				c.setNode(resp.NodeID, resp.Host, resp.Port)
				c.coordinators[at] = resp.NodeID
			}
			c.cfg.Logger.Debug("coordinator found", kind.String(), key, "broker", resp.NodeID)
			return resp.NodeID, nil
		}
		err = c.codeError(resp.ErrorCode, what, key, kind.operation())
		if resp.ErrorCode != 0 && !Retriable(err) {
			return -1, err
		}
		if said = err; !Pause(ctx, attempt) {
			return -1, endOf(ctx, said, err)
		}
	}
}

// ForgetCoordinator makes the next request look for the coordinator: to be called on the codes 14,
// 15 and 16 inside an answer.
func (c *Client) ForgetCoordinator(kind CoordinatorKind, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.coordinators, coordinatorKey{kind, key})
}

// ToGroup sends a request to a group's coordinator. When that cannot be reached it is looked for
// again, until the context ends. The codes inside the answer are the caller's.
func (c *Client) ToGroup(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error) {
	return c.toCoordinator(ctx, Group, group, req)
}

// ToTransaction is ToGroup for a transactional id.
func (c *Client) ToTransaction(ctx context.Context, id string, req kmsg.Request) (kmsg.Response, error) {
	return c.toCoordinator(ctx, Transaction, id, req)
}

func (c *Client) toCoordinator(ctx context.Context, kind CoordinatorKind, key string, req kmsg.Request) (kmsg.Response, error) {
	ctx, end := c.beginFor(ctx, c.patience(req))
	defer end()
	for attempt := 0; ; attempt++ {
		node, err := c.coordinator(ctx, kind, key)
		if err != nil {
			return nil, err
		}
		limit := c.quick(attempt)
		if key := kmsg.Key(req.Key()); key == kmsg.JoinGroup || key == kmsg.SyncGroup {
			limit = c.patience(req) // answered when the others have come
		}
		try, cancel := context.WithTimeout(ctx, limit)
		resp, err := c.do(try, node, req)
		cancel()
		if err == nil || !(connectionFailed(err) || isNoBroker(err)) {
			return resp, err
		}
		c.ForgetCoordinator(kind, key)
		if !Pause(ctx, attempt) {
			return nil, fmt.Errorf("coordinator of %s %s: %w", kind, key, err)
		}
	}
}
