package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pillion/pillion/bench/internal/counting"
)

const (
	here = "bench/exactlyonce"
	pom  = here + "/streams/pom.xml"
	jars = here + "/streams/target"
)

// The ways to count.
const (
	pillionOnce    = "pillion/exactly-once"
	pillionAtLeast = "pillion/at-least-once"
	streamsOnce    = "kafka-streams/exactly-once"
	streamsTwo     = "kafka-streams/exactly-once/2-threads"
	streamsAtLeast = "kafka-streams/at-least-once"
)

var allWays = []counting.Way{
	{Name: pillionAtLeast, Command: sidecarWith("at_least_once")},
	{Name: pillionOnce, Once: true, Command: sidecarWith("exactly_once")},
	{Name: streamsAtLeast, Command: streamsWith("at_least_once", 1)},
	{Name: streamsOnce, Once: true, Command: streamsWith("exactly_once_v2", 1)},
	{Name: streamsTwo, Once: true, Command: streamsWith("exactly_once_v2", 2)},
}

func sidecarWith(guarantee string) func(j counting.Job, group, dir string) []string {
	return func(j counting.Job, group, _ string) []string {
		return []string{options.Sidecar, "run", "--bootstrap-servers", options.Brokers, "--group-id", group, "--log-level", "warn",
			"--processing-guarantee", guarantee, "--", *python, here + "/worker.py", j.Topic()}
	}
}

func streamsWith(guarantee string, threads int) func(j counting.Job, group, dir string) []string {
	return func(j counting.Job, group, dir string) []string {
		args := []string{java(), "-cp", jars + "/count.jar:" + jars + "/lib/*", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"pillion.bench.Count", j.Topic(), counting.Table, "bootstrap.servers=" + options.Brokers, "application.id=" + group, "state.dir=" + dir,
			"processing.guarantee=" + guarantee, fmt.Sprintf("num.stream.threads=%d", threads),
			"commit.interval.ms=100", "producer.compression.type=lz4"}
		return append(args, *settings...)
	}
}

func java() string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin/java")
	}
	return "java"
}

// build makes what Kafka Streams runs.
func build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom, "package")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s with Maven: %w\n%s", pom, err, out)
	}
	return nil
}
