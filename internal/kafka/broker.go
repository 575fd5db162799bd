package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// transportTTL is how often the Transport of each broker asks for metadata that we do not use, and
// the time limit of that request.
const transportTTL = 30 * time.Second

// broker is one address. It has its own Transport, so that a request goes where we say and to
// nowhere else, and so that the connections of one broker can be dropped alone.
type broker struct {
	client  *Client
	address string
	silent  atomic.Bool // the last request got no answer
	gate    refusals

	mu      sync.Mutex
	current *pool // nil until used, and after a loss
}

// pool is one generation of a broker's connections. What the broker offered is forgotten with the
// connections, because a broker that was away may come back with another version.
type pool struct {
	broker    *broker
	transport *kafkago.Transport

	asking   chan struct{} // held by the one who asks for the versions
	versions map[int16][2]int16
}

func (b *broker) pool() *pool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		b.current = &pool{broker: b, asking: make(chan struct{}, 1), transport: &kafkago.Transport{
			Dial:           b.dial,
			DialTimeout:    b.client.cfg.DialTimeout,
			ClientID:       b.client.cfg.ClientID,
			MetadataTTL:    transportTTL,
			MetadataTopics: []string{}, // no topic: nil would mean all of them
			Context:        b.client.ctx,
		}}
	}
	return b.current
}

// has says whether a pool is the one in use.
func (b *broker) has(p *pool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current == p
}

// drop forgets the connections of a pool, unless another caller did already: a broker that went
// away took all of them along, and each would fail one request.
func (b *broker) drop(p *pool, why error) {
	b.mu.Lock()
	ours := p == nil || b.current == p
	if p == nil {
		p = b.current
	}
	if ours {
		b.current = nil
	}
	b.mu.Unlock()
	if ours && p != nil {
		p.transport.CloseIdleConnections()
		if why != nil {
			b.client.cfg.Logger.Debug("connections to a broker dropped", "broker", b.address, "error", why)
		}
	}
}

// send makes one try.
func (b *broker) send(ctx context.Context, x Exchange) error {
	p := b.pool()
	versions, err := p.offered(ctx)
	if err != nil {
		return err
	}
	version, err := pick(b.address, versions, x)
	if err != nil {
		return err
	}
	return p.roundTrip(ctx, x, version)
}

// sendAgain repeats a request whose connection was lost. The first loss has dropped the whole
// pool, so that the second try dials; the third is for a broker that restarts just then.
func (b *broker) sendAgain(ctx context.Context, x Exchange) error {
	for attempt := 0; ; attempt++ {
		err := b.send(ctx, x)
		if err != nil && b.client.ctx.Err() != nil && !errors.Is(err, errClosed) {
			return fmt.Errorf("%w: %w", errClosed, err) // its sockets may close before the call's context ends
		}
		if err == nil || !lost(err) {
			return err
		}
		if attempt == 2 {
			return b.explain(ctx, err)
		}
		if !Pause(ctx, attempt-1) {
			return err
		}
	}
}

// explain looks whether a broker that ends every connection does so because it wants SASL: it takes
// our question for its versions without, and says nothing to the next.
func (b *broker) explain(ctx context.Context, failure error) error {
	auth := b.client.auth
	if auth.security.UsesSASL() {
		return failure
	}
	opened, err := b.client.dial(ctx, "tcp", b.address)
	if err != nil {
		return failure
	}
	defer opened.Close()
	if _, offered, _ := auth.handshake(opened, opened.(*conn).who, "none"); len(offered) > 0 {
		refused := opened.(*conn).who.wantsSASL(offered)
		return &transportError{api: "SaslHandshake", address: b.address, err: refused}
	}
	return failure
}

// offered asks the broker for its versions once in the life of a pool.
func (p *pool) offered(ctx context.Context) (map[int16][2]int16, error) {
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return nil, &transportError{api: "ApiVersions", address: p.broker.address, err: context.Cause(ctx)}
	}
	if p.versions != nil {
		return p.versions, nil
	}
	ask := newMessage(kmsg.NewPtrApiVersionsRequest())
	if err := p.roundTrip(ctx, ask, 0); err != nil {
		return nil, err
	}
	answer, err := ask.response()
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.ApiVersionsResponse)
	if resp.ErrorCode != 0 {
		return nil, &Error{Code: resp.ErrorCode, What: "asking broker at " + p.broker.address + " for its versions"}
	}
	versions := make(map[int16][2]int16, len(resp.ApiKeys))
	for _, key := range resp.ApiKeys {
		versions[key.ApiKey] = [2]int16{key.MinVersion, key.MaxVersion}
	}
	p.versions = versions
	return versions, nil
}

// roundTrip makes an exchange over one of the pool's connections.
//
// INVARIANT: a pool that was dropped keeps no connection. One that was taken just before, and used
// after, would make the Transport dial anew, and nobody would end that.
func (p *pool) roundTrip(ctx context.Context, x Exchange, version int16) error {
	defer func() {
		if !p.broker.has(p) {
			p.transport.CloseIdleConnections()
		}
	}()
	client := p.broker.client
	call := newCall(ctx, x, version, client.correlation.Add(1)&(ours-1)|ours, client.cfg.ClientID)
	_, err := p.transport.RoundTrip(ctx, kafkago.TCP(p.broker.address), call)
	call.settle()
	if err == nil {
		call.keepBuffer()
		p.broker.silent.Store(false)
		return nil
	}
	if cause := ended(ctx, err); cause != nil {
		err = cause
	}
	failure := &transportError{api: kmsg.NameForKey(x.Key()), address: p.broker.address, err: err}
	if connectionFailed(failure) {
		p.broker.silent.Store(true)
		if call.begun() || !errors.Is(failure, context.DeadlineExceeded) {
			p.broker.drop(p, failure)
		} // else no connection was there yet: the one that is being made is for the next try
	}
	return failure
}
