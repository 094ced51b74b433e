package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Comparisons, boolean operators, Where and Pow: row-major, by plain loops except where floats are many.

type ordered interface {
	float32 | float64 | integer
}

var comparisons = []string{"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}

func compareSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := alignsByAxis(n); why != nil {
		return nil, why
	}
	a := n.Input(0)
	if operators.IsFloat32(a) || isWhole(a) || a.Type.DType == tensor.Bool && n.Op.Name == "Equal" {
		return operators.RowMajor(n), nil
	}
	return nil, operators.NotFloat32(a)
}

func planCompare(p *planner, n *graph.Node) error {
	switch a := n.Inputs[0]; {
	case isWhole(a):
		return integerKinds[a.Type.DType].compare(p, n)
	case operators.IsFloat32(a):
		return elementwise2Rows(p, n, compareRow[float32](p.target.Set, n.Op.Name))
	}
	return elementwise2Rows(p, n, compareRow[uint8](p.target.Set, "Equal"))
}

func boolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := alignsByAxis(n); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

func planBool(p *planner, n *graph.Node) error {
	op := map[string]element.Op{"And": element.And, "Or": element.Or, "Xor": element.Xor}[n.Op.Name]
	return elementwise2Rows(p, n, vectorRow[uint8](p.target.Set, op))
}

func planNot(p *planner, n *graph.Node) error {
	set := p.target.Set
	return elementsOf(p, n, func(dst, src []uint8) { element.Binary(set, element.Xor, dst, src, []uint8{1}) })
}

func whereSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	switch n.Inputs[1].Type.DType.Size() {
	case 1, 2, 4, 8:
		return operators.RowMajor(n), nil
	}
	return nil, operators.NotFloat32(n.Inputs[1])
}

func planWhere(p *planner, n *graph.Node) error {
	switch n.Inputs[1].Type.DType.Size() {
	case 1:
		return where[uint8](p, n)
	case 2:
		return where[uint16](p, n)
	case 4:
		return where[uint32](p, n)
	}
	return where[uint64](p, n)
}

func where[T element.Bits](p *planner, n *graph.Node) error {
	c, x, y, r := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.Outputs[0]
	mc, mx, my, dst := p.In(c), p.In(x), p.In(y), p.Out(r)
	b := newBroadcast(p.laid(r), p.laid(c), p.laid(x), p.laid(y))
	if b.total == 0 {
		return nil
	}
	set := p.target.Set
	if b.step[0] == 1 || b.inner < copiedRow { // else one condition is for a row
		if j := p.joinRows(b, 1, sizeOf[T](), sizeOf[T]()); j != nil {
			joinedWhere[T](p, j, mc, mx, my, dst)
			return nil
		}
	}
	p.emit(step{chunks: b.rows, grain: grainFor(float64(b.inner) + 10), body: func(st *state, _, lo, hi int) {
		d, cond, s, t := of[T](st, dst), of[uint8](st, mc), of[T](st, mx), of[T](st, my)
		for row := lo; row < hi; row++ {
			at := b.result(row)
			whereRow(set, d[at:at+b.inner], cond[b.offset(0, row):], b.step[0], s[b.offset(1, row):], b.step[1], t[b.offset(2, row):], b.step[2])
		}
	}}, []place.Memory{mc, mx, my}, []place.Memory{dst})
	return nil
}

// copiedRow is how long a row is at least that is copied for one condition sooner than joined with others.
const copiedRow = 32

// joinedWhere emits a Where over rows that are taken together.
func joinedWhere[T element.Bits](p *planner, j *joined, mc, mx, my, dst place.Memory) {
	set := p.target.Set
	p.emit(step{chunks: j.chunks(), grain: grainFor(float64(j.some*j.inner) + 20), body: func(st *state, worker, lo, hi int) {
		d, cond, s, t := of[T](st, dst), of[uint8](st, mc), of[T](st, mx), of[T](st, my)
		j.each(lo, hi, func(first, rows int, again bool) {
			c, dc := layRows(j, st, worker, 0, cond, first, rows, again)
			x, dx := layRows(j, st, worker, 1, s, first, rows, again)
			y, dy := layRows(j, st, worker, 2, t, first, rows, again)
			whereRow(set, d[j.result(first):][:rows*j.inner], c, dc, x, dx, y, dy)
		})
	}}, []place.Memory{mc, mx, my}, append(j.memory(), dst))
}

func powSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := alignsByAxis(n); why != nil {
		return nil, why
	}
	x, e := n.Inputs[0], n.Inputs[1]
	for _, v := range n.Inputs {
		if !operators.IsFloat32(v) && v.Type.DType != tensor.Int32 && v.Type.DType != tensor.Int64 {
			return nil, property.Because(property.DTypeReason, "no power of %v and %v", x.Type.DType, e.Type.DType)
		}
	}
	if y, ok := fuse.Scalar(e); ok && y > 0 && operators.IsFloat32(x) && x.Type.Shape.Equal(n.Outputs[0].Type.Shape) { // padding stays 0
		return followSignatures(n, 1), nil
	}
	return operators.RowMajor(n), nil
}

// scalarPower returns the exponent of a Pow that raises each element to the same one.
func scalarPower(p *planner, n *graph.Node) (y float32, ok bool) {
	if !operators.IsFloat32(n.Inputs[0]) {
		return 0, false
	}
	if y, ok = fuse.Scalar(n.Inputs[1]); !ok && isWhole(n.Inputs[1]) {
		const exact = 1 << 24
		var e int64
		e, ok = constInt(n.Inputs[1])
		y, ok = float32(e), ok && -exact <= e && e <= exact
	}
	return y, ok && sameDims(p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID])
}

func settlePow(p *planner, n *graph.Node) {
	if _, ok := scalarPower(p, n); ok {
		overFirst(p, n)
	}
}

func planPow(p *planner, n *graph.Node) error {
	kernels, set := p.kernels, p.target.Set
	if y, ok := scalarPower(p, n); ok {
		elements(p, p.In(n.Inputs[0]), p.Out(n.Outputs[0]), p.stored(n.Outputs[0]), 0.12, func(d, s []float32) { kernels.Pow(d, s, y) })
		return nil
	}
	switch n.Inputs[0].Type.DType {
	case tensor.Int32:
		return powersOf(p, n, func(x float64) int32 { return int32(cast.Whole(x)) }, wholePowers[int32, int32](set), wholePowers[int32, int64](set))
	case tensor.Int64:
		return powersOf(p, n, cast.Whole[float64], wholePowers[int64, int32](set), wholePowers[int64, int64](set))
	}
	if operators.IsFloat32(n.Inputs[1]) {
		return elementwise2Rows(p, n, floatPowers[float32](kernels))
	}
	return powersOf(p, n, func(x float64) float32 { return float32(x) }, floatPowers[int32](kernels), floatPowers[int64](kernels))
}

// powersOf emits powers of elements T by whatever type their exponents have: of float32 they are made of float64.
func powersOf[T float32 | int32 | int64](p *planner, n *graph.Node, of func(x float64) T, by32 row2[T, int32, T], by64 row2[T, int64, T]) error {
	switch n.Inputs[1].Type.DType {
	case tensor.Int32:
		return elementwise2Rows(p, n, by32)
	case tensor.Int64:
		return elementwise2Rows(p, n, by64)
	}
	return elementwise2Rows(p, n, powersByFloats(of, by64))
}

// powersByFloats returns the loop over a row of powers of integers by float32: whole ones where those by one of 0 to 3 are so small that float64 holds them.
func powersByFloats[T float32 | int32 | int64](of func(x float64) T, whole row2[T, int64, T]) row2[T, float32, T] {
	each := each2(func(a T, b float32) T { return of(math.Pow(float64(a), float64(b))) })
	exponents := []int64{0, 1, 2, 3}
	limits := [...]int64{math.MaxInt64, 1 << 53, 1 << 26, 1 << 17}
	return func(out, s []T, dx int, t []float32, dy int) {
		y := t[0]
		if dx == 1 && dy == 0 && (y == 0 || y == 1 || y == 2 || y == 3) {
			if sizes(s[:len(out)]) < limits[int(y)] {
				whole(out, s, dx, exponents[int(y):], 0)
				return
			}
		}
		each(out, s, dx, t, dy)
	}
}

