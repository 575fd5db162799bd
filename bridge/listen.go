package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxSocketPath is what a Unix socket's address can hold on every system.
const maxSocketPath = 103

// checkListen says whether an address can be a worker's listener at all.
func checkListen(listen string) error {
	if path, ok := strings.CutPrefix(listen, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("listen %q: a Unix socket is given as unix:/absolute/path", listen)
		}
		if len(path) > maxSocketPath {
			return fmt.Errorf("listen %q: the path has %d bytes, a Unix socket's can have %d: use a shorter directory", listen, len(path), maxSocketPath)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("listen %q: give 127.0.0.1:7420, localhost:7420, [::1]:7420 or unix:/path: %w", listen, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("listen %q: port %q is not a number from 0 to 65535", listen, port)
	} else if port != strconv.FormatUint(n, 10) {
		return fmt.Errorf("listen %q: write the port as %d", listen, n)
	}
	switch host {
	case "127.0.0.1", "::1", "localhost":
		return nil
	}
	return fmt.Errorf("listen %q: the worker's listener must not be reachable from other machines: use 127.0.0.1, [::1] or localhost", listen)
}

// listen opens the listeners of an address that checkListen let through, and says its URL.
func listen(addr string) ([]net.Listener, string, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		l, err := listenUnix(path)
		if err != nil {
			return nil, "", fmt.Errorf("listen %q: %w", addr, err)
		}
		return []net.Listener{l}, addr, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	if host != "localhost" {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, "", inUse(addr, err)
		}
		return []net.Listener{l}, "ws://" + l.Addr().String(), nil
	}
	return listenLocalhost(port)
}

// listenLocalhost listens on both loopback addresses, with one port. A machine without IPv6 has
// only one.
func listenLocalhost(port string) ([]net.Listener, string, error) {
	for attempt := 0; ; attempt++ {
		v4, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return nil, "", inUse("localhost:"+port, err)
		}
		at := strconv.Itoa(v4.Addr().(*net.TCPAddr).Port)
		url := "ws://localhost:" + at
		v6, err := net.Listen("tcp6", net.JoinHostPort("::1", at))
		if err == nil {
			return []net.Listener{v4, v6}, url, nil
		}
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			return []net.Listener{v4}, url, nil
		}
		v4.Close()
		if port != "0" || attempt == 10 {
			return nil, "", inUse("localhost:"+port, err)
		}
	}
}

func inUse(addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen %q: the port is taken, another sidecar may run here: stop it or choose another port: %w", addr, err)
	}
	return fmt.Errorf("listen %q: %w", addr, err)
}

// listenUnix listens on a socket file that only its owner can open. A file that a dead process left
// is removed; one that somebody listens on, or that is no socket, is not.
func listenUnix(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, errors.New("the file exists and is not a socket: remove it or choose another path")
	default:
		if err := removeStale(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Until here the umask decides; whoever slips in still needs the token.
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func removeStale(path string) error {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return errors.New("another process listens there: stop it or choose another path")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether another process listens there: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the socket file of a dead process cannot be removed: %w", err)
	}
	return nil
}
