package carve

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// lateRanks is a group of the oracle's with operands whose ranks are known in a run alone: those of an If whose branches differ, of
// a sequence's items, or of inputs for which the model names none; or with sizes that have to be numbers for another backend: heads of an
// Attention, of which a model may leave any open. Other backends take no such nodes. So the group is compiled
// once more, on all backends, for the ranks and sizes that a run finds, with a symbol for each other dim, and kept; where that brings nothing, and
// for a few nodes on few bytes, the oracle's executable runs it. Limits of memory are those of each such Program by itself.
type lateRanks struct {
	backend.Executable // the oracle's
	body               *graph.Graph
	oracle             string
	o                  Options
	nodes              int
	constants          int64    // bytes
	sizes              [][2]int // inputs and axes of which a Program has the size
	mu                 sync.Mutex
	programs           map[string]*Program // by the ranks and sizes of operands; nil where the oracle is as good
}

const (
	// mostRanks is how many combinations of ranks and sizes a group is compiled for.
	mostRanks = 8
	// A few nodes on a few bytes of operands and constants are computed by the oracle before a Program has begun.
	fewNodes, fewBytes = 4, 4096
)

// lateRanks returns what runs a group of the oracle, whose executable is exe: that itself, where a run tells nothing new of ranks and sizes.
func (c *compilation) lateRanks(oracle string, body *graph.Graph, exe backend.Executable) backend.Executable {
	if len(c.backends) < 2 || !toldByRun(body) {
		return exe
	}
	sizes := lateSizes(body)
	if len(sizes) == 0 && !slices.ContainsFunc(body.Inputs, func(v *graph.Value) bool { return !v.Type.Shape.Known() }) {
		return exe
	}
	l := &lateRanks{Executable: exe, body: body, oracle: oracle, o: c.innerOptions(), sizes: sizes, programs: map[string]*Program{}}
	for range body.Nodes() {
		l.nodes++
	}
	for v := range body.Constants() {
		if !v.IsDims() {
			l.constants += int64(len(v.Const.Bytes()))
		}
	}
	return l
}

// toldByRun reports whether a group's operands tell all of the shapes in its body.
func toldByRun(body *graph.Graph) bool {
	numbers := func(v *graph.Value) bool {
		return v.Type.IsTensor() && v.Type.DType.Size() > 0 && v.Format == graph.HostFormat
	}
	for n := range body.Nodes() {
		if len(n.Regions) > 0 || n.IsCarve(graph.OpConvert) {
			return false
		}
	}
	for v := range body.Constants() {
		_, static := graph.Shape(v.Dims).Static()
		if !numbers(v) || v.IsDims() && !static { // symbols that the operands need not tell
			return false
		}
	}
	ports := slices.Concat(body.Inputs, body.Outputs)
	return !slices.ContainsFunc(ports, func(v *graph.Value) bool { return !numbers(v) })
}

// lateSizes returns the inputs of a group, and their axes, that say sizes which another backend wants to be numbers.
func lateSizes(body *graph.Graph) (sizes [][2]int) {
	wanted := map[string]bool{}
	for n := range body.Nodes() {
		for _, d := range microsoft.HeadDims(n) {
			d.Symbols(wanted)
		}
	}
	for i, v := range body.Inputs {
		for axis, d := range v.Type.Shape {
			symbols := map[string]bool{}
			d.Symbols(symbols)
			for name := range symbols {
				if wanted[name] {
					sizes = append(sizes, [2]int{i, axis})
					break
				}
			}
		}
	}
	return sizes
}

// innerOptions returns the options of a Program within this one, on its backends: what is of the model's own ports, passes and plans is not
// among them.
func (c *compilation) innerOptions() Options {
	o := Options{Open: map[string]backend.Backend{}, Properties: c.o.Properties, DisabledProperties: c.o.DisabledProperties, Pins: c.o.Pins,
		Placement: c.o.Placement, Budget: c.o.Budget, Cache: c.o.Cache, Threads: c.o.Threads, Streams: c.o.Streams, Allocator: c.o.Allocator,
		MaxArenaBytes: c.o.MaxArenaBytes, DeviceLimits: c.o.DeviceLimits, MaxFold: c.o.MaxFold, MaxSessions: c.o.MaxSessions,
		MaxSpecializations: c.o.MaxSpecializations, Strict: c.o.Strict, Verify: c.o.Verify, Poison: c.o.Poison, Logger: c.o.Logger}
	for _, b := range c.backends {
		name := b.Info().Name
		o.Open[name], o.Backends = b, append(o.Backends, backend.Config{Name: name})
	}
	return o
}

// Specialize implements backend.Executable.
func (l *lateRanks) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	inst, err := l.Executable.Specialize(ctx, b)
	if err != nil {
		return nil, err
	}
	return &rankedInstance{inst, l}, nil
}

// made returns the Programs that there are by now.
func (l *lateRanks) made() []*Program {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(l.programs)), func(p *Program) bool { return p == nil })
}

// Close implements backend.Executable.
func (l *lateRanks) Close() error {
	for _, p := range l.made() {
		_ = p.Close() // which returns none
	}
	return l.Executable.Close()
}

// rankedInstance is the oracle's instance, which runs what the Program for the operands' ranks and sizes does not.
type rankedInstance struct {
	backend.Instance
	l *lateRanks
}

