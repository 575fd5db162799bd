package faultproxy

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Config of a proxy.
type Config struct {
	Node   int32                               // of the broker behind it
	Who    func(client net.Addr) (name string) // whose connection it is; nil: nobody's
	Server *tls.Config                         // towards clients; nil: no TLS
	Client *tls.Config                         // towards the broker
}

// Proxy is in front of one broker.
type Proxy struct {
	cfg      *Config
	listener net.Listener
	all      sync.WaitGroup

	mu      sync.Mutex
	target  string
	closed  bool
	links   map[*link]bool
	armed   []*Armed
	weather []Weather
	changed chan struct{} // closed and made anew with the weather
}

// New listens on a free port of loopback. Connections are refused until Serve says where the broker is.
func New(cfg *Config) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p := &Proxy{cfg: cfg, listener: listener, links: map[*link]bool{}, changed: make(chan struct{})}
	p.all.Go(p.accept)
	return p, nil
}

// Addr is where clients connect: what the broker advertises.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Serve says where the broker listens.
func (p *Proxy) Serve(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Close cuts everything and waits until nothing is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	_ = p.listener.Close()
	p.CutAll("")
	p.all.Wait()
}

// InFlight are the requests that are under way now.
func (p *Proxy) InFlight() (list []Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		for _, r := range l.flying {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Request) int { return a.Since.Compare(b.Since) })
	return list
}

// Arm waits for a request that fits, and cuts its connection there, once. hit is called directly before: the
// request is still in flight then.
func (p *Proxy) Arm(c Cut, hit func(Request)) *Armed {
	a := &Armed{Cut: c, hit: hit}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, a)
	return a
}

// Disarm gives a cut up that was not hit.
func (p *Proxy) Disarm(a *Armed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = slices.DeleteFunc(p.armed, func(other *Armed) bool { return other == a })
}

// Set adds weather; lift takes it back, and cuts the links that lost something.
func (p *Proxy) Set(w Weather) (lift func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = append(p.weather, w)
	return func() {
		p.mu.Lock()
		if at := slices.Index(p.weather, w); at >= 0 {
			p.weather = slices.Delete(p.weather, at, at+1)
		}
		close(p.changed)
		p.changed = make(chan struct{})
		var cut []*link
		for l := range p.links {
			if l.lost {
				cut = append(cut, l)
			}
		}
		p.mu.Unlock()
		for _, l := range cut {
			l.close()
		}
	}
}

// CutAll cuts the links of one client, or all. It says how many.
func (p *Proxy) CutAll(who string) int {
	p.mu.Lock()
	var cut []*link
	for l := range p.links {
		if who == "" || l.who == who {
			cut = append(cut, l)
		}
	}
	p.mu.Unlock()
	for _, l := range cut {
		l.close()
	}
	return len(cut)
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.serve(conn) })
	}
}

// serve is one connection's life.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	who := ""
	if p.cfg.Who != nil {
		who = p.cfg.Who(client.RemoteAddr())
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if target == "" {
		return
	}
	broker, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		return
	}
	defer broker.Close()
	l := &link{p: p, who: who, raw: []net.Conn{client, broker}, client: client, broker: broker, flying: map[int32]Request{}}
	if p.cfg.Server != nil {
		l.client = tls.Server(client, p.cfg.Server)
	}
	if p.cfg.Client != nil {
		l.broker = tls.Client(broker, p.cfg.Client)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// take finds the armed cut for a request at a stage; it is used up.
func (p *Proxy) take(r Request, stage Stage) *Armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.armed, func(a *Armed) bool { return a.fits(r.Who, r.Key, stage) })
	if at < 0 {
		return nil
	}
	a := p.armed[at]
	p.armed = slices.Delete(p.armed, at, at+1)
	return a
}

// over is the weather on a client's links now, and what is closed when it changes.
func (p *Proxy) over(who string) (w Weather, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, each := range p.weather {
		if !each.on(who) {
			continue
		}
		w.Delay = max(w.Delay, each.Delay)
		if each.Throttle > 0 && (w.Throttle == 0 || each.Throttle < w.Throttle) {
			w.Throttle = each.Throttle
		}
		if each.HalfOpen != Whole {
			w.HalfOpen = each.HalfOpen
		}
	}
	return w, p.changed
}
