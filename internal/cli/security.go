package cli

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/kafka"
)

// secretEnv are the variables that hold secrets. They are no settings: no flag, no key of the YAML
// file, not printed, and no child process inherits them.
var secretEnv = []string{"PILLION_SASL_PASSWORD", "PILLION_SASL_OAUTHBEARER_CLIENT_SECRET"}

// securityRows are the settings of the connection to Kafka.
var securityRows = []setting{
	choice("security_protocol", kafka.Plaintext, "how to connect to the brokers", func(s *Settings) *string { return &s.Security.Protocol }, kafka.Plaintext, kafka.SSL, kafka.SASLPlaintext, kafka.SASLSSL),
	text("ssl_ca_file", "", "PEM file of the authorities of the brokers' certificates; empty: the system's", func(s *Settings) *string { return &s.Security.CAFile }),
	text("ssl_certificate_file", "", "PEM file of our certificate, for brokers that ask for one", func(s *Settings) *string { return &s.Security.CertificateFile }),
	text("ssl_key_file", "", "PEM file of the key of ssl_certificate_file", func(s *Settings) *string { return &s.Security.KeyFile }),
	text("ssl_server_name", "", "name that the brokers' certificates must have; empty: the host of each broker", func(s *Settings) *string { return &s.Security.ServerName }),
	orNone(choice("sasl_mechanism", kafka.MechanismScram256, "how to show who we are", func(s *Settings) *string { return &s.Security.Mechanism }, kafka.MechanismPlain, kafka.MechanismScram256, kafka.MechanismScram512, kafka.MechanismOAuthBearer)),
	text("sasl_username", "", "user of PLAIN and SCRAM", func(s *Settings) *string { return &s.Security.Username }),
	text("sasl_password_file", "", "file with the user's password; or PILLION_SASL_PASSWORD in the environment", func(s *Settings) *string { return &s.Security.Password.File }),
	text("sasl_oauthbearer_token_file", "", "file with the token of OAUTHBEARER", func(s *Settings) *string { return &s.Security.TokenFile }),
	text("sasl_oauthbearer_token_command", "", "command that prints the token of OAUTHBEARER", func(s *Settings) *string { return &s.Security.TokenCommand }),
	withoutUser(text("sasl_oauthbearer_token_endpoint_url", "", "URL that gives tokens for client credentials", func(s *Settings) *string { return &s.Security.TokenEndpointURL })),
	text("sasl_oauthbearer_client_id", "", "client of the token endpoint", func(s *Settings) *string { return &s.Security.ClientID }),
	text("sasl_oauthbearer_client_secret_file", "", "file with the client's secret; or PILLION_SASL_OAUTHBEARER_CLIENT_SECRET in the environment", func(s *Settings) *string { return &s.Security.ClientSecret.File }),
	text("sasl_oauthbearer_scope", "", "scopes to ask the token endpoint for, separated by spaces", func(s *Settings) *string { return &s.Security.Scope }),
}

// orNone makes a choice one that may be left out.
func orNone(row setting) setting {
	set := row.set
	row.deflt = ""
	row.set = func(s *Settings, v string) error {
		if v == "" {
			s.Security.Mechanism = ""
			return nil
		}
		return set(s, v)
	}
	return row
}

// withoutUser refuses a URL with a password in it before anything can print it.
func withoutUser(row setting) setting {
	set := row.set
	row.set = func(s *Settings, v string) error {
		if u, err := url.Parse(v); err != nil || u.User != nil {
			return errors.New("holds a user or password, or is no URL: put them into sasl_oauthbearer_client_id and sasl_oauthbearer_client_secret_file")
		}
		return set(s, v)
	}
	return row
}

// takeSecrets reads those that are in the environment.
func (s *Settings) takeSecrets(environ []string) {
	s.Security.Password.Value = lookup(environ, secretEnv[0])
	s.Security.ClientSecret.Value = lookup(environ, secretEnv[1])
}

// kafkaRows are the settings of a command that only asks Kafka something.
func kafkaRows(more ...string) []setting {
	picked := rows(append([]string{"bootstrap_servers"}, more...)...)
	return append(picked, securityRows...)
}

// connect makes the client of the settings.
func (s *Settings) connect(log hclog.Logger) (*kafka.Client, error) {
	client, err := kafka.New(kafka.Config{Bootstrap: s.BootstrapServers, Security: s.Security, Logger: log})
	if err != nil {
		return nil, usageError{err}
	}
	if exposed := s.Security.Exposed(); exposed != "" {
		log.Warn("SASL without TLS", "error", exposed)
	}
	return client, nil
}

// admissionWithin is how long the brokers may take to say whether they take the process in.
const admissionWithin = 20 * time.Second

// admission ends a process at its start when Kafka refuses it, which is most likely a mistake in the
// settings. Brokers that cannot be reached are waited for, as ever, and later refusals too: then it is
// a rotation.
type admission struct {
	over chan struct{}
	err  error // after over
}

// admit asks, and ends the others by stop when the answer is no. It returns as soon as there is an
// answer, or when that takes so long that the worker had better be started.
func (c *sidecar) admit(ctx context.Context, stop func()) *admission {
	a := &admission{over: make(chan struct{})}
	go func() {
		defer close(a.over)
		ctx, cancel := context.WithTimeout(ctx, admissionWithin)
		defer cancel()
		if a.err = refused(c.client.Admitted(ctx)); a.err != nil {
			stop()
		}
	}()
	soon := time.NewTimer(reachWithin)
	defer soon.Stop()
	select {
	case <-a.over:
	case <-soon.C:
	}
	return a
}

// ends is how the process ends that would otherwise have ended with err.
func (a *admission) ends(err error) error {
	<-a.over
	if a.err != nil {
		return a.err
	}
	return err
}

// refused is the error if it is a refusal, else nil.
func refused(err error) error {
	var refused *kafka.SecurityError
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}

// onlyElsewhere refuses security settings for the in-process Kafka of dev, which has none.
func (o *options) onlyElsewhere() error {
	for _, row := range securityRows {
		if source := o.given[row.name]; source != "" && row.get(&o.Settings) != row.deflt {
			return usagef("%s (%s) is for a Kafka of yours, and the in-process one of dev is plain: say where yours is with --bootstrap-servers, or leave it out", row.name, source)
		}
	}
	if o.Security.Password.Value != "" || o.Security.ClientSecret.Value != "" {
		return usagef("%s is for a Kafka of yours, and the in-process one of dev is plain: say where yours is with --bootstrap-servers, or leave it out", strings.Join(secretEnv, " or "))
	}
	return nil
}
