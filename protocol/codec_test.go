package protocol

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

var tables = []TableStream{{Name: "t", Topic: "g-t-changelog", Kind: TableChangelog, Stream: 2}}

// samples has one message of every type, with every field set.
var samples = []Message{
	Hello{ID: 1, Versions: []int{1}, Client: Software{"py", "1", "python"}, Features: []string{"f"}, MaxFrame: 1 << 27,
		Credit: Window{1 << 20, 1 << 20}, Group: "g", Level: LevelStandby,
		Sources: []string{"a"}, Tables: []FlatTable{{Name: "t", Changelog: "c", SourceTopic: "x", Sources: []string{"a"}}}, Sets: []Set{{Name: "s", Sources: []string{"a"}, Tables: []Table{{Name: "t", Changelog: "c", SourceTopic: "x"}}}},
		Globals: []Global{{"g", "t"}}, Outputs: []string{"o"}, Replicas: ptr(0), Address: "host:1", Resume: "r"},
	Welcome{Re: 1, Version: 1, Session: "s", Sidecar: Software{Name: "pillion", Version: "1"}, Features: []string{"f"}, Group: "g",
		Guarantee: "at_least_once", Limits: Limits{1, 1, 1, 2}, Credit: Window{1, 1}, Deadlines: Deadlines{1, 0, 0}, Resume: "r"},
	Assign{ID: 1, Task: "s/0", Set: "s", Partition: 0, Role: RoleActive, Epoch: 1, Sources: []SourceStream{{"a", 1, 0}}, Tables: tables, Outputs: []OutputStream{{"o", 3}}},
	Opened{Re: 1, Task: "s/0", Epoch: 1, Checkpoints: map[string]*string{"t": nil, "u": ptr("v1:x")}},
	Restoring{Task: "s/0", Epoch: 1, Table: "t", Records: 1, Bytes: 2, Rate: 3, Remaining: 4, ETA: -1},
	Restored{ID: 2, Task: "s/0", Epoch: 1},
	Ready{Re: 2, Task: "s/0", Epoch: 1},
	Promoted{ID: 3, Task: "s/0", Epoch: 2, Sources: []SourceStream{{"a", 4, 9}}, Tables: tables, Outputs: []OutputStream{{"o", 5}}},
	Demoted{Task: "s/0", Epoch: 3, Tables: tables},
	Revoke{ID: 4, Task: "s/0", Epoch: 1, DeadlineMS: 10000, Code: CodeRebalance},
	Released{Re: 4, Task: "s/0", Epoch: 1},
	Lost{Task: "s/0", Epoch: 1, Code: CodeFenced, Message: "m"},
	Reset{ID: 5, Task: "s/0", Epoch: 1, Table: "t", Stream: 2, NextOffset: 7, Code: CodeTruncated, Message: "m"},
	Commit{ID: 2, Task: "s/0", Epoch: 1, SourceNext: map[string]int64{"a": MaxInteger}},
	Committed{Re: 2, Task: "s/0", Epoch: 1, Checkpoints: map[string]string{"t": "v1:y"}},
	Aborted{Re: 2, Task: "s/0", Epoch: 1, Code: CodeNullKey, Message: "<m> & more"},
	Stale{Re: 2, Task: "s/0", Epoch: 1},
	Unknown{Re: 2, Task: "s/0", Epoch: 1, Code: CodeKafkaUnreachable, Message: "m"},
	Locate{ID: 3, Table: "t", Set: "s", Key: "AP8=", Partition: ptr(int32(0))},
	Located{Re: 3, Set: "s", Partition: 1, Task: "s/1", Active: &Holder{"m", "host:1"}, Standbys: []Shadow{{"n", "host:2", -1}}, Stale: true},
	Waiting{Code: CodeOk, Message: "m"},
	Progress{},
	Credit{Connection: 1, Streams: map[uint32]int64{1: 2, math.MaxUint32: 3}},
	Error{Re: 1, Code: CodeNotAllowed, Message: "m", Task: "s/0", Epoch: 1, Stream: 2},
}

