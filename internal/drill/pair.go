package drill

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pair is a sidecar and a worker beside it, each kept up by the drill, as in a pod: when one ends the other stays.
type pair struct {
	n               int
	dir             string // its own: stores, socket's token, what the drill asks for
	socket          string
	sidecar, worker *keeper
	history         *History

	dying atomic.Pointer[Fault] // it is to kill itself

	mu     sync.Mutex
	bound  int64 // of memory, by the sidecar's word
	most   int64 // seen
	exits  []string
	claims map[string]bool // refusals that were heard

	refusing bool // a refusal is what is to come
	leaving  bool // the sidecar drains: a worker that comes to it is told so, and ends with 0
}

// sidecarFlags are short times: so much happens in a minute.
func (l *lab) sidecarFlags(p *pair) []string {
	times := []struct {
		flag string
		time time.Duration
	}{
		{"--session-timeout", 3 * time.Second}, {"--revoke-timeout", 3 * time.Second}, {"--transaction-timeout", 3 * time.Second},
		{"--worker-grace", 2 * time.Second}, {"--max-processing", 6 * time.Second},
	}
	if l.options.Mild { // a membership that is lost is nothing mild
		times[0].time = 40 * time.Second
	}
	flags := []string{
		"run", "--bootstrap-servers", l.bootstrap(), "--group-id", l.group, "--listen", "unix:" + p.socket,
		"--token-file", filepath.Join(p.dir, "token"), "--ops-listen", "", "--log-format", "json", "--log-level", "debug",
		"--num-standby-replicas", "1", "--heartbeat-interval", "300ms", "--drain-timeout", "20s",
		"--processing-guarantee", string(l.options.Guarantee), "--on-lost-position", l.lostPosition(),
	}
	for _, t := range times {
		flags = append(flags, t.flag, l.paced(t.time).String())
	}
	return append(flags, l.securityFlags()...)
}

// paced is a time on a machine that is so much slower.
func (l *lab) paced(d time.Duration) time.Duration {
	return time.Duration(max(1, l.options.Pace) * float64(d))
}

