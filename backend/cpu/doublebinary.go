package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Operators on two or more operands of float64, and comparisons.

var doubleBinaries = map[string]double.BinaryOp{
	"Add": double.Add, "Sub": double.Sub, "Mul": double.Mul, "Div": double.Div, "Max": double.Max, "Min": double.Min, "Sum": double.Add, "Mean": double.Add,
	"PRelu": double.PRelu,
}

// planDoubleBinary emits a chain of binary operators in the result's place.
func planDoubleBinary(p *planner, n *graph.Node) error {
	y := n.Outputs[0]
	dst, out, op := p.Out(y), p.laid(y), doubleBinaries[n.Op.Name]
	if len(n.Inputs) == 1 {
		p.copyStep(dst, p.In(n.Inputs[0]), p.Bytes(y))
		return nil
	}
	first := n.Inputs[0]
	p.doubleBinary(op, newBroadcast(out, p.laid(first), p.laid(n.Inputs[1])), p.In(first), p.In(n.Inputs[1]), dst)
	for _, v := range n.Inputs[2:] {
		p.doubleBinary(op, newBroadcast(out, out, p.laid(v)), dst, p.In(v), dst)
	}
	if n.Op.Name == "Mean" {
		by, kernels := float64(len(n.Inputs)), p.doubles()
		elements(p, dst, dst, product(p.Dims[y.ID]), 0.2, func(d, s []float64) {
			b := [1]float64{by}
			kernels.Binary(double.Div, double.VS, d, s, b[:])
		})
	}
	return nil
}

// settleDoubleChain is settleDouble for operands of which only the first two are read before the result is written.
func settleDoubleChain(p *planner, n *graph.Node) {
	if len(n.Inputs) == 2 {
		settleDouble(p, n)
	}
}

// doubleBinary emits an operator on float64 that broadcasts, row by row, long rows in parts.
func (p *planner) doubleBinary(op double.BinaryOp, b *broadcast, ma, mb, dst place.Memory) {
	if b.total == 0 {
		return
	}
	kernels, per := p.doubles(), ceilDiv(b.inner, elementsPerChunk)
	if j := p.joinRows(b, 8, 8); j != nil {
		joinedRows2(p, j, ma, mb, dst, func(out, x []float64, dx int, y []float64, dy int) {
			switch {
			case dy == 0:
				kernels.Binary(op, double.VS, out, x, y)
			case dx == 0:
				kernels.Binary(op, double.SV, out, x, y)
			default:
				kernels.Binary(op, double.VV, out, x, y)
			}
		})
		return
	}
	p.emit(step{chunks: b.rows * per, grain: grainFor(float64(min(b.inner, elementsPerChunk))*0.2 + 10), body: func(st *state, _, lo, hi int) {
		d, x, y := f64(st, dst), f64(st, ma), f64(st, mb)
		for c := lo; c < hi; c++ {
			row, from := c/per, c%per*elementsPerChunk
			to := min(from+elementsPerChunk, b.inner)
			at, ox, oy := b.result(row), b.offset(0, row), b.offset(1, row)
			out := d[at+from : at+to]
			switch {
			case b.inner < fewElements && op <= double.Div:
				doubleFew(op, out, x[ox:], b.step[0], y[oy:], b.step[1])
			case b.step[0] == 0 && b.step[1] == 0: // every element of the row is one number
				kernels.Binary(op, double.VV, out[:1], x[ox:], y[oy:])
				for i := range out {
					out[i] = out[0]
				}
			case b.step[1] == 0:
				kernels.Binary(op, double.VS, out, x[ox+from:], y[oy:])
			case b.step[0] == 0:
				kernels.Binary(op, double.SV, out, x[ox:], y[oy+from:])
			default:
				kernels.Binary(op, double.VV, out, x[ox+from:], y[oy+from:])
			}
		}
	}}, []place.Memory{ma, mb}, []place.Memory{dst})
}

// doubleFew is a row that is too short for a kernel.
func doubleFew(op double.BinaryOp, out, x []float64, dx int, y []float64, dy int) {
	for i := range out {
		a, b := x[i*dx], y[i*dy]
		switch op {
		case double.Add:
			a += b
		case double.Sub:
			a -= b
		case double.Mul:
			a *= b
		default:
			a /= b
		}
		out[i] = a
	}
}

