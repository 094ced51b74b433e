package plugin

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"unsafe"
	"weak"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/property"
)

// ownKernel is a function of a plugin that computes a node, or a fused set of nodes, in the host's memory, prepared for
// concrete shapes. It is immutable. The description of what it computes stays where it is for as long as the kernel is used.
type ownKernel struct {
	l         *Library
	proc      *isolate.Process // that it runs in, nil for this one
	fn        uintptr          // run(self, graph, run, err)
	self      uintptr
	about     func(error) error
	g         *graph.Graph // described; holds the constants
	at        *cGraph
	in, out   []kernelPort
	constants []kernelPort // all fixed
	workspace int64
}

// kernelPort is an operand or a result: by its place among the arguments, or a constant that is none of them.
type kernelPort struct {
	arg   int // -1 for one that is left out, or that is fixed
	fixed *tensor.Tensor
	dtype tensor.DType
	dims  []int // nil where the shape depends on data
}

// maxWorkspace bounds what a plugin may ask for.
const maxWorkspace = 1 << 40

// newKernel asks for the workspace of what describe writes.
func (l *Library) newKernel(k *ownKernel, describe func(*writer) (*description, error), workspace uintptr) (*ownKernel, error) {
	pg := &page{}
	w, done := l.ownWriter(pg)
	defer done()
	if w.err != nil {
		return nil, k.about(w.err)
	}
	d, err := describe(w)
	bytes := one[uint64](w)
	if err == nil {
		err = w.err
	}
	if err != nil {
		pg.end()
		return nil, err
	}
	k.l, k.proc, k.at = l, w.proc, d.at
	if workspace != 0 {
		if err := l.do(w, "workspace", workspace, k.self, address(k.at), address(bytes)); err != nil {
			pg.end()
			return nil, k.about(err)
		}
	}
	n := *bytes
	if n > maxWorkspace {
		pg.end()
		return nil, k.about(fmt.Errorf("%w: a workspace of %d bytes", ErrPlugin, n))
	}
	k.workspace = int64(n)
	runtime.AddCleanup(k, (*page).end, pg)
	return k, nil
}

// kernel prepares the node that a fused one stands for.
func (o *ownOperator) kernel(fused *graph.Node, b graph.Bindings) (property.Kernel, error) {
	body := fused.Regions[0].Graph
	order, err := body.Topo()
	if err != nil || len(order) != 1 {
		return property.Kernel{}, fmt.Errorf("%w: %v stands for other nodes than one", backend.ErrRefused, fused)
	}
	n := order[0]
	k := &ownKernel{fn: o.c.run, self: o.at, about: func(err error) error { return o.about(n, err) }}
	g, m, err := alone(n, func(i int) (graph.Type, *tensor.Tensor, error) { return operandOf(fused, n.Inputs[i], b) })
	if err != nil {
		return property.Kernel{}, err
	}
	k.g = g
	for i, v := range n.Inputs {
		k.in = append(k.in, portOf(body.Inputs, v, m.Inputs[i]))
	}
	for i, v := range n.Outputs {
		if v == nil {
			k.out = append(k.out, kernelPort{arg: -1})
			continue
		}
		dims, err := v.Type.Shape.Eval(b, nil)
		if err != nil {
			return property.Kernel{}, err
		}
		m.Outputs[i].Type = graph.TensorType(v.Type.DType, graph.ShapeOf(dims...))
		k.out = append(k.out, kernelPort{arg: slices.Index(body.Outputs, v), dtype: v.Type.DType, dims: dims})
	}
	if k, err = o.l.newKernel(k, o.describe(m), o.c.workspace); err != nil {
		return property.Kernel{}, err
	}
	return property.Kernel{Run: k.run, Workspace: k.workspace}, nil
}

// describe returns the function that describes a node alone.
func (o *ownOperator) describe(m *graph.Node) func(*writer) (*description, error) {
	return func(w *writer) (*description, error) { return o.l.describe(w, []*graph.Node{m}), nil }
}

// operandOf returns the type of a value that a fused node's body reads, for the values of symbols, and what it holds where it
// is a constant.
func operandOf(fused *graph.Node, v *graph.Value, b graph.Bindings) (graph.Type, *tensor.Tensor, error) {
	if i := slices.Index(fused.Regions[0].Graph.Inputs, v); i >= 0 && i < len(fused.Inputs) && fused.Inputs[i] != nil {
		if c := fused.Inputs[i].Const; c != nil && c.Device.IsHost() && c.IsCompact() {
			return graph.Type{}, c, nil
		}
	}
	switch {
	case v.IsConst():
		return graph.Type{}, v.Const, nil
	case v.IsDims():
		t, err := v.EvalDims(b)
		return graph.Type{}, t, err
	}
	dims, err := v.Type.Shape.Eval(b, nil)
	return graph.TensorType(v.Type.DType, graph.ShapeOf(dims...)), nil, err
}

