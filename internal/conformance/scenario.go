package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pillion/pillion/protocol"
)

// Levels are what a worker may be able to do, each with all before it.
var Levels = []string{"stateless", "tables", "standby"}

// The two jobs that a worker under test must be able to run.
const (
	jobStateless = "stateless"
	jobTables    = "tables"
)

// Scenario is one case: a file of spec/scenarios.
type Scenario struct {
	head
	steps []step
}

// head is the first line of a file.
type head struct {
	Name      string              `json:"case"`
	Level     string              `json:"level"`
	Job       string              `json:"job"`
	About     string              `json:"about"`
	Hint      string              `json:"hint"`
	Listen    string              `json:"listen"`    // "unix": a Unix socket
	Proxy     bool                `json:"proxy"`     // the environment names a proxy at which nobody listens
	Extra     bool                `json:"extra"`     // each message has a field that nobody knows
	Names     string              `json:"names"`     // "odd": tasks have names that cannot be parsed
	Limits    *protocol.Limits    `json:"limits"`    // of welcome
	Credit    *protocol.Window    `json:"credit"`    // of welcome
	Deadlines *protocol.Deadlines `json:"deadlines"` // of welcome
}

// step is one line after the first.
type step struct {
	line int
	text string
	do   action
}

// action does a step. Its error is a *failure when the worker is to blame.
type action func(*player) error

// as makes a verb: its line is read into a T, of which every key must be known.
func as[T any](do func(*player, T) error) func([]byte) (action, error) {
	return func(line []byte) (action, error) {
		var args T
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&args); err != nil {
			return nil, err
		}
		return func(p *player) error { return do(p, args) }, nil
	}
}

// Load reads every scenario below a directory, in the order of levels, then names.
func Load(files fs.FS) ([]Scenario, error) {
	var all []Scenario
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".jsonl" {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		s, err := parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if want := strings.TrimSuffix(path.Base(name), ".jsonl"); s.Name != want {
			return fmt.Errorf("%s: the case is called %q, the file %q", name, s.Name, want)
		}
		all = append(all, s)
		return nil
	})
	slices.SortFunc(all, func(a, b Scenario) int {
		if by := slices.Index(Levels, a.Level) - slices.Index(Levels, b.Level); by != 0 {
			return by
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, err
}

func parse(text []byte) (Scenario, error) {
	var s Scenario
	number := 0
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := s.add(number, line); err != nil {
			return s, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if s.Name == "" {
		return s, errors.New("has no line with the case")
	}
	return s, lines.Err()
}

func (s *Scenario) add(number int, line []byte) error {
	if s.Name == "" {
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&s.head); err != nil {
			return err
		}
		return s.head.check()
	}
	verb, err := firstKey(line)
	if err != nil || verb == "note" {
		return err
	}
	read, known := verbs[verb]
	if !known {
		return fmt.Errorf("unknown step %q", verb)
	}
	do, err := read(line)
	s.steps = append(s.steps, step{line: number, text: string(line), do: do})
	return err
}

func (h head) check() error {
	switch {
	case h.Name == "" || h.About == "" || h.Hint == "":
		return errors.New("the first line needs case, about and hint")
	case !slices.Contains(Levels, h.Level):
		return fmt.Errorf("level %q is none of %s", h.Level, strings.Join(Levels, ", "))
	case h.Job != jobStateless && h.Job != jobTables:
		return fmt.Errorf("job %q is none of %s, %s", h.Job, jobStateless, jobTables)
	case h.Level == "stateless" && h.Job != jobStateless:
		return errors.New("a stateless worker cannot run a job with tables")
	}
	return nil
}

func firstKey(line []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return "", errors.New("is no JSON object")
	}
	key, err := dec.Token()
	if name, ok := key.(string); ok && err == nil {
		return name, nil
	}
	return "", errors.New("is an empty object")
}
