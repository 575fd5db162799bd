package specgen

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MessageVectors is one file of spec/vectors/messages.
type MessageVectors struct {
	Type    string        `json:"type"`
	Valid   []ValidText   `json:"valid"`
	Invalid []InvalidText `json:"invalid"`
}

// ValidText is a text message and what it means; Decoded null: ignored without an answer.
type ValidText struct {
	Name    string          `json:"name"`
	Text    string          `json:"text"`
	Decoded json.RawMessage `json:"decoded"`
}

// InvalidText is a text message that is refused with Code; Re is the id that the error names, 0 for
// none. Hex is there instead of Text when the bytes are not UTF-8.
type InvalidText struct {
	Name string  `json:"name"`
	Text *string `json:"text,omitempty"`
	Hex  string  `json:"hex,omitempty"`
	Code string  `json:"code"`
	Re   int64   `json:"re"`
}

const (
	maxInteger  = 1<<53 - 1
	badMessage  = "bad_message"
	unknownType = "unknown_type"
)

// messageVectors derives the vectors of one type from its schema: each rule of the schema is kept
// at its border and broken once. The first example with the most fields is the one that is changed; of
// the others only the fields that it does not have: what excludes each other stands in two examples.
func (a *Schemas) messageVectors(name string) MessageVectors {
	s := a.Messages[name]
	out := MessageVectors{Type: name}
	var full map[string]any
	for i, example := range s.Examples {
		out.Valid = append(out.Valid, ValidText{fmt.Sprintf("example %d", i), compact(example), example})
		if object := decode(example).(map[string]any); len(object) > len(full) {
			full = object
		}
	}
	w := &walker{schemas: a, full: full, out: &out}
	w.tolerated()
	w.walk(s, nil)
	for _, example := range s.Examples {
		other := decode(example).(map[string]any)
		w := &walker{schemas: a, full: other, out: &out}
		for _, field := range slices.Sorted(maps.Keys(other)) {
			if _, done := full[field]; !done {
				w.property(s, field, []any{field})
			}
		}
	}
	return out
}

// walker changes one place of a message after the other.
type walker struct {
	schemas *Schemas
	full    map[string]any
	out     *MessageVectors
}

// tolerated adds what a receiver must put up with in any message.
func (w *walker) tolerated() {
	text := encode(w.full)
	w.valid("sorted keys", text, w.full)
	w.valid("unknown field", text[:len(text)-1]+`,"zz_new":{"a":[1,null]}}`, w.full)
	w.valid("unknown field with any JSON", text[:len(text)-1]+`,"zz_new":[1.5,-2e-7,1E+300,123456789012345678901234567890,"\u0000",true,{"":{}}]}`, w.full)
	w.valid("unknown field a hundred deep", text[:len(text)-1]+`,"zz_new":`+strings.Repeat("[", 98)+strings.Repeat("]", 98)+"}", w.full)
	w.valid("escaped name", `{"\u0074ype":`+encode(w.full["type"])+`,`+text[1:], w.full)
	w.valid("optional on a known type", text[:len(text)-1]+`,"optional":true}`, w.full)
	w.valid("white space", " \t\r\n"+text+"\n", w.full)
	w.valid("a field given twice: the last counts", `{"type":"nothing",`+text[1:], w.full)
}

func (w *walker) valid(name, text string, decoded map[string]any) {
	w.out.Valid = append(w.out.Valid, ValidText{name, text, json.RawMessage(encode(decoded))})
}

func (w *walker) invalid(name string, path []any, changed map[string]any) {
	code, re := badMessage, int64(0)
	if id, ok := changed["id"].(json.Number); ok && !(len(path) == 1 && path[0] == "id") {
		re, _ = id.Int64()
	}
	w.out.Invalid = append(w.out.Invalid, InvalidText{Name: where(path) + " " + name, Text: textOf(encode(changed)), Code: code, Re: re})
}