// sizes returns the bits of all numbers, those of negative ones turned over, in one.
func sizes[T float32 | int32 | int64](x []T) int64 {
	var a, b, c, d int64 // each waits for itself
	for ; len(x) >= 4; x = x[4:] {
		a |= int64(x[0]) ^ int64(x[0])>>63
		b |= int64(x[1]) ^ int64(x[1])>>63
		c |= int64(x[2]) ^ int64(x[2])>>63
		d |= int64(x[3]) ^ int64(x[3])>>63
	}
	for _, v := range x {
		a |= int64(v) ^ int64(v)>>63
	}
	return a | b | c | d
}

// floatPowers returns the loop over a row of powers of float32: those of package vec, or of math for exponents that are larger than all whole numbers
// that float32 holds.
func floatPowers[E float32 | int32 | int64](kernels vec.Kernels) row2[float32, E, float32] {
	const most = 1 << 24
	return func(out, s []float32, dx int, t []E, dy int) {
		if y := t[0]; dx == 1 && dy == 0 && -most <= y && y <= most {
			kernels.Pow(out, s[:len(out)], float32(y))
			return
		}
		if e, ok := any(t).([]float32); ok && (dx == 1 || dy == 1) {
			kernels.Powers(out, s[:max(len(out)*dx, 1)], e, dy)
			return
		}
		var bases, exponents [256]float32
		for at := 0; at < len(out); at += len(bases) {
			d := out[at:min(at+len(bases), len(out))]
			x, y, held := bases[:len(d)], exponents[:len(d)], true
			for i := range d {
				e := t[(at+i)*dy]
				x[i], y[i], held = s[(at+i)*dx], float32(e), held && -most <= e && e <= most
			}
			if held {
				kernels.Powers(d, x, y, 1)
				continue
			}
			for i := range d {
				d[i] = float32(math.Pow(float64(x[i]), float64(t[(at+i)*dy])))
			}
		}
	}
}

// wholePowers returns the loop over a row of powers of integers.
func wholePowers[T, E int32 | int64](set isa.Set) row2[T, E, T] {
	return func(out, s []T, dx int, t []E, dy int) {
		if dx != 1 || dy != 0 || t[0] < 0 {
			each2(func(a T, b E) T { return T(wholePower(int64(a), int64(b))) })(out, s, dx, t, dy)
			return
		}
		if t[0] == 2 {
			element.Binary(set, element.Mul, out, s[:len(out)], s[:len(out)])
			return
		}
		var factors [512]T
		for at := 0; at < len(out); at += len(factors) {
			d := out[at:min(at+len(factors), len(out))]
			f := factors[:copy(factors[:], s[at:][:len(d)])]
			made := false
			for y := t[0]; y != 0; y >>= 1 {
				if made && y&1 != 0 {
					element.Binary(set, element.Mul, d, d, f)
				} else if y&1 != 0 {
					made = copy(d, f) > 0
				}
				if y > 1 {
					element.Binary(set, element.Mul, f, f, f)
				}
			}
			if !made {
				setAll(d, 1)
			}
		}
	}
}

// wholePower returns x to the power of y, which wraps around; of negative y it is truncated.
func wholePower(x, y int64) int64 {
	if y < 0 {
		if x != 1 && x != -1 {
			return 0
		}
		y = -y
	}
	r := int64(1)
	for ; y != 0; y = int64(uint64(y) >> 1) {
		if y&1 != 0 {
			r *= x
		}
		x *= x
	}
	return r
}

func init() {
	for _, name := range comparisons {
		table.Register(name, operator{Signatures: compareSignatures, Plan: planCompare, Strided: operators.WholeDims[*planner]})
	}
	for _, name := range []string{"And", "Or", "Xor"} {
		table.Register(name, operator{Signatures: boolSignatures, Plan: planBool, Strided: operators.WholeDims[*planner]})
	}
	table.Register("Not", operator{Signatures: boolSignatures, Plan: planNot, Strided: anyRows})
	table.Register("Where", operator{Signatures: whereSignatures, Plan: planWhere, Strided: operators.WholeDims[*planner]})
	table.Register("Pow", operator{Signatures: powSignatures, Settle: settlePow, Plan: planPow, Strided: operators.WholeDims[*planner]})
}
