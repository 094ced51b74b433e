package mxnet

import (
	"math"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// unaryNames are MXNet's functions of one number that ONNX has: ONNX's name, then MXNet's.
var unaryNames = map[string][]string{
	"Abs": {"abs", "_npi_absolute", "_npi_abs", "_np_absolute"}, "Exp": {"exp", "_npi_exp"}, "Log": {"log", "_npi_log"}, "Sqrt": {"sqrt", "_npi_sqrt"},
	"Sin": {"sin", "_npi_sin"}, "Cos": {"cos", "_npi_cos"}, "Tan": {"tan", "_npi_tan"}, "Asin": {"arcsin", "_npi_arcsin"},
	"Acos": {"arccos", "_npi_arccos"}, "Atan": {"arctan", "_npi_arctan"}, "Sinh": {"sinh", "_npi_sinh"}, "Cosh": {"cosh", "_npi_cosh"},
	"Tanh": {"tanh", "_npi_tanh"}, "Asinh": {"arcsinh", "_npi_arcsinh"}, "Acosh": {"arccosh", "_npi_arccosh"},
	"Atanh": {"arctanh", "_npi_arctanh"}, "Ceil": {"ceil", "_npi_ceil"}, "Floor": {"floor", "_npi_floor"},
	"Neg": {"negative", "_np_negative", "_npi_negative"}, "Reciprocal": {"reciprocal", "_npi_reciprocal"}, "Relu": {"relu", "_npx_relu"},
	"Sigmoid": {"sigmoid", "_npx_sigmoid"}, "Softsign": {"softsign"}, "Erf": {"erf", "_npx_erf"}, "Sign": {"sign", "_npi_sign", "_contrib_sign_ste"},
	"IsNaN": {"_npi_isnan"}, "IsInf": {"_npi_isinf"},
}

// elementwiseOperators are functions of one and two numbers, and of a number and a scalar.
func elementwiseOperators() map[string]operator {
	table := map[string]operator{}
	for onnx, names := range unaryNames {
		named(table, unary(func(o *op, x *graph.Value) *graph.Value {
			if onnx != "Abs" && onnx != "Neg" && onnx != "Sign" && onnx != "Relu" {
				x = o.floating(x)
			}
			return o.call(onnx, nil, x)
		}), names...)
	}
	same := unary(func(_ *op, x *graph.Value) *graph.Value { return x })
	same.takesReal = true
	named(table, same, "_copy", "identity", "BlockGrad", "stop_gradient", "_np_copy", "_npi_copy", "_CrossDeviceCopy")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 2) // the second is a moving average for training
		o.ignore("grad_scale", "valid_thresh", "normalization", "sparseness_target", "penalty", "momentum", "scalar", "is_int")
		return o.input(0)
	}), "make_loss", "MakeLoss", "IdentityAttachKLSparseReg")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(2, 2) // the second says type and storage, to whoever infers these
		return o.input(0)
	}), "_identity_with_attr_like_rhs")
	for _, f := range composedUnary {
		named(table, unary(func(o *op, x *graph.Value) *graph.Value {
			return o.inFull(func(xs ...*graph.Value) *graph.Value { return f.do(o, xs[0]) }, x)
		}), f.names...)
	}
	for kernel, names := range map[string][]string{"Gamma": {"gamma", "_npx_gamma"}, "LogGamma": {"gammaln", "_npx_gammaln"}, "ErfInv": {"erfinv", "_npx_erfinv"},
		"Digamma": {"digamma"}} {
		named(table, own(unary(func(o *op, x *graph.Value) *graph.Value {
			return o.calls(Domain, kernel, 1, nil, o.floating(x))[0]
		})), names...)
	}
	named(table, single(hardSigmoid), "hard_sigmoid")
	named(table, single(clip), "clip", "_npi_clip")
	named(table, single(smoothL1), "smooth_l1", "_npx_smooth_l1")
	named(table, single(quadratic), "_contrib_quadratic")
	named(table, single(addAll), "add_n", "ElementWiseSum", "_sum", "element_wise_sum")
	named(table, single(castTo), "Cast", "cast", "amp_cast", "_npi_cast", "_npx_cast")
	table["amp_multicast"] = operator{do: castAll}
	binaryOperators(table)
	return table
}

