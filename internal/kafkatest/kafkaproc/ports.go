package kafkaproc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Ports come from below the ranges that Linux (32768 up) and macOS (49152 up)
// give to outgoing connections, so that nobody takes the port of a broker that
// is down for a while.
const firstPort, lastPort = 20_000, 32_000

// FreePort finds a port for a server that is started later, and keeps it until release: nobody whose port
// the system chooses gets it meanwhile.
func FreePort() (port int, release func(), err error) { return freePort() }

// freePort finds a port and keeps it for us: the file lock holds off other test
// binaries, also while the broker is down.
func freePort() (port int, release func(), err error) {
	root, err := cacheRoot()
	if err != nil {
		return 0, nil, err
	}
	dir := filepath.Join(root, "ports")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, nil, err
	}
	for range 200 {
		port = firstPort + rand.IntN(lastPort-firstPort)
		unlock, err := lockFile(filepath.Join(dir, strconv.Itoa(port)), false)
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if l, err := net.Listen("tcp", address(port)); err == nil {
			l.Close()
			return port, unlock, nil
		}
		unlock()
	}
	return 0, nil, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
