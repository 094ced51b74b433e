package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// reduction is how one of the Reduce operators is made of a kernel and a function of its result.
type reduction struct {
	op   vec.ReduceOp
	mean bool
	then activation
}

var reductions = map[string]reduction{
	"ReduceSum":       {op: vec.ReduceSum},
	"ReduceMean":      {op: vec.ReduceSum, mean: true},
	"ReduceMax":       {op: vec.ReduceMax},
	"ReduceMin":       {op: vec.ReduceMin},
	"ReduceSumSquare": {op: vec.ReduceSumSquares},
	"ReduceL1":        {op: vec.ReduceSumAbs},
	"ReduceL2":        {op: vec.ReduceSumSquares, then: activation{some: true, op: vec.Sqrt}},
	"ReduceLogSum":    {op: vec.ReduceSum, then: activation{some: true, op: vec.Log}},
	logSumExpName:     {op: vec.ReduceMax}, // the greatest, and what reduceLogSumExp makes with it
}

const logSumExpName = "ReduceLogSumExp"

// reduceAxes returns the axes of a reduction, known at compile time.
func reduceAxes(n *graph.Node) (axes []int, ok bool) {
	var list []int
	if v := fuse.Behind(n.Input(1)); v != nil {
		if !v.IsConst() || v.Dims == nil {
			return nil, false
		}
		for _, d := range v.Dims {
			c, _ := d.Const()
			list = append(list, int(c))
		}
	} else {
		list = toInts(n, "axes")
	}
	return reducedAxes(n, list)
}

// reducedAxes returns the axes that a list names, sorted: all of them where it names none, unless nothing is reduced then.
func reducedAxes(n *graph.Node, list []int) (axes []int, ok bool) {
	rank := len(n.Inputs[0].Type.Shape)
	if len(list) == 0 {
		if n.Int("noop_with_empty_axes", 0) != 0 {
			return nil, false
		}
		for i := range rank {
			axes = append(axes, i)
		}
		return axes, true
	}
	seen := make([]bool, rank)
	for _, a := range list {
		if a < 0 {
			a += rank
		}
		if a < 0 || a >= rank {
			return nil, false
		}
		seen[a] = true
	}
	for i, s := range seen {
		if s {
			axes = append(axes, i)
		}
	}
	return axes, true
}

// unknownAxes returns why the axes of a reduction are not known where its group is specialised.
func unknownAxes(n *graph.Node) *property.Reason {
	if _, ok := reduceAxes(n); ok {
		return nil
	}
	if v := n.Input(1); v == nil || !place.Told(n, v) || len(v.Dims) == 0 {
		return property.Because(property.Attribute, "axes of %v are not known at compile time", n)
	}
	return nil
}

// reduceAxes returns the axes of a reduction, which may be known since shapes are.
func (p *planner) reduceAxes(n *graph.Node) ([]int, error) {
	if axes, ok := reduceAxes(n); ok {
		return axes, nil
	}
	list, err := p.Ints(n.Input(1))
	if err != nil {
		return nil, err
	}
	axes, ok := reducedAxes(n, list)
	if !ok {
		return nil, property.Because(property.Attribute, "axes %v of %v", list, n)
	}
	return axes, nil
}

func reduceSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	plainly := reducesPlainly(n)
	if _, ok := reductions[n.Op.Name]; !ok && !plainly {
		return nil, property.Because(property.DTypeReason, "%v is %v", x, x.Type.DType)
	}
	if !plainly && !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	plain := operators.RowMajor(n)
	if chooses(n) {
		return plain, nil
	}
	if why := unknownAxes(n); why != nil {
		return nil, why
	}
	if plainly {
		return plain, nil
	}
	if reducesBlocks(n) {
		return append(globalPoolSignatures(n, n.Int("keepdims", 1) != 0), plain...), nil
	}
	return plain, nil
}

func planReduce(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if x.Format == blocked {
		if n.Is("ReduceMean") {
			return planGlobalPool(p, n)
		}
		p.reduceBlocks(n)
		return nil
	}
	if reducesPlainly(n) {
		return planReducePlainly(p, n)
	}
	axes, err := p.reduceAxes(n)
	if err != nil {
		return err
	}
	l, dst, r := p.reduced(p.Dims[x.ID], axes, 4, p.In(x)), p.Out(y), reductions[n.Op.Name]
	if n.Is(logSumExpName) {
		p.reduceLogSumExp(l, dst)
		return nil
	}
	switch {
	case l.count == 1 && r.keepsOne() && l.src.Pitch == 0 && dst.Pitch == 0:
		p.copyStep(dst, l.src, 4*l.outer*l.inner)
	case l.inner == 1:
		p.reduceRows(r, l.src, dst, l.outer, l.count)
	default:
		p.reduceColumns(r, l.src, dst, l.outer, l.count, l.inner)
	}
	return nil
}

