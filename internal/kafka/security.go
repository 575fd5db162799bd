package kafka

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Protocols of a listener, and mechanisms of SASL, in Kafka's words.
const (
	Plaintext     = "PLAINTEXT"
	SSL           = "SSL"
	SASLPlaintext = "SASL_PLAINTEXT"
	SASLSSL       = "SASL_SSL"

	MechanismPlain       = "PLAIN"
	MechanismScram256    = "SCRAM-SHA-256"
	MechanismScram512    = "SCRAM-SHA-512"
	MechanismOAuthBearer = "OAUTHBEARER"
)

// Security says how connections are secured. The zero value is a plain one. Files are read again
// whenever a connection is made, so that a rotation needs no restart.
type Security struct {
	Protocol string // "" is PLAINTEXT

	CAFile          string // PEM; "": the system's authorities
	CertificateFile string // PEM, ours, with its chain
	KeyFile         string // PEM, of the certificate, not encrypted
	ServerName      string // "": the host of the broker's address

	Mechanism string
	Username  string
	Password  Secret

	// Of OAUTHBEARER one of three: a file with the token, a command that prints it, or the client
	// credentials grant at an endpoint.
	TokenFile        string
	TokenCommand     string // run by sh
	TokenEndpointURL string
	ClientID         string
	ClientSecret     Secret
	Scope            string // separated by spaces
}

// UsesTLS tells whether connections are encrypted.
func (s Security) UsesTLS() bool { return s.Protocol == SSL || s.Protocol == SASLSSL }

// UsesSASL tells whether connections are authenticated by SASL.
func (s Security) UsesSASL() bool { return s.Protocol == SASLPlaintext || s.Protocol == SASLSSL }

func (s Security) protocol() string {
	if s.Protocol == "" {
		return Plaintext
	}
	return s.Protocol
}

// Validate refuses what contradicts itself, in the words of the settings. It reads no file.
func (s Security) Validate() error {
	if !slices.Contains([]string{"", Plaintext, SSL, SASLPlaintext, SASLSSL}, s.Protocol) {
		return fmt.Errorf("security_protocol is %q, must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", s.Protocol)
	}
	if err := s.validateTLS(); err != nil {
		return err
	}
	return s.validateSASL()
}

// given is a setting and whether it has a value.
type given struct {
	name string
	is   bool
}

func firstGiven(all ...given) string {
	for _, g := range all {
		if g.is {
			return g.name
		}
	}
	return ""
}

func (s Security) validateTLS() error {
	name := firstGiven(given{"ssl_ca_file", s.CAFile != ""}, given{"ssl_certificate_file", s.CertificateFile != ""},
		given{"ssl_key_file", s.KeyFile != ""}, given{"ssl_server_name", s.ServerName != ""})
	switch {
	case name != "" && !s.UsesTLS():
		return fmt.Errorf("%s is set, but security_protocol is %s: make it SSL or SASL_SSL, or leave %s out", name, s.protocol(), name)
	case s.CertificateFile != "" && s.KeyFile == "":
		return errors.New("ssl_certificate_file is set without ssl_key_file: give both or neither")
	case s.CertificateFile == "" && s.KeyFile != "":
		return errors.New("ssl_key_file is set without ssl_certificate_file: give both or neither")
	}
	return nil
}

func (s Security) passwordGiven() string {
	return firstGiven(given{"sasl_username", s.Username != ""}, given{"sasl_password_file", s.Password.File != ""},
		given{"PILLION_SASL_PASSWORD", s.Password.Value != ""})
}

func (s Security) tokenGiven() string {
	return firstGiven(given{"sasl_oauthbearer_token_file", s.TokenFile != ""}, given{"sasl_oauthbearer_token_command", s.TokenCommand != ""},
		given{"sasl_oauthbearer_token_endpoint_url", s.TokenEndpointURL != ""}, s.clientGiven())
}

func (s Security) clientGiven() given {
	name := firstGiven(given{"sasl_oauthbearer_client_id", s.ClientID != ""}, given{"sasl_oauthbearer_client_secret_file", s.ClientSecret.File != ""},
		given{"PILLION_SASL_OAUTHBEARER_CLIENT_SECRET", s.ClientSecret.Value != ""}, given{"sasl_oauthbearer_scope", s.Scope != ""})
	return given{name, name != ""}
}