func planDoublePow(p *planner, n *graph.Node) error {
	x, y, kernels := n.Inputs[0], n.Outputs[0], p.doubles()
	if e, ok := oneDouble(n.Inputs[1]); ok && sameDims(p.Dims[x.ID], p.Dims[y.ID]) {
		elements(p, p.In(x), p.Out(y), product(p.Dims[y.ID]), 3, func(d, s []float64) { doublePow(kernels, d, s, e) })
		return nil
	}
	return elementwise2Rows(p, n, func(out, s []float64, dx int, t []float64, dy int) {
		if dx == 1 && dy == 0 {
			doublePow(kernels, out, s[:len(out)], t[0])
			return
		}
		var bases, exponents [128]float64
		for at := 0; at < len(out); at += len(bases) {
			d := out[at:min(at+len(bases), len(out))]
			for i := range d {
				bases[i], exponents[i] = s[(at+i)*dx], t[(at+i)*dy]
			}
			doublePowers(kernels, d, bases[:len(d)], exponents[:len(d)])
		}
	})
}

// doublePow raises elements to one power: by products for exponents 2 and 3, quotients for -1, and else as doublePowers.
func doublePow(kernels double.Kernels, d, s []float64, e float64) {
	switch e {
	case 1:
		copy(d, s)
	case 2:
		kernels.Binary(double.Mul, double.VV, d, s, s)
	case 3:
		for i, x := range s {
			d[i] = x * x * x
		}
	case -1:
		one := [1]float64{1}
		kernels.Binary(double.Div, double.SV, d, one[:], s)
	default:
		doublePowers(kernels, d, s, []float64{e})
	}
}

// doublePowers raises elements to powers, or to a single one, as e^(y ln x), whose relative error is below 4e-15 where that exponent is below 8, and by
// math.Pow elsewhere.
func doublePowers(kernels double.Kernels, dst, src, y []float64) {
	form, step := double.VV, 1
	if len(y) == 1 {
		form, step = double.VS, 0
	}
	var exponents, powers [128]float64
	for len(src) > 0 {
		n := min(len(src), len(powers))
		kernels.Apply(double.Log, exponents[:n], src[:n])
		kernels.Binary(double.Mul, form, exponents[:n], exponents[:n], y)
		kernels.Apply(double.Exp, powers[:n], exponents[:n])
		for i, x := range src[:n] {
			if t := exponents[i]; t < 8 && t > -8 && x >= 0x1p-1022 && x <= math.MaxFloat64 {
				dst[i] = powers[i]
			} else {
				dst[i] = math.Pow(x, y[i*step])
			}
		}
		dst, src, y = dst[n:], src[n:], y[n*step:]
	}
}

// remainder is math.Mod. What is left of x less a multiple of y is exact, but that the multiple may be one too many where the quotient was rounded.
func remainder(x, y float64) float64 {
	q := x / y
	if !(math.Abs(q) < 1<<53) || !(math.Abs(y) <= math.MaxFloat64) {
		return math.Mod(x, y)
	}
	r := math.FMA(-math.Trunc(q), y, x)
	if r != 0 && (r < 0) != (x < 0) {
		r += math.Copysign(y, x)
	}
	return math.Copysign(r, x)
}

// comparesDoubles reports whether a node compares float64.
func comparesDoubles(n *graph.Node) bool {
	_, ok := doubleComparisons[n.Op.Name]
	return ok && n.Op.Domain == "" && n.Input(0) != nil && isDouble(n.Input(0))
}

var doubleComparisons = map[string]func(p *planner, n *graph.Node) error{
	"IsNaN": planDoubleTest, "IsInf": planDoubleTest,
}

// planDoubleTest emits IsNaN and IsInf of float64.
func planDoubleTest(p *planner, n *graph.Node) error { return testBits[int64](p, n, 0x7ff<<52) }

func init() {
	for _, name := range comparisons {
		doubleComparisons[name] = func(p *planner, n *graph.Node) error {
			return elementwise2Rows(p, n, compareRow[float64](p.target.Set, name))
		}
	}
	for name, plan := range doubleComparisons {
		registerDoubles(operator{Plan: plan}, 0, name)
	}
	for name := range doubleBinaries {
		registerDoubles(operator{Settle: settleDoubleChain, Plan: planDoubleBinary}, 0, name)
	}
	registerDoubles(operator{Plan: planDoublePow}, 0, "Pow")
	registerDoubles(operator{Signatures: func(n *graph.Node) ([]graph.Signature, *property.Reason) {
		if n.Int("fmod", 0) == 0 {
			return nil, property.Because(property.Attribute, "remainders of float64 with the sign of the dividend only")
		}
		return operators.RowMajor(n), nil
	}, Plan: func(p *planner, n *graph.Node) error { return elementwise2(p, n, remainder) }}, 0, "Mod")
}
