package cpu

import (
	"math"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Functions without kernels in package vec, and tests of elements, row-major.

// floatFunctions are functions of float64 as package math has them.
var floatFunctions = map[string]func(float64) float64{
	"Tan": math.Tan, "Sinh": math.Sinh, "Cosh": math.Cosh, "Asinh": math.Asinh, "Acosh": math.Acosh, "Atanh": math.Atanh,
}

// inverse is an inverse hyperbolic function of float32, which is computed in float64: as a logarithm of elements that lie between least and most, nearer to 0 than
// tiny as x + cubic·x³, of which 1e-14 is missing, and by package math elsewhere.
type inverse struct {
	least, most, cubic float64
	fn                 func(x float64) float64
	logarithm          func(k double.Kernels, t, x []float64) // of |x| to t; x may be overwritten
}

const tiny = 0x1p-12

var inverses = map[string]inverse{
	"Asinh": {tiny, math.MaxFloat32, -1.0 / 6, math.Asinh, func(k double.Kernels, t, x []float64) { // ln(√(x² + 1) + x)
		k.Binary(double.Mul, double.VV, t, x, x)
		k.Binary(double.Add, double.VS, t, t, []float64{1})
		k.Apply(double.Sqrt, t, t)
		k.Binary(double.Add, double.VV, t, t, x)
		k.Apply(double.Log, t, t)
	}},
	"Acosh": {1, math.MaxFloat32, 0, math.Acosh, func(k double.Kernels, t, x []float64) { // ln(√(x² - 1) + x)
		k.Binary(double.Mul, double.VV, t, x, x)
		k.Binary(double.Sub, double.VS, t, t, []float64{1})
		k.Apply(double.Sqrt, t, t)
		k.Binary(double.Add, double.VV, t, t, x)
		k.Apply(double.Log, t, t)
	}},
	"Atanh": {tiny, 1 - 0x1p-24, 1.0 / 3, math.Atanh, func(k double.Kernels, t, x []float64) { // ln((1 + x) / (1 - x)) / 2
		k.Binary(double.Add, double.VS, t, x, []float64{1})
		k.Binary(double.Sub, double.SV, x, []float64{1}, x)
		k.Binary(double.Div, double.VV, t, t, x)
		k.Apply(double.Log, t, t)
		k.Scale(t, t, 0.5)
	}},
}

func functionSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	return operators.RowMajor(n), nil
}

func planInverse(p *planner, n *graph.Node) error {
	f, kernels, set := inverses[n.Op.Name], p.doubles(), p.target.Set
	return elementsOf(p, n, func(d, s []float32) {
		var wide, logs [256]float64
		for len(d) > 0 {
			x := wide[:min(len(wide), len(d))]
			t := logs[:len(x)]
			cast.Doubles(set, x, s[:len(x)])
			kernels.Apply(double.Abs, x, x)
			f.logarithm(kernels, t, x)
			f.finish(d, s[:len(x)], t)
			d, s = d[len(x):], s[len(x):]
		}
	})
}

// finish writes the function of elements of which there are logarithms.
func (f *inverse) finish(d, s []float32, logs []float64) {
	for i, v := range s {
		x, y := float64(v), logs[i]
		switch a := math.Abs(x); {
		case a >= f.least && a <= f.most && (x > 0 || f.cubic != 0):
			y = math.Copysign(y, x)
		case a < tiny && f.cubic != 0:
			y = x + f.cubic*x*x*x
		default:
			y = f.fn(x)
		}
		d[i] = float32(y)
	}
}

// testSignatures takes float32 and numbers of half precision as they are.
func testSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if isHalf(n.Inputs[0].Type.DType) {
		return operators.RowMajor(n), nil
	}
	return functionSignatures(n)
}

// planTest emits IsNaN and IsInf of float32 and of half precision.
func planTest(p *planner, n *graph.Node) error {
	switch n.Inputs[0].Type.DType {
	case tensor.Float16:
		return testBits[int16](p, n, 0x7c00)
	case tensor.BFloat16:
		return testBits[int16](p, n, 0x7f80)
	}
	return testBits[int32](p, n, 0x7f800000)
}

// testBits emits IsNaN and IsInf, by the bits of elements and those of infinity.
func testBits[T int16 | int32 | int64](p *planner, n *graph.Node, infinite T) error {
	set := p.target.Set
	up, down := n.Int("detect_positive", 1) != 0, n.Int("detect_negative", 1) != 0
	sign := T(-1) << (8*unsafe.Sizeof(infinite) - 1)
	return elementsOf(p, n, func(d []bool, s []T) {
		switch {
		case n.Is("IsNaN"):
			element.Magnitudes(set, element.Greater, d, s, infinite)
		case up && down:
			element.Magnitudes(set, element.Equal, d, s, infinite)
		case up:
			element.Compare(set, element.Equal, d, s, []T{infinite})
		case down:
			element.Compare(set, element.Equal, d, s, []T{sign | infinite})
		default:
			clear(d)
		}
	})
}

