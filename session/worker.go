package session

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"github.com/pillion/pillion/protocol"
)

// featureLocate says in welcome that a worker may ask where a key is.
const featureLocate = "locate"

// connected: the newest connection wins. Everything of an older one is over; its commits go on to
// their ends.
func (m *Machine) connected(ev Connected) {
	m.workerGone()
	m.lastID, m.prepareAt = 0, time.Time{}
	if no := m.cfg.refusal(m.joinedGroup(), m.draining, ev.Hello); no != nil { // the bridge has asked, but things move
		if no.Code != "" {
			m.do(Send{Conn: ev.Conn, Message: protocol.Error{Re: ev.Hello.ID, Code: no.Code, Message: no.Message}})
		}
		m.do(CloseConn{Conn: ev.Conn, Code: no.Close, Reason: cmp.Or(no.Code, no.Message)})
		return
	}
	m.worker = &worker{conn: ev.Conn, hello: ev.Hello, lastActive: m.now}
	m.send(protocol.Welcome{
		Re: ev.Hello.ID, Version: 1, Session: cmp.Or(ev.Session, fmt.Sprintf("c%d", ev.Conn)),
		Sidecar: protocol.Software{Name: "pillion", Version: m.cfg.Version}, Features: []string{featureLocate},
		Group: m.cfg.groupOf(ev.Hello), Guarantee: m.cfg.Guarantee,
		Limits: m.cfg.Limits, Credit: m.cfg.Credit,
		Deadlines: protocol.Deadlines{
			Revoke:        m.cfg.RevokeTimeout.Milliseconds(),
			WorkerGrace:   m.cfg.WorkerGrace.Milliseconds(),
			MaxProcessing: m.cfg.MaxProcessing.Milliseconds(),
		},
	})
	if m.waiting.Code != "" {
		m.send(protocol.Waiting{Code: m.waiting.Code, Message: m.waiting.Message})
	}
	m.log("info", "worker connected", "client", ev.Hello.Client.Name, "version", ev.Hello.Client.Version)
	m.do(Prepare{Conn: ev.Conn, Group: m.cfg.groupOf(ev.Hello), Hello: ev.Hello})
}

func (m *Machine) preparedOK(ev PreparedOK) error {
	w := m.worker
	if w == nil || w.conn != ev.Conn || w.prepared {
		return nil
	}
	w.prepared = true
	m.graceUntil = time.Time{}
	m.quiet()
	same := m.prepared != nil && sameDeclarations(*m.prepared, ev.Prepared)
	told := same && sameTerms(*m.prepared, ev.Prepared)
	m.prepared = &ev.Prepared
	for _, t := range m.tasks {
		set := m.prepared.set(t.id.Set)
		if t.state == Idle && !reflect.DeepEqual(t.set, set) {
			t.waitsSync = true // what the group wants of the set as it is now is not known yet
		}
		t.set, t.outdated = set, t.outdated || !same
	}
	globals := map[TaskID]*task{}
	for _, g := range ev.Prepared.Globals {
		for p := range g.Partitions {
			id := TaskID{Set: g.Name, Partition: p, Global: true}
			globals[id] = &task{id: id}
		}
	}
	m.setGlobals(globals)
	w.globalsOK = len(globals) == 0
	m.joinDue = m.joinDue || !m.joined || !told
	if !m.joinDue {
		m.idle()
	}
	return m.dropUndeclared()
}

// dropUndeclared lets tasks go whose set the new worker does not declare, and copies that it cannot
// hold: the next sync takes them.
func (m *Machine) dropUndeclared() error {
	for _, t := range m.all() {
		if !t.id.Global && (t.set == nil || t.state == Idle && m.prepared.NoStandby) {
			t.want = letGo
			if err := m.revoke(t, protocol.CodeRebalance, m.cfg.RevokeTimeout); err != nil {
				return err
			}
		}
	}
	return nil
}

