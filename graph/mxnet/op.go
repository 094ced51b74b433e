package mxnet

import (
	"math"
	"slices"
	"strconv"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// op is an operator that is being translated: it adds nodes to the graph of its scope. Its methods end the translation with
// fail where something does not fit.
type op struct {
	*scope
	n     *Node
	kind  string // the operator's name; the first of several
	label string
	in    []*graph.Value
	read  []string // attributes that were looked at
	nodes []*graph.Node
}

// attrs is short for the list of a node's attributes.
func attrs(list ...graph.Attr) []graph.Attr { return list }

func ints64(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

func intsAttr(name string, v []int) graph.Attr { return graph.IntsAttr(name, ints64(v)...) }

func flagAttr(name string, v bool) graph.Attr {
	if v {
		return graph.IntAttr(name, 1)
	}
	return graph.IntAttr(name, 0)
}

// call adds a node of a standard operator with one result.
func (o *op) call(name string, as []graph.Attr, ins ...*graph.Value) *graph.Value {
	return o.calls("", name, 1, as, ins...)[0]
}

// calls adds a node and infers the types of its results.
func (o *op) calls(domain, name string, outs int, as []graph.Attr, ins ...*graph.Value) []*graph.Value {
	return o.add(graph.NodeSpec{Op: graph.Op{Domain: domain, Name: name}, Attrs: as, Inputs: ins, Outputs: make([]string, outs)}).Outputs
}

func (o *op) add(spec graph.NodeSpec) *graph.Node {
	if o.t.budget--; o.t.budget < 0 {
		o.fail(ErrTooLarge, "the graph has more than %d nodes", o.t.o.MaxNodes)
	}
	spec.Name = o.label + "/" + spec.Op.Name
	if len(o.nodes) > 0 {
		spec.Name += "_" + strconv.Itoa(len(o.nodes))
	}
	spec.Origins = []string{o.label}
	if len(spec.Outputs) > 1 {
		for i := range spec.Outputs {
			spec.Outputs[i] = spec.Name + ":" + strconv.Itoa(i)
		}
	}
	n := o.g.AddNode(spec)
	o.nodes = append(o.nodes, n)
	if err := graph.InferNode(n); err != nil {
		panic(fault{err})
	}
	return n
}

// constant adds a constant. One of more than a few elements counts against what a symbol may ask for.
func (o *op) constant(t *tensor.Tensor) *graph.Value { return o.g.AddConst("", t) }

// made counts bytes of constants that no file holds.
func (o *op) made(bytes int) {
	if o.t.made += bytes; o.t.made > maxMade || bytes < 0 {
		o.fail(ErrTooLarge, "it asks for constants of more than %d bytes", maxMade)
	}
}

// maxMade bounds the bytes of all constants that translation makes.
const maxMade = 1 << 30

// ints adds a vector of int64.
func (o *op) ints(v ...int64) *graph.Value {
	o.made(8 * len(v))
	return o.constant(tensor.From(slices.Clone(v), len(v)))
}

// filled returns a tensor of that type with all elements v; shapes are small.
func (o *op) values(dt tensor.DType, v []float64, shape ...int) *graph.Value {
	o.made(dt.Bytes(len(v)))
	t, err := tensor.New(dt, shape...)
	if err == nil {
		err = tensor.Encode(t, v)
	}
	if err != nil {
		o.fail(ErrTooLarge, "%v", err)
	}
	return o.constant(t)
}

// scalar adds a number of a type.
func (o *op) scalar(dt tensor.DType, v float64) *graph.Value {
	key := scalarKey{dt, math.Float64bits(v)}
	if c := o.scalars[key]; c != nil {
		return c
	}
	c := o.values(dt, []float64{v})
	o.scalars[key] = c
	return c
}

type scalarKey struct {
	dt   tensor.DType
	bits uint64
}

// like adds a number of x's type.
func (o *op) like(x *graph.Value, v float64) *graph.Value { return o.scalar(o.typeOf(x), v) }

func (o *op) typeOf(x *graph.Value) tensor.DType {
	if x.Type.DType == tensor.Invalid {
		return tensor.Float32
	}
	return x.Type.DType
}

// cast returns x with elements of another type.
func (o *op) cast(x *graph.Value, dt tensor.DType) *graph.Value {
	if x.Type.DType == dt {
		return x
	}
	return o.call("Cast", attrs(graph.IntAttr("to", int64(dt))), x)
}

// floating returns x as floating-point numbers: integers as float32.
func (o *op) floating(x *graph.Value) *graph.Value {
	if o.typeOf(x).IsFloat() {
		return x
	}
	return o.cast(x, tensor.Float32)
}

// index returns x as int64, fractions cut off as MXNet does.
func (o *op) index(x *graph.Value) *graph.Value { return o.cast(x, tensor.Int64) }

// input returns operand i, which must be there.
func (o *op) input(i int) *graph.Value {
	o.require(i < len(o.in) && o.in[i] != nil, "input %d is missing", i)
	return o.in[i]
}

// inputs checks the number of operands.
func (o *op) inputs(lo, hi int) {
	o.require(len(o.in) >= lo && len(o.in) <= hi, "from %d to %d inputs are expected, found %d", lo, hi, len(o.in))
}

// shape returns the shape of x, whose rank must be known.
func (o *op) shape(x *graph.Value) graph.Shape {
	if x.Type.Shape == nil {
		o.fail(ErrShape, "the rank of %s: give the shapes of the inputs", x)
	}
	return x.Type.Shape
}

func (o *op) rank(x *graph.Value) int { return len(o.shape(x)) }

// static returns a dim of x, which must be a number.
func (o *op) static(x *graph.Value, axis int) int {
	n, ok := o.shape(x)[axis].Const()
	if !ok {
		o.fail(ErrShape, "dim %d of %s, which is %v: give the shapes of the inputs", axis, x, x.Type.Shape[axis])
	}
	return int(n)
}

// axisOf brings an axis that may count from the end into [0, rank).
func (o *op) axisOf(axis, rank int) int {
	a := axis
	if a < 0 {
		a += rank
	}
	if a < 0 || a >= rank {
		o.fail(ErrAttribute, "axis %d of %d", axis, rank)
	}
	return a
}

// extent is a dim that is a number, or known when the graph runs: an int64 vector of one element.
type extent struct {
	n    int64
	v    *graph.Value // nil for a number
	of   *graph.Value // the value of which it is dim axis, where it is one
	axis int
}

func fixed(n int) extent { return extent{n: int64(n)} }

// dim returns a dim of x.
func (o *op) dim(x *graph.Value, axis int) extent {
	if n, ok := o.shape(x)[axis].Const(); ok {
		return extent{n: n, of: x, axis: axis}
	}
	v := o.call("Shape", attrs(graph.IntAttr("start", int64(axis)), graph.IntAttr("end", int64(axis)+1)), x)
	return extent{v: v, of: x, axis: axis}
}

func (o *op) dims(x *graph.Value) []extent {
	out := make([]extent, o.rank(x))
	for i := range out {
		out[i] = o.dim(x, i)
	}
	return out
}

// one returns an extent as a vector of one element.
func (o *op) one(e extent) *graph.Value {
	if e.v != nil {
		return e.v
	}
	return o.ints(e.n)
}

// arith applies a standard operator to extents, and f where both are numbers.
func (o *op) arith(name string, f func(a, b int64) int64, a, b extent) extent {
	if a.v == nil && b.v == nil {
		return extent{n: f(a.n, b.n)}
	}
	return extent{v: o.call(name, nil, o.one(a), o.one(b))}
}

func (o *op) mul(a, b extent) extent {
	switch {
	case a.v == nil && a.n == 1:
		return b
	case b.v == nil && b.n == 1:
		return a
	case a.v == nil && b.v == nil && a.n > 0 && b.n > math.MaxInt64/a.n:
		o.fail(ErrTooLarge, "dims %d and %d", a.n, b.n)
	}
	return o.arith("Mul", func(a, b int64) int64 { return a * b }, a, b)
}

func (o *op) sub(a, b extent) extent {
	return o.arith("Sub", func(a, b int64) int64 { return a - b }, a, b)
}

func (o *op) div(a, b extent) extent {
	if b.v == nil && b.n == 0 {
		o.fail(ErrAttribute, "a dim is divided by 0")
	}
	return o.arith("Div", func(a, b int64) int64 { return a / b }, a, b)
}

// vector returns extents as an int64 vector.
func (o *op) vector(list ...extent) *graph.Value {
	var parts []*graph.Value
	var run []int64
	flush := func() {
		if len(run) > 0 {
			parts = append(parts, o.ints(run...))
			run = nil
		}
	}
	for _, e := range list {
		if e.v == nil {
			run = append(run, e.n)
			continue
		}
		flush()
		parts = append(parts, e.v)
	}
	flush()
	switch len(parts) {
	case 0:
		return o.ints()
	case 1:
		return parts[0]
	}
	return o.call("Concat", attrs(graph.IntAttr("axis", 0)), parts...)
}

// rest stands in a shape for the dim that follows from the others.
var rest = extent{n: -1}

// reshape gives x other dims, of which one may be rest.
func (o *op) reshape(x *graph.Value, list ...extent) *graph.Value {
	open, zero := 0, false
	for _, e := range list {
		zero = zero || e.v == nil && e.n == 0
		if e.v == nil && e.n == -1 {
			open++
		}
	}
	if x.Const != nil && !zero && !slices.ContainsFunc(list, func(e extent) bool { return e.v != nil }) {
		return o.view(x, list)
	}
	short := make([]extent, len(list))
	for i, e := range list {
		short[i] = e
		switch {
		case e.v == nil || zero:
		case e.of == x && e.axis == i:
			short[i] = fixed(0)
		case open == 0:
			short[i] = rest
			open++
		}
	}
	var as []graph.Attr
	if zero {
		as = attrs(graph.IntAttr("allowzero", 1))
	}
	return o.call("Reshape", as, x, o.vector(short...))
}

// view is reshape of a constant, whose data it shares.
func (o *op) view(x *graph.Value, list []extent) *graph.Value {
	shape, product, open := make([]int, len(list)), 1, -1
	for i, e := range list {
		if shape[i] = int(e.n); e.n == -1 {
			open = i
			continue
		}
		o.require(e.n >= 0 && (e.n == 0 || int64(product) <= math.MaxInt64/e.n), "a dim of %d", e.n)
		product *= int(e.n)
	}
	if open >= 0 && product > 0 {
		shape[open] = x.Const.Len() / product
	}
	t, err := x.Const.View(shape...)
	if err != nil {
		o.fail(ErrInputs, "%v cannot be made %v", x.Type, shape)
	}
	return o.constant(t)
}

func (o *op) transpose(x *graph.Value, perm ...int) *graph.Value {
	for i, p := range perm {
		if p != i {
			return o.call("Transpose", attrs(intsAttr("perm", perm)), x)
		}
	}
	return x
}

func (o *op) unsqueeze(x *graph.Value, axes ...int) *graph.Value {
	return o.call("Unsqueeze", nil, x, o.ints(ints64(axes)...))
}

func (o *op) squeeze(x *graph.Value, axes ...int) *graph.Value {
	return o.call("Squeeze", nil, x, o.ints(ints64(axes)...))
}

func (o *op) concat(axis int, xs ...*graph.Value) *graph.Value {
	if len(xs) == 1 {
		return xs[0]
	}
	return o.call("Concat", attrs(graph.IntAttr("axis", int64(axis))), xs...)
}

// slice returns the elements [begin, end) of an axis.
func (o *op) slice(x *graph.Value, axis, begin, end int) *graph.Value {
	return o.call("Slice", nil, x, o.ints(int64(begin)), o.ints(int64(end)), o.ints(int64(axis)))
}

// toEnd is an end of a slice that is none.
const toEnd = math.MaxInt32

// fill returns a tensor of x's shape and that type whose elements are all v.
func (o *op) fill(x *graph.Value, dt tensor.DType, v float64) *graph.Value {
	return o.call("Expand", nil, o.scalar(dt, v), o.call("Shape", nil, x))
}

// reduce applies a reducing operator that takes axes as an input; no axes are all.
func (o *op) reduce(name string, x *graph.Value, keep bool, axes ...int) *graph.Value {
	var in *graph.Value
	if len(axes) > 0 {
		in = o.ints(ints64(axes)...)
	}
	if in == nil {
		return o.call(name, attrs(flagAttr("keepdims", keep)), x)
	}
	return o.call(name, attrs(flagAttr("keepdims", keep)), x, in)
}

// positions returns 0, 1, … n-1 as int64.
func (o *op) positions(n extent) *graph.Value {
	if n.v == nil && n.n <= 1<<16 {
		out := make([]int64, n.n)
		for i := range out {
			out[i] = int64(i)
		}
		return o.ints(out...)
	}
	limit := o.scalar(tensor.Int64, float64(n.n))
	if n.v != nil {
		limit = o.squeeze(n.v, 0)
	}
	return o.call("Range", nil, o.scalar(tensor.Int64, 0), limit, o.scalar(tensor.Int64, 1))
}
