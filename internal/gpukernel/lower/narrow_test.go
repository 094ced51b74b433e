package lower_test

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var (
	smallFloats = []tensor.DType{tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2, tensor.Float8E5M2FNUZ, tensor.Float8E8M0, tensor.Float4E2M1}
	smallInts   = []tensor.DType{tensor.Int4, tensor.Uint4, tensor.Int2, tensor.Uint2}
)

func init() {
	randomOperators["Cast of narrow types"] = castNarrow
	randomOperators["Cast of what a type does not hold"] = castTwice
	randomOperators["QuantizeLinear to narrow types"] = func(g *randomGraph) {
		float := g.anyOf(tensor.Float32, tensor.Float16)
		to := g.anyOf(append(smallInts[:4:4], smallFloats[0], smallFloats[1], smallFloats[2], smallFloats[3], smallFloats[5])...)
		x, scale := g.add(float, 3, 1+g.r.IntN(9)), g.add(float, 3)
		must(tensor.Encode(g.data[scale], []float64{0.25, 0.01, 1.5}))
		attrs := []graph.Attr{graph.IntAttr("axis", 0), graph.IntAttr("output_dtype", int64(to))}
		inputs := values(x, scale)
		switch {
		case to.IsInt():
			inputs = append(inputs, g.bits(to, 3))
			attrs = attrs[:1]
		case g.r.IntN(2) == 0:
			attrs = append(attrs, graph.IntAttr("saturate", 0))
		}
		g.node("QuantizeLinear", inputs, attrs...)
	}
	randomOperators["DequantizeLinear of narrow types"] = func(g *randomGraph) {
		from := g.anyOf(append(smallInts[:4:4], tensor.Float8E4M3FN, tensor.Float8E5M2, tensor.Float4E2M1)...)
		n := 1 + g.r.IntN(9)
		inputs := values(g.bits(from, 3, n), g.add(g.anyOf(tensor.Float32, tensor.Float16), 3))
		if from.IsInt() {
			inputs = append(inputs, g.bits(from, 3))
		}
		g.node("DequantizeLinear", inputs, graph.IntAttr("axis", 0))
	}
	randomOperators["narrow types that are moved"] = func(g *randomGraph) {
		x := g.bits(g.anyOf(append(smallInts[:4:4], smallFloats...)...), 3, 5, 1+g.r.IntN(5))
		if g.r.IntN(2) == 0 {
			x = g.node("Flatten", values(x))
			g.node("Transpose", values(x))
			return
		}
		g.node("Transpose", values(x), graph.IntsAttr("perm", 2, 0, 1))
	}
}

func (g *randomGraph) anyOf(list ...tensor.DType) tensor.DType { return list[g.r.IntN(len(list))] }

// bits adds an input of any elements that a type has.
func (g *randomGraph) bits(dt tensor.DType, shape ...int) *graph.Value {
	x := g.add(dt, shape...)
	b := g.data[x].Bytes()
	for i := range b {
		b[i] = byte(g.r.IntN(256))
	}
	if spare := len(b)*8 - g.data[x].Len()*dt.Bits(); spare > 0 { // what is behind the last element is zero
		b[len(b)-1] &= byte(1<<(8-spare) - 1)
	}
	return x
}

// castNarrow converts numbers of any magnitude, among them ties and those that no other number is beyond, or all values of a type.
func castNarrow(g *randomGraph) {
	all := append(smallInts[:4:4], smallFloats...)
	if g.r.IntN(2) == 0 {
		from := g.anyOf(all...)
		to := g.anyOf(tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float8E5M2, tensor.Float8E4M3FNUZ, tensor.Float4E2M1)
		if from.IsInt() {
			to = g.anyOf(append(all, tensor.Float32, tensor.Int8, tensor.Uint8, tensor.Int64)...)
		}
		g.node("Cast", values(g.bits(from, 1+g.r.IntN(300))), graph.IntAttr("to", int64(to)), graph.IntAttr("saturate", g.pickInt(0, 1)))
		return
	}
	x := g.anyMagnitude()
	g.node("Cast", values(x), graph.IntAttr("to", int64(g.anyOf(all...))), graph.IntAttr("saturate", g.pickInt(0, 1)),
		graph.StringAttr("round_mode", g.pickStr("up", "down", "nearest")))
}

// anyMagnitude adds floats of any magnitude, infinities and NaN among them.
func (g *randomGraph) anyMagnitude() *graph.Value {
	x := g.add(g.anyOf(tensor.Float32, tensor.Float16, tensor.BFloat16), 200+g.r.IntN(4))
	v := make([]float64, g.data[x].Len())
	for i := range v {
		switch v[i] = math.Ldexp(float64(g.r.IntN(65)-32), g.r.IntN(24)-18); g.r.IntN(20) {
		case 0:
			v[i] = math.Ldexp(g.r.Float64(), g.r.IntN(260)-149)
		case 1:
			v[i] = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 3e9, -1e19}[g.r.IntN(7)]
		case 2:
			v[i] = (g.r.Float64() - 0.5) * 1000
		}
	}
	must(tensor.Encode(g.data[x], v))
	return x
}

// castTwice converts numbers of any magnitude, and what is kept of them again, within a kernel.
func castTwice(g *randomGraph) {
	types := []tensor.DType{tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64, tensor.Bool}
	x := g.anyMagnitude()
	for range 1 + g.r.IntN(3) {
		g.node("Cast", values(x), graph.IntAttr("to", int64(g.anyOf(types...))))
		x = g.values[len(g.values)-1]
	}
	if g.r.IntN(2) == 0 {
		g.node("Cast", values(x), graph.IntAttr("to", int64(tensor.Float32)))
	}
}
