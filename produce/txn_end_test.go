package produce

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAnEndThatIsNotAnsweredIsAskedAgain(t *testing.T) {
	for name, h := range map[string]hook{"answer lost": answerLost(only(1, 2)), "request lost": requestLost(only(1, 2)),
		"no coordinator": answered(only(1, 2), endTxnCode(codeCoordinatorUnavailable)), "concurrent": answered(only(1, 2), endTxnCode(codeConcurrent))} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, 0)
			f.must("a")
			epoch := f.x.id.epoch
			f.on(kmsg.EndTxn, h)
			f.must("b")
			f.must("c")
			f.has("a", "b", "c")
			f.stop()
			bumped := f.x.id.epoch != epoch
			if doubt := name != "concurrent"; bumped != doubt {
				t.Errorf("the epoch went from %d to %d", epoch, f.x.id.epoch)
			}
		})
	}
}

func TestAnEndThatIsNeverAnsweredIsUnknownUntilTheEpochChanges(t *testing.T) {
	f := newFaulty(t, 0)
	f.on(kmsg.EndTxn, answerLost(always))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := f.x.Commit(ctx, unitOf("out", "a"))
	unknown := unknownOf(t, err)
	if closed(unknown.Ended) || errors.Is(err, ErrFenced) {
		t.Errorf("ended %v, %v", closed(unknown.Ended), err)
	}
	f.off(kmsg.EndTxn)
	<-unknown.Ended
	if n := f.count(kmsg.InitProducerID); n != 2 {
		t.Errorf("InitProducerId was sent %d times", n)
	}
	f.must("b")
	f.has("a", "b")
}

func TestFencedAtTheEnd(t *testing.T) {
	for _, code := range []int16{codeOldEpoch, codeProducerFenced, codeInvalidMapping} {
		f := newFaulty(t, 0)
		f.on(kmsg.EndTxn, answered(always, endTxnCode(code)))
		err := f.commit("a")
		if unknown := (*UnknownError)(nil); !errors.Is(err, ErrFenced) || errors.As(err, &unknown) {
			t.Errorf("the first EndTxn answered %d: %v", code, err)
		}

		f = newFaulty(t, 0)
		f.on(kmsg.EndTxn, func(n int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
			if n == 1 {
				return answerLost(always)(n, req, send)
			}
			return endTxnCode(code)(req), nil
		})
		err = f.commit("a")
		if unknown := unknownOf(t, err); !errors.Is(err, ErrFenced) {
			t.Errorf("EndTxn answered %d after one without an answer: %v", code, err)
		} else {
			<-unknown.Ended
		}
		if err := f.commit("b"); !errors.Is(err, ErrFenced) {
			t.Errorf("after the fence: %v", err)
		}
		f.has("a") // the first EndTxn was carried out
	}
}

func TestARefusedRepetitionOfTheEndTellsNothing(t *testing.T) {
	f := newFaulty(t, 0)
	f.on(kmsg.EndTxn, func(n int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		switch n {
		case 1:
			return answerLost(always)(n, req, send)
		case 2:
			return endTxnCode(codeInvalidTxnState)(req), nil
		}
		return send()
	})
	err := f.commit("a")
	if unknown := unknownOf(t, err); errors.Is(err, ErrFenced) {
		t.Errorf("got %v", err)
	} else {
		<-unknown.Ended
	}
	f.must("b")
	f.has("a", "b")
}

func TestTheFirstEndRefusedIsTriedInANewTransaction(t *testing.T) {
	for _, code := range []int16{codeInvalidTxnState, codeAbortable} {
		f := newFaulty(t, 0)
		f.on(kmsg.EndTxn, answered(only(1), endTxnCode(code)))
		f.must("a")
		f.has("a")

		// It is told where its rows are, not where those were that were aborted.
		f.on(kmsg.EndTxn, answered(only(1), endTxnCode(code)))
		r, err := f.x.Commit(limited(t), Unit{Writes: []Write{changelog("table", 0, writes(kv("row", "")))}, Positions: at(0, 2)})
		if at := r.Changelogs["table"]; err != nil || at.Base != 2 || at.Next != 3 || at.LeaderEpoch < 0 { // a row and a marker are before
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// INVARIANT: after a request that was sent and not answered, the epoch changes before the next
// transaction begins.
func TestTheEpochChangesAfterEveryDoubt(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		for name, h := range map[string]hook{"answer": answerLost(only(1)), "request": requestLost(only(1))} {
			t.Run(key.Name()+" "+name, func(t *testing.T) {
				f := newFaulty(t, 0)
				f.must("a")
				f.on(key, h)
				f.on(kmsg.InitProducerID, nil)
				f.must("b")
				f.must("c")
				if n := f.count(kmsg.InitProducerID); n != 1 {
					t.Errorf("InitProducerId was sent %d times", n)
				}
				f.has("a", "b", "c")
			})
		}
	}
}

// INVARIANT: nothing of a transaction comes behind the answer that it is committed: where positions may be under
// way once more, that is given under the next epoch.
func TestCommittedIsAnsweredBehindTheNextEpochAfterADoubt(t *testing.T) {
	f := newFaulty(t, 0)
	f.on(kmsg.TxnOffsetCommit, answerLost(only(1)))
	h, begun, release := held()
	f.on(kmsg.InitProducerID, h)
	done := commitLater(t, f.x, unitOf("out", "a"))
	<-begun
	select {
	case r := <-done:
		release()
		t.Fatalf("answered before the epoch has changed: %v", r.err)
	case <-time.After(100 * time.Millisecond): // what would come comes at once
	}
	release()
	if r := get(t, done); r.err != nil {
		t.Error(r.err)
	}
	f.has("a")
}

// INVARIANT: InitProducerId never goes out with (-1, -1) again.
func TestTheIDIsTakenOnlyOnce(t *testing.T) {
	f := newFaulty(t, 0)
	f.on(kmsg.InitProducerID, func(_ int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		if r := req.(*kmsg.InitProducerIDRequest); r.ProducerID < 0 || r.ProducerEpoch < 0 {
			t.Errorf("InitProducerId (%d, %d)", r.ProducerID, r.ProducerEpoch)
		}
		return send()
	})
	f.on(kmsg.EndTxn, answerLost(only(1)))
	f.must("a")
	f.must("b")
	f.on(kmsg.InitProducerID, answered(always, func(kmsg.Request) kmsg.Response { return &kmsg.InitProducerIDResponse{ErrorCode: codeProducerFenced} }))
	f.on(kmsg.EndTxn, answerLost(only(1)))
	f.must("c") // what has a definite end is told, whatever comes after
	if err := f.commit("d"); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v", err)
	}
	f.has("a", "b", "c")
}