func unary(f func(*op, *graph.Value) *graph.Value) operator {
	return single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		return f(o, o.input(0))
	})
}

// inFull applies what takes several steps to numbers in half precision as to float32, and rounds the result once, as MXNet does:
// steps between would overflow, or round.
func (o *op) inFull(f func(xs ...*graph.Value) *graph.Value, xs ...*graph.Value) *graph.Value {
	half := o.typeOf(xs[0])
	if half != tensor.Float16 && half != tensor.BFloat16 {
		return f(xs...)
	}
	full := make([]*graph.Value, len(xs))
	for i, x := range xs {
		full[i] = o.cast(x, tensor.Float32)
	}
	y := f(full...)
	if o.typeOf(y) != tensor.Float32 {
		return y
	}
	return o.cast(y, half)
}

// times returns x multiplied by a number.
func (o *op) times(x *graph.Value, v float64) *graph.Value {
	return o.call("Mul", nil, x, o.like(x, v))
}

func (o *op) plus(x *graph.Value, v float64) *graph.Value { return o.call("Add", nil, x, o.like(x, v)) }

// composedUnary are functions of one number that ONNX says in several words.
var composedUnary = []struct {
	names []string
	do    func(*op, *graph.Value) *graph.Value
}{
	{[]string{"square", "_npi_square"}, func(o *op, x *graph.Value) *graph.Value { return o.call("Mul", nil, x, x) }},
	{[]string{"rsqrt"}, func(o *op, x *graph.Value) *graph.Value {
		return o.call("Reciprocal", nil, o.call("Sqrt", nil, o.floating(x)))
	}},
	{[]string{"cbrt", "_npi_cbrt"}, cubeRoot},
	{[]string{"rcbrt"}, func(o *op, x *graph.Value) *graph.Value { return o.call("Reciprocal", nil, cubeRoot(o, x)) }},
	{[]string{"degrees", "_npi_degrees", "_npi_rad2deg"}, func(o *op, x *graph.Value) *graph.Value {
		return o.times(o.floating(x), 180/math.Pi)
	}},
	{[]string{"radians", "_npi_radians", "_npi_deg2rad"}, func(o *op, x *graph.Value) *graph.Value {
		return o.times(o.floating(x), math.Pi/180)
	}},
	{[]string{"log2", "_npi_log2"}, func(o *op, x *graph.Value) *graph.Value {
		return o.times(o.call("Log", nil, o.floating(x)), 1/math.Ln2)
	}},
	{[]string{"log10", "_npi_log10"}, func(o *op, x *graph.Value) *graph.Value {
		return o.times(o.call("Log", nil, o.floating(x)), 1/math.Ln10)
	}},
	{[]string{"log1p", "_npi_log1p"}, logOfOnePlus},
	{[]string{"expm1", "_npi_expm1"}, func(o *op, x *graph.Value) *graph.Value {
		// exp(x)-1 = tanh(x/2)·(exp(x)+1), which loses nothing near 0.
		x = o.floating(x)
		return o.call("Mul", nil, o.call("Tanh", nil, o.times(x, 0.5)), o.plus(o.call("Exp", nil, x), 1))
	}},
	{[]string{"rint", "_npi_rint"}, func(o *op, x *graph.Value) *graph.Value {
		// The nearer of the two whole numbers, the lower one where both are as near.
		x = o.floating(x)
		lo, hi := o.call("Floor", nil, x), o.call("Ceil", nil, x)
		return o.call("Where", nil, o.call("LessOrEqual", nil, o.call("Sub", nil, x, lo), o.call("Sub", nil, hi, x)), lo, hi)
	}},
	{[]string{"round", "_contrib_round_ste"}, awayFromZero},
	{[]string{"fix", "trunc", "_npi_fix", "_npi_trunc"}, func(o *op, x *graph.Value) *graph.Value {
		x = o.floating(x)
		return o.call("Mul", nil, o.call("Sign", nil, x), o.call("Floor", nil, o.call("Abs", nil, x)))
	}},
	{[]string{"logical_not"}, func(o *op, x *graph.Value) *graph.Value {
		return o.cast(o.call("Equal", nil, x, o.like(x, 0)), o.typeOf(x))
	}},
	{[]string{"_npi_logical_not"}, func(o *op, x *graph.Value) *graph.Value { return o.call("Not", nil, o.truth(x)) }},
	{[]string{"log_sigmoid"}, func(o *op, x *graph.Value) *graph.Value {
		return o.call("Neg", nil, o.call("Softplus", nil, o.call("Neg", nil, x)))
	}},
	{[]string{"mish"}, func(o *op, x *graph.Value) *graph.Value { return o.call("Mish", nil, x) }},
}

