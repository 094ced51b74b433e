package lower

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// narrow is an element type that kernels have no type for: integers of fewer bits than a byte, and floats of a byte or fewer. Its
// values are bytes within a program: integers by their value, floats by their bits. Several lie in a byte of memory, the first in the
// lowest bits.
type narrow struct {
	bits   int
	signed bool
	float  string // the arguments of f32_of_small and small_of_f32 that describe it; "" for integers
}

// narrowTypes has the arguments bits of the mantissa, bias, sign bit, largest finite magnitude, infinity and NaN, 0 for none, and
// whether zero has no sign.
var narrowTypes = map[tensor.DType]narrow{
	tensor.Int4: {bits: 4, signed: true}, tensor.Uint4: {bits: 4}, tensor.Int2: {bits: 2, signed: true}, tensor.Uint2: {bits: 2},
	tensor.Float8E4M3FN: {bits: 8, float: "3, 7, 0x80, 0x7e, 0, 0x7f, 0"}, tensor.Float8E4M3FNUZ: {bits: 8, float: "3, 8, 0x80, 0x7f, 0, 0x80, 1"},
	tensor.Float8E5M2: {bits: 8, float: "2, 15, 0x80, 0x7b, 0x7c, 0x7e, 0"}, tensor.Float8E5M2FNUZ: {bits: 8, float: "2, 16, 0x80, 0x7f, 0, 0x80, 1"},
	tensor.Float4E2M1: {bits: 4, float: "1, 1, 0x8, 0x7, 0, 0, 0"}, tensor.Float8E8M0: {bits: 8, float: powers},
}

// Narrow reports whether kernels have no type for an element type. Values of such types lie row-major.
func Narrow(dt tensor.DType) bool {
	_, is := narrowTypes[dt]
	return is
}

// powers marks the type whose values are powers of two.
const powers = "powers"

// element is the type of kernels that holds a value.
func (t narrow) element() gpukernel.Type {
	if t.signed {
		return gpukernel.I8
	}
	return gpukernel.U8
}

// movesNarrow are the operators that take narrow types: those that convert them, and those that only move elements.
var movesNarrow = map[string]bool{
	"Cast": true, "CastLike": true, "QuantizeLinear": true, "DequantizeLinear": true, "Identity": true, "Reshape": true, "Flatten": true,
	"Squeeze": true, "Unsqueeze": true, "Transpose": true,
}

// checkNarrow refuses operators on narrow types that compute with them as if they were bytes.
func checkNarrow(n *graph.Node) error {
	if movesNarrow[n.Op.Name] || n.IsCarve(graph.OpConvert) {
		return nil
	}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v == nil {
				continue
			}
			if _, is := narrowTypes[v.Type.DType]; is {
				return refuse("%q is of type %s", v.Name, v.Type.DType)
			}
		}
	}
	return nil
}

// literal returns the bits of a constant's only element, or its value.
func (t narrow) literal(c *tensor.Tensor) string {
	if t.float == "" {
		return literalInt(int(c.Int64At(0)))
	}
	return fmt.Sprint(c.Bytes()[0] & byte(1<<t.bits-1))
}

// unpacked adds n elements that lie in a buffer.
func (l *lowering) unpacked(name string, t narrow, n int) gpukernel.Value {
	per := 8 / t.bits
	x := l.p.Input(name, gpukernel.U8, (n+per-1)/per)
	if per > 1 {
		at := l.p.Scalar(gpukernel.I32, fmt.Sprintf("$0 / %d", per), l.p.Iota(n))
		x = l.p.Pick(x, []int{n}, gpukernel.Along{Index: at, Within: true})
		x = l.p.Scalar(gpukernel.U8, fmt.Sprintf("$0 >> ($1 %% %d * %d)", per, t.bits), x, l.p.Iota(n))
		x = l.p.Scalar(t.element(), t.kept("$0"), x)
	}
	return x
}

