package cpu

import (
	"math"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// Operators on two integers of one type, of 8 to 64 bits: small tensors of masks, positions and hashes. Sums and products wrap
// around; what is divided by 0 is 0. Mod takes float32 too.

// integer is an element type of such operands.
type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// integerSignatures: both operands have one type.
func integerSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := alignsByAxis(n); why != nil {
		return nil, why
	}
	if len(n.Inputs) != 2 {
		return nil, property.Because(property.Unsupported, "%d operands", len(n.Inputs))
	}
	a, b := n.Inputs[0].Type.DType, n.Inputs[1].Type.DType
	if a != b || integerKinds[a].binary == nil && !(a == tensor.Float32 && n.Is("Mod")) {
		return nil, property.Because(property.DTypeReason, "no %v of %v and %v", n.Op.Name, a, b)
	}
	if d := n.Str("direction", ""); n.Is("BitShift") && d != "LEFT" && d != "RIGHT" {
		return nil, property.Because(property.Attribute, "direction %q", d)
	}
	return operators.RowMajor(n), nil
}

// integerKind is what depends on the type of integers: what plans operators on them, and their order.
type integerKind struct {
	binary, unary, chain, clip, compare, arg, reduce func(p *planner, n *graph.Node) error
	rank                                             ranking
}

func integerKindOf[T integer]() integerKind {
	return integerKind{binary: planIntegers[T], unary: planInteger[T], chain: planIntegerChain[T], clip: planClipIntegers[T],
		compare: func(p *planner, n *graph.Node) error {
			return elementwise2Rows(p, n, compareRow[T](p.target.Set, n.Op.Name))
		},
		arg: planArgIntegers[T], reduce: planReduceIntegers[T], rank: ranksOfIntegers[T]}
}

// integerKinds are the types of integers.
var integerKinds = map[tensor.DType]integerKind{
	tensor.Int8: integerKindOf[int8](), tensor.Int16: integerKindOf[int16](), tensor.Int32: integerKindOf[int32](), tensor.Int64: integerKindOf[int64](),
	tensor.Uint8: integerKindOf[uint8](), tensor.Uint16: integerKindOf[uint16](), tensor.Uint32: integerKindOf[uint32](), tensor.Uint64: integerKindOf[uint64](),
}

func planIntegers[T integer](p *planner, n *graph.Node) error {
	return elementwise2Rows(p, n, integerRow[T](p.target.Set, n))
}

// planIntegerChain emits an operator of any number of operands: a chain of binary ones in the result's place.
func planIntegerChain[T integer](p *planner, n *graph.Node) error {
	y, first := n.Outputs[0], n.Inputs[0]
	dst, out := p.Out(y), p.laid(y)
	if len(n.Inputs) == 1 {
		p.copyStep(dst, p.In(first), p.Bytes(y))
		return nil
	}
	row := integerRow[T](p.target.Set, n)
	rows2(p, newBroadcast(out, p.laid(first), p.laid(n.Inputs[1])), p.In(first), p.In(n.Inputs[1]), dst, row)
	for _, v := range n.Inputs[2:] {
		rows2(p, newBroadcast(out, out, p.laid(v)), dst, p.In(v), dst, row)
	}
	return nil
}

func planIntegerBinary(p *planner, n *graph.Node) error {
	if operators.IsFloat32(n.Inputs[0]) {
		return elementwise2Rows(p, n, floatModRow(p.target.Set, n.Int("fmod", 0) != 0))
	}
	return integerKinds[n.Inputs[0].Type.DType].binary(p, n)
}

// floatModRow returns the loop over a row of remainders of float32, with the dividend's sign or with the divisor's.
func floatModRow(set isa.Set, dividend bool) row2[float32, float32, float32] {
	return func(out, s []float32, dx int, t []float32, dy int) {
		var wide, by [128]float64
		for lo := 0; lo < len(out); lo += len(wide) {
			part := out[lo:min(lo+len(wide), len(out))]
			a, b := wide[:len(part)], by[:len(part)]
			widen(set, a, s[lo*dx:], dx)
			widen(set, b, t[lo*dy:], dy)
			remainders(part, a, b)
			if !dividend {
				towards(part, b)
			}
		}
	}
}

// widen sets dst to float64 of numbers, or of one for all: a loop that widens element by element takes twice as long, as each waits for the one before.
func widen(set isa.Set, dst []float64, x []float32, step int) {
	if step == 0 {
		setAll(dst, float64(x[0]))
		return
	}
	cast.Doubles(set, dst, x[:len(dst)])
}