func cubeRoot(o *op, x *graph.Value) *graph.Value {
	x = o.floating(x)
	return o.call("Mul", nil, o.call("Sign", nil, x), o.call("Pow", nil, o.call("Abs", nil, x), o.like(x, 1.0/3)))
}

// logOfOnePlus is log(u)·x/(u-1) for u = 1+x, and x where u is 1: the error of u cancels.
func logOfOnePlus(o *op, x *graph.Value) *graph.Value {
	x = o.floating(x)
	u := o.plus(x, 1)
	d := o.plus(u, -1)
	zero := o.call("Equal", nil, d, o.like(x, 0))
	infinite := o.call("IsInf", nil, x)
	skip := o.call("Or", nil, zero, infinite)
	ratio := o.call("Where", nil, skip, o.like(x, 1), o.call("Div", nil, x, o.call("Where", nil, skip, o.like(x, 1), d)))
	return o.call("Where", nil, zero, x, o.call("Mul", nil, o.call("Log", nil, u), ratio))
}

// truth returns whether elements are not 0.
func (o *op) truth(x *graph.Value) *graph.Value {
	if o.typeOf(x) == tensor.Bool {
		return x
	}
	return o.call("Not", nil, o.call("Equal", nil, x, o.like(x, 0)))
}

func hardSigmoid(o *op) *graph.Value {
	o.inputs(1, 1)
	return o.call("HardSigmoid", attrs(graph.FloatAttr("alpha", float32(o.number("alpha", 0.2))),
		graph.FloatAttr("beta", float32(o.number("beta", 0.5)))), o.input(0))
}

func clip(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	lo, hi := o.number("a_min", math.Inf(-1)), o.number("a_max", math.Inf(1))
	var low, high *graph.Value
	if !math.IsInf(lo, -1) {
		low = o.like(x, lo)
	}
	if !math.IsInf(hi, 1) {
		high = o.like(x, hi)
	}
	return o.call("Clip", nil, x, low, high)
}

// smoothL1 is (s·x)²/2 where |x| < 1/s², else |x| - 1/(2s²).
func smoothL1(o *op) *graph.Value {
	o.inputs(1, 1)
	x, s := o.input(0), o.number("scalar", 1)
	o.require(s != 0, "scalar is 0")
	return o.inFull(func(xs ...*graph.Value) *graph.Value {
		x := xs[0]
		a := o.call("Abs", nil, x)
		inner := o.times(o.call("Mul", nil, x, x), s*s/2)
		return o.call("Where", nil, o.call("Less", nil, a, o.like(x, 1/(s*s))), inner, o.plus(a, -0.5/(s*s)))
	}, x)
}

func quadratic(o *op) *graph.Value {
	o.inputs(1, 1)
	a, b, c := o.number("a", 0), o.number("b", 0), o.number("c", 0)
	return o.inFull(func(xs ...*graph.Value) *graph.Value {
		return o.plus(o.call("Mul", nil, o.plus(o.times(xs[0], a), b), xs[0]), c)
	}, o.input(0))
}

