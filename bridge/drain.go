package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// drainPath is the one place beside the worker's websocket. What asks there shows what a worker shows:
// Host, no Origin, the token.
const drainPath = "/drain"

// answerWithin is how long the answer to a drain may take to be written.
const answerWithin = 5 * time.Second

// Drained is how a drain went.
type Drained struct {
	Tasks int           // that were handed over
	Took  time.Duration // since it was asked for
}

// ErrDrainTimeout is in the error of a Drain that had its time: what was left has been given up.
var ErrDrainTimeout = errors.New("the drain timed out")

// drain answers POST /drain when the drain is over, whatever it comes to. The sidecar ends then: stop
// waits until the answer is written.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		s.answer(w, &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "a drain is asked for with POST"})
		return
	}
	s.mu.Lock()
	stopped := s.stopped
	if !stopped {
		s.answering.Add(1)
	}
	s.mu.Unlock()
	if stopped {
		s.answer(w, &refusal{http.StatusServiceUnavailable, "busy", "the sidecar stops"})
		return
	}
	defer s.answering.Done()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a drain takes longer than a request may
	_ = control.SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	s.log.Info("a drain is asked for over the worker's listener")
	w.WriteHeader(http.StatusProcessing) // who asks knows that it is heard; the answer follows
	done, err := s.cfg.Drain(ctx)
	_ = control.SetWriteDeadline(time.Now().Add(answerWithin))
	if err != nil {
		no := &refusal{http.StatusServiceUnavailable, "not_drained", err.Error()}
		if errors.Is(err, ErrDrainTimeout) {
			no.status, no.code = http.StatusGatewayTimeout, "drain_timeout"
		}
		s.answer(w, no)
	} else {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		body := fmt.Sprintf("{\"drained\":true,\"tasks\":%d,\"took_ms\":%d}\n", done.Tasks, done.Took.Milliseconds())
		h.Set("Content-Length", strconv.Itoa(len(body)))
		fmt.Fprint(w, body)
	}
	_ = control.Flush() // the connection is closed right behind it
}

// errorBody is what every refusal says.
func errorBody(no *refusal) []byte {
	body, _ := json.Marshal(map[string]string{"code": no.code, "message": no.message}) // strings always encode
	return append(body, '\n')
}