func sameDeclarations(a, b Prepared) bool {
	a.Handle, b.Handle = nil, nil
	a.NoStandby, a.Address, a.Replicas = b.NoStandby, b.Address, b.Replicas
	return reflect.DeepEqual(a, b)
}

// sameTerms: what others are told of the worker without that its tasks depend on it.
func sameTerms(a, b Prepared) bool {
	return a.NoStandby == b.NoStandby && a.Address == b.Address && reflect.DeepEqual(a.Replicas, b.Replicas)
}

func (m *Machine) prepareFailed(ev PrepareFailed) {
	if m.worker == nil || m.worker.conn != ev.Conn {
		return
	}
	if ev.Retry {
		m.groupWaiting(GroupWaiting{Code: ev.Code, Message: ev.Message})
		m.prepareAt = m.now.Add(m.cfg.RetryDelay)
		return
	}
	m.refuseWorker(ev.Code, ev.Message)
}

// refuseWorker ends the connection with a sentence that the worker prints.
func (m *Machine) refuseWorker(code, message string) {
	w := m.worker
	if w == nil {
		return
	}
	m.log("error", "worker refused", "code", code, "error", message)
	m.send(protocol.Error{Code: code, Message: message})
	m.do(CloseConn{Conn: w.conn, Code: protocol.CloseRefused, Reason: code})
	m.dismiss()
}

func (m *Machine) groupWaiting(ev GroupWaiting) {
	switch {
	case ev.Code == "":
		return
	case ev.Code == m.waiting.Code:
		m.stillWaiting(ev)
		return
	}
	if ev.Code == protocol.CodeOk {
		m.quiet()
		return
	}
	m.waiting, m.waitsSince, m.waitsTold = ev, m.now, m.now
	m.log("warn", "waiting", "code", ev.Code, "error", ev.Message)
	m.send(protocol.Waiting{Code: ev.Code, Message: ev.Message})
}

// stillWaiting says once a minute that a waiting goes on: who looks at a log sees its end first.
func (m *Machine) stillWaiting(ev GroupWaiting) {
	if m.now.Sub(m.waitsTold) < time.Minute {
		return
	}
	m.waitsTold = m.now
	m.log("warn", "still waiting", "code", ev.Code, "for", m.now.Sub(m.waitsSince).Round(time.Second).String(), "error", ev.Message)
}

// quiet ends a waiting.
func (m *Machine) quiet() {
	if m.waiting.Code != "" {
		m.waiting = GroupWaiting{}
		m.send(protocol.Waiting{Code: protocol.CodeOk})
	}
}

// idle tells a worker that is to have no task, once, that there is nothing to wait for: it learns it by nothing else.
func (m *Machine) idle() {
	if w := m.worker; m.generation != 0 && w != nil && w.prepared && !w.idle && len(m.tasks) == 0 {
		w.idle = true
		m.send(protocol.Waiting{Code: protocol.CodeOk})
	}
}

func (m *Machine) disconnected(ev Disconnected) {
	if m.worker == nil || m.worker.conn != ev.Conn {
		return
	}
	m.log("info", "worker disconnected", "reason", ev.Err)
	m.workerGone()
}

// dismiss is workerGone for a worker that is sent away: such ones may come again and again, and do not
// lengthen a grace time that runs.
func (m *Machine) dismiss() {
	until := m.graceUntil
	m.workerGone()
	if !until.IsZero() {
		m.graceUntil = until
	}
}

// workerGone ends every epoch of the connection and starts the grace time.
func (m *Machine) workerGone() {
	if m.worker == nil {
		return
	}
	for _, t := range m.all() {
		m.closeStreams(t)
		if _, ok := transitions[t.state][onGone]; ok {
			_ = t.move(onGone)
		}
		m.forgetStreams(t)
		_ = t.unshadowed()
		t.began = time.Time{}
	}
	clear(m.kept)
	m.worker = nil
	m.setGlobals(map[TaskID]*task{})
	m.graceUntil = m.now.Add(m.cfg.WorkerGrace)
}

