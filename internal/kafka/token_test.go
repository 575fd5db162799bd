package kafka

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestATokenIsUsedForMostOfItsTime(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	asked := 0
	life := 100 * time.Second
	source := newTokens(func(context.Context) (string, time.Time, error) {
		asked++
		if life == 0 {
			return fmt.Sprint("opaque", asked), time.Time{}, nil
		}
		return fmt.Sprint("token", asked), now.Add(life), nil
	})
	source.now = func() time.Time { return now }
	expect := func(want string) {
		t.Helper()
		if got, err := source.token(t.Context()); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	expect("token1")
	now = now.Add(79 * time.Second)
	expect("token1")
	now = now.Add(2 * time.Second)
	expect("token2")
	source.forget() // it was refused
	expect("token3")
	life = 0
	source.forget()
	expect("opaque4")
	now = now.Add(opaqueToken - 1)
	expect("opaque4")
	now = now.Add(1)
	expect("opaque5")
	life = -time.Second // over when it comes
	now = now.Add(opaqueToken)
	expect("token6")
	expect("token7")
}

func TestManyConnectionsAskForATokenOnce(t *testing.T) {
	asked := 0
	source := newTokens(func(context.Context) (string, time.Time, error) {
		asked++
		return "token", time.Now().Add(time.Hour), nil
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _, _ = source.token(context.Background()) })
	}
	all.Wait()
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// What a command or an endpoint says is in no error: it may be the secret.
func TestTokensThatDoNotCome(t *testing.T) {
	var answer func(w http.ResponseWriter)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
	defer endpoint.Close()
	from := func(s Security) *tokens {
		s.Protocol, s.Mechanism = SASLPlaintext, MechanismOAuthBearer
		a, err := newAuthenticator(s, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return a.tokens
	}
	command := func(line string) *tokens { return from(Security{TokenCommand: line}) }
	says := func(with func(w http.ResponseWriter)) *tokens {
		answer = with
		return from(Security{TokenEndpointURL: endpoint.URL + "/hush", ClientID: "app", ClientSecret: Secret{Value: "hush"}})
	}
	for _, c := range []struct {
		name, want string
		source     func() *tokens
	}{
		{"no such command", "sasl_oauthbearer_token_command failed (exit status 127): run it by hand", func() *tokens { return command("/no/such/command") }},
		{"a command that fails", "sasl_oauthbearer_token_command failed (exit status 3): ", func() *tokens { return command("echo hush; echo hush >&2; exit 3") }},
		{"nothing", "sasl_oauthbearer_token_command prints no token", func() *tokens { return command("true") }},
		{"two lines", "what should be an OAUTHBEARER token holds characters that no token has", func() *tokens { return command("echo hush; echo hush") }},
		{"no end", "sasl_oauthbearer_token_command prints more than a token", func() *tokens { return command("yes hush | head -c 3000000") }},
		{"refused", "sasl_oauthbearer_token_endpoint_url gives client app no token (HTTP 401, invalid_client): check ", func() *tokens {
			return says(func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(401)
				fmt.Fprint(w, `{"error":"invalid_client","error_description":"hush is wrong"}`)
			})
		}},
		{"echo", "sasl_oauthbearer_token_endpoint_url gives client app no token (HTTP 500): check ", func() *tokens {
			return says(func(w http.ResponseWriter) { w.WriteHeader(500); fmt.Fprint(w, "hush") })
		}},
		{"redirect", "sasl_oauthbearer_token_endpoint_url ", func() *tokens {
			return says(func(w http.ResponseWriter) { w.Header().Set("Location", "http://example.com/hush"); w.WriteHeader(302) })
		}},
		{"no JSON", "sasl_oauthbearer_token_endpoint_url ", func() *tokens { return says(func(w http.ResponseWriter) { fmt.Fprint(w, "hush") }) }},
	} {
		_, err := c.source().token(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
	}
	slow, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := command("sleep 60").token(slow); err == nil || err.Error() != "sasl_oauthbearer_token_command did not print a token in time" {
		t.Errorf("a slow command: %v", err)
	}
}
