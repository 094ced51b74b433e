package microsoft_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Sampling", func() {
	const words = 3
	// taken returns the tokens that are likely enough to be drawn, of some with these logits: those that make up the share together, the likeliest
	// first. Of a custom search the one behind stands outside, too.
	taken := func(logits []float64, share float64, custom bool) []bool {
		order, sum := []int{0, 1, 2}, 0.0
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
		for _, x := range logits {
			sum += math.Exp(x)
		}
		out, before := make([]bool, words), 0.0
		for i, token := range order {
			p := math.Exp(logits[token]) / sum
			rest := 1 - before // of this and all behind
			out[token] = custom && (i == 0 || before <= share) || !custom && (i == 0 || rest > 1-share)
			before += p
		}
		return out
	}

	DescribeTable("draws the tokens of a seed", func(ctx SpecContext, custom bool, on string) {
		r := rand.New(rand.NewPCG(7, 8))
		const rows, most, temperature = 3, 12, 0.7
		for _, seed := range []int32{1, 0, 12345, math.MaxInt32} {
			data := make([]float32, words*words*words)
			for i := range data {
				data[i] = float32(r.NormFloat64())
			}
			share := 0.5 + 0.4*r.Float64()
			x := []int32{0, 2, 2, 0, 1, 1}
			state := max(uint64(seed)%math.MaxInt32, 1)
			draw := func() float64 {
				state = state * 16807 % math.MaxInt32
				return float64(state - 1)
			}
			want := [][]int32{slices.Clone(x[:2]), slices.Clone(x[2:4]), slices.Clone(x[4:])}
			for range most - 2 {
				for i, s := range want {
					low, high := draw(), draw()
					at := (low + high*(math.MaxInt32-1)) / ((math.MaxInt32 - 1) * (math.MaxInt32 - 1))
					logits := make([]float64, words)
					for k := range logits {
						logits[k] = float64(data[(int(s[len(s)-2])*words+int(s[len(s)-1]))*words+k]) / temperature
					}
					likely, sum := taken(logits, share, custom), 0.0
					for k, v := range logits {
						if likely[k] {
							sum += math.Exp(v)
						}
					}
					token, part := 0, 0.0
					for k, v := range logits {
						if likely[k] {
							token, part = k, part+math.Exp(v)/sum
							if part > at {
								break
							}
						}
					}
					want[i] = append(s, int32(token))
				}
			}
			own := int64(0)
			if custom {
				own = 1
			}
			operands := []*tensor.Tensor{tensor.From([]int32{most}, 1), nil, nil, nil, nil, nil, nil, tensor.From([]int32{seed}, 1)}
			g := searching("Sampling", pairs(tensor.From(data, words, words, words)), []string{"y"}, operands, graph.IntAttr("eos_token_id", -1), graph.IntAttr("pad_token_id", 7),
				graph.FloatAttr("temperature", temperature), graph.FloatAttr("top_p", float32(share)), graph.IntAttr("custom", own), graph.IntAttr("min_tokens_to_keep", 1))
			Expect(tensor.Of[int32](found(ctx, g, on, tensor.From(x, rows, 2))["y"].(*tensor.Tensor))).To(Equal(slices.Concat(want...)))
		}
	},
		Entry("on reference", false, "reference"), Entry("on cpu", false, "cpu"),
		Entry("by the custom rule, on reference", true, "reference"), Entry("by the custom rule, on cpu", true, "cpu"),
	)
})

// listening is a graph of a WhisperBeamSearch of one beam around a decoder whose logits are those of the last token, table [V, V].
func listening(table *tensor.Tensor, begin []int32, most int32, as ...graph.Attr) *graph.Graph {
	part := func(name, ids string) *graph.Graph {
		g := graph.New(name)
		call := func(op, name string, as []graph.Attr, ins ...*graph.Value) {
			g.SetOutputs(append(g.Outputs, g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op, Since: 17}, Name: name, Attrs: as, Inputs: ins, Outputs: []string{name}}).Outputs[0])...)
		}
		if name == "encoder" {
			features := g.AddInput("encoder_input_ids", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("b"), graph.D(2), graph.Sym("e")}))
			call("Relu", "encoder_hidden_states", nil, features)
		}
		s := graph.Sym("s")
		if name == "decoder" {
			s = graph.D(1)
		}
		call("Gather", "logits", nil, g.AddConst("table", table), g.AddInput(ids, graph.TensorType(tensor.Int32, graph.Shape{graph.Sym("b"), s})))
		return g
	}
	g := graph.New("g")
	g.Opsets = map[string]int{"": 17, microsoft.Domain: 1}
	number := func(n int32) *graph.Value { return g.AddConst("", tensor.From([]int32{n}, 1)) }
	x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.D(2), graph.Sym("S")}))
	ins := []*graph.Value{x, number(most), nil, number(1), number(1), nil, nil, nil, nil, nil, g.AddConst("", tensor.From(begin, 1, len(begin))), number(1)}
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: microsoft.Domain, Name: "WhisperBeamSearch", Since: 1}, Name: "node", Attrs: as, Inputs: ins, Outputs: []string{"y", "total", "all"},
		Regions: []graph.Region{{Name: "encoder", Graph: part("encoder", "decoder_input_ids")}, {Name: "decoder", Graph: part("decoder", "input_ids")}}})
	g.SetOutputs(n.Outputs...)
	return g
}

