package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const devkafka = "devkafka"

// ofDev are the settings that are otherwise in dev. An empty default is no default.
var ofDev = map[string]struct{ deflt, help string }{
	"bootstrap_servers": {"", "Kafka brokers, host:port, separated by commas; without it an in-process Kafka"},
	"group_id":          {"", "consumer group; overrules the worker's hello; dev when neither names one"},
	"max_processing":    {"0", "how long a worker may make no progress while it owes some; 0: no limit, so that it may be stopped in a debugger"},
	"create_topics":     {"4", "partitions of missing sources and outputs, which are created; 0: refuse"},
}

// devCommand is `pillion dev`: a Kafka of its own, missing topics made, no progress limit (debuggers).
func (p *process) devCommand(args []string) error {
	flags := newFlags("dev")
	kafka := &devKafka{stderr: p.stderr}
	defer kafka.stop()
	o, err := p.parse(flags, args, func(o *options) error {
		if len(o.command) == 0 {
			return usagef("dev needs a worker's command behind --")
		}
		o.defaultGroup, o.own["group_id"] = "dev", "what the worker says, or dev"
		for name, other := range ofDev {
			if o.given[name] == "" && other.deflt != "" {
				row := settings[slices.IndexFunc(settings, func(s setting) bool { return s.name == name })]
				if err := row.set(&o.Settings, other.deflt); err != nil {
					return err
				}
				o.given[name] = "default of dev"
			}
		}
		if o.given["bootstrap_servers"] != "" {
			return nil // another Kafka, with dev's other manners
		}
		if err := o.onlyElsewhere(); err != nil {
			return err
		}
		o.own["bootstrap_servers"] = "an in-process Kafka"
		if print, _ := flags.GetBool("print-config"); print {
			return nil
		}
		address, err := kafka.start()
		if err == nil {
			o.BootstrapServers = []string{address}
			newLogger(o.Settings, p, "pillion").Info("in-process Kafka, empty, ends with the worker", "bootstrap_servers", address)
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.run(context.Background(), o)
}

// devKafka is the binary devkafka as a child. It ends when its standard input does.
type devKafka struct {
	stderr io.Writer
	cmd    *exec.Cmd
	stdin  io.Closer
}

func (k *devKafka) start() (address string, err error) {
	path, err := findDevkafka()
	if err != nil {
		return "", err
	}
	k.cmd = exec.Command(path, "--listen", "127.0.0.1:0", "--parent")
	k.cmd.Stderr = k.stderr
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if k.stdin, err = k.cmd.StdinPipe(); err != nil {
		return "", err
	}
	stdout, err := k.cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := k.cmd.Start(); err != nil {
		return "", fmt.Errorf("starting devkafka: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "devkafka listening on ")
	if err != nil || !ok {
		return "", fmt.Errorf("devkafka did not start: it said %q", line)
	}
	return address, nil
}

func (k *devKafka) stop() {
	if k.cmd == nil || k.cmd.Process == nil {
		return
	}
	_ = k.stdin.Close()
	_ = k.cmd.Wait()
}

// findDevkafka looks beside this binary, then in PATH.
func findDevkafka() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), devkafka)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(devkafka)
	if err != nil {
		return "", usagef("pillion dev needs the binary devkafka beside pillion or in PATH: build it with `go build -o bin/ ./cmd/devkafka`, or use `pillion run` with a Kafka of yours")
	}
	return path, nil
}
