package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const devkafka = "devkafka"

// devCommand is `pillion dev`: a Kafka of its own, missing topics made, no progress limit (debuggers).
func (p *process) devCommand(args []string) error {
	flags := newFlags("dev")
	kafka := &devKafka{stderr: p.stderr}
	defer kafka.stop()
	o, err := p.parse(flags, args, func(o *options) error {
		if len(o.command) == 0 {
			return usagef("dev needs a worker's command behind --")
		}
		o.defaultGroup = "dev"
		if o.given["create_topics"] == "" {
			o.CreateTopics = 4
		}
		if o.given["max_processing"] == "" {
			o.MaxProcessing = 0
		}
		if o.given["bootstrap_servers"] != "" {
			return nil // another Kafka, with dev's other manners
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
