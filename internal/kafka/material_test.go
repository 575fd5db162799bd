package kafka

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

func authority(t *testing.T, name string) *kafkaproc.CA {
	t.Helper()
	ca, err := kafkaproc.NewCA(name)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// INVARIANT: a file that cannot be used, as one that is half written, changes nothing.
func TestChangedFilesAreUsedWhenTheyAreWhole(t *testing.T) {
	dir := t.TempDir()
	first, second := authority(t, "first"), authority(t, "second")
	s := Security{Protocol: SSL, CAFile: filepath.Join(dir, "ca"), CertificateFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key")}
	put(t, s.CAFile, first.PEM)
	if err := first.IssueTo(kafkaproc.Leaf{Name: "one"}, s.CertificateFile, s.KeyFile); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	m, err := newMaterial(s, hclog.New(&hclog.LoggerOptions{Output: &said}))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what, name string, ca *kafkaproc.CA, warnings int) {
		t.Helper()
		for range 2 { // a warning is given once
			roots, own := m.current()
			want := x509.NewCertPool()
			want.AddCert(ca.Cert)
			if own.Leaf.Subject.CommonName != name || !roots.Equal(want) {
				t.Errorf("%s: the certificate of %s, authorities right: %v", what, own.Leaf.Subject, roots.Equal(want))
			}
		}
		if n := strings.Count(said.String(), "[WARN]"); n != warnings {
			t.Errorf("%s: %d warnings, want %d\n%s", what, n, warnings, &said)
		}
	}
	expect("as made", "one", first, 0)

	cert, key, err := second.Issue(kafkaproc.Leaf{Name: "two"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.CertificateFile, cert)
	expect("a certificate without its key", "one", first, 1)
	put(t, s.KeyFile, key[:len(key)/2])
	expect("half a key", "one", first, 2)
	put(t, s.KeyFile, key)
	expect("both", "two", first, 2)

	put(t, s.CAFile, second.PEM[:len(second.PEM)/2])
	expect("half an authority", "two", first, 3)
	put(t, s.CAFile, append(append([]byte{}, second.PEM...), first.PEM[:len(first.PEM)/2]...))
	expect("one and a half authorities", "two", first, 4)
	if err := os.Remove(s.CAFile); err != nil {
		t.Fatal(err)
	}
	expect("no authority", "two", first, 5)
	put(t, s.CAFile, second.PEM)
	expect("another authority", "two", second, 5)
}

func TestFilesThatCannotBeUsedAreRefusedAtStart(t *testing.T) {
	dir := t.TempDir()
	ca := authority(t, "ca")
	cert, key, err := ca.Issue(kafkaproc.Leaf{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ca.Issue(kafkaproc.Leaf{Name: "y"})
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		put(t, path, text)
		return path
	}
	caFile, certFile, keyFile := at("ca", ca.PEM), at("cert", cert), at("key", key)
	for _, c := range []struct {
		s    Security
		want string
	}{
		{Security{CAFile: dir + "/none"}, "cannot read ssl_ca_file: "},
		{Security{CAFile: at("empty", nil)}, "ssl_ca_file " + dir + "/empty holds no certificate in PEM"},
		{Security{CAFile: keyFile}, "ssl_ca_file " + keyFile + " holds a PRIVATE KEY: certificates in PEM are wanted"},
		{Security{CAFile: caFile, CertificateFile: dir + "/none", KeyFile: keyFile}, "cannot read ssl_certificate_file: "},
		{Security{CAFile: caFile, CertificateFile: certFile, KeyFile: dir + "/none"}, "cannot read ssl_key_file: "},
		{Security{CAFile: caFile, CertificateFile: certFile, KeyFile: at("other", other)}, "ssl_certificate_file " + certFile + " and ssl_key_file " + dir + "/other are no pair: "},
		{Security{CAFile: caFile, CertificateFile: certFile, KeyFile: at("locked", []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"))}, "the key in ssl_key_file " + dir + "/locked is encrypted: "},
	} {
		c.s.Protocol = SSL
		if _, err := New(Config{Bootstrap: []string{"kafka:1"}, Security: c.s}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}
