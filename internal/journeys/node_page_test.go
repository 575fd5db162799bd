//go:build kafka

package journeys

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

const (
	namedPrograms = "(?s)`(\\w+(?:\\.test)?\\.mjs)`[^\n]*:\n\n```js\n(.*?)```\n"
	oldProgram    = "await consumer.disconnect();"
)

// TestNodePage does what docs/node.md says, command by command, in an empty directory.
func TestNodePage(t *testing.T) {
	t.Parallel()
	p := newPupil(t, "docs/node.md", namedPrograms)
	p.packable()
	p.write()
	for _, command := range p.commands() {
		p.followInNode(command)
	}
	p.end()
}

// packable gives the reader sources of the package of its own: others run what is compiled in the checkout.
func (p *pupil) packable() {
	p.t.Helper()
	clients := filepath.Join(p.dir, "clients")
	if err := os.Remove(clients); err != nil {
		p.t.Fatal(err)
	}
	for _, command := range []string{
		"mkdir -p clients/node", "cp -r $OF/README.md $OF/src $OF/package.json $OF/tsconfig.json $OF/tsconfig.build.json clients/node",
		"ln -s $OF/node_modules clients/node/node_modules",
	} {
		p.in(p.dir, []string{"OF=" + checkout() + "/clients/node"}, "bash", "-ec", command)
	}
}

func (p *pupil) followInNode(command string) {
	words := strings.Fields(command)
	switch program := words[0]; {
	case program == "export":
		p.session = append(p.session, strings.ReplaceAll(command, "~/pillion", p.dir))
	case command == "npm install better-sqlite3": // the drill and the examples run with it
	case program == "npm", strings.HasPrefix(command, "npx tsc --init "):
		p.shell(command)
	case command == "npx tsc": // the same text in TypeScript
		p.shell("cp totals.mjs totals.ts && npx tsc && node -e \"import('./totals.js')\"")
	case command == "node --test":
		if said := p.shell(command); !strings.Contains(said, "pass 2") {
			p.t.Errorf("node --test said\n%s", said)
		}
	case program == "devkafka":
		p.serve(command)
	case program == "pkill":
		p.shell(command)
		if !strings.Contains(p.pair.name, "--workers") {
			p.replayed()
		}
	case strings.HasPrefix(command, "pillion dev "):
		p.end()
		dev := p.terminal(command)
		dev.line("bootstrap_servers=")
		dev.line("task running")
		interrupt(p.t, dev)
	case program == "pillion" && len(words) > 4:
		p.run(command)
	case program == "node":
		p.pay(command, words[2], words[3])
	case command == "make build setup-node", command == "pillion run", command == "pillion run --workers N": // the reader has done it
	default:
		p.t.Errorf("%s has a command that no test runs: %s", p.page, command)
	}
}

