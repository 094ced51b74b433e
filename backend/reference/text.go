package reference

import (
	"regexp"
	"slices"
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
	const least = 1 << 20 // bytes that are counted together
	untold := 0
	a, b, shape := c.pair()
	c.putStrings(shape, zip(c, shape, c.strings(0), a.Shape, c.strings(1), b.Shape, func(x, y string) string {
		if untold += len(x) + len(y); untold >= least {
			c.reserve("output Z", []int{untold}, 1)
			untold = 0
		}
		return x + y
	}))
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
	widest, in := 0, c.strings(0)
	counts := make([]int64, c.reserve("output Z", x.Shape, 8))
	for i, s := range in {
		n := countParts(s, delimiter, limit)
		widest, counts[i] = max(widest, n), int64(n)
		c.spend(len(s) + 1)
	}
	shape := append(append([]int{}, x.Shape...), widest)
	c.count("output Y", shape, 16)
	out := c.result(0, tensor.String, shape).Strings
	for i, s := range in {
		row := out[i*widest:][:counts[i]]
		if delimiter == "" {
			splitFields(row, s)
			continue
		}
		last := len(row) - 1
		for k := range last {
			at := strings.Index(s, delimiter)
			row[k], s = s[:at], s[at+len(delimiter):]
		}
		row[last] = s
	}
	c.putInts(1, tensor.Int64, x.Shape, counts)
}

// countParts returns how many parts a string has that is split limit times at most, unless that is negative.
func countParts(s, delimiter string, limit int) int {
	n := 0
	if delimiter != "" {
		n = strings.Count(s, delimiter) + 1
	} else {
		for before, i := 0, 0; i < len(s); i++ { // without a branch, since a processor would guess it wrong at each word
			word := int(words[s[i]])
			n, before = n+(word&^before), word
		}
	}
	if limit >= 0 {
		n = min(n, limit+1)
	}
	return n
}

// words has 1 for each byte that is no white space.
var words = func() (t [256]uint8) {
	for b := range t {
		if !isSpace(byte(b)) {
			t[b] = 1
		}
	}
	return t
}()

func isSpace(b byte) bool { return b == ' ' || b-'\t' <= '\r'-'\t' }

// splitFields writes the parts of a string between runs of white space, of which there are as many at least. The last keeps what follows, but white space at the end.
func splitFields(parts []string, s string) {
	at := 0
	for k := range parts {
		for isSpace(s[at]) {
			at++
		}
		from := at
		if at = len(s); k+1 == len(parts) {
			for isSpace(s[at-1]) {
				at--
			}
		} else {
			for at = from; words[s[at]] != 0; at++ {
			}
		}
		parts[k] = s[from:at]
	}
}

// stringNormalizer drops stop words from [C] or [1, C] and changes the case of the rest.
func stringNormalizer(c *Call) {
	x := c.input(0)
	c.require(len(x.Shape) == 1 || len(x.Shape) == 2 && x.Shape[0] == 1, c.portName(0), "[C] or [1, C] is expected, found %v", x)
	var change func(s string) string
	switch action := c.Node.Str("case_change_action", "NONE"); action {
	case "NONE":
	case "LOWER":
		change = strings.ToLower
	case "UPPER":
		change = strings.ToUpper
	default:
		c.fail("case_change_action", ErrAttribute, "%q", action)
	}
	stop := prepared(c, c.stopWords)
	in := c.strings(0)
	var kept []int32 // their places, nil for all
	count := len(in)
	if len(stop.all) > 0 {
		kept = make([]int32, 0, c.reserve("", x.Shape, 4))
		for i, s := range in {
			if !stop.has(s) {
				kept = append(kept, int32(i))
			}
			c.spend(len(s) + 1)
		}
		count = len(kept)
	}
	shape := []int{max(count, 1)}
	if len(x.Shape) == 2 {
		shape = []int{1, max(count, 1)}
	}
	y := c.result(0, tensor.String, shape).Strings // one empty string where none is kept
	for i := range count {
		s := in[i]
		if kept != nil {
			s = in[kept[i]]
		}
		if change != nil {
			s = change(s)
		}
		y[i] = s
		c.spend(len(s) + 1)
	}
}

// stopWords are those that a StringNormalizer drops.
type stopWords struct {
	all     map[string]bool
	begins  [256]uint16 // by first byte: a bit for each length of words, the last one for all that are longer
	anyCase bool
}

