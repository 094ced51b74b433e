package reference

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

var textKernels = []kernel{
	{"StringConcat", 20, stringConcat},
	{"StringSplit", 20, stringSplit},
	{"StringNormalizer", 10, stringNormalizer},
	{"RegexFullMatch", 20, regexFullMatch},
	{"TfIdfVectorizer", 9, tfIdf},
}

func stringConcat(c *Call) {
	a, b, shape := c.pair()
	c.putStrings(shape, zip(c, shape, c.strings(0), a.Shape, c.strings(1), b.Shape, func(x, y string) string { return x + y }))
}

// stringSplit splits every string at a delimiter, or at runs of white space, and pads the rows with empty strings.
func stringSplit(c *Call) {
	x := c.input(0)
	delimiter := c.Node.Str("delimiter", "")
	limit := -1
	if c.Node.Attrs.Lookup("maxsplit") != nil {
		if v := c.Node.Int("maxsplit", -1); v >= 0 && v < 1<<30 {
			limit = int(v)
		}
	}
	widest := 0
	var lists [][]string
	counts := []int64{}
	for _, s := range c.strings(0) {
		var list []string
		if delimiter == "" {
			list = splitFields(s, limit)
		} else {
			n := -1
			if limit >= 0 {
				n = limit + 1
			}
			list = strings.SplitN(s, delimiter, n)
		}
		widest = max(widest, len(list))
		lists, counts = append(lists, list), append(counts, int64(len(list)))
		c.spend(len(s) + 1)
	}
	shape := append(append([]int{}, x.Shape...), widest)
	c.count("output Y", shape, 16)
	out := make([]string, len(lists)*widest)
	for i, list := range lists {
		copy(out[i*widest:], list)
	}
	c.putStrings(shape, out)
	c.putInts(1, tensor.Int64, x.Shape, counts)
}

// splitFields splits at runs of white space, limit times at most unless it is negative. The last part keeps what follows.
func splitFields(s string, limit int) []string {
	const space = " \t\n\v\f\r"
	var out []string
	for s = strings.TrimLeft(s, space); s != ""; s = strings.TrimLeft(s, space) {
		i := strings.IndexAny(s, space)
		if i < 0 || limit >= 0 && len(out) == limit {
			return append(out, strings.TrimRight(s, space))
		}
		out, s = append(out, s[:i]), s[i:]
	}
	return out
}

// stringNormalizer drops stop words from [C] or [1, C] and changes the case of the rest.
func stringNormalizer(c *Call) {
	x := c.input(0)
	c.require(len(x.Shape) == 1 || len(x.Shape) == 2 && x.Shape[0] == 1, c.portName(0), "[C] or [1, C] is expected, found %v", x)
	change := func(s string) string { return s }
	switch action := c.Node.Str("case_change_action", "NONE"); action {
	case "NONE":
	case "LOWER":
		change = strings.ToLower
	case "UPPER":
		change = strings.ToUpper
	default:
		c.fail("case_change_action", ErrAttribute, "%q", action)
	}
	fold := strings.ToLower
	if c.Node.Int("is_case_sensitive", 0) != 0 {
		fold = func(s string) string { return s }
	}
	stop := prepared(c, func() map[string]bool {
		stop := map[string]bool{}
		for _, s := range c.Node.Strs("stopwords") {
			stop[fold(s)] = true
		}
		return stop
	})
	out := []string{}
	for _, s := range c.strings(0) {
		if !stop[fold(s)] {
			out = append(out, change(s))
		}
		c.spend(len(s) + 1)
	}
	if len(out) == 0 {
		out = []string{""}
	}
	shape := []int{len(out)}
	if len(x.Shape) == 2 {
		shape = []int{1, len(out)}
	}
	c.putStrings(shape, out)
}

// regexFullMatch uses RE2's syntax, which is Go's.
func regexFullMatch(c *Call) {
	pattern := c.Node.Str("pattern", "")
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		c.fail("pattern", ErrAttribute, "%v", err)
	}
	c.putBools(0, c.input(0).Shape, each(c, c.strings(0), func(s string) bool {
		c.spend(len(s))
		return re.MatchString(s)
	}))
}

