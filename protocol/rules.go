package protocol

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// MaxInteger is the largest number in a message: every language reads it exactly.
const MaxInteger = 1<<53 - 1

// field is one field of a message as its tags describe it.
type field struct {
	index    int
	name     string // JSON name
	optional bool
	rule     rule
}

// rule bounds a value. The zero rule allows everything.
type rule struct {
	nonempty bool // strings, slices, maps
	name     bool // the characters of a topic's name
	point    bool // a checkpoint: printable ASCII, at most MaxCheckpoint
	base64   bool // bytes in standard base64 with its padding
	filled   bool // the strings in a slice are not empty; the slice may be
	bounded  bool // numbers, also those in a map
	min      int64
	oneOf    []string
}

// plans holds the fields of every struct that messages are made of.
var plans = func() map[reflect.Type][]field {
	all := map[reflect.Type][]field{}
	for _, t := range kinds {
		addPlan(all, t)
	}
	return all
}()

func addPlan(all map[reflect.Type][]field, t reflect.Type) {
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Map:
		addPlan(all, t.Elem())
	case reflect.Struct:
		if all[t] != nil {
			return
		}
		fields := []field{}
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, field{index: i, name: name, optional: options == "omitempty", rule: parseRule(f.Tag.Get("rule"))})
			addPlan(all, f.Type)
		}
		all[t] = fields
	}
}

func parseRule(tag string) rule {
	var r rule
	if values, ok := strings.CutPrefix(tag, "oneof="); ok {
		r.oneOf = strings.Fields(values)
		return r
	}
	for _, word := range strings.Fields(tag) {
		switch word {
		case "nonempty":
			r.nonempty, r.filled = true, true
		case "filled":
			r.filled = true
		case "name":
			r.name = true
		case "checkpoint":
			r.point = true
		case "base64":
			r.base64 = true
		}
		if bound, ok := strings.CutPrefix(word, "min="); ok {
			r.bounded = true
			r.min, _ = strconv.ParseInt(bound, 10, 64)
		}
	}
	return r
}

// assign sets v from a decoded JSON value. Names are compared exactly.
func assign(v reflect.Value, raw any, where string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if raw == nil {
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return assign(v.Elem(), raw, where)
	case reflect.String:
		s, ok := raw.(string)
		if !ok {
			return wrong(where, "a string")
		}
		v.SetString(s)
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, err := integer(raw)
		if err != nil || v.OverflowInt(n) {
			return wrong(where, "an integer in range")
		}
		v.SetInt(n)
	case reflect.Uint32:
		n, err := integer(raw)
		if err != nil || n < 0 || n > math.MaxUint32 {
			return wrong(where, "an unsigned 32-bit integer")
		}
		v.SetUint(uint64(n))
	case reflect.Bool:
		b, ok := raw.(bool)
		if !ok {
			return wrong(where, "true or false")
		}
		v.SetBool(b)
	case reflect.Slice:
		return assignSlice(v, raw, where)
	case reflect.Map:
		return assignMap(v, raw, where)
	case reflect.Struct:
		return assignStruct(v, raw, where)
	}
	return nil
}

func assignStruct(v reflect.Value, raw any, where string) error {
	object, ok := raw.(map[string]any)
	if !ok {
		return wrong(where, "an object")
	}
	for _, f := range plans[v.Type()] {
		value, there := object[f.name]
		if !there && f.optional {
			continue
		}
		if !there {
			return fmt.Errorf("%s: is missing", join(where, f.name))
		}
		if value == nil {
			return fmt.Errorf("%s: must not be null", join(where, f.name))
		}
		if err := assign(v.Field(f.index), value, join(where, f.name)); err != nil {
			return err
		}
	}
	return nil
}

