package gradient

import (
	"fmt"
	"strconv"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// opset is the version of the default domain whose operators derivatives are made of.
const opset = 24

// builder adds nodes to g that stand for a part of n. Its methods end the expansion by a panic of a fault where something does not fit.
type builder struct {
	g    *graph.Graph
	n    *graph.Node
	left *int
	made []*graph.Node
}

// fault carries an error out of an expansion.
type fault struct{ err error }

func fail(kind error, format string, args ...any) {
	panic(fault{fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))})
}

func require(ok bool, kind error, format string, args ...any) {
	if !ok {
		fail(kind, format, args...)
	}
}

// charge counts nodes that are visited or made.
func (b *builder) charge(nodes int) {
	*b.left -= nodes
	require(*b.left >= 0, ErrTooLarge, "more than %d nodes", mostNodes)
}

func attrs(list ...graph.Attr) []graph.Attr { return list }

// add adds a node and infers the types of its results.
func (b *builder) add(s graph.NodeSpec, results int) *graph.Node {
	b.charge(1)
	if s.Name == "" {
		s.Name = s.Op.Name + "_" + strconv.Itoa(b.g.NodeIDs())
	}
	s.Name = b.n.Name + "/" + s.Name
	s.Outputs = make([]string, results)
	for i := range s.Outputs {
		s.Outputs[i] = s.Name + ":" + strconv.Itoa(i)
	}
	s.Origins = b.n.Provenance()
	n := b.g.AddNode(s)
	b.made = append(b.made, n)
	if err := graph.InferNode(n); err != nil {
		panic(fault{err})
	}
	return n
}

// call adds a node of an operator with one result.
func (b *builder) call(name string, as []graph.Attr, ins ...*graph.Value) *graph.Value {
	return b.calls(name, 1, as, ins...)[0]
}

func (b *builder) calls(name string, results int, as []graph.Attr, ins ...*graph.Value) []*graph.Value {
	return b.add(graph.NodeSpec{Op: graph.Op{Name: name, Since: opset}, Attrs: as, Inputs: ins}, results).Outputs
}

// again adds a node like n with other operands and results, regions included.
func (b *builder) again(n *graph.Node, operands []*graph.Value, results int) *graph.Node {
	s := graph.NodeSpec{Op: n.Op, Name: n.Name, Attrs: n.Attrs, Inputs: operands[:len(n.Inputs)], Captures: operands[len(n.Inputs):]}
	for _, r := range n.Regions {
		inner, err := r.Graph.Clone()
		if err != nil {
			panic(fault{err})
		}
		b.charge(inner.NodeIDs())
		s.Regions = append(s.Regions, graph.Region{Name: r.Name, Graph: inner})
	}
	return b.add(s, results)
}

// ints adds a vector of int64.
func (b *builder) ints(v ...int64) *graph.Value {
	return b.g.AddConst("", tensor.From(append([]int64{}, v...), len(v)))
}

// number adds a scalar of x's type.
func (b *builder) number(x *graph.Value, v float64) *graph.Value {
	t, err := tensor.New(x.Type.DType)
	if err == nil {
		err = tensor.Encode(t, []float64{v})
	}
	require(err == nil, ErrNoRule, "a number of type %v", x.Type)
	return b.g.AddConst("", t)
}

func (b *builder) plus(x, y *graph.Value) *graph.Value     { return b.call("Add", nil, x, y) }
func (b *builder) minus(x, y *graph.Value) *graph.Value    { return b.call("Sub", nil, x, y) }
func (b *builder) times(x, y *graph.Value) *graph.Value    { return b.call("Mul", nil, x, y) }
func (b *builder) over(x, y *graph.Value) *graph.Value     { return b.call("Div", nil, x, y) }
func (b *builder) negated(x *graph.Value) *graph.Value     { return b.call("Neg", nil, x) }
func (b *builder) inverse(x *graph.Value) *graph.Value     { return b.call("Reciprocal", nil, x) }
func (b *builder) root(x *graph.Value) *graph.Value        { return b.call("Sqrt", nil, x) }
func (b *builder) square(x *graph.Value) *graph.Value      { return b.times(x, x) }
func (b *builder) where(c, x, y *graph.Value) *graph.Value { return b.call("Where", nil, c, x, y) }

func (b *builder) scaled(x *graph.Value, by float64) *graph.Value {
	if by == 1 {
		return x
	}
	return b.times(x, b.number(x, by))
}

// shifted returns x + by.
func (b *builder) shifted(x *graph.Value, by float64) *graph.Value {
	return b.plus(x, b.number(x, by))
}

func (b *builder) oneMinus(x *graph.Value) *graph.Value { return b.minus(b.number(x, 1), x) }

// compare returns whether x is Less, Greater or Equal to a number, elementwise.
func (b *builder) compare(name string, x *graph.Value, with float64) *graph.Value {
	return b.call(name, nil, x, b.number(x, with))
}

// cast returns x in the element type of like.
func (b *builder) cast(x, like *graph.Value) *graph.Value {
	if x.Type.DType == like.Type.DType {
		return x
	}
	return b.call("Cast", attrs(graph.IntAttr("to", int64(like.Type.DType))), x)
}

func rank(x *graph.Value) int {
	require(x.Type.Shape != nil, ErrShape, "%v of unknown rank", x)
	return len(x.Type.Shape)
}

