package session

import (
	"os"
	"strings"
	"testing"
)

//go:generate env PILLION_WRITE_DIAGRAM=1 go test -count=1 -run TestTheDiagramInTheDocumentsIsTheTable .

// With PILLION_WRITE_DIAGRAM the test writes the diagram instead.
func TestTheDiagramInTheDocumentsIsTheTable(t *testing.T) {
	const path, open, end = "../docs/architecture.md", "```mermaid\n", "```"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), open)
	shown, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no mermaid diagram", path)
	}
	if shown == Diagram() {
		return
	}
	if os.Getenv("PILLION_WRITE_DIAGRAM") == "" {
		t.Fatalf("the diagram in %s is stale: `make generate` writes it", path)
	}
	if err := os.WriteFile(path, []byte(before+open+Diagram()+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
