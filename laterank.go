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
// Attention, of which a model may leave any open, weights of a convolution, or what an operator of ONNX Runtime needs to become standard ones. Other backends take no such nodes. So the group is compiled
// once more, on all backends, for the ranks and sizes that a run finds, with a symbol for each other dim, and kept; where that brings nothing, and
// for a few nodes on few bytes, the oracle's executable runs it. Limits of memory are those of each such Program by itself.
type lateRanks struct {
	backend.Executable // the oracle's
	body               *graph.Graph
	oracle             string
	o                  Options
	nodes              int
	constants          int64    // bytes
	expanded           bool     // a node is one that the oracle expands in each run
	vectors            []int    // the lengths of constant vectors
	unranked           bool     // the rank of an input is not known
	sizes              [][2]int // inputs and axes of which a Program has the size
	mu                 sync.Mutex
	found              map[string]*lateFound // by the ranks and sizes of operands
	programs           int                   // that were compiled to be kept
}

// lateFound is what a group has for operands of some ranks and sizes.
type lateFound struct {
	p    *Program // nil where the oracle is as good
	more [][2]int // sizes that another Program wants to know besides, where these are not all
}

const (
	// mostRanks is how many combinations of ranks, sizes and likenesses a group is compiled for; it is for as many combinations again of ranks and sizes alone.
	mostRanks = 8
	// mostConstants is how many bytes of constants those for likenesses may have together, beyond the first: each packs its own.
	mostConstants = 256 << 20
	// A few nodes on a few bytes of operands and constants are computed by the oracle before a Program has begun, but for those that it would expand in each run.
	fewNodes, fewBytes = 4, 256
)

// lateRanks returns what runs a group of the oracle, whose executable is exe: that itself, where a run tells nothing new of ranks and sizes.
func (c *compilation) lateRanks(oracle string, body *graph.Graph, exe backend.Executable) backend.Executable {
	if len(c.backends) < 2 || !toldByRun(body) {
		return exe
	}
	sizes := lateSizes(body)
	unranked := slices.ContainsFunc(body.Inputs, func(v *graph.Value) bool { return !v.Type.Shape.Known() })
	if len(sizes) == 0 && !unranked {
		return exe
	}
	l := &lateRanks{Executable: exe, body: body, oracle: oracle, o: c.innerOptions(), unranked: unranked, sizes: sizes, found: map[string]*lateFound{}}
	for n := range body.Nodes() {
		l.nodes++
		l.expanded = l.expanded || microsoft.Waits(n)
	}
	for v := range body.Constants() {
		if v.IsDims() {
			continue
		}
		l.constants += int64(len(v.Const.Bytes()))
		if s := v.Const.Shape; len(s) == 1 && s[0] > 1 && !slices.Contains(l.vectors, s[0]) {
			l.vectors = append(l.vectors, s[0])
		}
	}
	return l
}

// waitsForRanks returns the oracle where the model is its group as a whole, which is compiled once more for the ranks that a run finds: inputs of unknown rank leave
// the shapes of half of the nodes or more open, and no option says who runs what. nil is for others: what is known of shapes is put to use at once.
func (c *compilation) waitsForRanks() backend.Backend {
	at := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Oracle })
	ranked := !slices.ContainsFunc(c.g.Inputs, func(v *graph.Value) bool { return !v.Type.Shape.Known() })
	if ranked || at < 0 || len(c.backends) < 2 || c.o.Strict || c.o.Isolated || len(c.o.Pins) > 0 || len(c.o.InPlace) > 0 || !toldByRun(c.g) {
		return nil
	}
	nodes, open := 0, 0
	for n := range c.g.Nodes() {
		nodes++
		if slices.ContainsFunc(n.Outputs, func(v *graph.Value) bool { return v != nil && !v.Type.Backed() }) {
			open++
		}
	}
	if nodes == 0 || 2*open < nodes {
		return nil
	}
	return c.backends[at]
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
func lateSizes(body *graph.Graph) [][2]int {
	wanted := map[string]bool{}
	for n := range body.Nodes() {
		for _, d := range wantedDims(n) {
			d.Symbols(wanted)
		}
	}
	return sizesWith(body.Inputs, wanted)
}

