package main

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
)

// worker takes its time for each frame. One that is reading has a goroutine that reads ahead: control
// messages then go before frames, and those of a task that is over are dropped.
type worker struct {
	ws      *websocket.Conn
	reading bool
	work    sync.WaitGroup

	mu      sync.Mutex
	control []protocol.Message
	frames  [][]byte
	arrived chan struct{}

	// Of the goroutine that works.
	granted, received int64
	streams           map[uint32]*stream
	revoking          map[uint32]bool // epochs

	ran   chan string    // tasks that run
	took  chan struct{}  // frames that were taken
	asked chan time.Time // revokes
	ended chan error
}

type stream struct{ granted, received int64 }

func startWorker(url string, reading bool) (*worker, error) {
	d := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, ReadBufferSize: 64 << 10}
	ws, _, err := d.Dial(url, nil)
	if err != nil {
		return nil, err
	}
	w := &worker{
		ws: ws, reading: reading, arrived: make(chan struct{}, 1), granted: *window,
		streams: map[uint32]*stream{}, revoking: map[uint32]bool{},
		ran: make(chan string, 1000), took: make(chan struct{}, 1_000_000), asked: make(chan time.Time, 1), ended: make(chan error, 1),
	}
	w.say(protocol.Hello{
		ID: 1, Versions: []int{1}, Client: protocol.Software{Name: "bench", Version: "1"}, MaxFrame: 1 << 27,
		Credit: protocol.Window{Connection: *window, Stream: *window},
		Sets:   []protocol.Set{{Name: "s", Sources: []string{"in"}, Tables: []protocol.Table{{Name: "t"}}}},
	})
	w.work.Go(w.read)
	if reading {
		w.work.Go(w.serve)
	}
	return w, nil
}

func (w *worker) stop() {
	w.ws.Close()
	w.work.Wait()
}

// read takes messages from the socket: to work on them at once, or to queue them.
func (w *worker) read() {
	defer close(w.arrived)
	for {
		kind, b, err := w.ws.ReadMessage()
		if err != nil {
			w.fail(err)
			return
		}
		if kind == websocket.BinaryMessage {
			if !w.reading {
				w.frame(b)
				continue
			}
			w.queue(nil, b)
			continue
		}
		m, err := protocol.Decode(b)
		if err != nil {
			w.fail(err)
			return
		}
		if !w.reading {
			w.handle(m)
			continue
		}
		w.queue(m, nil)
	}
}

func (w *worker) queue(m protocol.Message, frame []byte) {
	w.mu.Lock()
	if m != nil {
		w.control = append(w.control, m)
	} else {
		w.frames = append(w.frames, frame)
	}
	w.mu.Unlock()
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// serve works on what was queued, control messages first.
func (w *worker) serve() {
	for range w.arrived {
		for {
			w.mu.Lock()
			var m protocol.Message
			var frame []byte
			switch {
			case len(w.control) > 0:
				m, w.control = w.control[0], w.control[1:]
			case len(w.frames) > 0:
				frame, w.frames = w.frames[0], w.frames[1:]
			}
			w.mu.Unlock()
			switch {
			case m != nil:
				w.handle(m)
			case frame != nil:
				w.frame(frame)
			}
			if m == nil && frame == nil {
				break
			}
		}
	}
}

// frame takes a frame and grants its bytes anew.
func (w *worker) frame(b []byte) {
	id, epoch := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	if !w.revoking[epoch] {
		time.Sleep(*take) // the worker's work
		w.took <- struct{}{}
	}
	w.received += int64(len(b))
	s := w.streams[id]
	s.received += int64(len(b))
	if w.received+*window-w.granted < *window/4 && s.received+*window-s.granted < *window/4 {
		return
	}
	w.granted, s.granted = w.received+*window, s.received+*window
	w.say(protocol.Credit{Connection: w.granted, Streams: map[uint32]int64{id: s.granted}})
}

// handle is the worker's code for control messages.
func (w *worker) handle(m protocol.Message) {
	switch m := m.(type) {
	case protocol.Assign:
		for _, s := range m.Sources {
			w.streams[s.Stream] = &stream{granted: *window}
		}
		w.say(protocol.Opened{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Checkpoints: map[string]*string{"t": nil}})
	case protocol.Restored:
		w.say(protocol.Ready{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
		w.ran <- m.Task
	case protocol.Revoke:
		w.asked <- time.Now()
		w.revoking[m.Epoch] = true
		w.say(protocol.Released{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
	case protocol.Error:
		w.fail(fmt.Errorf("the sidecar says %s: %s", m.Code, m.Message))
	}
}

func (w *worker) say(m protocol.Message) {
	b, err := protocol.Encode(m)
	if err == nil {
		err = w.ws.WriteMessage(websocket.TextMessage, b)
	}
	if err != nil {
		w.fail(err)
	}
}

// fail keeps the first error.
func (w *worker) fail(err error) {
	select {
	case w.ended <- err:
	default:
	}
}

// running waits until n more tasks run.
func (w *worker) running(n int) error {
	for range n {
		if _, err := wait(w.ran, w.ended, "a task"); err != nil {
			return err
		}
	}
	return nil
}

// taken waits until n more frames are taken.
func (w *worker) taken(n int) error {
	for len(w.took) > 0 {
		<-w.took
	}
	for range n {
		if _, err := wait(w.took, w.ended, "a frame"); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) revoked() (time.Time, error) { return wait(w.asked, w.ended, "the revoke") }
