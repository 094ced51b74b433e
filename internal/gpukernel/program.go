package gpukernel

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Program is a list of element-wise operators, casts, reductions and movements of data, each over results of those before it:
// what Render turns into kernels. Values have static shapes and lie row-major where they are in memory. The methods that add
// an operator return its result; they panic where operands do not fit, which callers rule out. A Program is for one goroutine
// while it is built, and safe for concurrent reads then.
type Program struct {
	nodes   []node
	outputs []output
}

// Value is a result within a Program.
type Value int

type output struct {
	value  Value
	buffer string
}

type nodeKind uint8

const (
	kindInput nodeKind = iota
	kindConstant
	kindScalar
	kindReduce
	kindReshape
	kindTranspose
	kindSlice
	kindExpand
	kindConcat
	kindPad
	kindGather
	kindIota
	kindTable
	kindPick
)

// node is an operator. Which fields matter depends on its kind.
type node struct {
	kind   nodeKind
	typ    Type
	shape  []int
	in     []Value
	text   string // of a scalar: its expression, with $0, $1 … for operands; of a constant: the literal
	buffer string // of an input
	reduce ReduceOp
	axes   []int // of a reduction, ascending; of a transposition: for each axis, that of the operand
	starts []int // of a slice: first index per axis; of a pad: elements in front
	steps  []int // of a slice
	axis   int   // of a concatenation or a gather
	table  []string
	along  []Along // of a pick
	exact  bool    // elements are numbers of the type, and not only computed as such
}

// ReduceOp is how a reduction combines elements.
type ReduceOp uint8

// The reductions. Sums and products of integers wrap around.
const (
	ReduceSum ReduceOp = iota
	ReduceProd
	ReduceMax
	ReduceMin
)

// Shape returns the dims of a value, which must not be changed.
func (p *Program) Shape(v Value) []int { return p.nodes[v].shape }

// Type returns the element type of a value.
func (p *Program) Type(v Value) Type { return p.nodes[v].typ }

func (p *Program) add(n node) Value {
	switch n.kind {
	case kindScalar:
		n.exact = n.text == n.typ.rounding()
	case kindReduce:
	case kindInput, kindConstant, kindReshape, kindTranspose, kindSlice, kindExpand, kindConcat, kindPad, kindGather, kindIota, kindTable, kindPick:
		n.exact = !slices.ContainsFunc(n.in, func(v Value) bool { return !p.nodes[v].exact })
	}
	p.nodes = append(p.nodes, n)
	return Value(len(p.nodes) - 1)
}

// Input adds a tensor that lies in a buffer.
func (p *Program) Input(buffer string, t Type, shape ...int) Value {
	return p.add(node{kind: kindInput, typ: t, shape: slices.Clone(shape), buffer: buffer})
}

// Constant adds a scalar, by its literal in the dialect.
func (p *Program) Constant(t Type, literal string) Value {
	return p.add(node{kind: kindConstant, typ: t, shape: []int{}, text: literal})
}

// Float adds a float scalar.
func (p *Program) Float(t Type, f float32) Value {
	if t == F64 {
		return p.Constant(t, "((f64)"+FloatLiteral(f)+")")
	}
	return p.Constant(t, FloatLiteral(f))
}

// Scalar adds an operator that computes each element by an expression of the dialect, in which $0, $1 and so on stand for the
// operands' elements; operands are broadcast. Floats of half precision are computed in float32 and rounded where they are
// stored, cast or Rounded, narrow integers wrap to their type.
func (p *Program) Scalar(t Type, expression string, in ...Value) Value {
	var shape []int
	for _, v := range in {
		shape = broadcast(shape, p.nodes[v].shape)
	}
	if t == F64 || t == Bool && slices.ContainsFunc(in, func(v Value) bool { return p.nodes[v].typ == F64 }) {
		expression = doubled(expression)
	}
	return p.add(node{kind: kindScalar, typ: t, shape: shape, text: expression, in: slices.Clone(in)})
}

func broadcast(a, b []int) []int {
	out := slices.Clone(a)
	if len(b) > len(a) {
		out = slices.Clone(b)
	}
	for i := range min(len(a), len(b)) {
		x, y := a[len(a)-1-i], b[len(b)-1-i]
		if x != y && x != 1 && y != 1 {
			panic(fmt.Sprintf("gpukernel: shapes %v and %v do not broadcast", a, b))
		}
		out[len(out)-1-i] = max(x, y)
	}
	return out
}

