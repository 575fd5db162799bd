package groupmodel

import (
	"slices"
	"time"
)

// timer is something that happens by itself. There is one for each key.
type timer struct {
	key   string
	at    time.Time
	order int
	do    func()
}

const (
	joinTimer = "join"
	syncTimer = "sync"
)

func sessionTimer(id string) string { return "session " + id }

func (c *Coordinator) schedule(key string, after time.Duration, do func()) {
	c.cancel(key)
	c.order++
	c.timers = append(c.timers, timer{key, c.now.Add(after), c.order, do})
}

func (c *Coordinator) cancel(key string) {
	c.timers = slices.DeleteFunc(c.timers, func(t timer) bool { return t.key == key })
}

// Deadline is when Tick has something to do at the latest; zero: never.
func (c *Coordinator) Deadline() time.Time {
	if t := c.first(); t >= 0 {
		return c.timers[t].at
	}
	return time.Time{}
}

func (c *Coordinator) first() int {
	first := -1
	for i, t := range c.timers {
		if first < 0 || t.at.Before(c.timers[first].at) || t.at.Equal(c.timers[first].at) && t.order < c.timers[first].order {
			first = i
		}
	}
	return first
}

// expire runs what is due, in its order and at its own time.
func (c *Coordinator) expire() {
	now := c.now
	for {
		i := c.first()
		if i < 0 || c.timers[i].at.After(now) {
			break
		}
		t := c.timers[i]
		c.timers = slices.Delete(c.timers, i, i+1)
		c.now = t.at
		t.do()
	}
	c.now = now
}
