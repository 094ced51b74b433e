package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/shortrow"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// norms are what Normalizer divides a row by; see package reference.
var norms = map[string]func(k double.Kernels, row []float64) float64{
	"MAX": func(k double.Kernels, row []float64) float64 {
		s := -math.MaxFloat32
		if len(row) > shortRow {
			if most := k.Reduce(double.Greatest, row); most == most {
				return max(most, s)
			}
		}
		for _, x := range row {
			if x > s { // not where x is NaN
				s = x
			}
		}
		return s
	},
	"L1": func(k double.Kernels, row []float64) float64 {
		if len(row) > shortRow {
			return k.Reduce(double.SumAbs, row)
		}
		s := 0.0
		for _, x := range row {
			s += math.Abs(x)
		}
		return s
	},
	"L2": func(k double.Kernels, row []float64) float64 {
		if len(row) > shortRow {
			return math.Sqrt(k.Reduce(double.SumSquares, row))
		}
		s := 0.0
		for _, x := range row {
			s += x * x
		}
		return math.Sqrt(s)
	},
}

func normalizerOf(n *graph.Node) (func(k double.Kernels, row []float64) float64, *property.Reason) {
	norm, ok := norms[n.Str("norm", "MAX")]
	if !ok {
		return nil, property.Because(property.Attribute, "norm %q", n.Str("norm", ""))
	}
	return norm, nil
}

func planNormalizer(p *planner, n *graph.Node) error {
	norm, why := normalizerOf(n)
	if why != nil {
		return why
	}
	r, k := newNumberRows(p, n.Inputs[0], 0), p.doubles()
	if n.Outputs[0].Type.DType == tensor.Float32 && r.columns > 0 {
		few := shortrow.For(p.target)
		norm := map[string]shortrow.Norm{"L1": shortrow.L1, "L2": shortrow.L2, "MAX": shortrow.Max}[n.Str("norm", "MAX")]
		switch y := p.Out(n.Outputs[0]); r.from {
		case tensor.Float32:
			eachRow(p, r.src, y, r.rows, r.columns, func(dst, src []float32, count int) { few.Divide(norm, dst, src, count) })
			return nil
		case tensor.Int32, tensor.Int64: // whose norms have an inverse
			r.together = min(r.rows, max(1, nearNumbers/r.columns))
			r.wide = p.scratch(r.together * r.columns * 8)
			r.each(p, float64(r.columns), []place.Memory{y}, func(st *state, _ int, x []float64, lo, count int) {
				few.DivideWide(norm, of[float32](st, y)[lo*r.columns:][:len(x)], x, r.columns)
			})
			return nil
		}
	}
	return mapped(p, n, r, float64(r.columns), func(row []float64) {
		s := [1]float64{norm(k, row)}
		switch by := 1 / s[0]; {
		case s[0] == 0:
		case math.IsInf(by, 0):
			k.Binary(double.Div, double.VS, row, row, s[:])
		case len(row) > shortRow:
			k.Scale(row, row, by)
		default:
			for i := range row {
				row[i] *= by
			}
		}
	})
}
