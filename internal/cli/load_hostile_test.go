package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzSettings: any file given as --config is settings, or a mistake that is said as one.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("bootstrap_servers: [a:1, b:2]\ngroup_id: g\nnum_standby_replicas: 2\nworker_grace: 3s\nmax_commit_bytes: 16MiB\n"))
	f.Add([]byte("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"))
	f.Add([]byte("group_id: {a: [b, {c: d}]}\nrevoke_timeout: 1e400h\n"))
	f.Add([]byte("bootstrap_servers: !!binary YQ==\nlisten: !!set {a, b}\n"))
	f.Add([]byte("- a\n- b\n"))
	path := filepath.Join(f.TempDir(), "config.yaml")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		flags := newFlags("run")
		if err := flags.Parse([]string{"--config", path}); err != nil {
			t.Fatal(err)
		}
		s, given, _, err := load(flags, nil)
		var mistake usageError
		if err != nil {
			if !errors.As(err, &mistake) {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		_ = s.check()
		var out bytes.Buffer
		printConfig(&out, &options{Settings: s, given: given})
	})
}
