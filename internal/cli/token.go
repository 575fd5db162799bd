package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"strings"
)

// maxToken is far below what the listener takes as a header.
const maxToken = 1 << 10

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
	return token, checkToken(path, token)
}

// checkToken refuses a token that no header can carry: every worker would be turned away.
func checkToken(path, token string) error {
	for _, b := range []byte(token) {
		if b < ' ' || b == 0x7f {
			return usagef("token_file %s does not hold a token: one line of at most %d letters and digits is wanted", path, maxToken)
		}
	}
	if len(token) > maxToken {
		return usagef("token_file %s does not hold a token, it is %d bytes long: one line of at most %d letters and digits is wanted", path, len(token), maxToken)
	}
	return nil
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
