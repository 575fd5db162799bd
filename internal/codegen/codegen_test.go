package codegen

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pillion/pillion/protocol/frame"
)

const root = "../.."

func load(t *testing.T) Codes {
	t.Helper()
	c, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := Files(load(t))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run make generate (or go generate ./...)", path)
		}
	}
}

func TestFrameConstantsAreThoseOfTheSpecification(t *testing.T) {
	c := load(t)
	flags := map[string]frame.Flags{
		"timestamps": frame.FlagTimestamps, "log_append_time": frame.FlagLogAppendTime,
		"offset_deltas": frame.FlagOffsetDeltas, "headers": frame.FlagHeaders,
		"null_values": frame.FlagNullValues, "null_keys": frame.FlagNullKeys,
	}
	for _, f := range c.FrameFlags {
		if int(flags[f.Name]) != f.Bit {
			t.Errorf("flag %s: %d in Go, %d in the specification", f.Name, flags[f.Name], f.Bit)
		}
	}
	for _, k := range c.FrameKinds {
		if frame.Kind(k.Kind).String() != k.Name {
			t.Errorf("kind %d: %s in Go, %s in the specification", k.Kind, frame.Kind(k.Kind), k.Name)
		}
	}
	if len(c.FrameFlags) != len(flags) || len(c.FrameKinds) != 3 {
		t.Error("a flag or kind is missing")
	}
}

func TestCheckRefuses(t *testing.T) {
	for name, change := range map[string]func(*Codes){
		"given twice":         func(c *Codes) { c.ErrorCodes = append(c.ErrorCodes, c.ErrorCodes[0]) },
		"unknown message":     func(c *Codes) { c.Messages[0].Answer = []string{"nothing"} },
		"is from":             func(c *Codes) { c.Messages[0].From = "nobody" },
		"the unknown message": func(c *Codes) { c.ErrorCodes[0].In = []string{"nothing"} },
	} {
		c := load(t)
		change(&c)
		if err := c.check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}
