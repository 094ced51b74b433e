package carve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/constants"
	"github.com/carve-dev/carve/internal/pool"
	"github.com/carve-dev/carve/internal/single"
	"github.com/carve-dev/carve/internal/tune"
	"github.com/carve-dev/carve/partition"
)

// One operator at a time: programs of one node, on backends that are open already.

// evaluated is how many operators an Evaluator keeps where Options.MaxSpecializations does not say.
const evaluated = 256

// Evaluator runs one operator at a time: for eager use, and to try a kernel. Each call's operator is compiled like a model of one
// node, once for its attributes, types and shapes, and kept. It is safe for concurrent use.
type Evaluator struct {
	o      Options
	opened opened
	cache  *single.Cache[*Program]
}

// NewEvaluator opens the backends of the options, which mean what they mean to Compile, but that MaxSpecializations bounds the
// operators that are kept compiled, 256 where it is 0: the one that was used longest ago goes first. Close it.
func NewEvaluator(o *Options) (*Evaluator, error) {
	e := &Evaluator{o: o.withDefaults()}
	most := evaluated
	if o != nil && o.MaxSpecializations > 0 {
		most = o.MaxSpecializations
	}
	list, opened, err := e.o.openBackends()
	if err != nil {
		opened.close()
		return nil, err
	}
	e.opened = opened
	options := map[string]map[string]string{}
	for _, c := range e.o.Backends {
		options[c.Name] = c.Options
	}
	e.o.Backends, e.o.Open, e.o.Devices, e.o.Plugins = nil, map[string]backend.Backend{}, nil, nil
	for _, b := range list {
		name := b.Info().Name
		e.o.Open[name] = b
		e.o.Backends = append(e.o.Backends, backend.Config{Name: name, Options: options[name]})
	}
	e.o.MaxSpecializations = 1
	e.cache = single.NewCache(most, func(ctx context.Context, g *graph.Graph) (*Program, error) { return Compile(ctx, FromGraph(g), &e.o) })
	return e, nil
}

// Eval returns the results of an operator: "Add", or of another domain than ONNX's own "com.microsoft.Gelu", of the newest version
// that is known. Inputs are in its order, nil for an optional one that is left out. It gives the results that the operator has in any
// case, and where their number is open as many as num_outputs or the second input say; EvalInto may ask for optional ones.
//
// Errors are those of Compile and Run, wrapping ErrInput for an operator that is not known, or not with these inputs or results;
// ErrClosed after Close.
func (e *Evaluator) Eval(ctx context.Context, op string, attrs []graph.Attr, inputs []*tensor.Tensor) ([]tensor.Value, error) {
	ctx = background(ctx)
	call := single.Call{Op: op, Attrs: attrs, Inputs: inputs}
	x, err := e.acquire(ctx, &call)
	if err != nil {
		return nil, err
	}
	defer e.cache.Release(x)
	feeds, k := map[string]tensor.Value{}, 0
	for i, t := range inputs {
		if x.Call.Runtime(i) {
			feeds[x.Graph.Inputs[k].Name] = t
			k++
		}
	}
	out, err := x.Program.Run(ctx, feeds)
	if err != nil {
		return nil, err
	}
	results := make([]tensor.Value, len(x.Graph.Outputs))
	for i, v := range x.Graph.Outputs {
		results[i] = out[v.Name]
	}
	return results, nil
}

// EvalInto computes into tensors of the caller's, like Program.RunInto: one per result that is wanted, nil for one before it that is
// not. A call with attributes, types and shapes that were there before allocates nothing, unless small inputs decide shapes, like
// those of Reshape. Errors are those of Eval, and ErrOutput.
func (e *Evaluator) EvalInto(ctx context.Context, op string, attrs []graph.Attr, inputs, outputs []*tensor.Tensor) error {
	ctx = background(ctx)
	call := single.Call{Op: op, Attrs: attrs, Inputs: inputs, Outputs: len(outputs)}
	x, err := e.acquire(ctx, &call)
	if err != nil {
		return err
	}
	defer e.cache.Release(x)
	if len(x.Graph.Inputs) < len(inputs) {
		var given []*tensor.Tensor
		for i, t := range inputs {
			if x.Call.Runtime(i) {
				given = append(given, t)
			}
		}
		inputs = given
	}
	return x.Program.RunInto(ctx, inputs, outputs)
}

