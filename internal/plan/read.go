package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Request describes a group. Topics have the partition counts that Kafka would tell; a source that is
// not among them is one that does not exist.
type Request struct {
	Replicas int   `json:"replicas"` // standbys of each task
	Capacity int32 `json:"capacity"` // most actives of one set on one member; 0: an equal share
	// Copies made at once so that a task that is to move is warm there; 0: tasks move cold. And the records
	// that a warm copy may be behind.
	Warmups       int               `json:"warmups"`
	AcceptableLag int64             `json:"acceptable_lag"`
	Topics        map[string]*int32 `json:"topics"`
	Members       []Member          `json:"members"`
}

// Member declares sets, or flat sources and tables. Active and Standby are what it holds, by source
// topic or changelog. Lags are, in the order of Standby, how many records its copies are behind, by
// changelog; -1: not known. A copy without one is not behind.
type Member struct {
	ID         string             `json:"id"`
	Instance   string             `json:"instance"`
	Generation *int32             `json:"generation"` // of the sync that gave it what it holds
	Rack       string             `json:"rack"`
	Address    string             `json:"address"`
	Draining   bool               `json:"draining"`
	NoStandby  bool               `json:"no_standby"`
	Sets       []Set              `json:"sets"`
	Sources    []string           `json:"sources"`
	Tables     []Table            `json:"tables"`
	Globals    []Global           `json:"globals"`
	Active     map[string][]int32 `json:"active"`
	Standby    map[string][]int32 `json:"standby"`
	Lags       map[string][]int64 `json:"lags"`
}

// Set is as in a worker's hello.
type Set struct {
	Name    string   `json:"name"`
	Sources []string `json:"sources"`
	Tables  []Table  `json:"tables"`
}

// Table has a changelog, or as a source table the topic that others write. Sources says, in a flat
// declaration, which sources it is kept with.
type Table struct {
	Name        string   `json:"name"`
	Changelog   string   `json:"changelog"`
	SourceTopic string   `json:"source_topic"`
	Sources     []string `json:"sources"`
}

// Global is a global table, as its topic or as in a worker's hello.
type Global struct{ Topic string }

// UnmarshalJSON takes "topic" and {"name": ..., "topic": ...}.
func (g *Global) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &g.Topic) == nil {
		return nil
	}
	var named struct{ Name, Topic string }
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&named); err != nil {
		return err
	}
	g.Topic = named.Topic
	return nil
}

// maxInput bounds what is read: a thousand members of a large group are some megabytes.
const maxInput = 256 << 20

// Read reads a request and checks it. Its error is one sentence.
func Read(r io.Reader) (Request, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return Request{}, fmt.Errorf("the input cannot be read: %w", err)
	}
	if len(b) > maxInput {
		return Request{}, fmt.Errorf("the input has more than %d MiB", maxInput>>20)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return Request{}, errors.New("the input is empty: one JSON object is wanted")
	}
	if err := repeated(b); err != nil {
		return Request{}, err
	}
	var q Request
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return Request{}, words(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Request{}, fmt.Errorf("there is something behind the JSON object, at byte %d", d.InputOffset())
	}
	return q, q.check()
}

// words says what encoding/json found in the words of the input.
func words(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("the input is not JSON: %w (byte %d)", err, syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the input is not JSON: it ends too early")
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("the input is of kind %s: one JSON object is wanted", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("%s cannot be a %s (byte %d)", kind.Field, kind.Value, kind.Offset)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// repeated refuses an object that has a key twice: encoding/json would take the last one. What is not
// JSON at all is left to the decoder, which says it better.
func repeated(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	type level struct {
		keys  map[string]bool // nil: an array
		value bool            // the next token is the value of a key
	}
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return nil
		}
		top := len(levels) - 1
		if key, ok := token.(string); ok && top >= 0 && levels[top].keys != nil && !levels[top].value {
			if levels[top].keys[key] {
				return fmt.Errorf("the key %q stands twice in one object (byte %d)", key, d.InputOffset())
			}
			levels[top].keys[key], levels[top].value = true, true
			continue
		}
		if top >= 0 {
			levels[top].value = false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{keys: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:top]
		}
	}
}
