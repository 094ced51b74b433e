package lower_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
)

var (
	times = flag.Int("times", 4, "nodes of each operator to render, compile and compare with the reference")
	which = flag.String("operators", "", "a part of the names of the operators to try; empty for all")
)

// add adds an input with random content.
func (g *randomGraph) add(dt tensor.DType, shape ...int) *graph.Value {
	g.input(dt, shape)
	return g.values[len(g.values)-1]
}

// below adds an input of indices from lo to n-1.
func (g *randomGraph) below(lo, n int, shape ...int) *graph.Value {
	x := g.add(tensor.Int64, shape...)
	v := make([]float64, g.data[x].Len())
	for i := range v {
		v[i] = float64(lo + g.r.IntN(n-lo))
	}
	must(tensor.Encode(g.data[x], v))
	return x
}

// dims returns random extents.
func (g *randomGraph) dims(rank, most int) []int {
	s := make([]int, rank)
	for i := range s {
		s[i] = 1 + g.r.IntN(most)
	}
	return s
}

func (g *randomGraph) pickInt(list ...int64) int64   { return list[g.r.IntN(len(list))] }
func (g *randomGraph) pickStr(list ...string) string { return list[g.r.IntN(len(list))] }
func (g *randomGraph) axis(rank int) graph.Attr {
	return graph.IntAttr("axis", int64(g.r.IntN(2*rank)-rank))
}
func values(v ...*graph.Value) []*graph.Value { return v }
func (g *randomGraph) floatsConst(v ...float32) *graph.Value {
	return g.AddConst("", tensor.From(v, len(v)))
}