// portOf returns where the run finds v: among the inputs, or in the description, whose value is described.
func portOf(inputs []*graph.Value, v, described *graph.Value) kernelPort {
	if v == nil {
		return kernelPort{arg: -1}
	}
	p := kernelPort{arg: slices.Index(inputs, v)}
	if p.arg < 0 {
		p.fixed = described.Const
	}
	if described.Const != nil {
		p.dtype, p.dims = described.Const.DType, described.Const.Shape
	} else {
		p.dtype = described.Type.DType
		p.dims, _ = described.Type.Shape.Static() // they are all numbers
	}
	return p
}

// run is the Run of a property.Kernel. It allocates nothing but in the first run of a session.
func (k *ownKernel) run(ctx context.Context, a *property.KernelArgs) error {
	c, ok := a.Local.(*kernelCall)
	if !ok || c.k != k {
		var err error
		if c, err = k.newCall(); err != nil {
			return err
		}
		a.Local = c
	}
	return c.run(ctx, a)
}

// kernelCall is the state of a kernel for one session: its arguments where C sees them, which are patched between runs.
type kernelCall struct {
	k       *ownKernel
	w       writer    // for what is patched, and out of process the life that the run is made in
	inputs  []operand // nil for those that are left out
	outputs []operand
	buffer  operand // the workspace, nil where there is none
	ends    watch   // its flag is carve_run.cancel
	at      uintptr // of the carve_run
	err     callError
	frame   *dl.Frame

	args    *property.KernelArgs // of the run that is under way, nil otherwise
	alloc   func(output int, shape []int) (*tensor.Tensor, error)
	refused error // what the host's output could not do in it
}

// calls are those of operators, by the token of carve_run. Tokens have the highest bit set, unlike those of sessions.
var calls tokens[weak.Pointer[kernelCall]]

const callToken = 1 << 63

// calling returns the call of a token, nil where it does not run now.
func calling(token uintptr) *kernelCall {
	if uint64(token)&callToken == 0 {
		return nil
	}
	w, _ := calls.get(uint64(token) &^ callToken)
	if c := w.Value(); c != nil && c.args != nil {
		return c
	}
	return nil
}

func (k *ownKernel) newCall() (*kernelCall, error) {
	pg := &page{region: side{proc: k.proc}.shared()}
	w := &writer{page: pg, side: side{l: k.l, proc: k.proc}}
	c := &kernelCall{k: k, ends: watch{flag: one[int32](w)}, err: w.error(), frame: one[dl.Frame](w)}
	ports := func(list []kernelPort) ([]operand, uintptr) {
		out, at := make([]operand, len(list)), many[uintptr](w, max(len(list), 1))
		for i, p := range list {
			if p.arg < 0 && p.fixed == nil {
				continue
			}
			if p.fixed != nil {
				out[i].cTensor = k.l.tensor(w, p.fixed)
			} else {
				out[i].cTensor = one[cTensor](w)
				out[i].dims = k.l.head(w, out[i].cTensor, p.dtype, p.dims)
				out[i].bytes = bytesOf(p.dtype, p.dims)
			}
			at[i] = address(out[i].cTensor)
		}
		return out, address(&at[0])
	}
	run := one[cRun](w)
	*run = cRun{size: uint32(unsafe.Sizeof(*run)), cancel: address(c.ends.flag)}
	c.inputs, run.inputs = ports(k.in)
	c.outputs, run.outputs = ports(k.out)
	_, run.constants = ports(k.constants)
	if k.workspace > 0 {
		c.buffer = operand{cTensor: one[cTensor](w), size: k.workspace}
		c.buffer.dims = k.l.head(w, c.buffer.cTensor, tensor.Uint8, []int{int(k.workspace)})
		c.buffer.bytes = k.workspace
		run.buffers = list(w, []uintptr{address(c.buffer.cTensor)})
	}
	if w.err != nil {
		pg.end()
		return nil, w.err
	}
	c.w, c.at = *w, address(run)
	token := calls.put(weak.Make(c))
	run.run = token | callToken
	*c.frame = dl.Frame{Fn: k.fn, Args: [dl.FrameArgs]uintptr{k.self, address(k.at), c.at, c.err.address()}}
	runtime.AddCleanup(c, func(end callEnd) {
		calls.take(end.token)
		end.page.end()
	}, callEnd{token, pg})
	return c, nil
}