// kept is an expression for the lowest bits of an i32, as a value of the type.
func (t narrow) kept(x string) string {
	if !t.signed {
		return fmt.Sprintf("(%s & %d)", x, 1<<t.bits-1)
	}
	return fmt.Sprintf("(((%s & %d) ^ %d) - %d)", x, 1<<t.bits-1, 1<<(t.bits-1), 1<<(t.bits-1))
}

// packed makes bytes of elements.
func (l *lowering) packed(x gpukernel.Value, t narrow) gpukernel.Value {
	per, n := 8/t.bits, elements(l.p.Shape(x))
	x = l.p.Reshape(x, n)
	if per == 1 {
		return x
	}
	bytes := (n + per - 1) / per
	if bytes*per > n {
		x = l.p.Pad(x, l.p.Constant(l.p.Type(x), "0"), []int{0}, []int{bytes*per - n})
	}
	parts, terms := make([]gpukernel.Value, per), make([]string, per)
	for i := range parts {
		parts[i] = l.p.Slice(x, []int{bytes}, []int{i}, []int{per})
		terms[i] = fmt.Sprintf("($%d & %d) << %d", i, 1<<t.bits-1, i*t.bits)
	}
	return l.p.Scalar(gpukernel.U8, strings.Join(terms, " | "), parts...)
}

// widened returns a value of a graph's type as one that can be computed with: floats of narrow types as f32, integers as they are.
func (l *lowering) widened(x gpukernel.Value, from tensor.DType) gpukernel.Value {
	switch t := narrowTypes[from]; t.float {
	case "":
		return x
	case powers:
		return l.p.Scalar(gpukernel.F32, "f32_of_power($0)", x)
	default:
		return l.p.Scalar(gpukernel.F32, "f32_of_small($0, "+t.float+")", x)
	}
}

// narrowed returns floats or integers as a narrow type. What is too large for a float saturates, unless the node says otherwise.
func (l *lowering) narrowed(n *graph.Node, x gpukernel.Value, to narrow) (gpukernel.Value, error) {
	from := l.p.Type(x)
	if from == gpukernel.F64 {
		return 0, refuse("from type %s to one of %d bits", from, to.bits)
	}
	if to.float == "" {
		if isFloat(from) {
			return l.p.Scalar(to.element(), to.kept("(i32)i64_of_f32($0)"), x), nil
		}
		return l.p.Scalar(to.element(), to.kept("(i32)$0"), x), nil
	}
	if !isFloat(from) {
		if from.Size() > 2 {
			return 0, refuse("from type %s to a float of %d bits", from, to.bits)
		}
		x = l.p.Cast(x, gpukernel.F32)
	}
	saturate := n.Int("saturate", 1) != 0
	if to.float != powers {
		return l.p.Scalar(gpukernel.U8, fmt.Sprintf("small_of_f32($0, %s, %d)", to.float, flag(saturate)), x), nil
	}
	mode, ok := map[string]int{"up": 0, "down": 1, "nearest": 2}[n.Str("round_mode", "up")]
	if !ok {
		return 0, refuse("rounding %q", n.Str("round_mode", "up"))
	}
	return l.p.Scalar(gpukernel.U8, fmt.Sprintf("power_of_f32($0, %d, %d)", mode, flag(saturate)), x), nil
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// castNarrow converts from or to a narrow type.
func (l *lowering) castNarrow(n *graph.Node, x gpukernel.Value) error {
	from, to := n.Input(0).Type.DType, n.Outputs[0].Type.DType
	if from == to {
		return l.result(n, 0, x)
	}
	t, _, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	x = l.widened(x, from)
	if small, is := narrowTypes[to]; is {
		if x, err = l.narrowed(n, x, small); err != nil {
			return err
		}
		return l.result(n, 0, x)
	}
	if narrowTypes[from].float != "" && !isFloat(t) && to != tensor.Bool {
		return refuse("from type %s to %s", from, to)
	}
	return l.castTo(n, x, t)
}