// Enqueue implements backend.Instance.
func (in *rankedInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	bytes := in.l.constants
	for _, t := range a.Inputs {
		bytes += int64(len(t.Bytes()))
	}
	if in.l.nodes <= fewNodes && bytes <= fewBytes {
		return in.Instance.Enqueue(ctx, a)
	}
	p := in.l.program(ctx, a.Inputs)
	if p == nil {
		return in.Instance.Enqueue(ctx, a)
	}
	err := runLate(ctx, p, a)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return in.Instance.Enqueue(ctx, a) // which says what is wrong, of the model's nodes
	}
	if a.Trace != nil {
		for i := range max(in.Requirements().Steps, 1) {
			a.Trace(i)
		}
	}
	return nil, nil
}

// runLate runs a group's Program: into a run's results, where all of their shapes are known.
func runLate(ctx context.Context, p *Program, a *backend.RunArgs) error {
	if !slices.Contains(a.Outputs, nil) {
		return p.RunInto(ctx, a.Inputs, a.Outputs)
	}
	inputs := make([]tensor.Value, len(a.Inputs))
	for i, t := range a.Inputs {
		inputs[i] = t
	}
	results, err := p.runNamed(ctx, inputs)
	if err != nil {
		return err
	}
	for i, out := range a.Outputs {
		r := results[resultName(i)].(*tensor.Tensor)
		if out == nil {
			if out, err = a.Alloc(i, r.DType, r.Shape); err != nil {
				return err
			}
		}
		if !slices.Equal(out.Shape, r.Shape) {
			return fmt.Errorf("%w: result %d is %v, inferred as %v", tensor.ErrShape, i, r, out)
		}
		copy(out.Bytes(), r.Bytes())
	}
	return nil
}

// program returns the Program for operands of such ranks and sizes, nil where there is none.
func (l *lateRanks) program(ctx context.Context, operands []*tensor.Tensor) *Program {
	key := make([]byte, len(operands))
	for i, t := range operands {
		key[i] = byte(min(len(t.Shape), 255))
	}
	for _, s := range l.sizes {
		if len(operands[s[0]].Shape) <= s[1] {
			return nil
		}
		key = binary.LittleEndian.AppendUint64(key, uint64(operands[s[0]].Shape[s[1]]))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, known := l.programs[string(key)]
	if known || len(l.programs) >= mostRanks {
		return p
	}
	p, err := l.compile(ctx, operands)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		l.o.Logger.WarnContext(ctx, "a group does not compile for the ranks and sizes of a run: the oracle's kernels run it", "group", l.body.Name, "error", err)
	}
	l.programs[string(key)] = p
	return p
}

// compile returns the group for the operands' ranks and sizes on all backends, nil where no other than the oracle takes a node of it, nor
// would for sizes, where ranks were unknown before.
func (l *lateRanks) compile(ctx context.Context, operands []*tensor.Tensor) (*Program, error) {
	g, err := l.body.Clone()
	if err != nil {
		return nil, err
	}
	outer := l.body
	for outer.Owner() != nil {
		outer = outer.Owner().Graph()
	}
	g.Opsets = maps.Clone(outer.Opsets)
	untype(g)
	for _, s := range l.sizes {
		v := g.Inputs[s[0]]
		v.Type.Shape = slices.Clone(v.Type.Shape)
		v.Type.Shape[s[1]] = graph.D(operands[s[0]].Shape[s[1]])
	}
	shapeInputs(g, operands)
	for i, v := range g.Outputs {
		v.Name = resultName(i)
	}
	m := FromGraph(g)
	m.inner = true
	defer m.Close()
	p, err := compile(ctx, m, &l.o, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range p.results {
		if slices.ContainsFunc(r.Groups, func(gr *partition.Group) bool { return gr.Backend != l.oracle }) {
			return p, nil
		}
	}
	for _, e := range p.exes {
		if x, ok := e.(*lateRanks); ok && len(x.sizes) > 0 {
			return p, nil
		}
	}
	return nil, p.Close()
}

// shapeInputs gives the inputs names, and symbols for dims that are no numbers: equal ones for equal dims.
func shapeInputs(g *graph.Graph, operands []*tensor.Tensor) {
	symbols := map[string]graph.Dim{}
	for i, v := range g.Inputs {
		v.Name = operandName(i)
		dims := slices.Clone(v.Type.Shape)
		if dims == nil {
			dims = make(graph.Shape, len(operands[i].Shape))
			for k := range dims {
				dims[k] = graph.Sym(fmt.Sprintf("%s_%d", v.Name, k))
			}
		}
		for k, d := range dims {
			if _, number := d.Const(); number {
				continue
			}
			if _, known := symbols[d.String()]; !known {
				symbols[d.String()] = graph.Sym(fmt.Sprintf("dim_%d", len(symbols)))
			}
			dims[k] = symbols[d.String()]
		}
		v.Type.Shape = dims
	}
}

// untype takes back what is known of the shapes of results, for other shapes of the inputs.
func untype(g *graph.Graph) {
	for n := range g.Nodes() {
		for _, v := range n.Outputs {
			if v != nil {
				v.Type.Shape, v.Dims = nil, nil
			}
		}
	}
}