// axis returns an axis of x that an attribute names.
func axis(n *graph.Node, x *graph.Value, def int64) int {
	a, err := graph.NormAxis(n.Int("axis", def), rank(x))
	if err != nil {
		panic(fault{err})
	}
	return a
}

// shape returns the dims of x as a vector of int64.
func (b *builder) shape(x *graph.Value) *graph.Value {
	if dims, ok := x.Type.Shape.Static(); ok {
		return b.g.AddConst("", tensor.From(wide(dims), len(dims)))
	}
	return b.call("Shape", nil, x)
}

func wide(list []int) []int64 {
	out := make([]int64, len(list))
	for i, x := range list {
		out[i] = int64(x)
	}
	return out
}

// dim returns a dim of x as a vector of one int64.
func (b *builder) dim(x *graph.Value, axis int) *graph.Value {
	if n, ok := x.Type.Shape[axis].Const(); ok {
		return b.ints(n)
	}
	return b.call("Shape", attrs(graph.IntAttr("start", int64(axis)), graph.IntAttr("end", int64(axis)+1)), x)
}

// dims returns the sizes of an axis of each operand as one vector.
func (b *builder) dims(axis int, xs ...*graph.Value) *graph.Value {
	var list []int64
	for _, x := range xs {
		if n, ok := x.Type.Shape[axis].Const(); ok {
			list = append(list, n)
		}
	}
	if len(list) == len(xs) {
		return b.ints(list...)
	}
	parts := make([]*graph.Value, len(xs))
	for i, x := range xs {
		parts[i] = b.dim(x, axis)
	}
	return b.concat(0, parts...)
}

func (b *builder) concat(axis int, xs ...*graph.Value) *graph.Value {
	if len(xs) == 1 {
		return xs[0]
	}
	return b.call("Concat", attrs(graph.IntAttr("axis", int64(axis))), xs...)
}

// filled returns a tensor of x's shape and type with one number everywhere.
func (b *builder) filled(x *graph.Value, v float64) *graph.Value {
	return b.call("Expand", nil, b.number(x, v), b.shape(x))
}

// reshape gives x a shape that is a vector of int64, in which 0 is a dim without elements.
func (b *builder) reshape(x, shape *graph.Value) *graph.Value {
	return b.call("Reshape", attrs(graph.IntAttr("allowzero", 1)), x, shape)
}

// like gives x the shape of y, which it has, though that may not be known.
func (b *builder) like(x, y *graph.Value) *graph.Value {
	if x.Type.Shape != nil && x.Type.Shape.Equal(y.Type.Shape) {
		return x
	}
	return b.reshape(x, b.shape(y))
}

func (b *builder) flat(x *graph.Value) *graph.Value {
	return b.call("Reshape", nil, x, b.ints(-1))
}

func (b *builder) transpose(x *graph.Value, perm []int) *graph.Value {
	for i, p := range perm {
		if p != i {
			return b.call("Transpose", attrs(graph.IntsAttr("perm", wide(perm)...)), x)
		}
	}
	return x
}

// turned swaps the last two axes.
func (b *builder) turned(x *graph.Value) *graph.Value {
	perm := series(0, rank(x))
	last := len(perm) - 1
	perm[last-1], perm[last] = last, last-1
	return b.transpose(x, perm)
}

// inverted returns the permutation that undoes perm.
func inverted(perm []int) []int {
	back := make([]int, len(perm))
	for i, p := range perm {
		back[p] = i
	}
	return back
}

// series returns begin, begin+1, … end-1.
func series(begin, end int) []int {
	out := make([]int, 0, max(0, end-begin))
	for i := begin; i < end; i++ {
		out = append(out, i)
	}
	return out
}

// reduce applies a reduction over axes, which remain as ones.
func (b *builder) reduce(name string, x *graph.Value, axes ...int) *graph.Value {
	if len(axes) == 0 {
		return x
	}
	return b.call(name, nil, x, b.ints(wide(axes)...))
}

// sumTo undoes a broadcast: it sums v over the axes along which x, whose type and shape the sum has, was repeated.
func (b *builder) sumTo(v, x *graph.Value) *graph.Value {
	v = b.cast(v, x)
	from, to := v.Type.Shape, x.Type.Shape
	if from == nil || to == nil || len(from) < len(to) {
		return b.sumToLate(v, x)
	}
	lead := len(from) - len(to)
	axes := series(0, lead)
	for i, d := range to {
		n, known := d.Const()
		switch {
		case d.Equal(from[lead+i]) || known && n != 1:
		case known:
			axes = append(axes, lead+i)
		default:
			return b.sumToLate(v, x)
		}
	}
	return b.like(b.reduce("ReduceSum", v, axes...), x)
}

// sumToLate is sumTo where a run knows the axes.
func (b *builder) sumToLate(v, x *graph.Value) *graph.Value {
	from, to := b.shape(v), b.shape(x)
	lead := b.minus(b.shape(from), b.shape(to))
	to = b.concat(0, b.call("Expand", nil, b.ints(1), lead), to)
	axes := b.flat(b.call("NonZero", nil, b.call("Not", nil, b.call("Equal", nil, from, to))))
	return b.reshape(b.call("ReduceSum", attrs(graph.IntAttr("noop_with_empty_axes", 1)), v, axes), b.shape(x))
}
