package machine

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is one process as /proc/PID/stat tells of it.
type Process struct {
	Parent int
	Ticks  float64 // of CPU, without its children
}

func parseProcess(b []byte) (p Process, err error) {
	// The name, in brackets, may hold anything.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // state ppid ... utime is the 12th, stime the 13th
	if len(fields) < 13 {
		return p, fmt.Errorf("/proc/PID/stat is %q", b)
	}
	var n [3]int
	for i, at := range []int{1, 11, 12} {
		if n[i], err = strconv.Atoi(string(fields[at])); err != nil {
			return p, fmt.Errorf("/proc/PID/stat is %q: %w", b, err)
		}
	}
	return Process{Parent: n[0], Ticks: float64(n[1] + n[2])}, nil
}

// Processes are all there are now.
func Processes() (map[int]Process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := map[int]Process{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			return nil, err
		}
		if all[pid], err = parseProcess(b); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// CPU is the CPU seconds of a process and of its living descendants.
func CPU(all map[int]Process, root int) float64 {
	var ticks float64
	for pid, p := range all {
		for at := pid; ; at = all[at].Parent {
			if at == root {
				ticks += p.Ticks
			}
			if at == root || at == 0 {
				break
			}
		}
	}
	return ticks / Ticks
}

// Listener finds the process that listens at a local address; 0: none of this machine that we may see.
func Listener(address string) (int, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	inode := ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil {
			return 0, err
		}
		if found := listening(b, port); found != "" {
			inode = "socket:[" + found + "]"
		}
	}
	if inode == "" {
		return 0, nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil && to == inode {
			return strconv.Atoi(strings.Split(f, "/")[2])
		}
	}
	return 0, nil
}

// listening finds the socket's inode in a table like /proc/net/tcp.
func listening(table []byte, port string) string {
	const listen = "0A"
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(table) {
		f := strings.Fields(string(line)) // sl local_address rem_address st ... inode is the 10th
		if len(f) >= 10 && f[3] == listen && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) {
			return f[9]
		}
	}
	return ""
}
