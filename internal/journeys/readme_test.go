//go:build kafka

package journeys

import (
	"debug/elf"
	longs "encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// commands are the commands of the README, and how each is run here.
var commands = map[string]func(r *reader, command string){
	"make setup":                             (*reader).dryRun,
	"make test":                              (*reader).dryRun,
	"make test-fast":                         (*reader).dryRun,
	"make demo BOOTSTRAP_SERVERS=host:port":  (*reader).dryRun,
	"make demo":                              (*reader).dryRun, // TestTheDemo runs it
	"pip install ./clients/python":           (*reader).install,
	"docker build .":                         (*reader).image,
	"pillion run":                            (*reader).alone,
	"pillion run --print-config":             (*reader).printConfig,
	"pillion run -- COMMAND":                 (*reader).pair,
	"bin/pillion plan":                       (*reader).plan,
	"pillion plan":                           func(*reader, string) {}, // the same, in prose
	"rm -rf state":                           func(*reader, string) {}, // each of the others does it at its end
	"pillion drain":                          (*reader).drain,
	"bin/pillion group " + ofWords:           (*reader).group,
	"bin/pillion " + conformance:             (*reader).conformance,
	"bin/pillion dev -- " + wordcount:        (*reader).dev,
	"bin/pillion dev -- " + inNode:           (*reader).dev,
	"scripts/setup-node examples":            func(r *reader, _ string) { nodeExample(r.t, "wordcount/worker.js") },
	"npm pack ./clients/node":                func(*reader, string) {}, // TestNodePage does it
	"bin/pillion run " + onKafka + wordcount: (*reader).onKafka,
	"bin/pillion run --workers 3 --num-standby-replicas 1 " + onKafka + wordcount: (*reader).three,
}

const (
	wordcount   = ".venv/bin/python examples/wordcount/worker.py"
	inNode      = "node examples/build/wordcount/worker.js"
	conformance = "conformance --level standby -- .venv/bin/python clients/python/conformance/worker.py"
	ofWords     = "--bootstrap-servers localhost:9092 --group-id words"
	onKafka     = "--bootstrap-servers localhost:9092 --group-id words -- "
)

func TestReadme(t *testing.T) {
	t.Parallel()
	r := newReader(t, "README.md")
	for language, name := range map[string]string{"python": "examples/wordcount/worker.py", "ts": "examples/wordcount/worker.ts"} {
		if !slices.Equal(r.blocks(language), []string{r.read(name)}) {
			t.Errorf("the worker in README.md is not %s: copy it", name)
		}
	}
	seen := map[string]bool{}
	for _, command := range r.commands() {
		run := commands[command]
		if run == nil {
			t.Errorf("README.md has a command that no test runs: %s", command)
			continue
		}
		if !seen[command] {
			seen[command] = true
			t.Run(command, func(t *testing.T) { run(&reader{t: t, readme: r.readme, dir: r.dir}, command) })
		}
	}
	for command := range commands {
		if !seen[command] {
			t.Errorf("a command is tested that is not in README.md: %s", command)
		}
	}
}

// reader follows the README or another page, in a directory that looks like the checkout after `make setup`.
type reader struct {
	t      *testing.T
	readme string
	dir    string
}

func newReader(t *testing.T, page string) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir()}
	r.readme = r.read(page)
	venv := filepath.Dir(filepath.Dir(python(t)))
	for name, target := range map[string]string{".venv": venv, "examples": checkout() + "/examples", "clients": checkout() + "/clients"} {
		if err := os.Symlink(target, filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, source := range map[string]string{"pillion": "./cmd/sidecar", "devkafka": "./cmd/devkafka"} {
		build := exec.Command("go", "build", "-o", filepath.Join(r.dir, "bin", name), source)
		build.Dir = checkout()
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return r
}

func (r *reader) read(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout(), name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// blocks are the code blocks of a language.
func (r *reader) blocks(language string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)```\n").FindAllStringSubmatch(r.readme, -1) {
		out = append(out, m[1])
	}
	return out
}

// commands are the lines of shell blocks, and the spans of code that begin with a program of ours.
func (r *reader) commands() []string {
	var out []string
	for _, block := range r.blocks("sh") {
		block = regexp.MustCompile("(?s) <<'EOF'\n.*\nEOF\n").ReplaceAllString(block, "\n") // what a command reads
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
	}
	prose := regexp.MustCompile("(?s)\n```.*?\n```\n").ReplaceAllString(r.readme, "\n")
	for _, m := range regexp.MustCompile("`((?:make|pip|npm|docker|go|bin/pillion|pillion) [^`]+)`").FindAllStringSubmatch(prose, -1) {
		out = append(out, strings.Join(strings.Fields(m[1]), " "))
	}
	return out
}

// in is a command in a directory, run to its end.
func (r *reader) in(dir string, env []string, command ...string) string {
	r.t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// start runs a command of ours with the README's words; more is what the README leaves out.
func (r *reader) start(command string, more ...string) *process {
	r.t.Helper()
	words := strings.Fields(command)
	words[0] = filepath.Join(r.dir, "bin", "pillion")
	return start(r.t, "pillion", more, append([]string{"env", "-C", r.dir}, words...)...)
}

// dryRun asks make what it would do; what it does is all the other tests.
func (r *reader) dryRun(command string) {
	words := strings.Fields(command)
	if !strings.Contains(r.read("Makefile"), "\n"+words[1]+":") {
		r.t.Fatalf("the Makefile has no target %s", words[1])
	}
	r.in(checkout(), nil, append([]string{"make", "-n"}, words[1:]...)...)
}

// The demo has kills and limits of its own, so it has the machine alone.
func TestTheDemo(t *testing.T) {
	r := &reader{t: t}
	said := r.in(checkout(), []string{"PYTHON=" + python(r.t)}, "make", "demo")
	for _, want := range []string{"plane_stats: all 4,043 rows are right", "the demo has passed"} {
		if !strings.Contains(said, want) {
			r.t.Errorf("the demo did not say %q:\n%s", want, said)
		}
	}
}

// install installs the client alone, where nothing else is.
func (r *reader) install(string) {
	venv := filepath.Join(r.t.TempDir(), "venv")
	r.in(checkout(), nil, python(r.t), "-m", "venv", venv)
	r.in(checkout(), nil, venv+"/bin/pip", "install", "--quiet", "--disable-pip-version-check", "./clients/python")
	r.in(r.t.TempDir(), nil, venv+"/bin/python", "-c", "import pillion; pillion.Worker('g').topic('in', key=str, value=pillion.serdes.json(int))")
}

// image does what the Dockerfile does to make the program: it must be static.
func (r *reader) image(string) {
	path := filepath.Join(r.t.TempDir(), "pillion")
	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*) -o /pillion (\./cmd/\w+)$`).FindStringSubmatch(r.read("Dockerfile"))
	if build == nil {
		r.t.Fatal("the Dockerfile does not build the program as this test expects")
	}
	r.in(checkout(), []string{"VERSION=of-the-test"}, "sh", "-c", build[1]+" -o "+path+" "+build[2])
	if said := r.in(r.dir, nil, path, "version"); said != "pillion of-the-test\n" {
		r.t.Errorf("its version is %q", said)
	}
	program, err := elf.Open(path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			r.t.Error("the program is not static")
		}
	}
}

func (r *reader) printConfig(command string) {
	p := r.start(command, "PILLION_BOOTSTRAP_SERVERS=kafka:9092")
	if code := p.exit(); code != 0 || !strings.Contains(p.tail(100), "kafka:9092") {
		r.t.Errorf("exit code %d\n%s", code, p.tail(100))
	}
}

// alone is the sidecar of a pod: it waits for a worker, and drains when it is told.
func (r *reader) alone(command string) {
	p := r.start(command, "PILLION_BOOTSTRAP_SERVERS="+strings.Join(oneBroker(r.t), ","), "PILLION_OPS_LISTEN=127.0.0.1:0",
		"PILLION_LISTEN=unix:"+filepath.Join(newPlace(r.t).dir, "s"))
	p.line("waiting for a worker")
	if code := p.stop(); code != 0 {
		r.t.Errorf("exit code %d", code)
	}
}

// plan prints what the README says that it prints.
func (r *reader) plan(command string) {
	shown := regexp.MustCompile("(?s)\n```sh\n(" + command + " <<'EOF'\n.*?\nEOF\n)```\n\n```\n(.*?)```\n").FindStringSubmatch(r.readme)
	if shown == nil {
		r.t.Fatal("README.md does not show it")
	}
	if said := r.in(r.dir, []string{"PATH=" + filepath.Join(r.dir, "bin") + ":" + os.Getenv("PATH")}, "sh", "-c", shown[1]); said != shown[2] {
		r.t.Errorf("it prints\n%s\nnot\n%s", said, shown[2])
	}
}

// drain is a preStop hook: the sidecar exits with 0, and so does the worker.
func (r *reader) drain(command string) {
	at := newPlace(r.t)
	env := []string{"PILLION_LISTEN=unix:" + filepath.Join(at.dir, "s"), "PILLION_TOKEN_FILE=" + filepath.Join(at.dir, "token")}
	sidecar := r.start("pillion run --group-id drained --create-topics 2",
		append(env, "PILLION_BOOTSTRAP_SERVERS="+strings.Join(oneBroker(r.t), ","), "PILLION_OPS_LISTEN=127.0.0.1:0")...)
	sidecar.line("waiting for a worker")
	worker := start(r.t, "worker", []string{"PILLION_URL=" + env[0][len("PILLION_LISTEN="):], env[1]},
		"env", "-C", r.t.TempDir(), python(r.t), checkout()+"/examples/wordcount/worker.py")
	for range 2 {
		sidecar.line("task running")
	}
	hook := r.start(command, env...)
	if code := hook.exit(); code != 0 || !strings.Contains(hook.tail(1), "2 tasks handed over") {
		r.t.Errorf("exit code %d: %s", code, hook.tail(10))
	}
	if code := sidecar.exit(); code != 0 {
		r.t.Errorf("the sidecar's exit code is %d\n%s", code, sidecar.tail(20))
	}
	if code := worker.exit(); code != 0 {
		r.t.Errorf("the worker's exit code is %d\n%s", code, worker.tail(20))
	}
	if code := r.start(command, env...).exit(); code != 1 {
		r.t.Errorf("draining what has ended: exit code %d, want 1", code)
	}
}

// group shows a group of two pairs.
func (r *reader) group(command string) {
	addrs := oneBroker(r.t)
	var pairs []*process
	for range 2 { // each with its own directory of stores
		pairs = append(pairs, start(r.t, "pair", []string{"PILLION_BOOTSTRAP_SERVERS=" + strings.Join(addrs, ",")},
			"env", "-C", r.t.TempDir(), filepath.Join(r.dir, "bin", "pillion"), "run", "--group-id", "words", "--create-topics", "2",
			"--num-standby-replicas", "1", "--rack", "z1", "--", python(r.t), checkout()+"/examples/wordcount/worker.py"))
	}
	for _, p := range pairs {
		p.line("task running")
	}
	words := strings.Fields(strings.Replace(command, "localhost:9092", addrs[0], 1))
	words[0] = filepath.Join(r.dir, "bin", "pillion")
	settled := regexp.MustCompile(`(?s)^group words: Stable.*: 2 members, 2 tasks in 1 set, 2 standbys\n\nMEMBER .* z1 +words +[01] +[01] \(.*\nlag: `)
	said := ""
	for range 100 { // the command itself waits while the group rebalances
		if said = r.in(r.dir, nil, append([]string{"sh", "-c", "sleep 0.2; exec \"$@\"", "sh"}, words...)...); settled.MatchString(said) {
			break
		}
	}
	if !settled.MatchString(said) {
		r.t.Fatalf("it does not come to show the group:\n%s\n%s", said, pairs[0].tail(20))
	}
	var shown struct {
		State   string
		Members []struct{ Shares []struct{ Active []int } }
	}
	said = r.in(r.dir, nil, append(words, "--json")...)
	if err := json.Unmarshal([]byte(said), &shown); err != nil || shown.State != "Stable" || len(shown.Members) != 2 {
		r.t.Errorf("%v: %s", err, said)
	}
	for _, p := range pairs {
		if code := p.stop(); code != 0 {
			r.t.Errorf("exit code %d\n%s", code, p.tail(30))
		}
	}
}

// pair returns the worker's exit code.
func (r *reader) pair(string) {
	p := r.start("pillion run -- false", "PILLION_BOOTSTRAP_SERVERS="+strings.Join(oneBroker(r.t), ","))
	if code := p.exit(); code != 1 {
		r.t.Errorf("exit code %d, want 1", code)
	}
}

// conformance plays one case of each level; all of them are played elsewhere.
func (r *reader) conformance(command string) {
	words := strings.Fields(strings.Replace(command, " -- ", " --case handshake --case restore --case demote -- ", 1))
	words[0] = filepath.Join(r.dir, "bin", "pillion")
	if said := r.in(r.dir, nil, words...); !strings.Contains(said, "all 3 cases passed (level standby)") {
		r.t.Errorf("it says\n%s", said)
	}
}

func (r *reader) dev(command string) {
	p := r.start(command)
	line := p.line("in-process Kafka")
	addr := regexp.MustCompile(`bootstrap_servers=(\S+)`).FindStringSubmatch(line.text)
	if addr == nil {
		r.t.Fatalf("it does not say where its Kafka is: %s", line.text)
	}
	p.line("task running") // the topics are there
	r.count(addr[1:], p)
}

func (r *reader) onKafka(command string) {
	addrs := oneBroker(r.t)
	for _, topic := range []string{"words", "word-counts"} {
		kafkatest.CreateTopic(r.t, addrs, topic, 2, nil)
	}
	p := r.start(strings.Replace(command, "localhost:9092", addrs[0], 1))
	r.count(addrs, p)
}

// three workers of one machine, with copies, in one directory: all is in place, and Ctrl-C ends them all.
func (r *reader) three(command string) {
	addrs := oneBroker(r.t)
	group := "words-of-three"
	p := r.start(strings.NewReplacer("localhost:9092", addrs[0], "--group-id words", "--group-id "+group).Replace(command))
	until(r.t, "three workers share the tasks and their copies", func() bool {
		told := start(r.t, "group", nil, filepath.Join(r.dir, "bin", "pillion"), "group", "--bootstrap-servers", addrs[0], "--group-id", group)
		return told.exit() == 0 && strings.Contains(told.tail(50), ": 3 members, 2 tasks in 1 set, 2 standbys")
	})
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 0 {
		r.t.Errorf("exit code %d", code)
	}
	r.content(p)
	if err := os.RemoveAll(filepath.Join(r.dir, "state")); err != nil {
		r.t.Fatal(err)
	}
}

// count gives the worker words, waits for its counts, and ends it with Ctrl-C.
func (r *reader) count(addrs []string, p *process) {
	kafkatest.Produce(r.t, addrs, "words", []kafkatest.Record{kafkatest.KV("a", "to be or not to be"), kafkatest.KV("a", "to do")})
	kafkatest.ReadUntil(r.t, addrs, "word-counts", func(got []kafkatest.Record) bool {
		latest := map[string]uint64{}
		for _, record := range got {
			latest[string(record.Key)] = longs.BigEndian.Uint64(record.Value) // Kafka's Long
		}
		return fmt.Sprint(latest) == "map[be:2 do:1 not:1 or:1 to:3]"
	})
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 0 {
		r.t.Errorf("exit code %d", code)
	}
	r.content(p)
	if err := os.RemoveAll(filepath.Join(r.dir, "state")); err != nil {
		r.t.Fatal(err)
	}
}

// content is a pair whose log has neither warnings nor errors, the sidecar's or the worker's.
func (r *reader) content(p *process) {
	complaint := regexp.MustCompile(`\[ERROR\]|\[WARN\]| (ERROR|WARNING|CRITICAL) |Traceback`)
	if found := p.since(0, func(e entry) bool { return complaint.MatchString(e.text) }); len(found) > 0 {
		r.t.Errorf("it complains:\n%s", p.tail(100))
	}
}

// line waits for a line of a text log.
func (p *process) line(words string) entry {
	p.t.Helper()
	return p.waitFor(0, words, func(e entry) bool { return strings.Contains(e.text, words) })
}
