package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// opaqueToken is how long a token is used again that does not say when it expires.
const opaqueToken = 5 * time.Second

// tokens gives OAUTHBEARER its tokens. One that has been fetched is used for 80 % of its time, so that
// many connections made at once ask once.
type tokens struct {
	fetch func(context.Context) (token string, expires time.Time, err error) // a zero time: not known
	now   func() time.Time

	asking chan struct{} // held by the one who fetches
	mu     sync.Mutex
	last   string
	until  time.Time
}

func newTokens(fetch func(context.Context) (string, time.Time, error)) *tokens {
	return &tokens{fetch: fetch, now: time.Now, asking: make(chan struct{}, 1)}
}

func (t *tokens) token(ctx context.Context) (string, error) {
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	t.mu.Lock()
	last, until := t.last, t.until
	t.mu.Unlock()
	if last != "" && t.now().Before(until) {
		return last, nil
	}
	token, expires, err := t.fetch(ctx)
	if err != nil {
		return "", err
	}
	if err := wellFormed(token); err != nil {
		return "", err
	}
	if expires.IsZero() {
		expires = expiryOf(token)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.until = token, t.now().Add(opaqueToken)
	if !expires.IsZero() {
		t.until = t.now().Add(expires.Sub(t.now()) * 4 / 5)
	}
	return token, nil
}

// forget makes the next handshake fetch a new token: this one was refused.
func (t *tokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = ""
}

// wellFormed refuses what would break the frame that a token is sent in (RFC 6750: b64token).
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

func wellFormed(token string) error {
	if !tokenForm.MatchString(token) {
		return errors.New("what should be an OAUTHBEARER token holds characters that no token has")
	}
	return nil
}

// claims are what a token says of itself, if it is a JWT. Whether that is true is the broker's business.
func claims(token string) (subject string, expires time.Time) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", time.Time{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var body struct {
		Sub string  `json:"sub"`
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(raw, &body) != nil {
		return "", time.Time{}
	}
	if body.Exp > 0 && body.Exp < 1e11 {
		expires = time.Unix(int64(body.Exp), 0)
	}
	return body.Sub, expires
}

func expiryOf(token string) time.Time { _, expires := claims(token); return expires }

// subjectOf is the principal that a broker makes of a token by default.
func subjectOf(token string) string {
	if subject, _ := claims(token); subject != "" {
		return subject
	}
	return "(the subject of the OAUTHBEARER token)"
}

// newTokenSource makes what the settings say.
func newTokenSource(s Security, m *material, secret, file *kept) *tokens {
	switch {
	case s.TokenFile != "":
		return newTokens(func(context.Context) (string, time.Time, error) {
			token, err := file.get()
			return token, longAgo, err // so that it is read again each time
		})
	case s.TokenCommand != "":
		return newTokens(func(ctx context.Context) (string, time.Time, error) {
			token, err := tokenOf(ctx, s.TokenCommand)
			return token, time.Time{}, err
		})
	case s.TokenEndpointURL != "":
		return newTokens(func(ctx context.Context) (string, time.Time, error) { return askEndpoint(ctx, s, m, secret) })
	}
	return nil
}

// tokenOf runs the command. What it prints is never shown: it may be the token.
func tokenOf(ctx context.Context, command string) (string, error) {
	const what = "sasl_oauthbearer_token_command"
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	var out limited
	cmd.Stdout = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not print a token in time", what)
	case err != nil:
		return "", fmt.Errorf("%s failed (%w): run it by hand to see what it says", what, err)
	case out.over:
		return "", fmt.Errorf("%s prints more than a token", what)
	}
	token := strings.TrimSpace(out.kept.String())
	if token == "" {
		return "", fmt.Errorf("%s prints no token", what)
	}
	return token, nil
}

// limited keeps no more than a token can be. The buffer is no part of its methods: it would be filled
// past us.
type limited struct {
	kept bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.kept.Len()+len(p) > maxSecret {
		l.over = true
		return len(p), nil
	}
	return l.kept.Write(p)
}

// askEndpoint is the client credentials grant.
func askEndpoint(ctx context.Context, s Security, m *material, secret *kept) (string, time.Time, error) {
	password, err := secret.get()
	if err != nil {
		return "", time.Time{}, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: endpointRoots(s, m)}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("it redirects, and a secret is not sent elsewhere")
	}}
	grant := clientcredentials.Config{ClientID: s.ClientID, ClientSecret: password, TokenURL: s.TokenEndpointURL, Scopes: strings.Fields(s.Scope)}
	token, err := grant.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return "", time.Time{}, endpointError(ctx, s, err)
	}
	return token.AccessToken, token.Expiry, nil
}

// endpointRoots are the system's authorities and those of ssl_ca_file.
func endpointRoots(s Security, m *material) *x509.CertPool {
	if s.CAFile == "" || m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(m.ca)
	return pool
}

var oauthCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// endpointError says what an endpoint answered, and nothing that it could echo.
func endpointError(ctx context.Context, s Security, err error) error {
	const what = "sasl_oauthbearer_token_endpoint_url"
	var answered *oauth2.RetrieveError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not answer in time", what)
	case errors.As(err, &answered):
		said := ""
		if answered.Response != nil {
			said = fmt.Sprintf("HTTP %d", answered.Response.StatusCode)
		}
		if oauthCode.MatchString(answered.ErrorCode) {
			said += ", " + answered.ErrorCode
		}
		return fmt.Errorf("%s gives client %s no token (%s): check sasl_oauthbearer_client_id, sasl_oauthbearer_scope and the secret in %s",
			what, s.ClientID, said, s.ClientSecret.where("sasl_oauthbearer_client_secret_file", "PILLION_SASL_OAUTHBEARER_CLIENT_SECRET"))
	}
	return fmt.Errorf("%s cannot be reached or does not answer as one: %w", what, innermost(err))
}

// innermost leaves out the wrappers of net/http, which repeat the URL.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
