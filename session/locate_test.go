package session

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/protocol"
)

func partition(n int32) *int32 { return &n }

// What is asked for is found in the declarations, or refused in words; Kafka is not asked then.
func TestWhatIsAskedFor(t *testing.T) {
	declared := Prepared{Group: "g", Globals: []PreparedGlobal{{Name: "everywhere", Topic: "up"}}, Sets: []PreparedSet{
		{Name: "a", Sources: []string{"in"}, Partitions: 4, Tables: []PreparedTable{{Name: "t"}, {Name: "both"}}},
		{Name: "b", Sources: []string{"more"}, Partitions: 2, Tables: []PreparedTable{{Name: "both"}}},
	}}
	for name, c := range map[string]struct {
		ask  protocol.Locate
		set  string // empty: refused
		why  string
		code string
	}{
		"a table":                {protocol.Locate{Table: "t", Key: "AP8="}, "a", "", ""},
		"the empty key":          {protocol.Locate{Table: "t"}, "a", "", ""},
		"a set and partition":    {protocol.Locate{Set: "b", Partition: partition(1)}, "b", "", ""},
		"a table of two sets":    {protocol.Locate{Set: "b", Table: "both"}, "b", "", ""},
		"which of two":           {protocol.Locate{Table: "both"}, "", `the sets "a" and "b" both have a table "both"`, protocol.CodeUnknownTable},
		"nothing":                {protocol.Locate{}, "", "neither a table nor a set", protocol.CodeUnknownTable},
		"an unknown table":       {protocol.Locate{Table: "x"}, "", `no table "x"`, protocol.CodeUnknownTable},
		"a table of another set": {protocol.Locate{Set: "b", Table: "t"}, "", `no table "t"`, protocol.CodeUnknownTable},
		"an unknown set":         {protocol.Locate{Set: "x"}, "", `no set "x"`, protocol.CodeUnknownTable},
		"a global table":         {protocol.Locate{Table: "everywhere"}, "", "every worker has all of it", protocol.CodeUnknownTable},
		"past the partitions":    {protocol.Locate{Set: "b", Partition: partition(2)}, "", "partitions 0 to 1", protocol.CodeUnknownTable},
		"a key and a partition":  {protocol.Locate{Set: "b", Key: "AP8=", Partition: partition(1)}, "", "not both", protocol.CodeBadMessage},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := NewMachine(Config{RevokeTimeout: 1})
			if err != nil {
				t.Fatal(err)
			}
			m.worker, m.prepared = &worker{conn: 1, prepared: true}, &declared
			c.ask.ID = 9
			effects, err := m.Step(m.now, Received{Conn: 1, Message: c.ask})
			if err != nil || len(effects) == 0 {
				t.Fatal(effects, err)
			}
			switch e := effects[len(effects)-1].(type) {
			case Locate:
				if e.Ask.Set.Name != c.set || e.Re != 9 || e.Ask.Group != "g" {
					t.Fatalf("asked for %+v", e)
				}
			case Send:
				no, _ := e.Message.(protocol.Error)
				if c.set != "" || no.Re != 9 || no.Code != c.code || !strings.Contains(no.Message, c.why) {
					t.Fatalf("answered %+v", e.Message)
				}
			default:
				t.Fatalf("%T", e)
			}
		})
	}
}

// A question is answered once, on its own connection, and so many may be open.
func TestQuestionsAreAnswered(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(s.from(protocol.Locate{ID: 2, Table: "t"}), "send 1 error 2 joining")
	s.on(PreparedOK{Conn: 1, Prepared: oneTable}, "join")
	for i := range int64(maxLocates) {
		if _, err := s.m.Step(s.now, s.from(protocol.Locate{ID: 3 + i, Table: "t"})); err != nil {
			t.Fatal(err)
		}
	}
	s.on(s.from(protocol.Locate{ID: 999, Table: "t"}), "send 1 error 999 not_allowed")
	s.on(Answered{Conn: 1, Message: protocol.Located{Re: 3, Set: "s", Task: "s/0"}}, "send 1 located s/0 3")
	s.on(s.from(protocol.Locate{ID: 1000, Table: "t"}), "locate")
	s.on(Disconnected{Conn: 1})
	s.on(Answered{Conn: 1, Message: protocol.Located{Re: 4, Set: "s", Task: "s/0"}})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(Answered{Conn: 1, Message: protocol.Located{Re: 5, Set: "s", Task: "s/0"}})
}

type locatorFunc func(context.Context, Whereabouts) (protocol.Located, error)

func (f locatorFunc) Locate(ctx context.Context, ask Whereabouts) (protocol.Located, error) {
	return f(ctx, ask)
}

// What the group edge says reaches the worker: its answer, its refusal, or that Kafka is silent.
func TestHowAQuestionEnds(t *testing.T) {
	r, err := NewRunner(Config{RevokeTimeout: 1}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want protocol.Message
	}{
		{nil, protocol.Located{Re: 4, Set: "s", Task: "s/0"}},
		{&RefusedError{protocol.CodeKafkaRefused, "no"}, protocol.Error{Re: 4, Code: protocol.CodeKafkaRefused, Message: "no"}},
		{errors.New("silence"), protocol.Error{Re: 4, Code: protocol.CodeKafkaUnreachable, Message: "silence"}},
	} {
		r.ports.Locator = locatorFunc(func(context.Context, Whereabouts) (protocol.Located, error) {
			return protocol.Located{Set: "s", Task: "s/0"}, c.err
		})
		got := r.locate(t.Context(), Locate{Conn: 7, Re: 4}).(Answered)
		located, _ := got.Message.(protocol.Located)
		if want, ok := c.want.(protocol.Located); ok && (located.Re != want.Re || located.Task != want.Task) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if _, ok := c.want.(protocol.Error); ok && got.Message != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}