func (l *lab) newPair(n int) (*pair, error) {
	p := &pair{n: n, dir: filepath.Join(l.dir, pairName(n)), history: l.history, claims: map[string]bool{}}
	p.socket = filepath.Join(l.sockets, strconv.Itoa(n))
	if err := os.MkdirAll(filepath.Join(p.dir, "tables"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(p.dir, "token"), []byte("the drill's token\n"), 0o600); err != nil {
		return nil, err
	}
	p.sidecar = newKeeper(fmt.Sprintf("sidecar %d", n))
	p.sidecar.command = func() *exec.Cmd {
		cmd := exec.Command(l.binary, l.sidecarFlags(p)...)
		cmd.Env = environ(l.securityEnv()...)
		return cmd
	}
	p.worker = newKeeper(fmt.Sprintf("worker %d", n))
	p.worker.command = func() *exec.Cmd { return l.workerCommand(p) }
	for _, k := range []*keeper{p.sidecar, p.worker} {
		log, err := os.OpenFile(filepath.Join(p.dir, strings.Fields(k.name)[0]+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		k.log = log
		l.files = append(l.files, log)
	}
	p.sidecar.line, p.sidecar.began, p.sidecar.ended = p.sidecarSays, p.sidecarBegan, p.sidecarEnded
	p.worker.line, p.worker.began, p.worker.ended = p.workerSays, p.noted(WorkerUp), p.workerEnded
	return p, nil
}

// ask is a file by which something is asked of the worker.
func (p *pair) ask(what string) string { return filepath.Join(p.dir, what) }

func (p *pair) noted(what string) func(life, pid int) {
	return func(life, pid int) {
		p.history.Add(Event{What: what, Pair: p.n, Life: life, Text: fmt.Sprintf("pid %d", pid)})
	}
}

func (p *pair) sidecarBegan(life, pid int) {
	p.mu.Lock()
	p.leaving = false
	p.mu.Unlock()
	p.noted(SidecarUp)(life, pid)
}

// leave drains the pair as a pod ends: SIGTERM to the sidecar.
func (p *pair) leave(pause time.Duration, now func()) bool {
	p.worker.expect()
	p.mu.Lock()
	p.leaving = true
	p.mu.Unlock()
	if p.sidecar.end(sigterm, pause, now) {
		return true
	}
	p.worker.unexpect()
	p.mu.Lock()
	p.leaving = false
	p.mu.Unlock()
	return false
}

// sidecarEnded: 2 is a panic, or a setting that is refused, whatever we have done to it.
func (p *pair) sidecarEnded(life, code int, explained bool) bool {
	return p.over(SidecarEnded, life, code, explained && code != 2)
}

// workerEnded: a worker that finds no sidecar in time ends with 3, and 0 when its sidecar has drained.
func (p *pair) workerEnded(life, code int, explained bool) bool {
	p.mu.Lock()
	explained = explained || code == 3 || code == 2 && p.refusing || code == 0 && p.leaving
	p.mu.Unlock()
	return p.over(WorkerEnded, life, code, explained)
}

func (p *pair) over(what string, life, code int, explained bool) bool {
	p.history.Add(Event{What: what, Pair: p.n, Life: life, ID: int64(code), OK: explained})
	if !explained {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.exits = append(p.exits, fmt.Sprintf("pair %d: %s with exit code %d (life %d)", p.n, what, code, life))
	}
	return explained
}

func (p *pair) workerSays(life int, text string) {
	var said struct {
		Event, Task, Role, Text string
		At                      float64
		ID                      int64
		OK                      bool
	}
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &said) != nil {
		return
	}
	at := time.UnixMicro(int64(said.At * 1e6))
	if said.Event == "dies" {
		p.worker.expect() // it may be a later life than the one that was asked
		p.history.Add(Event{At: at, What: FaultBegan, Pair: p.n, Fault: p.dying.Swap(nil), Text: said.Text})
		return
	}
	p.history.Add(Event{
		At: at, What: said.Event, Pair: p.n, Life: life,
		Task: said.Task, Role: said.Role, ID: said.ID, OK: said.OK, Text: said.Text,
	})
}

// sidecarLines are the lines of a sidecar's log that the history needs.
var sidecarLines = map[string]string{
	"assigned": GroupAssigned, "task running": TaskRunning, "task promoted": TaskPromoted, "task revoked": TaskRevoked,
	"task released": TaskReleased, "task demoted": TaskDemoted, "task refused": TaskRefused, "membership lost": GroupLost,
	"left the group": GroupLeft, "commit failed": "commit failed", "store reset": "store reset",
	"fenced the transactions of the task's former owner": "fenced", "revoke timed out": "revoke timed out",
	"the worker is hung, leaving the group": "hung", "writes may still land, the task waits for their end": InDoubt,
}

func (p *pair) sidecarSays(life int, text string) {
	var said struct {
		At         string `json:"@timestamp"`
		Message    string `json:"@message"`
		Task       string `json:"task"`
		Code       string `json:"code"`
		Error      string `json:"error"`
		Generation int64  `json:"generation"`
		Active     int    `json:"active"`
		Bound      int64  `json:"bound_bytes"`
	}
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &said) != nil {
		return
	}
	if said.Bound > 0 {
		p.mu.Lock()
		p.bound = said.Bound
		p.mu.Unlock()
	}
	what, wanted := sidecarLines[said.Message]
	if !wanted {
		return
	}
	if what == TaskRefused {
		p.mu.Lock()
		p.claims[said.Error] = true
		p.mu.Unlock()
	}
	at, err := time.Parse("2006-01-02T15:04:05.000Z0700", said.At)
	if err != nil {
		at = time.Time{}
	}
	p.history.Add(Event{
		At: at, What: what, Pair: p.n, Life: life, Task: said.Task, Generation: said.Generation, Active: said.Active,
		Text: strings.TrimPrefix(said.Code+" "+said.Error, " "),
	})
}

// measure notes how much memory the sidecar takes now.
func (p *pair) measure() {
	pid := p.sidecar.pid()
	if pid == 0 {
		return
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = max(p.most, pages*int64(os.Getpagesize()))
}

// who finds out whose a connection to a proxy is: the pair whose sidecar has its other end.
func (l *lab) who(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return ""
	}
	inode := socketInode(tcp.Port)
	if inode == "" {
		return ""
	}
	for _, p := range l.pairs {
		if pid := p.sidecar.pid(); pid != 0 && hasSocket(pid, inode) {
			return pairName(p.n)
		}
	}
	return ""
}

// socketInode finds the socket at a local port in /proc/net/tcp.
func socketInode(port int) string {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	local := fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 9 && fields[1] == local && fields[9] != "0" {
			return fields[9]
		}
	}
	return ""
}

func hasSocket(pid int, inode string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// refuses says that refusals are what is to come: a worker ends with 2 then. Those so far are forgotten.
func (p *pair) refuses(now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = now
	clear(p.claims)
}

// hasRefused says whether a refusal holds all these words.
func (p *pair) hasRefused(words ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for said := range p.claims {
		all := true
		for _, w := range words {
			all = all && strings.Contains(said, w)
		}
		if all {
			return true
		}
	}
	return false
}
