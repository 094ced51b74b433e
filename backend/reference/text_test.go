package reference_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// vocabulary is a TfIdfVectorizer's pool: n-grams by their length, and where each is counted.
type vocabulary struct {
	grams [3][][]int // of one, two and three words, by number
	at    []int64
}

// counted returns what a definition taken by its word counts in a row: every n-gram at every place with every distance of its words.
func (v *vocabulary) counted(row []int, lo, hi, skips int) []float64 {
	width := 0
	for _, at := range v.at {
		width = max(width, int(at)+1)
	}
	out := make([]float64, width)
	id := 0
	for k, grams := range v.grams {
		for _, g := range grams {
			for step := 1; step <= skips+1 && (k > 0 || step == 1) && k+1 >= lo && k+1 <= hi; step++ {
				for i := range row {
					equal := true
					for j, w := range g {
						equal = equal && i+j*step < len(row) && row[i+j*step] == w
					}
					if equal {
						out[v.at[id]]++
					}
				}
			}
			id++
		}
	}
	return out
}

var _ = Describe("StringNormalizer", func() {
	It("drops stop words of all lengths, in any case where it does not matter, and changes the rest", func() {
		r := rand.New(rand.NewPCG(7, 8))
		words := []string{"", "a", "A", "the", "The", "thy", "fox", "Fuchs", "naïve", "NAÏVE", "a word of more than fifteen bytes", "a word of more than fifteen letters", "Ä", "ä"}
		for range 200 {
			var in, stop []string
			for range 1 + r.IntN(12) {
				in = append(in, words[r.IntN(len(words))])
			}
			for range r.IntN(6) {
				stop = append(stop, words[r.IntN(len(words))])
			}
			sensitive, action := r.IntN(2), []string{"NONE", "LOWER", "UPPER"}[r.IntN(3)]
			var want []string
			for _, s := range in {
				if slices.ContainsFunc(stop, func(w string) bool { return w == s || sensitive == 0 && strings.EqualFold(w, s) }) {
					continue
				}
				switch action {
				case "LOWER":
					s = strings.ToLower(s)
				case "UPPER":
					s = strings.ToUpper(s)
				}
				want = append(want, s)
			}
			if want == nil {
				want = []string{""}
			}
			y := eval("StringNormalizer", 10, []*tensor.Tensor{tensor.FromStrings(in, 1, len(in))}, graph.StringsAttr("stopwords", stop...),
				graph.IntAttr("is_case_sensitive", int64(sensitive)), graph.StringAttr("case_change_action", action))
			Expect(y).To(BeComparableTo(tensor.FromStrings(want, 1, len(want))))
		}
	})
})

