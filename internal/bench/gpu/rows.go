package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// rowTasks are element-wise operators, norms and softmax: bound by bytes.
func (b *bench) rowTasks() []task {
	var list []task
	for _, t := range []gpukernel.Type{gpukernel.F32, gpukernel.BF16} {
		list = append(list, b.addGelu(t, 1<<27))
		for _, columns := range []int{128, 768, 1000, 4096, 50257} {
			list = append(list, b.softmax(t, (1<<27)/columns, columns))
		}
		for _, columns := range []int{768, 1024, 4096} {
			list = append(list, b.layerNorm(t, (1<<27)/columns, columns))
		}
	}
	return list
}

func tolerance(t gpukernel.Type) float64 {
	if t == gpukernel.F32 {
		return 1e-5
	}
	return 8e-3
}

func (b *bench) addGelu(t gpukernel.Type, n int) task {
	p := &gpukernel.Program{}
	x, y := p.Input("x", t, n), p.Input("y", t, n)
	p.Output(p.Scalar(t, "gelu_f32($0)", p.Scalar(t, "$0 + $1", x, y)), "z")
	plan, err := gpukernel.Render("add_gelu", b.device, p)
	return task{
		name: fmt.Sprintf("Add, Gelu %s %d", t, n), plan: plan, err: err, inputs: map[string]operand{"x": {t, n}, "y": {t, n}},
		result: "z", out: operand{t, n}, bytes: 3 * float64(n*t.Size()), tolerance: tolerance(t),
		want: func(in map[string][]byte, i int) float64 {
			v := element(in["x"], t, i) + element(in["y"], t, i)
			return 0.5 * v * (1 + math.Erf(v/math.Sqrt2))
		},
	}
}

func (b *bench) softmax(t gpukernel.Type, rows, columns int) task {
	p := &gpukernel.Program{}
	x := p.Input("x", t, rows, columns)
	e := p.Scalar(t, "exp_f32($0 - $1)", x, p.Reduce(gpukernel.ReduceMax, x, 1))
	p.Output(p.Scalar(t, "$0 * $1", e, p.Scalar(t, "1.0f / $0", p.Reduce(gpukernel.ReduceSum, e, 1))), "z")
	plan, err := gpukernel.Render("softmax", b.device, p)
	return task{
		name: fmt.Sprintf("Softmax %s %dx%d", t, rows, columns), plan: plan, err: err, inputs: map[string]operand{"x": {t, rows * columns}},
		result: "z", out: operand{t, rows * columns}, bytes: 2 * float64(rows*columns*t.Size()), tolerance: tolerance(t),
		want: func(in map[string][]byte, i int) float64 {
			sum := 0.0
			for c := range columns {
				sum += math.Exp(element(in["x"], t, i/columns*columns+c))
			}
			return math.Exp(element(in["x"], t, i)) / sum
		},
	}
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
	plan, err := gpukernel.Render("layer_norm", b.device, p)
	return task{
		name: fmt.Sprintf("LayerNormalization %s %dx%d", t, rows, columns), plan: plan, err: err,
		inputs: map[string]operand{"x": {t, rows * columns}, "scale": {t, columns}, "shift": {t, columns}},
		result: "z", out: operand{t, rows * columns}, bytes: 2 * float64(rows*columns*t.Size()), tolerance: tolerance(t),
		want: func(in map[string][]byte, i int) float64 {
			first, sum, squares := i/columns*columns, 0.0, 0.0
			for c := range columns {
				v := element(in["x"], t, first+c)
				sum, squares = sum+v, squares+v*v
			}
			mean := sum / float64(columns)
			deviation := math.Sqrt(squares/float64(columns) - mean*mean + 1e-5)
			return (element(in["x"], t, i)-mean)/deviation*element(in["scale"], t, i%columns) + element(in["shift"], t, i%columns)
		},
	}
}