func (s Security) validateSASL() error {
	if !s.UsesSASL() {
		name := firstGiven(given{"sasl_mechanism", s.Mechanism != ""}, given{s.passwordGiven(), s.passwordGiven() != ""}, given{s.tokenGiven(), s.tokenGiven() != ""})
		if name == "" {
			return nil
		}
		return fmt.Errorf("%s is set, but security_protocol is %s: make it SASL_SSL or SASL_PLAINTEXT, or leave %s out", name, s.protocol(), name)
	}
	switch s.Mechanism {
	case MechanismPlain, MechanismScram256, MechanismScram512:
		return s.validatePassword()
	case MechanismOAuthBearer:
		return s.validateToken()
	case "":
		return fmt.Errorf("security_protocol is %s, but sasl_mechanism is missing: say PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER", s.Protocol)
	}
	return fmt.Errorf("sasl_mechanism is %q, must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER", s.Mechanism)
}

func (s Security) validatePassword() error {
	if name := s.tokenGiven(); name != "" {
		return fmt.Errorf("%s is set, but sasl_mechanism is %s: it is for OAUTHBEARER only", name, s.Mechanism)
	}
	if s.Username == "" {
		return fmt.Errorf("sasl_mechanism is %s, but sasl_username is missing", s.Mechanism)
	}
	return s.Password.validate("sasl_password_file", "PILLION_SASL_PASSWORD", "sasl_mechanism "+s.Mechanism)
}

func (s Security) validateToken() error {
	if name := s.passwordGiven(); name != "" {
		return fmt.Errorf("%s is set, but sasl_mechanism is OAUTHBEARER, which takes a token instead", name)
	}
	ways := 0
	for _, way := range []string{s.TokenFile, s.TokenCommand, s.TokenEndpointURL} {
		if way != "" {
			ways++
		}
	}
	const three = "sasl_oauthbearer_token_file, sasl_oauthbearer_token_command or sasl_oauthbearer_token_endpoint_url"
	switch {
	case ways == 0:
		return errors.New("sasl_mechanism is OAUTHBEARER, but there is no token: set " + three)
	case ways > 1:
		return errors.New("tokens come from more than one place: set only one of " + three)
	}
	if s.TokenEndpointURL == "" {
		if client := s.clientGiven(); client.is {
			return fmt.Errorf("%s is set without sasl_oauthbearer_token_endpoint_url: it is for that only", client.name)
		}
		return nil
	}
	if s.ClientID == "" {
		return errors.New("sasl_oauthbearer_token_endpoint_url is set, but sasl_oauthbearer_client_id is missing")
	}
	if err := s.ClientSecret.validate("sasl_oauthbearer_client_secret_file", "PILLION_SASL_OAUTHBEARER_CLIENT_SECRET", "sasl_oauthbearer_token_endpoint_url"); err != nil {
		return err
	}
	return validEndpoint(s.TokenEndpointURL)
}

// validEndpoint never repeats the URL: it may be a secret that was put in the wrong place.
func validEndpoint(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("sasl_oauthbearer_token_endpoint_url is no URL such as https://login.example.com/oauth2/token")
	case u.User != nil:
		return errors.New("sasl_oauthbearer_token_endpoint_url holds a user or password: put them into sasl_oauthbearer_client_id and sasl_oauthbearer_client_secret_file")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return errors.New("sasl_oauthbearer_token_endpoint_url is http, so that the client's secret could be read on its way: make it https")
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Exposed tells what others on the network can read, "" if nothing.
func (s Security) Exposed() string {
	if s.Protocol != SASLPlaintext {
		return ""
	}
	switch s.Mechanism {
	case MechanismPlain:
		return "the password is sent in clear: use SASL_SSL or a SCRAM mechanism"
	case MechanismOAuthBearer:
		return "the token is sent in clear: use SASL_SSL"
	}
	return ""
}

// where names the place of a secret for an error.
func (s Secret) where(file, variable string) string {
	if s.File != "" {
		return file + " (" + s.File + ")"
	}
	return variable
}

// oneLine keeps an error of somebody else in the one sentence it is part of.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
