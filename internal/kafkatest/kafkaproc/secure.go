package kafkaproc

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Secure asks for listeners that are secured, beside the plain one, which stays the admin's door: on
// it everybody is User:ANONYMOUS, the super user. An ACL lets others do something: without any they
// may do nothing.
type Secure struct {
	Scram map[string]string // users and passwords of SCRAM-SHA-256 and SCRAM-SHA-512
	Plain map[string]string // of PLAIN
	ACLs  []ACL

	// Reauth is how long an authentication is good for (connections.max.reauth.ms); 0: for ever.
	Reauth time.Duration
	// Advertise changes the address of a node's SASL_SSL listener that clients are told, for a proxy.
	Advertise func(id int32, address string) string
}

// ACL allows one operation. OAUTHBEARER takes unsecured JWS tokens; their sub is the principal.
type ACL struct {
	Principal string // "User:alice", "User:CN=alice" of a client certificate
	Resource  string // "topic", "group", "transactional id" or "cluster"
	Name      string // ignored of the cluster; "*" are all
	Prefixed  bool
	Operation string // "Read", "Write", "Describe", "All", ...
}

// Files of a secured Kafka, in its Dir.
type Files struct {
	CA         string // the authority of brokers and clients
	ClientCert string // principal User:CN=client
	ClientKey  string
}

// secured is what all nodes share.
type secured struct {
	Secure
	authority *CA
	files     Files
	keystore  string
}

// secureNode are the ports of a node's secured listeners.
type secureNode struct {
	saslSSL, ssl, saslPlain int
}

// newSecured makes the certificates in dir/tls.
func newSecured(c Config) (*secured, error) {
	dir := filepath.Join(c.Dir, "tls")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	authority, err := NewCA("pillion test")
	if err != nil {
		return nil, err
	}
	s := &secured{Secure: *c.Secure, authority: authority, keystore: filepath.Join(dir, "broker.pem"), files: Files{
		CA: filepath.Join(dir, "ca.pem"), ClientCert: filepath.Join(dir, "client.pem"), ClientKey: filepath.Join(dir, "client-key.pem"),
	}}
	if err := os.WriteFile(s.files.CA, authority.PEM, 0o644); err != nil {
		return nil, err
	}
	cert, key, err := authority.Issue(Leaf{Name: "broker", Hosts: []string{"127.0.0.1", "::1", "localhost"}})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.keystore, slices.Concat(key, cert), 0o600); err != nil {
		return nil, err
	}
	return s, authority.IssueTo(Leaf{Name: "client"}, s.files.ClientCert, s.files.ClientKey)
}

// properties are the lines of a node that has secured listeners.
func (s *secured) properties(n nodeConfig) map[string]string {
	at := func(port int) string { return address(port) }
	advertised := at(n.secure.saslSSL)
	if s.Advertise != nil {
		advertised = s.Advertise(n.id, advertised)
	}
	const listeners = "PLAINTEXT://%s,SASL_SSL://%s,SSL://%s,SASL_PLAINTEXT://%s"
	p := map[string]string{
		"listeners": fmt.Sprintf(listeners+",CONTROLLER://%s",
			at(n.brokerPort), at(n.secure.saslSSL), at(n.secure.ssl), at(n.secure.saslPlain), at(n.controllerPort)),
		"advertised.listeners": fmt.Sprintf(listeners, at(n.brokerPort), advertised, at(n.secure.ssl), at(n.secure.saslPlain)),

		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
		"inter.broker.listener.name":     "PLAINTEXT",
		"ssl.keystore.type":              "PEM",
		"ssl.keystore.location":          s.keystore,
		"ssl.truststore.type":            "PEM",
		"ssl.truststore.location":        s.files.CA,
		"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                    "User:ANONYMOUS",

		"listener.name.ssl.ssl.client.auth": "required",
		"sasl.enabled.mechanisms":           "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
	}
	if s.Reauth > 0 {
		p["connections.max.reauth.ms"] = fmt.Sprint(s.Reauth.Milliseconds())
	}
	const security = "org.apache.kafka.common.security."
	var users strings.Builder
	for _, user := range slices.Sorted(maps.Keys(s.Plain)) {
		fmt.Fprintf(&users, ` user_%s="%s"`, user, s.Plain[user])
	}
	for _, listener := range []string{"sasl_ssl", "sasl_plaintext"} {
		jaas := func(mechanism, line string) {
			p["listener.name."+listener+"."+mechanism+".sasl.jaas.config"] = security + line + ";"
		}
		jaas("plain", "plain.PlainLoginModule required"+users.String())
		jaas("scram-sha-256", "scram.ScramLoginModule required")
		jaas("scram-sha-512", "scram.ScramLoginModule required")
		jaas("oauthbearer", `oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"`)
	}
	return p
}

