package groupclient

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// Transactions of the model: as much of a transaction coordinator as a take-over can tell.

// txn is one transactional id.
type txn struct {
	epoch   int16
	open    bool
	ending  bool // it was told to end, and its markers are not written yet
	commits bool // so it ends
	offsets map[kafka.TopicPartition]committed
	records map[string]int64 // written to topics
}

// producer is who has initialised a transactional id.
type producer struct {
	m     *model
	id    string
	epoch int16
}

// initialise is InitProducerId(-1, -1): it ends what is open and fences who was there. Needs m.mu.
func (m *model) initialise(id string) int16 {
	m.inits = append(m.inits, id)
	if m.initHook != nil {
		m.initHook(id)
	}
	if m.denied {
		return 53
	}
	x := m.txns[id]
	if x == nil {
		x = &txn{epoch: -1}
		m.txns[id] = x
	}
	switch {
	case x.ending:
		return 51
	case x.open:
		x.epoch++
		m.end(x, false)
		return 51
	}
	x.epoch++
	return 0
}

// end needs m.mu.
func (m *model) end(x *txn, commits bool) {
	x.open, x.ending, x.commits = false, true, commits
	if !m.hold {
		m.mark(x)
	}
}

// mark writes the markers of a transaction. Needs m.mu.
func (m *model) mark(x *txn) {
	if x.commits {
		for tp, c := range x.offsets {
			if m.marked != nil {
				m.marked(tp, c)
			}
			m.offsets[tp] = c
		}
	}
	for topic := range x.records {
		m.last[topic]++
	}
	x.ending, x.offsets, x.records = false, nil, nil
}

// markers writes those that were held back.
func (m *model) markers() {
	m.set(func() {
		m.hold = false
		for _, x := range m.txns {
			if x.ending {
				m.mark(x)
			}
		}
	})
}

// newProducer takes a transactional id.
func (m *model) newProducer(id string) *producer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if code := m.initialise(id); code != 0 {
		panic("the transactional id is in use")
	}
	m.inits = nil
	return &producer{m, id, m.txns[id].epoch}
}

// do runs under the producer's epoch, or answers 47.
func (p *producer) do(run func(x *txn)) int16 {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	x := p.m.txns[p.id]
	if x.epoch != p.epoch {
		return 47
	}
	run(x)
	return 0
}

func (p *producer) produce(topic string, n int64) int16 {
	return p.do(func(x *txn) {
		if x.records == nil {
			x.records = map[string]int64{}
		}
		x.open = true
		x.records[topic] += n
		p.m.last[topic] += n
	})
}

func (p *producer) commitOffset(tp kafka.TopicPartition, c committed) int16 {
	return p.do(func(x *txn) {
		if x.offsets == nil {
			x.offsets = map[kafka.TopicPartition]committed{}
		}
		x.open = true
		x.offsets[tp] = c
	})
}

func (p *producer) commit() int16 {
	code := int16(48)
	if fenced := p.do(func(x *txn) {
		if x.open {
			code = 0
			p.m.end(x, true)
		}
	}); fenced != 0 {
		return fenced
	}
	return code
}

// unstable tells of positions that a transaction may still change. Needs m.mu.
func (m *model) unstable(tp kafka.TopicPartition) bool {
	for _, x := range m.txns {
		if _, ok := x.offsets[tp]; ok && (x.open || x.ending) {
			return true
		}
	}
	return false
}

// lastStable is where the first open transaction of a topic begins. Needs m.mu.
func (m *model) lastStable(topic string) int64 {
	at := m.last[topic]
	for _, x := range m.txns {
		if n := x.records[topic]; n > 0 && (x.open || x.ending) {
			at = min(at, m.last[topic]-n)
		}
	}
	return at
}

func (m *model) initialised(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.inits, id)
}

func initResponse(code int16) *kmsg.InitProducerIDResponse {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ErrorCode = code
	return resp
}
