package kafka

import (
	"context"
	"net"
	"testing"
	"time"
)

// A broker that closes in the TLS handshake looks like one without TLS, or like one that goes down. While others
// cannot be reached at all it is the latter, and a process that begins must not end with it.
func TestABrokerThatGoesDownIsNoRefusal(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	closes, nobody := l.Addr().String(), gone.Addr().String()
	for _, c := range []struct {
		bootstrap []string
		refused   bool
	}{{[]string{closes}, true}, {[]string{closes, closes}, true}, {[]string{closes, nobody}, false}, {[]string{nobody, closes}, false}, {[]string{nobody}, false}} {
		client, err := New(Config{Bootstrap: c.bootstrap, Security: Security{Protocol: SSL}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err = client.Admitted(ctx)
		cancel()
		client.Close()
		if err == nil || (refusal(err) != nil) != c.refused {
			t.Errorf("%v: %v, a refusal: %v", c.bootstrap, err, refusal(err) != nil)
		}
	}
}
