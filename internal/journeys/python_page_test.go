//go:build kafka

package journeys

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// TestPythonPage does what docs/python.md says, command by command, in an empty directory.
func TestPythonPage(t *testing.T) {
	t.Parallel()
	p := newPupil(t, "docs/python.md", "(?s)`(\\w+\\.py)`[^\n]*:\n\n```python\n(.*?)```\n")
	p.write()
	for _, command := range p.commands() {
		p.follow(command)
	}
	p.end()
}

// pupil has typed some of a page's commands.
type pupil struct {
	*reader
	page    string
	files   *regexp.Regexp // what the page names, and what is in it
	home    string
	session []string // what a terminal begins with
	kafka   string
	pair    *process
	paid    map[string][]int // cents by user
}

func newPupil(t *testing.T, page, files string) *pupil {
	t.Helper()
	return &pupil{reader: newReader(t, page), page: page, files: regexp.MustCompile(files), home: t.TempDir(), kafka: "localhost:9092", paid: map[string][]int{}}
}

// write makes the files of the page.
func (p *pupil) write() {
	for _, file := range p.files.FindAllStringSubmatch(p.readme, -1) {
		if err := os.WriteFile(filepath.Join(p.home, file[1]), []byte(strings.ReplaceAll(file[2], "localhost:9092", p.kafka)), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *pupil) follow(command string) {
	words := strings.Fields(command)
	switch program := words[0]; {
	case program == "export" || program == ".":
		p.session = append(p.session, strings.ReplaceAll(command, "~/pillion", p.dir))
	case program == "python3", program == "pkill", strings.HasPrefix(command, "pip install $PILLION/"):
		p.shell(command)
	case program == "pytest":
		if said := p.shell(command); !strings.Contains(said, "2 passed") {
			p.t.Errorf("pytest said\n%s", said)
		}
	case program == "devkafka":
		p.serve(command)
	case program == "rm":
		p.end()
		p.shell(command)
	case program == "pillion" && len(words) > 4:
		p.run(command)
	case program == "python":
		p.pay(command, words[2], words[3])
	case program == "pip":
		p.extra(command)
	case command == "make setup", command == "pillion run", command == "pillion run --workers N": // the README's reader does it
	default:
		p.t.Errorf("docs/python.md has a command that no test runs: %s", command)
	}
}

// shell types a command into a terminal and waits for its end.
func (p *pupil) shell(command string) string {
	return p.in(p.home, nil, "bash", "-ec", strings.Join(append(p.session, command), "\n"))
}

// terminal types a command that goes on into a terminal of its own.
func (p *pupil) terminal(command string) *process {
	lines := append([]string{"cd " + p.home}, p.session...)
	return start(p.t, command, nil, "bash", "-ec", strings.Join(append(lines, "exec "+command), "\n"))
}

// serve starts the page's Kafka.
func (p *pupil) serve(command string) {
	kafka := p.terminal(command + " --listen 127.0.0.1:0")
	p.kafka = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(kafka.line("127.0.0.1:").text)
	p.write()
}

// run starts a pair, or two, and waits until they are at work.
func (p *pupil) run(command string) {
	p.end()
	p.pair = p.terminal(strings.ReplaceAll(command, "localhost:9092", p.kafka))
	if strings.Contains(command, "--workers 2") {
		p.pair.line("pillion-1.session: task running")
		p.pair.line("pillion-2.session: task running")
		return
	}
	if len(p.paid) > 0 {
		p.replayed()
	}
	for range 4 {
		p.pair.line("task running")
	}
}

// replayed waits until ada's rows were replayed; the page says how many that are.
func (p *pupil) replayed() {
	replayed := fmt.Sprintf("replayed=%d", len(p.paid["ada"]))
	p.pair.line(replayed)
	if !strings.Contains(p.readme, "`"+replayed+"`") {
		p.t.Errorf("%s does not say %s", p.page, replayed)
	}
}

// end is Ctrl-C.
func (p *pupil) end() {
	if p.pair == nil {
		return
	}
	p.pair.signal(syscall.SIGINT)
	if code := p.pair.exit(); code != 0 && !strings.Contains(p.pair.name, "--workers") { // one of those was killed
		p.t.Errorf("exit code %d", code)
	}
	p.pair = nil
}

// pay sends a payment. The worker adds it to the others, and the page shows the first of these lines.
func (p *pupil) pay(command, user, cents string) {
	p.shell(command)
	amount, err := strconv.Atoi(cents)
	if err != nil {
		p.t.Fatal(err)
	}
	p.paid[user] = append(p.paid[user], amount)
	total := 0
	for _, each := range p.paid[user] {
		total += each
	}
	said := fmt.Sprintf("%d payments, %d cents", len(p.paid[user]), total)
	p.pair.line(user + ": " + said)
	row := fmt.Sprintf(`{"payments":%d,"cents":%d}`, len(p.paid[user]), total)
	kafkatest.ReadUntil(p.t, []string{p.kafka}, "shop-totals-changelog", func(got []kafkatest.Record) bool {
		return slices.ContainsFunc(got, func(r kafkatest.Record) bool { return string(r.Key) == user && string(r.Value) == row })
	}) // it is committed: a reader does not type the next command within 100 ms
	if len(p.paid[user]) <= 3 && !strings.Contains(p.readme, said) {
		p.t.Errorf("%s does not say %q", p.page, said)
	}
}

// extra is an extra of the Python package.
func (p *pupil) extra(command string) {
	extra := regexp.MustCompile(`/clients/python\[(\w+)\]`).FindStringSubmatch(command)
	if extra == nil || !strings.Contains(p.read("clients/python/pyproject.toml"), "\n"+extra[1]+" = [") {
		p.t.Errorf("there is no such extra: %s", command)
	}
}
