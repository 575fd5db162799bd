package machine

import (
	"net"
	"os"
	"testing"
)

func TestProcesses(t *testing.T) {
	all, err := Processes()
	if err != nil || all[os.Getpid()].Parent != os.Getppid() {
		t.Fatalf("%v, %v", all[os.Getpid()], err)
	}
}

func TestListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if pid, err := Listener(at); err != nil || pid != os.Getpid() {
		t.Errorf("process %d, %v, want %d", pid, err, os.Getpid())
	}
	l.Close()
	if pid, err := Listener(at); err != nil || pid != 0 {
		t.Errorf("process %d, %v, want none", pid, err)
	}
}
