package ops

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pillion/pillion/bridge"
	"github.com/pillion/pillion/session"
)

// Metrics counts. docs/metrics.md lists every metric; a test compares.
type Metrics struct {
	registry  *prometheus.Registry
	refused   *prometheus.CounterVec
	connected prometheus.Counter
	closed    *prometheus.CounterVec
	messages  *prometheus.CounterVec
	bytes     *prometheus.CounterVec
	dropped   *prometheus.CounterVec
	steps     *prometheus.HistogramVec
}

// NewMetrics makes the registry.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		refused:   counter("pillion_worker_refused_total", "Requests at the worker's listener that were not upgraded, by HTTP status.", "status"),
		connected: prometheus.NewCounter(prometheus.CounterOpts{Name: "pillion_worker_connects_total", Help: "Workers that said a valid hello."}),
		closed:    counter("pillion_worker_closed_total", "Worker connections that ended, by our close code (0: none of ours).", "code"),
		messages:  counter("pillion_messages_total", "Messages to and from the worker, by direction and kind.", "direction", "kind"),
		bytes:     counter("pillion_message_bytes_total", "Bytes to and from the worker, by direction and kind.", "direction", "kind"),
		dropped:   counter("pillion_dropped_bytes_total", "Bytes of frames that were not passed on: unsent, stale or refused.", "kind"),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pillion_kafka_step_seconds", Help: "Time of the steps of Kafka, by step and outcome.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"step", "outcome"}),
	}
	m.registry.MustRegister(m.refused, m.connected, m.closed, m.messages, m.bytes, m.dropped, m.steps,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Bridge gives the hooks of the worker's listener.
func (m *Metrics) Bridge() bridge.Metrics {
	count := func(direction string) func(string, int) {
		return func(kind string, n int) {
			m.messages.WithLabelValues(direction, kind).Inc()
			m.bytes.WithLabelValues(direction, kind).Add(float64(n))
		}
	}
	return bridge.Metrics{
		Refused:   func(status int) { m.refused.WithLabelValues(strconv.Itoa(status)).Inc() },
		Connected: m.connected.Inc,
		Closed:    func(code int) { m.closed.WithLabelValues(strconv.Itoa(code)).Inc() },
		Received:  count("from_worker"),
		Sent:      count("to_worker"),
		Dropped:   func(kind string, n int) { m.dropped.WithLabelValues(kind).Add(float64(n)) },
	}
}

// Step counts one step of Kafka that began at a time and ended with err.
func (m *Metrics) Step(step string, began time.Time, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.steps.WithLabelValues(step, outcome).Observe(time.Since(began).Seconds())
}

// watch adds gauges of what can be asked at any time.
func (m *Metrics) watch(c Config) {
	m.registry.MustRegister(&watcher{status: c.Session, stats: c.Bridge, copies: c.Copies})
}

type watcher struct {
	status func() session.Status
	stats  func() bridge.Stats
	copies func() []session.Copy
}

var (
	workerUp    = describe("pillion_worker_up", "1 when a worker is attached and its declarations are checked.")
	workerHung  = describe("pillion_worker_hung", "1 when the worker made no progress within max_processing.")
	groupMember = describe("pillion_group_member", "1 when the sidecar is a member of the group.")
	generation  = describe("pillion_group_generation", "Generation of the membership; 0 when there is none.")
	draining    = describe("pillion_draining", "1 while the sidecar drains.")
	tasks       = describe("pillion_tasks", "Tasks that the group gave us, by state.", "state")
	standbys    = describe("pillion_standbys", "Copies that this worker keeps, or is to keep, for others.")
	standbyLag  = describe("pillion_standby_lag", "Offsets that a copy is behind the end of its changelogs; absent while not known.", "task")
	tookOver    = describe("pillion_take_overs_total", "Tasks that became ours, by how: promoted (from a copy) or restored.", "how")
	replayed    = describe("pillion_take_over_records_total", "Records replayed from the sync to the last of them.", "how")
	tookSeconds = describe("pillion_take_over_seconds_total", "Time from the sync until the tables were whole (promoted) or the records flowed (restored).", "how")
	outstanding = describe("pillion_commits_outstanding", "Commits without an answer.")
	queued      = describe("pillion_queued_bytes", "Bytes that wait for the worker's socket, by lane.", "lane")
	buffered    = describe("pillion_buffered_writes_bytes", "Bytes of writes frames of commits that have not ended.")
	unacked     = describe("pillion_unacknowledged_bytes", "Bytes sent to the worker that it has not granted anew.")
	lastSeen    = describe("pillion_worker_last_activity_seconds", "Unix time of the worker's last message; 0 without a worker.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func (w *watcher) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{workerUp, workerHung, groupMember, generation, draining, tasks, standbys, standbyLag, tookOver, replayed, tookSeconds, outstanding, queued, buffered, unacked, lastSeen} {
		ch <- d
	}
}

func (w *watcher) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	st, b := w.status(), w.stats()
	gauge(workerUp, number(st.Worker))
	gauge(workerHung, number(st.Hung))
	gauge(groupMember, number(st.Member != ""))
	gauge(generation, float64(st.Generation))
	gauge(draining, number(st.Draining))
	for state, n := range st.Tasks {
		gauge(tasks, float64(n), state)
	}
	gauge(standbys, float64(st.Standbys))
	for _, c := range w.copies() {
		if c.Lag >= 0 && !c.Kept {
			gauge(standbyLag, float64(c.Lag), c.Task.String())
		}
	}
	for _, how := range []string{"promoted", "restored"} {
		t := st.TookOver[how]
		count(tookOver, float64(t.Count), how)
		count(replayed, float64(t.Records), how)
		count(tookSeconds, t.Took.Seconds(), how)
	}
	gauge(outstanding, float64(st.Commits))
	gauge(queued, float64(b.QueuedControl), "control")
	gauge(queued, float64(b.QueuedData), "data")
	gauge(buffered, float64(b.BufferedWrites))
	gauge(unacked, float64(b.Unacknowledged))
	seen := 0.0
	if !b.LastActivity.IsZero() {
		seen = float64(b.LastActivity.UnixMilli()) / 1000
	}
	gauge(lastSeen, seen)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
