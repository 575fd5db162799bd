package specgen

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Schema is the part of JSON Schema (draft 2020-12) that spec/schema uses. A keyword that is not
// here is an error, so that no rule is silently ignored.
type Schema struct {
	Dialect              string             `json:"$schema,omitempty"`
	ID                   string             `json:"$id,omitempty"`
	Ref                  string             `json:"$ref,omitempty"`
	Defs                 map[string]*Schema `json:"$defs,omitempty"`
	Title                string             `json:"title,omitempty"`
	Description          string             `json:"description,omitempty"`
	Type                 types              `json:"type,omitempty"`
	Const                any                `json:"const,omitempty"`
	Enum                 []any              `json:"enum,omitempty"`
	Minimum              *int64             `json:"minimum,omitempty"`
	Maximum              *int64             `json:"maximum,omitempty"`
	MinLength            int                `json:"minLength,omitempty"`
	MinItems             int                `json:"minItems,omitempty"`
	MinProperties        int                `json:"minProperties,omitempty"`
	Items                *Schema            `json:"items,omitempty"`
	Properties           map[string]*Schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	AdditionalProperties *Schema            `json:"additionalProperties,omitempty"`
	PropertyNames        *Schema            `json:"propertyNames,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Examples             []json.RawMessage  `json:"examples,omitempty"`
}

// types is one type name or several.
type types []string

func (t *types) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(t))
	}
	*t = types{""}
	return json.Unmarshal(b, &(*t)[0])
}

// Schemas holds the schema of each message type, and what they share.
type Schemas struct {
	common   *Schema
	Messages map[string]*Schema
}

// LoadSchemas reads spec/schema under the root of the repository.
func LoadSchemas(root string) (*Schemas, error) {
	paths, err := filepath.Glob(filepath.Join(root, "spec", "schema", "*.json"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no schemas under %s: %w", root, err)
	}
	all := &Schemas{Messages: map[string]*Schema{}}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		dec := json.NewDecoder(f)
		dec.DisallowUnknownFields()
		var s Schema
		err = dec.Decode(&s)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if s.ID != name+".json" || s.Dialect != "https://json-schema.org/draft/2020-12/schema" {
			return nil, fmt.Errorf("%s: wrong $id or $schema", path)
		}
		if name == "common" {
			all.common = &s
		} else {
			all.Messages[name] = &s
		}
	}
	if all.common == nil {
		return nil, fmt.Errorf("spec/schema/common.json is missing")
	}
	return all, nil
}

// resolve follows a reference into common.json.
func (a *Schemas) resolve(s *Schema) *Schema {
	for s.Ref != "" {
		target := a.common.Defs[strings.TrimPrefix(s.Ref, "common.json#/$defs/")]
		if target == nil {
			panic("spec/schema: unknown reference " + s.Ref)
		}
		s = target
	}
	return s
}

// Validate checks a message, decoded with json.Number, against the schema of its type.
func (a *Schemas) Validate(message any) error {
	object, ok := message.(map[string]any)
	if !ok {
		return fmt.Errorf("not an object")
	}
	name, _ := object["type"].(string)
	s := a.Messages[name]
	if s == nil {
		return fmt.Errorf("no schema of type %q", name)
	}
	return a.validate(s, message, name)
}

func (a *Schemas) validate(s *Schema, v any, where string) error {
	s = a.resolve(s)
	if s.Const != nil && s.Const != v {
		return fmt.Errorf("%s: must be %v", where, s.Const)
	}
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: must be one of %v", where, s.Enum)
	}
	if s.Type != nil && !slices.Contains(s.Type, typeName(v)) {
		return fmt.Errorf("%s: must be %v, is %s", where, s.Type, typeName(v))
	}
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil || (s.Minimum != nil && n < *s.Minimum) || (s.Maximum != nil && n > *s.Maximum) {
			return fmt.Errorf("%s: %s is out of range", where, v)
		}
	case string:
		if len(v) < s.MinLength || (s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v)) {
			return fmt.Errorf("%s: %q is too short or does not match", where, v)
		}
	case []any:
		if len(v) < s.MinItems {
			return fmt.Errorf("%s: too few items", where)
		}
		for i, item := range v {
			if s.Items != nil {
				if err := a.validate(s.Items, item, fmt.Sprintf("%s[%d]", where, i)); err != nil {
					return err
				}
			}
		}
	case map[string]any:
		return a.validateObject(s, v, where)
	}
	return nil
}

func (a *Schemas) validateObject(s *Schema, v map[string]any, where string) error {
	if len(v) < s.MinProperties {
		return fmt.Errorf("%s: too few properties", where)
	}
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%s.%s: is missing", where, name)
		}
	}
	for name, value := range v {
		if s.PropertyNames != nil {
			if err := a.validate(s.PropertyNames, name, where); err != nil {
				return err
			}
		}
		of := s.Properties[name]
		if of == nil {
			of = s.AdditionalProperties
		}
		if of == nil {
			continue
		}
		if err := a.validate(of, value, where+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if _, err := v.Int64(); err == nil || !strings.ContainsAny(v.String(), ".eE") {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}