// reducedPlace is a tensor seen as [outer, count, inner], of which count is reduced.
type reducedPlace struct {
	src                 place.Memory
	outer, count, inner int
}

// reduced returns a tensor of dims d, of elements of size bytes, in an order in which the axes to reduce are adjacent.
func (p *planner) reduced(d, axes []int, size int, src place.Memory) reducedPlace {
	l := reducedPlace{src: src}
	var ok bool
	if l.outer, l.count, l.inner, ok = adjacentAxes(d, axes); ok {
		return l
	}
	perm, kept := lastAxes(len(d), axes)
	l = reducedPlace{p.Temp(product(d) * size), 1, 1, 1}
	p.permute(d, perm, size, src, l.src)
	for i, a := range perm {
		if i < kept {
			l.outer *= d[a]
		} else {
			l.count *= d[a]
		}
	}
	return l
}

// reduceStrided is the Strided of reductions: of operands whose strided rows hold all that is reduced to one element, or to a
// row of elements, and of results that are computed row by row.
func reduceStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	x := n.Inputs[0]
	if x.Format == blocked {
		return v == x && p.wholeImages(v, m)
	}
	if reducesPlainly(n) || n.Is(logSumExpName) || product(p.Dims[x.ID]) == 0 {
		return false
	}
	axes, err := p.reduceAxes(n)
	if err != nil {
		return false
	}
	_, count, inner, ok := adjacentAxes(p.Dims[x.ID], axes)
	if !ok {
		return v == x && operators.WholeDims(p, n, v, m)
	}
	if v != x {
		return inner > 1
	}
	_, ok = m.Runs(4 * count * inner)
	return ok
}

// adjacentAxes returns dims as [outer, count, inner] where the axes to reduce, which are sorted, are adjacent as count: only
// dims of 1 lie between them.
func adjacentAxes(d, axes []int) (outer, count, inner int, ok bool) {
	outer, count, inner = 1, 1, 1
	reduced := make([]bool, len(d))
	for _, a := range axes {
		reduced[a] = true
	}
	begun, ended := false, false
	for a, k := range d {
		switch {
		case k == 1:
		case reduced[a]:
			if ended {
				return 0, 0, 0, false
			}
			begun = true
			count *= k
		case begun:
			ended = true
			inner *= k
		default:
			outer *= k
		}
	}
	return outer, count, inner, true
}

// lastAxes returns a permutation that puts axes behind the others, and the number of those.
func lastAxes(rank int, axes []int) (perm []int, kept int) {
	for a := range rank {
		if !slices.Contains(axes, a) {
			perm = append(perm, a)
		}
	}
	return append(perm, axes...), len(perm)
}

// keepsOne reports whether the result for one element is that element.
func (r *reduction) keepsOne() bool {
	return !r.then.some && (r.op == vec.ReduceSum || r.op == vec.ReduceMax || r.op == vec.ReduceMin)
}

// Rows of few elements are turned, some at a time, and reduced as columns: a kernel's work for a row is mostly the same for one element and for many.
const (
	fewInRow   = 8
	turnedRows = 256
	leastRows  = 32
)

