package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var errClosed = errors.New("the kafka client is closed")

// Client is safe for use by many goroutines. It starts none of its own.
type Client struct {
	cfg         Config
	ctx         context.Context
	cancel      context.CancelCauseFunc
	sockets     sockets
	auth        *authenticator
	renewed     atomic.Int64 // how often connections were authenticated again
	correlation atomic.Int32
	refreshing  chan struct{} // held by the one who asks for metadata

	mu           sync.Mutex
	brokers      map[string]*broker // by address: seeds and nodes
	nodes        map[int32]string   // node id to address
	controller   int32              // -1: not known
	nodesAt      time.Time          // when the answer with these nodes was asked for
	favourite    *broker            // the one that answered last, asked first
	favouriteAt  time.Time          // when it became that
	topics       map[string]known
	coordinators map[coordinatorKey]int32
}

// New makes a client. It connects when it is first used.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	auth, err := newAuthenticator(cfg.Security, cfg.ClientID, cfg.Logger)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &Client{
		cfg: cfg, ctx: ctx, cancel: cancel, auth: auth,
		refreshing:   make(chan struct{}, 1),
		brokers:      make(map[string]*broker),
		nodes:        make(map[int32]string),
		controller:   -1,
		topics:       make(map[string]known),
		coordinators: make(map[coordinatorKey]int32),
	}
	for _, address := range cfg.Bootstrap {
		c.brokers[address] = &broker{client: c, address: address}
	}
	return c, nil
}

// Close ends all calls and connections, and waits until they are gone.
func (c *Client) Close() {
	c.cancel(errClosed)
	c.mu.Lock()
	brokers := c.brokers
	c.brokers = nil
	c.mu.Unlock()
	for _, b := range brokers {
		b.drop(nil, nil)
	}
	c.sockets.close()
}

// begin gives a call its deadline and lets it end with the client.
func (c *Client) begin(ctx context.Context) (context.Context, func()) {
	return c.beginFor(ctx, c.cfg.RequestTimeout)
}

func (c *Client) beginFor(ctx context.Context, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(errClosed) })
	end := func() { stop(); cancel(nil) }
	if _, ok := ctx.Deadline(); ok {
		return ctx, end
	}
	ctx, cancelTimeout := context.WithTimeout(ctx, limit)
	return ctx, func() { cancelTimeout(); end() }
}

// Do sends a request to a node and returns its answer, whatever codes that holds. It repeats after
// a lost connection, but does not wait for a node that is down.
func (c *Client) Do(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
	ctx, end := c.beginFor(ctx, c.patience(req))
	defer end()
	return c.do(ctx, node, req)
}

func (c *Client) do(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
	m := newMessage(req)
	if err := c.atNode(ctx, node, func(b *broker) error { return b.sendAgain(ctx, m) }); err != nil {
		return nil, err
	}
	return m.response()
}

// Exchange sends a request with its own codec to a node. When it has returned, nothing uses x or
// its buffers any more; after an error what they hold is worthless.
func (c *Client) Exchange(ctx context.Context, node int32, x Exchange) error {
	ctx, end := c.begin(ctx)
	defer end()
	return c.atNode(ctx, node, func(b *broker) error { return b.sendAgain(ctx, x) })
}

// Any sends a request to whichever broker answers, and repeats over all of them until the context
// ends; the error is then ErrUnreachable.
func (c *Client) Any(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, end := c.begin(ctx)
	defer end()
	return c.any(ctx, req)
}

func (c *Client) any(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	m := newMessage(req)
	var failure error
	for attempt := 0; ; attempt++ {
		brokers := c.candidates()
		for i, b := range brokers {
			try, cancel := context.WithTimeout(ctx, c.share(ctx, len(brokers)-i, attempt))
			err := b.sendAgain(try, m)
			cancel()
			if err == nil {
				c.prefer(b)
				return m.response()
			}
			if ctx.Err() == nil && !connectionFailed(err) {
				return nil, err
			}
			if failure == nil || refusal(err) != nil || refusal(failure) == nil && !errors.Is(err, context.DeadlineExceeded) {
				failure = err // a refusal says more than a time limit
			}
			if ctx.Err() != nil {
				break
			}
		}
		if !Pause(ctx, attempt) {
			return nil, c.unreachable(ctx, failure)
		}
	}
}

