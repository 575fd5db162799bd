package transcripts

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const spec = "../../spec/transcripts"

// object is a decoded JSON object; its numbers are json.Number.
type object = map[string]any

// line is one line of a transcript (spec/README.md).
type line struct {
	text   string
	number int // in its file, from 1

	Note    string
	Cause   string
	Do      object
	Connect bool
	From    string
	Message object
	Frame   *struct {
		Kind          string
		Stream, Epoch uint32
		Checkpoint    string
	}
	Hex     string
	Close   json.RawMessage
	Dropped bool
	Held    bool
	Store   string
}

func names(t *testing.T) []string {
	paths, err := filepath.Glob(filepath.Join(spec, "*.jsonl"))
	if err != nil || len(paths) < 15 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	var list []string
	for _, path := range paths {
		list = append(list, strings.TrimSuffix(filepath.Base(path), ".jsonl"))
	}
	return list
}

func load(t *testing.T, name string) []line {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(spec, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	for i, text := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		l := parse(t, text)
		l.number = i + 1
		lines = append(lines, l)
	}
	return lines
}

func parse(t *testing.T, text string) line {
	t.Helper()
	var l line
	if err := decode([]byte(text), &l); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	l.text = text
	return l
}

func decode(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(into)
}

func (l *line) bytes(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString(l.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// kind is the type of the message, or of the frame.
func (l *line) kind() string {
	switch {
	case l.Message != nil:
		return text(l.Message, "type")
	case l.Frame != nil:
		return l.Frame.Kind
	}
	return ""
}

func text(o object, field string) string {
	s, _ := o[field].(string)
	return s
}

func number(o object, field string) int64 {
	n, _ := o[field].(json.Number)
	i, _ := n.Int64()
	return i
}

// numbers is a JSON object of numbers.
func numbers(v any) map[string]int64 {
	o, _ := v.(object)
	m := map[string]int64{}
	for name := range o {
		m[name] = number(o, name)
	}
	return m
}
