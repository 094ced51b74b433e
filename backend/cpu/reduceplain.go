package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
)

// Reductions of integers and of truth values, and products, one element after the other. Integers wrap around, but in means, whose sums
// have 64 bits, and which are truncated.

// reducesPlainly reports whether a reduction is one of these.
func reducesPlainly(n *graph.Node) bool {
	switch x := n.Inputs[0]; {
	case isWhole(x):
		return n.Is("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", logSumExpName)
	case x.Type.DType == tensor.Bool:
		return n.Is("ReduceMax", "ReduceMin")
	}
	return n.Is("ReduceProd") && (operators.IsFloat32(n.Inputs[0]) || isDouble(n.Inputs[0]))
}

func planReducePlainly(p *planner, n *graph.Node) error {
	switch x := n.Inputs[0]; {
	case isWhole(x):
		return integerKinds[x.Type.DType].reduce(p, n)
	case x.Type.DType == tensor.Bool:
		return planReduceIntegers[uint8](p, n)
	case isDouble(x):
		return planReduceProduct[float64](p, n)
	}
	return planReduceProduct[float32](p, n)
}

// reduceEach emits a reduction. fold sets each number of o to what it makes of count elements of s, by apart; those of the number after
// it begin next elements later.
func reduceEach[T tensor.Element](p *planner, n *graph.Node, fold func(o, s []T, next, count, by int)) error {
	x := n.Inputs[0]
	axes, err := p.reduceAxes(n)
	if err != nil {
		return err
	}
	l := p.reduced(p.Dims[x.ID], axes, x.Type.DType.Size(), p.In(x))
	dst := p.Out(n.Outputs[0])
	p.emit(step{chunks: l.outer * l.inner, grain: grainFor(float64(l.count) * 2), body: func(st *state, _, lo, hi int) {
		o, s := of[T](st, dst), of[T](st, l.src)
		if l.inner == 1 {
			fold(o[lo:hi], s[lo*l.count:], l.count, l.count, 1)
			return
		}
		for lo < hi {
			outer, inner := lo/l.inner, lo%l.inner
			n := min(l.inner-inner, hi-lo)
			fold(o[lo:lo+n], s[outer*l.count*l.inner+inner:], 1, l.count, l.inner)
			lo += n
		}
	}}, []place.Memory{l.src}, []place.Memory{dst})
	return nil
}

func planReduceProduct[T float32 | float64](p *planner, n *graph.Node) error {
	k, rows := p.kernels, productRows[T]{p.kernels, p.doubles()}
	return reduceEach(p, n, func(o, s []T, next, count, by int) {
		if by == 1 && count >= 2*productPart {
			for j := range o {
				o[j] = rows.of(s[j*next:][:count])
			}
			return
		}
		o32, ok := any(o).([]float32)
		if !ok || next != 1 || len(o) < fewColumns {
			products(o, s, next, count, by)
			return
		}
		s32 := any(s).([]float32)
		copy(o32, s32)
		for i := 1; i < count; i++ {
			k.Binary(vec.Mul, o32, o32, s32[i*by:][:len(o32)])
		}
	})
}

// productRows multiplies the elements of long rows.
type productRows[T float32 | float64] struct {
	floats  vec.Kernels
	doubles double.Kernels
}

// productPart is how many products of a row are made side by side; a power of two.
const productPart = 512

// of returns the product of a row of at least productPart elements.
func (r *productRows[T]) of(row []T) T {
	var room [productPart]T
	made := room[:]
	copy(made, row)
	for row = row[len(made):]; len(row) > 0; {
		part := made[:min(len(row), len(made))]
		r.multiply(part, row[:len(part)])
		row = row[len(part):]
	}
	for len(made) > 1 {
		half := len(made) / 2
		r.multiply(made[:half], made[half:])
		made = made[:half]
	}
	return made[0]
}

// multiply multiplies the elements of x by those of y.
func (r *productRows[T]) multiply(x, y []T) {
	if f, ok := any(x).([]float32); ok {
		r.floats.Binary(vec.Mul, f, f, any(y).([]float32))
	} else if d, ok := any(x).([]float64); ok {
		r.doubles.Binary(double.Mul, double.VV, d, d, any(y).([]float64))
	}
}

// fewColumns is how many numbers beside each other are too few for kernels of rows.
const fewColumns = 8

// shortFold is up to how many elements of a row loops take less than a call of a kernel.
const shortFold = 8

// byKernels returns a reduction for reduceEach by an operator that there are kernels for: of numbers beside each other row by row, and of rows each for itself; by plain elsewhere.
func byKernels[T integer](set isa.Set, op element.Op, plain func(o, s []T, next, count, by int)) func(o, s []T, next, count, by int) {
	return func(o, s []T, next, count, by int) {
		switch {
		case next == 1 && element.Columns(set, op, element.Plain, o, s, by, count):
		case next == 1 && len(o) >= fewColumns:
			copy(o, s)
			for k := 1; k < count; k++ {
				element.Binary(set, op, o, o, s[k*by:][:len(o)])
			}
		case by == 1 && count > shortFold:
			for j := range o {
				o[j] = element.Fold(set, op, s[j*next:][:count])
			}
		default:
			plain(o, s, next, count, by)
		}
	}
}

// products, sumsOf, mostOf and leastOf are reductions for reduceEach, each of which is written out: a function that is called for every
// element takes several times as long.

func products[T integer | float32 | float64](o, s []T, next, count, by int) {
	for j := range o {
		part := s[j*next:]
		v, w, k := part[0], T(1), 1
		for ; k+1 < count; k += 2 { // a product waits for the one before
			v *= part[k*by]
			w *= part[(k+1)*by]
		}
		if k < count {
			v *= part[k*by]
		}
		o[j] = v * w
	}
}

