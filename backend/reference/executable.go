package reference

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/flops"
)

// executable is a compiled subgraph: the nodes in order, run one by one.
type executable struct {
	sub      *graph.Graph
	order    []*graph.Node
	registry *convert.Registry
	kept     sync.Map  // by node, see keep
	runs     sync.Pool // of *run, between executions
}

func newExecutable(b *Backend, sub *graph.Graph, order []*graph.Node) (*executable, error) {
	r, err := convert.NewRegistry(b.Own)
	if err != nil {
		return nil, err
	}
	return &executable{sub: sub, order: order, registry: r}, nil
}

// Close implements backend.Executable.
func (e *executable) Close() error { return nil }

// instance is an executable for concrete shapes.
type instance struct {
	e      *executable
	dims   [][]int          // by value id; nil where the shape depends on data
	consts []*tensor.Tensor // by value id: dims values
	buffer []int            // by value id: index into the requirements' buffers, -1 for others
	output []int            // by value id: index into the outputs, -1 for others
	reqs   backend.Requirements
}

// Specialize implements backend.Executable.
func (e *executable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	n := e.sub.ValueIDs()
	in := &instance{e: e, dims: make([][]int, n), consts: make([]*tensor.Tensor, n), buffer: make([]int, n)}
	for v := range e.sub.Constants() {
		if v.IsDims() {
			t, err := v.EvalDims(b)
			if err != nil {
				return nil, err
			}
			in.consts[v.ID] = t
		}
	}
	for i := range in.buffer {
		in.buffer[i] = -1
	}
	size := func(v *graph.Value) (int64, error) {
		if !v.Type.Backed() || v.Type.DType == tensor.String {
			return -1, nil
		}
		dims, err := v.Type.Shape.Eval(b, make([]int, 0, len(v.Type.Shape)))
		if err != nil {
			return 0, fmt.Errorf("value %v: %w", v, err)
		}
		in.dims[v.ID] = dims
		return e.registry.Size(v.Format, v.Type.DType, dims)
	}
	steps := make([]int, e.sub.NodeIDs())
	for i, node := range e.order {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		steps[node.ID] = i
		label := backend.StepInfo{Name: node.Name, Op: node.Op.String(), Origins: node.Provenance()}
		if f, err := flops.OfArithmetic(node, b); err == nil {
			label.FLOPs = f
		}
		in.reqs.Labels = append(in.reqs.Labels, label)
		for _, v := range node.Outputs {
			if v == nil {
				continue
			}
			bytes, err := size(v)
			if err != nil {
				return nil, err
			}
			if bytes < 0 || v.IsOutput() {
				continue
			}
			in.buffer[v.ID] = len(in.reqs.Buffers)
			in.reqs.Buffers = append(in.reqs.Buffers, backend.Buffer{Bytes: bytes, First: i, Last: i})
		}
		for _, v := range node.Inputs {
			if v != nil && in.buffer[v.ID] >= 0 {
				in.reqs.Buffers[in.buffer[v.ID]].Last = i
			}
		}
	}
	in.reqs.Steps = max(len(e.order), 1)
	return in, in.ports(size, steps)
}

// ports fills in the requirements of inputs and outputs.
func (in *instance) ports(size func(*graph.Value) (int64, error), steps []int) error {
	for _, v := range in.e.sub.Inputs {
		bytes, err := size(v)
		if err != nil {
			return err
		}
		use := backend.PortUse{Bytes: bytes}
		for _, u := range v.Uses() {
			use.Last = max(use.Last, steps[u.Node.ID])
		}
		in.reqs.Inputs = append(in.reqs.Inputs, use)
	}
	in.output = slices.Repeat([]int{-1}, in.e.sub.ValueIDs())
	for i, v := range in.e.sub.Outputs {
		in.output[v.ID] = i
		use := backend.PortUse{Last: in.reqs.Steps - 1}
		if v.Producer != nil {
			use.First = steps[v.Producer.ID]
		}
		in.reqs.Outputs = append(in.reqs.Outputs, use)
	}
	return nil
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.reqs }

