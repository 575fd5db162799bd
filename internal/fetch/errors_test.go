package fetch

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// TestRules has each code of the table answered three times before data, and looks at what is done.
func TestRules(t *testing.T) {
	if len(rules) < 25 {
		t.Fatal("the table has lost rows")
	}
	for number, rule := range rules {
		t.Run(fmt.Sprint(kerr.ErrorForCode(number)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				bad := func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) { return code(req, number), nil }
				good := func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) { return data(t, req, 3), nil }
				s.steps(bad, bad, bad, good)
				f, stop := scripted(t, s, nil)
				defer stop()
				c := newCollector(t)
				in := part("t", 0, c)
				in.TopicID, in.Until = ids[0], 3
				f.Add(in)
				err := c.end()
				forgot, refreshed := s.count("forget"), s.count("refresh")
				switch rule {
				case fatal:
					if got, ok := kafka.CodeOf(err); !ok || got != number || forgot+refreshed > 0 {
						t.Errorf("%v, %d times forgotten", err, forgot)
					}
				case retry:
					if err != nil || forgot != 0 || refreshed != 3 {
						t.Errorf("%v, %d times forgotten, %d refreshed", err, forgot, refreshed)
					}
				case outOfRange: // the range says that it is not
					if err != nil || s.count("offsets -2 false") == 0 {
						t.Errorf("%v, %v", err, s.calls)
					}
				default:
					if err != nil || forgot != 3 || refreshed != 3 {
						t.Errorf("%v, %d times forgotten, %d refreshed", err, forgot, refreshed)
					}
				}
			})
		})
	}
}

// always answers every fetch alike.
func always(c int16) func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	return func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) { return code(req, c), nil }
}

// ending runs a partition on a script until it ends.
func ending(t *testing.T, prepare func(*script, *Partition)) (*script, *collector, error) {
	t.Helper()
	s, c := newScript(), newCollector(t)
	var err error
	synctest.Test(t, func(t *testing.T) {
		c.t = t
		c.changed = make(chan struct{})
		in := part("t", 0, c)
		in.TopicID = ids[0]
		prepare(s, &in)
		f, stop := scripted(t, s, nil)
		defer stop()
		f.Add(in)
		err = c.end()
	})
	return s, c, err
}

func TestOutOfRangeIsAskedTwice(t *testing.T) {
	s, _, err := ending(t, func(s *script, in *Partition) {
		s.steps(always(codeOutOfRange))
		s.earliest, s.latest, in.Offset = 10, 20, 5
	})
	out := as[*OutOfRangeError](t, err)
	if out.Position != 5 || out.LogStart != 10 || out.End != 20 {
		t.Errorf("%+v", out)
	}
	if s.count("leader") != 2 || s.count("forget") != 1 || s.count("refresh") != 1 {
		t.Errorf("it is to be asked twice, the leader looked up in between: %v", s.calls)
	}
}

func TestOutOfRangeByAnOldLeaderIsNoLoss(t *testing.T) {
	s, c, err := ending(t, func(s *script, in *Partition) {
		first := func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			s.change(func() { s.leader, s.epoch = 2, 6 })
			return code(req, codeOutOfRange), nil
		}
		s.steps(first, func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) { return data(t, req, 2), nil })
		in.Until = 2
	})
	if err != nil || len(c.records) != 2 || s.count("offsets -2 false") != 0 {
		t.Errorf("%v, %v", err, s.calls)
	}
}

func TestTruncation(t *testing.T) {
	s, _, err := ending(t, func(s *script, in *Partition) {
		s.end = kafka.Offset{Offset: 90, LeaderEpoch: 3}
		in.Offset, in.LastEpoch = 100, 4
	})
	cut := as[*TruncatedError](t, err)
	if cut.EndOffset != 90 || cut.EndEpoch != 3 || cut.LastEpoch != 4 || cut.Position != 100 || s.count("epoch end 4") != 1 {
		t.Errorf("%+v, %v", cut, s.calls)
	}
	// It is asked again at each resume, for the epoch of the last batch that was read.
	s, c, err := ending(t, func(s *script, in *Partition) {
		in.Offset, in.LastEpoch = 100, 4
		s.steps(func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) { return data(t, req, 10), nil },
			func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
				s.change(func() { s.end.Offset = 105 })
				return code(req, codeNotLeader), nil
			})
	})
	as[*TruncatedError](t, err)
	if s.count("epoch end 4") != 1 || s.count("epoch end 5") != 1 || c.pos.Next != 110 {
		t.Errorf("%+v, %v", c.pos, s.calls)
	}
	// Without an epoch there is nothing to ask.
	s, _, err = ending(t, func(s *script, in *Partition) {
		s.steps(func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) { return data(t, req, 10), nil })
		in.Offset, in.Until, s.end.Offset = 100, 110, 90
	})
	if err != nil || strings.Contains(strings.Join(s.calls, " "), "epoch end") {
		t.Errorf("%v, %v", err, s.calls)
	}
}