// INVARIANT: what Encode returns, Decode accepts, and nothing is changed on the way.
func TestRoundTrip(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range samples {
		b, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(b)
		if err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%s\n got %+v, %v\nwant %+v", b, back, err, m)
		}
		seen[m.Type()] = true
	}
	if len(seen) != len(kinds) {
		t.Fatalf("%d of %d types have a sample", len(seen), len(kinds))
	}
	if b, err := Encode(&Ready{Re: 2, Task: "s/0", Epoch: 1}); err != nil || !strings.HasPrefix(string(b), `{"type":"ready","re":2`) {
		t.Fatalf("pointer: %s, %v", b, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		in, code string
		re       int64
		has      string
	}{
		{``, CodeBadMessage, 0, "not JSON"},
		{`[]`, CodeBadMessage, 0, "not a JSON object"},
		{`null`, CodeBadMessage, 0, "not a JSON object"},
		{`{} {}`, CodeBadMessage, 0, "more than one"},
		{"{\"type\":\"\xff\"}", CodeBadMessage, 0, "UTF-8"},
		{`{"id":7}`, CodeBadMessage, 7, "type"},
		{`{"type":1}`, CodeBadMessage, 0, "type"},
		{`{"Type":"progress"}`, CodeBadMessage, 0, "type"},
		{`{"type":"dance","id":7}`, CodeUnknownType, 7, `"dance"`},
		{`{"type":"dance","optional":1}`, CodeUnknownType, 0, `"dance"`},
		{`{"type":"released","task":"a/0","epoch":1}`, CodeBadMessage, 0, "re: is missing"},
		{`{"type":"released","re":1,"task":null,"epoch":1}`, CodeBadMessage, 0, "task: must not be null"},
		{`{"type":"released","re":1.0,"task":"a/0","epoch":1}`, CodeBadMessage, 0, "re: must be an integer"},
		{`{"type":"released","re":1e1,"task":"a/0","epoch":1}`, CodeBadMessage, 0, "re: must be an integer"},
		{`{"type":"released","re":"1","task":"a/0","epoch":1}`, CodeBadMessage, 0, "re: must be an integer"},
		{`{"type":"released","re":1,"task":"a/0","epoch":4294967296}`, CodeBadMessage, 0, "epoch: must be an unsigned"},
		{`{"type":"released","re":1,"task":"a/0","epoch":0}`, CodeBadMessage, 0, "epoch: must be at least 1"},
		{`{"type":"commit","id":3,"task":"a/0","epoch":1,"source_next":{}}`, CodeBadMessage, 3, "source_next: must be not empty"},
		{`{"type":"commit","id":3,"task":"a/0","epoch":1,"source_next":{"a":9007199254740992}}`, CodeBadMessage, 3, "source_next.a"},
		{`{"type":"commit","id":3,"task":"a/0","epoch":1,"source_next":{"a":-1}}`, CodeBadMessage, 3, "source_next.a: must be at least 0"},
		{`{"type":"commit","id":9007199254740992,"task":"a/0","epoch":1,"source_next":{"a":1}}`, CodeBadMessage, 0, "id"},
		{`{"type":"credit","streams":{"01":5}}`, CodeBadMessage, 0, "no stream"},
		{`{"type":"credit","streams":[]}`, CodeBadMessage, 0, "an object"},
		{`{"type":"hello","id":1,"versions":[],"client":{"name":"a","version":"1"},"max_frame":1,"credit":{"connection":1,"stream":1}}`, CodeBadMessage, 1, "versions"},
		{`{"type":"hello","id":1,"versions":[1],"client":{"name":"a"},"max_frame":1,"credit":{"connection":1,"stream":1}}`, CodeBadMessage, 1, "client.version: is missing"},
		{`{"type":"hello","id":1,"versions":[1],"client":{"name":"a","version":"1"},"max_frame":1,"credit":{"connection":1,"stream":1},"sets":[{"name":"s","sources":[""]}]}`, CodeBadMessage, 1, "sets[0].sources[0]: must be not empty"},
	} {
		m, err := Decode([]byte(c.in))
		var bad *DecodeError
		if !errors.As(err, &bad) || bad.Code != c.code || bad.Re != c.re || !strings.Contains(bad.Message, c.has) {
			t.Errorf("%s\n got %v, %+v\nwant %s with %q, re %d", c.in, m, err, c.code, c.has, c.re)
		}
		if bad != nil && bad.Fatal() != (c.code == CodeBadMessage && c.re == 0) {
			t.Errorf("%s: fatal %v", c.in, bad.Fatal())
		}
	}
}

func TestDecodeTolerates(t *testing.T) {
	for in, want := range map[string]Message{
		`{"type":"dance","optional":true,"x":[1]}`:                                 nil,
		` {"type":"progress","more":{"a":1},"optional":true} `:                     Progress{},
		`{"type":"released","re":1,"re":2,"task":"a/0","epoch":1,"RE":"x"}`:        Released{Re: 2, Task: "a/0", Epoch: 1},
		`{"type":"error","code":"x","message":""}`:                                 Error{Code: "x"},
		`{"type":"opened","re":1,"task":"a/0","epoch":1,"checkpoints":{"t":null}}`: Opened{Re: 1, Task: "a/0", Epoch: 1, Checkpoints: map[string]*string{"t": nil}},
		`{"type":"credit"}`: Credit{},
		`{"type":"committed","re":1,"task":"a/0","epoch":1}`: Committed{Re: 1, Task: "a/0", Epoch: 1},
	} {
		got, err := Decode([]byte(in))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", in, got, err)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, m := range []Message{nil, (*Ready)(nil), Ready{}, Commit{ID: 1, Task: "a/0", Epoch: 1},
		Restored{ID: MaxInteger + 1, Task: "a/0", Epoch: 1}, Assign{ID: 1, Task: "a/0", Set: "a", Epoch: 1, Role: "boss"}, strange{}} {
		if b, err := Encode(m); err == nil {
			t.Errorf("%#v: got %s", m, b)
		}
	}
}

type strange struct{}

func (strange) Type() string { return TypeHello }

func TestRequestID(t *testing.T) {
	for _, m := range samples {
		id := reflect.ValueOf(m).FieldByName("ID")
		if id.IsValid() != (RequestID(m) != 0) || (id.IsValid() && id.Int() != RequestID(m)) {
			t.Errorf("%s: %d", m.Type(), RequestID(m))
		}
	}
}

func TestEveryTypeHasASide(t *testing.T) {
	for name := range kinds {
		if !FromWorker(name) && !FromSidecar(name) {
			t.Errorf("%s is from nobody", name)
		}
	}
	if FromWorker(TypeAssign) || FromSidecar(TypeCommit) {
		t.Error("a type is from the wrong side")
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples {
		b, _ := Encode(m)
		f.Add(b)
	}
	f.Add([]byte(`{"type":"credit","streams":{"-1":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			var bad *DecodeError
			if !errors.As(err, &bad) || m != nil {
				t.Fatalf("%v, %v", m, err)
			}
			return
		}
		if m == nil {
			return
		}
		again, err := Encode(m)
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
