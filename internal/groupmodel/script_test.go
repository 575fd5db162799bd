package groupmodel

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A script is the history of one group. Each line is a step, and "-> ..." behind it what is answered at once:
//
//	a join meta=x           -> 79
//	a join meta=x           -> 0 gen=1 leader=a members=a:x
//	b join                  -> waits
//	a heartbeat             -> 27
//	wait 2s beating a
//	  b got 0 gen=2 leader=a
//
// "got" lines below a step are the answers to earlier requests that this step brings about. An answer that
// no line expects is an error. Options stay as they were for the member (session, rebalance, meta,
// instance); gen is that of its last JoinGroup, and id its newest, unless given: "id=-" is none, "id=a/1"
// the first one that a had. The line "defaults session=.. rebalance=.." is for all.
type script struct {
	name  string
	steps []step
}

type step struct {
	line int
	who  string
	verb string
	opts map[string]string
	args []string
	want []expected // the first one is the step's own, when it has one
	own  bool
}

type expected struct{ who, text string }

func readScripts(t *testing.T) []script {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var scripts []script
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := script{name: strings.TrimSuffix(filepath.Base(path), ".txt")}
		for n, line := range strings.Split(string(b), "\n") {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				if err := s.add(n+1, line); err != nil {
					t.Fatalf("%s:%d: %v", path, n+1, err)
				}
			}
		}
		scripts = append(scripts, s)
	}
	return scripts
}

func (s *script) add(n int, line string) error {
	call, want, own := strings.Cut(line, "->")
	words := strings.Fields(call)
	if len(words) > 2 && words[1] == "got" {
		if len(s.steps) == 0 {
			return fmt.Errorf("no step before %q", line)
		}
		last := &s.steps[len(s.steps)-1]
		last.want = append(last.want, expected{words[0], strings.Join(words[2:], " ")})
		return nil
	}
	st := step{line: n, who: words[0], opts: map[string]string{}, own: own}
	rest := words[1:]
	if !slices.Contains([]string{"wait", "restart", "defaults"}, st.who) {
		if len(rest) == 0 {
			return fmt.Errorf("%q has no verb", line)
		}
		st.verb, rest = rest[0], rest[1:]
	}
	for _, word := range rest {
		if name, value, ok := strings.Cut(word, "="); ok {
			st.opts[name] = value
		} else {
			st.args = append(st.args, word)
		}
	}
	if own {
		st.want = append(st.want, expected{st.who, strings.Join(strings.Fields(want), " ")})
	}
	s.steps = append(s.steps, st)
	return nil
}

// subject is what a script runs against.
type subject interface {
	ask(Token, Request)
	// settle waits until these are answered (and a moment longer for what should not be), and gives all
	// that was answered since.
	settle(want []Token, longer bool) []Answer
	wait(time.Duration)
	restart()
	state() string
	cut(Token)
}

// play is one run of a script.
type play struct {
	s       subject
	opts    map[string]string            // for all
	of      map[string]map[string]string // options that stay, by member
	ids     map[string][]string          // that each name has had
	gens    map[string]int32
	last    Token
	waiting map[Token]string // requests without an answer: whose
	heard   map[Token]Answer
	trace   []string
	errs    []string
	scale   time.Duration // all times are multiplied with it
}

// errStop ends a run that cannot go on.
type errStop string

const gone int16 = -100 // the connection was closed, or 16: the coordinator is somewhere else

// play runs a script. It gives everything that was answered, and what differs from the script. All times of
// the script are multiplied with scale, for a subject on a slow machine.
func (s script) play(on subject, scale int) (trace, errs []string) {
	p := &play{
		s: on, opts: map[string]string{"session": "10s", "rebalance": "10s", "meta": "x"}, of: map[string]map[string]string{},
		ids: map[string][]string{}, gens: map[string]int32{}, waiting: map[Token]string{}, heard: map[Token]Answer{},
		scale: time.Duration(scale),
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case errStop:
			trace, errs = p.trace, append(p.errs, string(r))
		default:
			panic(r)
		}
	}()
	for _, st := range s.steps {
		p.step(st)
	}
	return p.trace, p.errs
}

func (p *play) stop(st step, format string, args ...any) {
	panic(errStop(fmt.Sprintf("line %d: ", st.line) + fmt.Sprintf(format, args...)))
}

func (p *play) step(st step) {
	before := map[string][]Token{} // requests without an answer of each member, oldest first
	for _, token := range slices.Sorted(maps.Keys(p.waiting)) {
		before[p.waiting[token]] = append(before[p.waiting[token]], token)
	}
	var token Token
	switch st.who {
	case "defaults":
		maps.Copy(p.opts, st.opts)
		return
	case "wait":
		p.wait(st)
	case "restart":
		p.s.restart()
	default:
		switch st.verb {
		case "state":
			p.check(st, st.want[0].text, p.s.state())
			return
		case "cut":
			for token, who := range p.waiting {
				if who == st.who {
					p.s.cut(token)
					delete(p.waiting, token)
				}
			}
			return
		}
		token = p.ask(st)
	}
	p.hear(st, token, before)
}

