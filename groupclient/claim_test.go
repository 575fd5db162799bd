package groupclient

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func exampleClaim() claim {
	return claim{
		Incarnation: "abcDEF-_0123", Guarantee: AtLeastOnce,
		Sources: map[string]string{"orders": "AAAAAAAA", "payments": "-"},
		Tables:  map[string]string{"g-counts-changelog": "BBBBBBBB"},
	}
}

func TestClaimRoundTrip(t *testing.T) {
	eo := exampleClaim()
	eo.Guarantee, eo.Released = ExactlyOnce, true
	for _, want := range []claim{exampleClaim(), eo, {Incarnation: "x", Guarantee: AtLeastOnce, Sources: map[string]string{}, Tables: map[string]string{}}} {
		text, err := want.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := parseClaim(text)
		if err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, %v; want %+v", got, ok, err, want)
		}
	}
}

func TestClaimText(t *testing.T) {
	got, _ := exampleClaim().encode()
	want := "pillion/1 abcDEF-_0123 al open s=orders:AAAAAAAA,payments:- t=g-counts-changelog:BBBBBBBB"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMetadataOfOthersIsNoClaim(t *testing.T) {
	for _, text := range []string{"", "offset of somebody", "pillions/1 a"} {
		if _, ok, err := parseClaim(text); ok || err != nil {
			t.Errorf("%q: %v, %v", text, ok, err)
		}
	}
}

func TestClaimsThatCannotBeRead(t *testing.T) {
	good, _ := exampleClaim().encode()
	for _, text := range []string{
		"pillion/2 " + good[len("pillion/1 "):], "pillion/1", "pillion/1 i al open s=", "pillion/1 i xx open s= t=",
		"pillion/1 i al shut s= t=", "pillion/1  al open s= t=", "pillion/1 i al open s=a t=", "pillion/1 i al open t= s=",
		"pillion/1 i al open s=a:b,, t=", "pillion/1 i al open s= t= " + strings.Repeat("x", maxClaim),
	} {
		if _, ok, err := parseClaim(text); ok || err == nil {
			t.Errorf("%.80q was read", text)
		}
	}
	if _, ok, err := parseClaim(good + " later=1"); !ok || err != nil {
		t.Errorf("a field added later: %v, %v", ok, err)
	}
}

func TestLongNamesBecomeHashes(t *testing.T) {
	c := exampleClaim()
	for i := range 40 {
		c.Sources[strings.Repeat("long", 50)+fmt.Sprint(i)] = "CCCCCCCC"
	}
	text, err := c.encode()
	if err != nil || len(text) > maxClaim {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	got, _, err := parseClaim(text)
	if err != nil {
		t.Fatal(err)
	}
	for topic, id := range c.Sources {
		if found, ok := named(got.Sources, topic); !ok || found != id {
			t.Errorf("%s: %q, %v", topic, found, ok)
		}
	}
	if _, ok := named(got.Sources, "another"); ok {
		t.Error("another topic is named")
	}
	for i := range 400 {
		c.Tables[fmt.Sprintf("table-%d", i)] = "DDDDDDDD"
	}
	if _, err := c.encode(); err == nil {
		t.Error("a claim that does not fit was made")
	}
}

func TestShortID(t *testing.T) {
	a, b := [16]byte{1, 2, 3}, [16]byte{1, 2, 4}
	if shortID(a) == shortID(b) || sameID(shortID(a), shortID(b)) {
		t.Error("two topics have one id")
	}
	if !sameID(shortID(a), shortID([16]byte{})) {
		t.Error("a broker without topic ids makes another topic")
	}
}

func FuzzParseClaim(f *testing.F) {
	text, _ := exampleClaim().encode()
	f.Add(text)
	f.Add("")
	f.Add("pillion/1 i eo released s=a:b t=")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok, err := parseClaim(text)
		if err != nil || !ok {
			return
		}
		again, err := c.encode()
		if err != nil {
			return // hashes of hashes may be longer than short names
		}
		if second, ok, err := parseClaim(again); err != nil || !ok || second.Incarnation != c.Incarnation {
			t.Fatalf("%q became %q: %v %v", text, again, ok, err)
		}
	})
}
