package groupclient

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// maxClaim is Kafka's default limit of an offset's metadata string.
const maxClaim = 4096

const claimMark = "pillion/1"

// claim is what the owner of a task writes beside each of its committed positions: who owned it,
// under which guarantee, whether it has let go, and which topics belonged to the task.
//
// As text: "pillion/1 <incarnation> <al|eo> <open|released> s=<topic>:<id>,... t=<changelog>:<id>,...".
// When the names do not fit, hashes stand for them; a claim is only asked whether it names a topic.
type claim struct {
	Incarnation string
	Guarantee   string
	Released    bool
	Sources     map[string]string // topic → short id
	Tables      map[string]string // changelog → short id
}

// shortID is enough of a topic id to tell a topic from one created anew. The zero id, of brokers
// without topic ids, is "-" and is never compared.
func shortID(id [16]byte) string {
	if id == ([16]byte{}) {
		return "-"
	}
	return base64.RawURLEncoding.EncodeToString(id[:6])
}

func sameID(a, b string) bool { return a == b || a == "-" || b == "-" }

// named looks a topic up, by its name or by the hash that stands for it.
func named(topics map[string]string, topic string) (id string, ok bool) {
	if id, ok = topics[topic]; !ok {
		id, ok = topics[hashed(topic)]
	}
	return id, ok
}

func hashed(topic string) string {
	h := fnv.New64a()
	h.Write([]byte(topic))
	return "#" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (c claim) encode() (string, error) {
	text := c.text(func(topic string) string { return topic })
	if len(text) > maxClaim {
		text = c.text(hashed)
	}
	if len(text) > maxClaim {
		return "", fmt.Errorf("the claim of a task with %d sources and %d tables has %d bytes, Kafka takes %d; split the set",
			len(c.Sources), len(c.Tables), len(text), maxClaim)
	}
	return text, nil
}

func (c claim) text(name func(string) string) string {
	guarantee, state := "al", "open"
	if c.Guarantee == ExactlyOnce {
		guarantee = "eo"
	}
	if c.Released {
		state = "released"
	}
	list := func(topics map[string]string) string {
		entries := make([]string, 0, len(topics))
		for topic, id := range topics {
			entries = append(entries, name(topic)+":"+id)
		}
		slices.Sort(entries)
		return strings.Join(entries, ",")
	}
	return strings.Join([]string{claimMark, c.Incarnation, guarantee, state, "s=" + list(c.Sources), "t=" + list(c.Tables)}, " ")
}

// anothers says whether what stands beside a position is the claim of an incarnation that is none of these.
func anothers(metadata string, known ...string) bool {
	c, ok, err := parseClaim(metadata)
	return err != nil || ok && !slices.Contains(known, c.Incarnation)
}

// parseClaim reads an offset's metadata. Not ours (another consumer's, or none): ok is false. Ours
// and unreadable is an error. Fields that a later version adds at the end are skipped.
func parseClaim(text string) (c claim, ok bool, err error) {
	fields := strings.Split(text, " ")
	if mark, version, _ := strings.Cut(fields[0], "/"); mark != "pillion" {
		return claim{}, false, nil
	} else if version != "1" || len(fields) < 6 || len(text) > maxClaim {
		return claim{}, false, fmt.Errorf("a claim that this version cannot read: %.60q", text)
	}
	c.Incarnation = fields[1]
	switch fields[2] {
	case "al":
		c.Guarantee = AtLeastOnce
	case "eo":
		c.Guarantee = ExactlyOnce
	default:
		return claim{}, false, fmt.Errorf("a claim of unknown guarantee %.20q", fields[2])
	}
	switch fields[3] {
	case "open":
	case "released":
		c.Released = true
	default:
		return claim{}, false, fmt.Errorf("a claim in unknown state %.20q", fields[3])
	}
	if c.Incarnation == "" {
		return claim{}, false, fmt.Errorf("a claim of nobody: %.60q", text)
	}
	if c.Sources, err = parseTopics(fields[4], "s="); err != nil {
		return claim{}, false, err
	}
	if c.Tables, err = parseTopics(fields[5], "t="); err != nil {
		return claim{}, false, err
	}
	return c, true, nil
}

// standing are the claims of a task that nobody has replaced: a claim that another one replaced at one of
// its sources tells of an earlier time, and stands yet at a source that the new owner does not declare.
// By source; where none stands (a commit that came through in parts), all count.
func standing(claims map[string]claim) map[string]claim {
	stand := map[string]claim{}
	for source, c := range claims {
		replaced := false
		for other, o := range claims {
			if _, ok := named(c.Sources, other); ok && !c.same(o) {
				replaced = true
			}
		}
		if !replaced {
			stand[source] = c
		}
	}
	if len(stand) == 0 {
		return claims
	}
	return stand
}

// same tells that two claims were written together, or one after the other by the same owner.
func (c claim) same(o claim) bool {
	return c.Incarnation == o.Incarnation && maps.Equal(c.Sources, o.Sources) && maps.Equal(c.Tables, o.Tables)
}

// agrees tells that two claims name the same source topic, and not one that was created anew.
func (c claim) agrees(o claim, source string) bool {
	a, has := named(c.Sources, source)
	b, ok := named(o.Sources, source)
	return has && ok && sameID(a, b)
}

func parseTopics(field, prefix string) (map[string]string, error) {
	list, ok := strings.CutPrefix(field, prefix)
	if !ok {
		return nil, fmt.Errorf("a claim without %s", prefix)
	}
	topics := map[string]string{}
	if list == "" {
		return topics, nil
	}
	for entry := range strings.SplitSeq(list, ",") {
		topic, id, ok := strings.Cut(entry, ":")
		if !ok || topic == "" || id == "" {
			return nil, fmt.Errorf("a claim with the entry %.60q", entry)
		}
		topics[topic] = id
	}
	return topics, nil
}
