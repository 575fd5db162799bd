package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// authenticator brings a connection from dialled to admitted: TLS, then SASL. kafka-go's Transport
// could do both, but its SASL has no deadline, hides the code and the reason of a refusal, and never
// authenticates again. So the Transport gets connections that are through with it.
type authenticator struct {
	security Security
	clientID string
	log      hclog.Logger

	material *material // nil: no TLS
	password *kept
	tokens   *tokens
	token    atomic.Pointer[string] // principal of the last token
}

func newAuthenticator(s Security, clientID string, log hclog.Logger) (a *authenticator, err error) {
	a = &authenticator{security: s, clientID: clientID, log: log}
	if s.UsesTLS() {
		if a.material, err = newMaterial(s, log); err != nil {
			return nil, err
		}
	}
	if !s.UsesSASL() {
		return a, nil
	}
	if s.Mechanism != MechanismOAuthBearer {
		a.password = &kept{name: s.Password.where("sasl_password_file", "PILLION_SASL_PASSWORD"), read: s.Password.read, log: log}
		_, err = a.password.get()
		return a, err
	}
	var secret, file *kept
	if s.TokenFile != "" {
		file = &kept{name: "sasl_oauthbearer_token_file", read: func() (string, error) { return readSecret(s.TokenFile) }, log: log}
		_, err = file.get()
	}
	if s.TokenEndpointURL != "" {
		secret = &kept{name: s.ClientSecret.where("sasl_oauthbearer_client_secret_file", "PILLION_SASL_OAUTHBEARER_CLIENT_SECRET"), read: s.ClientSecret.read, log: log}
		_, err = secret.get()
	}
	a.tokens = newTokenSource(s, a.material, secret, file)
	return a, err
}

// principal is who we are to the brokers, unless they map names in a way of their own.
func (a *authenticator) principal() string {
	switch {
	case a.security.Mechanism == MechanismOAuthBearer:
		if known := a.token.Load(); known != nil {
			return *known
		}
		return "User:" + subjectOf("")
	case a.security.UsesSASL():
		return "User:" + a.security.Username
	case a.material != nil:
		if _, own := a.material.current(); own != nil {
			return "User:" + own.Leaf.Subject.String()
		}
	}
	return "User:ANONYMOUS"
}

// admit makes a fresh connection one that requests may be sent over. The deadline of its handshakes
// must be set. It returns the connection that speaks, and when to authenticate again (zero: never).
func (a *authenticator) admit(ctx context.Context, raw net.Conn, address string) (speaks net.Conn, w *who, due time.Time, err error) {
	w = &who{address: address, security: a.security}
	speaks = raw
	if a.material != nil {
		if speaks, err = a.encrypt(ctx, raw, w); err != nil {
			return nil, w, due, err
		}
	}
	if !a.security.UsesSASL() {
		if a.material != nil {
			err = a.probe(speaks, w)
		}
		return speaks, w, due, err
	}
	due, err = a.authenticate(ctx, speaks, w)
	return speaks, w, due, err
}

// encrypt does TLS with what the files hold now.
func (a *authenticator) encrypt(ctx context.Context, raw net.Conn, w *who) (net.Conn, error) {
	roots, own := a.material.current()
	w.own = own
	name := a.security.ServerName
	if name == "" {
		name, _, _ = net.SplitHostPort(w.address)
	}
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			w.asked = true
			if own == nil {
				return &tls.Certificate{}, nil
			}
			if now := time.Now(); now.After(own.Leaf.NotAfter) || now.Before(own.Leaf.NotBefore) {
				return nil, &ownExpiredError{own.Leaf.NotBefore, own.Leaf.NotAfter}
			}
			return own, nil
		},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		if refused := w.refusedTLS(err); refused != nil {
			return nil, refused
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return conn, nil
}

