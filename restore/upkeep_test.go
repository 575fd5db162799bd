package restore

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/fetch"
)

// The log hears now and then of a replay that takes long, and nothing of one that has nothing to do.
func TestWhatTheLogHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l, w := newLog(10), newWorker(t)
		m, h := byHand(t, l, w)
		m.log = hclog.New(&hclog.LoggerOptions{Output: &out, DisableTime: true})
		m.Start(w.request("topic", Changelog, 10))
		p := <-h.added
		send(t, p, 0, fetch.Position{Next: 4})
		time.Sleep(25 * time.Second) // of synctest
		send(t, p, 4, fetch.Position{Next: 10})
		w.expect("reached")
		<-h.removed
		synctest.Wait()
		said := out.String()
		for what, want := range map[string]int{": restoring:": 1, ": still restoring:": 2, "remaining=6 ": 2, ": restored:": 1} {
			if got := strings.Count(strings.ReplaceAll(said, "[INFO] ", ":"), what); got != want {
				t.Errorf("%q comes %d times, want %d:\n%s", what, got, want, said)
			}
		}
		out.Reset()
		l.high, w.checkpoint = 0, ""
		m.Start(w.request("topic", Changelog, 0))
		w.expect("reached")
		synctest.Wait()
		if out.Len() != 0 {
			t.Errorf("an empty table says\n%s", out.String())
		}
	})
}
