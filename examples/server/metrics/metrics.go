// Package metrics exposes what a server does to Prometheus: by names of carve's, in seconds, and for dashboards and scaling rules
// that were made for Triton, by those names too.
package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/serve"
)

// Options are the settings of New.
type Options struct {
	Triton bool // names of Triton's beside carve's
}

// Metrics observes a server, and reads its repository when it is scraped.
type Metrics struct {
	registry *prometheus.Registry
	models   *repository.Repository
	triton   bool

	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	queue    *prometheus.HistogramVec
	infer    *prometheus.HistogramVec
}

var labels = []string{"model", "version"}

// buckets of seconds, from 50 µs to 26 s.
var buckets = prometheus.ExponentialBuckets(50e-6, 2, 20)

// New returns metrics in a registry of their own.
func New(models *repository.Repository, o Options) *Metrics {
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(), models: models, triton: o.Triton,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "carve_requests_total", Help: "Requests, by how they ended."}, []string{"model", "version", "result"}),
		seconds:  histogram("carve_request_seconds", "Time from a request's arrival to its answer."),
		queue:    histogram("carve_queue_seconds", "Time that a request has waited for a run."),
		infer:    histogram("carve_infer_seconds", "Time of a run."),
	}
	m.registry.MustRegister(m, m.requests, m.seconds, m.queue, m.infer,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 30 * time.Second})
}

// results are the values of the label result, by cause.
var results = map[oip.Code]string{
	oip.InvalidArgument: "invalid", oip.NotFound: "not_found", oip.Unavailable: "unavailable", oip.Overloaded: "overloaded", oip.Exhausted: "overloaded", oip.Cancelled: "cancelled",
	oip.TooLarge: "too_large", oip.Unsupported: "unsupported", oip.AlreadyExists: "invalid",
}

// Begin implements serve.Observer.
func (m *Metrics) Begin(ctx context.Context, _ *oip.Request) (context.Context, func(serve.Outcome)) {
	return ctx, func(o serve.Outcome) {
		model, version, result := "", "", "ok" // no names that clients invent
		if o.Version != nil {
			model, version = o.Version.Name, o.Version.String()
		}
		if o.Err != nil {
			var ok bool
			if result, ok = results[oip.AsError(o.Err).Code]; !ok {
				result = "failed"
			}
		}
		m.requests.WithLabelValues(model, version, result).Inc()
		if o.Err == nil {
			m.seconds.WithLabelValues(model, version).Observe(o.Total.Seconds())
			m.queue.WithLabelValues(model, version).Observe(o.Queue.Seconds())
			m.infer.WithLabelValues(model, version).Observe(o.Infer.Seconds())
		}
	}
}

// number is a metric that is read from a version's statistics.
type number struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  func(v *repository.Version) float64
	triton bool
}

func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(append([]string(nil), labels...), more...), nil)
}

// micros returns a value that is the time of one timing in microseconds.
func micros(of func(*repository.Stats) *repository.Timing) func(*repository.Version) float64 {
	return func(v *repository.Version) float64 {
		_, d := of(v.Stats).Load()
		return float64(d.Microseconds())
	}
}

// count returns a value that is the number of events of one timing.
func count(of func(*repository.Stats) *repository.Timing) func(*repository.Version) float64 {
	return func(v *repository.Version) float64 {
		n, _ := of(v.Stats).Load()
		return float64(n)
	}
}

var (
	success  = func(s *repository.Stats) *repository.Timing { return &s.Success }
	queued   = func(s *repository.Stats) *repository.Timing { return &s.Queue }
	input    = func(s *repository.Stats) *repository.Timing { return &s.Input }
	inferred = func(s *repository.Stats) *repository.Timing { return &s.Infer }
	output   = func(s *repository.Stats) *repository.Timing { return &s.Output }
)

