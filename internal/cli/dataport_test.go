package cli

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/restore"
	"github.com/pillion/pillion/session"
)

func TestStreamFault(t *testing.T) {
	large := &fetch.RecordTooLargeError{Topic: "in", Partition: 2, Offset: 7, Size: 300, Limit: 200, What: "frame"}
	gone := &fetch.UnknownTopicError{Topic: "in", Partition: 2}
	for _, c := range []struct {
		err           error
		code, message string
	}{
		{fmt.Errorf("reading task words/2: %w", large), protocol.CodeRecordTooLarge,
			`the record at offset 7 of topic "in", partition 2, needs a frame of 300 bytes, but this worker takes 200; raise max_frame in the worker, or write smaller records to the topic`},
		{fmt.Errorf("reading task words/2: %w", gone), protocol.CodeUnknownTopic,
			`partition 2 of topic "in" does not exist any more; create it, or declare the topic that is meant`},
		{errors.New("odd"), protocol.CodeInternal, "odd"},
	} {
		if code, message := streamFault(c.err); code != c.code || message != c.message {
			t.Errorf("%v: got %s, %s", c.err, code, message)
		}
	}
}

func TestWhatAReplayTellsIsPassedOn(t *testing.T) {
	var got []session.Event
	events := restoreEvents{func(ev session.Event) { got = append(got, ev) }}
	r := restore.Request{Stream: 3}
	events.Progress(r, restore.Progress{Records: 1, Bytes: 2, Rate: 4, Remaining: 5, ETA: 6 * time.Second, Waits: "a transaction"})
	events.Progress(r, restore.Progress{ETA: -1})
	want := []session.Event{
		session.ReplayProgress{Stream: 3, Records: 1, Bytes: 2, Rate: 4, Remaining: 5, EtaMS: 6000, WaitsFor: "a transaction"},
		session.ReplayProgress{Stream: 3, EtaMS: -1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}
