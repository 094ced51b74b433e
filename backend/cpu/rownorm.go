package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/shortrow"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// LpNormalization of float32 and float64: rows, or columns that lie side by side. MeanVarianceNormalization and Hardmax of float32: rows of what is normalised together, which is
// brought to the end where it lies elsewhere.

// alongAxes emits fn for rows of count elements along axes of the node's operand. A row of dst may be that of src.
func alongAxes[T tensor.Element](p *planner, n *graph.Node, axes []int, fn func(dst, src []T, count int)) {
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	src, dst := p.In(x), p.Out(n.Outputs[0])
	rows, count, inner, ok := adjacentAxes(d, axes)
	if ok && inner == 1 {
		eachRow(p, src, dst, rows, count, fn)
		return
	}
	size := x.Type.DType.Size()
	perm, kept := lastAxes(len(d), axes)
	moved, back := make([]int, len(d)), make([]int, len(d))
	for i, a := range perm {
		moved[i], back[a] = d[a], i
	}
	t := p.Temp(p.Bytes(x))
	p.permute(d, perm, size, src, t)
	eachRow(p, t, t, product(moved[:kept]), product(moved[kept:]), fn)
	p.permute(moved, back, size, t, dst)
}

func eachRow[T tensor.Element](p *planner, src, dst place.Memory, rows, count int, fn func(dst, src []T, count int)) {
	p.emit(step{chunks: rows, grain: grainFor(float64(count)*0.3 + 50), body: func(st *state, _, lo, hi int) {
		fn(of[T](st, dst)[lo*count:hi*count], of[T](st, src)[lo*count:hi*count], count)
	}}, []place.Memory{src}, []place.Memory{dst})
}

// eachOf makes a function of rows of one of a row.
func eachOf[T tensor.Element](row func(dst, src []T)) func(dst, src []T, count int) {
	return func(dst, src []T, count int) {
		for at := 0; at < len(src); at += count {
			row(dst[at:][:count], src[at:][:count])
		}
	}
}

func rowNormSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	return lpNormSignatures(n)
}

func lpNormSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if power := n.Int("p", 2); power != 1 && power != 2 {
		return nil, property.Because(property.Attribute, "p %d", power)
	}
	return operators.RowMajor(n), nil
}

// reduceRow returns a reduction of one row.
func reduceRow(k vec.Kernels, op vec.ReduceOp, row []float32) float32 {
	var one [1]float32
	k.ReduceRows(op, one[:], row, len(row), 1, len(row))
	return one[0]
}

// lpRows is an LpNormalization of outer matrices of count rows and inner columns, each of which has a norm of one then. Where there is one column it is a row.
type lpRows struct{ outer, count, inner int }

func (p *planner) lpRows(n *graph.Node) lpRows {
	d := p.Dims[n.Inputs[0].ID]
	axis := axisOf(n, -1, len(d))
	return lpRows{outer: product(d[:axis]), count: d[axis], inner: product(d[axis+1:])}
}

