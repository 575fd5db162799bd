package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"strings"
)

// readToken reads the token, and makes the file when there is none yet: in a pod it lies in a volume
// that sidecar and worker share. Without a path no token is asked for.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeToken(path)
	}
	if err != nil {
		return "", usagef("cannot read token_file: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", usagef("token_file %s is empty: write a token into it, or remove it and one is made", path)
	}
	return token, nil
}

// makeToken writes a token of its own. The file appears whole: a worker may already be waiting for it.
func makeToken(path string) (string, error) {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	token := hex.EncodeToString(raw)
	if err := os.WriteFile(path+".new", []byte(token+"\n"), 0o600); err != nil {
		return "", usagef("cannot make token_file: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", usagef("cannot make token_file: %w", err)
	}
	return token, nil
}
