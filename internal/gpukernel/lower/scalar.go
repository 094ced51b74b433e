package lower

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// scalarOperator is how an element-wise operator is written. The expression for floats, and that for integers; "" where there
// is none.
type scalarOperator struct {
	float, integer string
	// attributes gives literals for %s in float, by name and default.
	attributes []attribute
	// fold applies the operator to more than two operands, from the left.
	fold bool
}

type attribute struct {
	name  string
	value float32
}

// scalarOperators returns the operators whose result has the type that inference gives it, by name.
func scalarOperators() map[string]scalarOperator {
	one := func(float string) scalarOperator { return scalarOperator{float: float} }
	both := func(e string) scalarOperator { return scalarOperator{float: e, integer: e} }
	logic := func(e string) scalarOperator { return scalarOperator{integer: e} }
	with := func(float string, a ...attribute) scalarOperator { return scalarOperator{float: float, attributes: a} }
	return map[string]scalarOperator{
		"Add": both("$0 + $1"), "Sub": both("$0 - $1"), "Mul": both("$0 * $1"),
		// A division by zero, or one that overflows, would be an exception on some processors.
		"Div": {float: "$0 / $1", integer: "($1 == 0 ? 0 : $1 + 1 == 0 ? 0 - $0 : $0 / $1)"},
		"Max": {float: "max_f32($0, $1)", integer: "($0 > $1 ? $0 : $1)", fold: true},
		"Min": {float: "min_f32($0, $1)", integer: "($0 < $1 ? $0 : $1)", fold: true},
		"Sum": {float: "$0 + $1", fold: true},
		"Pow": one("pow_f32($0, $1)"), "PRelu": one("leaky_f32($0, $1)"),
		"Neg": both("0 - $0"), "Abs": {float: "fabs_f32($0)", integer: "($0 < 0 ? 0 - $0 : $0)"},
		"Sign": {float: "(isnan_f32($0) ? $0 : (f32)(($0 > 0.0f) - ($0 < 0.0f)))", integer: "(($0 > 0) - ($0 < 0))"},
		"Sqrt": one("sqrt_f32($0)"), "Exp": one("exp_f32($0)"), "Log": one("log_f32($0)"), "Reciprocal": one("1.0f / $0"),
		"Floor": one("floor_f32($0)"), "Ceil": one("ceil_f32($0)"), "Round": one("rint_f32($0)"), "Erf": one("erf_f32($0)"),
		"Sin": one("sin_f32($0)"), "Cos": one("cos_f32($0)"), "Tan": one("tan_f32($0)"), "Asin": one("asin_f32($0)"),
		"Acos": one("acos_f32($0)"), "Atan": one("atan_f32($0)"), "Sinh": one("sinh_f32($0)"), "Cosh": one("cosh_f32($0)"),
		"Asinh": one("asinh_f32($0)"), "Acosh": one("acosh_f32($0)"), "Atanh": one("atanh_f32($0)"), "Tanh": one("tanh_f32($0)"),
		"Relu": {float: "relu_f32($0)", integer: "($0 < 0 ? 0 : $0)"}, "Sigmoid": one("sigmoid_f32($0)"),
		"HardSwish": one("hard_swish_f32($0)"), "Softsign": one("$0 / (1.0f + fabs_f32($0))"),
		"Softplus":        one("(max_f32($0, 0.0f) + log1p_f32(exp_f32(0.0f - fabs_f32($0))))"),
		"Mish":            one("$0 * tanh_f32(max_f32($0, 0.0f) + log1p_f32(exp_f32(0.0f - fabs_f32($0))))"),
		"LeakyRelu":       with("leaky_f32($0, %s)", attribute{"alpha", 0.01}),
		"HardSigmoid":     with("hard_sigmoid_f32($0, %s, %s)", attribute{"alpha", 0.2}, attribute{"beta", 0.5}),
		"Elu":             with("($0 < 0.0f ? %s * (exp_f32($0) - 1.0f) : $0)", attribute{"alpha", 1}),
		"Celu":            with("(max_f32($0, 0.0f) + min_f32(0.0f, %[1]s * (exp_f32($0 / %[1]s) - 1.0f)))", attribute{"alpha", 1}),
		"Selu":            with("%[2]s * ($0 > 0.0f ? $0 : %[1]s * (exp_f32($0) - 1.0f))", attribute{"alpha", 1.67326319217681884765625}, attribute{"gamma", 1.05070102214813232421875}),
		"Swish":           with("$0 / (1.0f + exp_f32(0.0f - %s * $0))", attribute{"alpha", 1}),
		"SwiGLU":          with("$0 / (1.0f + exp_f32(0.0f - %s * $0)) * $1", attribute{"alpha", 1}),
		"ThresholdedRelu": with("($0 > %s ? $0 : 0.0f)", attribute{"alpha", 1}),
		"And":             logic("($0 && $1)"), "Or": logic("($0 || $1)"), "Xor": logic("(($0 != 0) != ($1 != 0))"), "Not": logic("!$0"),
		"Equal": both("($0 == $1)"), "Less": both("($0 < $1)"), "LessOrEqual": both("($0 <= $1)"), "Greater": both("($0 > $1)"),
		"GreaterOrEqual": both("($0 >= $1)"), "Where": both("($0 ? $1 : $2)"), "BitwiseAnd": logic("($0 & $1)"), "BitwiseOr": logic("($0 | $1)"), "BitwiseXor": logic("($0 ^ $1)"), "BitwiseNot": logic("~$0"),
		"IsNaN": one("isnan_f32($0)"), "Identity": both("$0"),
	}
}