func TestRecreatedTopic(t *testing.T) {
	for name, prepare := range map[string]func(*script){
		"at the start": func(s *script) { s.id = ids[1] },
		"while it is read": func(s *script) {
			s.steps(func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
				s.change(func() { s.id = ids[1] })
				return code(req, codeUnknownTopicID), nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := ending(t, func(s *script, _ *Partition) { prepare(s) })
			other := as[*RecreatedError](t, err)
			if other.Was != ids[0] || other.Is != ids[1] || s.count("refresh") < 2 {
				t.Errorf("%+v: to be seen twice in fresh metadata: %v", other, s.calls)
			}
		})
	}
}

func TestFetchNamesTopicByID(t *testing.T) {
	_, _, err := ending(t, func(s *script, in *Partition) {
		s.steps(func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			if req.Version != 13 || req.Topics[0].TopicID != ids[0] || req.Topics[0].Partitions[0].CurrentLeaderEpoch != 5 {
				t.Errorf("v%d %+v", req.Version, req.Topics)
			}
			return data(t, req, 1), nil
		})
		in.TopicID, in.Until = [16]byte{}, 1
	})
	if err != nil {
		t.Error(err)
	}
}

func TestUnknownTopicMayAppear(t *testing.T) {
	_, _, err := ending(t, func(s *script, in *Partition) {
		s.topicErr = &kafka.Error{Code: codeUnknownTopic, What: "topic t"}
	})
	as[*UnknownTopicError](t, err)
	_, _, err = ending(t, func(s *script, in *Partition) {
		s.topicErr = &kafka.Error{Code: codeUnknownTopic, What: "topic t"}
		time.AfterFunc(20*time.Second, func() { s.change(func() { s.topicErr = nil }) })
		s.steps(func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) { return data(t, req, 1), nil })
		in.Until = 1
	})
	if err != nil {
		t.Error(err)
	}
	_, _, err = ending(t, func(s *script, in *Partition) { in.Partition = 10 })
	as[*UnknownTopicError](t, err)
}

func TestConnectionsAreRetriedForEver(t *testing.T) {
	_, c, err := ending(t, func(s *script, in *Partition) {
		n := 0
		s.steps(func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			if n++; n < 60 {
				return nil, io.ErrUnexpectedEOF
			}
			return data(t, req, 1), nil
		})
		in.Until = 1
	})
	if err != nil || len(c.records) != 1 {
		t.Error(err)
	}
}

func TestCorruptBytesAreFetchedAgain(t *testing.T) {
	for _, times := range []int{maxCorrupt, maxCorrupt + 1} {
		_, c, err := ending(t, func(s *script, in *Partition) {
			n := 0
			s.steps(func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
				if req.Topics[0].Partitions[0].FetchOffset > 0 {
					return data(t, req, 2), nil // one request ahead
				}
				if n++; n > times {
					return data(t, req, 2), nil
				}
				return reply(req, func(p kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) {
					out.RecordBatches = handmade{base: p.FetchOffset, records: kv(2), badCRC: true}.encode(t)
				}), nil
			})
			in.Until = 2
		})
		if times > maxCorrupt {
			as[*CorruptError](t, err)
		} else if err != nil || len(c.records) != 2 {
			t.Error(err)
		}
	}
}

func TestSinkErrorStopsThePartition(t *testing.T) {
	no := errors.New("no")
	_, _, err := ending(t, func(s *script, in *Partition) {
		s.steps(func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) { return data(t, req, 1), nil })
		in.Sink.(*collector).refuse = no
	})
	if err != no {
		t.Errorf("%v, want the sink's own error", err)
	}
}

func TestErrorsAreSentences(t *testing.T) {
	for _, err := range []error{
		&OutOfRangeError{Topic: "t"}, &TruncatedError{Topic: "t"}, &RecreatedError{Topic: "t"}, &UnknownTopicError{Topic: "t"},
		&RecordTooLargeError{Topic: "t", What: "batch"}, &CorruptError{Topic: "t"}, &FormatError{Topic: "t"},
	} {
		if len(err.Error()) < 20 || !strings.Contains(err.Error(), "t") {
			t.Errorf("%T: %v", err, err)
		}
	}
}