func addAll(o *op) *graph.Value {
	o.ignore("num_args")
	o.inputs(1, 1<<16)
	return o.call("Sum", nil, o.in...)
}

func castTo(o *op) *graph.Value {
	o.inputs(1, 1)
	if _, ok := o.n.Attr("dtype"); !ok {
		o.fail(ErrAttribute, "dtype is missing")
	}
	dt := o.dtype("dtype", tensor.Float32)
	if o.kind == "amp_cast" && !o.typeOf(o.input(0)).IsFloat() {
		return o.input(0)
	}
	if dt == tensor.Bool {
		return o.truth(o.input(0))
	}
	return o.cast(o.input(0), dt)
}

// castAll brings floating-point operands to the widest of their types, or the narrowest.
func castAll(o *op) []*graph.Value {
	o.ignore("num_outputs")
	narrow := o.flag("cast_narrow", false)
	dt := tensor.Invalid
	for i := range o.in {
		d := o.typeOf(o.input(i))
		if d.IsFloat() && (dt == tensor.Invalid || (d.Bits() < dt.Bits()) == narrow && d.Bits() != dt.Bits()) {
			dt = d
		}
	}
	out := make([]*graph.Value, len(o.in))
	for i, x := range o.in {
		if out[i] = x; o.typeOf(x).IsFloat() {
			out[i] = o.cast(x, dt)
		}
	}
	return out
}

// awayFromZero rounds to whole numbers; halves go away from 0.
func awayFromZero(o *op, x *graph.Value) *graph.Value {
	x = o.floating(x)
	a := o.call("Abs", nil, x)
	lo := o.call("Floor", nil, a)
	up := o.cast(o.call("GreaterOrEqual", nil, o.call("Sub", nil, a, lo), o.like(x, 0.5)), o.typeOf(x))
	return o.call("Mul", nil, o.call("Sign", nil, x), o.call("Add", nil, lo, up))
}

// arctan2 is the angle of the point (b, a), in whole numbers where these are, as MXNet has it.
func arctan2(o *op, a, b *graph.Value) *graph.Value {
	angle := o.inFull(func(xs ...*graph.Value) *graph.Value {
		y, x := o.floating(xs[0]), o.floating(xs[1])
		zero := o.like(y, 0)
		up := o.call("Where", nil, o.call("Less", nil, y, zero), o.like(y, -math.Pi), o.like(y, math.Pi))
		turn := o.call("Where", nil, o.call("Less", nil, x, zero), up, zero)
		angle := o.call("Add", nil, o.call("Atan", nil, o.call("Div", nil, y, x)), turn)
		none := o.call("And", nil, o.call("Equal", nil, x, zero), o.call("Equal", nil, y, zero))
		return o.call("Where", nil, none, zero, angle)
	}, a, b)
	return o.cast(angle, o.typeOf(a))
}

func copySign(o *op, a, b *graph.Value) *graph.Value {
	abs := o.call("Abs", nil, a)
	return o.call("Where", nil, o.call("Less", nil, b, o.like(b, 0)), o.call("Neg", nil, abs), abs)
}

// scaled is a·2^b.
func scaled(o *op, a, b *graph.Value) *graph.Value {
	return o.inFull(func(xs ...*graph.Value) *graph.Value {
		a, b := o.floating(xs[0]), o.floating(xs[1])
		return o.call("Mul", nil, a, o.call("Pow", nil, o.like(b, 2), b))
	}, a, b)
}

// bits applies an operator to the bits of whole numbers, or to truth values.
func bits(name string) binaryFunc {
	return func(o *op, a, b *graph.Value) *graph.Value {
		if o.typeOf(a) == tensor.Bool {
			return o.call(name, nil, a, b)
		}
		return o.call("Bitwise"+name, nil, a, b)
	}
}

// A binaryFunc makes nodes of two operands of one type.
type binaryFunc func(o *op, a, b *graph.Value) *graph.Value

