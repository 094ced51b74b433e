package microsoft_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// pairs is a decoder whose logits are those of the last two tokens, table [V, V, V], the first of which is in its cache or among what it is given.
func pairs(table *tensor.Tensor) *graph.Graph {
	g := graph.New("decoder")
	b, s, p := graph.Sym("b"), graph.Sym("s"), graph.Sym("p")
	cache := graph.Shape{graph.D(2), b, graph.D(1), p, graph.D(1)}
	ids := g.AddInput("input_ids", graph.TensorType(tensor.Int32, graph.Shape{b, s}))
	g.AddInput("position_ids", graph.TensorType(tensor.Int32, graph.Shape{b, s}))
	g.AddInput("attention_mask", graph.TensorType(tensor.Int32, graph.Shape{b, graph.Sym("t")}))
	past := g.AddInput("past_0", graph.TensorType(tensor.Float32, cache))
	names := 0
	call := func(op, name string, as []graph.Attr, ins ...*graph.Value) *graph.Value {
		names++
		if name == "" {
			name = op + string(rune('a'+names))
		}
		return g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op, Since: 17}, Name: name, Attrs: as, Inputs: ins, Outputs: []string{name}}).Outputs[0]
	}
	ints := func(v ...int64) *graph.Value { return g.AddConst("", tensor.From(v, len(v))) }
	to := func(dt tensor.DType) []graph.Attr { return []graph.Attr{graph.IntAttr("to", int64(dt))} }
	axis := func(n int64) []graph.Attr { return []graph.Attr{graph.IntAttr("axis", n)} }
	now := call("Unsqueeze", "", nil, call("Cast", "", to(tensor.Float32), ids), ints(0, 2, 4))
	present := call("Concat", "present_0", axis(3), past, call("Concat", "", axis(0), now, now))
	all := call("Cast", "", to(tensor.Int64), call("Squeeze", "", nil, call("Gather", "", axis(0), present, ints(1)), ints(0, 2, 4)))
	row := call("Gather", "", axis(0), g.AddConst("table", table), call("Gather", "", axis(1), all, ints(-2)))
	one := call("Unsqueeze", "", nil, call("Gather", "", axis(1), all, ints(-1)), ints(2))
	logits := call("Unsqueeze", "logits", nil, call("Squeeze", "", nil,
		call("GatherND", "", []graph.Attr{graph.IntAttr("batch_dims", 2)}, row, one), ints(1)), ints(1))
	g.SetOutputs(logits, present)
	return g
}

// searching is a graph of a node of GreedySearch or BeamSearch with a decoder, whose operands but the first are constants.
func searching(op string, decoder *graph.Graph, outputs []string, operands []*tensor.Tensor, as ...graph.Attr) *graph.Graph {
	g := graph.New("g")
	g.Opsets = map[string]int{"": 17, microsoft.Domain: 1}
	ins := []*graph.Value{g.AddInput("x", graph.TensorType(tensor.Int32, graph.Shape{graph.Sym("N"), graph.Sym("S")}))}
	for _, t := range operands {
		if t == nil {
			ins = append(ins, nil)
			continue
		}
		ins = append(ins, g.AddConst("", t))
	}
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: microsoft.Domain, Name: op, Since: 1}, Name: "node", Attrs: as, Inputs: ins, Outputs: outputs,
		Regions: []graph.Region{{Name: "decoder", Graph: decoder}}})
	g.SetOutputs(n.Outputs...)
	return g
}

func found(ctx SpecContext, g *graph.Graph, on string, x *tensor.Tensor) map[string]tensor.Value {
	GinkgoHelper()
	p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Backends: []backend.Config{{Name: on}}, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
	Expect(err).NotTo(HaveOccurred())
	return out
}