// tfIdf counts the n-grams of a pool in every row of [C] or [N, C], with up to max_skip_count elements between theirs.
func tfIdf(c *Call) {
	x := c.input(0)
	c.require(len(x.Shape) == 1 || len(x.Shape) == 2, c.portName(0), "[C] or [N, C] is expected, found %v", x)
	var words []string
	if x.DType == tensor.String {
		words = c.strings(0)
	} else {
		for _, v := range c.ints(0) {
			words = append(words, strconv.FormatInt(v, 10))
		}
	}
	pool := prepared(c, c.gramPool)
	width := pool.width
	rows, n := 1, len(words)
	shape := []int{width}
	if len(x.Shape) == 2 {
		rows, n = x.Shape[0], x.Shape[1]
		shape = []int{rows, width}
	}
	out := c.floatBuffer(shape...)
	skips := int(min(max(c.Node.Int("max_skip_count", 0), 0), int64(n)))
	lo, hi := int(max(c.Node.Int("min_gram_length", 1), 1)), int(min(c.Node.Int("max_gram_length", 1), int64(n)))
	var key []byte
	for r := range rows {
		for size := lo; size <= hi; size++ {
			for step := 1; step <= skips+1 && (size > 1 || step == 1); step++ {
				for i := 0; i+(size-1)*step < n; i++ {
					key = key[:0]
					for k := range size {
						key = appendGram(key, words[r*n+i+k*step])
					}
					for _, g := range pool.grams[string(key)] {
						out[r*width+pool.at[g]]++
					}
					c.spend(8 * size)
				}
			}
		}
	}
	pool.weigh(out)
	c.putFloats(0, tensor.Float32, shape, out)
}

// gramPool is a pool of n-grams: where each is counted, in which of width counters, with what weight.
type gramPool struct {
	grams  map[string][]int // numbers of n-grams by key
	at     []int            // counters by number
	width  int
	binary bool      // counters are 0 or 1
	weight []float64 // of counters, nil for 1
}

// gramPool reads the attributes of a TfIdfVectorizer.
func (c *Call) gramPool() *gramPool {
	words := c.Node.Strs("pool_strings")
	if ints, ok := c.Node.Ints("pool_int64s"); ok {
		words = nil
		for _, v := range ints {
			words = append(words, strconv.FormatInt(v, 10))
		}
	}
	p := &gramPool{}
	v, _ := c.Node.Ints("ngram_indexes")
	p.at = c.smallInts("ngram_indexes", v)
	for _, i := range p.at {
		if i < 0 {
			c.fail("ngram_indexes", ErrAttribute, "%d", i)
		}
		p.width = max(p.width, i+1)
	}
	p.grams = c.poolGrams(words, len(p.at))
	c.weighGrams(p)
	return p
}

// appendGram appends one word as a part of a key that cannot be confused with other words.
func appendGram(key []byte, s string) []byte {
	return append(append(strconv.AppendInt(key, int64(len(s)), 10), ':'), s...)
}

// poolGrams returns the numbers of the pool's n-grams by key. ngram_counts gives where those of each length begin.
func (c *Call) poolGrams(pool []string, count int) map[string][]int {
	starts, _ := c.Node.Ints("ngram_counts")
	grams := map[string][]int{}
	id := 0
	for k, start := range starts {
		end := int64(len(pool))
		if k+1 < len(starts) {
			end = starts[k+1]
		}
		if start < 0 || end < start || end > int64(len(pool)) {
			c.fail("ngram_counts", ErrAttribute, "%v for %d elements", starts, len(pool))
		}
		for i := int(start); i+k+1 <= int(end); i += k + 1 {
			var key []byte
			for _, w := range pool[i : i+k+1] {
				key = appendGram(key, w)
			}
			if id >= count {
				c.fail("ngram_indexes", ErrAttribute, "%d for more n-grams", count)
			}
			grams[string(key)] = append(grams[string(key)], id)
			id++
		}
	}
	return grams
}

// weighGrams reads what the mode makes of counts.
func (c *Call) weighGrams(p *gramPool) {
	mode := c.Node.Str("mode", "TF")
	if mode == "TF" {
		return
	}
	if mode != "IDF" && mode != "TFIDF" {
		c.fail("mode", ErrAttribute, "%q", mode)
	}
	p.binary = mode == "IDF"
	list := c.Node.Floats("weights")
	if list != nil && len(list) != len(p.at) {
		c.fail("weights", ErrAttribute, "%d for %d n-grams", len(list), len(p.at))
	}
	p.weight = make([]float64, p.width)
	for i := range p.weight {
		p.weight[i] = 1
	}
	for g, w := range list {
		p.weight[p.at[g]] = float64(w)
	}
}

// weigh makes counts [N, width] what the mode asks for.
func (p *gramPool) weigh(out []float64) {
	for i := range out {
		if p.binary {
			out[i] = min(out[i], 1)
		}
		if p.weight != nil {
			out[i] *= p.weight[i%p.width]
		}
	}
}
