// Package specgen makes the vectors and transcripts of spec/ and holds a small JSON Schema validator
// for them. It belongs to the specification, not to the sidecar: only tests and gen/ use it.
//
// Flow: message vectors are derived from the schemas in spec/schema (each rule kept at its border
// and broken once); frame vectors and transcripts are written here by hand, and their bytes are laid
// out by a plain writer of its own. Files gives every file; the command under gen/ writes them (make
// generate), and a test fails when one on disk differs.
//
// The package must never use package protocol or package frame outside of its tests, or the vectors
// would only say that the codecs agree with themselves. Output must not depend on anything but the
// schemas: no time, no randomness, no map order.
package specgen

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
)

// Files gives every generated file of spec/: path under the root of the repository, and text.
func Files(root string) (map[string][]byte, error) {
	schemas, err := LoadSchemas(root)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	all := []MessageVectors{anyVectors()}
	for _, name := range slices.Sorted(maps.Keys(schemas.Messages)) {
		all = append(all, schemas.messageVectors(name))
	}
	for _, v := range all {
		out["spec/vectors/messages/"+v.Type+".json"] = file("type", v.Type, v.Valid, v.Invalid)
	}
	for _, kind := range []string{"records", "restore", "writes"} {
		v := frameVectors(kind)
		out["spec/vectors/frames/"+kind+".json"] = file("kind", v.Kind, v.Valid, v.Invalid)
	}
	for name, script := range transcripts() {
		out["spec/transcripts/"+name+".jsonl"] = script.out.Bytes()
	}
	return out, nil
}

// file writes a vector file with one vector a line.
func file[V, I any](what, name string, valid []V, invalid []I) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  %q: %q,\n  \"valid\": [\n", what, name)
	lines(&b, valid)
	b.WriteString("  ],\n  \"invalid\": [\n")
	lines(&b, invalid)
	b.WriteString("  ]\n}\n")
	return b.Bytes()
}

func lines[T any](b *bytes.Buffer, rows []T) {
	for i, row := range rows {
		b.WriteString("    " + encode(row))
		if i < len(rows)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
}
