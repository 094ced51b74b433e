package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// rowTasks are element-wise operators, norms and softmax: bound by bytes.
func (b *bench) rowTasks(s sizes) []task {
	var list []task
	for _, t := range []gpukernel.Type{gpukernel.F32, gpukernel.BF16} {
		list = append(list, b.addGelu(t, s.elements))
		for _, columns := range s.norms {
			list = append(list, b.layerNorm(t, s.elements/columns, columns))
		}
		for _, columns := range s.softmaxes {
			list = append(list, b.softmax(t, s.elements/columns, columns))
		}
	}
	return list
}

// rendered is a task of a program that the renderer makes a kernel of.
func (b *bench) rendered(name string, t gpukernel.Type, p *gpukernel.Program, inputs map[string]operand, n int, want func(in map[string][]byte, i int) float64) task {
	bytes := 0
	for _, o := range inputs {
		bytes += o.count * o.typ.Size()
	}
	tolerance := 1e-5
	if t != gpukernel.F32 {
		tolerance = 8e-3
	}
	return task{
		taskName: taskName{Part: rowPart, Name: name, Side: "carve", Precision: string(t)}, inputs: inputs, result: "z", out: operand{t, n},
		bytes: float64(bytes + n*t.Size()), tolerance: tolerance, want: want,
		plan: func() (*gpukernel.Plan, error) { return gpukernel.Render("rows", b.device, p) },
	}
}

func (b *bench) addGelu(t gpukernel.Type, n int) task {
	p := &gpukernel.Program{}
	x, y := p.Input("x", t, n), p.Input("y", t, n)
	p.Output(p.Scalar(t, "gelu_f32($0)", p.Scalar(t, "$0 + $1", x, y)), "z")
	return b.rendered(fmt.Sprintf("Add, Gelu %d", n), t, p, map[string]operand{"x": {t, n}, "y": {t, n}}, n, func(in map[string][]byte, i int) float64 {
		v := element(in["x"], t, i) + element(in["y"], t, i)
		return 0.5 * v * (1 + math.Erf(v/math.Sqrt2))
	})
}

func (b *bench) softmax(t gpukernel.Type, rows, columns int) task {
	p := &gpukernel.Program{}
	x := p.Input("x", t, rows, columns)
	e := p.Scalar(t, "exp_f32($0 - $1)", x, p.Reduce(gpukernel.ReduceMax, x, 1))
	p.Output(p.Scalar(t, "$0 * $1", e, p.Scalar(t, "1.0f / $0", p.Reduce(gpukernel.ReduceSum, e, 1))), "z")
	inputs := map[string]operand{"x": {t, rows * columns}}
	return b.rendered(fmt.Sprintf("Softmax %d×%d", rows, columns), t, p, inputs, rows*columns, func(in map[string][]byte, i int) float64 {
		sum := 0.0
		for c := range columns {
			sum += math.Exp(element(in["x"], t, i/columns*columns+c))
		}
		return math.Exp(element(in["x"], t, i)) / sum
	})
}

func (b *bench) layerNorm(t gpukernel.Type, rows, columns int) task {
	p := &gpukernel.Program{}
	x, scale, shift := p.Input("x", t, rows, columns), p.Input("scale", t, columns), p.Input("shift", t, columns)
	n := p.Float(t, float32(columns))
	mean := p.Scalar(t, "$0 / $1", p.Reduce(gpukernel.ReduceSum, x, 1), n)
	centred := p.Scalar(t, "$0 - $1", x, mean)
	variance := p.Scalar(t, "$0 / $1", p.Reduce(gpukernel.ReduceSum, p.Scalar(t, "$0 * $0", centred), 1), n)
	inverse := p.Scalar(t, "1.0f / sqrt_f32($0 + 1e-5f)", variance)
	p.Output(p.Scalar(t, "$0 * $1 * $2 + $3", centred, inverse, scale, shift), "z")
	inputs := map[string]operand{"x": {t, rows * columns}, "scale": {t, columns}, "shift": {t, columns}}
	return b.rendered(fmt.Sprintf("LayerNormalization %d×%d", rows, columns), t, p, inputs, rows*columns, func(in map[string][]byte, i int) float64 {
		first, sum, squares := i/columns*columns, 0.0, 0.0
		for c := range columns {
			v := element(in["x"], t, first+c)
			sum, squares = sum+v, squares+v*v
		}
		mean := sum / float64(columns)
		deviation := math.Sqrt(squares/float64(columns) - mean*mean + 1e-5)
		return (element(in["x"], t, i)-mean)/deviation*element(in["scale"], t, i%columns) + element(in["shift"], t, i%columns)
	})
}
