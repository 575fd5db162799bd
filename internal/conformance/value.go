package conformance

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pillion/pillion/protocol/frame"
)

// data is a key or value as scenarios write it: null, a string (its UTF-8 bytes), {"hex": "00ff"}, or
// {"repeat": "x", "times": 1000}. Nil is null.
type data []byte

// UnmarshalJSON reads any of the forms.
func (d *data) UnmarshalJSON(raw []byte) error {
	*d = nil
	if string(raw) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*d = append(data{}, text...)
		return nil
	}
	var form struct {
		Hex    string `json:"hex"`
		Repeat string `json:"repeat"`
		Times  int    `json:"times"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&form); err != nil {
		return fmt.Errorf("%.80s is no key or value: %w", raw, err)
	}
	bytes, err := hex.DecodeString(form.Hex)
	*d = append(append(data{}, bytes...), strings.Repeat(form.Repeat, form.Times)...)
	return err
}

// String is for people.
func (d data) String() string {
	switch {
	case d == nil:
		return "null"
	case len(d) > 60:
		return fmt.Sprintf("%.40q… (%d bytes)", []byte(d), len(d))
	}
	return fmt.Sprintf("%q", []byte(d))
}

func (d data) equal(o data) bool { return (d == nil) == (o == nil) && bytes.Equal(d, o) }

// record is [key, value], [offset, key, value] or an object with these names, headers and timestamp.
// Without an offset it is the next one.
type record struct {
	Offset    *int64    `json:"offset"`
	Key       data      `json:"key"`
	Value     data      `json:"value"`
	Headers   [][2]data `json:"headers"`
	Timestamp *int64    `json:"timestamp"`
}

// UnmarshalJSON reads any of the forms.
func (r *record) UnmarshalJSON(raw []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		type plain record
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		return dec.Decode((*plain)(r))
	}
	if len(list) == 3 {
		if err := json.Unmarshal(list[0], &r.Offset); err != nil {
			return err
		}
		list = list[1:]
	}
	if len(list) != 2 {
		return fmt.Errorf("%.80s: a record is [key, value] or [offset, key, value]", raw)
	}
	if err := json.Unmarshal(list[0], &r.Key); err != nil {
		return err
	}
	return json.Unmarshal(list[1], &r.Value)
}

// section is the record's headers as they stand in a frame.
func (r record) section() []byte {
	var raw []byte
	for _, h := range r.Headers {
		raw = frame.AppendHeader(raw, h[0], h[1])
	}
	return raw
}

func (r record) stamp() int64 {
	if r.Timestamp == nil {
		return 0
	}
	return *r.Timestamp
}

// number gives every record an offset; the first one without any is at next.
func number(records []record, next int64) ([]record, int64) {
	out := make([]record, len(records))
	for i, r := range records {
		at := next
		if r.Offset != nil {
			at = *r.Offset
		}
		r.Offset = &at
		out[i], next = r, at+1
	}
	return out, next
}
