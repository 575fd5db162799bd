//go:build kafka

package kafkaproc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// tokenFor is an unsecured JWS: what anybody can make, and the broker of a test takes.
func tokenFor(principal string) string {
	part := base64.RawURLEncoding.EncodeToString
	now := time.Now()
	return part([]byte(`{"alg":"none"}`)) + "." +
		part(fmt.Appendf(nil, `{"sub":%q,"iat":%d,"exp":%d}`, principal, now.Unix(), now.Add(time.Hour).Unix())) + "."
}

// Every way in leads to a principal that may do what its ACL says, and nothing else.
func TestASecuredKafka(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	principals := []string{"User:carol", "User:paul", "User:olga", "User:CN=client"}
	s := &Secure{Scram: map[string]string{"carol": "pw-c"}, Plain: map[string]string{"paul": "pw-p"}, Reauth: time.Hour}
	for _, p := range principals {
		s.ACLs = append(s.ACLs, ACL{Principal: p, Resource: "topic", Name: "or", Prefixed: true, Operation: "Describe"})
	}
	k, err := New(ctx, Config{Dir: t.TempDir(), Secure: s})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Start(ctx); err != nil {
		t.Fatal(err)
	}
	n := k.Nodes[0]
	ca, err := os.ReadFile(k.Files.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	trust := kgo.DialTLSConfig(&tls.Config{RootCAs: pool})
	pair, err := tls.LoadX509KeyPair(k.Files.ClientCert, k.Files.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := kgo.DialTLSConfig(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
	for _, way := range []struct {
		name, addr string
		tls        kgo.Opt
		mechanism  sasl.Mechanism
	}{
		{"PLAIN", n.SecureAddr, trust, plain.Auth{User: "paul", Pass: "pw-p"}.AsMechanism()},
		{"SCRAM-SHA-256", n.SecureAddr, trust, scram.Auth{User: "carol", Pass: "pw-c"}.AsSha256Mechanism()},
		{"SCRAM-SHA-512", n.SecureAddr, trust, scram.Auth{User: "carol", Pass: "pw-c"}.AsSha512Mechanism()},
		{"OAUTHBEARER", n.SecureAddr, trust, oauth.Auth{Token: tokenFor("olga")}.AsMechanism()},
		{"without TLS", n.SaslAddr, nil, plain.Auth{User: "paul", Pass: "pw-p"}.AsMechanism()},
		{"certificate", n.CertAddr, cert, nil},
	} {
		options := []kgo.Opt{kgo.SeedBrokers(way.addr), kgo.RequestRetries(3)}
		if way.tls != nil {
			options = append(options, way.tls)
		}
		if way.mechanism != nil {
			options = append(options, kgo.SASL(way.mechanism))
		}
		cl, err := kgo.NewClient(options...)
		if err != nil {
			t.Fatal(err)
		}
		if codes, err := topicCodes(ctx, cl, "orders", "secret"); err != nil || codes["orders"] != 3 || codes["secret"] != 29 {
			t.Errorf("%s: %v, %v; want no such topic (3) where it may look, and refused (29) elsewhere", way.name, codes, err)
		}
		cl.Close()
	}

	wrong, err := kgo.NewClient(kgo.SeedBrokers(n.SecureAddr), trust, kgo.SASL(scram.Auth{User: "carol", Pass: "no"}.AsSha256Mechanism()), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if _, err := topicCodes(ctx, wrong, "orders"); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a wrong password: %v", err)
	}
	if err := k.SetPassword(ctx, "carol", "no"); err != nil {
		t.Fatal(err)
	}
	for { // brokers hear of it within moments
		_, err := topicCodes(ctx, wrong, "orders")
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the password was not changed:", err)
		}
	}
	if err := k.Disallow(ctx, s.ACLs[0]); err != nil {
		t.Fatal(err)
	}
	for {
		codes, err := topicCodes(ctx, wrong, "orders")
		if err != nil {
			t.Fatal(err)
		}
		if codes["orders"] == 29 {
			break
		}
	}
}

// topicCodes asks for topics that do not exist.
func topicCodes(ctx context.Context, cl *kgo.Client, names ...string) (map[string]int16, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	codes := map[string]int16{}
	for _, topic := range res.Topics {
		codes[*topic.Topic] = topic.ErrorCode
	}
	return codes, nil
}