func (m *Machine) closeStreams(t *task) {
	for _, id := range t.streams() {
		m.do(CloseStream{Stream: id})
	}
}

func (m *Machine) forgetStreams(t *task) {
	m.forgetFormer(t)
	for _, id := range t.streams() {
		delete(m.streams, id)
		m.do(ForgetStream{Stream: id})
	}
	t.whole = t.whole || t.epoch != 0 && t.reached()
	t.sources, t.tables, t.outputs, t.awaiting = nil, nil, nil, 0
	delete(m.epochs, t.epoch)
}

func (m *Machine) received(ev Received) error {
	if m.worker == nil || m.worker.conn != ev.Conn {
		// INVARIANT: nothing of an earlier connection begins after a newer one has connected.
		m.free(ev.Conn, ev.Writes)
		return nil
	}
	switch msg := ev.Message.(type) {
	case protocol.Opened:
		m.active(ev.Conn)
		return m.opened(msg)
	case protocol.Ready:
		m.active(ev.Conn)
		return m.ready(msg)
	case protocol.Commit:
		m.active(ev.Conn)
		return m.commitReceived(ev.Conn, msg, ev.Writes, ev.Delivered)
	case protocol.Released:
		m.active(ev.Conn)
		return m.released(msg)
	case protocol.Error:
		m.active(ev.Conn)
		return m.workerError(msg)
	case protocol.Locate:
		m.active(ev.Conn)
		m.locate(msg)
		return nil
	case protocol.Progress, protocol.Credit:
		m.active(ev.Conn)
		return nil
	default:
		m.refuse(0, protocol.CodeNotAllowed, fmt.Sprintf("a worker does not send %q", ev.Message.Type()), nil)
		return nil
	}
}

// refuse answers a request that does not fit; nothing changes.
func (m *Machine) refuse(re int64, code, message string, t *task) {
	e := protocol.Error{Re: re, Code: code, Message: message}
	if t != nil {
		e.Task, e.Epoch = t.id.String(), t.epoch
	}
	m.send(e)
}

// breach ends a connection whose worker does not keep to the protocol.
func (m *Machine) breach(code, message string) {
	m.log("warn", "the worker breaks the protocol", "code", code, "error", message)
	m.send(protocol.Error{Code: code, Message: message})
	m.do(CloseConn{Conn: m.worker.conn, Code: protocol.CloseBadMessage, Reason: code})
	m.dismiss()
}

// workerError: what the worker says about a task, or in answer to a request, makes us open the task anew.
func (m *Machine) workerError(e protocol.Error) error {
	m.logChatter("the worker reports an error", "code", e.Code, "task", clip(e.Task), "error", clip(e.Message))
	t := m.living(e.Task, e.Epoch)
	if t == nil {
		t = m.leftBehind(e.Task, e.Epoch)
	}
	if t == nil && e.Task == "" {
		t = m.asked(e.Re)
	}
	if t == nil {
		return nil
	}
	t.retryAt = m.now.Add(m.cfg.RetryDelay)
	return m.fail(t, e.Code, e.Message)
}

// streamFailed: a new take-over decides how the task goes on, or a person must act.
func (m *Machine) streamFailed(ev StreamFailed) error {
	t := m.streams[ev.Stream]
	if t == nil || !t.open() || t.state == Revoking {
		return nil
	}
	if ev.Reopen {
		t.retryAt = m.now.Add(m.cfg.RetryDelay)
		return m.fail(t, ev.Code, ev.Message)
	}
	if t.copyOnly() { // what others process does not end for a copy
		m.logChatter("a copy cannot go on", "task", t.id.String(), "code", ev.Code, "error", ev.Message)
		t.retryAt = m.now.Add(m.cfg.RetryDelay)
		return m.fail(t, ev.Code, ev.Message)
	}
	m.refuseWorker(ev.Code, ev.Message)
	return nil
}
