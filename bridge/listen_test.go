package bridge

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListenIsRefusedInWords(t *testing.T) {
	for listen, part := range map[string]string{
		"0.0.0.0:7420":                      "must not be reachable from other machines: use 127.0.0.1, [::1] or localhost",
		":7420":                             "must not be reachable from other machines",
		"[::]:7420":                         "must not be reachable from other machines",
		"192.168.1.5:7420":                  "must not be reachable from other machines",
		"example.com:7420":                  "must not be reachable from other machines",
		"127.0.0.2:7420":                    "must not be reachable from other machines",
		"[::ffff:127.0.0.1]:7420":           "must not be reachable from other machines",
		"127.0.0.1":                         "give 127.0.0.1:7420",
		"127.0.0.1:http":                    "is not a number",
		"127.0.0.1:70000":                   "is not a number",
		"127.0.0.1:07420":                   "write the port as 7420",
		"":                                  "give 127.0.0.1:7420",
		"unix:relative":                     "unix:/absolute/path",
		"unix:":                             "unix:/absolute/path",
		"unix:/" + strings.Repeat("x", 200): "use a shorter directory",
	} {
		_, err := New(Config{Listen: listen, Token: "t"}, nil)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", listen, err, part)
		}
	}
	for part, cfg := range map[string]Config{
		"max_commit_bytes must": {Listen: "127.0.0.1:0", Token: "t", MaxCommitBytes: -1},
		"hello timeout must":    {Listen: "127.0.0.1:0", Token: "t", HelloTimeout: -1},
		"largest frame must":    {Listen: "127.0.0.1:0", Token: "t", MaxFrame: 5},
	} {
		if _, err := New(cfg, nil); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		_, err = New(Config{Listen: net.JoinHostPort(host, port), Token: "t"}, nil)
		if err == nil || !strings.Contains(err.Error(), "the port is taken, another sidecar may run here") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestLocalhostListensOnBothLoopbacks(t *testing.T) {
	s, _ := start(t, func(c *Config) { c.Listen = "localhost:0" })
	if len(s.listeners) < 2 {
		t.Logf("this machine has no IPv6: %d listener", len(s.listeners))
	}
	for _, l := range s.listeners {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if !strings.HasPrefix(s.URL(), "ws://localhost:") {
		t.Fatalf("url %s", s.URL())
	}
}

func TestUnixSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	cfg := Config{Listen: "unix:" + path, Token: "t"}

	// Left by a process that died: the file is there, nobody listens.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	first, err := New(cfg, nil)
	if err != nil {
		t.Fatalf("a stale file: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v %v", info.Mode(), err)
	}
	if first.URL() != "unix:"+path {
		t.Fatalf("url %s", first.URL())
	}

	// Somebody listens.
	if _, err := New(cfg, nil); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Fatalf("a living socket: %v", err)
	}
	first.Close()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("the file stays: %v", err)
	}

	// Somebody's file.
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, nil); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Fatalf("a file: %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "precious" {
		t.Fatalf("%q %v", b, err)
	}
}
