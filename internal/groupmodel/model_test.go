package groupmodel

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// onModel runs a script against the model, on a fake clock.
type onModel struct {
	c   *Coordinator
	now time.Time
	got []Answer
}

func newOnModel() *onModel {
	return &onModel{c: New(Config{MinSession: scriptSession, MaxSize: scriptSize}), now: time.Unix(1000, 0)}
}

// Settings of the broker that scripts run on.
const (
	scriptSession = 500 * time.Millisecond // the shortest session that may be asked for
	scriptSize    = 5                      // the most members of a group
)

func (m *onModel) ask(token Token, r Request) {
	m.got = append(m.got, m.c.Ask(m.now, token, r)...)
}

func (m *onModel) settle([]Token, bool) []Answer {
	got := m.got
	m.got = nil
	return got
}

func (m *onModel) wait(d time.Duration) {
	m.now = m.now.Add(d)
	m.got = append(m.got, m.c.Tick(m.now)...)
}

func (m *onModel) restart() { m.got = append(m.got, m.c.Move(m.now, 0)...) }
func (m *onModel) state() string {
	return fmt.Sprintf("%s %d", m.c.State(), len(m.c.Members()))
}
func (m *onModel) cut(Token) {}

func TestScripts(t *testing.T) {
	for _, s := range readScripts(t) {
		t.Run(s.name, func(t *testing.T) { s.check(t) })
	}
}

func (s script) check(t *testing.T) {
	if _, errs := s.play(newOnModel(), 1); len(errs) > 0 {
		t.Error(strings.Join(errs, "\n"))
	}
}
