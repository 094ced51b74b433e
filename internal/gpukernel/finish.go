package gpukernel

import (
	"fmt"
	"math"
	"strings"
)

// FinishOp is what a step does to an element of a result before it is stored.
type FinishOp uint8

// The steps. Those with an operand read it from a buffer of its own.
const (
	AddColumn FinishOp = iota // + operand[column]: a bias
	AddMatrix                 // + operand[row, column]: a residual, laid out like the result without its stride
	Scale                     // × Alpha
	Relu
	Clip  // to [Alpha, Beta]
	Leaky // Alpha where negative
	Sigmoid
	Silu
	Gelu // by erf
	GeluTanh
	Tanh
	HardSwish
	HardSigmoid // Alpha, Beta
)

// Step is one step of what a product does to its result before storing it; steps apply in order.
type Step struct {
	Op          FinishOp
	Operand     Type // of AddColumn, AddMatrix
	Alpha, Beta float32
}

func (s Step) reads() bool { return s.Op <= AddMatrix }

// operandName returns the name of the parameter and buffer of step i.
func operandName(i int) string { return fmt.Sprintf("operand%d", i) }

// finish returns the macro FINISH(v, m, n) that applies the steps, and the parameters and arguments it needs. It reads
// matrices at matrix, an expression of m and n. v is of the type real, F32 or F64.
func finish(steps []Step, matrix string, real Type) (Define, []Param, []Arg) {
	var params []Param
	var args []Arg
	var b strings.Builder
	for i, s := range steps {
		name := operandName(i)
		if s.reads() {
			params = append(params, Param{Name: name, Type: s.Operand})
			args = append(args, buffer(name))
		}
		e := s.expression(name, matrix)
		if real == F64 {
			e = doubled(e)
		}
		fmt.Fprintf(&b, "v = %s; ", e)
	}
	return Define{"FINISH(v, m, n)", b.String()}, params, args
}

func (s Step) expression(operand, matrix string) string {
	a, b := FloatLiteral(s.Alpha), FloatLiteral(s.Beta)
	switch s.Op {
	case AddColumn:
		return fmt.Sprintf("v + LOAD(%s, %s, (n) + column_base)", s.Operand, operand)
	case AddMatrix:
		return fmt.Sprintf("v + LOAD(%s, %s, %s)", s.Operand, operand, matrix)
	case Scale:
		return "v * " + a
	case Relu:
		return "relu_f32(v)"
	case Clip:
		return fmt.Sprintf("clip_f32(v, %s, %s)", a, b)
	case Leaky:
		return fmt.Sprintf("leaky_f32(v, %s)", a)
	case Sigmoid:
		return "sigmoid_f32(v)"
	case Silu:
		return "silu_f32(v)"
	case Gelu:
		return "gelu_f32(v)"
	case GeluTanh:
		return "gelu_tanh_f32(v)"
	case Tanh:
		return "tanh_f32(v)"
	case HardSwish:
		return "hard_swish_f32(v)"
	default:
		return fmt.Sprintf("hard_sigmoid_f32(v, %s, %s)", a, b)
	}
}

// FloatLiteral writes a float so that every compiler of the dialect reads the same bits.
func FloatLiteral(f float32) string {
	if f == float32(int32(f)) && math.Abs(float64(f)) < 1e6 && !math.Signbit(float64(f)) {
		return fmt.Sprintf("%d.0f", int32(f))
	}
	return fmt.Sprintf("f32_of_bits(0x%08xu)", math.Float32bits(f))
}
