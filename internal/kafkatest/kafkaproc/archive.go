package kafkaproc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// format lays down what Kafka's own format command writes, once per version;
// each node gets a copy, which saves a second of Java per node.
func (l *Libs) format(ctx context.Context) error {
	if _, err := os.Stat(l.template); err == nil {
		return nil
	}
	tmp, err := os.MkdirTemp(l.dir, "format-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	data := filepath.Join(tmp, "data")
	file := filepath.Join(tmp, "server.properties")
	props := properties(nodeConfig{id: 1, brokerPort: 1, voters: "1@127.0.0.1:2", controllerPort: 2, brokers: 1, dir: data}, nil)
	if err := os.WriteFile(file, []byte(props), 0o644); err != nil {
		return err
	}
	args := l.javaArgs([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1"}, "kafka.tools.StorageTool", "format", "-t", randomUUID(), "-c", file)
	if out, err := exec.CommandContext(ctx, l.java, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("kafka.tools.StorageTool format: %w\n%s", err, lastLines(out, 20))
	}
	if err := os.Remove(filepath.Join(data, metaProperties)); err != nil {
		return err
	}
	return os.Rename(data, l.template)
}

const metaProperties = "meta.properties"

// formatted copies the template to a node's data directory, unless there is
// one from an earlier run.
func (l *Libs) formatted(dir string, id int32, cluster string) error {
	if _, err := os.Stat(filepath.Join(dir, metaProperties)); err == nil {
		return nil
	}
	if err := os.CopyFS(dir, os.DirFS(l.template)); err != nil {
		return fmt.Errorf("copy the formatted storage: %w", err)
	}
	text := fmt.Sprintf("version=1\nnode.id=%d\ndirectory.id=%s\ncluster.id=%s\n", id, randomUUID(), cluster)
	return os.WriteFile(filepath.Join(dir, metaProperties), []byte(text), 0o644)
}

// randomUUID is an id in Kafka's writing: 16 bytes, base64 for URLs.
func randomUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[0] &= 0x3f // no id may begin with a dash
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// makeArchive starts a broker once to keep its loaded classes. The archive is
// an improvement only: when it cannot be made, or a later Java does not take
// it, brokers start without (the JVM itself falls back).
func (l *Libs) makeArchive(ctx context.Context, javaText string) {
	key := sha256.Sum256([]byte(javaText + strings.Join(l.jars, ":")))
	file := filepath.Join(l.dir, fmt.Sprintf("classes-%x.jsa", key[:6]))
	none := file + ".none"
	if _, err := os.Stat(file); err == nil {
		l.archive = file
		return
	}
	if _, err := os.Stat(none); err == nil {
		return
	}
	if err := l.train(ctx, file); err != nil {
		if ctx.Err() == nil {
			os.WriteFile(none, []byte(err.Error()+"\n"), 0o644)
		}
		return
	}
	l.archive = file
}

// train runs a broker until it answers, with some of the work that tests ask
// for, and stops it: the JVM then writes the archive.
func (l *Libs) train(ctx context.Context, file string) error {
	tmp, err := os.MkdirTemp(l.dir, "train-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	made := filepath.Join(tmp, "classes.jsa")
	k, err := newKafka(l, Config{Dir: filepath.Join(tmp, "kafka"), JVM: []string{"-XX:ArchiveClassesAtExit=" + made}})
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.Start(ctx); err != nil {
		return err
	}
	if err := k.Nodes[0].Stop(ctx); err != nil {
		return err
	}
	return os.Rename(made, file)
}