// randomOperators make one node each, of random shapes and attributes.
var randomOperators = map[string]func(g *randomGraph){
	"ArgMax": func(g *randomGraph) { argExtreme(g, "ArgMax") },
	"ArgMin": func(g *randomGraph) { argExtreme(g, "ArgMin") },
	"Hardmax": func(g *randomGraph) {
		rank := 1 + g.r.IntN(4)
		g.node("Hardmax", values(g.add(g.float, g.dims(rank, 7)...)), g.axis(rank))
	},
	"OneHot": func(g *randomGraph) {
		rank, depth := 1+g.r.IntN(3), 2+g.r.IntN(9)
		v := g.add(tensor.Float32, 2)
		g.node("OneHot", values(g.below(-depth-1, depth+2, g.dims(rank, 6)...), g.ints(int64(depth)), v), graph.IntAttr("axis", int64(g.r.IntN(2*rank+2)-rank-1)))
	},
	"Trilu": func(g *randomGraph) {
		x := g.add([]tensor.DType{tensor.Float32, tensor.Int64, tensor.Uint8}[g.r.IntN(3)], g.dims(2+g.r.IntN(2), 9)...)
		k := g.AddConst("", tensor.Scalar(int64(g.r.IntN(23)-11)))
		g.node("Trilu", values(x, k), graph.IntAttr("upper", g.pickInt(0, 1)))
	},
	"EyeLike": func(g *randomGraph) {
		g.node("EyeLike", values(g.add(tensor.Float32, g.dims(2, 9)...)), graph.IntAttr("k", int64(g.r.IntN(23)-11)))
	},
	"GatherElements": func(g *randomGraph) {
		rank := 1 + g.r.IntN(4)
		in := g.dims(rank, 7)
		at, a := slices.Clone(in), g.r.IntN(rank)
		for i := range at {
			at[i] = 1 + g.r.IntN(at[i])
		}
		at[a] = 1 + g.r.IntN(9)
		g.node("GatherElements", values(g.add(g.float, in...), g.below(-in[a], in[a], at...)), graph.IntAttr("axis", int64(a)))
	},
	"GatherND": func(g *randomGraph) {
		rank := 1 + g.r.IntN(4)
		in := g.dims(rank, 6)
		batch := g.r.IntN(rank)
		width := 1 + g.r.IntN(rank-batch)
		least := slices.Min(in[batch : batch+width])
		rows := append(slices.Clone(in[:batch]), g.dims(g.r.IntN(3), 5)...)
		g.node("GatherND", values(g.add(g.float, in...), g.below(-least, least, append(rows, width)...)), graph.IntAttr("batch_dims", int64(batch)))
	},
	"ReverseSequence": func(g *randomGraph) {
		in := g.dims(2+g.r.IntN(2), 8)
		batch := g.r.IntN(2)
		g.node("ReverseSequence", values(g.add(g.float, in...), g.below(0, in[1-batch]+1, in[batch])), graph.IntAttr("batch_axis", int64(batch)),
			graph.IntAttr("time_axis", int64(1-batch)))
	},
	"DepthToSpace": func(g *randomGraph) {
		b := 1 + g.r.IntN(3)
		g.node("DepthToSpace", values(g.add(g.float, 2, b*b*(1+g.r.IntN(3)), 1+g.r.IntN(4), 1+g.r.IntN(4))), graph.IntAttr("blocksize", int64(b)),
			graph.StringAttr("mode", g.pickStr("DCR", "CRD")))
	},
	"SpaceToDepth": func(g *randomGraph) {
		b := 1 + g.r.IntN(3)
		g.node("SpaceToDepth", values(g.add(g.float, 2, 3, b*(1+g.r.IntN(4)), b*(1+g.r.IntN(4)))), graph.IntAttr("blocksize", int64(b)))
	},
	"CumSum":  func(g *randomGraph) { cumulative(g, "CumSum") },
	"CumProd": func(g *randomGraph) { cumulative(g, "CumProd") },
	"Resize":  resize,
	"InstanceNormalization": func(g *randomGraph) {
		in := append(g.dims(2, 5), g.dims(1+g.r.IntN(3), 9)...)
		g.node("InstanceNormalization", values(g.add(g.float, in...), g.add(g.float, in[1]), g.add(g.float, in[1])), graph.FloatAttr("epsilon", 0.1))
	},
	"GroupNormalization": func(g *randomGraph) {
		groups := 1 + g.r.IntN(3)
		c := groups * (1 + g.r.IntN(3))
		g.node("GroupNormalization", values(g.add(g.float, append([]int{1 + g.r.IntN(3), c}, g.dims(1+g.r.IntN(3), 6)...)...), g.add(g.float, c), g.add(g.float, c)),
			graph.FloatAttr("epsilon", 0.1), graph.IntAttr("num_groups", int64(groups)))
	},
	"RMSNormalization": func(g *randomGraph) {
		in := g.dims(1+g.r.IntN(4), 9)
		a := g.r.IntN(len(in))
		g.node("RMSNormalization", values(g.add(g.float, in...), g.add(g.float, in[a:]...)), graph.FloatAttr("epsilon", 0.1), graph.IntAttr("axis", int64(a)))
	},
	"MeanVarianceNormalization": func(g *randomGraph) {
		g.node("MeanVarianceNormalization", values(g.add(g.float, 2+g.r.IntN(3), 1+g.r.IntN(4), 4+g.r.IntN(5), 1+g.r.IntN(5))))
	},
	"LpNormalization": func(g *randomGraph) {
		rank := 1 + g.r.IntN(4)
		g.node("LpNormalization", values(g.add(g.float, g.dims(rank, 9)...)), g.axis(rank), graph.IntAttr("p", g.pickInt(1, 2)))
	},
	"LRN": func(g *randomGraph) {
		g.node("LRN", values(g.add(g.float, append(g.dims(2, 9), g.dims(g.r.IntN(3), 5)...)...)), graph.IntAttr("size", int64(1+g.r.IntN(6))),
			graph.FloatAttr("alpha", 0.3), graph.FloatAttr("beta", 0.6), graph.FloatAttr("bias", 1.5))
	},
	"ReduceLogSumExp": func(g *randomGraph) {
		rank := 1 + g.r.IntN(4)
		g.node("ReduceLogSumExp", values(g.add(g.float, g.dims(rank, 9)...), g.ints(int64(g.r.IntN(rank)))), graph.IntAttr("keepdims", g.pickInt(0, 1)))
	},
	"NegativeLogLikelihoodLoss": func(g *randomGraph) { loss(g, "NegativeLogLikelihoodLoss") },
	"SoftmaxCrossEntropyLoss":   func(g *randomGraph) { loss(g, "SoftmaxCrossEntropyLoss") },
	"Mod": func(g *randomGraph) {
		if g.r.IntN(3) == 0 {
			g.node("Mod", values(g.add(tensor.Float32, 4, 5), g.add(tensor.Float32, 5)), graph.IntAttr("fmod", 1))
			return
		}
		dt := []tensor.DType{tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Int8}[g.r.IntN(4)]
		g.node("Mod", values(g.add(dt, 4, 5), g.add(dt, 4, 1)), graph.IntAttr("fmod", g.pickInt(0, 1)))
	},
	"BitShift": func(g *randomGraph) {
		x, by := g.add(tensor.Uint8, 3, 7), g.add(tensor.Uint8, 3, 7)
		v := make([]float64, 21)
		for i := range v {
			v[i] = float64(g.r.IntN(11))
		}
		must(tensor.Encode(g.data[by], v))
		g.node("BitShift", values(x, by), graph.StringAttr("direction", g.pickStr("LEFT", "RIGHT")))
	},
	"BitwiseXor": func(g *randomGraph) {
		g.node(g.pickStr("BitwiseXor", "BitwiseOr", "BitwiseAnd"), values(g.add(tensor.Int32, 4, 5), g.add(tensor.Int32, 5)))
	},
	"BitwiseNot": func(g *randomGraph) {
		g.node("BitwiseNot", values(g.add([]tensor.DType{tensor.Int64, tensor.Uint8, tensor.Int8}[g.r.IntN(3)], 4, 5)))
	},
	"IsInf": func(g *randomGraph) {
		x := g.add(tensor.Float32, 3, 3)
		g.node("IsInf", values(g.node("Div", values(x, g.node("Relu", values(x))))), graph.IntAttr("detect_positive", g.pickInt(0, 1)),
			graph.IntAttr("detect_negative", g.pickInt(0, 1)))
	},
	"Shrink": func(g *randomGraph) {
		g.node("Shrink", values(g.add(g.float, 5, 7)), graph.FloatAttr("lambd", 0.7), graph.FloatAttr("bias", 0.3))
	},
	"Mean": func(g *randomGraph) {
		g.node("Mean", values(g.add(g.float, 5, 7), g.add(g.float, 7), g.add(g.float, 5, 1)))
	},
	"LpPool": func(g *randomGraph) {
		g.node("LpPool", values(g.add(g.float, 1, 2, 5+g.r.IntN(4), 5+g.r.IntN(4))), graph.IntAttr("p", g.pickInt(1, 2, 3)),
			graph.IntsAttr("kernel_shape", 1+int64(g.r.IntN(3)), 2), graph.IntsAttr("pads", 0, 1, 0, 0), graph.IntsAttr("strides", g.pickInt(1, 2), 1))
	},
	"MaxPool": func(g *randomGraph) {
		g.node("MaxPool", values(g.add([]tensor.DType{tensor.Uint8, tensor.Int8}[g.r.IntN(2)], 1, 2, 7, 8)), graph.IntsAttr("kernel_shape", 3, 2),
			graph.IntsAttr("pads", 1, 1, 1, 0), graph.IntsAttr("strides", g.pickInt(1, 2), 1))
	},
	"MaxPoolIndices": func(g *randomGraph) {
		dt := []tensor.DType{tensor.Float32, g.float, tensor.Uint8, tensor.Int8}[g.r.IntN(4)]
		if g.r.IntN(3) == 0 {
			g.results(2, "MaxPool", values(g.add(dt, 2, 2, 4, 5, 6)), graph.IntsAttr("kernel_shape", 2, 1, 3), graph.IntsAttr("pads", 1, 0, 0, 0, 0, 2),
				graph.IntAttr("storage_order", g.pickInt(0, 1)))
			return
		}
		g.results(2, "MaxPool", values(g.add(dt, 2, 3, 7, 8)), graph.IntsAttr("kernel_shape", 3, 2), graph.IntsAttr("pads", 1, 1, 1, 0),
			graph.IntsAttr("strides", g.pickInt(1, 2), 1), graph.IntsAttr("dilations", 1, g.pickInt(1, 3)), graph.IntAttr("storage_order", g.pickInt(0, 1)))
	},
	"AveragePool": func(g *randomGraph) {
		g.node("AveragePool", values(g.add(tensor.Float32, 1, 2, 6, 7, 5)), graph.IntsAttr("kernel_shape", 5, 5, 5), graph.IntsAttr("pads", 1, 2, 0, 0, 1, 2),
			graph.IntAttr("count_include_pad", g.pickInt(0, 1)))
	},
	"QuantizeLinear": func(g *randomGraph) {
		x := g.add(tensor.Float32, 2, 6, 5)
		zeros := []tensor.DType{tensor.Uint8, tensor.Int8}[g.r.IntN(2)]
		switch g.r.IntN(3) {
		case 0:
			g.node("QuantizeLinear", values(x, g.floatsConst(0.0171), g.add(zeros, 1)))
		case 1:
			g.node("QuantizeLinear", values(x, g.floatsConst(0.0171, 0.031, 0.27, 0.003, 0.8, 0.1), g.add(zeros, 6)))
		default:
			s := g.AddConst("", tensor.From([]float32{0.013, 0.2, 0.03, 0.004, 0.05, 0.6, 0.07, 0.08, 0.9, 0.011, 0.02, 0.3, 0.01, 0.02, 0.03, 0.4, 0.5, 0.6, 0.7, 0.08}, 2, 2, 5))
			g.node("QuantizeLinear", values(x, s), graph.IntAttr("block_size", 3))
		}
	},
	"DequantizeLinear": func(g *randomGraph) {
		dt := []tensor.DType{tensor.Uint8, tensor.Int8}[g.r.IntN(2)]
		if g.r.IntN(2) == 0 {
			g.node("DequantizeLinear", values(g.add(dt, 3, 4), g.add(tensor.Float32, 4), g.add(dt, 4)), graph.IntAttr("axis", g.pickInt(1, -1)))
			return
		}
		g.node("DequantizeLinear", values(g.add(dt, 3, 5), g.add(tensor.Float32, 2, 5), g.add(dt, 2, 5)), graph.IntAttr("axis", 0), graph.IntAttr("block_size", 2))
	},
	"Pad": func(g *randomGraph) {
		in := g.dims(1+g.r.IntN(3), 7)
		for i := range in {
			in[i] += 3
		}
		axis := g.r.IntN(len(in))
		mode := g.pickStr("constant", "edge", "reflect", "wrap")
		inputs := values(g.add(g.float, in...), g.ints(int64(g.r.IntN(6)-2), int64(g.r.IntN(6)-2)), nil, g.ints(int64(axis)))
		if mode == "constant" {
			inputs[2] = g.scalar(0.5)
		}
		g.node("Pad", inputs, graph.StringAttr("mode", mode))
	},
}

