package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// SecurityError: a broker and we do not come together, because one does not speak, trust or admit the
// other. It is one sentence that says what to do. It is Retriable, for passwords and certificates are
// changed while we run; a process that was never admitted had better end with it (see Admitted).
type SecurityError struct {
	Address string
	Message string
	Code    int16 // Kafka's, if it was a broker that said so; else 0
	maybe   bool  // also what a broker looks like that is going down
	err     error
}

func (e *SecurityError) Error() string { return e.Message }
func (e *SecurityError) Unwrap() error { return e.err }

// refusal finds a SecurityError.
func refusal(err error) *SecurityError {
	var refused *SecurityError
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}

// who are the two sides of a connection, for the sentences about it.
type who struct {
	address  string
	security Security
	own      *tls.Certificate // ours; nil: none
	asked    bool             // the broker has asked for it
}

func (w *who) refuse(err error, format string, args ...any) *SecurityError {
	return &SecurityError{Address: w.address, Message: fmt.Sprintf(format, args...), err: err}
}

func (w *who) coded(code int16, format string, args ...any) *SecurityError {
	refused := w.refuse(nil, format, args...)
	refused.Code = code
	return refused
}

// refusedTLS names what went wrong in a TLS handshake; nil when that is no matter of security.
func (w *who) refusedTLS(err error) error {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		roots     x509.SystemRootsError
		header    tls.RecordHeaderError
		expired   *ownExpiredError
	)
	switch {
	case errors.As(err, &expired):
		return w.refuse(err, "broker at %s asks for our client certificate, but %v: renew it in ssl_certificate_file %s", w.address, expired, w.security.CertificateFile)
	case errors.As(err, &host):
		return w.refuse(err, "the certificate of the broker at %s is for %s and not for %s: take a name of the certificate in bootstrap_servers and advertised.listeners, or say it in ssl_server_name",
			w.address, namesOf(host.Certificate), host.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return w.refuse(err, "the certificate of the broker at %s (%s) is good from %s to %s only: renew it at the broker, or set this machine's clock right",
			w.address, invalid.Cert.Subject, day(invalid.Cert.NotBefore), day(invalid.Cert.NotAfter))
	case errors.As(err, &authority):
		return w.refuse(err, "the certificate of the broker at %s is of an authority that is not trusted here: put that authority into %s", w.address, w.trust())
	case errors.As(err, &invalid), errors.As(err, &roots):
		return w.refuse(err, "the certificate of the broker at %s is not trusted (%s): check it, and %s", w.address, oneLine(err), w.trust())
	case errors.As(err, &header):
		return w.refuse(err, "the broker at %s does not speak TLS at this port: take the port of a TLS listener, or %s", w.address, w.without())
	}
	if alert := alertOf(err); alert != "" {
		return w.alerted(err, alert)
	}
	if closedByPeer(err) {
		refused := w.refuse(err, "the broker at %s ends the connection in the TLS handshake, as one does that speaks no TLS at this port: take the port of a TLS listener, or %s", w.address, w.without())
		refused.maybe = true
		return refused
	}
	return nil
}

func (w *who) trust() string {
	if w.security.CAFile == "" {
		return "a file and set ssl_ca_file to it (only the system's authorities are trusted now)"
	}
	return "ssl_ca_file (" + w.security.CAFile + ")"
}

func (w *who) without() string {
	if w.security.UsesSASL() {
		return "set security_protocol to SASL_PLAINTEXT"
	}
	return "set security_protocol to PLAINTEXT"
}

// alerted is about an alert: the broker does not like our side of the handshake.
func (w *who) alerted(err error, alert string) error {
	switch {
	case w.asked && w.own == nil:
		return w.refuse(err, "the broker at %s wants a client certificate (it says %q): set ssl_certificate_file and ssl_key_file", w.address, alert)
	case w.asked:
		return w.refuse(err, "the broker at %s refuses the client certificate of %s in ssl_certificate_file %s, good to %s, of the authority %s (it says %q): have the broker trust that authority (ssl.truststore), or take another certificate",
			w.address, w.own.Leaf.Subject, w.security.CertificateFile, day(w.own.Leaf.NotAfter), w.own.Leaf.Issuer, alert)
	}
	return w.refuse(err, "the broker at %s ends the TLS handshake (it says %q): check its TLS versions, ciphers and keystore", w.address, alert)
}

// alertOf is the text of a TLS alert that the other side sent.
func alertOf(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return strings.TrimPrefix(op.Err.Error(), "tls: ")
	}
	return ""
}

func closedByPeer(err error) bool {
	for _, closed := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, closed) {
			return true
		}
	}
	return false
}