func assignSlice(v reflect.Value, raw any, where string) error {
	list, ok := raw.([]any)
	if !ok {
		return wrong(where, "an array")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, element := range list {
		if err := assign(v.Index(i), element, fmt.Sprintf("%s[%d]", where, i)); err != nil {
			return err
		}
	}
	return nil
}

func assignMap(v reflect.Value, raw any, where string) error {
	object, ok := raw.(map[string]any)
	if !ok {
		return wrong(where, "an object")
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(object)))
	for name, element := range object {
		key := reflect.New(v.Type().Key()).Elem()
		if key.Kind() == reflect.String {
			key.SetString(name)
		} else {
			n, err := strconv.ParseUint(name, 10, 32)
			if err != nil || strconv.FormatUint(n, 10) != name {
				return fmt.Errorf("%s: %.32q is no stream", where, name)
			}
			key.SetUint(n)
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if err := assign(value, element, join(where, name)); err != nil {
			return err
		}
		v.SetMapIndex(key, value)
	}
	return nil
}

// integer reads a JSON number that is written as an integer and exact everywhere.
func integer(raw any) (int64, error) {
	number, ok := raw.(json.Number)
	if !ok {
		return 0, errors.New("not a number")
	}
	n, err := strconv.ParseInt(number.String(), 10, 64)
	if err != nil || n > MaxInteger || n < -MaxInteger {
		return 0, errors.New("not an integer in range")
	}
	return n, nil
}

// checkRules compares a struct with the rule tags of its fields.
func checkRules(v reflect.Value, where string) error {
	for _, f := range plans[v.Type()] {
		value := v.Field(f.index)
		if f.optional && value.IsZero() {
			continue
		}
		if err := checkValue(value, f.rule, join(where, f.name)); err != nil {
			return err
		}
	}
	return nil
}

func checkValue(v reflect.Value, r rule, where string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return checkValue(v.Elem(), r, where)
		}
	case reflect.Struct:
		return checkRules(v, where)
	case reflect.String:
		if r.filled && v.Len() == 0 {
			return wrong(where, "not empty")
		}
		if r.name && !isName(v.String()) {
			return wrong(where, "1 to 249 letters, digits, '.', '_' or '-'")
		}
		if r.point && !isCheckpoint(v.String()) {
			return wrong(where, "at most 128 printable ASCII characters")
		}
		if r.base64 && !isBase64(v.String()) {
			return wrong(where, "base64 with its padding")
		}
		if r.oneOf != nil && !slices.Contains(r.oneOf, v.String()) {
			return wrong(where, "one of "+strings.Join(r.oneOf, ", "))
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return checkNumber(v.Int(), r, where)
	case reflect.Uint32:
		return checkNumber(int64(v.Uint()), r, where)
	case reflect.Slice, reflect.Map:
		if r.nonempty && v.Len() == 0 {
			return wrong(where, "not empty")
		}
		return checkElements(v, r, where)
	}
	return nil
}

func checkElements(v reflect.Value, r rule, where string) error {
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			if err := checkValue(v.Index(i), r, fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
		return nil
	}
	for it := v.MapRange(); it.Next(); {
		if err := checkValue(it.Value(), r, join(where, fmt.Sprint(it.Key()))); err != nil {
			return err
		}
	}
	return nil
}

func checkNumber(n int64, r rule, where string) error {
	if r.bounded && n < r.min {
		return wrong(where, fmt.Sprintf("at least %d", r.min))
	}
	if n > MaxInteger || n < -MaxInteger {
		return wrong(where, "within 2^53-1")
	}
	return nil
}

// isName says whether s may name a set or a table: what may name a topic.
func isName(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 249
}

// isBase64 looks at the form: the bits that padding leaves over may be anything.
func isBase64(s string) bool {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip them
		return false
	}
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil
}

func isCheckpoint(s string) bool {
	for _, c := range []byte(s) {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return len(s) <= 128
}

func wrong(where, want string) error { return fmt.Errorf("%s: must be %s", where, want) }

func join(where, name string) string {
	if where == "" {
		return name
	}
	if len(name) > 64 {
		name = name[:64]
	}
	return where + "." + name
}
