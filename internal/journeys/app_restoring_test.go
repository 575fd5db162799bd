//go:build kafka

package journeys

import (
	"regexp"
	"testing"
)

// restoring is a job whose table is worth restoring, and whose worker has lost its disk.
func restoring(t *testing.T) (*job, *sidecar) {
	t.Helper()
	j := newApp(t, oneBroker(t), 1, "process")
	j.keys, j.window = 60_000, 64<<10
	j.load(0, 60_000)
	s := j.sidecar("--compression-type", "none", "--worker-grace", "30s")
	w := j.worker(s)
	j.finish()
	w.kill()
	j.loseDisk()
	return j, s
}

// On a terminal there is a bar while tables are restored: with rich, and without it.
func TestAppShowsBar(t *testing.T) {
	for name, bar := range map[string]string{
		"rich":  `restoring .*━.* \d+ % 1 table, .*, [\d,]+ records, [\d,]+ records/s`,
		"plain": `restoring \[#*\.*\] +\d+ % 1 table, .*, [\d,]+ records`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, s := restoring(t)
			j.ask("restore", "slow 0.4")
			env := append(j.env(), "PILLION_URL="+s.url, "PILLION_TOKEN_FILE="+s.token, "APP_BAR="+name, "TERM=xterm", "COLUMNS=200")
			w := start(t, "worker", env, python(t), script("app_pty.py"), python(t), script(j.program))
			shown := regexp.MustCompile(bar)
			w.waitFor(0, "a bar", func(e entry) bool { return shown.MatchString(e.text) })
			w.wait("whole", "records", "60000")
			j.load(60_000, 100)
			j.checkLists()
			s.drain()
			if code := w.exit(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// Elsewhere there is a line in the log, once restoring takes longer than ten seconds.
func TestAppLogsRestoring(t *testing.T) {
	t.Parallel()
	j, s := restoring(t)
	j.ask("restore", "slow 2")
	w := j.worker(s)
	line := regexp.MustCompile(`INFO pillion: restoring \d+ %: 1 table, .*to go.*, [\d,]+ records, [\d,]+ records/s`)
	w.waitFor(0, "a line about restoring", func(e entry) bool { return line.MatchString(e.text) })
	w.waitFor(0, "its end", func(e entry) bool { return regexp.MustCompile("all tables are restored$").MatchString(e.text) })
	if n := len(w.since(0, func(e entry) bool { return line.MatchString(e.text) })); n > 2 {
		t.Errorf("%d lines about some fourteen seconds", n)
	}
	s.drain()
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
