package produce

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/protocol"
)

func TestTheGuiltyFailsAlone(t *testing.T) {
	own := errors.New("not ours any more")
	for name, c := range map[string]struct {
		before func(f *faulty)
		guilty Unit
		check  func(t *testing.T, err error)
	}{
		"too large": {
			func(f *faulty) { f.on(kmsg.Produce, eachProduced("table", codeTooLarge)) }, unitOf("table", "bad"),
			func(t *testing.T, err error) { rejectedAs(t, err, protocol.CodeRecordTooLarge) },
		},
		"no right to write": {
			func(f *faulty) {
				f.on(kmsg.AddPartitionsToTxn, func(_ int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
					resp := eachAdded(req, func(topic string, _ int32) int16 {
						if topic == "table" {
							return codeTopicDenied
						}
						return codeNotAttempted
					})
					if wholeCode(resp) == codeNone && len(resp.Topics) > 1 {
						return resp, nil
					}
					return send()
				})
			}, unitOf("table", "bad"),
			func(t *testing.T, err error) { rejectedAs(t, err, protocol.CodeKafkaRefused) },
		},
		"positions": {
			func(*faulty) {}, Unit{Writes: []Write{output("out", writes(kv("bad", "")))}, Positions: func() (Positions, error) { return Positions{}, own }},
			func(t *testing.T, err error) {
				if !errors.Is(err, own) {
					t.Errorf("got %v", err)
				}
			},
		},
		"metadata": {
			func(f *faulty) {
				f.on(kmsg.TxnOffsetCommit, eachPosition(always, func(r *kmsg.TxnOffsetCommitResponse) {
					for i, topic := range r.Topics {
						for j, p := range topic.Partitions {
							if p.Partition == 3 {
								r.Topics[i].Partitions[j].ErrorCode = codeMetadataTooLarge
							}
						}
					}
				}))
			}, Unit{Writes: []Write{output("out", writes(kv("bad", "")))}, Positions: at(3, 1)},
			func(t *testing.T, err error) { rejectedAs(t, err, protocol.CodeKafkaRefused) },
		},
		"older generation": {
			func(*faulty) {}, Unit{Writes: []Write{output("out", writes(kv("bad", "")))}, Positions: func() (Positions, error) {
				p, err := at(3, 1)()
				p.Generation = -2
				return p, err
			}},
			func(t *testing.T, err error) {
				if !errors.Is(err, ErrGeneration) {
					t.Errorf("got %v", err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, 0)
			f.must("warm")
			c.before(f)
			all := f.together(unitOf("out", "a"), c.guilty, unitOf("out", "b"))
			c.check(t, get(t, all[1]).err)
			for _, i := range []int{0, 2} {
				if r := get(t, all[i]); r.err != nil {
					t.Errorf("%d: %v", i, r.err)
				}
			}
			f.has("warm", "a", "b")
			if got := keys(t, f.addrs, "table"); len(got) != 0 {
				t.Errorf("of the guilty one %v is there", got)
			}
		})
	}
}

func TestASlowKafkaEndsInACleanAbortAndAnotherTransaction(t *testing.T) {
	f := newFaulty(t, time.Second)
	f.must("a")
	f.on(kmsg.Produce, answerLost(only(1, 2, 3, 4, 5)))
	f.must("b")
	f.has("a", "b")
	if n := f.count(kmsg.InitProducerID); n < 2 {
		t.Errorf("InitProducerId was sent %d times", n)
	}
	f.on(kmsg.Produce, requestLost(always))
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	_, err := f.x.Commit(ctx, unitOf("out", "never"))
	rejectedAs(t, err, protocol.CodeKafkaUnreachable)
	f.off(kmsg.Produce)
	f.must("c")
	f.has("a", "b", "c")
}

func TestWhoHoldsATransactionUpGoesApart(t *testing.T) {
	f := newFaulty(t, time.Second)
	f.must("warm")
	slow := eachProduced("table", codeTimedOut) // written, and never acknowledged
	f.on(kmsg.Produce, slow)
	all := f.together(unitOf("out", "a"), unitOf("table", "stuck"), unitOf("out", "b"))
	for _, i := range []int{0, 2} {
		if r := get(t, all[i]); r.err != nil {
			t.Fatal(r.err)
		}
	}
	f.has("warm", "a", "b")
	f.off(kmsg.Produce)
	if r := get(t, all[1]); r.err != nil {
		t.Fatal(r.err)
	}
	equal(t, "table", keys(t, f.addrs, "table"), []string{"stuck"})
}

func TestACallerThatGoesAwayTakesItsUnitAlong(t *testing.T) {
	f := newFaulty(t, 0)
	f.must("a")
	h, begun, release := held()
	f.on(kmsg.Produce, h)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { _, err := f.x.Commit(ctx, unitOf("out", "gone")); gone <- err }()
	<-begun
	cancel()
	err := <-gone // at once, and for certain
	if rejectedAs(t, err, protocol.CodeKafkaUnreachable); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	f.must("b")
	f.has("a", "b")
}

// Positions that the coordinator cannot write in one batch go into several transactions.
func TestTooManyPositionsAreCommittedInParts(t *testing.T) {
	for _, code := range []int16{codeCommitTooLarge, codeServerError} {
		f := newFaulty(t, time.Second)
		f.on(kmsg.TxnOffsetCommit, func(_ int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
			n := 0
			resp := kmsg.NewPtrTxnOffsetCommitResponse()
			for _, topic := range req.(*kmsg.TxnOffsetCommitRequest).Topics {
				answer := kmsg.NewTxnOffsetCommitResponseTopic()
				answer.Topic = topic.Topic
				for _, q := range topic.Partitions {
					answer.Partitions = append(answer.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: q.Partition, ErrorCode: code})
					n++
				}
				resp.Topics = append(resp.Topics, answer)
			}
			if n > 1 {
				return resp, nil
			}
			return send()
		})
		var units []Unit
		for p := range int32(4) {
			units = append(units, Unit{Writes: []Write{output("out", writes(kv(fmt.Sprint(p), "")))}, Positions: at(p, 7)})
		}
		for _, r := range f.together(units...) {
			if r := get(t, r); r.err != nil {
				t.Errorf("answered %d: %v", code, r.err)
			}
		}
		f.has("0", "1", "2", "3")
	}
}

func TestATopicThatIsNotThereHoldsNobodyUp(t *testing.T) {
	f := newFaulty(t, 0)
	f.must("warm")
	missing := true
	f.on(kmsg.AddPartitionsToTxn, func(_ int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		resp := eachAdded(req, func(topic string, _ int32) int16 {
			if topic == "table" {
				return codeUnknownTopic
			}
			return codeNotAttempted
		})
		for _, topic := range resp.Topics {
			if missing && topic.Topic == "table" {
				return resp, nil
			}
		}
		return send()
	})
	all := f.together(unitOf("out", "a"), unitOf("table", "later"), unitOf("out", "b"))
	for _, i := range []int{0, 2} {
		if r := get(t, all[i]); r.err != nil {
			t.Errorf("%d: %v", i, r.err)
		}
	}
	f.has("warm", "a", "b")
	f.mu.Lock()
	missing = false // a broker that has just started knows it now
	f.mu.Unlock()
	if r := get(t, all[1]); r.err != nil {
		t.Error(r.err)
	}
	equal(t, "table", keys(t, f.addrs, "table"), []string{"later"})
}