// acquire returns the program of a call.
func (e *Evaluator) acquire(ctx context.Context, call *single.Call) (*single.Entry[*Program], error) {
	if e == nil || e.cache == nil {
		return nil, ErrClosed
	}
	x, err := e.cache.Acquire(ctx, call)
	switch {
	case err == nil:
		return x, nil
	case errors.Is(err, single.ErrClosed):
		return nil, ErrClosed
	case errors.Is(err, single.ErrCall):
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	return nil, err
}

// Close frees what was compiled and closes the backends; no call may be under way. Closing twice does nothing.
func (e *Evaluator) Close() error {
	if e == nil || e.cache == nil {
		return nil
	}
	if e.cache.Close() {
		e.opened.close()
	}
	return nil
}

// trial compiles a candidate by itself, on the backends of p, which has to stay open.
func (p *Program) trial(ctx context.Context, x *tune.Task) (tune.Subject, error) {
	if x.Hop != nil {
		return newHop(ctx, &p.env.Transfer, x, p.o.Threads)
	}
	m := FromGraph(x.Graph)
	if err := m.retain(); err != nil {
		return nil, err
	}
	c := &compilation{ctx: ctx, model: m, backends: p.backends, registry: p.env.Transfer.Registry, devices: p.env.Transfer.Devices, bans: partition.NewBans(nil),
		o: Options{Threads: p.o.Threads, MaxSessions: 1, MaxSpecializations: 1, Properties: p.o.Properties, DisabledProperties: p.o.DisabledProperties,
			Strict: true, Allocator: p.o.Allocator, Logger: p.o.Logger, Observer: func(Progress) {}},
		told: func(*compilation) (partition.Chooser, error) { return &only{backend: x.Backend, sig: x.Sig}, nil }}
	c.packer = &constants.Packer{Shared: m.packed, Own: &constants.Store{}, Private: func(tensor.DeviceID) bool { return true },
		Transfer: p.env.Transfer}
	a, err := c.single(x)
	if err != nil {
		c.free()
		m.release()
		return nil, err
	}
	return a, nil
}

// single makes what trial returns.
func (c *compilation) single(x *tune.Task) (*aloneProgram, error) {
	feeds := map[string]tensor.Value{}
	for _, v := range x.Graph.Inputs {
		t, err := tune.Feed(v.Type, nil)
		if err != nil {
			return nil, err
		}
		feeds[v.Name] = t
	}
	first := slices.IndexFunc(passes, func(p pass) bool { return p.round })
	if err := c.rounds(x.Graph, passes[first:]); err != nil {
		return nil, err
	}
	p, err := newProgram(c)
	if err != nil {
		return nil, err
	}
	return &aloneProgram{p: p, backend: x.Backend, feeds: feeds}, nil
}

// only is a Chooser for graphs of one node, which it gives to a backend with one signature.
type only struct {
	backend string
	sig     graph.Signature
}

// Choose implements partition.Chooser.
func (o *only) Choose(ctx context.Context, t *partition.Candidates) error {
	for i := range t.Backends() {
		if t.Backend(i) != o.backend {
			continue
		}
		return t.Collect(ctx, i, func(c *partition.Candidate) bool {
			if c.Claim != nil || c.Node.Name != tune.NodeName {
				return false
			}
			c.Signatures = []graph.Signature{o.sig}
			return true
		})
	}
	return fmt.Errorf("%w: %q", backend.ErrUnknown, o.backend)
}

// aloneProgram is a tune.Subject: what counts is the time of its node.
type aloneProgram struct {
	p       *Program
	backend string
	feeds   map[string]tensor.Value
}

// Run implements tune.Subject.
func (a *aloneProgram) Run(ctx context.Context) (time.Duration, error) {
	_, prof, err := a.p.RunProfiled(ctx, a.feeds)
	if err != nil {
		return 0, err
	}
	sum := time.Duration(0)
	for _, s := range prof.Spans {
		if s.Backend == a.backend && slices.Contains(s.Nodes, tune.NodeName) {
			sum += s.Time
		}
	}
	return sum, nil
}

// Close implements tune.Subject.
func (a *aloneProgram) Close() error { return a.p.Close() }

// hop is a tune.Subject that converts.
type hop struct {
	move     convert.Move
	from, to *tensor.Tensor
	free     []func()
	threads  int
	run      pool.Run
	workers  device.Workers
}

// newHop makes the operand and the result of a conversion.
func newHop(ctx context.Context, t *convert.Transfer, x *tune.Task, threads int) (_ *hop, err error) {
	h := &hop{threads: threads}
	h.workers.Run = &h.run
	defer func() {
		if err != nil {
			_ = h.Close() // the error counts
		}
	}()
	data, err := tune.Feed(x.Type, nil)
	if err != nil {
		return nil, err
	}
	place := func(f graph.Format, make func(d device.Device) (device.Memory, error)) (*tensor.Tensor, error) {
		d, err := t.Device(f)
		if err != nil {
			return nil, err
		}
		m, err := make(d)
		if err != nil {
			return nil, err
		}
		h.free = append(h.free, func() { d.Free(m) })
		return &tensor.Tensor{DType: data.DType, Shape: data.Shape, Device: f.Device, Data: m.Data, Handle: m.Handle}, nil
	}
	h.from = data
	if x.Hop.From != graph.HostFormat {
		if h.from, err = place(x.Hop.From, func(device.Device) (device.Memory, error) {
			return t.New(ctx, data, graph.HostFormat, x.Hop.From, nil)
		}); err != nil {
			return nil, err
		}
	}
	size, err := t.Registry.Size(x.Hop.To, data.DType, data.Shape)
	if err != nil {
		return nil, err
	}
	if h.to, err = place(x.Hop.To, func(d device.Device) (device.Memory, error) { return d.Alloc(size) }); err != nil {
		return nil, err
	}
	h.move, err = x.Hop.Plan(data.DType, data.Shape)
	return h, err
}

// Run implements tune.Subject.
func (h *hop) Run(ctx context.Context) (time.Duration, error) {
	h.run.Begin(h.threads)
	defer h.run.End()
	start := time.Now()
	err := h.move(ctx, h.to, h.from, convert.Exec{Workers: &h.workers})
	return time.Since(start), err
}

// Close implements tune.Subject.
func (h *hop) Close() error {
	for _, free := range h.free {
		free()
	}
	h.free = nil
	return nil
}

// timed is a tune.Subject of a whole program.
type timed struct {
	p     *Program
	feeds map[string]tensor.Value
}

// Run implements tune.Subject.
func (t *timed) Run(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	out, err := t.p.Run(ctx, t.feeds)
	took := time.Since(start)
	for _, v := range out {
		if f, ok := v.(*Formatted); ok {
			f.Release()
		}
	}
	return took, err
}

// Close implements tune.Subject; the program is its maker's.
func (*timed) Close() error { return nil }

// feeds returns data for a program's inputs: what is given, or else made up.
func (p *Program) feeds(given map[string]tensor.Value, at graph.Bindings) (map[string]tensor.Value, error) {
	feeds := map[string]tensor.Value{}
	for i, v := range p.g.Inputs {
		if x, ok := given[v.Name]; ok {
			feeds[v.Name] = x
			continue
		}
		if p.defaults[i] != nil {
			continue
		}
		t, err := tune.Feed(v.Type, at)
		if err != nil {
			return nil, &InputError{Name: v.Name, Problem: "no data to measure with: " + err.Error(), kind: ErrInput}
		}
		feeds[v.Name] = t
	}
	return feeds, nil
}

// bindingsOf returns the values that shapes of inputs give to open symbols.
func bindingsOf(g *graph.Graph, shapes map[string][]int) (graph.Bindings, error) {
	at := graph.Bindings{}
	for _, v := range g.Inputs {
		dims, given := shapes[v.Name]
		fault := func(problem string) error {
			return &InputError{Name: v.Name, Problem: problem, Expected: v.Type.String(), Found: fmt.Sprint(dims), kind: ErrInput}
		}
		if given && len(dims) != len(v.Type.Shape) {
			return nil, fault("a shape of another rank")
		}
		for i, d := range v.Type.Shape {
			name, symbol := d.Symbol()
			n, known := d.Const()
			switch {
			case given && symbol:
				if old, twice := at[name]; dims[i] < 0 || twice && old != int64(dims[i]) {
					return nil, fault("a shape that does not fit")
				}
				at[name] = int64(dims[i])
			case given && known && n != int64(dims[i]):
				return nil, fault("a shape that does not fit")
			}
		}
	}
	for _, v := range g.Inputs { // a shape may settle a symbol of another input
		if _, err := v.Type.Shape.Eval(at, nil); v.Type.IsTensor() && v.Type.Shape.Known() && err != nil {
			return nil, &InputError{Name: v.Name, Problem: "its shape is open: tuning needs one", Expected: v.Type.String(), kind: ErrInput}
		}
	}
	return at, nil
}