func (l *lowering) scalar(n *graph.Node, o scalarOperator) error {
	if err := only(n); err != nil {
		return err
	}
	t, _, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	in := make([]gpukernel.Value, len(n.Inputs))
	for i := range n.Inputs {
		if in[i], err = l.operand(n, i); err != nil {
			return err
		}
	}
	text := o.integer
	if isFloat(l.p.Type(in[len(in)-1])) {
		text = o.float
		var literals []any
		for _, a := range o.attributes {
			literals = append(literals, gpukernel.FloatLiteral(n.Float(a.name, a.value)))
		}
		if literals != nil {
			text = fmt.Sprintf(text, literals...)
		}
	}
	if text == "" || len(in) > 3 && !o.fold {
		return refuse("operands of type %s", l.p.Type(in[0]))
	}
	if !o.fold {
		return l.result(n, 0, l.p.Scalar(t, text, in...))
	}
	x := in[0]
	for _, y := range in[1:] {
		x = l.p.Scalar(t, text, x, y)
	}
	return l.result(n, 0, x)
}

func isFloat(t gpukernel.Type) bool {
	return t == gpukernel.F32 || t == gpukernel.F16 || t == gpukernel.BF16 || t == gpukernel.F64
}

func (l *lowering) clip(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	t := l.p.Type(x)
	bounds := []struct {
		attribute, float, integer string
	}{{"min", "max_f32($0, $1)", "($0 < $1 ? $1 : $0)"}, {"max", "min_f32($0, $1)", "($0 > $1 ? $1 : $0)"}}
	for i, b := range bounds {
		text := b.integer
		if isFloat(t) {
			text = b.float
		}
		if a := n.Attrs.Lookup(b.attribute); a != nil {
			x = l.p.Scalar(t, text, x, l.p.Float(t, n.Float(b.attribute, 0)))
		} else if n.Input(i+1) != nil {
			y, err := l.operand(n, i+1)
			if err != nil {
				return err
			}
			x = l.p.Scalar(t, text, x, y)
		}
	}
	return l.result(n, 0, x)
}

func (l *lowering) cast(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	t, _, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	for _, v := range []*graph.Value{n.Input(0), n.Outputs[0]} {
		if _, is := narrowTypes[v.Type.DType]; is {
			return l.castNarrow(n, x)
		}
	}
	return l.castTo(n, x, t)
}

// castTo converts to a type that kernels have.
func (l *lowering) castTo(n *graph.Node, x gpukernel.Value, t gpukernel.Type) error {
	if n.Outputs[0].Type.DType == tensor.Bool && isFloat(l.p.Type(x)) {
		return l.result(n, 0, l.p.Scalar(t, "($0 != 0.0f)", x))
	}
	return l.result(n, 0, l.p.Cast(x, t))
}

