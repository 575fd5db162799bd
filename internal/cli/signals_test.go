package cli

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestASignalThatComesTwiceIsOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		second os.Signal
		after  time.Duration
		want   step
	}{
		{"timeout(1)", syscall.SIGTERM, time.Millisecond, ignore},
		{"a second one", syscall.SIGTERM, echo, endAtOnce},
		{"another one", syscall.SIGINT, time.Millisecond, endAtOnce},
		{"the worker's", syscall.SIGHUP, time.Second, handOn},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e endings
			now := time.Now()
			if got := e.take(syscall.SIGUSR1, now); got != handOn {
				t.Errorf("SIGUSR1: %v", got)
			}
			if got := e.take(syscall.SIGTERM, now); got != drain {
				t.Errorf("the first: %v", got)
			}
			if got := e.take(c.second, now.Add(c.after)); got != c.want {
				t.Errorf("%v after %v: %v, want %v", c.second, c.after, got, c.want)
			}
		})
	}
}
