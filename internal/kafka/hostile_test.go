package kafka

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// bounded runs a call against a hostile broker: it must end by itself, with an error that says what is
// wanted, and allocate no more than so many bytes, all in all.
func bounded(t *testing.T, most uint64, wants []string, call func() error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := call()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if took > 30*time.Second { // none has a limit of more than a second, but it may be many tries
		t.Errorf("it took %v", took)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("%d MiB were allocated, at most %d are to be", got>>20, most>>20)
	}
	if err == nil && len(wants) > 0 {
		t.Fatal("no error")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// huge is a count or length that no answer holds, in both encodings.
func huge(flexible bool) []byte {
	if flexible {
		return []byte{0xff, 0xff, 0xff, 0xff, 0x07}
	}
	return []byte{0x7f, 0xff, 0xff, 0xff}
}

const few = 8 << 20

// Whatever a broker answers, a call ends with an error that says what was asked, and of whom.
func TestHostileAnswers(t *testing.T) {
	at := func(key kmsg.Key, do func(a *asking)) func(a *asking) {
		return func(a *asking) {
			if a.key == int16(key) && !a.own {
				do(a)
			}
		}
	}
	list := func(ctx context.Context, c *Client) error {
		_, err := c.Do(ctx, 1, kmsg.NewPtrListOffsetsRequest())
		return err
	}
	metadata := func(ctx context.Context, c *Client) error {
		_, err := c.Refresh(ctx, "t")
		return err
	}
	for _, test := range []struct {
		name  string
		say   func(a *asking)
		call  func(ctx context.Context, c *Client) error
		wants []string
	}{
		{"2 GiB", at(kmsg.ListOffsets, func(a *asking) { a.raw(math.MaxInt32, uint32(a.id), nil) }), list,
			[]string{"ListOffsets to broker at 127.0.0.1:", "answer of 2147483647 bytes"}},
		{"less than nothing", at(kmsg.ListOffsets, func(a *asking) { a.raw(math.MaxUint32, uint32(a.id), nil) }), list,
			[]string{"ListOffsets to broker at 127.0.0.1:", "answer of -1 bytes"}},
		{"more than is read of it", at(kmsg.ListOffsets, func(a *asking) { a.raw(300<<20, uint32(a.id), []byte{0}) }), list,
			[]string{"ListOffsets to broker at 127.0.0.1:", "answer of 314572795 bytes, which is more than the 4194304"}},
		{"another answer", at(kmsg.ListOffsets, func(a *asking) { a.raw(8, uint32(a.id)+1, make([]byte, 4)) }), list,
			[]string{"ListOffsets to broker at 127.0.0.1:", "answer to request"}},
		{"a count of 2^31", at(kmsg.ListOffsets, func(a *asking) { a.tell(append([]byte{0, 0, 0, 0, 0}, huge(true)...)) }), list,
			[]string{"decoding the answer to ListOffsets", "did not contain enough data"}},
		{"topics without end", at(kmsg.Metadata, func(a *asking) { a.tell(append([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, huge(true)...)) }), metadata,
			[]string{"decoding the answer to Metadata", "did not contain enough data"}},
		{"brokers without end", at(kmsg.Metadata, func(a *asking) { a.tell(append([]byte{0, 0, 0, 0, 0}, huge(true)...)) }), metadata,
			[]string{"decoding the answer to Metadata", "did not contain enough data"}},
		{"a byte now and then", at(kmsg.ListOffsets, func(a *asking) { a.drip(10 * time.Millisecond) }), list,
			[]string{"ListOffsets to broker at 127.0.0.1:", "deadline exceeded"}},
		{"hangs up", at(kmsg.ListOffsets, func(a *asking) { a.told = true; a.conn.Close() }), list,
			[]string{"ListOffsets to broker at 127.0.0.1:", "EOF"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := newVillain(t, test.say)
			c := v.client(t, time.Second)
			bounded(t, few, test.wants, func() error { return test.call(t.Context(), c) })
			if n := v.requests.Load(); n > 60 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

// The Transport's own requests are answered as badly as ours. It would allocate what a count claims.
func TestHostileAnswersToTheTransport(t *testing.T) {
	for _, test := range []struct {
		name string
		key  kmsg.Key
		say  func(a *asking)
		want string
	}{
		{"2^31 versions", kmsg.ApiVersions, func(a *asking) { a.tell(append([]byte{0, 0}, huge(false)...)) }, "did not contain enough data"},
		{"2^31 brokers", kmsg.Metadata, func(a *asking) {
			a.tell(append(make([]byte, 4), huge(false)...)) // whatever the version, there is a count at 0 or 4
		}, ""},
		{"2 GiB", kmsg.ApiVersions, func(a *asking) { a.raw(math.MaxInt32, uint32(a.id), nil) }, "answer of 2147483647 bytes to ApiVersions"},
		// A broker that only says nonsense about the cluster to the Transport, which does not need it, is used.
		{"2 MiB", kmsg.Metadata, func(a *asking) { a.raw(2<<20, uint32(a.id), nil) }, ""},
		{"TLS", kmsg.ApiVersions, func(a *asking) { a.told = true; _, _ = a.conn.Write([]byte{0x15, 3, 3, 0, 2, 2, 50}) }, "speaks TLS at this port"},
		{"a byte now and then", kmsg.ApiVersions, func(a *asking) { a.drip(10 * time.Millisecond) }, "127.0.0.1:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := newVillain(t, func(a *asking) {
				if a.own && a.key == int16(test.key) {
					test.say(a)
				}
			})
			c := v.client(t, time.Second)
			var wants []string
			if test.want != "" {
				wants = append(wants, test.want)
			}
			bounded(t, few, wants, func() error {
				_, err := c.Refresh(t.Context(), "t")
				return err
			})
			if n := v.requests.Load(); n > 60 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

// A cluster that claims to be larger than any.
func TestHostileMetadata(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(resp *kmsg.MetadataResponse)
		want   string
	}{
		{"very many topics", func(resp *kmsg.MetadataResponse) {
			for i := range 200_000 {
				topic := kmsg.NewMetadataResponseTopic()
				topic.Topic = kmsg.StringPtr(fmt.Sprint(i))
				resp.Topics = append(resp.Topics, topic)
			}
		}, ""},
		{"very many partitions", func(resp *kmsg.MetadataResponse) {
			resp.Topics[0].Partitions = slices.Repeat(resp.Topics[0].Partitions, 250_000)
		}, "topic t has 250000 partitions by the broker's word"},
		{"very many brokers", func(resp *kmsg.MetadataResponse) {
			resp.Brokers = slices.Repeat(resp.Brokers, 20_000)
		}, "the answer names 20000 brokers"},
		{"partitions that are not there", func(resp *kmsg.MetadataResponse) {
			for _, n := range []int32{-1, math.MinInt32, math.MaxInt32, 7} {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader = n, n
				resp.Topics[0].Partitions = append(resp.Topics[0].Partitions, p)
			}
		}, ""},
		{"topics without a name", func(resp *kmsg.MetadataResponse) {
			resp.Topics = append(resp.Topics, kmsg.NewMetadataResponseTopic())
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var v *villain
			resp := new(kmsg.MetadataResponse)
			v = newVillain(t, func(a *asking) {
				if a.key == int16(kmsg.Metadata) && !a.own {
					a.answer(resp)
				}
			})
			resp = v.metadata()
			test.change(resp)
			c := v.client(t, 30*time.Second)
			wants := []string{test.want}
			if test.want == "" {
				wants = nil
			}
			// Both sides are in this process: what the villain writes counts too.
			bounded(t, 512<<20, wants, func() error {
				topics, err := c.Refresh(t.Context(), "t")
				if err == nil {
					err = topics["t"].Err
				}
				return err
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.topics) > 1 || len(c.brokers) > 2 {
				t.Errorf("%d topics and %d brokers are kept", len(c.topics), len(c.brokers))
			}
		})
	}
}

// User data that nobody could use is not even read.
func TestHostileUserData(t *testing.T) {
	const size = 100 << 20
	for _, req := range []kmsg.Request{
		kmsg.NewPtrJoinGroupRequest(), kmsg.NewPtrSyncGroupRequest(), kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrDescribeGroupsRequest(),
		kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrDescribeConfigsRequest(),
	} {
		name := kmsg.NameForKey(req.Key())
		t.Run(name, func(t *testing.T) {
			v := newVillain(t, func(a *asking) {
				if a.key == req.Key() {
					a.raw(size, uint32(a.id), make([]byte, 1000))
					for i := 0; i < size; i += 1 << 20 {
						if _, err := a.conn.Write(megabyte[:]); err != nil {
							return
						}
					}
				}
			})
			c := v.client(t, time.Second)
			bounded(t, few, []string{"127.0.0.1:", "answer of 104857"}, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
				defer cancel()
				var err error
				if name == "FindCoordinator" {
					_, err = c.ToGroup(ctx, "g", kmsg.NewPtrHeartbeatRequest())
				} else {
					_, err = c.ToGroup(ctx, "g", req)
				}
				return err
			})
			if n := v.requests.Load(); n > 60 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

var megabyte [1 << 20]byte

// A coordinator that is always somewhere else is looked for with pauses, until the time is over.
func TestCoordinatorThatIsAlwaysElsewhere(t *testing.T) {
	for name, refuse := range map[string]bool{"nobody there": true, "not the coordinator": false} {
		t.Run(name, func(t *testing.T) {
			v := newVillain(t, nil)
			v.say = func(a *asking) {
				if a.key == int16(kmsg.FindCoordinator) {
					resp := kmsg.NewPtrFindCoordinatorResponse()
					resp.NodeID, resp.Host, resp.Port = a.nth, fmt.Sprintf("127.0.%d.%d", 1+a.nth>>8, a.nth&0xff), 1
					if !refuse {
						resp.ErrorCode, resp.NodeID = codeNotCoordinator, -1
					}
					a.answer(resp)
				}
			}
			c := v.client(t, time.Second)
			bounded(t, few, []string{"coordinator of group g"}, func() error {
				_, err := c.ToGroup(t.Context(), "g", kmsg.NewPtrHeartbeatRequest())
				return err
			})
			if n := v.requests.Load(); n > 60 {
				t.Errorf("it was asked %d times", n)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.brokers) > 60 || len(c.nodes) > 60 {
				t.Errorf("%d brokers, %d nodes are kept", len(c.brokers), len(c.nodes))
			}
		})
	}
}

// Answers that are noise, to every request that there is.
func TestNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	v := newVillain(t, nil)
	v.say = func(a *asking) {
		if a.own || a.key == int16(kmsg.ApiVersions) || a.key == int16(kmsg.Metadata) {
			return
		}
		b := make([]byte, r.IntN(2000))
		for i := range b {
			if b[i] = byte(r.Uint32()); r.IntN(3) > 0 {
				b[i] = 0
			}
		}
		a.tell(b)
	}
	c := v.client(t, time.Second)
	if _, err := c.Refresh(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	bounded(t, 256<<20, nil, func() error {
		for range 30 {
			for _, req := range asked() {
				_, _ = c.Do(t.Context(), 1, req)
			}
			for _, call := range []func(ctx context.Context) error{
				func(ctx context.Context) error {
					_, err := c.ListOffsets(ctx, Latest, true, TopicPartition{"t", 0})
					return err
				},
				func(ctx context.Context) error { _, _, err := c.EpochEnd(ctx, TopicPartition{"t", 0}, 3); return err },
				func(ctx context.Context) error { _, err := c.TopicConfigs(ctx, "t"); return err },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				_ = call(ctx)
				cancel()
			}
		}
		return nil
	})
}

// asked are all requests whose answers kmsg decodes for us.
func asked() []kmsg.Request {
	return []kmsg.Request{
		kmsg.NewPtrMetadataRequest(), kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrJoinGroupRequest(), kmsg.NewPtrSyncGroupRequest(),
		kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrLeaveGroupRequest(), kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrOffsetCommitRequest(),
		kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrOffsetForLeaderEpochRequest(), kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrDescribeConfigsRequest(),
		kmsg.NewPtrCreateTopicsRequest(), kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrAddPartitionsToTxnRequest(), kmsg.NewPtrAddOffsetsToTxnRequest(),
		kmsg.NewPtrEndTxnRequest(), kmsg.NewPtrTxnOffsetCommitRequest(), kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrProduceRequest(),
		kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLAuthenticateRequest(),
	}
}

// worst is how many times its bytes an answer may take when it is decoded; maxTold and maxAcked are
// chosen by it.
const worst = 24

// FuzzDecode: the answers to all requests, in every version that we speak. What they claim is not
// believed: decoding takes a bounded multiple of their bytes.
func FuzzDecode(f *testing.F) {
	for i, req := range asked() {
		low, high := limits(req)
		for v := low; v <= high; v++ {
			resp := req.ResponseKind()
			resp.SetVersion(v)
			f.Add(uint8(i), uint8(v-low), resp.AppendTo(nil))
			f.Add(uint8(i), uint8(v-low), append(make([]byte, 4), huge(resp.IsFlexible())...))
			f.Add(uint8(i), uint8(v-low), append(make([]byte, 6), 0, 0, 0, 100))
		}
	}
	f.Fuzz(func(t *testing.T, which, version uint8, body []byte) {
		all := asked()
		req := all[int(which)%len(all)]
		low, high := limits(req)
		m := newMessage(req)
		m.version, m.body = low+int16(version)%(high-low+1), body
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = m.response()
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(worst*len(body)+64<<10); got > most {
			t.Errorf("%s v%d: %d bytes were allocated for an answer of %d", kmsg.NameForKey(req.Key()), m.version, got, len(body))
		}
		_ = checkOwn(req.Key(), m.version, body)
	})
}
