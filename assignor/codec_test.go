package assignor

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func exampleSubscription() Subscription {
	return Subscription{
		Sets: []Set{
			{Sources: []string{"orders", "payments"}, Tables: []Table{{"counts", "g-counts-changelog", false}, {"users", "users", true}}},
			{Sources: []string{"ticks"}},
		},
		Globals:    []string{"regions"},
		Generation: 12,
		Owned:      []Task{{"orders,payments", 0}, {"orders,payments", 1}, {"ticks", 3}},
		Copies:     []Copy{{Task{"orders,payments", 2}, 0}, {Task{"orders,payments", 7}, UnknownLag}, {Task{"ticks", 0}, CoarseLag(1000)}},
		Rack:       "eu-1a", Address: "10.0.0.1:7420", NoStandby: true, Draining: true, Nonce: 77,
	}
}

func TestSubscriptionRoundTrip(t *testing.T) {
	want := exampleSubscription()
	b, err := EncodeSubscription(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSubscription(b)
	if err != nil {
		t.Fatal(err)
	}
	sort := func(s *Subscription) {
		slices.SortFunc(s.Owned, compareTasks)
		slices.SortFunc(s.Copies, func(a, b Copy) int { return compareTasks(a.Task, b.Task) })
	}
	sort(&got)
	sort(&want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestEqualSubscriptionsGiveEqualBytes(t *testing.T) {
	a := exampleSubscription()
	b := exampleSubscription()
	slices.Reverse(b.Sets)
	slices.Reverse(b.Owned)
	slices.Reverse(b.Copies)
	slices.Reverse(b.Sets[1].Tables)
	ab, _ := EncodeSubscription(a)
	bb, _ := EncodeSubscription(b)
	if !bytes.Equal(ab, bb) {
		t.Error("the order of the lists shows in the bytes")
	}
	b.Nonce++
	if bb, _ = EncodeSubscription(b); bytes.Equal(ab, bb) {
		t.Error("the nonce does not show in the bytes")
	}
}

func TestSubscriptionsOfLaterVersions(t *testing.T) {
	e, err := parseEnvelope(must(EncodeSubscription(exampleSubscription())))
	if err != nil {
		t.Fatal(err)
	}
	e.userData = append(e.userData, 9, 9, 9)
	b := append(e.append(nil), 1, 2, 3)
	if _, err := DecodeSubscription(b); err != nil {
		t.Errorf("fields added at the end: %v", err)
	}
	e.userData[0]++
	if _, err := DecodeSubscription(e.append(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("another version: %v", err)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestAssignmentRoundTrip(t *testing.T) {
	each(100, func(seed uint64, w *world) {
		p := target(w.in)
		for _, m := range w.in.Members {
			want := AssignmentOf(p, m.ID)
			got, err := DecodeAssignment(must(EncodeAssignment(want)))
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(got.Active, compareTasks)
			slices.SortFunc(got.Standby, compareTasks)
			if !slices.Equal(got.Active, want.Active) || !slices.Equal(got.Standby, want.Standby) {
				t.Fatalf("seed %d: got %v, want %v", seed, got, want)
			}
			for _, s := range m.Sets {
				active, standby := got.Own(s.Sources)
				wantActive, wantStandby := want.Own(s.Sources)
				if !slices.Equal(active, wantActive) || !slices.Equal(standby, wantStandby) {
					t.Fatalf("seed %d: own %v", seed, active)
				}
			}
		}
	})
}

// INVARIANT: what EncodeSubscription makes can be read.
func TestASubscriptionThatNobodyCouldReadIsRefused(t *testing.T) {
	for what, change := range map[string]func(*Subscription, string){
		"rack":    func(s *Subscription, name string) { s.Rack = name },
		"address": func(s *Subscription, name string) { s.Address = name },
		"table":   func(s *Subscription, name string) { s.Sets[0].Tables[0].Name = name },
		"topic":   func(s *Subscription, name string) { s.Sets[0].Sources[0] = name },
	} {
		for name, fits := range map[string]bool{strings.Repeat("n", maxName): true, strings.Repeat("n", maxName+1): false, strings.Repeat("n", 1<<16): false, "\xff": false} {
			s := Subscription{Generation: -1, Sets: []Set{{Sources: []string{"orders"}, Tables: []Table{{Name: "counts", Changelog: "log"}}}}}
			change(&s, name)
			b, err := EncodeSubscription(s)
			if fits {
				if _, err := DecodeSubscription(b); err != nil {
					t.Errorf("%s of %d bytes: %v", what, len(name), err)
				}
			} else if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s of %d bytes: %v", what, len(name), err)
			}
		}
	}
}

func TestAnEmptyAssignment(t *testing.T) {
	if a, err := DecodeAssignment(nil); err != nil || len(a.Active) != 0 {
		t.Errorf("got %v, %v", a, err)
	}
}

func TestHostileSizes(t *testing.T) {
	huge := writer{b: []byte{dataVersion}}
	huge.uvarint(1) // topics
	huge.text("a")
	huge.uvarint(1) // sets
	huge.uvarint(1) // sources
	huge.uvarint(0)
	huge.uvarint(1) // one run of very many partitions
	huge.uvarint(0)
	huge.uvarint(1 << 40)
	huge.uvarint(0)
	e := writer{}
	e.int16(1)
	e.topicPartitions(nil)
	e.bytes(huge.b)
	if _, err := DecodeAssignment(e.b); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
}

func TestCoarseLag(t *testing.T) {
	for lag, want := range map[int64]int64{-5: UnknownLag, 0: 0, 1: 1, 2: 3, 1000: 1023, 1<<63 - 1: 1<<63 - 1} {
		if got := CoarseLag(lag); got != want {
			t.Errorf("CoarseLag(%d) = %d, want %d", lag, got, want)
		}
		if again := CoarseLag(CoarseLag(lag)); again != CoarseLag(lag) {
			t.Errorf("CoarseLag(%d) is not stable", lag)
		}
	}
}

// The group's record must stay under 1 MiB with 1,000 members: 4 topics with names of 24 characters and
// 2,500 partitions each, addresses of 40 bytes, lags, and tasks scattered at random.
func TestBytesPerMember(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var sets []Set
	var tasks []Task
	for i := range 4 {
		topic := fmt.Sprintf("a-topic-of-24-characters%d", i)
		topic = topic[len(topic)-24:]
		sets = append(sets, Set{Sources: []string{topic}})
		for p := range int32(2500) {
			tasks = append(tasks, Task{topic, p})
		}
	}
	shuffled := func() []Task {
		list := slices.Clone(tasks)
		rnd.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
		return list
	}
	owned, copied := shuffled(), shuffled()
	plan := Plan{Sets: Unite([]Member{{Sets: sets}}), Members: map[string]Share{}}
	total := 0
	for i := range 1000 {
		share := Share{Active: owned[i*10 : i*10+10], Standby: copied[i*10 : i*10+10]}
		plan.Members["m"] = share
		sub := Subscription{Sets: sets, Generation: 1000, Owned: share.Active, Nonce: 1000, Address: "a-host-of-thirty-odd-characters.internal"}
		for _, task := range share.Standby {
			sub.Copies = append(sub.Copies, Copy{task, CoarseLag(int64(rnd.IntN(100_000)))})
		}
		total += len(must(EncodeSubscription(sub))) + len(must(EncodeAssignment(AssignmentOf(plan, "m"))))
	}
	t.Logf("%d bytes a member", total/1000)
	if total > 900*1000 {
		t.Errorf("%d bytes a member", total/1000)
	}
}

func FuzzDecodeSubscription(f *testing.F) {
	f.Add(must(EncodeSubscription(exampleSubscription())))
	f.Add(must(EncodeSubscription(Subscription{})))
	f.Add([]byte{0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSubscription(b)
		if err != nil {
			return
		}
		in := Input{Counts: map[string]int32{"a": 3}, Options: Options{Replicas: 1},
			Members: []Member{{ID: "x", Generation: s.Generation, Sets: s.Sets, Owned: s.Owned, Copies: s.Copies}, {ID: "y", Sets: s.Sets}}}
		if len(s.Sets) > 0 {
			in.Counts[s.Sets[0].Sources[0]] = 7
		}
		p := target(in)
		if err := Validate(in, p); err != nil {
			t.Fatalf("the plan of a decoded subscription is not valid: %v", err)
		}
		for id := range p.Members {
			if _, err := EncodeAssignment(AssignmentOf(p, id)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzDecodeAssignment(f *testing.F) {
	p := target(Input{Counts: map[string]int32{"a": 5}, Members: []Member{{ID: "m", Sets: []Set{{Sources: []string{"a"}}}}}})
	a := AssignmentOf(p, "m")
	f.Add(must(EncodeAssignment(a)))
	a.Warming, a.WarmLag = a.Active, 1000
	f.Add(must(EncodeAssignment(a)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAssignment(b)
		if err != nil {
			return
		}
		again, err := EncodeAssignment(a)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := DecodeAssignment(again); err != nil || len(read.Warming) > len(a.Warming) || len(a.Warming) > 0 && read.WarmLag != a.WarmLag {
			t.Fatalf("%+v, %+v, %v", a, read, err)
		}
	})
}
