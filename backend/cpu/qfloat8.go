package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/property"
)

// QuantizeLinear to floats of 8 bits with a sign, and DequantizeLinear from them: quotients and products of float32, cast by tables
// (castfloat8.go). The operators ask for zero points of 0.

// zeroFloat8 reports whether the zero point of a node is such a constant, or there is none.
func zeroFloat8(n *graph.Node) *property.Reason {
	z := fuse.Behind(n.Input(2))
	if z == nil {
		return nil
	}
	if !fuse.IsTensorConst(z) {
		return property.Because(property.Unsupported, "zero point %v is not constant", z)
	}
	if slices.ContainsFunc(z.Const.Bytes(), func(b byte) bool { return b != 0 }) {
		return property.Because(property.Attribute, "zero point %v is not 0", z)
	}
	return nil
}

// quantizeFloat8 emits a QuantizeLinear.
func (p *planner) quantizeFloat8(n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	patterns, err := patternsOf(float8Key{y.Type.DType, n.Int("saturate", 1) == 0})
	if err != nil {
		return err
	}
	zero := float32(math.Copysign(0, -1)) // changes no quotient
	if n.Input(2) != nil {
		zero = 0 // makes 0 of -0
	}
	src, dst := p.In(x), p.Out(y)
	return p.emitRows(n, x, y, func(st *state, at, n int, c quant.Numbers, run int) {
		d, s := st.Bytes(dst)[at:][:n], st.F32(src)[at:][:n]
		eachRun(c.Scales, run, n, func(lo, hi int, scale float32) {
			part := d[lo:hi]
			for i, v := range s[lo:hi] {
				b := math.Float32bits(v/scale + zero)
				part[i] = patterns[upperHalf(b)]
			}
		})
	})
}

// dequantizeFloat8 emits a DequantizeLinear.
func (p *planner) dequantizeFloat8(n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	values, err := float8Values(x.Type.DType)
	if err != nil {
		return err
	}
	table := [1 << 8]float32(values)
	src, dst := p.In(x), p.Out(y)
	return p.emitRows(n, x, y, func(st *state, at, n int, c quant.Numbers, run int) {
		d, s := st.F32(dst)[at:][:n], st.Bytes(src)[at:][:n]
		eachRun(c.Scales, run, n, func(lo, hi int, scale float32) {
			part := d[lo:hi]
			for i, b := range s[lo:hi] {
				part[i] = table[b] * scale
			}
		})
	})
}

// eachRun calls body for the elements of each scale, of n in all: run of them, the last ones fewer.
func eachRun(scales []float32, run, n int, body func(lo, hi int, scale float32)) {
	for k, scale := range scales {
		lo := min(k*run, n)
		body(lo, min(lo+run, n), scale)
	}
}
