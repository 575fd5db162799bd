package fetch

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func request(t testing.TB, version int16, parts ...asked) (*exchange, *kmsg.FetchRequest) {
	t.Helper()
	x := newExchange(parts, newRoom(1<<20, newFreeList(0)))
	x.wait, x.maxBytes = 500e6, 4<<20
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(version)
	if x.IsFlexible(version) != req.IsFlexible() || x.Key() != req.Key() {
		t.Fatalf("v%d: flexible %v", version, x.IsFlexible(version))
	}
	b := x.AppendTo([]byte("head"), version)
	if err := req.ReadFrom(b[4:]); err != nil {
		t.Fatalf("v%d: %v", version, err)
	}
	if again := req.AppendTo([]byte("head")); !bytes.Equal(again, b) {
		t.Fatalf("v%d:\n got %x\nwant %x", version, b, again)
	}
	return x, req
}

var ids = [][16]byte{{1}, {2}, {3}}

func threeTopics() []asked {
	var parts []asked
	for i, name := range []string{"a", "b", "a", "c", "b", "a"} {
		parts = append(parts, asked{
			topic: name, id: ids[name[0]-'a'], partition: int32(i), epoch: int32(i) - 1, offset: int64(100 * i), limit: 1 << 20,
			grant: grant{free: 1 << 20},
		})
	}
	return parts
}

func TestRequestIsWhatItSays(t *testing.T) {
	for _, version := range []int16{11, 12, 13} {
		_, req := request(t, version, threeTopics()...)
		if req.ReplicaID != -1 || req.MaxWaitMillis != 500 || req.MinBytes != 1 || req.MaxBytes != 4<<20 ||
			req.IsolationLevel != 1 || req.SessionID != 0 || req.SessionEpoch != -1 || req.Rack != "" {
			t.Errorf("v%d: %+v", version, req)
		}
		var got []int32
		for _, topic := range req.Topics {
			for _, p := range topic.Partitions {
				got = append(got, p.Partition)
				want := threeTopics()[p.Partition]
				if p.FetchOffset != want.offset || p.CurrentLeaderEpoch != want.epoch || p.PartitionMaxBytes != want.limit {
					t.Errorf("v%d: %+v", version, p)
				}
				if version >= 13 && topic.TopicID != want.id || version < 13 && topic.Topic != want.topic {
					t.Errorf("v%d: topic %q %x", version, topic.Topic, topic.TopicID)
				}
			}
		}
		if !slices.Equal(got, []int32{0, 2, 5, 1, 4, 3}) {
			t.Errorf("v%d: order %v: the first stays first, topics are together", version, got)
		}
	}
}

func TestVersionByIDsOnlyWhenAllAreKnown(t *testing.T) {
	parts := threeTopics()
	if x := newExchange(parts, nil); x.MaxVersion() != 13 || x.MinVersion() != 11 {
		t.Error(x.MinVersion(), x.MaxVersion())
	}
	parts[3].id = [16]byte{}
	if x := newExchange(parts, nil); x.MaxVersion() != 11 {
		t.Error(x.MaxVersion())
	}
}

// answerTo makes a response to a request, in another order than that of the request.
func answerTo(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	res := req.ResponseKind().(*kmsg.FetchResponse)
	for _, topic := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
		for _, p := range topic.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition = p.Partition
			rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = p.FetchOffset+50, p.FetchOffset+40, p.FetchOffset-3
			rp.RecordBatches = bytes.Repeat([]byte{byte(p.Partition)}, 10*int(p.Partition))
			for i := range p.Partition {
				abort := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				abort.ProducerID, abort.FirstOffset = int64(i), int64(2*i)
				rp.AbortedTransactions = append(rp.AbortedTransactions, abort)
			}
			if p.Partition == 3 {
				rp.ErrorCode = 6
				rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = 9, 8
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		slices.Reverse(rt.Partitions)
		res.Topics = append(res.Topics, rt)
	}
	slices.Reverse(res.Topics)
	return res
}

