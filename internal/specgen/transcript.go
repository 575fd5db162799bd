package specgen

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// script collects the lines of one transcript.
type script struct {
	out bytes.Buffer
}

func (s *script) line(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !json.Valid([]byte(line)) {
		panic("transcript line is not JSON: " + line)
	}
	s.out.WriteString(line + "\n")
}

func (s *script) note(text string) { s.line(`{"note": %s}`, encode(text)) }
func (s *script) connect()         { s.line(`{"connect": true}`) }

// cause says what happens outside of the protocol; do is the same for a program (see spec/README.md),
// given without its braces and with single quotes for double ones.
func (s *script) cause(text string, do ...string) {
	if len(do) == 0 {
		s.line(`{"cause": %s}`, encode(text))
		return
	}
	s.line(`{"cause": %s, "do": {%s}}`, encode(text), strings.ReplaceAll(do[0], "'", `"`))
}

// delivered tells up to where the application has been handed the records of flights/3.
func (s *script) delivered(next int64) {
	s.line(`{"delivered": "flights/3", "next": {"flights": %d}}`, next)
}

// holds tells what a store holds before the worker opens it.
func (s *script) holds(table, task, rows, checkpoint string) {
	s.line(`{"given": {"store": %q, "task": %q, "rows": {%s}, "checkpoint": %s}}`, table, task, strings.ReplaceAll(rows, "'", `"`), encode(checkpoint))
}

// queued marks what was added last, a line of the sidecar: the application takes nothing yet.
func (s *script) queued() { s.mark("queued") }

// race marks the line of the worker that was added last: a core that has read the line before refuses it.
func (s *script) race() { s.mark("race") }

func (s *script) mark(word string) {
	s.out.Truncate(s.out.Len() - len("}\n"))
	fmt.Fprintf(&s.out, ", %q: true}\n", word)
}

// given is the usual cause: the group gives flights/3, with an empty changelog.
func (s *script) given(more string) {
	s.cause("the group gives flights/3 to this sidecar; its changelog is empty, position 100 is committed"+more,
		`'give': 'flights/3', 'positions': {'flights': 100}, 'ends': {'plane_stats': 0}`)
}

// acknowledged is the cause of committed.
func (s *script) acknowledged(id int) {
	s.cause(fmt.Sprintf("commit %d is acknowledged by Kafka", id), fmt.Sprintf(`'land': [%d]`, id))
}

// worker and sidecar add a message, given without its braces and with single quotes for double ones.
func (s *script) worker(message string, args ...any)  { s.message("worker", message, args...) }
func (s *script) sidecar(message string, args ...any) { s.message("sidecar", message, args...) }

func (s *script) message(from, message string, args ...any) {
	body := strings.ReplaceAll(fmt.Sprintf(message, args...), "'", `"`)
	s.line(`{"from": %q, "message": {"type": %s}}`, from, body)
}

func (s *script) close(from string, code int) {
	if code == 0 {
		s.line(`{"from": %q, "close": null}`, from)
		return
	}
	s.line(`{"from": %q, "close": %d}`, from, code)
}

// frame adds a frame; mark is empty, dropped or held.
func (s *script) frame(f Frame, mark string) {
	from := "sidecar"
	if f.Kind == "writes" {
		from = "worker"
	}
	if mark != "" {
		mark = fmt.Sprintf(`, %q: true`, mark)
	}
	s.line(`{"from": %q, "frame": %s, "hex": %q%s}`, from, encode(f), hex.EncodeToString(rawOf(f, 0).bytes()), mark)
}

func (s *script) store(table, task, rows, checkpoint string) {
	cp := "null"
	if checkpoint != "" {
		cp = encode(checkpoint)
	}
	s.line(`{"store": %q, "task": %q, "rows": {%s}, "checkpoint": %s}`, table, task, strings.ReplaceAll(rows, "'", `"`), cp)
}

// records makes a records frame of contiguous offsets from base.
func records(stream, epoch uint32, base int64, recs ...Record) Frame {
	return moved(Frame{Kind: "records", Stream: stream, Epoch: epoch}, base, recs)
}

// restore makes a restore frame of contiguous offsets from base.
func restore(stream, epoch uint32, base int64, checkpoint string, recs ...Record) Frame {
	return moved(Frame{Kind: "restore", Stream: stream, Epoch: epoch, Checkpoint: checkpoint}, base, recs)
}

func moved(f Frame, base int64, recs []Record) Frame {
	f.Base, f.Next, f.Records = long(base), long(base), []Record{}
	for _, r := range recs {
		if r.Offset == nil {
			r.Offset = long(int64(*f.Next))
		}
		*f.Next = *r.Offset + 1
		f.Records = append(f.Records, r)
	}
	return f
}