func (c *Call) stopWords() *stopWords {
	w := &stopWords{all: map[string]bool{}, anyCase: c.Node.Int("is_case_sensitive", 0) == 0}
	for _, s := range c.Node.Strs("stopwords") {
		if w.anyCase {
			s = strings.ToLower(s)
		}
		w.all[s] = true
		if len(s) > 0 {
			w.begins[s[0]] |= 1 << min(len(s), 15)
		}
	}
	return w
}

// has reports whether a word is dropped.
func (w *stopWords) has(s string) bool {
	if w.anyCase {
		s = strings.ToLower(s)
	}
	return (len(s) == 0 || w.begins[s[0]]>>min(len(s), 15)&1 != 0) && w.all[s]
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
	pool := prepared(c, c.gramPool)
	ids := pool.wordsOf(c, x)
	rows, n := 1, len(ids)
	shape := []int{pool.width}
	if len(x.Shape) == 2 {
		rows, n = x.Shape[0], x.Shape[1]
		shape = []int{rows, pool.width}
	}
	t := c.result(0, tensor.Float32, shape)
	skips := int(min(max(c.Node.Int("max_skip_count", 0), 0), int64(n)))
	lo, hi := int(max(c.Node.Int("min_gram_length", 1), 1)), int(min(c.Node.Int("max_gram_length", 1), int64(n)))
	of, out := gramCounts{counts: make([]float64, c.reserve("", []int{pool.width}, 8))}, tensor.Elements[float32](t)
	for r := range rows {
		row := ids[r*n : (r+1)*n]
		for step := 1; step <= skips+1; step++ {
			for i, word := range row {
				if word >= 0 && pool.first[word] >= 0 {
					pool.count(&of, row[i:], step, lo, hi)
				}
				c.spend(8 * max(hi, 1))
			}
		}
		pool.weigh(out[r*pool.width:][:pool.width], &of)
	}
}

// gramCounts are what a row has counted: counters by number, and those that are not 0.
type gramCounts struct {
	counts  []float64
	touched []int
}

func (c *gramCounts) add(at int) {
	if c.counts[at] == 0 {
		c.touched = append(c.touched, at)
	}
	c.counts[at]++
}

// gramPool is a pool of n-grams as a tree of words, with what is counted where an n-gram ends: width counters, and their weights.
type gramPool struct {
	words  map[string]int32
	bytes  [256]int32       // the words of one byte, -1 for those that there are not
	whole  map[int64]int32  // the words where they are integers, else nil
	first  []int32          // by word: the node of the n-grams that begin with it, -1 where there are none
	next   map[uint64]int32 // by node, in the upper bits, and word
	dense  []int32          // the same by node times the number of words, and word; nil where that is much
	ends   [][]int          // by node: counters of the n-grams that end there
	at     []int            // counters by number of n-gram
	width  int
	binary bool      // counters are 0 or 1
	weight []float64 // of counters, nil for 1
	empty  []float32 // what counters of 0 make, nil where that is 0
}

// gramPool reads the attributes of a TfIdfVectorizer.
func (c *Call) gramPool() *gramPool {
	p := &gramPool{words: map[string]int32{}, next: map[uint64]int32{}}
	words := c.Node.Strs("pool_strings")
	if ints, ok := c.Node.Ints("pool_int64s"); ok {
		words, p.whole = nil, map[int64]int32{}
		for _, v := range ints {
			words = append(words, strconv.FormatInt(v, 10))
			p.whole[v] = p.word(words[len(words)-1])
		}
	}
	v, _ := c.Node.Ints("ngram_indexes")
	p.at = c.smallInts("ngram_indexes", v)
	for _, i := range p.at {
		if i < 0 {
			c.fail("ngram_indexes", ErrAttribute, "%d", i)
		}
		p.width = max(p.width, i+1)
	}
	c.poolGrams(p, words)
	c.weighGrams(p)
	if n := len(p.ends) * len(p.words); n <= mostDense {
		p.dense = slices.Repeat([]int32{-1}, n)
		for key, to := range p.next {
			p.dense[int(key>>32)*len(p.words)+int(uint32(key))] = to
		}
	}
	for b := range p.bytes {
		p.bytes[b] = -1
		if id, ok := p.words[string([]byte{byte(b)})]; ok {
			p.bytes[b] = id
		}
	}
	return p
}