func plainBinary(name string) binaryFunc {
	return func(o *op, a, b *graph.Value) *graph.Value { return o.call(name, nil, a, b) }
}

// compare returns 1 and 0 of the operands' type, or truth values under NumPy's names.
func compare(name string, negated bool) binaryFunc {
	return func(o *op, a, b *graph.Value) *graph.Value {
		r := o.call(name, nil, a, b)
		if negated {
			r = o.call("Not", nil, r)
		}
		return o.verdict(r, o.typeOf(a))
	}
}

func (o *op) verdict(r *graph.Value, dt tensor.DType) *graph.Value {
	if o.numpyName() {
		return r
	}
	return o.cast(r, dt)
}

// numpyName reports an operator of the names that follow NumPy.
func (o *op) numpyName() bool { return len(o.kind) > 4 && o.kind[:3] == "_np" }

func logical(name string) binaryFunc {
	return func(o *op, a, b *graph.Value) *graph.Value {
		return o.verdict(o.call(name, nil, o.truth(a), o.truth(b)), o.typeOf(a))
	}
}

// modulo has the sign of the divisor, and is 0 where that is 0.
func modulo(o *op, a, b *graph.Value) *graph.Value {
	zero := o.like(a, 0)
	none := o.call("Equal", nil, b, zero)
	safe := o.call("Where", nil, none, o.like(a, 1), b)
	r := o.call("Mod", attrs(graph.IntAttr("fmod", 1)), a, safe)
	other := o.call("Xor", nil, o.call("Less", nil, r, zero), o.call("Less", nil, safe, zero))
	shift := o.call("And", nil, other, o.call("Not", nil, o.call("Equal", nil, r, zero)))
	r = o.call("Where", nil, shift, o.call("Add", nil, r, safe), r)
	return o.call("Where", nil, none, zero, r)
}

func hypot(o *op, a, b *graph.Value) *graph.Value {
	return o.inFull(func(xs ...*graph.Value) *graph.Value {
		a, b := xs[0], xs[1]
		return o.call("Sqrt", nil, o.call("Add", nil, o.call("Mul", nil, a, a), o.call("Mul", nil, b, b)))
	}, a, b)
}

func divide(o *op, a, b *graph.Value) *graph.Value {
	if o.numpyName() {
		a, b = o.floating(a), o.floating(b)
	}
	return o.call("Div", nil, a, b)
}

