// Command devkafka is a Kafka for one developer: it runs in this one process,
// starts at once, and forgets everything when it ends (unless --data is given).
// It speaks Kafka's protocol with groups and transactions, has no replicas and
// asks for no password. It is for trying things out and for tests, and not for
// data that anybody wants to keep.
//
//	devkafka --listen 127.0.0.1:9092 --topic clicks:4 --topic counts:4:compact
//
// When clients can connect it prints one line to standard output:
//
//	devkafka listening on 127.0.0.1:9092
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/pillion/pillion/internal/kafkatest/tool"
)

type config struct {
	listen     string
	topics     []tool.Topic
	autoCreate int
	data       string
	parent     bool
}

func main() {
	c, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "devkafka:", err)
		os.Exit(2)
	}
	ctx, stop := tool.Lifetime(c.parent, os.Stdin)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "devkafka:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	var topics []string
	fs := pflag.NewFlagSet("devkafka", pflag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(stderr, `devkafka - a Kafka in one process, for trying things out: it forgets everything when it ends

  devkafka --topic words:4 --topic word-counts:4

%s`, fs.FlagUsages())
	}
	fs.StringVar(&c.listen, "listen", "127.0.0.1:9092", "address to listen on; port 0 takes a free one")
	fs.StringArrayVar(&topics, "topic", nil, "topic to create, name:partitions or name:partitions:compact; may be repeated")
	fs.IntVar(&c.autoCreate, "auto-create", 0, "create topics that clients ask for, with this many partitions; 0: do not")
	fs.StringVar(&c.data, "data", "", "directory to keep everything in, for the next start; empty: in memory")
	fs.BoolVar(&c.parent, "parent", false, "end when standard input is closed, so with the program that started this one")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("%q is not a flag; see --help", fs.Arg(0))
	}
	if c.autoCreate < 0 {
		return c, fmt.Errorf("--auto-create %d: write a number of partitions, or 0", c.autoCreate)
	}
	var err error
	c.topics, err = tool.ParseTopics(topics)
	return c, err
}

// run serves until the context ends.
func run(ctx context.Context, c config, stdout io.Writer) error {
	cluster, err := start(c)
	if err != nil {
		return err
	}
	defer cluster.Close()
	for _, t := range c.topics {
		err := cluster.CreateTopic(t.Name, t.Partitions, t.Configs)
		if kept := c.data != "" && errors.Is(err, kerr.TopicAlreadyExists); err != nil && !kept {
			return fmt.Errorf("create topic %s: %w", t.Name, err)
		}
	}
	fmt.Fprintf(stdout, "devkafka listening on %s\n", cluster.ListenAddrs()[0])
	<-ctx.Done()
	return nil
}

func start(c config) (*kfake.Cluster, error) {
	host, portText, err := net.SplitHostPort(c.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: write it as host:port: %w", c.listen, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %q is not a port", c.listen, portText)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return nil, fmt.Errorf("--listen %s: name one address: it is the one that clients are told to connect to", c.listen)
	}
	opts := []kfake.Opt{
		kfake.Ports(int(port)), // one broker
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return net.Listen(network, c.listen) }),
	}
	if c.autoCreate > 0 {
		opts = append(opts, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(c.autoCreate))
	}
	if c.data != "" {
		opts = append(opts, kfake.DataDir(c.data))
	}
	cluster, err := kfake.NewCluster(opts...)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("something listens on %s already: stop it, or choose another port with --listen", c.listen)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", c.listen, err)
	}
	return cluster, nil
}
