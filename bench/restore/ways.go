package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pillion/pillion/bench/internal/machine"
)

const (
	here     = "bench/restore"
	npm      = "bench/node"
	pom      = here + "/streams/pom.xml"
	jars     = here + "/streams/target"
	runLimit = 10 * time.Minute
)

// way is one way to restore. Its command writes figures as JSON into the file that it is given last.
type way struct {
	name    string
	command func(l *changelog, dir string) []string
}

// figures are what one run measured. CPU seconds are those of the window, of the process with the
// table and of the sidecar beside it; memory is the peak of the process in MB.
type figures struct {
	Seconds    float64 `json:"seconds"`
	Records    int64   `json:"records"`
	Keys       int     `json:"keys"`
	Digest     string  `json:"digest"`
	CPU        float64 `json:"cpu"`
	RSS        float64 `json:"rss"`
	SidecarCPU float64 `json:"sidecar_cpu"`
	SidecarRSS float64 `json:"sidecar_rss"`
	elsewhere  float64 // share of the machine that others had
}

func (f figures) speed() float64    { return float64(f.Records) / f.Seconds }
func (f figures) millions() float64 { return float64(f.Records) / 1e6 }
func (f figures) String() string {
	return fmt.Sprintf("%6.3f M records/s  %.3f s  CPU %.2f + %.2f s  elsewhere %2.0f %%", f.speed()/1e6, f.Seconds, f.CPU, f.SidecarCPU, 100*f.elsewhere)
}

var allWays = []way{
	{pillion, beside(func() []string { return []string{*python, here + "/worker.py"} })},
	{confluent, func(l *changelog, dir string) []string {
		return []string{*python, here + "/confluent.py", *brokers, l.topic(), strconv.Itoa(l.partitions), dir + "/figures"}
	}},
	{streams, func(l *changelog, dir string) []string {
		return []string{java(), "-cp", jars + "/restore.jar:" + jars + "/lib/*", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"pillion.bench.Restore", *brokers, l.app(), l.source(), table, strconv.Itoa(l.partitions), dir + "/state", dir + "/figures"}
	}},
	{pillionNode, beside(func() []string { return []string{"node", npm + "/restore/client.js"} })},
	{kafkajs, func(l *changelog, dir string) []string {
		return []string{"node", npm + "/restore/kafkajs.js", *brokers, l.topic(), dir + "/figures"}
	}},
}

// beside is a worker as the child of the sidecar. Its group is its own, for which nothing is committed: hence on-lost-position.
func beside(worker func() []string) func(l *changelog, dir string) []string {
	return func(l *changelog, dir string) []string {
		args := []string{*sidecar, "run", "--bootstrap-servers", *brokers, "--group-id", "pillion-" + filepath.Base(dir), "--on-lost-position", "earliest", "--"}
		return append(append(args, worker()...), l.source(), l.topic(), strconv.Itoa(l.partitions), dir+"/figures")
	}
}

// prepare builds what the ways need and returns those that are wanted.
func prepare(ctx context.Context, names []string) ([]way, error) {
	var ways []way
	for _, name := range names {
		n := len(ways)
		for _, w := range allWays {
			if w.name == name {
				ways = append(ways, w)
			}
		}
		if len(ways) == n {
			return nil, fmt.Errorf("there is no way %q", name)
		}
		if name != streams {
			continue
		}
		cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom, "package")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s with Maven: %w\n%s", pom, err, out)
		}
	}
	return ways, nil
}

func java() string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin/java")
	}
	return "java"
}

// measure restores the table once in a fresh process and checks it.
func (w way) measure(ctx context.Context, l *changelog) (f figures, err error) {
	dir, err := os.MkdirTemp("", "bench-restore-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	args := w.command(l, dir)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if *verbose {
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	}
	before, err := machine.Look()
	if err != nil {
		return f, err
	}
	if err := cmd.Run(); err != nil {
		return f, fmt.Errorf("%s: %w\n%s", args[0], err, said.Bytes())
	}
	after, err := machine.Look()
	if err != nil {
		return f, err
	}
	b, err := os.ReadFile(dir + "/figures")
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("figures %q: %w", b, err)
	}
	own := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // with its children
	f.elsewhere = after.Elsewhere(before, own.Seconds())
	return f, f.check(l)
}

// check refuses a run that did not make the table that was written, from every record of the log.
func (f figures) check(l *changelog) error {
	switch {
	case f.Records != int64(len(l.order)):
		return fmt.Errorf("it restored %d records, not %d", f.Records, len(l.order))
	case f.Keys != *keys:
		return fmt.Errorf("its table has %d keys, not %d", f.Keys, *keys)
	case f.Digest != l.digest:
		return fmt.Errorf("its table is not what was written: digest %s, want %s", f.Digest, l.digest)
	case f.Seconds <= 0:
		return fmt.Errorf("it took %g seconds", f.Seconds)
	}
	return nil
}