// probe asks for the broker's versions: with TLS 1.3 a client hears only after its handshake that its
// certificate is refused.
func (a *authenticator) probe(conn net.Conn, w *who) error {
	_, err := a.ask(conn, w, kmsg.NewPtrApiVersionsRequest(), 0)
	return err
}

// authenticate does SASL, also over a connection that has done it before.
func (a *authenticator) authenticate(ctx context.Context, conn net.Conn, w *who) (due time.Time, err error) {
	if _, _, err := a.handshake(conn, w, a.security.Mechanism); err != nil {
		return due, err
	}
	talk, principal, err := a.converse(ctx)
	if err != nil {
		return due, w.refuse(err, "there is nothing to show to the broker at %s: %s", w.address, oneLine(err))
	}
	if a.tokens != nil {
		a.token.Store(&principal)
	}
	var lifetime time.Duration
	var challenge []byte
	for {
		say, done, err := talk(challenge)
		if err != nil {
			return due, w.refuse(err, "SASL with the broker at %s as %s fails: %s", w.address, principal, oneLine(err))
		}
		if done {
			break
		}
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.SASLAuthBytes = say
		answer, err := a.ask(conn, w, req, 1)
		if err != nil {
			return due, err
		}
		resp := answer.(*kmsg.SASLAuthenticateResponse)
		if resp.ErrorCode != 0 {
			if a.tokens != nil {
				a.tokens.forget()
			}
			return due, w.refusedCredentials(resp.ErrorCode, principal)
		}
		challenge, lifetime = resp.SASLAuthBytes, time.Duration(resp.SessionLifetimeMillis)*time.Millisecond
	}
	return dueAfter(time.Now(), lifetime), nil
}

// dueAfter is when to authenticate again: at 80 % of the session's time, but not within the second in
// which a broker refuses to be asked again. Zero: never.
func dueAfter(now time.Time, lifetime time.Duration) time.Time {
	if lifetime <= 0 {
		return time.Time{}
	}
	return now.Add(max(lifetime*4/5, 1100*time.Millisecond))
}

// handshake names the mechanism.
func (a *authenticator) handshake(conn net.Conn, w *who, mechanism string) (code int16, offered []string, err error) {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = mechanism
	answer, err := a.ask(conn, w, req, 1)
	if err != nil {
		return 0, nil, err
	}
	resp := answer.(*kmsg.SASLHandshakeResponse)
	if resp.ErrorCode != 0 {
		return resp.ErrorCode, resp.SupportedMechanisms, w.refusedHandshake(resp.ErrorCode, resp.SupportedMechanisms)
	}
	return 0, resp.SupportedMechanisms, nil
}

// maxHandshake bounds the answers before anybody is known.
const maxHandshake = 1 << 20

// ask makes one exchange of the handshakes. All versions used here have the old header.
func (a *authenticator) ask(conn net.Conn, w *who, req kmsg.Request, version int16) (kmsg.Response, error) {
	req.SetVersion(version)
	const id = 1
	out := req.AppendTo(appendHeader(nil, req.Key(), version, id, a.clientID, false))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	body, err := askRaw(conn, out, id)
	if err != nil {
		if refused := w.broken(conn, err); refused != nil {
			return nil, refused
		}
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("decoding the answer to %s v%d: %w", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp, nil
}

func askRaw(conn net.Conn, out []byte, id uint32) ([]byte, error) {
	if _, err := conn.Write(out); err != nil {
		return nil, err
	}
	var head [8]byte
	if n, err := io.ReadFull(conn, head[:]); isAlert(head[:n]) {
		return nil, errAlert // it may be shorter than a head
	} else if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size < 4 || size > maxHandshake {
		return nil, fmt.Errorf("answer of %d bytes: this is not a Kafka broker's", size)
	}
	if got := binary.BigEndian.Uint32(head[4:]); got != id {
		return nil, fmt.Errorf("answer to request %d where %d was asked", got, id)
	}
	body := make([]byte, size-4)
	_, err := io.ReadFull(conn, body)
	return body, err
}