// Abs, Neg, Sign, Relu, Shrink, Clip and BitwiseNot of integers.

// isWhole reports whether v is a tensor of integers of 8 to 64 bits.
func isWhole(v *graph.Value) bool {
	if v == nil || !v.Type.IsTensor() {
		return false
	}
	_, ok := integerKinds[v.Type.DType]
	return ok
}

// clipsBetween reports whether a node is a Clip whose bounds are operands that are read when it runs: of integers, or not constant.
func clipsBetween(n *graph.Node) bool {
	if !n.Is("Clip") || n.Op.Since < 11 {
		return false
	}
	for _, v := range n.Inputs[1:] {
		if v != nil && len(v.Type.Shape) != 0 {
			return false
		}
	}
	if isWhole(n.Inputs[0]) {
		return true
	}
	_, fixed := activationOf(n)
	return operators.IsFloat32(n.Inputs...) && !fixed
}

// integerUnary returns what plans a node on integers, and a Clip of float32 between bounds that are not constant; nil for others.
func integerUnary(n *graph.Node) func(p *planner, n *graph.Node) error {
	kind, whole := integerKinds[n.Inputs[0].Type.DType]
	switch {
	case clipsBetween(n) && whole:
		return kind.clip
	case clipsBetween(n):
		return planClipFloats
	case whole && n.Is("Abs", "Neg", "Sign", "Relu", "Shrink"):
		return kind.unary
	case whole && n.Is("BitwiseNot"):
		return planBitwiseNot
	}
	return nil
}

func planInteger[T integer](p *planner, n *graph.Node) error {
	set, minus := p.target.Set, ^T(0)
	switch n.Op.Name {
	case "Neg":
		return elementsOf(p, n, func(d, s []T) { negatives(set, d, s) })
	case "Abs":
		return elementsOf(p, n, func(d, s []T) { magnitudes(set, d, s) })
	case "Shrink":
		return planShrinkIntegers[T](p, n)
	case "Relu":
		return elementsOf(p, n, func(d, s []T) { element.Binary(set, element.Max, d, s, []T{0}) })
	}
	return elementsOf(p, n, func(d, s []T) { // the sign: between -1 and 1
		element.Binary(set, element.Min, d, s, []T{1})
		if minus < 0 {
			element.Binary(set, element.Max, d, d, []T{minus})
		}
	})
}

// planShrinkIntegers emits a Shrink of integers: in float64, and cast to their type, as in package reference, or in integers where that is the same.
func planShrinkIntegers[T integer](p *planner, n *graph.Node) error {
	beyond, bias := float64(n.Float("lambd", 0.5)), float64(n.Float("bias", 0))
	kind, set := castKinds[n.Inputs[0].Type.DType], p.target.Set
	const most = 1 << 52 // of which float64 holds sums
	whole := beyond == beyond && bias == math.Trunc(bias) && math.Abs(bias) <= math.MaxUint32
	above, below, by := int64(min(max(math.Floor(beyond), -most), most)), int64(min(max(math.Ceil(-beyond), -most), most)), int64(0)
	if whole {
		by = int64(bias)
	}
	if whole && kind.Size() < 8 {
		return elementsOf(p, n, func(d, s []T) { shrinkIntegers(d, s, above, below, by) })
	}
	return elementsOf(p, n, func(d, s []T) {
		var wide [wideScratch]float64
		for len(s) > 0 {
			part := s[:min(len(s), len(wide))]
			if whole && areLess(part, most) {
				shrinkIntegers(d, part, above, below, by)
			} else {
				x := wide[:len(part)]
				cast.Elements(set, asBytes(x), cast.Float64, asBytes(part), kind, len(x))
				shrinkDouble(x, x, beyond, bias)
				cast.Elements(set, asBytes(d), kind, asBytes(x), cast.Float64, len(x))
			}
			d, s = d[len(part):], s[len(part):]
		}
	})
}

// areLess reports whether the sizes of integers are below most, a power of two, or at it where they are negative.
func areLess[T integer](s []T, most uint64) bool {
	beyond, least := uint64(0), most
	if ^T(0) > 0 {
		least = 0
	}
	for _, x := range s {
		beyond |= uint64(x) + least
	}
	return beyond < least+most
}

// shrinkIntegers takes by off what is greater than above, adds it to what is less than below, which comes first, and clears the rest.
func shrinkIntegers[T integer](d, s []T, above, below, by int64) {
	d = d[:len(s)]
	for i, x := range s {
		v, y := int64(x), int64(0)
		if v > above {
			y = v - by
		}
		if v < below {
			y = v + by
		}
		d[i] = T(y)
	}
}