// share is the time that one of several brokers gets before the next is asked.
func (c *Client) share(ctx context.Context, brokers, attempt int) time.Duration {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	if brokers < 2 {
		return min(left, c.cfg.RequestTimeout/2)
	}
	return min(left/2, c.quick(attempt))
}

// quick is the time limit of a try whose answer takes the broker no time. A broker that hangs is
// given up soon for whoever took its place; one that is only slow gets more time each time.
func (c *Client) quick(attempt int) time.Duration {
	return min(c.cfg.RequestTimeout, c.cfg.RequestTimeout/4<<min(attempt, 2))
}

// ToController sends a request to the controller, and finds it again after a lost connection,
// until the context ends. NOT_CONTROLLER inside the answer is the caller's.
func (c *Client) ToController(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, end := c.begin(ctx)
	defer end()
	return c.toController(ctx, req)
}

func (c *Client) toController(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	for attempt := 0; ; attempt++ {
		node, err := c.findController(ctx)
		if err != nil {
			return nil, err
		}
		try, cancel := context.WithTimeout(ctx, c.patience(req))
		resp, err := c.do(try, node, req)
		cancel()
		if err == nil || !(connectionFailed(err) || isNoBroker(err)) {
			return resp, err
		}
		c.forgetController()
		if !Pause(ctx, attempt) {
			return nil, err
		}
	}
}

// patience is the time limit of a call. A JoinGroup is answered when the others have joined.
func (c *Client) patience(req kmsg.Request) time.Duration {
	if v, ok := req.(versioned); ok {
		req = v.Request
	}
	if join, ok := req.(*kmsg.JoinGroupRequest); ok {
		return c.cfg.RequestTimeout + time.Duration(join.RebalanceTimeoutMillis)*time.Millisecond
	}
	return c.cfg.RequestTimeout
}

// atNode runs send with the node's broker. A node that is not known, or not at its address any
// more, is looked up once.
func (c *Client) atNode(ctx context.Context, node int32, send func(*broker) error) error {
	b := c.node(node)
	if b == nil {
		if _, err := c.refresh(ctx); err != nil {
			return err
		}
		if b = c.node(node); b == nil {
			return fmt.Errorf("broker %d is not in the cluster: %w", node, errNoBroker)
		}
		return send(b)
	}
	err := send(b)
	var dial *dialError
	if !errors.As(err, &dial) || ctx.Err() != nil {
		return err
	}
	look, cancel := context.WithTimeout(ctx, c.share(ctx, 2, 0))
	defer cancel()
	if _, refreshErr := c.refresh(look); refreshErr != nil {
		return err
	}
	if moved := c.node(node); moved != nil && moved != b {
		return send(moved)
	}
	return err
}

func (c *Client) node(node int32) *broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	address, ok := c.nodes[node]
	if !ok {
		return nil
	}
	return c.brokers[address]
}

// candidates are all brokers in the order in which to ask them: the one that answered last, then
// any, then those that did not answer last time. The favourite changes now and then, lest we hear
// for ever from a broker that itself hears nothing.
func (c *Client) candidates() []*broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*broker, 0, len(c.brokers))
	for _, b := range c.brokers {
		all = append(all, b)
	}
	favourite := c.favourite
	if time.Since(c.favouriteAt) > c.cfg.MetadataMaxAge {
		favourite = nil
	}
	rank := func(b *broker) int {
		switch {
		case b.silent.Load():
			return 2
		case b == favourite:
			return 0
		}
		return 1
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b *broker) int { return rank(a) - rank(b) })
	return all
}

func (c *Client) prefer(b *broker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.favourite != b || time.Since(c.favouriteAt) > c.cfg.MetadataMaxAge {
		c.favourite, c.favouriteAt = b, time.Now()
	}
}