func argExtreme(g *randomGraph, op string) {
	rank := 1 + g.r.IntN(4)
	dt := []tensor.DType{tensor.Float32, tensor.Int32, tensor.Uint8}[g.r.IntN(3)]
	x := g.add(dt, g.dims(rank, 7)...)
	if g.r.IntN(2) == 0 { // equal elements
		v := make([]float64, g.data[x].Len())
		for i := range v {
			v[i] = float64(g.r.IntN(3))
		}
		must(tensor.Encode(g.data[x], v))
	}
	g.node(op, values(x), g.axis(rank), graph.IntAttr("keepdims", g.pickInt(0, 1)), graph.IntAttr("select_last_index", g.pickInt(0, 1)))
}

func cumulative(g *randomGraph, op string) {
	in := g.dims(1+g.r.IntN(3), 12)
	dt := []tensor.DType{tensor.Float32, tensor.Int32}[g.r.IntN(2)]
	if op == "CumProd" {
		dt = tensor.Float32
	}
	axis := g.AddConst("", tensor.Scalar(int64(g.r.IntN(len(in)))))
	g.node(op, values(g.add(dt, in...), axis), graph.IntAttr("exclusive", g.pickInt(0, 1)), graph.IntAttr("reverse", g.pickInt(0, 1)))
}

