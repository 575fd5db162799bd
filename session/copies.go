package session

import "github.com/pillion/pillion/protocol"

// Copy is a task whose tables the worker keeps without that we are its active. Lag is in offsets, of the
// table that is furthest behind; negative: not known.
type Copy struct {
	Task TaskID
	Lag  int64
	Kept bool // no standby: the store of a task that was let go since the last sync
}

// copied is a copy with the streams of its changelogs; kept: nothing follows them, and the stores were
// whole when the task was let go, since the last sync.
type copied struct {
	task    TaskID
	streams []uint32
	whole   bool // at any end
	kept    bool
}

// copies lists them.
func (m *Machine) copies() []copied {
	var list []copied
	for _, t := range m.all() {
		if t.id.Global || !t.copyOnly() {
			continue
		}
		c := copied{task: t.id, whole: t.state == Shadowing && len(t.tables) == 0}
		for _, tb := range t.tables {
			c.streams = append(c.streams, tb.stream.Stream)
		}
		list = append(list, c)
	}
	for id := range m.kept {
		if m.tasks[id] == nil {
			list = append(list, copied{task: id, whole: true, kept: true})
		}
	}
	return list
}

// changesCopies says whether an event may. Most do not: with thousands of copies the list is not made anew
// for each commit.
func changesCopies(ev Event) bool {
	switch ev := ev.(type) {
	case Active, Produced, Transacted, PositionsCommitted, ReplayProgress, Reached:
		return false
	case Received:
		_, commit := ev.Message.(protocol.Commit)
		return !commit
	}
	return true
}

// noteCopies keeps the list for Copies.
func (r *Runner) noteCopies() {
	list := r.machine.copies()
	r.copies.Store(&list)
}

// Copies are the standbys, and the tasks let go since the last sync whose stores the worker has, with
// their lags. It may be called from anywhere and does not wait.
func (r *Runner) Copies() []Copy {
	list := r.copies.Load()
	if list == nil {
		return nil
	}
	return lagging(*list, func(stream uint32) int64 {
		if replay, ok := r.replays.Load(stream); ok {
			return replay.(Replay).Lag()
		}
		return -1
	})
}

// Copies is Runner.Copies for who drives a Machine without a Runner: lag says how far behind the replay of a
// stream is, negative when that is not known.
func (m *Machine) Copies(lag func(stream uint32) int64) []Copy { return lagging(m.copies(), lag) }

// lagging gives each copy the lag of its table that is furthest behind.
func lagging(list []copied, lagOf func(stream uint32) int64) []Copy {
	copies := make([]Copy, 0, len(list))
	for _, c := range list {
		lag := int64(-1)
		if c.whole {
			lag = 0
		}
		for i, stream := range c.streams {
			one := lagOf(stream)
			if i == 0 || one < 0 || lag >= 0 && one > lag {
				lag = one
			}
			if lag < 0 {
				break
			}
		}
		copies = append(copies, Copy{Task: c.task, Lag: lag, Kept: c.kept})
	}
	return copies
}
