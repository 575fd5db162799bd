package session

// Copy is a task whose tables the worker keeps without that we are its active. Lag is in offsets, of the
// table that is furthest behind; negative: not known.
type Copy struct {
	Task TaskID
	Lag  int64
}

// copied is a copy with the streams of its changelogs; kept: nothing follows them, and the stores were
// whole when the task was let go, since the last sync.
type copied struct {
	task    TaskID
	streams []uint32
	kept    bool
}

// copies lists them.
func (m *Machine) copies() []copied {
	var list []copied
	for _, t := range m.all() {
		if t.id.Global || !t.copyOnly() {
			continue
		}
		c := copied{task: t.id, kept: t.state == Shadowing && len(t.tables) == 0}
		for _, tb := range t.tables {
			c.streams = append(c.streams, tb.stream.Stream)
		}
		list = append(list, c)
	}
	for id := range m.kept {
		if m.tasks[id] == nil {
			list = append(list, copied{task: id, kept: true})
		}
	}
	return list
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
	copies := make([]Copy, 0, len(*list))
	for _, c := range *list {
		lag := int64(-1)
		if c.kept {
			lag = 0
		}
		for i, stream := range c.streams {
			one := int64(-1)
			if replay, ok := r.replays.Load(stream); ok {
				one = replay.(Replay).Lag()
			}
			if i == 0 || one < 0 || lag >= 0 && one > lag {
				lag = one
			}
			if lag < 0 {
				break
			}
		}
		copies = append(copies, Copy{Task: c.task, Lag: lag})
	}
	return copies
}