func loss(g *randomGraph, op string) {
	in := append(g.dims(2, 7), g.dims(g.r.IntN(3), 4)...)
	in[1]++
	inputs := values(g.add(tensor.Float32, in...), g.below(0, in[1], slices.Concat(in[:1], in[2:])...))
	if g.r.IntN(2) == 0 {
		w := make([]float32, in[1])
		for i := range w {
			w[i] = 0.5 + g.r.Float32()
		}
		inputs = append(inputs, g.floatsConst(w...))
	}
	attrs := []graph.Attr{graph.StringAttr("reduction", g.pickStr("none", "sum", "mean"))}
	if g.r.IntN(3) == 0 && g.data[inputs[1]].Len() > 4 {
		unused := g.data[inputs[1]].Int64At(0)
		for i := range g.data[inputs[1]].Len() { // a mean needs a class that counts
			if g.data[inputs[1]].Int64At(i) != unused {
				attrs = append(attrs, graph.IntAttr("ignore_index", unused))
				break
			}
		}
	}
	g.node(op, inputs, attrs...)
}

func resize(g *randomGraph) {
	in := append([]int{1 + g.r.IntN(2), 1 + g.r.IntN(3)}, g.dims(1+g.r.IntN(2), 7)...)
	scales := []float32{1, 1}
	for range in[2:] {
		scales = append(scales, []float32{0.6, 0.75, 1, 1.5, 2, 2.6, 3}[g.r.IntN(7)])
	}
	for i, s := range scales {
		if float32(in[i])*s < 1 {
			in[i] += 2
		}
	}
	mode := g.pickStr("nearest", "linear", "cubic")
	attrs := []graph.Attr{graph.StringAttr("mode", mode), graph.StringAttr("nearest_mode", g.pickStr("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
		graph.StringAttr("coordinate_transformation_mode", g.pickStr("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"))}
	if mode != "nearest" {
		attrs = append(attrs, graph.IntAttr("antialias", g.pickInt(0, 1)), graph.IntAttr("exclude_outside", g.pickInt(0, 1)))
	}
	x := g.add(tensor.Float32, in...)
	roi := make([]float32, 2*len(in))
	for i := range in {
		roi[len(in)+i] = 1
		if i >= 2 {
			roi[i], roi[len(in)+i] = 0.2, 1.3
		}
	}
	inputs := values(x, g.floatsConst(roi...), g.floatsConst(scales...))
	if g.r.IntN(2) == 0 {
		sizes := make([]int64, len(in)-2)
		axes := make([]int64, len(in)-2)
		for i := range sizes {
			sizes[i], axes[i] = int64(1+g.r.IntN(12)), int64(i+2)
		}
		inputs = values(x, g.floatsConst(roi[2:len(in)]...), nil, g.ints(sizes...))
		inputs[1] = g.floatsConst(append(slices.Clone(roi[2:len(in)]), roi[len(in)+2:]...)...)
		attrs = append(attrs, graph.IntsAttr("axes", axes...), graph.StringAttr("keep_aspect_ratio_policy", g.pickStr("stretch", "not_larger", "not_smaller")))
	}
	g.node("Resize", inputs, attrs...)
}

// renderOperators renders each operator with random attributes. Without a compiler some are refused, which are named.
func renderOperators(d gpukernel.Device) (list []rendered, refused []string) {
	GinkgoHelper()
	for at, op := range slices.Sorted(maps.Keys(randomOperators)) {
		if !strings.Contains(op, *which) {
			continue
		}
		for i := range *times {
			g := emptyGraph(uint64(1000*at + i))
			randomOperators[op](g)
			last := g.values[len(g.values)-1]
			g.SetOutputs(last.Producer.Outputs...)
			Expect(graph.Verify(g.Graph)).To(Succeed(), text(g.Graph))
			result, err := lower.Graph(g.Graph)
			Expect(err).NotTo(HaveOccurred(), text(g.Graph))
			plan, err := gpukernel.Render(fmt.Sprintf("k%d_%d", at, i), d, result.Program)
			if d.Prebuilt && errors.Is(err, gpukernel.ErrUnsupported) {
				refused = append(refused, op)
				continue
			}
			Expect(err).NotTo(HaveOccurred(), "%s", text(g.Graph))
			list = append(list, rendered{g, result, plan})
		}
	}
	return list, slices.Compact(refused)
}

var _ = Describe("Operators", func() {
	It("compute what the reference computes, with random attributes", func(ctx SpecContext) {
		list, _ := renderOperators(gpukernel.NVIDIA(90, 132))
		var plans []*gpukernel.Plan
		for _, x := range list {
			plans = append(plans, x.plan)
		}
		p, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.Address, fibre.Kernels(plans...)...)
		if errors.Is(err, fibre.ErrNoCompiler) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		for _, x := range list {
			x.compare(p)
		}
		Expect(p.Close()).To(Succeed())
		AddReportEntry("operators", fmt.Sprintf("%d graphs of %d operators", len(list), len(randomOperators)))
	})
})
