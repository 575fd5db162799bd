package kafkaproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Tool is a call of one of Kafka's own command line tools, by its main class, such as
// org.apache.kafka.tools.consumer.group.ConsumerGroupCommand. The first one of a version fetches the
// jar of the tools (under 1 MB); the broker's libraries are all else that it needs.
func Tool(ctx context.Context, version, main string, args ...string) (*exec.Cmd, error) {
	libs, err := Prepare(ctx, version)
	if err != nil {
		return nil, err
	}
	jar, err := libs.tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("get the tools of kafka %s with maven: %w", version, err)
	}
	libs.jars = append(slices.Clone(libs.jars), jar)
	jvm := []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"}
	return exec.CommandContext(ctx, libs.java, libs.javaArgs(jvm, main, args...)...), nil
}

func (l *Libs) tools(ctx context.Context) (jar string, err error) {
	unlock, err := lockFile(filepath.Join(l.dir, "lock"), true)
	if err != nil {
		return "", err
	}
	defer unlock()
	dir := filepath.Join(l.dir, "tools")
	jar = filepath.Join(dir, "kafka-tools-"+l.version+".jar")
	if _, err := os.Stat(jar); err == nil {
		return jar, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", errors.New("there is no mvn: install Maven 3.8 or newer (Kafka's tools are fetched with it)")
	}
	tmp, err := os.MkdirTemp(l.dir, "tools-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
		"-Dartifact=org.apache.kafka:kafka-tools:"+l.version, "-DoutputDirectory="+tmp)
	cmd.Dir = tmp // no pom of somebody else
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn dependency:copy: %w\n%s", err, lastLines(out, 20))
	}
	return jar, os.Rename(tmp, dir)
}
