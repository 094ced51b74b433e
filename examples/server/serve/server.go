package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Options are the settings of New. The zero value means the defaults.
type Options struct {
	// MaxRequests bounds the requests that are answered or wait at a time, of all models; 0 means 4096.
	MaxRequests int
	// MaxBytes bounds the bytes that the tensors of those requests have together; 0 means 1 GiB.
	MaxBytes int64
	// MaxRequestBytes bounds one request, decompressed; 0 means 64 MiB.
	MaxRequestBytes int64
	// Explicit allows clients to load and unload models.
	Explicit bool
	// Name and Version are the server's own, in its metadata.
	Name, Version string
	// Observer is told of every request; nil means nobody. Calls come from many goroutines.
	Observer Observer
	// Logger is told of requests that fail by the server's fault; nil discards it.
	Logger *slog.Logger
}

// Server answers requests. It is safe for concurrent use.
type Server struct {
	o        Options
	models   *repository.Repository
	requests atomic.Int64
	bytes    atomic.Int64

	draining atomic.Bool
	mu       sync.Mutex
	over     bool          // nothing is admitted any more, guarded by mu
	active   int           // requests that were admitted, guarded by mu
	idle     chan struct{} // closed when active falls to 0 and it is over
}

// New returns a server of a repository, which stays the caller's to close after Drain.
func New(models *repository.Repository, o Options) *Server {
	if o.MaxRequests <= 0 {
		o.MaxRequests = 4096
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.MaxRequestBytes <= 0 {
		o.MaxRequestBytes = 64 << 20
	}
	if o.Name == "" {
		o.Name = "carve"
	}
	if o.Version == "" {
		o.Version = Version()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{o: o, models: models, idle: make(chan struct{})}
}

// MaxRequestBytes returns the most bytes that a request may have.
func (s *Server) MaxRequestBytes() int64 { return s.o.MaxRequestBytes }

// Models returns the repository.
func (s *Server) Models() *repository.Repository { return s.models }

// Admission is a request's place in the server. Its bytes count until it is released.
type Admission struct {
	s     *Server
	bytes int64 // of the message
	held  int64 // of tensors beside it
}

// Admit takes a request in, before anything of it is read. The error is Overloaded, or Unavailable once the server has drained.
func (s *Server) Admit() (*Admission, error) {
	if s.requests.Add(1) > int64(s.o.MaxRequests) {
		s.requests.Add(-1)
		s.models.Strained()
		return nil, oip.Errorf(oip.Overloaded, "the server answers %d requests already", s.o.MaxRequests)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		s.requests.Add(-1)
		return nil, oip.Errorf(oip.Unavailable, "the server is shutting down")
	}
	s.active++
	return &Admission{s: s}, nil
}

// Reserve counts bytes that are about to be allocated for the request. The error is TooLarge or Exhausted.
func (a *Admission) Reserve(n int64) error {
	if n < 0 || a.bytes+n > a.s.o.MaxRequestBytes {
		return oip.Errorf(oip.TooLarge, "the request has more than %d bytes", a.s.o.MaxRequestBytes)
	}
	err := a.s.reserve(n)
	if err == nil {
		a.bytes += n
	}
	return err
}

// reserve counts bytes among those of all requests.
func (s *Server) reserve(n int64) error {
	if s.bytes.Add(n) > s.o.MaxBytes {
		s.bytes.Add(-n)
		s.models.Strained()
		return oip.Errorf(oip.Exhausted, "the requests under way have %d bytes together", s.o.MaxBytes)
	}
	return nil
}

// Hold counts memory of the request's tensors that is not part of its message: numbers that are written out, and strings, take several times
// the bytes that they have there. It counts among those of all requests alone. The error is Exhausted.
func (a *Admission) Hold(n int64) error {
	err := a.s.reserve(n)
	if err == nil {
		a.held += n
	}
	return err
}

// Release ends the request's place, when its answer has been written.
func (a *Admission) Release() {
	a.s.bytes.Add(-a.bytes - a.held)
	a.s.requests.Add(-1)
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.active--; a.s.active == 0 && a.s.over {
		close(a.s.idle)
	}
}

// Leave makes the server not ready. It goes on answering, so that balancers can see that and send others elsewhere.
func (s *Server) Leave() { s.draining.Store(true) }

// Drain is Leave, turns down requests from now on, and waits until none is under way. The error is ctx's. It is called once,
// after the transports have stopped to accept requests.
func (s *Server) Drain(ctx context.Context) error {
	s.Leave()
	s.mu.Lock()
	s.over = true
	empty := s.active == 0
	s.mu.Unlock()
	if empty {
		return nil
	}
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Draining reports whether the server is going away.
func (s *Server) Draining() bool { return s.draining.Load() }

// Ready reports whether all models that should be are ready, and the server is not going away.
func (s *Server) Ready() bool { return !s.draining.Load() && s.models.Ready() }

// ModelReady reports whether a model can be asked; the error is NotFound or InvalidArgument.
func (s *Server) ModelReady(name, version string) (bool, error) {
	_, err := s.models.Describe(name, version)
	if err == nil {
		return true, nil
	}
	if e := oip.AsError(err); e.Code != oip.Unavailable {
		return false, err
	}
	return false, nil
}

// Infer answers a request. The tensors of the answer are the caller's; inputs are not used any more when it returns.
func (s *Server) Infer(ctx context.Context, r *oip.Request) (answer *oip.Response, err error) {
	begin := time.Now()
	done := func(Outcome) {}
	if s.o.Observer != nil {
		ctx, done = s.o.Observer.Begin(ctx, r)
	}
	var outcome Outcome
	var ran time.Time
	defer func() {
		if p := recover(); p != nil {
			s.o.Logger.ErrorContext(ctx, "a request has panicked", "model", r.Model, "panic", p, "stack", string(debug.Stack()))
			answer, err = nil, oip.Errorf(oip.Internal, "the request has panicked: %v", p)
		}
		end := time.Now()
		outcome.Total, outcome.Err = end.Sub(begin), err
		if !ran.IsZero() {
			outcome.Output = end.Sub(ran)
		}
		outcome.count(end)
		done(outcome)
	}()
	v, err := s.models.Acquire(ctx, r.Model, r.Version)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	outcome.Version = v
	v.Stats.Pending.Add(1)
	defer v.Stats.Pending.Add(-1)
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	inputs := named.Get().(map[string]tensor.Value)
	defer recycle(inputs)
	if outcome.Rows, err = check(v, r, inputs); err != nil {
		return nil, err
	}
	outputs, end, err := s.run(ctx, v, r, inputs, &outcome)
	if err != nil {
		err = s.translate(ctx, v, err)
		return nil, err
	}
	ran = end
	return assemble(v, r, outputs)
}

// run runs a version, within its sequence where it keeps states, and returns when the run has ended.
func (s *Server) run(ctx context.Context, v *repository.Version, r *oip.Request, inputs map[string]tensor.Value, o *Outcome) (map[string]tensor.Value, time.Time, error) {
	begin := time.Now()
	if v.Sequences == nil {
		out, waited, err := v.Run(ctx, r.Priority, inputs)
		end := time.Now()
		o.Queue, o.Infer = waited, end.Sub(begin)-waited
		return out, end, err
	}
	turn, err := v.Sequences.Begin(ctx, r.Parameters, inputs)
	if err != nil {
		return nil, time.Time{}, err
	}
	turned := time.Now()
	out, waited, err := v.Run(ctx, r.Priority, inputs) // a panic is an error of it
	end := time.Now()
	o.Queue, o.Infer = turned.Sub(begin)+waited, end.Sub(turned)-waited
	if err != nil {
		out = nil
	}
	if full := turn.End(out); full != nil {
		return nil, end, full
	}
	return out, end, err
}

// translate returns an error of a run in the protocol's words.
func (s *Server) translate(ctx context.Context, v *repository.Version, err error) error {
	var own *oip.Error
	switch {
	case errors.As(err, &own), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, carve.ErrDraining), errors.Is(err, device.ErrGone):
		return oip.Errorf(oip.Unavailable, "%w", err)
	case errors.Is(err, carve.ErrOverloaded):
		return oip.Errorf(oip.Overloaded, "%w", err)
	case errors.Is(err, carve.ErrInput):
		return oip.Errorf(oip.InvalidArgument, "%w", err)
	case errors.Is(err, carve.ErrMemoryLimit):
		return oip.Errorf(oip.Unavailable, "%w", err)
	}
	s.o.Logger.ErrorContext(ctx, "a run has failed", "model", v.Name, "version", v.Number, "error", err)
	return oip.Errorf(oip.Internal, "%w", err)
}

// turnedDown reports whether a request was refused because there are too many.
func (o *Outcome) turnedDown() bool {
	if o.Err == nil {
		return false
	}
	code := oip.AsError(o.Err).Code
	return code == oip.Overloaded || code == oip.Exhausted
}

// count adds an outcome, of now, to the version's statistics.
func (o *Outcome) count(now time.Time) {
	if o.Version == nil {
		return
	}
	st := o.Version.Stats
	st.Last.Store(now.UnixMilli())
	if o.Err != nil {
		st.Fail.Add(o.Total)
		if o.turnedDown() {
			st.Rejected.Add(1)
		} else if oip.AsError(o.Err).Code == oip.Cancelled {
			st.Cancelled.Add(1)
		}
		return
	}
	st.Success.Add(o.Total)
	st.Queue.Add(o.Queue)
	st.Input.Add(o.Total - o.Queue - o.Infer - o.Output)
	st.Infer.Add(o.Infer)
	st.Output.Add(o.Output)
	st.Rows.Add(uint64(o.Rows))
}

// named keeps maps of inputs, which nothing uses when a run has returned.
var named = sync.Pool{New: func() any { return map[string]tensor.Value{} }}

func recycle(inputs map[string]tensor.Value) {
	clear(inputs)
	named.Put(inputs)
}

// check compares a request with the model, notes its inputs by name, and returns how many rows they have.
func check(v *repository.Version, r *oip.Request, inputs map[string]tensor.Value) (rows int, err error) {
	rows = 1
	for i, in := range r.Inputs {
		p := port(v.Inputs, in.Name)
		switch {
		case p == nil:
			return 0, oip.Errorf(oip.InvalidArgument, "unexpected inference input '%.200s' for model '%s'", in.Name, v.Name)
		case inputs[in.Name] != nil:
			return 0, oip.Errorf(oip.InvalidArgument, "input '%s' is given twice", in.Name)
		case in.Tensor.DType != p.DType:
			given, _ := oip.Datatype(in.Tensor.DType)
			return 0, oip.Errorf(oip.InvalidArgument, "input '%s' of model '%s' has datatype %s, the request %s", in.Name, v.Name, p.Datatype, given)
		case !p.Fits(in.Tensor.Shape):
			return 0, oip.Errorf(oip.InvalidArgument, "input '%s' of model '%s' has shape %v, the request %v", in.Name, v.Name, p.Shape, in.Tensor.Shape)
		}
		inputs[in.Name] = in.Tensor
		if in.Tensor.DType == tensor.Bool {
			settle(in.Tensor.Data)
		}
		if n := v.Config.MaxBatch(); n > 0 {
			if len(in.Tensor.Shape) == 0 || in.Tensor.Shape[0] > n {
				return 0, oip.Errorf(oip.InvalidArgument, "inference request batch-size must be <= %d for '%s'", n, v.Name)
			}
			if i > 0 && in.Tensor.Shape[0] != rows {
				return 0, oip.Errorf(oip.InvalidArgument, "input '%s' has a batch of %d, the inputs before it of %d", in.Name, in.Tensor.Shape[0], rows)
			}
			rows = in.Tensor.Shape[0]
		}
	}
	for _, p := range v.Inputs {
		if inputs[p.Name] == nil && !p.Optional {
			return 0, oip.Errorf(oip.InvalidArgument, "expected input '%s' of model '%s', the request has %d inputs without it", p.Name, v.Name, len(r.Inputs))
		}
	}
	return rows, checkWanted(v, r.Outputs)
}

// checkWanted compares the outputs that a request names with the model's. None is given twice: an answer could be any number of times as
// long as the model's results otherwise.
func checkWanted(v *repository.Version, outputs []oip.Output) error {
	for i, out := range outputs {
		switch {
		case port(v.Outputs, out.Name) == nil:
			return oip.Errorf(oip.InvalidArgument, "unexpected inference output '%.200s' for model '%s'", out.Name, v.Name)
		case slices.ContainsFunc(outputs[:i], func(o oip.Output) bool { return o.Name == out.Name }):
			return oip.Errorf(oip.InvalidArgument, "output '%.200s' is asked for twice", out.Name)
		}
	}
	return nil
}

// settle makes truth values of what a client may have for true: kernels count on 0 and 1.
func settle(truths []byte) {
	for i, b := range truths {
		if b > 1 {
			truths[i] = 1
		}
	}
}

func port(list []repository.Port, name string) *repository.Port {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// few is an answer with room for few outputs, as most have.
type few struct {
	oip.Response
	room [2]oip.Named
}

// assemble makes an answer of a run's outputs.
func assemble(v *repository.Version, r *oip.Request, outputs map[string]tensor.Value) (*oip.Response, error) {
	a := &few{Response: oip.Response{Model: v.Name, Version: v.String(), ID: r.ID}}
	answer, n := &a.Response, cmp.Or(len(r.Outputs), len(v.Outputs))
	if answer.Outputs = a.room[:min(n, len(a.room))]; n > len(a.room) {
		answer.Outputs = make([]oip.Named, n)
	}
	for i := range answer.Outputs {
		var w oip.Output
		if len(r.Outputs) > 0 {
			w = r.Outputs[i]
		} else {
			w.Name = v.Outputs[i].Name
		}
		t, ok := outputs[w.Name].(*tensor.Tensor)
		if !ok {
			return nil, oip.Errorf(oip.Internal, "output '%s' of model '%s' is no tensor", w.Name, v.Name)
		}
		if w.Classes > 0 {
			var err error
			if t, err = classify(t, w.Classes, v.Config.MaxBatch() > 0, v.Labels[w.Name]); err != nil {
				return nil, fmt.Errorf("output '%s': %w", w.Name, err)
			}
		}
		answer.Outputs[i] = oip.Named{Name: w.Name, Tensor: t}
	}
	return answer, nil
}

// Bytes returns how many bytes the tensors of requests under way have together.
func (s *Server) Bytes() int64 { return s.bytes.Load() }
