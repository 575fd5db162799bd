// Command gen writes the files that are generated from spec/codes.json. Its one argument is the
// root of the repository.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pillion/pillion/internal/codegen"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: gen <root of the repository>"))
	}
	root := os.Args[1]
	c, err := codegen.Load(root)
	if err != nil {
		fail(err)
	}
	files, err := codegen.Files(c)
	if err != nil {
		fail(err)
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			fail(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "gen:", err)
	os.Exit(1)
}
