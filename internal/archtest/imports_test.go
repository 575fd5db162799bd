package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pillion/pillion/"

// What several packages may use.
const (
	hclog    = "github.com/hashicorp/go-hclog"
	kafkaGo  = "github.com/segmentio/kafka-go"
	kmsg     = "github.com/twmb/franz-go/pkg/kmsg"
	errgroup = "golang.org/x/sync/errgroup"
	compress = "github.com/klauspost/compress"
	lz4      = "github.com/pierrec/lz4/v4"
	oauth2   = "golang.org/x/oauth2"

	scenarios = "github.com/pillion/pillion" // the root package: files of spec/
)

// allowed is the import table: for each package what it may import besides the standard library.
// An entry allows what lies under it, too. A package that does not exist yet is no error; one that
// exists and is not here is.
var allowed = map[string][]string{
	"assignor":             {},
	"protocol":             {},
	"protocol/frame":       {},
	"internal/gate":        {},
	"session":              {"assignor", "protocol", "internal/gate", hclog, errgroup},
	"groupclient":          {"assignor", "protocol", "internal/kafka", kmsg, hclog, errgroup},
	"restore":              {"internal/fetch", "internal/gate", "internal/kafka", "protocol", hclog, errgroup},
	"feed":                 {"internal/fetch", "internal/gate", "internal/kafka", "protocol", hclog, errgroup},
	"produce":              {"internal/kafka", "internal/gate", "protocol", compress, lz4, kmsg, hclog, errgroup},
	"bridge":               {"protocol", "internal/gate", "github.com/gorilla/websocket", hclog, errgroup},
	"internal/kafka":       {kafkaGo, kmsg, hclog, errgroup, oauth2},
	"internal/plan":        {"assignor"},
	"internal/fetch":       {"internal/kafka", "protocol/frame", compress, lz4, kmsg, hclog, errgroup},
	"internal/cli":         {scenarios, "internal/conformance", "assignor", "protocol", "session", "groupclient", "restore", "feed", "produce", "bridge", "internal/kafka", "internal/fetch", "internal/gate", "internal/ops", "internal/plan", "internal/cli", hclog, errgroup, "github.com/spf13/pflag", "gopkg.in/yaml.v3"},
	"internal/conformance": {scenarios, "protocol", "github.com/gorilla/websocket"},
	"internal/ops":         {"assignor", "protocol", "session", "groupclient", "restore", "feed", "produce", "bridge", "internal/kafka", "internal/fetch", "internal/gate", "internal/ops", hclog, errgroup, "github.com/prometheus/client_golang"},
	"cmd/sidecar":          {"internal/cli"},
	"internal/codegen":     {},
	"internal/specgen":     {},
	"internal/archtest":    {},
	".":                    {},
}

// tools are never part of the sidecar and may import what they like.
var tools = []string{"bench", "cmd/devkafka", "internal/kafkatest", "internal/codegen/gen", "internal/specgen/gen", "internal/journeys", "internal/transcripts", "internal/groupmodel", "internal/groupsim", "internal/drill", "internal/nodeclient", "test"}

// edges meet only in internal/cli.
var edges = []string{"groupclient", "restore", "feed", "produce", "bridge"}

// under says whether path is root or lies under it.
func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func anyUnder(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return under(path, root) })
}

// entry finds the table's entry of a package: its own or that of the nearest one above it.
func entry(pkg string) ([]string, bool) {
	for at := pkg; ; {
		if rule, ok := allowed[at]; ok {
			return rule, true
		}
		cut := strings.LastIndexByte(at, '/')
		if cut < 0 {
			return nil, false
		}
		at = at[:cut]
	}
}

func TestImportTable(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test || anyUnder(f.pkg, tools) {
			continue
		}
		rule, ok := entry(f.pkg)
		if !ok {
			t.Errorf("package %s is not in the import table", f.pkg)
			continue
		}
		for _, path := range f.imports {
			if !strings.Contains(path, ".") || under(strings.TrimPrefix(path, module), f.pkg) {
				continue
			}
			if name := strings.TrimPrefix(path, module); !anyUnder(name, rule) {
				t.Errorf("%s: %s must not import %s", f.path, f.pkg, name)
			}
		}
	}
}

// INVARIANT: the edges never import each other nor session.
func TestEdgesStandAlone(t *testing.T) {
	for _, edge := range edges {
		for _, other := range append([]string{"session"}, edges...) {
			if other != edge && anyUnder(other, allowed[edge]) {
				t.Errorf("the table lets %s import %s", edge, other)
			}
		}
	}
}

// The machine in session and the pure packages emit events instead of logging.
func TestWhoMayLog(t *testing.T) {
	loop := []string{"session/runner.go"} // the loop around the machine
	for _, f := range goFiles(t) {
		pure := anyUnder(f.pkg, []string{"assignor", "protocol", "internal/gate", "session"})
		if pure && !f.test && slices.Contains(f.imports, hclog) && !slices.Contains(loop, f.path) {
			t.Errorf("%s: must emit events, not log", f.path)
		}
	}
}

func TestTestHelpersStayOutOfTheSidecar(t *testing.T) {
	forbidden := []string{
		"github.com/twmb/franz-go/pkg/kfake", "github.com/twmb/franz-go/pkg/kgo",
		module + "internal/kafkatest", module + "cmd/devkafka", module + "internal/codegen", module + "internal/specgen", module + "internal/journeys", module + "internal/transcripts", module + "internal/groupmodel", module + "internal/groupsim", module + "internal/drill", module + "internal/nodeclient", module + "bench",
	}
	if len(goPackage(t, "cmd/sidecar")) == 0 {
		return // nothing to link yet
	}
	cmd := exec.Command("go", "list", "-e", "-deps", "./cmd/sidecar")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for path := range strings.Lines(string(out)) {
		if path = strings.TrimSpace(path); anyUnder(path, forbidden) {
			t.Errorf("the sidecar links %s", path)
		}
	}
}

func goPackage(t *testing.T, pkg string) []goFile {
	var files []goFile
	for _, f := range goFiles(t) {
		if f.pkg == pkg {
			files = append(files, f)
		}
	}
	return files
}

func TestTheTableItself(t *testing.T) {
	for pkg, rule := range allowed {
		for _, path := range rule {
			if _, known := allowed[path]; !strings.Contains(path, ".") && !known {
				t.Errorf("%s may import %s, which is not in the table", pkg, path)
			}
		}
	}
}