// numbers are the metrics that statistics have.
var numbers = []number{
	{describe("carve_pending_requests", "Requests under way or waiting."), prometheus.GaugeValue, func(v *repository.Version) float64 { return float64(v.Stats.Pending.Load()) }, false},
	{describe("carve_rows_total", "Rows of the batches of requests."), prometheus.CounterValue, func(v *repository.Version) float64 { return float64(v.Stats.Rows.Load()) }, false},
	{describe("carve_runs_total", "Runs of the model."), prometheus.CounterValue, func(v *repository.Version) float64 { return float64(v.Stats.Runs.Load()) }, false},
	{describe("carve_load_seconds", "Time that loading took, warm-up included."), prometheus.GaugeValue, func(v *repository.Version) float64 { return v.LoadTime.Seconds() }, false},
	{describe("nv_inference_request_success", "Number of successful inference requests."), prometheus.CounterValue, count(success), true},
	{describe("nv_inference_count", "Number of inferences performed: rows."), prometheus.CounterValue, func(v *repository.Version) float64 { return float64(v.Stats.Rows.Load()) }, true},
	{describe("nv_inference_exec_count", "Number of model executions performed."), prometheus.CounterValue, func(v *repository.Version) float64 { return float64(v.Stats.Runs.Load()) }, true},
	{describe("nv_inference_pending_request_count", "Number of pending requests."), prometheus.GaugeValue, func(v *repository.Version) float64 { return float64(v.Stats.Pending.Load()) }, true},
	{describe("nv_inference_request_duration_us", "Time of requests, in microseconds."), prometheus.CounterValue, micros(success), true},
	{describe("nv_inference_queue_duration_us", "Time of requests in the queue, in microseconds."), prometheus.CounterValue, micros(queued), true},
	{describe("nv_inference_compute_input_duration_us", "Time of making inputs, in microseconds."), prometheus.CounterValue, micros(input), true},
	{describe("nv_inference_compute_infer_duration_us", "Time of runs, in microseconds."), prometheus.CounterValue, micros(inferred), true},
	{describe("nv_inference_compute_output_duration_us", "Time of making outputs, in microseconds."), prometheus.CounterValue, micros(output), true},
	{describe("nv_model_load_duration_secs", "Time that loading took."), prometheus.GaugeValue, func(v *repository.Version) float64 { return v.LoadTime.Seconds() }, true},
}

var (
	memory  = describe("carve_model_bytes", "Memory of a loaded model outside of Go's heap.")
	failure = describe("nv_inference_request_failure", "Number of failed inference requests, by reason.", "reason")
	open    = describe("carve_sequences", "Sequences whose state is kept.")
	ready   = prometheus.NewDesc("carve_ready", "1 where every model is ready that should be.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, n := range numbers {
		to <- n.desc
	}
	for _, d := range []*prometheus.Desc{memory, failure, open, ready} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for v, n := range m.models.Memory() {
		to <- prometheus.MustNewConstMetric(memory, prometheus.GaugeValue, float64(n), v.Name, v.String())
	}
	for _, v := range m.models.All() {
		for _, n := range numbers {
			if !n.triton || m.triton {
				to <- prometheus.MustNewConstMetric(n.desc, n.kind, n.value(v), v.Name, v.String())
			}
		}
		if v.Sequences != nil {
			to <- prometheus.MustNewConstMetric(open, prometheus.GaugeValue, float64(v.Sequences.Len()), v.Name, v.String())
		}
		if m.triton {
			failed, _ := v.Stats.Fail.Load()
			rejected, cancelled := v.Stats.Rejected.Load(), v.Stats.Cancelled.Load()
			other := max(failed, rejected+cancelled) - rejected - cancelled
			for reason, n := range map[string]uint64{"REJECTED": rejected, "CANCELED": cancelled, "OTHER": other} {
				to <- prometheus.MustNewConstMetric(failure, prometheus.CounterValue, float64(n), v.Name, v.String(), reason)
			}
		}
	}
	value := 0.0
	if m.models.Ready() {
		value = 1
	}
	to <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, value)
}
