package drill

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pillion/pillion/internal/kafkatest/faultproxy"
	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// cluster is a Kafka of three brokers, each behind a proxy. Sidecars come through the proxies, over TLS and
// with SCRAM; the drill itself, who only looks and disturbs, comes by the plain listener.
//
// The proxies end the TLS of the sidecars with the brokers' own certificate and begin another to the brokers:
// so they see which request passes and can cut it by its kind, also while SCRAM is spoken.
type cluster struct {
	kafka   *kafkaproc.Kafka
	proxies []*faultproxy.Proxy
	admin   *kgo.Client

	broken sync.Mutex // held by who has taken a broker away: of three, one may be
}

// user is what the sidecars are at the brokers.
const user, password = "pillion", "the drill's password"

func startCluster(ctx context.Context, dir string, who func(net.Addr) string) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	addrs := map[int32]string{}
	var configs []*faultproxy.Config
	for id := int32(1); id <= Brokers; id++ {
		// TLS is filled in when the certificates are there: nobody connects before.
		cfg := &faultproxy.Config{Node: id, Who: who}
		p, err := faultproxy.New(cfg)
		if err != nil {
			return nil, err
		}
		configs, c.proxies = append(configs, cfg), append(c.proxies, p)
		addrs[id] = p.Addr()
	}
	c.kafka, err = kafkaproc.New(ctx, kafkaproc.Config{
		Brokers: Brokers, Dir: dir, Heap: "256m",
		Secure: &kafkaproc.Secure{
			Scram: map[string]string{user: password}, ACLs: rights(),
			Advertise: func(id int32, _ string) string { return addrs[id] },
		},
		Properties: map[string]string{
			"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
			"replica.lag.time.max.ms":                                     "3000",
			"auto.leader.rebalance.enable":                                "false",
		},
	})
	if err != nil {
		return nil, err
	}
	server, client, err := certificates(dir, c.kafka.Files.CA)
	if err != nil {
		return nil, err
	}
	for i, node := range c.kafka.Nodes {
		configs[i].Server, configs[i].Client = server, client
		c.proxies[i].Serve(node.SecureAddr)
	}
	if err := c.kafka.Start(ctx); err != nil {
		return nil, err
	}
	c.admin, err = kgo.NewClient(kgo.SeedBrokers(c.kafka.Addrs()...), kgo.ClientID("drill"),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(2*time.Second), kgo.RecordRetries(1<<30), kgo.DialTimeout(3*time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.UnknownTopicRetries(-1))
	return c, err
}

// rights are all that the sidecars may do; that these are the least is docs/security.md's to show.
func rights() (list []kafkaproc.ACL) {
	for _, resource := range []string{"topic", "group", "transactional id", "cluster"} {
		list = append(list, kafkaproc.ACL{Principal: "User:" + user, Resource: resource, Name: "*", Operation: "All"})
	}
	return list
}

func certificates(dir, ca string) (server, client *tls.Config, err error) {
	both, err := os.ReadFile(filepath.Join(dir, "tls", "broker.pem"))
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(both, both)
	if err != nil {
		return nil, nil, fmt.Errorf("the brokers' certificate: %w", err)
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, nil, errors.New("the brokers' CA holds no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}, nil
}

// bootstrap is what the sidecars are given.
func (c *cluster) bootstrap() string {
	var addrs []string
	for _, p := range c.proxies {
		addrs = append(addrs, p.Addr())
	}
	return strings.Join(addrs, ",")
}

func (c *cluster) inFlight() (list []faultproxy.Request) {
	for _, p := range c.proxies {
		list = append(list, p.InFlight()...)
	}
	return list
}

func (c *cluster) close() {
	if c.admin != nil {
		c.admin.Close()
	}
	for _, p := range c.proxies {
		p.Close()
	}
	if c.kafka != nil {
		c.kafka.Close()
	}
}