// walk visits what the schema says about the value at path.
func (w *walker) walk(s *Schema, path []any) {
	s = w.schemas.resolve(s)
	here := at(w.full, path)
	if len(path) > 0 {
		w.breakValue(s, path, here)
	}
	switch here := here.(type) {
	case []any:
		if s.Items != nil && len(here) > 0 {
			w.walk(s.Items, append(slices.Clone(path), 0))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(here)) {
			w.property(s, name, append(slices.Clone(path), name))
		}
		if s.PropertyNames != nil {
			for _, name := range []string{"01", "-1", "x", ""} {
				changed := w.with(append(slices.Clone(path), name), json.Number("5"))
				w.invalid(fmt.Sprintf("name %q", name), path, changed)
			}
		}
	}
}

// property visits a field of the object that s describes.
func (w *walker) property(s *Schema, name string, path []any) {
	switch of := s.Properties[name]; {
	case of != nil && (name != "type" || len(path) > 1):
		w.presence(s, name, path)
		w.walk(of, path)
	case of == nil && s.AdditionalProperties != nil:
		w.walk(s.AdditionalProperties, path)
	}
}

// presence takes a field away.
func (w *walker) presence(s *Schema, name string, path []any) {
	without := w.with(path, absent{})
	if slices.Contains(s.Required, name) {
		w.invalid("missing", path, without)
	} else {
		w.valid(where(path)+" left out", encode(without), without)
	}
}

// breakValue breaks each rule of one value.
func (w *walker) breakValue(s *Schema, path []any, here any) {
	if !slices.Contains(s.Type, "null") {
		w.invalid("null", path, w.with(path, nil))
	}
	if !slices.Contains(s.Type, "boolean") {
		w.invalid("a boolean", path, w.with(path, true))
	}
	switch here := here.(type) {
	case bool:
		w.invalid("a number", path, w.with(path, json.Number("1")))
		w.invalid("a string", path, w.with(path, "true"))
		changed := w.with(path, !here)
		w.valid(fmt.Sprintf("%s %v", where(path), !here), encode(changed), changed)
	case string:
		w.invalid("a number", path, w.with(path, json.Number("1")))
		if s.MinLength > 0 {
			w.invalid("empty", path, w.with(path, ""))
		}
		if s.Pattern != "" {
			w.breakPattern(s.Pattern, path)
		}
		if s.Enum != nil {
			w.invalid("another word", path, w.with(path, "other"))
		}
	case json.Number:
		w.invalid("a string", path, w.with(path, "1"))
		w.invalid("a fraction", path, w.with(path, json.Number("1.5")))
		w.invalid("a whole number with a fraction", path, w.with(path, json.Number("1.0")))
		w.invalid("a whole number with an exponent", path, w.with(path, json.Number("1e1")))
		w.border(path, *s.Minimum, *s.Maximum)
	case []any:
		w.invalid("an object", path, w.with(path, map[string]any{}))
		if s.MinItems > 0 {
			w.invalid("empty", path, w.with(path, []any{}))
		}
	case map[string]any:
		w.invalid("an array", path, w.with(path, []any{}))
		if s.MinProperties > 0 {
			w.invalid("empty", path, w.with(path, map[string]any{}))
		}
	}
}

// breakPattern puts a string at and past what its pattern allows.
func (w *walker) breakPattern(pattern string, path []any) {
	longest := strings.Repeat("x", 249)
	good, bad := []string{"AZaz09._-", longest}, []string{"", longest + "x", "a b", "a/b", "a\n", "é"}
	switch pattern {
	case "^[A-Za-z0-9._-]{1,249}$":
	case "^[ -~]{0,128}$":
		longest = strings.Repeat("~", 127) + " "
		good, bad = []string{"", longest}, []string{longest + "x", "a\n", "\x1f", "\x7f", "é"}
	case "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$":
		good = []string{"AA==", "AP8=", "+/+/", strings.Repeat("AAAA", 64)}
		bad = []string{"A", "AA", "AAA", "AA=", "AA===", "=", "AAAA=", "AA==AAAA", "AP8", "-_-_", "AA AA", "AAAA\n", "AA==\n", "é"}
	default:
		panic("specgen: no vectors for the pattern " + pattern)
	}
	for _, s := range good {
		changed := w.with(path, s)
		w.valid(fmt.Sprintf("%s %.12q, %d characters", where(path), s, len(s)), encode(changed), changed)
	}
	for _, s := range bad {
		w.invalid(fmt.Sprintf("%.12q, %d bytes", s, len(s)), path, w.with(path, s))
	}
}