// apply makes users and ACLs, over the plain listener.
func (s *secured) apply(ctx context.Context, addrs []string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ClientID("kafkaproc"))
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, user := range slices.Sorted(maps.Keys(s.Scram)) {
		if err := setPassword(ctx, cl, user, s.Scram[user]); err != nil {
			return err
		}
	}
	return allow(ctx, cl, s.ACLs)
}

// SetPassword gives a SCRAM user a password, over the plain listener. Brokers hear of it within moments.
func (k *Kafka) SetPassword(ctx context.Context, user, password string) error {
	return k.admin(func(cl *kgo.Client) error { return setPassword(ctx, cl, user, password) })
}

// Allow adds ACLs, over the plain listener. Brokers hear of them within moments.
func (k *Kafka) Allow(ctx context.Context, acls ...ACL) error {
	return k.admin(func(cl *kgo.Client) error { return allow(ctx, cl, acls) })
}

// Disallow removes ACLs, over the plain listener. Brokers hear of it within moments.
func (k *Kafka) Disallow(ctx context.Context, acls ...ACL) error {
	return k.admin(func(cl *kgo.Client) error { return disallow(ctx, cl, acls) })
}

func (k *Kafka) admin(do func(*kgo.Client) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Addrs()...), kgo.ClientID("kafkaproc"))
	if err != nil {
		return err
	}
	defer cl.Close()
	return do(cl)
}

func setPassword(ctx context.Context, cl *kgo.Client, user, password string) error {
	for mechanism, hashed := range map[int8]func() hash.Hash{1: sha256.New, 2: sha512.New} {
		// One request each: a controller refuses to alter a user twice in one.
		if err := setScram(ctx, cl, user, password, mechanism, hashed); err != nil {
			return fmt.Errorf("set the password of %s: %w", user, err)
		}
	}
	return nil
}

func setScram(ctx context.Context, cl *kgo.Client, user, password string, mechanism int8, hashed func() hash.Hash) error {
	const iterations = 4096
	salt := make([]byte, 16)
	rand.Read(salt)
	salted, err := pbkdf2.Key(hashed, password, salt, iterations, hashed().Size())
	if err != nil {
		return err
	}
	up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	up.Name, up.Mechanism, up.Iterations, up.Salt, up.SaltedPassword = user, mechanism, iterations, salt, salted
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	req.Upsertions = append(req.Upsertions, up)
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, r := range res.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

// parsed is an ACL in the protocol's numbers.
func (a ACL) parsed() (resource kmsg.ACLResourceType, name string, pattern kmsg.ACLResourcePatternType, op kmsg.ACLOperation, err error) {
	if resource, err = kmsg.ParseACLResourceType(strings.ReplaceAll(a.Resource, " ", "_")); err != nil {
		return
	}
	if op, err = kmsg.ParseACLOperation(a.Operation); err != nil {
		return
	}
	name, pattern = a.Name, kmsg.ACLResourcePatternTypeLiteral
	if a.Prefixed {
		pattern = kmsg.ACLResourcePatternTypePrefixed
	}
	if resource == kmsg.ACLResourceTypeCluster {
		name = "kafka-cluster"
	}
	return
}

func allow(ctx context.Context, cl *kgo.Client, acls []ACL) error {
	if len(acls) == 0 {
		return nil
	}
	req := kmsg.NewPtrCreateACLsRequest()
	for _, a := range acls {
		c := kmsg.NewCreateACLsRequestCreation()
		var err error
		if c.ResourceType, c.ResourceName, c.ResourcePatternType, c.Operation, err = a.parsed(); err != nil {
			return fmt.Errorf("%+v: %w", a, err)
		}
		c.Principal, c.Host, c.PermissionType = a.Principal, "*", kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, c)
	}
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("create ACLs: %w", err)
	}
	for i, r := range res.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("create ACL %+v: %w", acls[i], err)
		}
	}
	return nil
}

func disallow(ctx context.Context, cl *kgo.Client, acls []ACL) error {
	req := kmsg.NewPtrDeleteACLsRequest()
	for _, a := range acls {
		f := kmsg.NewDeleteACLsRequestFilter()
		resource, name, pattern, op, err := a.parsed()
		if err != nil {
			return fmt.Errorf("%+v: %w", a, err)
		}
		f.ResourceType, f.ResourceName, f.ResourcePatternType, f.Operation = resource, &name, pattern, op
		f.Principal, f.PermissionType = &a.Principal, kmsg.ACLPermissionTypeAllow
		req.Filters = append(req.Filters, f)
	}
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("delete ACLs: %w", err)
	}
	for i, r := range res.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("delete ACL %+v: %w", acls[i], err)
		}
		if len(r.MatchingACLs) == 0 {
			return fmt.Errorf("delete ACL %+v: there is none", acls[i])
		}
	}
	return nil
}