// binaries are the functions of two numbers: MXNet's element-wise names, broadcasting ones, those with a scalar on the right
// and on the left.
var binaries = []struct {
	do                              binaryFunc
	pairs, right, left, numpyScalar []string
}{
	{plainBinary("Add"), []string{"elemwise_add", "_plus", "_Plus", "_add", "_grad_add", "broadcast_add", "broadcast_plus", "_npi_add"},
		[]string{"_plus_scalar", "_PlusScalar", "_npi_add_scalar"}, nil, nil},
	{plainBinary("Sub"), []string{"elemwise_sub", "_minus", "_Minus", "_sub", "broadcast_sub", "broadcast_minus", "_npi_subtract"},
		[]string{"_minus_scalar", "_MinusScalar", "_npi_subtract_scalar"}, []string{"_rminus_scalar", "_RMinusScalar", "_npi_rsubtract_scalar"}, nil},
	{plainBinary("Mul"), []string{"elemwise_mul", "_mul", "_Mul", "broadcast_mul", "_npi_multiply"},
		[]string{"_mul_scalar", "_MulScalar", "_npi_multiply_scalar"}, nil, nil},
	{divide, []string{"elemwise_div", "_div", "_Div", "broadcast_div", "_npi_true_divide"},
		[]string{"_div_scalar", "_DivScalar", "_npi_true_divide_scalar"}, []string{"_rdiv_scalar", "_RDivScalar", "_npi_rtrue_divide_scalar"}, nil},
	{modulo, []string{"_mod", "_Mod", "broadcast_mod", "_npi_mod"}, []string{"_mod_scalar", "_ModScalar", "_npi_mod_scalar"},
		[]string{"_rmod_scalar", "_RModScalar", "_npi_rmod_scalar"}, nil},
	{plainBinary("Pow"), []string{"_power", "_Power", "broadcast_power", "_npi_power"}, []string{"_power_scalar", "_PowerScalar", "_npi_power_scalar"},
		[]string{"_rpower_scalar", "_RPowerScalar", "_npi_rpower_scalar"}, nil},
	{plainBinary("Max"), []string{"_maximum", "_Maximum", "broadcast_maximum", "_npi_maximum"},
		[]string{"_maximum_scalar", "_MaximumScalar", "_npi_maximum_scalar"}, nil, nil},
	{plainBinary("Min"), []string{"_minimum", "_Minimum", "broadcast_minimum", "_npi_minimum"},
		[]string{"_minimum_scalar", "_MinimumScalar", "_npi_minimum_scalar"}, nil, nil},
	{hypot, []string{"_hypot", "_Hypot", "broadcast_hypot", "_npi_hypot"}, []string{"_hypot_scalar", "_HypotScalar", "_npi_hypot_scalar"}, nil, nil},
	{arctan2, []string{"_npi_arctan2"}, []string{"_npi_arctan2_scalar"}, []string{"_npi_rarctan2_scalar"}, nil},
	{copySign, []string{"_npi_copysign"}, []string{"_npi_copysign_scalar"}, []string{"_npi_rcopysign_scalar"}, nil},
	{scaled, []string{"_npi_ldexp"}, []string{"_npi_ldexp_scalar"}, []string{"_npi_rldexp_scalar"}, nil},
	{bits("And"), []string{"_npi_bitwise_and"}, []string{"_npi_bitwise_and_scalar"}, nil, nil},
	{bits("Or"), []string{"_npi_bitwise_or"}, []string{"_npi_bitwise_or_scalar"}, nil, nil},
	{bits("Xor"), []string{"_npi_bitwise_xor"}, []string{"_npi_bitwise_xor_scalar"}, nil, nil},
	{floorDivide, []string{"_npi_floor_divide"}, []string{"_npi_floor_divide_scalar"}, []string{"_npi_rfloor_divide_scalar"}, nil},
	{lenient("Max"), []string{"_npi_fmax"}, []string{"_npi_fmax_scalar"}, nil, nil},
	{lenient("Min"), []string{"_npi_fmin"}, []string{"_npi_fmin_scalar"}, nil, nil},
	{remainder, []string{"_npi_fmod"}, []string{"_npi_fmod_scalar"}, []string{"_npi_rfmod_scalar"}, nil},
	{greatestDivisor, []string{"_npi_gcd"}, []string{"_npi_gcd_scalar"}, nil, nil},
	{leastMultiple, []string{"_npi_lcm"}, []string{"_npi_lcm_scalar"}, nil, nil},
	{shiftLeft, []string{"_npi_bitwise_left_shift"}, []string{"_npi_bitwise_left_shift_scalar"}, []string{"_npi_rbitwise_left_shift_scalar"}, nil},
	{shiftRight, []string{"_npi_bitwise_right_shift"}, []string{"_npi_bitwise_right_shift_scalar"}, []string{"_npi_rbitwise_right_shift_scalar"}, nil},
	{logAddExp, []string{"_npi_logaddexp"}, []string{"_npi_logaddexp_scalar"}, nil, nil},
	{compare("Equal", false), []string{"_equal", "_Equal", "broadcast_equal", "_npi_equal"}, []string{"_equal_scalar", "_EqualScalar", "_npi_equal_scalar"}, nil, nil},
	{compare("Equal", true), []string{"_not_equal", "_Not_Equal", "broadcast_not_equal", "_npi_not_equal"},
		[]string{"_not_equal_scalar", "_NotEqualScalar", "_npi_not_equal_scalar"}, nil, nil},
	{compare("Greater", false), []string{"_greater", "_Greater", "broadcast_greater", "_npi_greater"},
		[]string{"_greater_scalar", "_GreaterScalar", "_npi_greater_scalar"}, nil, nil},
	{compare("GreaterOrEqual", false), []string{"_greater_equal", "_Greater_Equal", "broadcast_greater_equal", "_npi_greater_equal"},
		[]string{"_greater_equal_scalar", "_GreaterEqualScalar", "_npi_greater_equal_scalar"}, nil, nil},
	{compare("Less", false), []string{"_lesser", "_Lesser", "broadcast_lesser", "_npi_less"},
		[]string{"_lesser_scalar", "_LesserScalar", "_npi_less_scalar"}, nil, nil},
	{compare("LessOrEqual", false), []string{"_lesser_equal", "_Lesser_Equal", "broadcast_lesser_equal", "_npi_less_equal"},
		[]string{"_lesser_equal_scalar", "_LesserEqualScalar", "_npi_less_equal_scalar"}, nil, nil},
	{logical("And"), []string{"_logical_and", "_Logical_And", "broadcast_logical_and", "_npi_logical_and"},
		[]string{"_logical_and_scalar", "_LogicalAndScalar", "_npi_logical_and_scalar"}, nil, nil},
	{logical("Or"), []string{"_logical_or", "_Logical_Or", "broadcast_logical_or", "_npi_logical_or"},
		[]string{"_logical_or_scalar", "_LogicalOrScalar", "_npi_logical_or_scalar"}, nil, nil},
	{logical("Xor"), []string{"_logical_xor", "_Logical_Xor", "broadcast_logical_xor", "_npi_logical_xor"},
		[]string{"_logical_xor_scalar", "_LogicalXorScalar", "_npi_logical_xor_scalar"}, nil, nil},
}