// border puts a number at and past its bounds.
func (w *walker) border(path []any, low, high int64) {
	number := func(n int64) json.Number { return json.Number(fmt.Sprint(n)) }
	if low != 0 { // 0 in an optional field is as good as absent: not a vector
		changed := w.with(path, number(low))
		w.valid(fmt.Sprintf("%s %d", where(path), low), encode(changed), changed)
	}
	changed := w.with(path, number(high))
	w.valid(fmt.Sprintf("%s %d", where(path), high), encode(changed), changed)
	w.invalid(fmt.Sprint(low-1), path, w.with(path, number(low-1)))
	w.invalid(fmt.Sprint(high+1), path, w.with(path, number(high+1)))
	w.invalid("2^64", path, w.with(path, json.Number("18446744073709551616")))
}

type absent struct{}

func textOf(s string) *string { return &s }

// with gives a copy of the message with another value at path.
func (w *walker) with(path []any, value any) map[string]any {
	out := decode([]byte(encode(w.full)))
	parent := at(out, path[:len(path)-1])
	switch key := path[len(path)-1].(type) {
	case int:
		parent.([]any)[key] = value
	case string:
		if _, gone := value.(absent); gone {
			delete(parent.(map[string]any), key)
		} else {
			parent.(map[string]any)[key] = value
		}
	}
	return out.(map[string]any)
}

func at(v any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case int:
			v = v.([]any)[step]
		case string:
			v = v.(map[string]any)[step]
		}
	}
	return v
}

func where(path []any) string {
	var b strings.Builder
	for i, step := range path {
		if n, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", n)
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step.(string))
	}
	return b.String()
}

// anyVectors are about messages of no known type.
func anyVectors() MessageVectors {
	null := json.RawMessage("null")
	bad := func(name, text string, re int64) InvalidText {
		return InvalidText{Name: name, Text: &text, Code: badMessage, Re: re}
	}
	unknown := func(name, text string, re int64) InvalidText {
		return InvalidText{Name: name, Text: &text, Code: unknownType, Re: re}
	}
	return MessageVectors{
		Type: "any",
		Valid: []ValidText{
			{"unknown type that is optional", `{"type":"zz_news","optional":true,"id":5}`, null},
		},
		Invalid: []InvalidText{
			unknown("unknown type", `{"type":"zz_news"}`, 0),
			unknown("unknown type of a request", `{"type":"zz_news","id":9}`, 9),
			unknown("unknown type, optional false", `{"type":"zz_news","optional":false}`, 0),
			unknown("unknown type, optional 1", `{"type":"zz_news","optional":1}`, 0),
			unknown("type in other case", `{"type":"Progress"}`, 0),
			bad("nothing", "", 0),
			bad("an array", "[]", 0),
			bad("null", "null", 0),
			bad("a string", `"progress"`, 0),
			bad("half an object", `{"type":"progress"`, 0),
			bad("two objects", `{"type":"progress"}{"type":"progress"}`, 0),
			bad("something after the object", `{"type":"progress"}x`, 0),
			bad("no type", `{"id":4}`, 4),
			bad("type in another field", `{"TYPE":"progress"}`, 0),
			bad("type null", `{"type":null,"id":4}`, 4),
			bad("type a number", `{"type":1}`, 0),
			bad("a byte order mark", "\ufeff"+`{"type":"progress"}`, 0),
			bad("a comma too many", `{"type":"progress",}`, 0),
			bad("a line feed in a string", "{\"type\":\"progress\",\"a\":\"\n\"}", 0),
			bad("NaN", `{"type":"progress","a":NaN}`, 0),
			{Name: "not UTF-8", Hex: hex.EncodeToString([]byte("{\"type\":\"progress\",\"a\":\"\xff\"}")), Code: badMessage},
		},
	}
}

func decode(b []byte) any {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		panic(fmt.Sprintf("%s: %v", b, err))
	}
	return v
}

func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimRight(b.String(), "\n")
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		panic(err)
	}
	return b.String()
}
