package microsoft

import (
	"fmt"
	"strconv"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// opset is the version of the default domain whose operators expansions are made of.
const opset = 24

// op is a node that is being said in standard operators, which are added to g. Its methods end the expansion with fail where
// something does not fit.
type op struct {
	n    *graph.Node
	g    *graph.Graph
	in   []*graph.Value // of g
	out  []*graph.Value // what the results of n become
	made []*graph.Node
}

func attrs(list ...graph.Attr) []graph.Attr { return list }

// fail ends the expansion.
func (o *op) fail(kind error, format string, args ...any) {
	panic(fault{fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))})
}

func (o *op) require(ok bool, kind error, format string, args ...any) {
	if !ok {
		o.fail(kind, format, args...)
	}
}

// refuse ends the expansion where the node has an attribute, or an input, that is not supported.
func (o *op) refuse(is bool, what string) { o.require(!is, ErrUnsupported, "%s", what) }

func (o *op) has(i int) bool { return i < len(o.in) && o.in[i] != nil }

// wants reports whether the node has result i.
func (o *op) wants(i int) bool { return i < len(o.n.Outputs) && o.n.Outputs[i] != nil }

// input returns operand i, nil where it is omitted.
func (o *op) input(i int) *graph.Value {
	if i < len(o.in) {
		return o.in[i]
	}
	return nil
}

// set gives result i, where the node has it.
func (o *op) set(i int, v *graph.Value) {
	if o.wants(i) {
		o.out[i] = v
	}
}

// call adds a node of a standard operator with one result.
func (o *op) call(name string, as []graph.Attr, ins ...*graph.Value) *graph.Value {
	return o.calls(name, 1, as, ins...)[0]
}

// calls adds a node of a standard operator and infers the types of its results.
func (o *op) calls(name string, results int, as []graph.Attr, ins ...*graph.Value) []*graph.Value {
	return o.add(graph.Op{Name: name, Since: opset}, results, as, ins...)
}

func (o *op) add(op graph.Op, results int, as []graph.Attr, ins ...*graph.Value) []*graph.Value {
	label := o.n.Name + "/" + op.Name
	if len(o.made) > 0 {
		label += "_" + strconv.Itoa(len(o.made))
	}
	names := make([]string, results)
	for i := range names {
		if names[i] = label; results > 1 {
			names[i] += ":" + strconv.Itoa(i)
		}
	}
	for len(ins) > 0 && ins[len(ins)-1] == nil {
		ins = ins[:len(ins)-1]
	}
	n := o.g.AddNode(graph.NodeSpec{Op: op, Name: label, Attrs: as, Inputs: ins, Outputs: names, Origins: o.n.Provenance()})
	o.made = append(o.made, n)
	if err := graph.InferNode(n); err != nil {
		panic(fault{err})
	}
	return n.Outputs
}

// attrsWithout returns the node's attributes but those named.
func (o *op) attrsWithout(names ...string) []graph.Attr {
	list := o.n.Attrs
	for _, name := range names {
		list = list.Without(name)
	}
	return append([]graph.Attr{}, list...)
}

func (o *op) constant(t *tensor.Tensor) *graph.Value { return o.g.AddConst("", t) }

// ints adds a vector of int64.
func (o *op) ints(v ...int64) *graph.Value {
	return o.constant(tensor.From(append([]int64{}, v...), len(v)))
}

// int adds an int64 scalar.
func (o *op) int(v int64) *graph.Value { return o.constant(tensor.Scalar(v)) }

// scalar adds a number of a type.
func (o *op) scalar(dt tensor.DType, v float64) *graph.Value {
	t, err := tensor.New(dt)
	if err == nil {
		err = tensor.Encode(t, []float64{v})
	}
	if err != nil {
		o.fail(ErrUnsupported, "a number of type %v", dt)
	}
	return o.constant(t)
}

// dtype returns the element type of x, which has to be known.
func (o *op) dtype(x *graph.Value) tensor.DType {
	o.require(x.Type.IsTensor() && x.Type.DType != tensor.Invalid, ErrUnsupported, "%s of an unknown type", x)
	return x.Type.DType
}

// like adds a number of x's type.
func (o *op) like(x *graph.Value, v float64) *graph.Value { return o.scalar(o.dtype(x), v) }

