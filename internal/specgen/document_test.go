package specgen

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pillion/pillion/internal/codegen"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

func document(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "spec/PROTOCOL.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Every message type has its section, its direction and an example that decodes.
func TestDocumentHasEveryMessage(t *testing.T) {
	doc, s := document(t), schemas(t)
	codes, err := codegen.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	directions := map[string]string{"worker": "Worker to sidecar.", "sidecar": "Sidecar to worker.", "both": "Both ways."}
	block := regexp.MustCompile("(?s)```json\n(.*?)```")
	for _, m := range codes.Messages {
		_, section, ok := strings.Cut(doc, "\n### `"+m.Type+"`\n")
		if !ok {
			t.Errorf("%s has no section", m.Type)
			continue
		}
		section, _, _ = strings.Cut(section, "\n##")
		if !strings.Contains(section, directions[m.From]) {
			t.Errorf("%s: the section does not say %q", m.Type, directions[m.From])
		}
		for _, answer := range m.Answer {
			if !strings.Contains(section, "`"+answer+"`") {
				t.Errorf("%s: the section does not name its answer %s", m.Type, answer)
			}
		}
		example := block.FindStringSubmatch(section)
		if example == nil {
			t.Errorf("%s has no example", m.Type)
			continue
		}
		if got, err := protocol.Decode([]byte(example[1])); err != nil || got.Type() != m.Type {
			t.Errorf("%s: the example does not decode: %v", m.Type, err)
		}
		if err := s.Validate(decode([]byte(example[1]))); err != nil {
			t.Errorf("%s: the schema refuses the example: %v", m.Type, err)
		}
	}
}

func TestDocumentHasEveryCloseCode(t *testing.T) {
	doc := document(t)
	codes, err := codegen.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codes.CloseCodes {
		if c.Code < 4000 {
			continue
		}
		row := fmt.Sprintf("| %d | `%s` | %s |", c.Code, c.Name, map[bool]string{true: "yes", false: "no"}[c.Reconnect])
		if !strings.Contains(doc, row) {
			t.Errorf("no row %q", row)
		}
	}
	for _, r := range codes.HTTPRefusals {
		if row := fmt.Sprintf("| %d | `%s` |", r.Status, r.Name); !strings.Contains(doc, row) {
			t.Errorf("no row %q", row)
		}
	}
}

// The frame that the page shows byte by byte is a frame.
func TestDocumentFrame(t *testing.T) {
	_, text, _ := strings.Cut(document(t), "\nExample: two records of kind `restore`")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	var b []byte
	for line := range strings.Lines(text) {
		for _, word := range strings.Fields(line) {
			n, err := hex.DecodeString(word)
			if err != nil || len(word) != 2 {
				break // the explanation begins
			}
			b = append(b, n...)
		}
	}
	f, err := frame.Parse(b)
	if err != nil {
		t.Fatalf("%v\n%x", err, b)
	}
	want := `{"kind":"restore","stream":12,"epoch":7,"base":10,"next":14,"checkpoint":"c","records":[{"offset":10,"key":"k","value":null},{"offset":13,"key":"key","value":"v"}]}`
	if got := encode(FormOf(f)); got != want {
		t.Fatalf("got %s\nwant %s", got, want)
	}
}
