package carve

import (
	"context"
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
	"github.com/carve-dev/carve/internal/tune"
	"github.com/carve-dev/carve/partition"
)

// One operator at a time: programs of one node, on backends that are open already.

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
