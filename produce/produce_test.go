package produce

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

func TestCommitLandsWholeAndFaithful(t *testing.T) {
	testFaithful(t, kafkatest.Fake(t).Addrs())
}

// testFaithful is what must hold on every Kafka.
func testFaithful(t *testing.T, addrs []string) {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			table, out := "table-"+codec, "out-"+codec
			kafkatest.CreateTopic(t, addrs, table, 4, map[string]string{"cleanup.policy": "compact"})
			kafkatest.CreateTopic(t, addrs, out, 4, nil)
			p := running(t, Config{Compression: codec}, newClient(t, addrs))
			headers := frame.AppendHeader(nil, []byte("h"), []byte{0, 1})
			headers = frame.AppendHeader(headers, []byte("h"), nil)
			headers = frame.AppendHeader(headers, []byte(""), []byte{})
			at := time.Now().UnixMilli()
			records := []rec{
				{key: []byte("a"), value: []byte(strings.Repeat("x", 5000)), at: at, headers: headers},
				{key: []byte{}, value: []byte{}, at: at - 5},
				{key: []byte("b"), at: at + 7},
			}
			r, err := p.Write(limited(t), []Write{
				changelog(table, 3, writes(records...), writes(rec{key: []byte("c"), at: at})),
				output(out, writes(records...)),
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Changelogs[table]; got.Base != 0 || got.Next != 4 || got.TopicID != kafkatest.TopicID(t, addrs, table) || r.Records != 7 {
				t.Errorf("result %+v", r)
			}
			read := kafkatest.ReadAll(t, addrs, table, true)
			equal(t, "changelog", text(read), []string{
				fmt.Sprintf("3@0 %q=%q", "a", strings.Repeat("x", 5000)), `3@1 ""=""`, `3@2 "b"=null`, `3@3 "c"=null`})
			if read[0].Timestamp.UnixMilli() != at || read[1].Timestamp.UnixMilli() != at-5 || read[2].Timestamp.UnixMilli() != at+7 {
				t.Errorf("timestamps %v %v %v, want about %d", read[0].Timestamp, read[1].Timestamp, read[2].Timestamp, at)
			}
			if got := r.Changelogs[table].LeaderEpoch; got != read[3].LeaderEpoch {
				t.Errorf("leader epoch %d, the batch has %d", got, read[3].LeaderEpoch)
			}
			h := read[0].Headers
			if len(h) != 3 || h[0].Key != "h" || !bytes.Equal(h[0].Value, []byte{0, 1}) || h[1].Value != nil || h[2].Value == nil {
				t.Errorf("headers %v", h)
			}
			for _, r := range kafkatest.ReadAll(t, addrs, out, true) {
				if want := KeyPartition(r.Key, 4); r.Partition != want {
					t.Errorf("key %q in partition %d, want %d", r.Key, r.Partition, want)
				}
			}
		})
	}
}

func TestSecondCommitFollowsTheFirst(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "table", 1, nil)
	p := running(t, Config{}, newClient(t, fake.Addrs()))
	for i := range int64(5) {
		r, err := p.Write(limited(t), []Write{changelog("table", 0, writes(kv("a", "1"), kv("b", "2")))})
		if err != nil {
			t.Fatal(err)
		}
		if at := r.Changelogs["table"]; at.Base != 2*i || at.Next != 2*i+2 {
			t.Errorf("commit %d landed at %+v", i, at)
		}
	}
}

func TestBatchesStayUnderTheLimits(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "table", 1, map[string]string{"max.message.bytes": "3000"})
	p := running(t, Config{Compression: "none"}, newClient(t, fake.Addrs()))
	var records []rec
	var want []string
	for i := range 200 {
		records = append(records, kv(fmt.Sprint(i), strings.Repeat("v", 10*i)))
		want = append(want, fmt.Sprintf("0@%d %q=%q", i, fmt.Sprint(i), strings.Repeat("v", 10*i)))
	}
	if _, err := p.Write(limited(t), []Write{changelog("table", 0, writes(records...))}); err != nil {
		t.Fatal(err)
	}
	equal(t, "records", text(kafkatest.ReadAll(t, fake.Addrs(), "table", true)), want)
}

