package cpu

import (
	"maps"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// TfIdfVectorizer: how often the n-grams of a pool are in a row of words or integers, whose elements have up to max_skip_count others between
// them. Counters are the row's results themselves.

// grams is a pool of n-grams as a tree: where one begins by its first word, and goes on by a node and a word.
type grams struct {
	lo, hi, skips int
	words         *words    // of strings,
	whole         *placeOf  // or of integers: their numbers
	first         []int32   // by word: the node of the n-grams that begin with it, -1 where there are none
	edges         *placeOf  // of a node and a word behind it, see edge: their numbers,
	behind        []int32   // and by these the nodes that they lead to
	last          []bool    // by node: no word is behind it
	ends          [][]int32 // by node: the counters of the n-grams that end there
	width         int
	binary        bool      // counters are 0 or 1
	weights       []float64 // of counters, nil for 1
	unusual       bool      // some make of 0 something else
}

func gramsSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if rank := len(n.Inputs[0].Type.Shape); rank != 1 && rank != 2 {
		return nil, property.Because(property.ShapeReason, "rows are expected, %v is %v", n.Inputs[0], n.Inputs[0].Type)
	}
	if _, why := newGrams(n); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

// newGrams reads the attributes. What the definition has not is refused, and the reference kernels say what it is.
func newGrams(n *graph.Node) (*grams, *property.Reason) {
	mode := n.Str("mode", "TF")
	g := &grams{lo: int(max(n.Int("min_gram_length", 1), 1)), hi: int(min(n.Int("max_gram_length", 1), 1<<20)),
		skips: int(min(max(n.Int("max_skip_count", 0), 0), 1<<20)), binary: mode == "IDF"}
	at, _ := n.Ints("ngram_indexes")
	for _, i := range at {
		if i < 0 || i > 1<<30 {
			return nil, property.Because(property.Attribute, "ngram_indexes of %v have %d", n, i)
		}
		g.width = max(g.width, int(i)+1)
	}
	pool, why := g.vocabulary(n)
	if why != nil {
		return nil, why
	}
	if !g.enter(n, pool, at) {
		return nil, property.Because(property.Attribute, "n-grams of %v", n)
	}
	weights := n.Floats("weights")
	if !slices.Contains([]string{"TF", "IDF", "TFIDF"}, mode) || mode != "TF" && weights != nil && len(weights) != len(at) {
		return nil, property.Because(property.Attribute, "mode %q with %d weights for %d n-grams", mode, len(weights), len(at))
	}
	if mode != "TF" && weights != nil {
		g.weights = slices.Repeat([]float64{1}, g.width)
		for k, w := range weights {
			g.weights[at[k]] = float64(w)
		}
		g.unusual = slices.ContainsFunc(g.weights, func(w float64) bool { return w*0 != 0 })
	}
	return g, nil
}

// vocabulary numbers what the pool consists of, and returns the pool by numbers.
func (g *grams) vocabulary(n *graph.Node) ([]int32, *property.Reason) {
	texts := n.Strs("pool_strings")
	numbers, whole := n.Ints("pool_int64s")
	dt := n.Inputs[0].Type.DType
	switch {
	case whole && texts == nil && (dt == tensor.Int64 || dt == tensor.Int32):
		keys, pool := numbered(numbers)
		g.whole, g.first = newPlaceOf(keys, firstCounts), slices.Repeat([]int32{-1}, len(keys))
		return pool, nil
	case !whole && dt == tensor.String:
		keys, pool := numbered(texts)
		g.words, g.first = newWords(keys, firstCounts), slices.Repeat([]int32{-1}, len(keys))
		return pool, nil
	}
	return nil, property.Because(property.DTypeReason, "%v is %v, the pool of another type", n.Inputs[0], dt)
}

// numbered returns what differs, in the order of its first places, and the number of each.
func numbered[K comparable](list []K) (keys []K, of []int32) {
	seen := make(map[K]int32, len(list))
	for _, k := range list {
		i, ok := seen[k]
		if !ok {
			i = int32(len(keys))
			seen[k], keys = i, append(keys, k)
		}
		of = append(of, i)
	}
	return keys, of
}

// enter makes the tree, and reports whether ngram_counts and ngram_indexes fit the pool.
func (g *grams) enter(n *graph.Node, pool []int32, at []int64) bool {
	starts, _ := n.Ints("ngram_counts")
	id, next := 0, map[int64]int32{}
	for k, start := range starts {
		end := int64(len(pool))
		if k+1 < len(starts) {
			end = starts[k+1]
		}
		if start < 0 || end < start || end > int64(len(pool)) {
			return false
		}
		for gram := range slices.Chunk(pool[start:end], k+1) {
			if len(gram) <= k {
				continue
			}
			if id >= len(at) {
				return false
			}
			node := g.path(gram, next)
			g.ends[node] = append(g.ends[node], int32(at[id]))
			id++
		}
	}
	keys := slices.Sorted(maps.Keys(next))
	g.last = slices.Repeat([]bool{true}, len(g.ends))
	for _, key := range keys {
		g.behind = append(g.behind, next[key])
		g.last[key>>32] = false
	}
	g.edges = newPlaceOf(keys, firstCounts)
	return true
}

// path returns the node where an n-gram ends, and enters the nodes on the way to it in next.
func (g *grams) path(gram []int32, next map[int64]int32) int32 {
	fresh := func() int32 {
		g.ends = append(g.ends, nil)
		return int32(len(g.ends)) - 1
	}
	node := g.first[gram[0]]
	if node < 0 {
		node = fresh()
		g.first[gram[0]] = node
	}
	for _, w := range gram[1:] {
		to, ok := next[edge(node, w)]
		if !ok {
			to = fresh()
			next[edge(node, w)] = to
		}
		node = to
	}
	return node
}

// edge is a node and a word behind it.
func edge(node, word int32) int64 { return int64(node)<<32 | int64(word) }

// visits bounds how many n-grams begin or go on in a row of so many words; more than limit are limit+1.
func (g *grams) visits(columns, limit int) int {
	n := columns
	for _, times := range []int{min(g.hi, columns), min(g.skips, columns) + 1} {
		if n = min(n, limit+1) * max(times, 1); n > limit {
			return limit + 1
		}
	}
	return n
}

// most bounds how often a row of so many words counts; more than there are counters are as many and one.
func (g *grams) most(columns int) int {
	longest := 1
	for _, e := range g.ends {
		longest = max(longest, len(e))
	}
	return min(g.visits(columns, g.width)*longest, g.width+1)
}

// count counts the n-grams of a row of numbers of words, -1 for what the pool has not. Those of one word count once, whatever is skipped. It
// appends the counters that it finds at 0 to some, where these have room for all that a row counts.
func (g *grams) count(out []float32, row, some []int32) []int32 {
	hi, skips := min(g.hi, len(row)), min(g.skips, len(row))
	for step := 1; step <= skips+1; step++ {
		for i, word := range row {
			if word < 0 {
				continue
			}
			node := g.first[word]
			for size := 1; node >= 0; size++ {
				if size >= g.lo && size <= hi && (size > 1 || step == 1) {
					for _, at := range g.ends[node] {
						if out[at]++; cap(some) > 0 && out[at] == 1 {
							some = append(some, at)
						}
					}
				}
				k := i + size*step
				if size >= hi || k >= len(row) || row[k] < 0 || g.last[node] {
					break
				}
				at, ok := g.edges.find(edge(node, row[k]))
				if !ok {
					break
				}
				node = g.behind[at]
			}
		}
	}
	return some
}

// weigh makes of a count what the mode asks for.
func (g *grams) weigh(i int, count float32) float32 {
	x := float64(count)
	if g.binary {
		x = min(x, 1)
	}
	if g.weights != nil {
		x *= g.weights[i]
	}
	return float32(x)
}

// row writes the results of a row; some has room for the counters that are not 0, or none.
func (g *grams) row(out []float32, ids, some []int32) {
	clear(out)
	found := g.count(out, ids, some)
	switch {
	case g.weights == nil && !g.binary:
	case cap(some) > 0:
		for _, at := range found {
			out[at] = g.weigh(int(at), out[at])
		}
	default:
		for i, v := range out {
			if v != 0 || g.unusual {
				out[i] = g.weigh(i, v)
			}
		}
	}
}

// mostVisits is about how much work a row may be: less than a second's.
const mostVisits = 1 << 28

func planGrams(p *planner, n *graph.Node) error {
	g, err := keep(p.e, n, func() (*grams, error) {
		g, why := newGrams(n)
		if why != nil {
			return nil, why
		}
		return g, nil
	})
	if err != nil {
		return err
	}
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	columns := d[len(d)-1]
	if g.visits(columns, mostVisits) > mostVisits { // of which package reference can be stopped within a row
		return property.Because(property.ShapeReason, "%v: rows of %d words, of which up to %d are skipped", n, columns, g.skips)
	}
	dst, src, room := p.Out(n.Outputs[0]), p.In(x), p.scratch(4*max(columns, 1))
	most := g.most(columns)
	if g.weights == nil && !g.binary || g.unusual || most > g.width {
		most = 0
	}
	counted := p.scratch(4 * max(most, 1))
	look := g.lookup(p, x, src)
	p.emit(step{chunks: product(d[:len(d)-1]), grain: grainFor(float64(g.width)/8 + 40*float64(columns)), body: func(st *state, worker, lo, hi int) {
		ids, y := room.of(st, worker)[:columns], st.F32(dst)
		for i := lo; i < hi; i++ {
			look(st, ids, i*columns)
			g.row(y[i*g.width:][:g.width], ids, counted.of(st, worker)[:0:most])
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at, counted.at})
	return nil
}

// lookup returns what writes the numbers of the words from element at on, -1 for those that the pool has not.
func (g *grams) lookup(p *planner, x *graph.Value, src place.Memory) func(st *state, ids []int32, at int) {
	if g.words != nil {
		return g.words.among(p.textsOf(x), -1)
	}
	number := func(v int64) int32 {
		if at, ok := g.whole.find(v); ok {
			return int32(at)
		}
		return -1
	}
	if x.Type.DType == tensor.Int32 {
		return func(st *state, ids []int32, at int) {
			for i, v := range of[int32](st, src)[at:][:len(ids)] {
				ids[i] = number(int64(v))
			}
		}
	}
	return func(st *state, ids []int32, at int) { g.whole.findAll(ids, of[int64](st, src)[at:][:len(ids)], -1) }
}

func init() {
	op := operator{Signatures: gramsSignatures, Plan: planGrams}
	table.Register("TfIdfVectorizer", op)
	textTable.Register("TfIdfVectorizer", op)
}
