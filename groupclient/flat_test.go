package groupclient

import (
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/pillion/pillion/internal/kafkatest"
)

func TestAFlatDeclarationIsGroupedByPartitionCount(t *testing.T) {
	f := seeded(t) // flights, delays, planes: 4; airports: 3
	f.Topic(t, "app-seen-changelog", 3, map[string]string{"cleanup.policy": "compact"})
	d := Declaration{
		Sources: []string{"flights", "delays", "airports"},
		Tables:  []DeclaredTable{{Name: "planes", SourceTopic: "planes"}, {Name: "stats", Sources: []string{"flights"}}, {Name: "seen"}},
		Address: "here:1", NoStandby: true,
	}
	p, err := Prepare(t.Context(), newClient(t, f.Addrs()), PrepareOptions{Group: "app"}, d)
	if err != nil {
		t.Fatal(err)
	}
	want := []PreparedSet{
		{Name: "airports", Sources: []string{"airports"}, Partitions: 3, Tables: []PreparedTable{{"seen", "app-seen-changelog", false}}},
		{Name: "delays,flights", Sources: []string{"delays", "flights"}, Partitions: 4, Tables: []PreparedTable{
			{"planes", "planes", true}, {"stats", "app-stats-changelog", false}}},
	}
	if !reflect.DeepEqual(p.Sets, want) {
		t.Errorf("got  %+v\nwant %+v", p.Sets, want)
	}
	if p.Created["app-stats-changelog"] != 4 || p.Address != "here:1" || !p.NoStandby {
		t.Errorf("got %+v", p)
	}
}

func TestFlatDeclarationsThatAreRefused(t *testing.T) {
	f := seeded(t)
	f.Topic(t, "seven", 7, nil)
	client := newClient(t, f.Addrs())
	two := []string{"flights", "airports"}
	for _, c := range []struct {
		code, message string
		d             Declaration
	}{
		{codeBadDeclaration, `both sets and flat sources or tables are declared; put everything into sets, or nothing`,
			Declaration{Sets: []DeclaredSet{{Name: "s", Sources: two[:1]}}, Sources: two[1:]}},
		{codeBadDeclaration, `tables are declared and no sources; name the topics that the worker reads`,
			Declaration{Tables: []DeclaredTable{{Name: "t"}}}},
		{codeBadDeclaration, `table "t" names the source "x", which is not declared; declare it, or correct its name`,
			Declaration{Sources: two, Tables: []DeclaredTable{{Name: "t", Sources: []string{"x"}}}}},
		{codeBadDeclaration, `topic "flights" is named twice as a source; name it once`,
			Declaration{Sources: []string{"flights", "flights"}}},
		{codeBadDeclaration, `changelog "app-t-changelog" of table "t" does not exist, and the sources have different numbers of partitions (airports: 3; flights: 4), so that its own is not known; let the table name its sources, or create the changelog`,
			Declaration{Sources: two, Tables: []DeclaredTable{{Name: "t"}}}},
		{codeCountMismatch, `topic "seven" (a changelog of table "t" of the declaration) has 7 partitions, and no declared source has as many (airports: 3; flights: 4); topics that are read together need the same number: create one of them anew`,
			Declaration{Sources: two, Tables: []DeclaredTable{{Name: "t", Changelog: "seven"}}}},
		{codeCountMismatch, `table "t" is kept with "flights", which has 4 partitions, and with "airports", which has 3; topics that are read together need the same number: create one of them anew`,
			Declaration{Sources: two, Tables: []DeclaredTable{{Name: "t", Sources: two}}}},
		{codeBadDeclaration, `table "t" of set "s" names sources; those of its set are meant, so leave them out`,
			Declaration{Sets: []DeclaredSet{{Name: "s", Sources: two[:1], Tables: []DeclaredTable{{Name: "t", Sources: two[:1]}}}}}},
	} {
		_, err := Prepare(t.Context(), client, PrepareOptions{Group: "app"}, c.d)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != c.code || refused.Message != c.message {
			t.Errorf("got  %v\nwant %s", err, c.message)
		}
	}
	if topics, err := client.Refresh(t.Context(), "app-t-changelog"); err != nil || topics["app-t-changelog"].Err == nil {
		t.Errorf("a refused declaration has left a changelog: %+v, %v", topics, err)
	}
}

// In development a missing source is made, and its set with it.
func TestAFlatDeclarationInDevelopment(t *testing.T) {
	f := kafkatest.Fake(t, kfake.NumBrokers(1))
	d := Declaration{Sources: []string{"new"}, Tables: []DeclaredTable{{Name: "t"}}}
	p, err := Prepare(t.Context(), newClient(t, f.Addrs()), PrepareOptions{Group: "app", CreateMissing: 5}, d)
	if err != nil || len(p.Sets) != 1 || p.Sets[0].Partitions != 5 || p.Created["app-t-changelog"] != 5 {
		t.Errorf("got %+v, %v", p, err)
	}
}