func TestRefusedBeforeAnythingIsSent(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "table", 2, map[string]string{"max.message.bytes": "1000"})
	fake.Topic(t, "out", 2, nil)
	p := running(t, Config{}, newClient(t, fake.Addrs()))
	good := output("out", writes(kv("k", "v")))
	restore := frame.NewBuilder(frame.Restore)
	restore.Reset(1, 1, 0)
	for _, c := range []struct {
		name, code string
		write      Write
		says       []string
	}{
		{"null key", protocol.CodeNullKey, changelog("table", 0, writes(rec{value: []byte("v"), at: -1})), []string{`"table"`}},
		{"too large", protocol.CodeRecordTooLarge, output("table", writes(kv("k", strings.Repeat("v", 1000)))), []string{`"table"`, "takes 1071 bytes", "allows 1000"}},
		{"kind", protocol.CodeBadMessage, changelog("table", 0, restore.Finish(nil, 0, nil)), []string{"restore frame"}},
		{"garbage", protocol.CodeBadMessage, changelog("table", 0, []byte("hello")), []string{"bad frame"}},
		{"time", protocol.CodeBadMessage, changelog("table", 0, writes(rec{key: []byte("k"), at: -2})), []string{"timestamp -2"}},
		{"topic", protocol.CodeUnknownTopic, output("nowhere", writes(kv("k", "v"))), []string{`"nowhere"`}},
		{"partition", protocol.CodeUnknownTopic, changelog("table", 2, writes(kv("k", "v"))), []string{"partition 2", "it has 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			commit := []Write{good, c.write}
			_, err := p.Write(limited(t), commit)
			for _, err := range []error{err, p.Check(limited(t), commit)} {
				var rejected *RejectedError
				if !errors.As(err, &rejected) || rejected.Code != c.code {
					t.Fatalf("got %v, want %s", err, c.code)
				}
				for _, part := range c.says {
					if !strings.Contains(rejected.Message, part) {
						t.Errorf("%q does not say %q", rejected.Message, part)
					}
				}
			}
		})
	}
	if got := kafkatest.ReadAll(t, fake.Addrs(), "out", false); len(got) != 0 {
		t.Errorf("%d records were written", len(got))
	}
}

// A record that just fits goes, one byte more does not.
func TestLimitIsExact(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "table", 1, map[string]string{"max.message.bytes": "1000"})
	p := running(t, Config{Compression: "none"}, newClient(t, fake.Addrs()))
	largest := 0
	for n := 850; n < 1000; n++ {
		if p.Check(limited(t), []Write{changelog("table", 0, writes(kv("k", strings.Repeat("v", n))))}) == nil {
			largest = n
		}
	}
	if _, err := p.Write(limited(t), []Write{changelog("table", 0, writes(kv("k", strings.Repeat("v", largest))))}); err != nil {
		t.Fatal(err)
	}
	k := new(packer)
	k.reset()
	k.add(frame.Record{Key: []byte("k"), Value: make([]byte, largest)}, 1)
	if k.size() != 1000 {
		t.Errorf("the largest record makes a batch of %d bytes", k.size())
	}
}

func TestNullKeysStayTogetherAndSpread(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "out", 4, nil)
	p := running(t, Config{}, newClient(t, fake.Addrs()))
	for range 8 {
		var records []rec
		for range 10 {
			records = append(records, rec{value: []byte("v"), at: -1})
		}
		if _, err := p.Write(limited(t), []Write{output("out", writes(records...))}); err != nil {
			t.Fatal(err)
		}
	}
	count := map[int32]int{}
	for _, r := range kafkatest.ReadAll(t, fake.Addrs(), "out", true) {
		count[r.Partition]++
	}
	for partition := range int32(4) {
		if count[partition] != 20 {
			t.Errorf("records in each partition: %v", count)
			break
		}
	}
}

func TestEmptyCommit(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "table", 1, nil)
	p := running(t, Config{}, newClient(t, fake.Addrs()))
	for _, commit := range [][]Write{nil, {changelog("table", 0)}, {changelog("table", 0, writes())}} {
		if r, err := p.Write(limited(t), commit); err != nil || r.Records != 0 || len(r.Changelogs) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{{Compression: "brotli"}, {MaxBatchBytes: 5}, {DeliveryTimeout: -1}} {
		if _, err := newProducer(cfg, nil); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no client was taken")
	}
}