// until moves the frame's next offset past markers.
func until(f Frame, next int64) Frame {
	f.Next = long(next)
	return f
}

func writes(stream, epoch uint32, commit int64, recs ...Record) Frame {
	return Frame{Kind: "writes", Stream: stream, Epoch: epoch, Commit: long(commit), Records: recs}
}

func tombstone(key string) Record { return Record{Key: text(key)} }

const (
	declared = `'sets': [{'name': 'flights', 'sources': ['flights'], 'tables': [{'name': 'plane_stats'}]}], 'outputs': ['late-arrivals']`
	window   = `'max_frame': 134217728, 'credit': {'connection': 4194304, 'stream': 1048576}`
	me       = `'versions': [1], 'client': {'name': 'my-worker', 'version': '0.1'}`
	answered = `'version': 1, 'session': 'c%d', 'sidecar': {'name': 'pillion', 'version': '0.1.0'}, 'features': ['locate'], 'group': 'flights-app', 'guarantee': 'at_least_once', ` +
		`'limits': {'max_frame': 16777216, 'max_control': 1048576, 'max_commit_bytes': 16777216, 'max_outstanding_commits': 2}, ` +
		`'credit': {'connection': 1048576, 'stream': 1048576}, 'deadlines': {'revoke_ms': 10000, 'worker_grace_ms': 10000, 'max_processing_ms': 300000}`
)

// hello opens the n-th connection with the usual declarations.
func (s *script) hello(n int) { s.helloOf(n, declared) }

// helloStandby is hello of a worker that can hold standbys.
func (s *script) helloStandby(n int) { s.helloOf(n, `'level': 'standby', `+declared) }

func (s *script) helloOf(n int, declared string) {
	s.connect()
	s.worker(`'hello', 'id': 1, `+me+`, `+window+`, 'group': 'flights-app', %s`, declared)
	s.sidecar(`'welcome', 're': 1, `+answered, n)
}

// assign gives flights/3 as active, with three streams from first on.
func (s *script) assign(id, epoch, first int, position int64) {
	s.sidecar(`'assign', 'id': %d, 'task': 'flights/3', 'set': 'flights', 'partition': 3, 'role': 'active', 'epoch': %d, `+
		`'sources': [{'topic': 'flights', 'stream': %d, 'position': %d}], `+
		`'tables': [{'name': 'plane_stats', 'topic': 'flights-app-plane_stats-changelog', 'kind': 'changelog', 'stream': %d}], `+
		`'outputs': [{'topic': 'late-arrivals', 'stream': %d}]`, id, epoch, first, position, first+1, first+2)
}

func (s *script) opened(re, epoch int, checkpoint string) {
	cp := "null"
	if checkpoint != "" {
		cp = "'" + checkpoint + "'"
	}
	s.worker(`'opened', 're': %d, 'task': 'flights/3', 'epoch': %d, 'checkpoints': {'plane_stats': %s}`, re, epoch, cp)
}

// ready is restored and its answer.
func (s *script) ready(id, epoch int) {
	s.sidecar(`'restored', 'id': %d, 'task': 'flights/3', 'epoch': %d`, id, epoch)
	s.worker(`'ready', 're': %d, 'task': 'flights/3', 'epoch': %d`, id, epoch)
}

// revoke asks for flights/3.
func (s *script) revoke(id, epoch int, code string) {
	s.sidecar(`'revoke', 'id': %d, 'task': 'flights/3', 'epoch': %d, 'deadline_ms': 10000, 'code': '%s'`, id, epoch, code)
}

func (s *script) released(re, epoch int) {
	s.worker(`'released', 're': %d, 'task': 'flights/3', 'epoch': %d`, re, epoch)
}

// running brings a first connection to records: epoch 1, streams 1 to 3, an empty changelog.
func (s *script) running() {
	s.hello(1)
	s.given("")
	s.assign(1, 1, 1, 100)
	s.opened(1, 1, "")
	s.ready(2, 1)
}

func (s *script) commit(id, epoch int, next int64) {
	s.worker(`'commit', 'id': %d, 'task': 'flights/3', 'epoch': %d, 'source_next': {'flights': %d}`, id, epoch, next)
}

func (s *script) committed(re, epoch int, checkpoint string) {
	s.sidecar(`'committed', 're': %d, 'task': 'flights/3', 'epoch': %d, 'checkpoints': {'plane_stats': '%s'}`, re, epoch, checkpoint)
}