// sizesWith returns the inputs, and their axes, in whose dims one of the symbols is.
func sizesWith(inputs []*graph.Value, wanted map[string]bool) (sizes [][2]int) {
	for i, v := range inputs {
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

// wantedDims returns dims of a node's operands that have to be numbers for other backends to take it: those of a convolution's weights and of zero points of
// integers, of which there may be one for each column, and what microsoft.OpenDims says.
func wantedDims(n *graph.Node) (dims []graph.Dim) {
	product := n.Is("MatMulInteger")
	if !product && !n.Is("Conv") && !n.Is("ConvInteger") {
		return microsoft.OpenDims(n)
	}
	weights := n.Inputs[1].Type.Shape
	if product {
		weights = weights[max(0, len(weights)-1):]
	}
	dims = slices.Clone(weights)
	for i := 2; !n.Is("Conv") && i < len(n.Inputs); i++ {
		if zero := n.Inputs[i]; zero != nil {
			dims = append(dims, zero.Type.Shape...)
		}
	}
	return dims
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
	var list []*Program
	for f := range maps.Values(l.found) {
		if f.p != nil {
			list = append(list, f.p)
		}
	}
	return list
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
	if in.l.nodes <= fewNodes && bytes <= fewBytes && !in.l.expanded {
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

// runLate runs a group's Program into a run's results: those are made before where all of their shapes are known, or are those of the Program with the operands' sizes,
// and otherwise when it comes to them.
func runLate(ctx context.Context, p *Program, a *backend.RunArgs) error {
	outputs := slices.Clone(a.Outputs)
	if shapes, ok := lateShapes(p, a.Inputs); ok {
		for i, out := range outputs {
			if out != nil {
				continue
			}
			var err error
			if outputs[i], err = a.Alloc(i, p.g.Outputs[i].Type.DType, shapes[i]); err != nil {
				return err
			}
		}
	}
	if !slices.Contains(outputs, nil) {
		return p.RunInto(ctx, a.Inputs, outputs)
	}
	inputs := make([]tensor.Value, len(a.Inputs))
	for i, t := range a.Inputs {
		inputs[i] = t
	}
	results, err := p.runProvided(ctx, inputs, func(i int, dt tensor.DType, shape []int) (_ *tensor.Tensor, err error) {
		if a.Outputs[i] == nil {
			outputs[i], err = a.Alloc(i, dt, shape)
			return outputs[i], err
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	for i, out := range outputs {
		r := results[resultName(i)].(*tensor.Tensor)
		if out == nil {
			if out, err = a.Alloc(i, r.DType, r.Shape); err != nil {
				return err
			}
		}
		if !slices.Equal(out.Shape, r.Shape) {
			return fmt.Errorf("%w: result %d is %v, inferred as %v", tensor.ErrShape, i, r, out)
		}
		if from, to := r.Bytes(), out.Bytes(); len(to) > 0 && &from[0] != &to[0] {
			copy(to, from)
		}
	}
	return nil
}

// lateShapes returns the shapes of a Program's results for these operands; ok is false where their sizes do not tell all of them.
func lateShapes(p *Program, operands []*tensor.Tensor) (shapes [][]int, ok bool) {
	sizes := graph.Bindings{}
	for i, v := range p.g.Inputs {
		for axis, d := range v.Type.Shape {
			if name, symbol := d.Symbol(); symbol && axis < len(operands[i].Shape) {
				sizes[name] = int64(operands[i].Shape[axis])
			}
		}
	}
	for _, v := range p.g.Outputs {
		shape, err := v.Type.Shape.Eval(sizes, nil)
		if !v.Type.Shape.Known() || err != nil {
			return nil, false
		}
		shapes = append(shapes, shape)
	}
	return shapes, true
}

// program returns the Program for operands of such ranks and sizes, nil where there is none.
func (l *lateRanks) program(ctx context.Context, operands []*tensor.Tensor) *Program {
	l.mu.Lock()
	defer l.mu.Unlock()
	alike := l.likeness(operands)
	most := int(min(mostRanks, mostConstants/max(l.constants, 1)))
	p, full := l.programFor(ctx, operands, alike, max(most, 1))
	if full {
		clear(alike)
		p, _ = l.programFor(ctx, operands, alike, 2*mostRanks)
	}
	return p
}

// programFor returns the Program for operands of such ranks, likeness and sizes; full is true where there is none, and no more than so many are made.
func (l *lateRanks) programFor(ctx context.Context, operands []*tensor.Tensor, alike []likeness, most int) (p *Program, full bool) {
	key := make([]byte, 0, 64)
	for _, t := range operands {
		key = append(key, byte(min(len(t.Shape), 255)))
	}
	for _, a := range alike {
		key = append(key, byte(a))
	}
	sizes := l.sizes
	for from := 0; ; {
		for _, s := range sizes[from:] {
			if len(operands[s[0]].Shape) <= s[1] {
				return nil, false
			}
			key = binary.LittleEndian.AppendUint64(key, uint64(operands[s[0]].Shape[s[1]]))
		}
		f := l.found[string(key)]
		if f == nil {
			if l.programs >= most {
				return nil, true
			}
			if f = l.find(ctx, operands, alike, sizes); f == nil {
				return nil, false
			}
			l.found[string(key)] = f
		}
		if len(f.more) == 0 {
			return f.p, false
		}
		from, sizes = len(sizes), slices.Concat(sizes, f.more)
	}
}

// find compiles the group for operands, with the numbers of these sizes; nil where the run has ended.
func (l *lateRanks) find(ctx context.Context, operands []*tensor.Tensor, alike []likeness, sizes [][2]int) *lateFound {
	p, err := l.compile(ctx, operands, alike, sizes)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		l.o.Logger.WarnContext(ctx, "a group does not compile for the ranks and sizes of a run: the oracle's kernels run it", "group", l.body.Name, "error", err)
	}
	if p != nil {
		if more := moreSizes(p); len(more) > 0 {
			_ = p.Close() // which returns none
			return &lateFound{more: more}
		}
	}
	l.programs++
	return &lateFound{p: p}
}

// moreSizes returns the inputs of a group's Program, and their axes, whose sizes groups in it wait for: with their numbers it has none.
func moreSizes(p *Program) [][2]int {
	wanted := map[string]bool{}
	for _, e := range p.exes {
		if x, ok := e.(*lateRanks); ok {
			for _, s := range x.sizes {
				x.body.Inputs[s[0]].Type.Shape[s[1]].Symbols(wanted)
			}
		}
	}
	return sizesWith(p.g.Inputs, wanted)
}

// compile returns the group for the operands' ranks, likeness and sizes on all backends, nil where no other than the oracle takes a node of it, nor
// would for sizes, where ranks were unknown before.
func (l *lateRanks) compile(ctx context.Context, operands []*tensor.Tensor, alike []likeness, sizes [][2]int) (*Program, error) {
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
	l.shapeInputs(g, operands, alike, sizes)
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