// magnitudes writes the sizes of integers, which may lie in their place.
func magnitudes[T integer](set isa.Set, dst, src []T) {
	if ^T(0) > 0 {
		copy(dst, src)
		return
	}
	element.Binary(set, element.Apart, dst, src, []T{0})
}

// noughts are elements that are 0, of any type.
var noughts [256]uint64

// negatives writes the negatives of integers, which may lie in their place: a difference takes less than a product.
func negatives[T integer](set isa.Set, dst, src []T) {
	zeros := place.Elements[T](asBytes(noughts[:]))
	for at := 0; at < len(dst); at += len(zeros) {
		d := dst[at:min(at+len(zeros), len(dst))]
		element.Binary(set, element.Sub, d, zeros[:len(d)], src[at:][:len(d)])
	}
}

// planBitwiseNot emits BitwiseNot of integers of any size: of their bytes.
func planBitwiseNot(p *planner, n *graph.Node) error {
	src, dst, set := p.In(n.Inputs[0]), p.Out(n.Outputs[0]), p.target.Set
	const part = 4 * elementsPerChunk
	size := p.Bytes(n.Outputs[0])
	p.emit(step{chunks: ceilDiv(size, part), grain: grainFor(part * 0.05), body: func(st *state, _, lo, hi int) {
		lo, hi = lo*part, min(hi*part, size)
		element.Binary(set, element.Xor, st.Bytes(dst)[lo:hi], st.Bytes(src)[lo:hi], []uint8{math.MaxUint8})
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

// planClipIntegers emits a Clip of integers between bounds that are read when it runs.
func planClipIntegers[T integer](p *planner, n *graph.Node) error {
	set := p.target.Set
	return planClipBetween(p, n, func(op element.Op, d, s []T, bound []T) { element.Binary(set, op, d, s, bound) })
}

// planClipFloats is planClipIntegers for floats.
func planClipFloats(p *planner, n *graph.Node) error {
	kernels, infinity := p.kernels, float32(math.Inf(1))
	return planClipBetween(p, n, func(op element.Op, d, s []float32, bound []float32) {
		within := vec.Params{A: bound[0], B: infinity}
		if op == element.Min {
			within = vec.Params{A: -infinity, B: bound[0]}
		}
		if bound[0] != bound[0] {
			setAll(d, bound[0])
			return
		}
		kernels.Apply(vec.Clip, d, s, within)
	})
}

// planClipBetween emits a Clip, whose bounds are read first: the lower one, and then the upper one.
func planClipBetween[T integer | float32](p *planner, n *graph.Node, apply func(op element.Op, d, s, bound []T)) error {
	src, low, high, dst := p.In(n.Inputs[0]), p.In(n.Input(1)), p.In(n.Input(2)), p.Out(n.Outputs[0])
	count := product(p.Dims[n.Outputs[0].ID])
	p.emit(step{chunks: ceilDiv(count, elementsPerChunk), grain: grainFor(elementsPerChunk * 0.6), body: func(st *state, _, from, to int) {
		from, to = from*elementsPerChunk, min(to*elementsPerChunk, count)
		d, s := of[T](st, dst)[from:to], of[T](st, src)[from:to]
		lo, hi := of[T](st, low), of[T](st, high)
		if len(lo) == 0 && len(hi) == 0 {
			copy(d, s)
		}
		if len(lo) > 0 {
			apply(element.Max, d, s, lo[:1])
			s = d
		}
		if len(hi) > 0 {
			apply(element.Min, d, s, hi[:1])
		}
	}}, []place.Memory{src, low, high}, []place.Memory{dst})
	return nil
}

// orInteger extends an operator of floats to integers.
func orInteger(float operator) operator {
	return operator{
		Signatures: func(n *graph.Node) ([]graph.Signature, *property.Reason) {
			if integerUnary(n) != nil {
				return operators.RowMajor(n), nil
			}
			return float.Signatures(n)
		},
		Settle: func(p *planner, n *graph.Node) {
			if integerUnary(n) == nil && float.Settle != nil {
				float.Settle(p, n)
			}
		},
		Plan: func(p *planner, n *graph.Node) error {
			if fn := integerUnary(n); fn != nil {
				return fn(p, n)
			}
			return float.Plan(p, n)
		},
		Strided: func(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
			return !clipsBetween(n) && float.Strided(p, n, v, m)
		},
	}
}

func init() {
	for name := range inverses {
		table.Register(name, orInteger(operator{Signatures: functionSignatures, Plan: planInverse, Strided: anyRows}))
	}
	table.Register("BitwiseNot", orInteger(operator{Signatures: functionSignatures, Strided: anyRows}))
	table.Register("IsNaN", operator{Signatures: testSignatures, Plan: planTest, Strided: anyRows})
	table.Register("IsInf", operator{Signatures: testSignatures, Plan: planTest, Strided: anyRows})
}