// wait lets time pass, in which some members send heartbeats.
func (p *play) wait(st step) {
	total := p.duration(st, st.args[0])
	if len(st.args) == 1 {
		p.s.wait(total)
		return
	}
	const every = 250 * time.Millisecond
	for ; total > 0; total -= every {
		p.s.wait(min(every, total))
		for _, who := range st.args[2:] {
			token := p.ask(step{line: st.line, who: who, verb: "heartbeat", opts: map[string]string{}})
			p.listen([]Token{token}, false)
			delete(p.heard, token)
		}
	}
}

func (p *play) ask(st step) Token {
	p.last++
	p.waiting[p.last] = st.who
	p.s.ask(p.last, p.request(st))
	return p.last
}

// listen takes what is answered.
func (p *play) listen(want []Token, longer bool) {
	for _, a := range p.s.settle(want, longer) {
		who, ok := p.waiting[a.To]
		if !ok {
			continue // cut
		}
		delete(p.waiting, a.To)
		p.heard[a.To] = a
		if (a.Code == OK || a.Code == MemberIDRequired) && a.Member != "" {
			if !slices.Contains(p.ids[who], a.Member) {
				p.ids[who] = append(p.ids[who], a.Member)
			}
		}
		if a.Code == OK && a.Generation > 0 {
			p.gens[who] = a.Generation
		}
	}
}

// hear compares the answers with what the step wants.
func (p *play) hear(st step, own Token, before map[string][]Token) {
	var want []Token
	texts := map[Token]string{}
	for i, e := range st.want {
		token := own
		if i > 0 || !st.own {
			if len(before[e.who]) == 0 {
				p.stop(st, "%s waits for nothing", e.who)
			}
			token = before[e.who][0]
			before[e.who] = before[e.who][1:]
		}
		if e.text == "waits" {
			continue
		}
		texts[token] = e.text
		if _, ok := p.heard[token]; !ok {
			want = append(want, token)
		}
	}
	p.listen(want, true)
	for _, token := range slices.Sorted(maps.Keys(p.heard)) {
		text, ok := texts[token]
		if !ok {
			text = "waits"
		}
		p.check(st, text, p.text(p.heard[token]))
		delete(texts, token)
	}
	for token, text := range texts {
		p.check(st, text, fmt.Sprintf("waits (%s)", p.waiting[token]))
	}
	clear(p.heard)
}

func (p *play) check(st step, want, got string) {
	p.trace = append(p.trace, fmt.Sprintf("%d %s", st.line, got))
	if want != got {
		p.errs = append(p.errs, fmt.Sprintf("line %d: %s %s: answered %q, want %q", st.line, st.who, st.verb, got, want))
	}
}

// text is an answer as scripts write it.
func (p *play) text(a Answer) string {
	var b strings.Builder
	if a.Code == gone || a.Code == NotCoordinator {
		return "gone"
	}
	fmt.Fprint(&b, a.Code)
	if a.Code != OK {
		return b.String()
	}
	if a.Generation > 0 {
		fmt.Fprintf(&b, " gen=%d leader=%s", a.Generation, p.name(a.Leader))
	}
	if len(a.Members) > 0 {
		var members []string
		for _, m := range a.Members {
			members = append(members, p.name(m.ID)+":"+m.Metadata)
		}
		slices.Sort(members)
		fmt.Fprintf(&b, " members=%s", strings.Join(members, ","))
	}
	if a.Skip {
		b.WriteString(" skip")
	}
	if a.Plan != "" {
		fmt.Fprintf(&b, " plan=%s", a.Plan)
	}
	for _, o := range a.Offsets {
		fmt.Fprintf(&b, " at=%d", o.At)
		if o.Metadata != "" {
			fmt.Fprintf(&b, " meta=%s", o.Metadata)
		}
	}
	return b.String()
}

// name is whose id it is: "a" for the newest of a, "a/1" for the first of several.
func (p *play) name(id string) string {
	for who, ids := range p.ids {
		if i := slices.Index(ids, id); i == len(ids)-1 && i >= 0 {
			return who
		} else if i >= 0 {
			return fmt.Sprintf("%s/%d", who, i+1)
		}
	}
	return "?"
}

func (p *play) id(who string) string {
	name, number, ok := strings.Cut(who, "/")
	ids := p.ids[name]
	if ok {
		n, _ := strconv.Atoi(number)
		return ids[n-1]
	}
	if len(ids) == 0 {
		return ""
	}
	return ids[len(ids)-1]
}