func (l *lowering) gelu(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	f := "gelu_f32($0)"
	if a := n.Attrs.Lookup("approximate"); a != nil && n.Str("approximate", "none") == "tanh" {
		f = "gelu_tanh_f32($0)"
	}
	return l.result(n, 0, l.p.Scalar(l.p.Type(x), f, x))
}

// mod has the sign of the divisor, or with fmod that of the dividend. Modulo zero is zero for integers.
func (l *lowering) mod(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	y, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	t, text := l.p.Type(x), "($1 == 0 || $1 + 1 == 0 ? 0 : $0 % $1 != 0 && ($0 % $1 < 0) != ($1 < 0) ? $0 % $1 + $1 : $0 % $1)"
	switch fmod := n.Int("fmod", 0) != 0; {
	case isFloat(t) && fmod:
		text = "fmod_f32($0, $1)"
	case isFloat(t):
		return refuse("operands of type %s", t)
	case t == gpukernel.U32 || t == gpukernel.U64:
		text = "($1 == 0 ? 0 : $0 % $1)"
	case fmod:
		text = "($1 == 0 || $1 + 1 == 0 ? 0 : $0 % $1)"
	}
	return l.result(n, 0, l.p.Scalar(t, text, x, y))
}

// bitShift shifts unsigned integers; a shift by their width or more gives 0.
func (l *lowering) bitShift(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	y, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	t := l.p.Type(x)
	operator := map[string]string{"LEFT": "<<", "RIGHT": ">>"}[n.Str("direction", "")]
	if operator == "" || t != gpukernel.U8 && t != gpukernel.U16 && t != gpukernel.U32 && t != gpukernel.U64 {
		return refuse("direction %q of type %s", n.Str("direction", ""), t)
	}
	return l.result(n, 0, l.p.Scalar(t, fmt.Sprintf("($1 >= %d ? 0 : $0 %s $1)", 8*t.Size(), operator), x, y))
}

func (l *lowering) isInf(n *graph.Node) error {
	x, err := l.floats(n, 0)
	if err != nil {
		return err
	}
	tests := []string{"0"}
	if n.Int("detect_positive", 1) != 0 {
		tests = append(tests, "$0 == -NEGATIVE_INFINITY")
	}
	if n.Int("detect_negative", 1) != 0 {
		tests = append(tests, "$0 == NEGATIVE_INFINITY")
	}
	return l.result(n, 0, l.p.Scalar(gpukernel.Bool, "("+strings.Join(tests, " || ")+")", x))
}

func (l *lowering) shrink(n *graph.Node) error {
	x, err := l.floats(n, 0)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("($0 < 0.0f - %[1]s ? $0 + %[2]s : $0 > %[1]s ? $0 - %[2]s : 0.0f)", gpukernel.FloatLiteral(n.Float("lambd", 0.5)),
		gpukernel.FloatLiteral(n.Float("bias", 0)))
	return l.result(n, 0, l.p.Scalar(l.p.Type(x), text, x))
}

// meanOf is the mean of operands.
func (l *lowering) meanOf(n *graph.Node) error {
	sum, err := l.floats(n, 0)
	if err != nil {
		return err
	}
	t := l.p.Type(sum)
	for i := range n.Inputs[1:] {
		x, err := l.operand(n, i+1)
		if err != nil {
			return err
		}
		sum = l.p.Scalar(t, "$0 + $1", sum, x)
	}
	return l.result(n, 0, l.p.Scalar(t, "$0 / $1", sum, l.p.Float(t, float32(len(n.Inputs)))))
}

// constantOfShape repeats one element; the operand, a shape, is what inference made the result's.
func (l *lowering) constantOfShape(n *graph.Node) error {
	t, shape, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	with := l.p.Constant(t, "0")
	if a := n.Attrs.Lookup("value"); a != nil {
		if a.Tensor == nil || a.Tensor.Len() != 1 {
			return refuse("a value that is not one element")
		}
		with = l.literal(t, a.Tensor)
	}
	return l.result(n, 0, l.p.Expand(with, shape...))
}