func binaryOperators(table map[string]operator) {
	for _, b := range binaries {
		named(table, single(func(o *op) *graph.Value {
			o.inputs(2, 2)
			x, y := o.unified(o.input(0), o.input(1))
			return b.do(o, x, y)
		}), b.pairs...)
		named(table, single(func(o *op) *graph.Value {
			x, s := o.withScalar()
			return b.do(o, x, s)
		}), b.right...)
		named(table, single(func(o *op) *graph.Value {
			x, s := o.withScalar()
			return b.do(o, s, x)
		}), b.left...)
	}
}

// unified brings two operands to one type, the wider of floating-point ones, and floating-point before integers.
func (o *op) unified(a, b *graph.Value) (x, y *graph.Value) {
	s, t := o.typeOf(a), o.typeOf(b)
	switch {
	case s == t:
		return a, b
	case s.IsFloat() && (!t.IsFloat() || s.Bits() >= t.Bits()), !t.IsFloat() && s.Bits() >= t.Bits():
		return a, o.cast(b, s)
	}
	return o.cast(a, t), b
}

// divides reports a quotient under NumPy's names, which is float32 of whole numbers in every version.
func (o *op) divides() bool { return strings.Contains(o.kind, "true_divide") }

// withScalar returns operand and attribute scalar in one type. Whole numbers meet a fraction, or what is marked as one, under
// NumPy's names as float64, in quotients as float32; truth values are float32 there. Elsewhere the scalar is cut, as MXNet does.
func (o *op) withScalar() (x, s *graph.Value) {
	o.inputs(1, 1)
	o.ignore("reverse")
	whole := o.flag("is_int", true)
	x = o.input(0)
	v := o.requiredNumber("scalar")
	dt := o.typeOf(x)
	if dt.IsFloat() {
		return x, o.scalar(dt, v)
	}
	if o.numpyName() && (v != math.Trunc(v) || !whole) || dt == tensor.Bool {
		real := tensor.Float64
		if dt == tensor.Bool || o.divides() {
			real = tensor.Float32
		}
		return o.cast(x, real), o.scalar(real, v)
	}
	return x, o.scalar(dt, math.Trunc(v))
}
