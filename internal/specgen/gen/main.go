// Command gen writes the generated files of spec/. Its one argument is the root of the repository.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pillion/pillion/internal/specgen"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: gen <root of the repository>"))
	}
	files, err := specgen.Files(os.Args[1])
	if err != nil {
		fail(err)
	}
	for path, text := range files {
		path = filepath.Join(os.Args[1], path)
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
