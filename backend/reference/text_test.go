package reference_test

import (
	"fmt"
	"math/rand/v2"
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
