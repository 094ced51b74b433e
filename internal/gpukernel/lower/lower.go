// Package lower turns nodes of a graph into a gpukernel.Program: element-wise operators, casts, broadcasts, reductions, movements
// of data, and what is made of these, such as Softmax and LayerNormalization.
package lower

import (
	"errors"
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// ErrUnsupported is wrapped by errors about nodes that cannot be lowered.
var ErrUnsupported = errors.New("cannot be part of a rendered kernel")

// Error is about one node.
type Error struct {
	Node *graph.Node
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %q: %v", e.Node.Op, e.Node.Name, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Result is a Program with the values of the graph that its buffers hold: Inputs[i] is "in"i, Outputs[i] "out"i. Constants with
// more than one element are among the inputs. Buffers have the layouts of the values' formats, which may permute dims.
type Result struct {
	Program *gpukernel.Program
	Inputs  []*graph.Value
	Outputs []*graph.Value
}

// Graph lowers all nodes of a graph. Shapes have to be static. The error is an *Error that wraps ErrUnsupported.
func Graph(g *graph.Graph) (*Result, error) {
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	return Nodes(order, g.Outputs)
}

// Nodes lowers nodes, in topological order, of which the values outputs are wanted.
func Nodes(nodes []*graph.Node, outputs []*graph.Value) (*Result, error) {
	l := &lowering{p: &gpukernel.Program{}, values: map[*graph.Value]gpukernel.Value{}}
	for _, n := range nodes {
		if err := l.node(n); err != nil {
			return nil, &Error{n, err}
		}
	}
	for i, v := range outputs {
		x, ok := l.values[v]
		if !ok {
			return nil, fmt.Errorf("%w: output %q is no result of the nodes", ErrUnsupported, v.Name)
		}
		order, err := orderOf(v)
		if err != nil {
			return nil, err
		}
		small, is := narrowTypes[v.Type.DType]
		switch {
		case is && order != nil:
			return nil, fmt.Errorf("%w: output %q of type %s in the layout %v", ErrUnsupported, v.Name, v.Type.DType, v.Format.Layout)
		case is:
			x = l.packed(x, small)
		case order != nil:
			x = l.p.Transpose(x, order...)
		}
		l.p.Output(x, fmt.Sprintf("out%d", i))
	}
	return &Result{l.p, l.inputs, outputs}, nil
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// lowering is the state of lowering some nodes.
type lowering struct {
	p      *gpukernel.Program
	values map[*graph.Value]gpukernel.Value
	inputs []*graph.Value
}

func (l *lowering) node(n *graph.Node) error {
	if n.Op.Domain != "" && !n.IsCarve(graph.OpConvert) {
		return refuse("operator of another domain")
	}
	for _, v := range n.Outputs {
		if v != nil {
			if _, _, err := TypeOf(v); err != nil {
				return err
			}
		}
	}
	if err := checkNarrow(n); err != nil {
		return err
	}
	if n.IsCarve(graph.OpConvert) { // the formats of its values say it all
		return l.reshape(n)
	}
	if f, ok := scalarOperators()[n.Op.Name]; ok {
		return l.scalar(n, f)
	}
	f, ok := structured()[n.Op.Name]
	if !ok {
		return refuse("no such operator")
	}
	return f(l, n)
}

// TypeOf returns the element type and the dims of a value, or an error that wraps ErrUnsupported.
func TypeOf(v *graph.Value) (gpukernel.Type, []int, error) {
	if !v.Type.IsTensor() {
		return "", nil, refuse("%q is no tensor", v.Name)
	}
	shape, ok := v.Type.Shape.Static()
	if !ok {
		return "", nil, refuse("%q has the shape %v", v.Name, v.Type.Shape)
	}
	for _, d := range shape {
		if d < 1 {
			return "", nil, refuse("%q is empty", v.Name)
		}
	}
	if t, is := narrowTypes[v.Type.DType]; is {
		return t.element(), shape, nil
	}
	t, ok := elementTypes[v.Type.DType]
	if !ok {
		return "", nil, refuse("%q is of type %s", v.Name, v.Type.DType)
	}
	return t, shape, nil
}

var elementTypes = map[tensor.DType]gpukernel.Type{
	tensor.Float32: gpukernel.F32, tensor.Float64: gpukernel.F64, tensor.Float16: gpukernel.F16, tensor.BFloat16: gpukernel.BF16, tensor.Int8: gpukernel.I8,
	tensor.Uint8: gpukernel.U8, tensor.Int16: gpukernel.I16, tensor.Uint16: gpukernel.U16, tensor.Int32: gpukernel.I32,
	tensor.Uint32: gpukernel.U32, tensor.Int64: gpukernel.I64, tensor.Uint64: gpukernel.U64, tensor.Bool: gpukernel.Bool,
}

// Element returns the element type of kernels that computes with dt; ok is false where there is none of its size.
func Element(dt tensor.DType) (t gpukernel.Type, ok bool) {
	t, ok = elementTypes[dt]
	return t, ok
}

// Bits returns an element type of kernels whose elements are those of dt, bit for bit, where they are only moved.
func Bits(dt tensor.DType) (gpukernel.Type, bool) {
	if dt == tensor.Bool {
		return gpukernel.U8, true
	}
	t, ok := map[int]gpukernel.Type{1: gpukernel.U8, 2: gpukernel.U16, 4: gpukernel.U32, 8: gpukernel.U64}[dt.Size()]
	if dt == tensor.Float32 { // read and written four at a time
		return gpukernel.F32, true
	}
	return t, ok
}

// operand returns input i of a node as a value of the program.
func (l *lowering) operand(n *graph.Node, i int) (gpukernel.Value, error) {
	v := n.Input(i)
	if v == nil {
		return 0, refuse("input %d is left out", i)
	}
	if x, ok := l.values[v]; ok {
		return x, nil
	}
	t, shape, err := TypeOf(v)
	if err != nil {
		return 0, err
	}
	var x gpukernel.Value
	if v.IsConst() && v.Const.Len() == 1 {
		one := gpukernel.Value(0)
		if small, is := narrowTypes[v.Type.DType]; is {
			one = l.p.Constant(t, small.literal(v.Const))
		} else {
			one = l.literal(t, v.Const)
		}
		x = l.p.Reshape(one, shape...)
	} else if v.IsDims() {
		return 0, refuse("%q is a shape", v.Name)
	} else {
		if x, err = l.input(v, t, shape); err != nil {
			return 0, err
		}
	}
	l.values[v] = x
	return x, nil
}

// input adds a value that lies in a buffer.
func (l *lowering) input(v *graph.Value, t gpukernel.Type, shape []int) (gpukernel.Value, error) {
	order, err := orderOf(v)
	if err != nil {
		return 0, err
	}
	name := fmt.Sprintf("in%d", len(l.inputs))
	l.inputs = append(l.inputs, v)
	if small, is := narrowTypes[v.Type.DType]; is {
		if order != nil {
			return 0, refuse("%q of type %s in the layout %v", v.Name, v.Type.DType, v.Format.Layout)
		}
		return l.p.Reshape(l.unpacked(name, small, elements(shape)), shape...), nil
	}
	if order == nil {
		return l.p.Input(name, t, shape...), nil
	}
	lies, back := make([]int, len(order)), make([]int, len(order))
	for i, d := range order {
		lies[i], back[d] = shape[d], i
	}
	return l.p.Transpose(l.p.Input(name, t, lies...), back...), nil
}

// orderOf returns the order in which the dims of a value lie, outermost first; nil for row-major.
func orderOf(v *graph.Value) ([]int, error) {
	if v.Format.Layout.IsRowMajor() {
		return nil, nil
	}
	d, err := v.Format.Layout.Describe(len(v.Type.Shape))
	if err != nil || len(d.Blocks) > 0 {
		return nil, refuse("%q lies in the layout %v", v.Name, v.Format.Layout)
	}
	return d.Order, nil
}

func (l *lowering) literal(t gpukernel.Type, c *tensor.Tensor) gpukernel.Value {
	switch t {
	case gpukernel.F32, gpukernel.F16, gpukernel.BF16:
		return l.p.Float(t, float32(c.Float64At(0)))
	case gpukernel.F64:
		return l.p.Constant(t, doubleLiteral(c.Float64At(0)))
	case gpukernel.U64, gpukernel.I64:
		n := c.Int64At(0)
		return l.p.Constant(t, fmt.Sprintf("((%s)0x%xu << 32 | 0x%xu)", t, uint64(n)>>32, uint32(n)))
	case gpukernel.U32:
		return l.p.Constant(t, fmt.Sprintf("%du", uint32(c.Int64At(0))))
	case gpukernel.I32:
		return l.p.Constant(t, fmt.Sprintf("(i32)0x%xu", uint32(c.Int64At(0))))
	}
	return l.p.Constant(t, fmt.Sprintf("(%d)", c.Int64At(0)))
}

// doubleLiteral writes a number so that every compiler reads the same bits.
func doubleLiteral(x float64) string {
	switch {
	case math.IsNaN(x):
		return "((f64)QUIET_NAN)"
	case math.IsInf(x, 0):
		return map[bool]string{true: "((f64)-NEGATIVE_INFINITY)", false: "((f64)NEGATIVE_INFINITY)"}[x > 0]
	}
	return fmt.Sprintf("((f64)%.17e)", x)
}

// integers returns the content of an integer operand that is a constant; ok is false where it is left out.
func integers(n *graph.Node, i int) (list []int64, ok bool, err error) {
	v := n.Input(i)
	switch {
	case v == nil:
		return nil, false, nil
	case v.IsConst():
		list = make([]int64, v.Const.Len())
		return list, true, tensor.DecodeInts(list, v.Const)
	}
	for _, d := range v.Dims {
		c, known := d.Const()
		if !known {
			return nil, false, refuse("%q is not known", v.Name)
		}
		list = append(list, c)
	}
	if v.Dims == nil {
		return nil, false, refuse("%q is not constant", v.Name)
	}
	return list, true, nil
}

// choosing are operators whose results are operands, or differ in the sign: there is nothing to round.
var choosing = map[string]bool{"Where": true, "Max": true, "Min": true, "Neg": true, "Abs": true, "Relu": true, "Identity": true, "MaxPool": true, "GlobalMaxPool": true,
	"ReduceMax": true, "ReduceMin": true, "Dropout": true}

// result makes x output i of a node, with the shape that inference gave it, rounded to its type: what a node makes does not depend on
// which others are a kernel with it.
func (l *lowering) result(n *graph.Node, i int, x gpukernel.Value) error {
	t, shape, err := TypeOf(n.Outputs[i])
	if err != nil {
		return err
	}
	if (t == gpukernel.F64) != (l.p.Type(x) == gpukernel.F64) {
		return refuse("it is computed in %s, and its result is of type %s", l.p.Type(x), t)
	}
	if !choosing[n.Op.Name] {
		x = l.p.Rounded(x)
	}
	l.values[n.Outputs[i]] = l.p.Reshape(x, shape...)
	return nil
}

// only refuses nodes with outputs beyond the first.
func only(n *graph.Node) error {
	for _, v := range n.Outputs[1:] {
		if v != nil {
			return refuse("output %q", v.Name)
		}
	}
	return nil
}