func sumsOf[T integer](o, s []T, next, count, by int) {
	for j := range o {
		part := s[j*next:]
		v := part[0]
		for k := 1; k < count; k++ {
			v += part[k*by]
		}
		o[j] = v
	}
}

func mostOf[T integer](o, s []T, next, count, by int) {
	for j := range o {
		part := s[j*next:]
		v := part[0]
		for k := 1; k < count; k++ {
			v = max(v, part[k*by])
		}
		o[j] = v
	}
}

func leastOf[T integer](o, s []T, next, count, by int) {
	for j := range o {
		part := s[j*next:]
		v := part[0]
		for k := 1; k < count; k++ {
			v = min(v, part[k*by])
		}
		o[j] = v
	}
}

func planReduceIntegers[T integer](p *planner, n *graph.Node) error {
	set := p.target.Set
	switch n.Op.Name {
	case "ReduceL2", "ReduceLogSum", logSumExpName:
		return planReduceWholly[T](p, n)
	case "ReduceProd":
		return reduceEach(p, n, byKernels(set, element.Mul, products[T]))
	case "ReduceMax":
		return reduceEach(p, n, byKernels(set, element.Max, mostOf[T]))
	case "ReduceMin":
		return reduceEach(p, n, byKernels(set, element.Min, leastOf[T]))
	case "ReduceSumSquare", "ReduceL1":
		return reduceEach(p, n, sumsMade[T](set, n.Is("ReduceSumSquare")))
	case "ReduceMean":
		return reduceEach(p, n, meansOf[T](set))
	}
	return reduceEach(p, n, byKernels(set, element.Add, sumsOf[T]))
}

// made returns squares, or sizes, of elements, which may lie in part.
func made[T integer](set isa.Set, squares bool, part, x []T) []T {
	switch part = part[:len(x)]; {
	case squares:
		element.Binary(set, element.Mul, part, x, x)
	case ^T(0) > 0:
		return x
	default:
		magnitudes(set, part, x)
	}
	return part
}

// sumsOfMany adds up squares, or sizes, which are made of some elements at a time.
func sumsOfMany[T integer](set isa.Set, squares bool, o, s []T, next, count, by int) {
	var room [512]T
	if by == 1 {
		for j := range o {
			o[j] = 0
			for row := s[j*next:][:count]; len(row) > 0; {
				x := row[:min(len(row), len(room))]
				o[j] += element.Fold(set, element.Add, made(set, squares, room[:], x))
				row = row[len(x):]
			}
		}
		return
	}
	clear(o)
	for k := range count { // numbers beside each other
		for at := 0; at < len(o); at += len(room) {
			sums := o[at:min(at+len(room), len(o))]
			element.Binary(set, element.Add, sums, sums, made(set, squares, room[:], s[k*by+at:][:len(sums)]))
		}
	}
}

// sumsMade returns a reduction for reduceEach that adds up squares, or sizes.
func sumsMade[T integer](set isa.Set, squares bool) func(o, s []T, next, count, by int) {
	const few = 64 // elements for which kernels are not worth the calls
	of := element.Sizes
	if squares {
		of = element.Squares
	}
	return func(o, s []T, next, count, by int) {
		switch {
		case next == 1 && element.Columns(set, element.Add, of, o, s, by, count):
		case by == 1 && count < few || by > 1 && len(o) < fewColumns:
			madeOfFew(o, s, next, count, by, squares)
		case by > 1 && len(o) < few:
			madeOfRows(o, s, count, by, squares)
		default:
			sumsOfMany(set, squares, o, s, next, count, by)
		}
	}
}

// madeOfFew adds up squares, or sizes, of elements one by one.
func madeOfFew[T integer](o, s []T, next, count, by int, squares bool) {
	unsigned := ^T(0) > 0
	for j := range o {
		at, sum := j*next, T(0)
		for range count {
			if x := s[at]; squares {
				sum += x * x
			} else if unsigned {
				sum += x
			} else {
				sum += max(x, -x)
			}
			at += by
		}
		o[j] = sum
	}
}

// madeOfRows adds up squares, or sizes, of short rows, by apart.
func madeOfRows[T integer](o, s []T, count, by int, squares bool) {
	clear(o)
	unsigned := ^T(0) > 0
	for k := range count {
		row := s[k*by:][:len(o)]
		if squares {
			for j, x := range row {
				o[j] += x * x
			}
			continue
		}
		for j, x := range row {
			if !unsigned {
				x = max(x, -x)
			}
			o[j] += x
		}
	}
}

// meansOf returns the reduction for reduceEach to means, truncated: of columns of int32 by sums in float64, which are exact.
func meansOf[T integer](set isa.Set) func(o, s []T, next, count, by int) {
	const most = 1 << 21 // rows of int32 whose sums float64 holds
	return func(o, s []T, next, count, by int) {
		if s32, ok := any(s).([]int32); ok && next == 1 && count <= most {
			var sums [128]float64
			for len(o) > 0 {
				part := sums[:min(len(o), len(sums))]
				if !element.WideColumns(set, false, part, s32, by, count) {
					break
				}
				for j, x := range part {
					o[j] = T(int64(x) / int64(count))
				}
				o, s, s32 = o[len(part):], s[len(part):], s32[len(part):]
			}
		}
		for j := range o {
			o[j] = meanOf(s[j*next:], count, by)
		}
	}
}

// meanOf returns the mean of elements, truncated.
func meanOf[T integer](s []T, count, by int) T {
	var least T
	if least-1 > 0 { // unsigned
		sum := uint64(0)
		for k := range count {
			sum += uint64(s[k*by])
		}
		return T(sum / uint64(count))
	}
	sum := int64(0)
	for k := range count {
		sum += int64(s[k*by])
	}
	return T(sum / int64(count))
}
