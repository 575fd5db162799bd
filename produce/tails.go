package produce

import (
	"sync"

	"github.com/pillion/pillion/internal/kafka"
)

// tails remembers of each changelog partition the stretch at its end that this producer has written:
// batches, also aborted ones, and markers. With it a write that landed behind our own markers costs
// nothing to explain.
type tails struct {
	mu    sync.Mutex
	known map[kafka.TopicPartition]*tail
}

// tail is offsets from to next, all ours, and the markers that follow. The markers of a transaction have
// landed when the next one can begin.
type tail struct {
	from, next, markers int64
}

// landed takes note of an acknowledged batch, and says whether everything from want up to it is ours.
// A want below 0 is not checked.
func (t *tails) landed(tp kafka.TopicPartition, want, base int64, count int32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[tp]
	if k == nil || base != k.next+k.markers {
		k = &tail{from: base}
		if t.known == nil {
			t.known = map[kafka.TopicPartition]*tail{}
		}
		t.known[tp] = k
	}
	k.next, k.markers = base+int64(count), 0
	return want < 0 || want >= k.from && want <= base
}

func (t *tails) marked(tp kafka.TopicPartition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.known[tp]; k != nil {
		k.markers++
	}
}

func (t *tails) forget(tp kafka.TopicPartition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, tp)
}

// owned are the producer ids that this process has had.
type owned struct {
	mu  sync.Mutex
	ids map[int64]bool
}

func (o *owned) add(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = map[int64]bool{}
	}
	o.ids[id] = true
}

func (o *owned) has(id int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[id]
}