func TestResponseIsParsedAsItStreams(t *testing.T) {
	for _, version := range []int16{11, 12, 13} {
		x, req := request(t, version, threeTopics()...)
		b := answerTo(req).AppendTo(nil)
		readers := map[string]io.Reader{"whole": bytes.NewReader(b), "by bytes": iotest.OneByteReader(bytes.NewReader(b))}
		for name, r := range readers {
			if err := x.ReadBody(r, len(b), version); err != nil {
				t.Fatalf("v%d %s: %v", version, name, err)
			}
			for _, p := range x.parts {
				want := bytes.Repeat([]byte{byte(p.partition)}, 10*int(p.partition))
				if !p.answered || p.high != p.offset+50 || p.stable != p.offset+40 || p.start != p.offset-3 || len(p.aborted) != int(p.partition) {
					t.Errorf("v%d %s: %+v", version, name, p)
				}
				if (p.buf == nil) != (len(want) == 0) || p.buf != nil && !bytes.Equal(p.buf.b, want) {
					t.Errorf("v%d %s: partition %d has other bytes", version, name, p.partition)
				}
				if (p.code == 6) != (p.partition == 3) {
					t.Errorf("v%d %s: partition %d has code %d", version, name, p.partition, p.code)
				}
			}
		}
		for cut := range len(b) {
			if err := x.ReadBody(bytes.NewReader(b[:cut]), len(b), version); err == nil {
				t.Fatalf("v%d: no error when %d of %d bytes arrive", version, cut, len(b))
			}
			if err := x.ReadBody(bytes.NewReader(b), cut, version); err == nil {
				t.Fatalf("v%d: no error when the response says %d of %d bytes", version, cut, len(b))
			}
		}
	}
}

func TestResponseThatWasNotAskedFor(t *testing.T) {
	for name, change := range map[string]func(*kmsg.FetchResponse){
		"another topic":     func(r *kmsg.FetchResponse) { r.Topics[0].Topic = "z" },
		"a topic more":      func(r *kmsg.FetchResponse) { r.Topics = append(r.Topics, r.Topics[0]) },
		"a topic twice":     func(r *kmsg.FetchResponse) { r.Topics[1] = r.Topics[0] },
		"another partition": func(r *kmsg.FetchResponse) { r.Topics[0].Partitions[0].Partition = 77 },
		"a partition twice": func(r *kmsg.FetchResponse) { r.Topics[2].Partitions[1] = r.Topics[2].Partitions[0] },
	} {
		x, req := request(t, 11, threeTopics()...)
		res := answerTo(req)
		change(res)
		b := res.AppendTo(nil)
		if err := x.ReadBody(bytes.NewReader(b), len(b), 11); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestHostileLengths has a response claim what is not there: it ends in an error, and in little
// memory.
func TestHostileLengths(t *testing.T) {
	for _, version := range []int16{11, 13} {
		x, req := request(t, version, threeTopics()...)
		b := answerTo(req).AppendTo(nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range b {
			for _, v := range []byte{0x7f, 0xff, 0x80} {
				bad := bytes.Clone(b)
				for j := i; j < min(i+4, len(bad)); j++ {
					bad[j] = v
				}
				_ = x.ReadBody(bytes.NewReader(bad), 1<<30, version)
				x.drop()
			}
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / uint64(3*len(b)); each > 256<<10 {
			t.Errorf("v%d: %d bytes are allocated for a hostile response of %d", version, each, len(b))
		}
	}
}

func TestRecordsWithoutRoomAreSkipped(t *testing.T) {
	parts := threeTopics()
	for i := range parts {
		parts[i].grant = grant{free: 10}
	}
	x, req := request(t, 13, parts...)
	x.room.limit = 35 // 40 of partition 5 do not fit, 10 of partition 2 and 20 of 3 do, 30 of 4 not any more
	b := answerTo(req).AppendTo(nil)
	if err := x.ReadBody(bytes.NewReader(b), len(b), 13); err != nil {
		t.Fatal(err)
	}
	held := int64(0)
	for _, p := range x.parts {
		if p.buf != nil {
			held += p.buf.taken
		} else if p.refused != 10*int(p.partition) {
			t.Errorf("partition %d: refused %d", p.partition, p.refused)
		}
	}
	if held != x.room.held() || held > 35 || held == 0 {
		t.Errorf("%d bytes held, the room says %d", held, x.room.held())
	}
	x.drop()
	if x.room.held() != 0 {
		t.Error("the room is not given back")
	}
}

func FuzzResponse(f *testing.F) {
	for _, version := range []int16{11, 12, 13} {
		_, req := request(f, version, threeTopics()...)
		f.Add(version, answerTo(req).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, b []byte) {
		version = 11 + (version%3+3)%3
		x := newExchange(threeTopics(), newRoom(1<<16, newFreeList(0)))
		err := x.ReadBody(bytes.NewReader(b), len(b), version)
		if held := x.room.held(); held > 1<<16 {
			t.Errorf("%d bytes held", held)
		}
		for _, p := range x.parts {
			if err == nil && p.buf != nil && len(p.buf.b) > len(b) {
				t.Error("more records than bytes")
			}
		}
		x.drop()
		if x.room.held() != 0 {
			t.Error("the room is not given back")
		}
	})
}