// refusedHandshake names the code by which a broker answers SaslHandshake.
func (w *who) refusedHandshake(code int16, offered []string) error {
	switch code {
	case codeMechanism:
		return w.coded(code, "the broker at %s does not offer the SASL mechanism %s, but %s: set sasl_mechanism to one of these, or add it to sasl.enabled.mechanisms of the broker (%s, Kafka error %d)",
			w.address, w.security.Mechanism, strings.Join(offered, ", "), CodeName(code), code)
	case codeSASLState:
		protocol := Plaintext
		if w.security.UsesTLS() {
			protocol = SSL
		}
		return w.coded(code, "the broker at %s does not ask for SASL at this port: set security_protocol to %s, or take the port of a SASL listener (%s, Kafka error %d)",
			w.address, protocol, CodeName(code), code)
	}
	return &Error{Code: code, What: "SaslHandshake"}
}

// refusedCredentials is about codes by which a broker answers SaslAuthenticate.
func (w *who) refusedCredentials(code int16, principal string) error {
	if code != codeAuthentication {
		return &Error{Code: code, What: "SaslAuthenticate"}
	}
	s := w.security
	if s.Mechanism == MechanismOAuthBearer {
		return w.coded(code, "the broker at %s refuses the token of %s from %s: check that it has not expired and that the broker trusts its issuer and audience (%s, Kafka error %d)",
			w.address, principal, s.tokenPlace(), CodeName(code), code)
	}
	return w.coded(code, "the broker at %s refuses %s with %s: check sasl_username and the password in %s, and that the broker knows this user for that mechanism (%s, Kafka error %d)",
		w.address, principal, s.Mechanism, s.Password.where("sasl_password_file", "PILLION_SASL_PASSWORD"), CodeName(code), code)
}

// tokenPlace names where tokens come from.
func (s Security) tokenPlace() string {
	switch {
	case s.TokenFile != "":
		return "sasl_oauthbearer_token_file (" + s.TokenFile + ")"
	case s.TokenCommand != "":
		return "sasl_oauthbearer_token_command"
	}
	return "sasl_oauthbearer_token_endpoint_url"
}

// wantsTLS is about a broker that answers a plain connection with a TLS record.
func (w *who) wantsTLS() error {
	protocol := SSL
	if w.security.UsesSASL() {
		protocol = SASLSSL
	}
	return w.refuse(nil, "the broker at %s speaks TLS at this port: set security_protocol to %s, or to SASL_SSL if it asks for SASL as well, or take the port of a plain listener", w.address, protocol)
}

// wantsSASL is about a broker that ends connections which do not begin with SASL.
func (w *who) wantsSASL(offered []string) error {
	protocol := SASLPlaintext
	if w.security.UsesTLS() {
		protocol = SASLSSL
	}
	return w.refuse(nil, "the broker at %s asks for SASL at this port: set security_protocol to %s and sasl_mechanism to one that it offers (%s)", w.address, protocol, strings.Join(offered, ", "))
}

// ownExpiredError: our certificate is not good now.
type ownExpiredError struct{ from, to time.Time }

func (e *ownExpiredError) Error() string {
	return fmt.Sprintf("it is good from %s to %s only", day(e.from), day(e.to))
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func namesOf(cert *x509.Certificate) string {
	names := append([]string{}, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no host at all"
	}
	return strings.Join(names, ", ")
}

// errAlert is an answer that is a TLS record, where none was asked for.
var errAlert = errors.New("the answer is a TLS alert")

// isAlert tells a TLS alert from an answer of Kafka, which would be 350 MB long.
func isAlert(head []byte) bool {
	return len(head) >= 3 && head[0] == 0x15 && head[1] == 3 && head[2] <= 4
}

// broken names why an exchange broke, if that is a matter of security. With TLS 1.3 the alert about our
// certificate comes after our handshake, and may lie unread behind a write that failed.
func (w *who) broken(conn net.Conn, err error) error {
	if errors.Is(err, errAlert) {
		return w.wantsTLS()
	}
	if !w.security.UsesTLS() {
		return nil
	}
	if alert := alertOf(err); alert != "" {
		return w.alerted(err, alert)
	}
	if closedByPeer(err) && conn.SetReadDeadline(time.Now().Add(alertWithin)) == nil {
		var one [1]byte
		if _, unread := conn.Read(one[:]); alertOf(unread) != "" {
			return w.alerted(unread, alertOf(unread))
		}
	}
	return nil
}

// alertWithin is how long to listen for an alert over a connection that is broken.
const alertWithin = 200 * time.Millisecond
