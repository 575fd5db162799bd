package kafkaproc

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Versions that the project is tested with.
const (
	Latest   = "4.4.0"
	Previous = "3.9.1" // the last one of the 3.x line
)

//go:embed maven/pom.xml
var pom []byte

// Libs is a broker's program on disk.
type Libs struct {
	version  string
	dir      string // .cache/kafka/<version>
	java     string
	jars     []string
	template string // a formatted log directory, without its meta.properties
	archive  string // "" when this Java makes none
}

// Prepare finds or makes the libraries of a version. The first call for a
// version downloads about 40 MB through Maven.
func Prepare(ctx context.Context, version string) (*Libs, error) {
	java, javaText, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	root, err := cacheRoot()
	if err != nil {
		return nil, err
	}
	l := &Libs{version: version, dir: filepath.Join(root, version), java: java}
	l.template = filepath.Join(l.dir, "template")
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the kafka cache: %w", err)
	}
	unlock, err := lockFile(filepath.Join(l.dir, "lock"), true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := l.resolve(ctx); err != nil {
		return nil, fmt.Errorf("get kafka %s with maven: %w", version, err)
	}
	if err := l.format(ctx); err != nil {
		return nil, fmt.Errorf("format a kafka %s storage directory: %w", version, err)
	}
	l.makeArchive(ctx, javaText)
	return l, nil
}

// resolve copies the jars into lib, once per pom.
func (l *Libs) resolve(ctx context.Context) error {
	lib, ready := filepath.Join(l.dir, "lib"), filepath.Join(l.dir, "ready")
	key := fmt.Sprintf("%x\n", sha256.Sum256(pom))
	if have, err := os.ReadFile(ready); err != nil || string(have) != key {
		if err := l.runMaven(ctx, lib); err != nil {
			return err
		}
		if err := os.WriteFile(ready, []byte(key), 0o644); err != nil {
			return err
		}
	}
	jars, err := filepath.Glob(filepath.Join(lib, "*.jar"))
	if err != nil {
		return err
	}
	if len(jars) == 0 {
		return fmt.Errorf("%s holds no jar: remove %s and try again", lib, l.dir)
	}
	slices.Sort(jars) // the archive is tied to the order of the class path
	l.jars = jars
	return nil
}

func (l *Libs) runMaven(ctx context.Context, lib string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return errors.New("there is no mvn: install Maven 3.8 or newer (a real Kafka is resolved with it)")
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range entries { // of an older pom, or half-done
		if e.Name() != "lock" {
			if err := os.RemoveAll(filepath.Join(l.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	pomFile := filepath.Join(l.dir, "pom.xml")
	if err := os.WriteFile(pomFile, pom, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pomFile, "-Dkafka.version="+l.version,
		"dependency:copy-dependencies", "-DoutputDirectory="+lib, "-DincludeScope=runtime")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("mvn dependency:copy-dependencies: %w\n%s", err, lastLines(out, 20))
	}
	return nil
}

// javaCommand is a Java call with the broker's class path.
func (l *Libs) javaArgs(jvm []string, main string, args ...string) []string {
	out := slices.Clone(jvm)
	out = append(out, "-cp", strings.Join(l.jars, string(os.PathListSeparator)), main)
	return append(out, args...)
}

var javaMajor = regexp.MustCompile(`version "(\d+)`)

// findJava takes JAVA_HOME's java, or the one of PATH, and refuses an old one.
func findJava(ctx context.Context) (path, text string, err error) {
	path = "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		path = filepath.Join(home, "bin", "java")
	}
	path, err = exec.LookPath(path)
	if err != nil {
		return "", "", errors.New("there is no java: install Java 17 or newer (a real Kafka runs on it)")
	}
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("%s -version: %w: %s", path, err, out)
	}
	m := javaMajor.FindSubmatch(out)
	if m == nil {
		return "", "", fmt.Errorf("%s -version says no version: %s", path, out)
	}
	if major, err := strconv.Atoi(string(m[1])); err != nil || major < 17 {
		return "", "", fmt.Errorf("%s is Java %s: install Java 17 or newer (a real Kafka needs it)", path, m[1])
	}
	return path, string(out), nil
}

// cacheRoot is .cache/kafka of the checkout: the nearest directory upwards
// that has a go.mod. Outside of one it is in the user's cache.
func cacheRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return filepath.Join(d, ".cache", "kafka"), nil
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for kafka's libraries: %w", err)
	}
	return filepath.Join(user, "pillion", "kafka"), nil
}

// errLocked says that somebody else holds a lock.
var errLocked = errors.New("locked by another process")

// lockFile takes a lock that ends with the process at the latest.
func lockFile(path string, wait bool) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