// rounding is the expression that rounds a number to a type of half precision, "" for other types.
func (t Type) rounding() string {
	if !t.isHalf() {
		return ""
	}
	return fmt.Sprintf("f32_of_%s(%s_of_f32($0))", t, t)
}

// Rounded returns v with elements of half precision rounded, as they are where they are stored.
func (p *Program) Rounded(v Value) Value {
	n := &p.nodes[v]
	if !n.typ.isHalf() || n.exact {
		return v
	}
	return p.Scalar(n.typ, n.typ.rounding(), v)
}

// Cast converts elements, and whatever is not zero becomes true. Floats that become integers lose their fraction: NaN becomes 0, what
// 64 bits do not hold the nearest that they do, and of that narrower types keep the lower bits.
func (p *Program) Cast(v Value, t Type) Value {
	from := p.nodes[v].typ
	switch {
	case from == t:
		return v
	case t == Bool:
		return p.Scalar(t, "($0 != 0)", v)
	case t.isHalf():
		if p.nodes[v].typ != F32 {
			v = p.Cast(v, F32)
		}
		return p.Scalar(t, t.rounding(), v)
	case from == F64 && t == U64:
		return p.Scalar(t, "u64_of_f64($0)", v)
	case from == F64 && t != F32:
		return p.Scalar(t, fmt.Sprintf("(%s)i64_of_f64($0)", t.compute()), v)
	case t == F64:
		return p.Scalar(t, "(f64)$0", v)
	case t == U64 && (from == F32 || from.isHalf()):
		return p.Scalar(t, "u64_of_f32($0)", v)
	case t != F32 && (from == F32 || from.isHalf()):
		return p.Scalar(t, fmt.Sprintf("(%s)i64_of_f32($0)", t.compute()), v)
	}
	return p.Scalar(t, fmt.Sprintf("(%s)$0", t.compute()), v)
}

// Reduce combines the elements along axes, which stay with an extent of 1.
func (p *Program) Reduce(op ReduceOp, v Value, axes ...int) Value {
	n := node{kind: kindReduce, typ: p.nodes[v].typ, shape: slices.Clone(p.nodes[v].shape), in: []Value{v}, reduce: op}
	many := false
	for _, a := range axes {
		many = many || n.shape[a] != 1
		n.shape[a] = 1
	}
	if !many {
		return v
	}
	n.axes = slices.Clone(axes)
	slices.Sort(n.axes)
	return p.add(n)
}

// Reshape gives the elements other dims, in the same order.
func (p *Program) Reshape(v Value, shape ...int) Value {
	if elements(shape) != elements(p.nodes[v].shape) {
		panic(fmt.Sprintf("gpukernel: %v reshaped to %v", p.nodes[v].shape, shape))
	}
	return p.add(node{kind: kindReshape, typ: p.nodes[v].typ, shape: slices.Clone(shape), in: []Value{v}})
}

// Transpose makes axis i of the result from axis perm[i].
func (p *Program) Transpose(v Value, perm ...int) Value {
	shape := make([]int, len(perm))
	for i, a := range perm {
		shape[i] = p.nodes[v].shape[a]
	}
	return p.add(node{kind: kindTranspose, typ: p.nodes[v].typ, shape: shape, in: []Value{v}, axes: slices.Clone(perm)})
}

// Slice takes shape[i] elements along each axis, from starts[i] in steps of steps[i], which may be negative.
func (p *Program) Slice(v Value, shape, starts, steps []int) Value {
	for i, n := range shape {
		if last := starts[i] + (n-1)*steps[i]; min(last, starts[i]) < 0 || max(last, starts[i]) >= p.nodes[v].shape[i] {
			panic(fmt.Sprintf("gpukernel: slice of %v from %v in steps of %v to %v", p.nodes[v].shape, starts, steps, shape))
		}
	}
	return p.add(node{kind: kindSlice, typ: p.nodes[v].typ, shape: slices.Clone(shape), in: []Value{v}, starts: slices.Clone(starts),
		steps: slices.Clone(steps)})
}

// Expand repeats axes of extent 1, and adds axes in front.
func (p *Program) Expand(v Value, shape ...int) Value {
	return p.add(node{kind: kindExpand, typ: p.nodes[v].typ, shape: broadcast(p.nodes[v].shape, shape), in: []Value{v}})
}

