package vec

import "fmt"

// Op is an element-wise function of one operand.
type Op uint8

// The functions. Where one has parameters, they are fields of Params.
const (
	Exp          Op = iota // e^x; on x86 0 where that is below 2^-126
	Log                    // ln x; -Inf for 0, NaN below
	Tanh                   // tanh x
	Sigmoid                // 1 / (1 + e^-x)
	Erf                    // erf x
	Sqrt                   // √x, correctly rounded
	Rsqrt                  // 1/√x
	Reciprocal             // 1/x, correctly rounded
	Abs                    // |x|
	Neg                    // -x
	Square                 // x²
	Cube                   // x³
	Relu                   // max(x, 0)
	LeakyRelu              // x < 0 ? A·x : x
	Clip                   // max(A, min(B, x)); with A > B, B
	Elu                    // x > 0 ? C·x : A·(e^(B·x) - 1): Elu, Selu and Celu by choice of A, B > 0, C; see EluParams
	HardSigmoid            // max(0, min(1, A·x + B))
	HardSwish              // x · max(0, min(1, x/6 + 1/2))
	Silu                   // x / (1 + e^-x)
	Swish                  // x / (1 + e^-(A·x))
	GeluErf                // x/2 · (1 + erf(x/√2))
	GeluTanh               // x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))
	Softplus               // ln(1 + e^x)
	Mish                   // x · tanh(ln(1 + e^x))
	Floor                  // the greatest integer not above x
	Ceil                   // the least integer not below x
	Round                  // the nearest integer, ties to even
	Sin                    // sin x
	Cos                    // cos x
	Tan                    // tan x
	Asin                   // arcsin x; NaN beyond 1
	Acos                   // arccos x; NaN beyond 1
	Atan                   // arctan x
	Sinh                   // sinh x
	Cosh                   // cosh x
	Softsign               // x / (1 + |x|)
	Sign                   // 1 above 0, -1 below, else x
	Threshold              // x > A ? x : 0; NaN stays
	Shrink                 // x < -A ? x + B : x > A ? x - B : 0, which is that of NaN
	FakeQuantize           // A · max(B, min(C, Round(x/A))), A > 0; A · B for NaN
	numOps
)

var opNames = [numOps]string{"exp", "log", "tanh", "sigmoid", "erf", "sqrt", "rsqrt", "reciprocal", "abs", "neg", "square", "cube",
	"relu", "leaky-relu", "clip", "elu", "hard-sigmoid", "hard-swish", "silu", "swish", "gelu-erf", "gelu-tanh", "softplus", "mish",
	"floor", "ceil", "round", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "softsign", "sign", "threshold", "shrink", "fake-quantize"}

// Ops returns every function, in order.
func Ops() []Op {
	ops := make([]Op, numOps)
	for i := range ops {
		ops[i] = Op(i)
	}
	return ops
}

// String returns the lower-case name.
func (o Op) String() string {
	if o < numOps {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Params are the parameters of an Op; what they mean stands at the Op. Fields that an Op does not name are not looked at.
type Params struct{ A, B, C float32 }

// EluParams returns the parameters of Elu for Elu(alpha).
func EluParams(alpha float32) Params { return Params{alpha, 1, 1} }

// SeluParams returns the parameters of Elu for Selu(alpha, gamma).
func SeluParams(alpha, gamma float32) Params { return Params{alpha * gamma, 1, gamma} }

// CeluParams returns the parameters of Elu for Celu(alpha), alpha > 0.
func CeluParams(alpha float32) Params { return Params{alpha, 1 / alpha, 1} }
