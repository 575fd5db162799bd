package kafka

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// Secret is a password: in a file, which is read whenever it is needed, or a value of the environment.
//
// INVARIANT: no secret is in an error, a log line or what fmt makes of a Config.
type Secret struct {
	File  string
	Value string
}

// String hides the value.
func (s Secret) String() string {
	switch {
	case s.File != "":
		return "[in " + s.File + "]"
	case s.Value != "":
		return "[secret]"
	}
	return ""
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// Format hides the value from every other verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText hides the value from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Secret) validate(file, variable, why string) error {
	switch {
	case s.File == "" && s.Value == "":
		return fmt.Errorf("%s needs a secret: set %s to a file that holds it, or %s in the environment", why, file, variable)
	case s.File != "" && s.Value != "":
		return fmt.Errorf("%s and %s are both set: leave one out", file, variable)
	}
	return nil
}

// maxSecret is far more than any password or token.
const maxSecret = 1 << 20

func (s Secret) read() (string, error) {
	if s.File == "" {
		return s.Value, nil
	}
	return readSecret(s.File)
}

func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > maxSecret {
		return "", fmt.Errorf("%s is %d bytes long, that is no secret", path, info.Size())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// kept is a secret that is read again each time. One that cannot be read, as a file that is just being
// written, is as it was before, with a warning.
type kept struct {
	name string // of the setting
	read func() (string, error)
	log  hclog.Logger

	mu     sync.Mutex
	last   string
	warned string
}

func (k *kept) get() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, err := k.read()
	if err == nil {
		k.last, k.warned = now, ""
		return now, nil
	}
	if k.last == "" {
		return "", fmt.Errorf("cannot read %s: %w", k.name, err)
	}
	if k.warned != err.Error() {
		k.warned = err.Error()
		k.log.Warn("a secret cannot be read again, the one from before is used", "setting", k.name, "error", err)
	}
	return k.last, nil
}