// remainders writes what is left of float32 numbers, with their signs. Up to 2²⁹ times a divisor is exact in float64: what is left is the remainder, or that less one divisor
// where the quotient was rounded up to an integer.
func remainders(out []float32, a, b []float64) {
	a, b = a[:len(out)], b[:len(out)]
	for i, x := range a {
		y := b[i]
		q := x / y
		if !(math.Abs(q) < 1<<29 && math.Abs(y) <= math.MaxFloat32) {
			out[i] = float32(math.Mod(x, y))
			continue
		}
		m := x - float64(int64(q))*y
		if m*x < 0 {
			m += math.Copysign(y, x)
		}
		out[i] = float32(math.Copysign(m, x))
	}
}

// towards gives remainders the signs of divisors.
func towards(out []float32, by []float64) {
	for i, m := range out {
		if b := by[i]; m != 0 && (m < 0) != (b < 0) {
			out[i] = float32(float64(m) + b)
		}
	}
}

// vectored are the functions of two integers that there are kernels for.
var vectored = map[string]element.Op{"Add": element.Add, "Sub": element.Sub, "Mul": element.Mul, "Div": element.Div, "Max": element.Max, "Min": element.Min,
	"BitwiseAnd": element.And, "BitwiseOr": element.Or, "BitwiseXor": element.Xor}

// integerRow returns the loop over a row of what a node does with two integers.
func integerRow[T integer](set isa.Set, n *graph.Node) row2[T, T, T] {
	if op, ok := vectored[n.Op.Name]; ok {
		return vectorRow[T](set, op)
	}
	switch n.Op.Name {
	case "BitShift":
		if n.Str("direction", "") == "LEFT" {
			return leftRow[T]
		}
		return rightRow[T]
	}
	if unsigned := ^T(0) > 0; unsigned || n.Int("fmod", 0) != 0 {
		return dividendRow[T]
	}
	return divisorRow[T]
}

// bitsOf returns how many bits an integer has.
func bitsOf[T integer]() uint64 { return 8 * uint64(unsafe.Sizeof(T(0))) }

func leftRow[T integer](out, s []T, dx int, t []T, dy int) {
	if by := uint64(t[0]); dx == 1 && dy == 0 && by < bitsOf[T]() {
		by &= bitsOf[T]() - 1 // which tells the compiler
		for i, x := range s[:len(out)] {
			out[i] = x << by
		}
		return
	}
	if dx == 1 && dy == 1 {
		s, t = s[:len(out)], t[:len(out)]
		for i := range out {
			out[i] = s[i] << uint64(t[i])
		}
		return
	}
	for i := range out {
		out[i] = s[i*dx] << uint64(t[i*dy])
	}
}

func rightRow[T integer](out, s []T, dx int, t []T, dy int) {
	if by := uint64(t[0]); dx == 1 && dy == 0 && by < bitsOf[T]() {
		by &= bitsOf[T]() - 1
		for i, x := range s[:len(out)] {
			out[i] = x >> by
		}
		return
	}
	if dx == 1 && dy == 1 {
		s, t = s[:len(out)], t[:len(out)]
		for i := range out {
			out[i] = s[i] >> uint64(t[i])
		}
		return
	}
	for i := range out {
		out[i] = s[i*dx] >> uint64(t[i*dy])
	}
}

// dividendRow sets a row to what is left of integers that are divided by others, with the dividends' signs; 0 where these are 0.
func dividendRow[T integer](out, s []T, dx int, t []T, dy int) {
	for i := range out {
		out[i] = integerRemainder(s[i*dx], t[i*dy])
	}
}

// divisorRow is dividendRow with the divisors' signs, of types that have such. Data would mislead a branch.
func divisorRow[T integer](out, s []T, dx int, t []T, dy int) {
	last := bitsOf[T]() - 1
	for i := range out {
		b := t[i*dy]
		m := integerRemainder(s[i*dx], b)
		other := ((m ^ b) & (m | -m)) >> last // all bits where m is not 0 and has the other sign
		out[i] = m + b&other
	}
}

// integerRemainder is what a leaves when it is divided by b, with the sign of a; 0 where b is 0.
func integerRemainder[T integer](a, b T) T {
	if b == 0 {
		return 0
	}
	return a % b
}

func init() {
	for _, name := range []string{"Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"} {
		table.Register(name, operator{Signatures: integerSignatures, Plan: planIntegerBinary})
	}
}
