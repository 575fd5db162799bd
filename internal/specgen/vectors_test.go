package specgen

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/pillion/pillion/internal/codegen"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

const root = "../.."

func schemas(t testing.TB) *Schemas {
	t.Helper()
	s, err := LoadSchemas(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read[T any](t testing.TB, path string) T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var v T
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := Files(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run make generate (or go generate ./...)", path)
		}
	}
	for _, dir := range []string{"vectors/messages", "vectors/frames", "transcripts"} {
		paths, _ := filepath.Glob(filepath.Join(root, "spec", dir, "*"))
		for _, path := range paths {
			rel, _ := filepath.Rel(root, path)
			if files[filepath.ToSlash(rel)] == nil {
				t.Errorf("%s is not generated: remove it", rel)
			}
		}
	}
}

// A message or frame kind without a vector fails here.
func TestEveryKindHasVectors(t *testing.T) {
	codes, err := codegen.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	s := schemas(t)
	for _, m := range codes.Messages {
		v := read[MessageVectors](t, "spec/vectors/messages/"+m.Type+".json")
		fields := len(s.Messages[m.Type].Properties) - 1
		if len(v.Valid) == 0 || (len(v.Invalid) == 0 && fields > 0) {
			t.Errorf("%s has %d valid and %d invalid vectors", m.Type, len(v.Valid), len(v.Invalid))
		}
	}
	if len(s.Messages) != len(codes.Messages) {
		t.Errorf("%d schemas for %d message types", len(s.Messages), len(codes.Messages))
	}
	for _, k := range codes.FrameKinds {
		v := read[FrameVectors](t, "spec/vectors/frames/"+k.Name+".json")
		if len(v.Valid) == 0 || len(v.Invalid) == 0 {
			t.Errorf("%s has %d valid and %d invalid vectors", k.Name, len(v.Valid), len(v.Invalid))
		}
	}
}

func TestMessageVectors(t *testing.T) {
	s := schemas(t)
	paths, _ := filepath.Glob(filepath.Join(root, "spec/vectors/messages/*.json"))
	for _, path := range paths {
		rel, _ := filepath.Rel(root, path)
		v := read[MessageVectors](t, rel)
		for _, good := range v.Valid {
			checkValid(t, s, v.Type+": "+good.Name, good)
		}
		for _, bad := range v.Invalid {
			text, _ := hex.DecodeString(bad.Hex)
			if bad.Text != nil {
				text = []byte(*bad.Text)
			}
			m, err := protocol.Decode(text)
			var refused *protocol.DecodeError
			if !errors.As(err, &refused) || refused.Code != bad.Code || refused.Re != bad.Re {
				t.Errorf("%s: %s: got %+v, %+v; want %s re %d\n%s", v.Type, bad.Name, m, err, bad.Code, bad.Re, text)
			}
			if v.Type != "any" && s.Validate(decode(text)) == nil {
				t.Errorf("%s: %s: the schema accepts it", v.Type, bad.Name)
			}
		}
	}
}

func checkValid(t *testing.T, s *Schemas, name string, good ValidText) {
	m, err := protocol.Decode([]byte(good.Text))
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, good.Text)
		return
	}
	if string(good.Decoded) == "null" {
		if m != nil {
			t.Errorf("%s: got %+v, want nothing", name, m)
		}
		return
	}
	again, err := protocol.Encode(m)
	if err != nil || !reflect.DeepEqual(decode(again), decode(good.Decoded)) {
		t.Errorf("%s:\n got %s, %v\nwant %s", name, again, err, good.Decoded)
	}
	for _, text := range []string{good.Text, string(good.Decoded), string(again)} {
		if err := s.Validate(decode([]byte(text))); err != nil {
			t.Errorf("%s: the schema refuses it: %v\n%s", name, err, text)
		}
	}
}

func TestFrameVectors(t *testing.T) {
	for _, kind := range []string{"records", "restore", "writes"} {
		v := read[FrameVectors](t, "spec/vectors/frames/"+kind+".json")
		for _, good := range v.Valid {
			b, _ := hex.DecodeString(good.Hex)
			for shift := range 8 {
				shifted := append(bytes.Repeat([]byte{0xaa}, shift), b...)[shift:]
				f, err := frame.Parse(shifted)
				if err != nil {
					t.Errorf("%s: %s: %v", kind, good.Name, err)
					break
				}
				if got := FormOf(f); encode(got) != encode(good.Frame) {
					t.Errorf("%s: %s:\n got %s\nwant %s", kind, good.Name, encode(got), encode(good.Frame))
				}
			}
			for n := range b {
				if _, err := frame.Parse(b[:n]); err == nil {
					t.Errorf("%s: %s: accepted %d of %d bytes", kind, good.Name, n, len(b))
				}
			}
			if _, err := frame.Parse(append(bytes.Clone(b), 0)); err == nil {
				t.Errorf("%s: %s: accepted a byte too many", kind, good.Name)
			}
		}
		for _, bad := range v.Invalid {
			b, _ := hex.DecodeString(bad.Hex)
			_, err := frame.Parse(b)
			var refused *frame.Error
			if !errors.As(err, &refused) || string(refused.Reason) != bad.Reason {
				t.Errorf("%s: %s: got %v, want reason %s", kind, bad.Name, err, bad.Reason)
			}
		}
	}
}

// The builder gives the same bytes wherever the vector uses no more columns than needed.
func TestBuilderGivesTheBytesOfTheVectors(t *testing.T) {
	same := 0
	for _, kind := range []frame.Kind{frame.Records, frame.Restore, frame.Writes} {
		v := read[FrameVectors](t, "spec/vectors/frames/"+kind.String()+".json")
		for _, good := range v.Valid {
			want, _ := hex.DecodeString(good.Hex)
			f, err := frame.Parse(want)
			if err != nil {
				t.Fatal(err)
			}
			b := frame.NewBuilder(kind)
			b.WithTimestamps(f.Has(frame.FlagTimestamps))
			b.SetLogAppendTime(f.Has(frame.FlagLogAppendTime))
			b.Reset(f.Stream, f.Epoch, f.Base)
			for r := range f.Records {
				b.Append(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers)
			}
			got := b.Finish(nil, f.Next, f.Checkpoint())
			if header, _ := frame.ParseHeader(got); header.Flags == f.Flags {
				same++
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %s:\n got %x\nwant %x", kind, good.Name, got, want)
				}
			}
		}
	}
	if same < 30 {
		t.Errorf("only %d vectors compared", same)
	}
}

// FormOf gives a parsed frame in decoded form.
func FormOf(f *frame.Frame) Frame {
	out := Frame{Kind: f.Kind.String(), Stream: f.Stream, Epoch: f.Epoch, Records: []Record{},
		LogAppendTime: f.Has(frame.FlagLogAppendTime), Checkpoint: string(f.Checkpoint())}
	if f.Kind == frame.Writes {
		out.Commit = long(f.Base)
	} else {
		out.Base, out.Next = long(f.Base), long(f.Next)
	}
	for r := range f.Records {
		rec := Record{Key: r.Key, Value: r.Value}
		if f.Kind != frame.Writes {
			rec.Offset = long(r.Offset)
		}
		if f.Has(frame.FlagTimestamps) {
			rec.Timestamp = long(r.Timestamp)
		}
		for k, v := range frame.Headers(r.Headers) {
			rec.Headers = append(rec.Headers, [2]Bytes{k, v})
		}
		out.Records = append(out.Records, rec)
	}
	return out
}