// mostDense bounds the tables of pools, in entries: those of letters are small.
const mostDense = 1 << 18

// after returns the node behind another one and a word, -1 where there is none.
func (p *gramPool) after(node, word int32) int32 {
	if p.dense != nil {
		return p.dense[int(node)*len(p.words)+int(word)]
	}
	if to, ok := p.next[edge(node, word)]; ok {
		return to
	}
	return -1
}

// word returns the number of a word of the pool.
func (p *gramPool) word(s string) int32 {
	id, ok := p.words[s]
	if !ok {
		id = int32(len(p.words))
		p.words[s], p.first = id, append(p.first, -1)
	}
	return id
}

// node returns the node behind another one, -1 for the root, and a word.
func (p *gramPool) node(from, word int32) int32 {
	if from < 0 {
		if p.first[word] < 0 {
			p.first[word] = p.fresh()
		}
		return p.first[word]
	}
	to, ok := p.next[edge(from, word)]
	if !ok {
		to = p.fresh()
		p.next[edge(from, word)] = to
	}
	return to
}

// fresh adds a node.
func (p *gramPool) fresh() int32 {
	p.ends = append(p.ends, nil)
	return int32(len(p.ends) - 1)
}

func edge(node, word int32) uint64 { return uint64(uint32(node))<<32 | uint64(uint32(word)) }

// poolGrams enters the pool's n-grams. ngram_counts gives where those of each length begin.
func (c *Call) poolGrams(p *gramPool, pool []string) {
	starts, _ := c.Node.Ints("ngram_counts")
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
			node := int32(-1)
			for _, w := range pool[i : i+k+1] {
				node = p.node(node, p.word(w))
			}
			if id >= len(p.at) {
				c.fail("ngram_indexes", ErrAttribute, "%d for more n-grams", len(p.at))
			}
			p.ends[node] = append(p.ends[node], p.at[id])
			id++
		}
	}
}

// wordsOf returns the numbers of x's words, -1 for those that the pool has not.
func (p *gramPool) wordsOf(c *Call, x *tensor.Tensor) []int32 {
	out := make([]int32, c.reserve(c.portName(0), x.Shape, 4))
	find := func(i int, id int32, ok bool) {
		if out[i] = -1; ok {
			out[i] = id
		}
	}
	if x.DType == tensor.String {
		for i, s := range c.strings(0) {
			if len(s) == 1 {
				out[i] = p.bytes[s[0]]
			} else {
				id, ok := p.words[s]
				find(i, id, ok)
			}
			c.spend(8)
		}
		return out
	}
	for i, v := range c.ints(0) {
		id, ok := p.whole[v]
		if p.whole == nil {
			id, ok = p.words[strconv.FormatInt(v, 10)]
		}
		find(i, id, ok)
	}
	return out
}

// count counts the n-grams of lo to hi words that begin with the first of a row, step words apart. Those of one word count once, for a
// step of 1.
func (p *gramPool) count(to *gramCounts, row []int32, step, lo, hi int) {
	node := int32(-1)
	for size := 1; size <= hi && (size-1)*step < len(row); size++ {
		word := row[(size-1)*step]
		if word < 0 {
			return
		}
		if size == 1 {
			node = p.first[word]
		} else {
			node = p.after(node, word)
		}
		if node < 0 {
			return
		}
		if size >= lo && (size > 1 || step == 1) {
			for _, at := range p.ends[node] {
				to.add(at)
			}
		}
	}
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
	if slices.ContainsFunc(p.weight, func(w float64) bool { return w*0 != 0 }) {
		p.empty = make([]float32, p.width)
		for i, w := range p.weight {
			p.empty[i] = float32(w * 0)
		}
	}
}

// weigh makes counts of a row what the mode asks for, and clears them. What nothing was counted for is 0 in the row.
func (p *gramPool) weigh(row []float32, of *gramCounts) {
	copy(row, p.empty)
	for _, at := range of.touched {
		n := of.counts[at]
		of.counts[at] = 0
		if p.binary {
			n = 1
		}
		if p.weight != nil {
			n *= p.weight[at]
		}
		row[at] = float32(n)
	}
	of.touched = of.touched[:0]
}