// Enqueue implements backend.Instance: it runs the nodes and returns when they are done.
func (in *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	r := in.e.run(in, a)
	for i, v := range in.e.sub.Inputs {
		r.stored[v.ID] = a.Inputs[i]
	}
	defer r.release()
	i := 0
	for v := range in.e.sub.Constants() {
		if v.IsDims() {
			r.stored[v.ID] = in.consts[v.ID]
		} else {
			r.stored[v.ID] = a.Constants[i]
		}
		i++
	}
	for i, n := range in.e.order {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.node(ctx, n); err != nil {
			return nil, err
		}
		if a.Trace != nil {
			a.Trace(i)
		}
	}
	return nil, r.outputs()
}

// run is one execution. stored holds values as their format lays them out, plain as row-major tensors for the kernels.
type run struct {
	in     *instance
	args   *backend.RunArgs
	stored []*tensor.Tensor
	plain  []tensor.Value
	made   []*tensor.Tensor // outputs that Alloc has given storage, once a kernel knew their shapes; nil before
	taken  int64            // bytes that were reserved for values without a place in the plan
	call   Call             // of the node that runs
	out    func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error)
}

// run returns a run of one of the executable's instances, in the room of one that is over where there is one.
func (e *executable) run(in *instance, a *backend.RunArgs) *run {
	r, ok := e.runs.Get().(*run)
	if !ok {
		n := e.sub.ValueIDs()
		r = &run{stored: make([]*tensor.Tensor, n), plain: make([]tensor.Value, n)}
		r.out = func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
			return r.place(r.call.Node.Outputs[i], dt, shape)
		}
	}
	r.in, r.args = in, a
	return r
}

// reserve counts a value without a place in the plan, which the run keeps to its end.
func (r *run) reserve(dt tensor.DType, shape []int) error {
	if r.args.Reserve == nil {
		return nil
	}
	count, err := tensor.NumElements(shape)
	if err != nil {
		return err
	}
	n := int64(dt.Bytes(count))
	if err := r.args.Reserve(n); err != nil {
		return err
	}
	r.taken += n
	return nil
}

// release gives back what the run has reserved, and the room that it took.
func (r *run) release() {
	if r.taken > 0 {
		_ = r.args.Reserve(-r.taken) // giving back does not fail
	}
	e := r.in.e
	clear(r.stored)
	clear(r.plain)
	r.in, r.args, r.made, r.taken, r.call = nil, nil, nil, 0, Call{}
	e.runs.Put(r)
}

// operand returns v as a row-major tensor.
func (r *run) operand(ctx context.Context, v *graph.Value) (tensor.Value, error) {
	if p := r.plain[v.ID]; p != nil {
		return p, nil
	}
	t := r.stored[v.ID]
	if t == nil {
		return nil, fmt.Errorf("%w: value %v was not made", ErrKernel, v)
	}
	if v.Format != graph.HostFormat {
		if err := r.reserve(t.DType, t.Shape); err != nil {
			return nil, err
		}
		out, err := tensor.New(t.DType, t.Shape...)
		if err != nil {
			return nil, err
		}
		if err := r.move(ctx, out, t, v.Format, graph.HostFormat); err != nil {
			return nil, err
		}
		t = out
	}
	r.plain[v.ID] = t
	return t, nil
}

func (r *run) move(ctx context.Context, dst, src *tensor.Tensor, from, to graph.Format) error {
	path, err := r.in.e.registry.PathOf(from, to, src.DType, len(src.Shape))
	if err != nil {
		return err
	}
	if len(path) != 1 {
		return fmt.Errorf("%w: %v to %v takes %d hops", convert.ErrNoPath, from, to, len(path))
	}
	m, err := path[0].Plan(src.DType, src.Shape)
	if err != nil {
		return err
	}
	return m(ctx, dst, src, convert.Exec{Workers: r.args.Workers})
}

// storage returns the place of v: the planned one, or that of an output that has been allocated; nil where it has none.
func (r *run) storage(v *graph.Value) *tensor.Tensor {
	i := r.in.output[v.ID]
	if i >= 0 && r.made != nil && r.made[i] != nil {
		return r.made[i]
	}
	dims := r.in.dims[v.ID]
	if dims == nil {
		return nil
	}
	if k := r.in.buffer[v.ID]; k >= 0 {
		b := r.args.Buffers[k]
		return &tensor.Tensor{DType: v.Type.DType, Shape: dims, Data: b.Data, Offset: b.Offset}
	}
	if i >= 0 {
		return r.args.Outputs[i]
	}
	return nil
}

