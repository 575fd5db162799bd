package ops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pillion/pillion/bridge"
	"github.com/pillion/pillion/session"
)

// loopPatience is how long the session's loop may take to answer before it counts as stuck.
const loopPatience = 2 * time.Second

// Config says where to listen and whom to ask.
type Config struct {
	Listen  string
	Metrics *Metrics
	Session func() session.Status
	// Alive asks the session's loop for a sign of life.
	Alive  func(ctx context.Context) error
	Bridge func() bridge.Stats
	Copies func() []session.Copy // what the worker keeps without being its active
	Logger hclog.Logger
}

// Server answers probes.
type Server struct {
	cfg      Config
	listener net.Listener
	patience time.Duration // for the head of a request; shorter in tests
}

// New listens.
func New(cfg Config) (*Server, error) {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("ops_listen: %w: choose another address with --ops-listen, or turn it off with --ops-listen=", err)
	}
	cfg.Metrics.watch(cfg)
	return &Server{cfg: cfg, listener: listener, patience: 5 * time.Second}, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close gives up a server that was never run.
func (s *Server) Close() { _ = s.listener.Close() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: s.patience, ReadTimeout: 2 * s.patience, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10, ConnState: new(crowd).state,
		ErrorLog: s.cfg.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.listener) }()
	s.cfg.Logger.Info("probes and metrics", "address", s.listener.Addr().String())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	bye, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(bye) != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /startupz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /worker-livez", s.workerLivez)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.cfg.Metrics.registry, promhttp.HandlerOpts{}))
	return mux
}

func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), loopPatience)
	defer cancel()
	if err := s.cfg.Alive(ctx); err != nil {
		http.Error(w, "the session's loop does not turn", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	st := s.cfg.Session()
	var missing string
	switch {
	case st.Draining:
		missing = "draining"
	case !st.Worker && st.WaitingFor != "":
		missing = "the worker's declarations are not checked yet: " + st.WaitingFor
	case !st.Worker:
		missing = "no worker is attached"
	case st.Hung:
		missing = "the worker is hung"
	case st.Member == "":
		missing = "no member of the group"
	}
	if missing != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if r.URL.Query().Has("verbose") {
		fmt.Fprintf(w, "worker attached: %v\nworker hung: %v\nmember: %s\ngeneration: %d\ndraining: %v\ntasks: %s\nstandbys: %s\ncommits outstanding: %d\nwaiting for: %s\n",
			st.Worker, st.Hung, or(st.Member, "none"), st.Generation, st.Draining, byState(st.Tasks), s.behind(), st.Commits, or(st.WaitingFor, "nothing"))
	}
	if missing == "" {
		missing = "ok"
	}
	fmt.Fprintln(w, missing)
}

func or(text, without string) string {
	if text == "" {
		return without
	}
	return text
}

// byState are counts, as in "parked 1, running 3".
func byState(counts map[string]int) string {
	var words []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", state, counts[state]))
	}
	return or(strings.Join(words, ", "), "none")
}

// behind are the copies and how far they are from the end of their changelogs.
func (s *Server) behind() string {
	copies, most, unknown := 0, int64(0), 0
	for _, c := range s.cfg.Copies() {
		if c.Kept {
			continue
		}
		copies++
		if most = max(most, c.Lag); c.Lag < 0 {
			unknown++
		}
	}
	if copies == 0 {
		return "none"
	}
	text := fmt.Sprintf("%d, at most %d behind", copies, most)
	if unknown > 0 {
		text += fmt.Sprintf(", %d of them not known", unknown)
	}
	return text
}

// index tells a person what there is.
func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, "the pillion sidecar: /startupz /livez /readyz /readyz?verbose /worker-livez /metrics\n")
}

func (s *Server) workerLivez(w http.ResponseWriter, _ *http.Request) {
	if s.cfg.Session().Hung {
		http.Error(w, "the worker is hung", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
