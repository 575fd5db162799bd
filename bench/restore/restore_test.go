package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestBelievable(t *testing.T) {
	for _, c := range []struct {
		name                     string
		confluent, streams, node float64
		refused                  string // which peer
	}{
		{"as usual", 435, 303, 241, ""},
		{"a slower machine", 43, 30, 24, ""},
		{"streams a bit slow", 435, 160, 241, ""},
		{"streams is a straw man", 435, 150, 241, streams},
		{"confluent-kafka is a straw man", 117, 303, 0, confluent},
		{"kafkajs is a straw man", 435, 303, 120, kafkajs},
		{"kafkajs is one beside a single other", 0, 303, 95, kafkajs},
		{"a peer was not run", 435, 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := believable("none", map[string]float64{confluent: c.confluent, streams: c.streams, kafkajs: c.node, pillion: 1})
			if c.refused == "" && err != nil {
				t.Fatal(err)
			}
			if c.refused != "" && (err == nil || !strings.HasPrefix(err.Error(), c.refused+" restored ")) {
				t.Fatalf("%v, want a sentence about %s", err, c.refused)
			}
		})
	}
	for _, v := range variants {
		for _, peer := range slices.Concat(peers[pillion], peers[pillionNode]) {
			if reference[v.name][peer] == 0 {
				t.Errorf("there is no reference for %s in variant %s", peer, v.name)
			}
		}
	}
}

func TestRecords(t *testing.T) {
	for i := range 1000 {
		if v := value(i); len(v) != valueSize || !json.Valid(v) {
			t.Fatalf("value %d is %q of %d bytes", i, v, len(v))
		}
	}
	if k := key(7); len(k) != 14 {
		t.Fatalf("key %q has %d bytes", k, len(k))
	}
}

func TestCheck(t *testing.T) {
	*records, *keys = 100, 10
	l := newChangelog(variants[0])
	good := figures{Seconds: 1, Records: 100, Keys: 10, Digest: l.digest}
	if err := good.check(l); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(f *figures){
		"records": func(f *figures) { f.Records-- },
		"keys":    func(f *figures) { f.Keys-- },
		"digest":  func(f *figures) { f.Digest = strings.Repeat("0", 64) },
		"seconds": func(f *figures) { f.Seconds = 0 },
	} {
		bad := good
		spoil(&bad)
		if bad.check(l) == nil {
			t.Errorf("wrong %s passed", what)
		}
	}
}

func TestCounting(t *testing.T) {
	calm, busy := figures{elsewhere: 0.1}, figures{elsewhere: 0.5}
	for _, c := range []struct {
		runs  []figures
		n     int
		quiet bool
	}{
		{[]figures{calm, calm, calm, busy, busy}, 3, true},
		{[]figures{calm, calm, busy, busy, busy}, 5, false},
		{[]figures{calm}, 1, true},
		{[]figures{busy}, 1, false},
	} {
		if got, quiet := counting(c.runs); len(got) != c.n || quiet != c.quiet {
			t.Errorf("%v: %d runs count, quiet %t", c.runs, len(got), quiet)
		}
	}
}
