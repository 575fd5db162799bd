package kafka

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// material is what the files of TLS hold. They are read again for each connection, which is cheap
// beside its handshake and needs no watcher.
//
// INVARIANT: a file that cannot be used, as one that is half written, changes nothing.
type material struct {
	security Security
	log      hclog.Logger

	mu     sync.Mutex
	ca     []byte
	pair   [2][]byte // certificate and key
	roots  *x509.CertPool
	own    *tls.Certificate
	warned string
}

// newMaterial reads the files for the first time.
func newMaterial(s Security, log hclog.Logger) (*material, error) {
	m := &material{security: s, log: log}
	if err := m.readCA(); err != nil {
		return nil, err
	}
	if err := m.readPair(); err != nil {
		return nil, err
	}
	return m, nil
}

// current are the authorities (nil: the system's) and our certificate (nil: none), as of now.
func (m *material) current() (*x509.CertPool, *tls.Certificate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := errors.Join(m.readCA(), m.readPair())
	if err == nil {
		m.warned = ""
	} else if m.warned != err.Error() {
		m.warned = err.Error()
		m.log.Warn("a changed TLS file cannot be used, what it held before is used", "error", oneLine(err))
	}
	return m.roots, m.own
}

func (m *material) readCA() error {
	path := m.security.CAFile
	if path == "" {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read ssl_ca_file: %w", err)
	}
	if m.roots != nil && bytes.Equal(raw, m.ca) {
		return nil
	}
	pool, err := authorities(raw)
	if err != nil {
		return fmt.Errorf("ssl_ca_file %s %w", path, err)
	}
	if m.roots != nil {
		m.log.Info("ssl_ca_file has changed, new connections use it")
	}
	m.ca, m.roots = raw, pool
	return nil
}

// authorities takes only a file all of which can be read: x509's own way skips what it cannot, so that
// a half-written file would be one with fewer authorities.
func authorities(raw []byte) (*x509.CertPool, error) {
	pool, rest, n := x509.NewCertPool(), raw, 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("holds a %s: certificates in PEM are wanted", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("holds a certificate that cannot be read: %w", err)
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, errors.New("holds no certificate in PEM")
	}
	if bytes.Contains(rest, []byte("-----BEGIN")) {
		return nil, errors.New("ends in the middle of a certificate")
	}
	return pool, nil
}

func (m *material) readPair() error {
	s := m.security
	if s.CertificateFile == "" {
		return nil
	}
	cert, err := os.ReadFile(s.CertificateFile)
	if err != nil {
		return fmt.Errorf("cannot read ssl_certificate_file: %w", err)
	}
	key, err := os.ReadFile(s.KeyFile)
	if err != nil {
		return fmt.Errorf("cannot read ssl_key_file: %w", err)
	}
	if m.own != nil && bytes.Equal(cert, m.pair[0]) && bytes.Equal(key, m.pair[1]) {
		return nil
	}
	if encrypted(key) {
		return fmt.Errorf("the key in ssl_key_file %s is encrypted: decrypt it, and let the file's permissions protect it", s.KeyFile)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("ssl_certificate_file %s and ssl_key_file %s are no pair: %w", s.CertificateFile, s.KeyFile, err)
	}
	if m.own != nil {
		m.log.Info("the client certificate has changed, new connections use it", "subject", own.Leaf.Subject.String(), "expires", own.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	m.pair, m.own = [2][]byte{cert, key}, &own
	return nil
}

func encrypted(key []byte) bool {
	return bytes.Contains(key, []byte("ENCRYPTED PRIVATE KEY")) || strings.Contains(string(key), "Proc-Type: 4,ENCRYPTED")
}