// besidesOf emits fn for columns side by side, at most so many at a time: x and y begin with the first of them, work has room for one number of each.
func besidesOf[T float32 | float64](p *planner, n *graph.Node, l lpRows, most int, fn func(y, x, work []T)) {
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	width := min(most, l.inner)
	parts, room := ceilDiv(l.inner, width), p.scratch(8*width)
	p.emit(step{chunks: l.outer * parts, grain: grainFor(float64(l.count*width)*0.3 + 50), body: func(st *state, worker, lo, hi int) {
		x, y, work := of[T](st, src), of[T](st, dst), of[T](st, room.at.Part(worker*room.size, room.size))
		for i := lo; i < hi; i++ {
			from := i % parts * width
			at := i/parts*l.count*l.inner + from
			fn(y[at:], x[at:], work[:min(width, l.inner-from)])
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
}

// divisors makes what numbers are divided by of their norms, or where squared is set of the squares of these. Numbers whose norm is 0 are 0 then.
func divisors[T float32 | float64](norms []T, squared bool) {
	for i, x := range norms {
		if squared {
			x = T(math.Sqrt(float64(x)))
		}
		if x == 0 {
			x = T(math.Inf(1))
		}
		norms[i] = x
	}
}

func planLpNorm(p *planner, n *graph.Node) error {
	kernels, op := p.kernels, vec.ReduceSumSquares
	if n.Int("p", 2) == 1 {
		op = vec.ReduceSumAbs
	}
	l, squared := p.lpRows(n), op == vec.ReduceSumSquares
	if l.inner > 1 {
		besidesOf(p, n, l, mostBeside, func(y, x, norms []float32) {
			kernels.ReduceColumns(op, norms, x, l.inner, l.count, len(norms))
			divisors(norms, squared)
			kernels.BinaryRows(vec.Div, vec.VV, y, l.inner, x, l.inner, norms, 0, l.count, len(norms))
		})
		return nil
	}
	eachRow(p, p.In(n.Inputs[0]), p.Out(n.Outputs[0]), l.outer, l.count, func(dst, src []float32, count int) {
		for len(src) > 0 {
			var norms [32]float32
			rows := min(len(src)/count, len(norms))
			kernels.ReduceRows(op, norms[:rows], src, count, rows, count)
			divisors(norms[:rows], squared)
			kernels.BinaryRows(vec.Div, vec.VS, dst, count, src, count, norms[:rows], 1, rows, count)
			dst, src = dst[rows*count:], src[rows*count:]
		}
	})
	return nil
}

func planDoubleLpNorm(p *planner, n *graph.Node) error {
	kernels, r := p.doubles(), doubleReductions["ReduceSumSquare"]
	if n.Int("p", 2) == 1 {
		r = doubleReductions["ReduceL1"]
	}
	l, squared := p.lpRows(n), r.op == double.SumSquares
	if l.inner > 1 {
		besidesOf(p, n, l, doubleScratch, func(y, x, norms []float64) {
			r.columns(kernels, norms, x, l.count, l.inner)
			divisors(norms, squared)
			for k := range l.count {
				kernels.Binary(double.Div, double.VV, y[k*l.inner:][:len(norms)], x[k*l.inner:], norms)
			}
		})
		return nil
	}
	eachRow(p, p.In(n.Inputs[0]), p.Out(n.Outputs[0]), l.outer, l.count, eachOf(func(dst, src []float64) {
		norm := [1]float64{kernels.Reduce(r.op, src)}
		divisors(norm[:], squared)
		kernels.Binary(double.Div, double.VS, dst, src, norm[:])
	}))
	return nil
}

func planMeanVariance(p *planner, n *graph.Node) error {
	rank := len(p.Dims[n.Inputs[0].ID])
	list, ok := n.Ints("axes")
	if !ok {
		list = []int64{0, 2, 3}
	}
	axes, err := graph.NormAxes(list, rank)
	if err != nil {
		return property.Because(property.Attribute, "axes %v of rank %d", list, rank)
	}
	kernels := p.kernels
	alongAxes(p, n, axes, eachOf(func(dst, src []float32) {
		mean := reduceRow(kernels, vec.ReduceSum, src) / float32(len(src))
		kernels.BinaryScalar(vec.Sub, dst, src, mean)
		deviation := math.Sqrt(float64(reduceRow(kernels, vec.ReduceSumSquares, dst)) / float64(len(dst)))
		kernels.BinaryScalar(vec.Mul, dst, dst, float32(1/(deviation+1e-9)))
	}))
	return nil
}

// planHardmax emits one for the first of the greatest elements of a row, and zero for others.
func planHardmax(p *planner, n *graph.Node) error {
	kernels, few, rank := p.kernels, shortrow.For(p.target), len(p.Dims[n.Inputs[0].ID])
	axes := []int{axisOf(n, -1, rank)}
	if n.Op.Since < 13 {
		axes = nil
		for a := axisOf(n, 1, rank); a < rank; a++ { // all from the axis on is one row
			axes = append(axes, a)
		}
	}
	alongAxes(p, n, axes, func(dst, src []float32, count int) {
		if count <= shortrow.Longest {
			few.Mark(dst, src, count)
			return
		}
		for len(src) > 0 {
			var most [32]float32
			rows := min(len(src)/count, len(most))
			kernels.ReduceRows(vec.ReduceMax, most[:rows], src, count, rows, count)
			for r, m := range most[:rows] {
				row, best := src[r*count:][:count], 0
				if m != m {
					best = firstGreatest(row)
				} else {
					best = slices.Index(row, m)
				}
				clear(dst[r*count:][:count])
				dst[r*count+best] = 1
			}
			dst, src = dst[rows*count:], src[rows*count:]
		}
	})
	return nil
}

func init() {
	table.Register("LpNormalization", operator{Signatures: rowNormSignatures, Plan: planLpNorm})
	registerDoubles(operator{Signatures: lpNormSignatures, Plan: planDoubleLpNorm}, 0, "LpNormalization")
	table.Register("MeanVarianceNormalization", operator{Signatures: rowNormSignatures, Plan: planMeanVariance})
	table.Register("Hardmax", operator{Signatures: rowNormSignatures, Plan: planHardmax})
}