// callEnd is what is left of a call that nobody holds.
type callEnd struct {
	token uint64
	page  *page
}

// bytesOf is the size of compact elements, 0 where the shape is not known.
func bytesOf(dt tensor.DType, dims []int) int64 {
	n, err := tensor.NumElements(dims)
	if err != nil || dims == nil {
		return 0
	}
	return int64(dt.Bytes(n))
}

// run calls the plugin with the storage of a run.
func (c *kernelCall) run(ctx context.Context, a *property.KernelArgs) error {
	if err := c.patch(a); err != nil {
		return c.k.about(err)
	}
	call := c.ends.begin(ctx)
	c.err.clear()
	c.args, c.refused = a, nil
	st, err := c.invoke()
	c.args = nil
	c.ends.end(call)
	runtime.KeepAlive(c.k)
	switch {
	case err != nil:
		return c.k.about(err)
	case st == statusOK && c.refused == nil:
		fill(c.outputs)
		return nil
	case c.refused != nil:
		return c.k.about(c.refused)
	case st == statusCancelled && ctx.Err() != nil:
		return ctx.Err()
	case st > 0:
		return c.k.about(fmt.Errorf("%w: run is %v", ErrPlugin, st))
	}
	return c.k.about(c.k.l.failed("run", st, c.err))
}

// invoke calls the function, without an allocation in this process.
func (c *kernelCall) invoke() (status, error) {
	k := c.k
	if k.proc != nil {
		return k.l.callFar(c.w.side, k.fn, k.self, address(k.at), c.at, c.err.address())
	}
	dl.Invoke(c.frame)
	return status(int32(c.frame.Ret)), nil
}

// patch points the call's tensors at the operands of a run.
func (c *kernelCall) patch(a *property.KernelArgs) error {
	if c.k.proc != nil {
		life, err := c.k.proc.Life(patience)
		if err != nil {
			return c.k.l.processError(memberNames[memberRun], err)
		}
		c.w.life = life
	}
	for i, p := range c.k.in {
		if p.arg >= 0 {
			if err := c.point(&c.inputs[i], a.Inputs[p.arg], reads); err != nil {
				return err
			}
		}
	}
	for i, p := range c.k.out {
		if p.arg < 0 {
			continue
		}
		if a.Outputs[p.arg] == nil && c.alloc != nil {
			c.outputs[i].data, c.outputs[i].bytes, c.outputs[i].to = 0, 0, nil
			continue
		}
		if err := c.point(&c.outputs[i], a.Outputs[p.arg], writes); err != nil {
			return err
		}
	}
	if c.buffer.cTensor != nil {
		if int64(len(a.Workspace)) < c.k.workspace {
			return fmt.Errorf("%w: a workspace of %d bytes instead of %d", ErrPlugin, len(a.Workspace), c.k.workspace)
		}
		if !c.w.sees(a.Workspace) {
			return c.w.lend(&c.buffer, &tensor.Tensor{DType: tensor.Uint8, Shape: []int{len(a.Workspace)}, Data: a.Workspace}, scratch)
		}
		c.buffer.data = uintptr(unsafe.Pointer(unsafe.SliceData(a.Workspace)))
	}
	return nil
}

// point gives an operand of the call the storage and the shape of t.
func (c *kernelCall) point(o *operand, t *tensor.Tensor, u use) error {
	if err := c.k.l.point(&c.w, o, t); err != nil {
		return err
	}
	return c.w.lend(o, t, u)
}

// output is the host's service of that name, for a call that makes storage.
func (c *kernelCall) output(index uint64, shape uintptr, ndim uint64) error {
	if index >= uint64(len(c.outputs)) || c.outputs[index].cTensor == nil || c.alloc == nil || c.args.Outputs[index] != nil {
		return fmt.Errorf("%w: output %d needs no storage", ErrPlugin, index)
	}
	dims, err := c.w.side.dims(shape, ndim, "shape of an output")
	if err != nil {
		return err
	}
	t, err := c.alloc(int(index), dims)
	if err != nil {
		return err
	}
	o := &c.outputs[index]
	if o.dims = c.k.l.head(&c.w, o.cTensor, t.DType, t.Shape); c.w.err != nil {
		return c.w.err
	}
	o.bytes = int64(t.NumBytes())
	c.args.Outputs[index] = t
	return c.point(o, t, writes)
}

// maxResult bounds the bytes of a result, and of a workspace, of a node that is evaluated by itself.
const maxResult = 4 << 30

