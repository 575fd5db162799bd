package kafkaproc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// StartTimeout is how long a start may take. A loaded machine is slow.
const StartTimeout = 90 * time.Second

// Config of a Kafka.
type Config struct {
	Version    string            // default: Latest
	Brokers    int               // default: 1
	Dir        string            // where its data and logs are; must be given
	Port       int               // of the first broker; 0: a free one. The others always get free ones
	Properties map[string]string // over the ones of this package
	Heap       string            // of each JVM; default 256m
	Fast       bool              // let the JVM optimise: slower to start, for benchmarks
	JVM        []string          // further flags
	Secure     *Secure           // listeners with TLS and SASL, and ACLs; nil: only the plain listener
}

// Kafka is a cluster of one or more nodes, all of them controllers too.
type Kafka struct {
	Nodes []*Node
	Files Files // of a secured one

	secured *secured // nil: plain
	release []func()
}

// New lays out a Kafka and starts nothing.
func New(ctx context.Context, c Config) (*Kafka, error) {
	if c.Version == "" {
		c.Version = Latest
	}
	libs, err := Prepare(ctx, c.Version)
	if err != nil {
		return nil, err
	}
	return newKafka(libs, c)
}

func newKafka(libs *Libs, c Config) (_ *Kafka, err error) {
	if c.Dir == "" {
		return nil, errors.New("kafkaproc: Config.Dir is empty")
	}
	c.Brokers = max(c.Brokers, 1)
	if c.Heap == "" {
		c.Heap = "256m"
	}
	k := &Kafka{}
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	if c.Secure != nil {
		if k.secured, err = newSecured(c); err != nil {
			return nil, fmt.Errorf("make certificates: %w", err)
		}
		k.Files = k.secured.files
	}
	nodes := make([]nodeConfig, c.Brokers)
	var voters []string
	for i := range nodes {
		n := &nodes[i]
		n.id, n.brokers = int32(i+1), c.Brokers
		n.brokerPort = c.Port
		if i > 0 || c.Port == 0 {
			if n.brokerPort, err = k.port(); err != nil {
				return nil, err
			}
		}
		if n.controllerPort, err = k.port(); err != nil {
			return nil, err
		}
		if k.secured != nil {
			for _, port := range []*int{&n.secure.saslSSL, &n.secure.ssl, &n.secure.saslPlain} {
				if *port, err = k.port(); err != nil {
					return nil, err
				}
			}
		}
		voters = append(voters, fmt.Sprintf("%d@%s", n.id, address(n.controllerPort)))
	}
	cluster := randomUUID()
	for _, n := range nodes {
		n.voters = strings.Join(voters, ",")
		node, err := layOut(libs, c, n, cluster, k.secured)
		if err != nil {
			return nil, fmt.Errorf("lay out node %d: %w", n.id, err)
		}
		k.Nodes = append(k.Nodes, node)
	}
	return k, nil
}

func (k *Kafka) port() (int, error) {
	port, release, err := freePort()
	if err == nil {
		k.release = append(k.release, release)
	}
	return port, err
}

// layOut writes a node's directory: data, server.properties, broker.log.
func layOut(libs *Libs, c Config, n nodeConfig, cluster string, secured *secured) (*Node, error) {
	dir := filepath.Join(c.Dir, fmt.Sprintf("node-%d", n.id))
	n.dir = filepath.Join(dir, "data")
	if err := libs.formatted(n.dir, n.id, cluster); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "server.properties")
	more := map[string]string{}
	if secured != nil {
		more = secured.properties(n)
	}
	maps.Copy(more, c.Properties)
	if err := os.WriteFile(config, []byte(properties(n, more)), 0o644); err != nil {
		return nil, err
	}
	jvm := []string{
		"-Xmx" + c.Heap, "-Xms64m", "-XX:+UseSerialGC", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}
	if !c.Fast {
		jvm = append(jvm, "-XX:TieredStopAtLevel=1")
	}
	if libs.archive != "" {
		jvm = append(jvm, "-XX:SharedArchiveFile="+libs.archive, "-Xshare:auto")
	}
	node := &Node{
		ID: n.id, Addr: address(n.brokerPort), libs: libs, jvm: append(jvm, c.JVM...),
		config: config, logFile: filepath.Join(dir, "broker.log"), brokers: n.brokers,
	}
	if secured != nil {
		node.SecureAddr, node.CertAddr, node.SaslAddr = address(n.secure.saslSSL), address(n.secure.ssl), address(n.secure.saslPlain)
	}
	return node, nil
}

// Addrs are the addresses of all nodes, running or not.
func (k *Kafka) Addrs() []string {
	var out []string
	for _, n := range k.Nodes {
		out = append(out, n.Addr)
	}
	return out
}

// SecureAddrs are the SASL_SSL addresses of all nodes, running or not.
func (k *Kafka) SecureAddrs() []string {
	var out []string
	for _, n := range k.Nodes {
		out = append(out, n.SecureAddr)
	}
	return out
}

// Start starts all nodes and waits until each of them lists all; then it makes users and ACLs.
func (k *Kafka) Start(ctx context.Context) error {
	for _, n := range k.Nodes {
		if err := n.launch(); err != nil {
			return err
		}
	}
	for _, n := range k.Nodes {
		if err := n.ready(ctx, len(k.Nodes)); err != nil {
			return err
		}
	}
	if k.secured != nil {
		return k.secured.apply(ctx, k.Addrs())
	}
	return nil
}

// Stop ends all nodes together with SIGTERM, and waits for them.
func (k *Kafka) Stop(ctx context.Context) error {
	var errs []error
	for _, n := range k.Nodes {
		if n.Running() {
			errs = append(errs, n.signal(syscall.SIGTERM))
		}
	}
	for _, n := range k.Nodes {
		if n.Running() {
			errs = append(errs, n.ended(ctx))
		}
	}
	return errors.Join(errs...)
}

// Wait waits until the context ends; a node that ends before is an error.
func (k *Kafka) Wait(ctx context.Context) error {
	ended := make(chan *Node, len(k.Nodes))
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for _, n := range k.Nodes {
		all.Go(func() {
			select {
			case <-n.Done():
				ended <- n
			case <-ctx.Done():
			}
		})
	}
	select {
	case n := <-ended:
		return fmt.Errorf("node %d ended by itself\n%s", n.ID, n.Log(20))
	case <-ctx.Done():
		return nil
	}
}

// Close kills what is running, and gives the ports back. The data stays.
func (k *Kafka) Close() {
	for _, n := range k.Nodes {
		if n.Running() {
			_ = n.Kill() // it has ended by itself
		}
	}
	for _, release := range k.release {
		release()
	}
	k.release = nil
}

// brokerIDs asks one address for the cluster's brokers.
func brokerIDs(ctx context.Context, addr string) (map[int32]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ClientID("kafkaproc"), kgo.RequestRetries(0), kgo.DialTimeout(time.Second))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	res, err := req.RequestWith(ctx, cl.SeedBrokers()[0])
	if err != nil {
		return nil, err
	}
	ids := map[int32]bool{}
	for _, b := range res.Brokers {
		ids[b.NodeID] = true
	}
	return ids, nil
}
