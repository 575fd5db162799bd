package faultproxy

import (
	"net"
	"sync"
	"time"
)

// link is one connection of a client and the one to the broker behind it.
type link struct {
	p              *Proxy
	who            string
	raw            []net.Conn
	client, broker net.Conn // with TLS, if there is any

	flying map[int32]Request // by correlation id; guarded by p.mu
	lost   bool              // something was silently lost; guarded by p.mu
}

func (l *link) close() {
	for _, c := range l.raw {
		_ = c.Close()
	}
}

// run passes frames both ways until one side ends.
func (l *link) run() {
	var pumps sync.WaitGroup
	pumps.Go(func() { defer l.close(); l.requests() })
	pumps.Go(func() { defer l.close(); l.answers() })
	pumps.Wait()
}

func (l *link) requests() {
	for {
		frame, err := readFrame(l.client)
		if err != nil {
			return
		}
		key, id, ok := requestHead(frame)
		if !ok {
			return
		}
		r := Request{Node: l.p.cfg.Node, Who: l.who, Key: key, Since: time.Now()}
		l.p.mu.Lock()
		l.flying[id] = r
		l.p.mu.Unlock()
		if !l.pass(l.broker, frame, r, BeforeRequest, MidRequest, Deaf) {
			return
		}
	}
}

func (l *link) answers() {
	for {
		frame, err := readFrame(l.broker)
		if err != nil {
			return
		}
		id, ok := answerID(frame)
		if !ok {
			return
		}
		l.p.mu.Lock()
		r := l.flying[id]
		l.p.mu.Unlock()
		if !l.pass(l.client, frame, r, BeforeAnswer, MidAnswer, Dumb) {
			return
		}
		l.p.mu.Lock()
		delete(l.flying, id)
		l.p.mu.Unlock()
	}
}

// pass hands a frame on, through cuts and weather. It says whether the link lives.
func (l *link) pass(to net.Conn, frame []byte, r Request, before, mid Stage, loses HalfOpen) bool {
	if a := l.p.take(r, before); a != nil {
		l.cut(a, r)
		return false
	}
	weather, changed := l.p.over(l.who)
	if weather.HalfOpen == loses {
		l.p.mu.Lock()
		l.lost = true
		l.p.mu.Unlock()
		<-changed // nothing passes any more; who changes the weather cuts us
		return false
	}
	if d := weather.holds(len(frame)); d > 0 {
		wait := time.NewTimer(d)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-changed:
		}
	}
	if a := l.p.take(r, mid); a != nil {
		_, _ = to.Write(frame[:len(frame)/2])
		l.cut(a, r)
		return false
	}
	_, err := to.Write(frame)
	return err == nil
}

// cut tells first, and closes then: whoever is told finds the request still in flight.
func (l *link) cut(a *Armed, r Request) {
	a.hit(r)
	l.close()
}