// Eval implements graph.Evaluator: it computes one node, in memory of its own.
func (o *ownOperator) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	if o.l.apart != nil { // the process is the same from when the kernel is made to its run
		if _, err := o.l.enter(); err != nil {
			return nil, o.about(n, err)
		}
		defer o.l.leave()
	}
	given := make([]*tensor.Tensor, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil || i >= len(inputs) {
			continue
		}
		t, ok := inputs[i].(*tensor.Tensor)
		if !ok || t == nil || t.DType == tensor.String {
			return nil, o.about(n, fmt.Errorf("%w: input %d is %v", tensor.ErrUnsupported, i, inputs[i]))
		}
		if err := t.Check(); err != nil {
			return nil, o.about(n, err)
		}
		if !t.IsCompact() {
			var err error
			if t, err = t.Clone(); err != nil {
				return nil, o.about(n, err)
			}
		}
		given[i] = t
	}
	g, m, err := alone(n, func(i int) (graph.Type, *tensor.Tensor, error) {
		if given[i] == nil {
			return graph.Type{}, nil, o.about(n, fmt.Errorf("%w: input %d is not there", ErrPlugin, i))
		}
		return graph.Type{}, given[i], nil
	})
	if err != nil {
		return nil, err
	}
	for i, v := range n.Outputs {
		if v != nil {
			m.Outputs[i].Type = graph.TensorType(v.Type.DType, nil)
		}
	}
	if err := graph.InferNode(m); err != nil {
		return nil, err
	}
	k := &ownKernel{fn: o.c.run, self: o.at, g: g, about: func(err error) error { return o.about(n, err) }}
	a := &property.KernelArgs{Outputs: make([]*tensor.Tensor, len(n.Outputs))}
	for i, t := range given {
		a.Inputs = append(a.Inputs, t)
		p := kernelPort{arg: -1}
		if t != nil {
			p = kernelPort{arg: i, dtype: t.DType, dims: t.Shape}
		}
		k.in = append(k.in, p)
	}
	for i, v := range m.Outputs {
		p := kernelPort{arg: -1}
		if v != nil {
			p = kernelPort{arg: i, dtype: v.Type.DType}
			if dims, ok := v.Type.Shape.Static(); ok && v.Type.Shape.Known() {
				p.dims = dims
				if a.Outputs[i], err = newResult(p.dtype, dims); err != nil {
					return nil, o.about(n, err)
				}
			}
		}
		k.out = append(k.out, p)
	}
	if k, err = o.l.newKernel(k, o.describe(m), o.c.workspace); err != nil {
		return nil, err
	}
	return k.eval(ctx, m, a)
}

// eval runs a kernel once. Results that it has no storage for are made when the plugin says how large they are.
func (k *ownKernel) eval(ctx context.Context, m *graph.Node, a *property.KernelArgs) ([]tensor.Value, error) {
	if k.workspace > maxResult {
		return nil, k.about(fmt.Errorf("%w: a workspace of %d bytes", tensor.ErrTooLarge, k.workspace))
	}
	scratch, err := tensor.New(tensor.Uint8, int(k.workspace))
	if err != nil {
		return nil, k.about(err)
	}
	a.Workspace = scratch.Data
	c, err := k.newCall()
	if err != nil {
		return nil, k.about(err)
	}
	c.alloc = func(i int, dims []int) (*tensor.Tensor, error) {
		if t := m.Outputs[i].Type; !t.MayBe(graph.TensorType(t.DType, graph.ShapeOf(dims...))) {
			return nil, fmt.Errorf("%w: output %d is %v, and was said to be %v", ErrPlugin, i, dims, t)
		}
		return newResult(k.out[i].dtype, dims)
	}
	if err := c.run(ctx, a); err != nil {
		return nil, err
	}
	runtime.KeepAlive(k)
	results := make([]tensor.Value, len(m.Outputs))
	for i, v := range m.Outputs {
		switch {
		case v == nil:
		case a.Outputs[i] == nil:
			return nil, k.about(fmt.Errorf("%w: output %d was not made", ErrPlugin, i))
		default:
			results[i] = a.Outputs[i]
		}
	}
	return results, nil
}

// newResult returns storage for a result, whose size a plugin has named.
func newResult(dt tensor.DType, dims []int) (*tensor.Tensor, error) {
	n, err := tensor.NumElements(dims)
	if err != nil {
		return nil, err
	}
	if dt.Size() == 0 && !dt.IsPacked() || dt.Bytes(n) > maxResult {
		return nil, fmt.Errorf("%w: %v%v", tensor.ErrTooLarge, dt, dims)
	}
	return tensor.New(dt, dims...)
}
