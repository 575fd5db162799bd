package kafka

import (
	"bytes"
	"crypto/sha256"
	"net"
	"testing"
	"time"
)

// speaker is a connection on which everything was said already.
type speaker struct {
	net.Conn
	in bytes.Reader
}

func (s *speaker) Read(p []byte) (int, error)    { return s.in.Read(p) }
func (s *speaker) Write(p []byte) (int, error)   { return len(p), nil }
func (s *speaker) SetDeadline(t time.Time) error { return nil }

// FuzzSASL: what a broker says before it is known. Nobody is believed to know our password who does not.
func FuzzSASL(f *testing.F) {
	f.Add([]byte("r=nonce2,s=c2FsdA==,i=4096"), []byte("v=AAAA"))
	f.Add([]byte("r=nonce2,s=c2FsdA==,i=-1,i=4097"), []byte("e=no"))
	f.Add([]byte("r=,s=,i="), []byte{})
	f.Add([]byte("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjoxZTk5fQ."), answer(8, 1, "\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if bytes.Count(first, []byte("i=")) < 3 && !bytes.ContainsAny(first, "56789") { // fewer rounds are as good, and quicker
			s := newScram(sha256.New, "user", "password")
			s.nonce = "nonce"
			if _, _, err := s.next(nil); err != nil {
				t.Fatal(err)
			}
			if _, done, err := s.next(first); err == nil && !done {
				if _, done, err = s.next(second); done || err == nil {
					t.Error("a broker that does not know the password is believed")
				}
			}
		}
		_, _ = claims(string(first))
		_ = subjectOf(string(first))
		_ = wellFormed(string(first))
		talk := bearer("token")
		for range 4 {
			if _, done, err := talk(first); done || err != nil {
				break
			}
		}
		body, err := askRaw(&speaker{in: *bytes.NewReader(second)}, nil, 1)
		if err == nil && len(body) > len(second) {
			t.Errorf("%d bytes of %d", len(body), len(second))
		}
	})
}