// TestKafkaJSPage moves a group of a real Kafka from kafkajs to Pillion as docs/migrating-from-kafkajs.md says, and back.
func TestKafkaJSPage(t *testing.T) {
	t.Parallel()
	p := newPupil(t, "docs/migrating-from-kafkajs.md", namedPrograms)
	p.packable()
	p.session = []string{"export PATH=" + p.dir + "/bin:$PATH"}
	p.shell("npm init -y && npm pack " + p.dir + "/clients/node && npm install ./pillion-0.1.0.tgz kafkajs")
	p.kafka = oneBroker(t)[0]
	for _, topic := range []string{"payments", "big-spenders"} {
		kafkatest.CreateTopic(t, []string{p.kafka}, topic, 4, nil)
	}
	p.write()
	p.lastAct()
	payments := regexp.MustCompile("(?s)`pay.mjs`[^\n]*:\n\n```js\n(.*?)```\n").FindStringSubmatch(p.read("docs/node.md"))
	p.file("pay.mjs", strings.ReplaceAll(payments[1], "localhost:9092", p.kafka))
	moves := &moves{pupil: p, left: p.commands()}

	old := p.terminal("node old.mjs")
	p.shell("node pay.mjs ada 6000")
	old.line("ada: 1 payments, 6000 cents")

	beside := moves.start("pillion run --bootstrap-servers localhost:9092 --group-id shop-next -- node shop.mjs")
	beside.line("ada: 1 payments, 6000 cents")
	interrupt(t, beside)

	if code := old.stop(); code != 0 {
		t.Errorf("kafkajs ended with %d", code)
	}
	if said := p.shell("pillion group --bootstrap-servers " + p.kafka + " --group-id shop"); !strings.Contains(p.readme, strings.TrimSpace(said)) {
		t.Errorf("the group is\n%s", said)
	}
	at := regexp.MustCompile(`^0:\S+ 1:1 2:\S+ 3:\S+\n$`) // ada's is 1
	if said := p.shell(moves.take("node positions.mjs shop payments")); !at.MatchString(said) {
		t.Errorf("the positions are %s", said)
	}
	if said := p.shell("node positions.mjs shop payments"); said != "0:0 1:1 2:0 3:0\n" {
		t.Errorf("the positions are %s", said)
	}

	moved := moves.start("pillion run --bootstrap-servers localhost:9092 --compression-type gzip -- node shop.mjs")
	for range 4 {
		moved.line("task running")
	}
	p.shell("node pay.mjs ada 5000")
	moved.line("ada: 2 payments, 11000 cents")
	if made := moved.since(0, func(e entry) bool { return strings.Contains(e.text, "topic created") }); len(made) > 0 {
		t.Errorf("the table began empty: %s", made[0].text)
	}
	interrupt(t, moved)

	back := p.terminal("node old.mjs")
	p.shell("node pay.mjs ada 100")
	back.line("ada: 1 payments, 100 cents") // its Map was empty, and no record came again
	both := moves.start("pillion run --bootstrap-servers localhost:9092 -- node shop.mjs")
	refusal := regexp.MustCompile("(?m)^JoinGroup of group .*$").FindString(p.readme)
	both.line(refusal)
	if code := both.exit(); code == 0 {
		t.Error("a group has kafkajs and Pillion in it")
	}
	if code := back.stop(); code != 0 {
		t.Errorf("kafkajs ended with %d", code)
	}
	moves.done()
}

func interrupt(t *testing.T, p *process) {
	t.Helper()
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.tail(30))
	}
}

// lastAct has old.mjs fill the table, as the page says.
func (p *pupil) lastAct() {
	act := "await fill(kafka, totals);"
	path := filepath.Join(p.home, "old.mjs")
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), oldProgram) || !strings.Contains(p.readme, "after `"+oldProgram[:len(oldProgram)-1]+"`") ||
		!strings.Contains(p.readme, "`"+act+"`") {
		p.t.Fatalf("%s does not say where fill stands (%v)", p.page, err)
	}
	p.file("old.mjs", "import { fill } from \"./fill.mjs\";\n"+strings.Replace(string(text), oldProgram, oldProgram+act, 1))
}

func (p *pupil) file(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.home, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// moves are the commands of the page, each of which must be typed.
type moves struct {
	*pupil
	left []string
}

func (m *moves) take(command string) string {
	m.t.Helper()
	for i, each := range m.left {
		if each == command {
			m.left = append(m.left[:i:i], m.left[i+1:]...)
			return command
		}
	}
	m.t.Errorf("%s does not say: %s", m.page, command)
	return command
}

func (m *moves) start(command string) *process {
	return m.terminal(strings.ReplaceAll(m.take(command), "localhost:9092", m.kafka))
}

func (m *moves) done() {
	for _, each := range m.left {
		if each != "pillion run" && each != "pillion run --workers N" && each != "pillion run --restart" {
			m.t.Errorf("%s has a command that no test runs: %s", m.page, each)
		}
	}
}
