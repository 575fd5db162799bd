//go:build kafka

package journeys

import (
	"math/rand/v2"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// Two pairs and a broker in one storm: workers are killed, a pair drains and comes back, the broker
// stands still and is killed, in any order. No sidecar is killed, so everything is exact.
func TestStorm(t *testing.T) {
	t.Parallel()
	b := kafkatest.Broker(t, kafkatest.Latest)
	j := newJob(t, b.Addrs(), 4)
	other := *j
	other.place = newPlace(t)
	f := j.feed(0)
	one, two := j.pair("--restart"), other.pair("--restart")
	j.shared(2)

	kill := func(s *sidecar) func() {
		return func() {
			mark := s.mark()
			killChild(s)
			s.waitSince(mark, "connected")
		}
	}
	actions := map[string]func(){
		"kill worker one": kill(one),
		"kill worker two": func() { kill(two)() },
		"drain pair two": func() {
			two.drain()
			two = other.pair("--restart")
			two.wait("connected")
		},
		"pause the broker": func() {
			b.Pause()
			until(t, "a commit waits for the broker", func() bool {
				return one.metric("pillion_commits_outstanding")+two.metric("pillion_commits_outstanding") > 0
			})
			b.Continue()
		},
		"kill the broker": func() { b.Kill(); b.Start() },
	}
	names := []string{"kill worker one", "kill worker two", "drain pair two", "pause the broker", "kill the broker", "kill worker one", "kill worker two"}
	rand.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
	j.flowing(100)
	for _, name := range names {
		t.Log(name)
		actions[name]()
		j.flowing(50 + rand.Int64N(400))
	}
	f.end()
	j.check()
	one.drain()
	two.drain()
	j.files()
}