func (o *op) cast(x *graph.Value, dt tensor.DType) *graph.Value {
	if x.Type.DType == dt {
		return x
	}
	return o.call("Cast", attrs(graph.IntAttr("to", int64(dt))), x)
}

func (o *op) shape(x *graph.Value) graph.Shape {
	o.require(x.Type.IsTensor() || x.Type.Kind == graph.KindUnknown, ErrShape, "%s is no tensor", x)
	if x.Type.Shape == nil {
		panic(fault{&untold{err: fmt.Errorf("%w: %s of unknown rank", ErrShape, x)}})
	}
	return x.Type.Shape
}

func (o *op) rank(x *graph.Value) int { return len(o.shape(x)) }

// ranked requires x to have that rank.
func (o *op) ranked(x *graph.Value, rank int) {
	o.require(o.rank(x) == rank, ErrShape, "%s has rank %d, expected %d", x, o.rank(x), rank)
}

// static returns a dim of x that has to be a number.
func (o *op) static(x *graph.Value, axis int) int {
	s := o.shape(x)
	o.require(axis < len(s), ErrShape, "%s has rank %d", x, len(s))
	n, ok := s[axis].Const()
	if !ok {
		panic(fault{&untold{fmt.Errorf("%w: dim %d of %s is not a number", ErrShape, axis, x), s[axis]}})
	}
	return int(n)
}

// dim returns a dim of x as a vector of one int64.
func (o *op) dim(x *graph.Value, axis int) *graph.Value {
	if s := x.Type.Shape; axis < len(s) {
		if n, ok := s[axis].Const(); ok {
			return o.ints(n)
		}
	}
	return o.call("Shape", attrs(graph.IntAttr("start", int64(axis)), graph.IntAttr("end", int64(axis)+1)), x)
}

func (o *op) reshape(x *graph.Value, dims ...int64) *graph.Value {
	return o.call("Reshape", nil, x, o.ints(dims...))
}

func (o *op) transpose(x *graph.Value, perm ...int64) *graph.Value {
	for i, p := range perm {
		if p != int64(i) {
			return o.call("Transpose", attrs(graph.IntsAttr("perm", perm...)), x)
		}
	}
	return x
}

// turned swaps the last two axes of x; a vector stays.
func (o *op) turned(x *graph.Value) *graph.Value {
	rank := o.rank(x)
	if rank < 2 {
		return x
	}
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[rank-2], perm[rank-1] = perm[rank-1], perm[rank-2]
	return o.transpose(x, perm...)
}

func (o *op) unsqueeze(x *graph.Value, axes ...int64) *graph.Value {
	return o.call("Unsqueeze", nil, x, o.ints(axes...))
}

func (o *op) squeeze(x *graph.Value, axes ...int64) *graph.Value {
	return o.call("Squeeze", nil, x, o.ints(axes...))
}

func (o *op) concat(axis int64, xs ...*graph.Value) *graph.Value {
	if len(xs) == 1 {
		return xs[0]
	}
	return o.call("Concat", attrs(graph.IntAttr("axis", axis)), xs...)
}

// slice returns the elements [begin, end) of an axis.
func (o *op) slice(x *graph.Value, axis, begin, end int64) *graph.Value {
	return o.call("Slice", nil, x, o.ints(begin), o.ints(end), o.ints(axis))
}

// sliceTo is slice with ends that a run knows: vectors of one int64.
func (o *op) sliceTo(x *graph.Value, axis int64, begin, end *graph.Value) *graph.Value {
	return o.call("Slice", nil, x, begin, end, o.ints(axis))
}

// toEnd is an end of a slice that is none.
const toEnd = 1<<31 - 1

// positions returns begin, begin+1, … end-1 as int64; begin and end are vectors of one int64.
func (o *op) positions(begin, end *graph.Value) *graph.Value {
	return o.call("Range", nil, o.squeeze(begin, 0), o.squeeze(end, 0), o.int(1))
}

func (o *op) sum(a, b *graph.Value) *graph.Value { return o.call("Add", nil, a, b) }

func (o *op) times(a, b *graph.Value) *graph.Value { return o.call("Mul", nil, a, b) }

// scaled multiplies by a number.
func (o *op) scaled(x *graph.Value, by float64) *graph.Value {
	if by == 1 {
		return x
	}
	return o.times(x, o.like(x, by))
}

// flag reads an attribute that is 0 or 1.
func (o *op) flag(name string) bool { return o.n.Int(name, 0) != 0 }
