package groupclient

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pillion/pillion/internal/kafka"
)

// The table, row by row, as it is meant: join, sync, heartbeat, offsets.
func TestRules(t *testing.T) {
	const (
		ok, retry, find, rejoin, id, anew  = ruleOK, ruleRetry, ruleFindCoordinator, ruleRejoin, ruleTakeID, ruleNewID
		lost, back, between, fenced, fatal = ruleLost, ruleBackOff, ruleRebalancing, ruleFenced, ruleFatal
	)
	want := map[int16][requests]rule{
		0:   {ok, ok, ok, ok},
		-1:  {retry, back, retry, retry},
		3:   {fatal, fatal, fatal, retry},
		7:   {retry, rejoin, retry, retry},
		12:  {fatal, fatal, fatal, fatal},
		14:  {retry, rejoin, retry, retry},
		15:  {find, rejoin, find, find},
		16:  {find, rejoin, find, find},
		22:  {rejoin, rejoin, lost, between},
		23:  {fatal, fatal, fatal, fatal},
		24:  {fatal, fatal, fatal, fatal},
		25:  {anew, anew, anew, lost},
		26:  {fatal, fatal, fatal, fatal},
		27:  {rejoin, rejoin, rejoin, between},
		28:  {fatal, fatal, fatal, fatal},
		29:  {fatal, fatal, fatal, fatal},
		30:  {fatal, fatal, fatal, fatal},
		35:  {fatal, fatal, fatal, fatal},
		42:  {fatal, fatal, fatal, fatal},
		79:  {id, anew, anew, lost},
		81:  {fatal, fatal, fatal, fatal},
		82:  {fenced, fenced, fenced, lost},
		88:  {fatal, fatal, fatal, retry},
		111: {fatal, fatal, fatal, fatal},
	}
	if len(want) != len(rules) {
		t.Errorf("%d rows in the table, %d in its test", len(rules), len(want))
	}
	for code, row := range want {
		for on := range requests {
			if got := ruleOf(code, on); got != row[on] {
				t.Errorf("%s (%d) to %s: rule %d, want %d", kafka.CodeName(code), code, on, got, row[on])
			}
		}
	}
}

func TestCodesOutsideTheTable(t *testing.T) {
	for _, c := range []struct {
		code int16
		on   request
		want rule
	}{
		{13, onHeartbeat, ruleRetry}, {13, onSync, ruleRejoin}, {13, onOffsets, ruleRetry}, // NETWORK_EXCEPTION
		{55, onJoin, ruleFatal}, {9999, onHeartbeat, ruleFatal},
	} {
		if got := ruleOf(c.code, c.on); got != c.want {
			t.Errorf("code %d to %s: rule %d, want %d", c.code, c.on, got, c.want)
		}
	}
}

func TestCodeErrorSaysWhatWhereAndWhatToDo(t *testing.T) {
	g := newGroup(Config{Group: "app"}, newModel(), newRecorder())
	p := orders(4)
	g.want = &p
	for _, c := range []struct {
		code  int16
		on    request
		parts []string
	}{
		{81, onJoin, []string{`"app"`, "JoinGroup", "GROUP_MAX_SIZE_REACHED", "group.max.size"}},
		{30, onJoin, []string{"app", "GROUP_AUTHORIZATION_FAILED", "grant Read to User:model"}},
		{29, onOffsets, []string{"orders", "TOPIC_AUTHORIZATION_FAILED", "grant Read to User:model"}},
	} {
		err := g.codeError(c.code, c.on)
		for _, part := range c.parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
		var denied *kafka.AccessError
		if errors.As(error(err), &denied) != (c.code == 29 || c.code == 30) {
			t.Errorf("%v: a missing right is not told from other refusals", err)
		}
	}
}

// The words that this package uses are those of the worker protocol.
func TestCodesAreOfTheProtocol(t *testing.T) {
	b, err := os.ReadFile("../spec/codes.json")
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Codes []struct{ Code string } `json:"error_codes"`
	}
	if err := json.Unmarshal(b, &spec); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range spec.Codes {
		known[c.Code] = true
	}
	for _, code := range []string{
		codeOK, codeUnknownTopic, codeCountMismatch, codeTopicNotAllowed, codeBadDeclaration,
		codeLostPosition, codeLostState, codeUnreachable, codeKafkaRefused, codeRebalance, codeFenced,
	} {
		if !known[code] {
			t.Errorf("%q is not in spec/codes.json", code)
		}
	}
}
