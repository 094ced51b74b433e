package rest

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"net/http"
	"strconv"
	"time"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/serve"
)

// Options are the settings of Handler. The zero value means the defaults.
type Options struct {
	// TooManyRequests answers a full queue with 429 and Retry-After, not with 503 as Triton does: proxies retry a 503 like an outage.
	TooManyRequests bool
	// BodyTimeout is how long a body may take to arrive, and for each MiB of it a second more; 0 means 30 seconds.
	BodyTimeout time.Duration
}

// handler answers HTTP.
type handler struct {
	s   *serve.Server
	o   Options
	mux *http.ServeMux

	headings headings
}

// Handler returns a handler of all paths of the protocol.
func Handler(s *serve.Server, o Options) http.Handler {
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = 30 * time.Second
	}
	h := &handler{s: s, o: o, mux: http.NewServeMux(), headings: headings{seed: maphash.MakeSeed()}}
	h.handle("GET /v2/{$}", h.metadata)
	h.handle("GET /v2", h.metadata)
	h.handle("GET /v2/health/live", h.live)
	h.handle("GET /v2/health/ready", h.ready)
	h.handle("GET /v2/models/stats", h.statistics)
	for _, base := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		h.handle("GET "+base, h.modelMetadata)
		h.handle("GET "+base+"/ready", h.modelReady)
		h.handle("GET "+base+"/config", h.config)
		h.handle("GET "+base+"/stats", h.statistics)
		h.handle("POST "+base+"/infer", h.infer)
	}
	h.handle("POST /v2/repository/index", h.index)
	h.handle("POST /v2/repository/models/{model}/load", h.load)
	h.handle("POST /v2/repository/models/{model}/unload", h.unload)
	h.mux.HandleFunc(rest, h.unknown)
	return h
}

// handle adds a path. An error of a function is the answer.
func (h *handler) handle(pattern string, f func(http.ResponseWriter, *http.Request) error) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := f(w, r); err != nil {
			h.fail(w, err)
		}
	})
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.s.Draining() && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	h.mux.ServeHTTP(w, r)
}

// rest is the pattern of what no other takes.
const rest = "/"

// unknown answers that: another verb than the path has, or another path.
func (h *handler) unknown(w http.ResponseWriter, r *http.Request) {
	for _, verb := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = verb
		if _, pattern := h.mux.Handler(other); pattern != rest {
			w.Header().Set("Allow", verb)
			write(w, http.StatusMethodNotAllowed, map[string]string{"error": "the path takes " + verb})
			return
		}
	}
	write(w, http.StatusNotFound, map[string]string{"error": "no such path"})
}

// statuses are Triton's, which clients were written against.
var statuses = map[oip.Code]int{
	oip.NotFound: http.StatusNotFound, oip.Unavailable: http.StatusServiceUnavailable, oip.Overloaded: http.StatusServiceUnavailable,
	oip.Unsupported: http.StatusNotImplemented, oip.Internal: http.StatusInternalServerError, oip.InvalidArgument: http.StatusBadRequest,
	oip.AlreadyExists: http.StatusBadRequest, oip.Cancelled: http.StatusBadRequest, oip.Unknown: http.StatusBadRequest,
	oip.TooLarge: http.StatusRequestEntityTooLarge, oip.Exhausted: http.StatusServiceUnavailable,
}

// fail writes an error.
func (h *handler) fail(w http.ResponseWriter, err error) {
	e := oip.AsError(err)
	status := statuses[e.Code]
	if (e.Code == oip.Overloaded || e.Code == oip.Exhausted) && h.o.TooManyRequests {
		w.Header().Set("Retry-After", "1")
		status = http.StatusTooManyRequests
	}
	if e.Code == oip.TooLarge || errors.Is(err, errSlow) { // the rest of the body is not worth reading
		w.Header().Set("Connection", "close")
	}
	write(w, status, map[string]string{"error": e.Message})
}

// write writes an answer in JSON.
func write(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func (h *handler) metadata(w http.ResponseWriter, _ *http.Request) error {
	write(w, http.StatusOK, h.s.Metadata())
	return nil
}

// health is a body that has the keys of all servers, since clients differ in which they read.
type health struct {
	Live  bool `json:"live"`
	Ready bool `json:"ready"`
}

func (h *handler) live(w http.ResponseWriter, _ *http.Request) error {
	write(w, http.StatusOK, health{true, h.s.Ready()})
	return nil
}

func (h *handler) ready(w http.ResponseWriter, _ *http.Request) error {
	status := http.StatusOK
	if h.s.Draining() {
		status = http.StatusServiceUnavailable
	} else if !h.s.Ready() {
		status = http.StatusBadRequest
	}
	write(w, status, health{true, h.s.Ready()})
	return nil
}

func (h *handler) modelMetadata(w http.ResponseWriter, r *http.Request) error {
	m, err := h.s.ModelMetadata(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	write(w, http.StatusOK, m)
	return nil
}

func (h *handler) modelReady(w http.ResponseWriter, r *http.Request) error {
	ready, err := h.s.ModelReady(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !ready {
		status = http.StatusBadRequest
	}
	write(w, status, struct {
		Name  string `json:"name"`
		Ready bool   `json:"ready"`
	}{r.PathValue("model"), ready})
	return nil
}

func (h *handler) config(w http.ResponseWriter, r *http.Request) error {
	c, err := h.s.Config(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	write(w, http.StatusOK, c)
	return nil
}

// timing is a number of events and the nanoseconds that they took together.
type timing struct {
	Count uint64 `json:"count"`
	Nanos uint64 `json:"ns"`
}

func timingOf(t *repository.Timing) timing {
	n, d := t.Load()
	return timing{n, uint64(d)}
}

// modelStatistics are a version's numbers as the statistics extension has them.
type modelStatistics struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Last      int64             `json:"last_inference"`
	Rows      uint64            `json:"inference_count"`
	Runs      uint64            `json:"execution_count"`
	Inference map[string]timing `json:"inference_stats"`
	Batches   []any             `json:"batch_stats"`
	Memory    []any             `json:"memory_usage"`
}

func (h *handler) statistics(w http.ResponseWriter, r *http.Request) error {
	list, err := h.s.Statistics(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	out := []modelStatistics{}
	for _, v := range list {
		st := v.Stats
		out = append(out, modelStatistics{v.Name, v.String(), st.Last.Load(), st.Rows.Load(), st.Runs.Load(), map[string]timing{
			"success": timingOf(&st.Success), "fail": timingOf(&st.Fail), "queue": timingOf(&st.Queue), "compute_input": timingOf(&st.Input),
			"compute_infer": timingOf(&st.Infer), "compute_output": timingOf(&st.Output), "cache_hit": {}, "cache_miss": {},
		}, []any{}, []any{}})
	}
	write(w, http.StatusOK, map[string]any{"model_stats": out})
	return nil
}