func (r *run) node(ctx context.Context, n *graph.Node) error {
	inputs := make([]tensor.Value, len(n.Inputs))
	for k, v := range n.Inputs {
		if v == nil {
			continue
		}
		x, err := r.operand(ctx, v)
		if err != nil {
			return err
		}
		inputs[k] = x
	}
	var results []tensor.Value
	var err error
	if n.IsCarve(graph.OpConvert) {
		results = inputs
	} else {
		r.call = Call{Ctx: ctx, Node: n, Inputs: inputs, Reserve: r.args.Reserve, kept: &r.in.e.kept, Out: r.out}
		if results, err = r.call.Run(); err != nil {
			return err
		}
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i >= len(results) || results[i] == nil {
			return fmt.Errorf("%w: %v made no output %d", ErrKernel, n, i)
		}
		if err := r.keep(ctx, v, results[i]); err != nil {
			return err
		}
	}
	return nil
}

// place returns where a kernel writes a row-major result: its planned place where the format is row-major. An output without one is
// allocated.
func (r *run) place(v *graph.Value, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	if v == nil || v.Format != graph.HostFormat {
		return nil, nil
	}
	t := r.storage(v)
	if t == nil {
		i := r.in.output[v.ID]
		if i < 0 || r.args.Outputs[i] != nil || dt == tensor.String {
			return nil, nil
		}
		var err error
		if t, err = r.args.Alloc(i, dt, shape); err != nil {
			return nil, err
		}
		if r.made == nil {
			r.made = make([]*tensor.Tensor, len(r.args.Outputs))
		}
		r.made[i] = t
	}
	if t.DType != dt || !sameDims(t.Shape, shape) {
		return nil, fmt.Errorf("%w: %v is %v%v, inferred as %v%v", tensor.ErrShape, v, dt, shape, t.DType, t.Shape)
	}
	return t, nil
}

func sameDims(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// keep stores a result: what a kernel wrote elsewhere is copied or converted to its planned place.
func (r *run) keep(ctx context.Context, v *graph.Value, x tensor.Value) error {
	t, ok := x.(*tensor.Tensor)
	if !ok {
		return fmt.Errorf("%w: %v is no tensor", ErrKernel, v)
	}
	dst := r.storage(v)
	if dst == nil {
		r.stored[v.ID], r.plain[v.ID] = t, t
		return r.reserve(t.DType, t.Shape)
	}
	r.stored[v.ID] = dst
	if t.DType != dst.DType || !sameDims(t.Shape, dst.Shape) {
		return fmt.Errorf("%w: %v is %v, inferred as %v", tensor.ErrShape, v, t, dst)
	}
	if v.Format != graph.HostFormat { // t may be an operand, whose place in the plan others get: readers convert back
		return r.move(ctx, dst, t, graph.HostFormat, v.Format)
	}
	r.plain[v.ID] = dst
	d, s := dst.Bytes(), t.Bytes()
	if len(d) > 0 && len(s) > 0 && &d[0] != &s[0] {
		copy(d, s)
	}
	return nil
}

// outputs allocates and fills the outputs that were not planned, and those that are no node's result.
func (r *run) outputs() error {
	for i, v := range r.in.e.sub.Outputs {
		dst := r.args.Outputs[i]
		if dst == nil && r.made != nil {
			dst = r.made[i]
		}
		src := r.stored[v.ID]
		if src == nil {
			return fmt.Errorf("%w: output %v was not made", ErrKernel, v)
		}
		if dst == nil {
			var err error
			if dst, err = r.args.Alloc(i, src.DType, src.Shape); err != nil {
				return err
			}
		}
		if dst == src {
			continue
		}
		if src.DType == tensor.String {
			copy(dst.Strings, src.Strings)
			continue
		}
		if !sameDims(src.Shape, dst.Shape) {
			return fmt.Errorf("%w: output %v is %v, expected %v", tensor.ErrShape, v, src, dst)
		}
		// In a group whose shapes depend on data, results of known shape have no planned place either.
		d, s := dst.Bytes(), src.Bytes()
		if len(d) > 0 && len(s) > 0 && &d[0] != &s[0] {
			copy(d, s)
		}
	}
	return nil
}
