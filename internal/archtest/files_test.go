package archtest

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// skipped are folders of tools and of generated or fetched things.
var skipped = []string{"target", "node_modules", "testdata", "bin", "demo-data", "drill-data", "build", "dist", "__pycache__"}

func skip(dir string) bool {
	hidden := strings.HasPrefix(dir, ".") && dir != ".." && dir != ".ci"
	return hidden || slices.Contains(skipped, dir) || strings.HasSuffix(dir, ".egg-info")
}

// goFile is what the rules need of a source file.
type goFile struct {
	path, pkg string
	test      bool
	imports   []string
}

// walk calls visit for each file that people write.
func walk(t *testing.T, visit func(path string, content []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) { // removed while we walk
				return nil
			}
			return err
		}
		if d.IsDir() {
			if path != root && skip(d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err != nil || !d.Type().IsRegular() || info.Size() > 4<<20 {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		visit(filepath.ToSlash(rel), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goFiles reads every Go file with its imports, whatever its build tags.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	walk(t, func(path string, content []byte) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, content, parser.ImportsOnly)
		if err != nil {
			t.Logf("%s: %v", path, err) // the compiler says it better
			return
		}
		f := goFile{path: path, pkg: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go")}
		for _, spec := range parsed.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			f.imports = append(f.imports, name)
		}
		files = append(files, f)
	})
	return files
}

var generated = regexp.MustCompile(`(?m)^(//|#|<!--) Code generated .* DO NOT EDIT\.`)

// A file holds one concept: past 400 lines it is looked at, past 600 it is refused.
func TestFilesAreShort(t *testing.T) {
	const soft, hard = 400, 600
	walk(t, func(path string, content []byte) {
		ext := filepath.Ext(path)
		test := strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/tests/") || strings.Contains(path, ".test.")
		if !slices.Contains([]string{".go", ".py", ".ts", ".java", ".sh"}, ext) || test || generated.Match(content) {
			return
		}
		switch lines := bytes.Count(content, []byte("\n")); {
		case lines > hard:
			t.Errorf("%s has %d lines: split it", path, lines)
		case lines > soft:
			t.Logf("%s has %d lines", path, lines)
		}
	})
}

// Nothing in the project may name a place of the machine it was written on.
func TestNoMachinePaths(t *testing.T) {
	machine := regexp.MustCompile(`(^|[^\w./-])/(` + "wor" + `k|ro` + `ot|ho` + `me/[a-z]+|Us` + `ers)/`)
	walk(t, func(path string, content []byte) {
		if bytes.IndexByte(content, 0) >= 0 {
			return
		}
		if at := machine.FindIndex(content); at != nil {
			line := 1 + bytes.Count(content[:at[0]], []byte("\n"))
			t.Errorf("%s:%d: names a path of one machine: %q", path, line, content[at[0]:min(len(content), at[1]+20)])
		}
	})
}