var _ = Describe("TfIdfVectorizer", func() {
	It("counts what its definition does, of words and of integers, with skips, weights and n-grams that are there twice", func() {
		r := rand.New(rand.NewPCG(7, 8))
		words := 6
		word := func() int { return r.IntN(words) }
		name := func(w int) string { return strings.Repeat("é", w) + fmt.Sprint(w) }
		for trial := range 200 {
			v, most := &vocabulary{}, 8
			if words = 6; trial%50 == 49 { // of so many words and n-grams that a table of all of them would be large
				words, most = 600, 500
			}
			var pool []int
			var starts []int64
			for k := range v.grams {
				starts = append(starts, int64(len(pool)))
				for range most - r.IntN(most)/10 - r.IntN(8) {
					g := []int{}
					for range k + 1 {
						g = append(g, word())
					}
					v.grams[k], pool = append(v.grams[k], g), append(pool, g...)
					v.at = append(v.at, int64(r.IntN(12)))
				}
			}
			rows, n := 1+r.IntN(3), 1+r.IntN(12)
			lo := 1 + r.IntN(3)
			hi, skips := lo+r.IntN(4-lo), r.IntN(3)
			numbers := make([]int, rows*n)
			for i := range numbers {
				numbers[i] = r.IntN(words + 2) // some are not in the pool
			}
			for i := 0; i+3 <= len(numbers) && trial%2 == 1; i += 3 {
				copy(numbers[i:], v.grams[2][r.IntN(len(v.grams[2]))])
			}
			mode, weights := []string{"TF", "IDF", "TFIDF"}[r.IntN(3)], make([]float32, len(v.at))
			of := map[int64]float32{}
			for i, at := range v.at { // those of one counter are the same
				if _, ok := of[at]; !ok {
					of[at] = float32(r.IntN(9))
				}
				weights[i] = of[at]
			}
			attrs := []graph.Attr{graph.StringAttr("mode", mode), graph.IntAttr("min_gram_length", int64(lo)), graph.IntAttr("max_gram_length", int64(hi)),
				graph.IntAttr("max_skip_count", int64(skips)), graph.IntsAttr("ngram_counts", starts...), graph.IntsAttr("ngram_indexes", v.at...), graph.FloatsAttr("weights", weights...)}
			var x *tensor.Tensor
			if r.IntN(2) == 0 {
				var words, named []string
				for _, w := range pool {
					words = append(words, name(w))
				}
				for _, w := range numbers {
					named = append(named, name(w))
				}
				x, attrs = tensor.FromStrings(named, rows, n), append(attrs, graph.StringsAttr("pool_strings", words...))
			} else {
				var words, named []int64
				for _, w := range pool {
					words = append(words, int64(w)-3)
				}
				for _, w := range numbers {
					named = append(named, int64(w)-3)
				}
				x, attrs = tensor.From(named, rows, n), append(attrs, graph.IntsAttr("pool_int64s", words...))
			}
			y := eval("TfIdfVectorizer", 9, []*tensor.Tensor{x}, attrs...)
			var want []float32
			for i := range rows {
				for at, c := range v.counted(numbers[i*n:(i+1)*n], lo, hi, skips) {
					w, given := of[int64(at)]
					if !given {
						w = 1
					}
					switch mode {
					case "IDF":
						c = min(c, 1) * float64(w)
					case "TFIDF":
						c *= float64(w)
					}
					want = append(want, float32(c))
				}
			}
			Expect(tensor.Elements[float32](y)).To(Equal(want), "%v", attrs)
		}
	})
})

var _ = Describe("StringSplit", func() {
	It("splits as Go does, at delimiters and at runs of white space", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(7, 9))
		for trial := range 300 {
			delimiter := []string{"", "a", " ", "ab", ", "}[r.IntN(5)]
			limit := r.IntN(6) - 1
			in := make([]string, r.IntN(6))
			for i := range in {
				for range r.IntN(20) {
					in[i] += []string{"a", "b", " ", "\t", "\r\n", ", ", "é"}[r.IntN(7)]
				}
			}
			var lists [][]string
			widest := 0
			for _, s := range in {
				var list []string
				switch {
				case delimiter != "" && limit < 0:
					list = strings.Split(s, delimiter)
				case delimiter != "":
					list = strings.SplitN(s, delimiter, limit+1)
				case limit < 0:
					list = strings.Fields(s)
				default:
					for s = strings.TrimSpace(s); s != "" && len(list) < limit; s = strings.TrimSpace(s) {
						word := strings.Fields(s)[0]
						list, s = append(list, word), s[len(word):]
					}
					if s != "" {
						list = append(list, s)
					}
				}
				widest, lists = max(widest, len(list)), append(lists, list)
			}
			want, counts := []string{}, make([]int64, len(in))
			for i, list := range lists {
				want, counts[i] = append(append(want, list...), make([]string, widest-len(list))...), int64(len(list))
			}
			g := graph.New("split")
			g.Opsets[""] = 20
			x := g.AddInput("x", graph.TensorType(tensor.String, graph.Shape{graph.D(len(in))}))
			n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "StringSplit"}, Name: "split", Inputs: []*graph.Value{x}, Outputs: []string{"y", "z"},
				Attrs: []graph.Attr{graph.StringAttr("delimiter", delimiter), graph.IntAttr("maxsplit", int64(limit))}})
			g.SetOutputs(n.Outputs...)
			got, err := evaluate(ctx, g, []tensor.Value{tensor.FromStrings(in, len(in))}, nil)
			Expect(err).NotTo(HaveOccurred())
			y, z := got[0].(*tensor.Tensor), got[1].(*tensor.Tensor)
			Expect(y.Shape).To(Equal([]int{len(in), widest}), "trial %d", trial)
			Expect(y.Strings).To(Equal(want), "trial %d: %q at %q", trial, in, delimiter)
			Expect(tensor.Of[int64](z)).To(Equal(counts))
		}
	})
})
