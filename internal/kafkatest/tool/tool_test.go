package tool

import (
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseTopics(t *testing.T) {
	got, err := ParseTopics([]string{"in:3", "table:1:compact"})
	want := []Topic{
		{Name: "in", Partitions: 3},
		{Name: "table", Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "in", ":3", "in:", "in:0", "in:-1", "in:x", "in:1:delete", "in:1:compact:x", "in:99999999999", "in valid:1"} {
		if _, err := ParseTopic(bad); err == nil || !strings.Contains(err.Error(), "topic") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ParseTopics([]string{"in:1", "in:2"}); err == nil {
		t.Error("a topic given twice was taken")
	}
}

func FuzzParseTopic(f *testing.F) {
	for _, s := range []string{"in:3", "t:1:compact", "", "a:b:c:d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if topic, err := ParseTopic(s); err == nil && (topic.Name == "" || topic.Partitions < 1) {
			t.Errorf("%q gave %+v", s, topic)
		}
	})
}

func TestLifetimeEndsWithItsParent(t *testing.T) {
	r, w := io.Pipe()
	ctx, stop := Lifetime(true, r)
	defer stop()
	if _, err := w.Write([]byte("still here\n")); err != nil || ctx.Err() != nil {
		t.Fatalf("ended early: %v, %v", err, ctx.Err())
	}
	w.Close()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), ErrParentGone) {
		t.Fatalf("cause %v", context.Cause(ctx))
	}
}

func TestLifetimeWithoutParent(t *testing.T) {
	ctx, stop := Lifetime(false, strings.NewReader(""))
	if ctx.Err() != nil {
		t.Fatal("ended at once")
	}
	stop()
	<-ctx.Done()
}

func TestIsPipe(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if IsPipe(null) || !IsPipe(r) {
		t.Fatalf("null %v, pipe %v", IsPipe(null), IsPipe(r))
	}
}
