package mxnet

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// wholeNumbers requires operands that are whole numbers.
func (o *op) wholeNumbers(a *graph.Value) {
	dt := o.typeOf(a)
	o.require(!dt.IsFloat() && dt != tensor.Bool, "whole numbers are expected, found %v", dt)
}

// floorDivide is the largest whole number that is no more than a/b.
func floorDivide(o *op, a, b *graph.Value) *graph.Value {
	if o.typeOf(a).IsFloat() {
		return o.inFull(func(xs ...*graph.Value) *graph.Value { return o.call("Floor", nil, o.call("Div", nil, xs[0], xs[1])) }, a, b)
	}
	o.wholeNumbers(a)
	zero := o.like(a, 0)
	none := o.call("Equal", nil, b, zero)
	b = o.call("Where", nil, none, o.like(a, 1), b)
	q, r := o.call("Div", nil, a, b), o.call("Mod", nil, a, b) // the rest has the divisor's sign
	down := o.call("And", nil, o.call("Not", nil, o.call("Equal", nil, r, zero)),
		o.call("Xor", nil, o.call("Less", nil, a, zero), o.call("Less", nil, b, zero)))
	q = o.call("Sub", nil, q, o.cast(down, o.typeOf(a)))
	return o.call("Where", nil, none, zero, q)
}

// euclidSteps bounds the steps of Euclid's algorithm on 64-bit integers: the longest are of neighbours in Fibonacci's sequence.
const euclidSteps = 93

// greatestDivisor is the greatest common divisor, by Euclid's algorithm.
func greatestDivisor(o *op, a, b *graph.Value) *graph.Value {
	o.wholeNumbers(a)
	a, b = o.call("Abs", nil, a), o.call("Abs", nil, b)
	size := o.call("Shape", nil, o.call("Add", nil, a, b))
	both := o.concat(0, o.unsqueeze(o.call("Expand", nil, a, size), 0), o.unsqueeze(o.call("Expand", nil, b, size), 0))
	last, _ := o.loop(fixed(euclidSteps), both, func(l *op, _ func(*graph.Value) *graph.Value, _, state *graph.Value) (next, each *graph.Value) {
		x, y := l.slice(state, 0, 0, 1), l.slice(state, 0, 1, 2)
		none := l.call("Equal", nil, y, l.like(y, 0))
		rest := l.call("Mod", nil, x, l.call("Where", nil, none, l.like(y, 1), y))
		return l.concat(0, l.call("Where", nil, none, x, y), l.call("Where", nil, none, y, rest)), nil
	})
	return o.squeeze(o.slice(last, 0, 0, 1), 0)
}

// leastMultiple is the least common multiple, 0 where a number is.
func leastMultiple(o *op, a, b *graph.Value) *graph.Value {
	d := greatestDivisor(o, a, b)
	d = o.call("Max", nil, d, o.like(d, 1))
	return o.call("Abs", nil, o.call("Mul", nil, o.call("Div", nil, a, d), b))
}

// powerOfTwo is 2^b. ONNX has powers of no integers below 32 bits.
func (o *op) powerOfTwo(b *graph.Value) *graph.Value {
	dt := o.typeOf(b)
	b = o.cast(b, tensor.Int64)
	return o.cast(o.call("Pow", nil, o.like(b, 2), b), dt)
}

// shiftLeft multiplies by powers of two.
func shiftLeft(o *op, a, b *graph.Value) *graph.Value {
	o.wholeNumbers(a)
	return o.call("Mul", nil, a, o.powerOfTwo(b))
}

// shiftRight divides by powers of two, downwards.
func shiftRight(o *op, a, b *graph.Value) *graph.Value {
	o.wholeNumbers(a)
	by := o.powerOfTwo(b)
	up := o.call("Div", nil, a, by)
	down := o.call("BitwiseNot", nil, o.call("Div", nil, o.call("BitwiseNot", nil, a), by))
	return o.call("Where", nil, o.call("Less", nil, a, o.like(a, 0)), down, up)
}

// logAddExp is log(exp(a)+exp(b)), which does not overflow.
func logAddExp(o *op, a, b *graph.Value) *graph.Value {
	dt := o.typeOf(a)
	return o.cast(o.inFull(func(xs ...*graph.Value) *graph.Value {
		x, y := o.floating(xs[0]), o.floating(xs[1])
		more := o.call("Max", nil, x, y)
		apart := o.call("Abs", nil, o.minus(x, y))
		same := o.call("Equal", nil, x, y) // infinities too, whose difference is no number
		apart = o.call("Where", nil, same, o.like(x, 0), apart)
		return o.call("Add", nil, more, logOfOnePlus(o, o.call("Exp", nil, o.call("Neg", nil, apart))))
	}, a, b), dt)
}
