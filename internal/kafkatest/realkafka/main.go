// Command realkafka runs a real Kafka by hand: for benchmarks, for tests that
// are not written in Go, and for looking at things. It needs Java 17 and, the
// first time, Maven.
//
//	go run ./internal/kafkatest/realkafka --version 4.4.0 --topic in:4
//
// When all brokers answer it prints one line to standard output:
//
//	realkafka listening on 127.0.0.1:21217
//
// (addresses joined by commas with --brokers 3). It ends on SIGINT and SIGTERM,
// and when its standard input closes if that is a pipe: whoever starts it from
// a program keeps the pipe open as long as the broker is wanted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
	"github.com/pillion/pillion/internal/kafkatest/tool"
)

const stopTimeout = 15 * time.Second

type config struct {
	kafka  kafkaproc.Config
	topics []tool.Topic
	parent bool
}

func main() {
	c, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "realkafka:", err)
		os.Exit(2)
	}
	ctx, stop := tool.Lifetime(c.parent || tool.IsPipe(os.Stdin), os.Stdin)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "realkafka:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	var topics, properties []string
	fs := pflag.NewFlagSet("realkafka", pflag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(stderr, `realkafka - a real Kafka, run by hand; needs Java 17 or newer and, the first time, Maven

  realkafka --port 9092 --topic words:4 --topic word-counts:4

%s`, fs.FlagUsages())
	}
	fs.StringVar(&c.kafka.Version, "version", kafkaproc.Latest, "version of Kafka")
	fs.IntVar(&c.kafka.Brokers, "brokers", 1, "number of brokers")
	fs.IntVar(&c.kafka.Port, "port", 0, "port of the first broker on 127.0.0.1; 0 takes a free one")
	fs.StringVar(&c.kafka.Dir, "data", "", "directory for data and logs, kept at the end; empty: a temporary one")
	fs.StringVar(&c.kafka.Heap, "heap", "256m", "memory of each broker's JVM")
	fs.BoolVar(&c.kafka.Fast, "fast", false, "let the JVM optimise fully: for benchmarks")
	fs.StringArrayVar(&properties, "property", nil, "key=value for server.properties; may be repeated")
	fs.StringArrayVar(&topics, "topic", nil, "topic to create, name:partitions or name:partitions:compact; may be repeated")
	fs.BoolVar(&c.parent, "parent", false, "end when standard input closes, whatever it is")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("%q is not a flag; see --help", fs.Arg(0))
	}
	c.kafka.Properties = map[string]string{}
	for _, p := range properties {
		key, value, ok := strings.Cut(p, "=")
		if !ok {
			return c, fmt.Errorf("--property %q: write it as key=value", p)
		}
		c.kafka.Properties[key] = value
	}
	var err error
	c.topics, err = tool.ParseTopics(topics)
	return c, err
}

// free refuses a port on which another one listens: its answers would be taken for ours.
func free(port int) error {
	if port == 0 {
		return nil
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("something listens on %s already: stop it, or choose another port with --port", address)
	}
	return l.Close()
}

// run serves until the context ends, or a broker does.
func run(ctx context.Context, c config, stdout io.Writer) error {
	if c.kafka.Dir == "" {
		dir, err := os.MkdirTemp("", "realkafka-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.kafka.Dir = dir
	}
	if err := free(c.kafka.Port); err != nil {
		return err
	}
	k, err := kafkaproc.New(ctx, c.kafka)
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.Start(ctx); err != nil {
		return err
	}
	for _, t := range c.topics {
		if err := kafkatest.TryCreateTopic(ctx, k.Addrs(), t.Name, t.Partitions, t.Configs); err != nil {
			return fmt.Errorf("create topic %s: %w", t.Name, err)
		}
	}
	fmt.Fprintf(stdout, "realkafka listening on %s\n", strings.Join(k.Addrs(), ","))
	if err := k.Wait(ctx); err != nil {
		return err
	}
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return k.Stop(stopping)
}