// Concat puts values behind each other along an axis.
func (p *Program) Concat(axis int, in ...Value) Value {
	shape := slices.Clone(p.nodes[in[0]].shape)
	shape[axis] = 0
	for _, v := range in {
		shape[axis] += p.nodes[v].shape[axis]
	}
	return p.add(node{kind: kindConcat, typ: p.nodes[in[0]].typ, shape: shape, in: slices.Clone(in), axis: axis})
}

// Pad puts before[i] and after[i] elements around each axis, which are copies of the scalar with.
func (p *Program) Pad(v, with Value, before, after []int) Value {
	shape := slices.Clone(p.nodes[v].shape)
	for i := range shape {
		shape[i] += before[i] + after[i]
	}
	return p.add(node{kind: kindPad, typ: p.nodes[v].typ, shape: shape, in: []Value{v, with}, starts: slices.Clone(before)})
}

// Gather replaces an axis by the axes of indices, which choose along it; negative ones count from the end. An index that is out
// of range chooses zero.
func (p *Program) Gather(v, indices Value, axis int) Value {
	s := p.nodes[v].shape
	shape := slices.Concat(s[:axis], p.nodes[indices].shape, s[axis+1:])
	return p.add(node{kind: kindGather, typ: p.nodes[v].typ, shape: shape, in: []Value{v, indices}, axis: axis})
}

// Iota adds the vector of the numbers from 0 to n-1, of type i32.
func (p *Program) Iota(n int) Value { return p.add(node{kind: kindIota, typ: I32, shape: []int{n}}) }

// Table adds a vector of integer constants. It is a part of a kernel's text, so keep it small.
func (p *Program) Table(t Type, numbers ...int) Value {
	literals := make([]string, len(numbers))
	for i, n := range numbers {
		literals[i] = strconv.Itoa(n)
	}
	return p.add(node{kind: kindTable, typ: t, shape: []int{len(literals)}, table: literals})
}

// FloatTable is a Table of f32.
func (p *Program) FloatTable(numbers ...float32) Value {
	literals := make([]string, len(numbers))
	for i, f := range numbers {
		literals[i] = fmt.Sprintf("0x%xu", math.Float32bits(f))
	}
	bits := p.add(node{kind: kindTable, typ: U32, shape: []int{len(literals)}, table: literals})
	return p.Scalar(F32, "f32_of_bits($0)", bits)
}

// Along says where along an axis of its operand a Pick reads.
type Along struct {
	Axis   int   // of the result: where the element at hand is along it; meant where Index is NoValue
	Index  Value // integers, which broadcast to the result's shape; negative ones count from the end
	Within bool  // the Index is known to lie in range, and not to be negative
}

// NoValue is no result of a Program.
const NoValue Value = -1

// Pick makes each element of a result of the given shape from one of v: that which along says for each axis of v. Where an index
// is out of range it is zero.
func (p *Program) Pick(v Value, shape []int, along ...Along) Value {
	n := node{kind: kindPick, typ: p.nodes[v].typ, shape: slices.Clone(shape), in: []Value{v}, along: slices.Clone(along)}
	if len(along) != len(p.nodes[v].shape) {
		panic(fmt.Sprintf("gpukernel: %v picked along %d axes", p.nodes[v].shape, len(along)))
	}
	for i, a := range along {
		switch {
		case a.Index != NoValue:
			if !slices.Equal(broadcast(shape, p.nodes[a.Index].shape), shape) {
				panic(fmt.Sprintf("gpukernel: indices %v of a result %v", p.nodes[a.Index].shape, shape))
			}
			n.in = append(n.in, a.Index)
		case shape[a.Axis] > p.nodes[v].shape[i]:
			panic(fmt.Sprintf("gpukernel: %v picked from %v", shape, p.nodes[v].shape))
		}
	}
	return p.add(n)
}

// Output makes a value one that is written to a buffer.
func (p *Program) Output(v Value, buffer string) {
	p.outputs = append(p.outputs, output{v, buffer})
}

// compute returns the C type that values are computed in.
func (t Type) compute() string {
	switch t {
	case F16, BF16:
		return "f32"
	case I8, U8, I16, U16, Bool:
		return "i32"
	}
	return string(t)
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
