package lower

import (
	"fmt"

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
		"ThresholdedRelu": with("($0 > %s ? $0 : 0.0f)", attribute{"alpha", 1}),
		"And":             logic("($0 && $1)"), "Or": logic("($0 || $1)"), "Xor": logic("(($0 != 0) != ($1 != 0))"), "Not": logic("!$0"),
		"Equal": both("($0 == $1)"), "Less": both("($0 < $1)"), "LessOrEqual": both("($0 <= $1)"), "Greater": both("($0 > $1)"),
		"GreaterOrEqual": both("($0 >= $1)"), "Where": both("($0 ? $1 : $2)"), "IsNaN": one("isnan_f32($0)"), "Identity": both("$0"),
	}
}

func (l *lowering) scalar(n *graph.Node, o scalarOperator) error {
	if err := only(n); err != nil {
		return err
	}
	t, _, err := typeOf(n.Outputs[0])
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
	return t == gpukernel.F32 || t == gpukernel.F16 || t == gpukernel.BF16
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
	t, _, err := typeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	if n.Input(0).Type.DType != n.Outputs[0].Type.DType && n.Outputs[0].Type.DType == tensor.Bool && isFloat(l.p.Type(x)) {
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
