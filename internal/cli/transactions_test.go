package cli

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pillion/pillion/groupclient"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/produce"
)

// A take-over that comes late, of a membership that is over, does not put its incarnation in the place of the
// present one. The producer before the present one ends when nobody uses it any more.
func TestAnIncarnationDoesNotComeBack(t *testing.T) {
	client, err := kafka.New(kafka.Config{Bootstrap: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	producer, err := produce.New(produce.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	var parts errgroup.Group
	x := &transactions{producer: producer, run: func(run func(context.Context) error) {
		parts.Go(func() error { return run(t.Context()) })
	}}
	enter := func(id string) *incarnation {
		t.Helper()
		in, err := x.enter("g", id)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	first := enter("first")
	if enter("first") != first {
		t.Error("an incarnation has two producers")
	}
	second := enter("second")
	if _, err := x.enter("g", "first"); !errors.Is(err, groupclient.ErrLost) {
		t.Fatalf("got %v, want that the membership is lost", err)
	}
	if x.current != second || second.retired {
		t.Error("the present producer has been replaced")
	}
	x.leave(first)
	x.leave(first)
	x.leave(second)
	second.stop()
	if err := parts.Wait(); err != nil { // the first one was ended by its last user
		t.Error(err)
	}
}