var _ = Describe("WhisperBeamSearch", func() {
	DescribeTable("keeps the rules for times, and tells the scores of all tokens", func(ctx SpecContext, on string) {
		const words, most, ends, start, translate, transcribe, lm, none, times = 70, 20, 1, 2, 3, 4, 5, 6, 7
		r := rand.New(rand.NewPCG(9, 10))
		for range 8 {
			data := make([]float32, words*words)
			for i := range data {
				if data[i] = 2 * float32(r.NormFloat64()); i%words == ends {
					data[i] = -1000
				}
			}
			want, total := []int32{start, int32(10 + r.IntN(2)*words/2)}, 0.0
			begun := len(want)
			var scores [][]float64
			for len(want) < most {
				row, sum := data[int(want[len(want)-1])*words:][:words], 0.0
				for _, v := range row {
					sum += math.Exp(float64(v))
				}
				isTime := func(at int) bool { return at >= 0 && want[at] >= times }
				n := len(want)
				first := slices.IndexFunc(want, func(v int32) bool { return v >= times }) + 1
				if first == 0 {
					first = n
				}
				var past []int32
				for _, v := range want {
					if v >= times {
						past = append(past, v)
					}
				}
				paired := n <= first || isTime(n-2)
				forbidden := func(v int32) bool {
					switch {
					case v == none || v == lm, n > first && (v == start || v == translate || v == transcribe):
					case isTime(n-1) && paired && v >= times, isTime(n-1) && !paired && v < ends:
					case len(past) > 0 && v >= times && (v < past[len(past)-1] || v == past[len(past)-1] && (!isTime(n-1) || paired)):
					case n == first && v > times+50:
					default:
						return false
					}
					return true
				}
				next, at, together, word := make([]float64, words), -1, 0.0, math.Inf(-1)
				for v := range int32(words) {
					if next[v] = float64(row[v]) - math.Log(sum); forbidden(v) {
						next[v] = math.Inf(-1)
					}
					if v >= times {
						together += math.Exp(next[v])
					} else {
						word = max(word, next[v])
					}
				}
				for v := range next {
					if v < times && math.Log(together) > word {
						next[v] = math.Inf(-1)
					}
					next[v] += total
					if at < 0 || next[v] > next[at] {
						at = v
					}
				}
				want, total, scores = append(want, int32(at)), next[at], append(scores, next)
			}
			g := listening(tensor.From(data, words, words), want[:begun], most, graph.IntAttr("eos_token_id", ends), graph.IntAttr("pad_token_id", 0), graph.IntAttr("decoder_start_token_id", start),
				graph.IntAttr("translate_token_id", translate), graph.IntAttr("transcribe_token_id", transcribe), graph.IntAttr("start_of_lm_token_id", lm),
				graph.IntAttr("no_timestamps_token_id", none), graph.IntAttr("beginning_timestamp_token_id", times))
			out := found(ctx, g, on, tensor.From(make([]float32, 6), 1, 2, 3))
			Expect(tensor.Of[int32](out["y"].(*tensor.Tensor))).To(Equal(want))
			all := out["all"].(*tensor.Tensor)
			Expect(all.Shape).To(Equal([]int{most - begun, 1, 1, words}))
			for i, got := range tensor.Of[float32](all) {
				if x := scores[i/words][i%words]; math.IsInf(x, -1) {
					Expect(got).To(BeNumerically("<", -1e30))
				} else {
					Expect(got).To(BeNumerically("~", x, 1e-3))
				}
			}
		}
	}, Entry(nil, "reference"), Entry(nil, "cpu"))

	It("is refused where nobody has what it is to tell", func(ctx SpecContext) {
		g := listening(tensor.From(make([]float32, 100), 10, 10), []int32{1}, 5, graph.IntAttr("eos_token_id", 1), graph.IntAttr("pad_token_id", 0),
			graph.IntAttr("beginning_timestamp_token_id", 7), graph.IntAttr("decoder_output_cross_qk", 1))
		_, err := carve.Compile(ctx, carve.FromGraph(g), nil)
		Expect(err).To(MatchError(microsoft.ErrUnsupported))
		Expect(err.Error()).To(ContainSubstring(`"node"`))
	})
})