var _ = Describe("a search for tokens", func() {
	const words, prompt = 3, 2
	number := func(n int32) *tensor.Tensor { return tensor.From([]int32{n}, 1) }
	random := func(r *rand.Rand) (*tensor.Tensor, func(a, b int32) []float64) {
		data := make([]float32, words*words*words)
		for i := range data {
			data[i] = float32(r.NormFloat64())
		}
		return tensor.From(data, words, words, words), func(a, b int32) []float64 { // logarithms of probabilities
			at := int(a)*words + int(b)
			out, sum := make([]float64, words), 0.0
			for i := range out {
				out[i] = float64(data[at*words+i])
				sum += math.Exp(out[i])
			}
			for i := range out {
				out[i] -= math.Log(sum)
			}
			return out
		}
	}

	DescribeTable("takes the likeliest token of each row, until it ends", func(ctx SpecContext, on string) {
		r := rand.New(rand.NewPCG(1, 2))
		const eos, pad, most = 1, 0, 9
		for range 5 {
			table, next := random(r)
			x := []int32{0, 2, 2, 0, 2, 2}
			var want []int32
			for row := range 3 {
				s, done := slices.Clone(x[2*row:2*row+2]), false
				for len(s) < most {
					p := next(s[len(s)-2], s[len(s)-1])
					best := int32(slices.Index(p, slices.Max(p)))
					if done = done || best == eos; done {
						s = append(s, slices.Repeat([]int32{pad}, most-len(s))...)
						break
					}
					s = append(s, best)
				}
				want = append(want, s...)
			}
			g := searching("GreedySearch", pairs(table), []string{"y"}, []*tensor.Tensor{number(most)}, graph.IntAttr("eos_token_id", eos), graph.IntAttr("pad_token_id", pad))
			Expect(tensor.Of[int32](found(ctx, g, on, tensor.From(x, 3, prompt))["y"].(*tensor.Tensor))).To(Equal(want))
		}
	}, Entry(nil, "reference"), Entry(nil, "cpu"))

	DescribeTable("by beams for all that may be finds the likeliest sequences", func(ctx SpecContext, on string) {
		r := rand.New(rand.NewPCG(3, 4))
		const steps, beams = 3, words * words
		type sequence struct {
			tokens []int32
			score  float64
		}
		for range 5 {
			table, next := random(r)
			x := []int32{0, 2, 1, 0}
			var tokens []int32
			var scores []float32
			for row := range 2 {
				all := []sequence{{slices.Clone(x[2*row : 2*row+2]), 0}}
				for range steps {
					var more []sequence
					for _, s := range all {
						for i, p := range next(s.tokens[len(s.tokens)-2], s.tokens[len(s.tokens)-1]) {
							more = append(more, sequence{append(slices.Clone(s.tokens), int32(i)), s.score + p})
						}
					}
					all = more
				}
				slices.SortFunc(all, func(a, b sequence) int { return cmp.Compare(b.score, a.score) })
				for _, s := range all[:4] {
					tokens, scores = append(tokens, s.tokens...), append(scores, float32(s.score/math.Pow(prompt+steps, 0.5)))
				}
			}
			g := searching("BeamSearch", pairs(table), []string{"y", "scores"}, []*tensor.Tensor{number(prompt + steps), nil, number(beams), number(4), tensor.From([]float32{0.5}, 1)},
				graph.IntAttr("eos_token_id", -1), graph.IntAttr("pad_token_id", 7))
			out := found(ctx, g, on, tensor.From(x, 2, prompt))
			Expect(tensor.Of[int32](out["y"].(*tensor.Tensor))).To(Equal(tokens))
			for i, s := range tensor.Of[float32](out["scores"].(*tensor.Tensor)) {
				Expect(s).To(BeNumerically("~", scores[i], 1e-5))
			}
		}
	}, Entry(nil, "reference"), Entry(nil, "cpu"))

	DescribeTable("is refused", func(ctx SpecContext, cause error, change func(decoder *graph.Graph), as ...graph.Attr) {
		decoder := pairs(tensor.From(make([]float32, 27), 3, 3, 3))
		if change != nil {
			change(decoder)
		}
		as = append(as, graph.IntAttr("eos_token_id", 1), graph.IntAttr("pad_token_id", 0))
		g := searching("GreedySearch", decoder, []string{"y"}, []*tensor.Tensor{number(5)}, as...)
		_, err := carve.Compile(ctx, carve.FromGraph(g), nil)
		Expect(err).To(MatchError(cause))
		Expect(err.Error()).To(ContainSubstring(`"node"`))
	},
		Entry("around a model of another kind", microsoft.ErrUnsupported, nil, graph.IntAttr("model_type", 2)),
		Entry("of an encoder that is not there", microsoft.ErrAttribute, nil, graph.IntAttr("model_type", 1)),
		Entry("around a decoder that shares a buffer", microsoft.ErrUnsupported, func(g *graph.Graph) {
			g.AddInput("past_sequence_length", graph.TensorType(tensor.Int32, graph.Shape{graph.D(1)}))
		}),
	)

	It("is refused around a decoder of sequences behind an encoder whose tokens have one axis", func(ctx SpecContext) {
		call := func(g *graph.Graph, op, name string, as []graph.Attr, ins ...*graph.Value) *graph.Value {
			return g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op, Since: 17}, Name: name, Attrs: as, Inputs: ins, Outputs: []string{name}}).Outputs[0]
		}
		floats := []graph.Attr{graph.IntAttr("to", int64(tensor.Float32))}
		part := func(name, in, out string, shape graph.Shape) *graph.Graph {
			g := graph.New(name)
			ids := g.AddInput(in, graph.TensorType(tensor.Int32, shape))
			g.AddInput("encoder_attention_mask", graph.TensorType(tensor.Int32, graph.Shape{graph.Sym("b"), graph.Sym("s")}))
			g.SetOutputs(call(g, "Reshape", out, nil, call(g, "Cast", out+"_floats", floats, ids), g.AddConst("", tensor.From([]int64{-1, 1, 1}, 3))))
			return g
		}
		decoder := part("decoder", "input_ids", "logits", graph.Shape{graph.Sym("b")})
		g := searching("GreedySearch", decoder, []string{"y"}, []*tensor.Tensor{number(5)}, graph.IntAttr("eos_token_id", 1), graph.IntAttr("pad_token_id", 0),
			graph.IntAttr("model_type", 1), graph.IntAttr("decoder_start_token_id", 0))
		for n := range g.Nodes() {
			n.Regions = append(n.Regions, graph.Region{Name: "encoder", Graph: part("encoder", "encoder_input_ids", "encoder_hidden_states", graph.Shape{graph.Sym("b"), graph.Sym("s")})})
		}
		_, err := carve.Compile(ctx, carve.FromGraph(g), nil)
		Expect(err).To(MatchError(microsoft.ErrShape))
		Expect(err.Error()).To(ContainSubstring(`"node"`))
	})

	It("names what is wrong with graphs that are no decoders, and with numbers that are no lengths", func(ctx SpecContext) {
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 5))
			spoilt := func() *graph.Graph {
				g := pairs(tensor.From(make([]float32, 27), 3, 3, 3))
				for range 1 + r.IntN(2) {
					switch v := g.Inputs[r.IntN(len(g.Inputs))]; r.IntN(5) {
					case 0:
						v.Type.Shape = make(graph.Shape, r.IntN(6))
						for i := range v.Type.Shape {
							v.Type.Shape[i] = []graph.Dim{graph.Sym("q"), graph.D(1), graph.D(0), graph.D(5)}[r.IntN(4)]
						}
					case 1:
						v.Type.DType = []tensor.DType{tensor.Int64, tensor.Float32, tensor.Bool, tensor.String}[r.IntN(4)]
					case 2:
						v.Name = []string{"past_1", "past_", "encoder_hidden_states", "x"}[r.IntN(4)]
					case 3:
						g.SetOutputs(g.Outputs[r.IntN(len(g.Outputs))])
					default:
						g.SetOutputs(g.Outputs[0], g.Outputs[0])
					}
				}
				return g
			}
			as := []graph.Attr{graph.IntAttr("eos_token_id", 1), graph.IntAttr("pad_token_id", 0), graph.IntAttr("model_type", int64(r.IntN(2))), graph.IntAttr("decoder_start_token_id", 2)}
			odd := func() *tensor.Tensor { return number([]int32{5, 2, 1, 0, -1, 1 << 30}[r.IntN(6)]) }
			op, operands, decoder := "GreedySearch", []*tensor.Tensor{odd()}, spoilt()
			if r.IntN(2) == 0 {
				op, operands = "BeamSearch", []*tensor.Tensor{odd(), odd(), odd(), odd()}
			}
			if r.IntN(3) == 0 {
				decoder = pairs(tensor.From(make([]float32, 27), 3, 3, 3))
			}
			g := searching(op, decoder, []string{"y"}, operands, as...)
			for n := range g.Nodes() {
				if n.Op.Name == op && r.IntN(3) == 0 {
					n.Regions = append(n.Regions, graph.Region{Name: []string{"encoder", "init_decoder"}[r.IntN(2)], Graph: spoilt()})
				}
			}
			p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{MaxArenaBytes: 64 << 20})
			if err == nil {
				_, err = p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]int32{0, 2}, 1, 2)})
				Expect(p.Close()).To(Succeed())
			}
			if err != nil {
				Expect(err.Error()).NotTo(Or(ContainSubstring("internal error"), ContainSubstring("panic")), "seed %d", seed)
			}
		}
	})
})