// reduceFew emits reduceRows of so few elements.
func (p *planner) reduceFew(r reduction, src, dst place.Memory, rows, count int) {
	kernels, target, scale := p.kernels, p.target, 1/float32(count)
	room := p.scratch(4 * turnedRows * count)
	p.emit(step{chunks: rows, grain: grainFor(float64(count)), body: func(st *state, worker, lo, hi int) {
		o, s, turned := st.F32(dst), st.F32(src), room.floats(st, worker)
		for lo < hi {
			n := min(hi-lo, turnedRows)
			reorder.Transpose2D(target, turned, s[lo*count:], n, count, count, turnedRows)
			kernels.ReduceColumns(r.op, o[lo:lo+n], turned, turnedRows, count, n)
			if r.mean {
				kernels.BinaryScalar(vec.Mul, o[lo:lo+n], o[lo:lo+n], scale)
			}
			if r.then.some {
				kernels.Apply(r.then.op, o[lo:lo+n], o[lo:lo+n], r.then.params)
			}
			lo += n
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
}

func (p *planner) reduceRows(r reduction, src, dst place.Memory, rows, count int) {
	if count > 1 && count <= fewInRow && rows >= leastRows && src.Pitch == 0 && dst.Pitch == 0 {
		p.reduceFew(r, src, dst, rows, count)
		return
	}
	kernels := p.kernels
	p.rows(src, dst, rows, float64(count)*0.1, func(o []float32, _ int, s []float32, lds, rows int) {
		if r.mean {
			kernels.Mean(o, s, lds, rows, count)
		} else {
			kernels.ReduceRows(r.op, o, s, lds, rows, count)
		}
		if r.then.some {
			kernels.Apply(r.then.op, o, o, r.then.params)
		}
	}, 1, count)
}

func (p *planner) reduceColumns(r reduction, src, dst place.Memory, outer, count, inner int) {
	scale, kernels := 1/float32(max(count, 1)), p.kernels
	reads, _ := src.Runs(4 * count * inner)
	p.emit(step{chunks: outer, grain: grainFor(float64(count*inner) * 0.1), body: func(st *state, _, lo, hi int) {
		o, s := st.F32(dst), st.F32(src)
		for i := lo; i < hi; i++ {
			of, _ := reads.At(i, 1)
			for k := 0; k < inner; {
				at, n := dst.Piece(4*(i*inner+k), 4*(inner-k))
				row := o[at/4:][:n/4]
				kernels.ReduceColumns(r.op, row, s[of/4+k:][:(count-1)*inner+len(row)], inner, count, len(row))
				if r.mean {
					kernels.BinaryScalar(vec.Mul, row, row, scale)
				}
				if r.then.some {
					kernels.Apply(r.then.op, row, row, r.then.params)
				}
				k += len(row)
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

// logSumPart is how many elements reduceLogSumExp raises at a time.
const logSumPart = 256

// reduceLogSumExp emits ln Σ e^x, row by row, the reduced axes last: the greatest element is taken off first, and where it is infinite or
// NaN it is the result.
func (p *planner) reduceLogSumExp(l reducedPlace, dst place.Memory) {
	if l.inner != 1 {
		t := p.Temp(4 * l.outer * l.count * l.inner)
		p.permute([]int{l.outer, l.count, l.inner}, []int{0, 2, 1}, 4, l.src, t)
		l = reducedPlace{src: t, outer: l.outer * l.inner, count: l.count, inner: 1}
	}
	kernels, room := p.kernels, p.scratch(4*2*logSumPart)
	if l.count <= logSumPart/2 {
		p.emit(step{chunks: l.outer, grain: grainFor(float64(l.count)*0.5 + 20), body: func(st *state, worker, lo, hi int) {
			o, s, free := st.F32(dst), st.F32(l.src), room.floats(st, worker)
			for together := logSumPart / l.count; lo < hi; lo += together {
				n := min(together, hi-lo)
				logSumExpShort(kernels, o[lo:lo+n], s[lo*l.count:], free, l.count)
			}
		}}, []place.Memory{l.src}, []place.Memory{dst, room.at})
		return
	}
	p.emit(step{chunks: l.outer, grain: grainFor(float64(l.count)*0.5 + 20), body: func(st *state, worker, lo, hi int) {
		o, s, part := st.F32(dst), st.F32(l.src), room.floats(st, worker)
		part, one := part[:logSumPart], part[logSumPart:][:1]
		for i := lo; i < hi; i++ {
			row := s[i*l.count : (i+1)*l.count]
			kernels.ReduceRows(vec.ReduceMax, one, row, l.count, 1, l.count)
			o[i] = one[0]
			if most := float64(one[0]); !math.IsInf(most, 0) && most == most {
				sum, greatest := 0.0, one[0]
				for len(row) > 0 {
					e := part[:min(len(row), logSumPart)]
					kernels.BinaryScalar(vec.Add, e, row[:len(e)], -greatest)
					kernels.Apply(vec.Exp, e, e, vec.Params{})
					kernels.ReduceRows(vec.ReduceSum, one, e, len(e), 1, len(e))
					sum, row = sum+float64(one[0]), row[len(e):]
				}
				o[i] = float32(most + math.Log(sum))
			}
		}
	}}, []place.Memory{l.src}, []place.Memory{dst, room.at})
}

// logSumExpShort is ln Σ e^x of rows of count elements, of logSumPart at most together; free has room for twice as many.
func logSumExpShort(kernels vec.Kernels, dst, rows, free []float32, count int) {
	e, sums, n := free[:logSumPart], free[logSumPart:], len(dst)
	kernels.ReduceRows(vec.ReduceMax, dst, rows, count, n, count)
	for i, most := range dst {
		row := rows[i*count:][:count]
		for j, x := range row {
			e[i*count+j] = x - most
		}
	}
	kernels.Apply(vec.Exp, e[:n*count], e[:n*count], vec.Params{})
	kernels.ReduceRows(vec.ReduceSum, sums[:n], e, count, n, count)
	for i, greatest := range dst {
		if most := float64(greatest); !math.IsInf(most, 0) && most == most {
			dst[i] = float32(most + math.Log(float64(sums[i])))
		}
	}
}

func init() {
	table.Register("ReduceProd", operator{Signatures: reduceSignatures, Plan: whereEmpty(planReduce), Strided: reduceStrided})
	for name := range reductions {
		table.Register(name, operator{Signatures: reduceSignatures, Plan: whereEmpty(planReduce), Strided: reduceStrided})
	}
}
