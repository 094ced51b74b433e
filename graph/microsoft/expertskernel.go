package microsoft

import (
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// expertLayer is a layer of all experts, [experts, n, k].
type expertLayer struct {
	of     *tensor.Tensor
	n, k   int
	bias   []float32 // [experts, n], or nil
	bits   int       // of an integer; 0 where weights are numbers
	block  int       // integers with one scale
	scales []float32 // [experts, n, blocks]
	zeros  []float32 // likewise, or one for all
}

// expertLayer checks the operands of layer i, nil where it has none, for so many experts and inputs.
func (c *call) expertLayer(i int, p *ExpertLayer, experts, k int) (*expertLayer, error) {
	if i == 2 && !c.has(p.Weights) {
		return nil, nil
	}
	w, err := c.input(p.Weights, 3)
	if err != nil {
		return nil, err
	}
	if w.Len() == 0 || k == 0 {
		return nil, fmt.Errorf("%w: weights %v", ErrShape, w)
	}
	l := &expertLayer{of: w, n: w.Shape[1], k: k, block: k, bits: p.Bits}
	if l.bits > 0 && (w.DType != tensor.Uint8 || !c.has(p.Scales)) {
		return nil, fmt.Errorf("%w: weights %v of %d bits without scales", ErrUnsupported, w, l.bits)
	}
	if w.Shape[0] != experts || w.Shape[2] != k && l.bits == 0 || l.bits > 0 && w.Shape[2]*8 != k*l.bits {
		return nil, fmt.Errorf("%w: weights %v for %d experts of %d inputs", ErrShape, w, experts, k)
	}
	if c.has(p.Bias) {
		if l.bias, err = c.floats(p.Bias); err != nil {
			return nil, err
		}
		if len(l.bias) != experts*l.n {
			return nil, fmt.Errorf("%w: bias %v for weights %v", ErrShape, c.in[p.Bias], w)
		}
	}
	if l.bits == 0 {
		return l, nil
	}
	return l, c.quantisedExperts(l, p, experts)
}

func (c *call) quantisedExperts(l *expertLayer, p *ExpertLayer, experts int) (err error) {
	if b := p.Block; b > 0 {
		if b > l.k || l.k%b != 0 {
			return fmt.Errorf("%w: blocks of %d in rows of %d", ErrAttribute, b, l.k)
		}
		l.block = b
	}
	blocks := l.k / l.block
	if l.scales, err = c.floats(p.Scales); err != nil {
		return err
	}
	if len(l.scales) != experts*l.n*blocks {
		return fmt.Errorf("%w: scales %v for %d experts of %d rows of %d blocks", ErrShape, c.in[p.Scales], experts, l.n, blocks)
	}
	var zeros *tensor.Tensor
	if c.has(p.Zeros) {
		zeros = c.in[p.Zeros]
	}
	l.zeros, err = p.zeros(zeros, experts, l.n, blocks)
	return err
}

// zeros returns the zero points of all blocks of so many rows of experts, or one for all: in the middle of the range. t has
// them, where it is not nil, packed: those of a row in whole bytes, where a row is one block those of an expert.
func (p *ExpertLayer) zeros(t *tensor.Tensor, experts, rows, blocks int) ([]float32, error) {
	if t == nil {
		return []float32{float32(int(1) << (p.Bits - 1))}, nil
	}
	lines, each := experts*rows, blocks
	if p.Block == 0 {
		lines, each = experts, rows
	}
	line := (each*p.Bits + 7) / 8
	b := t.Bytes()
	if len(b) != lines*line || t.DType != tensor.Uint8 {
		return nil, fmt.Errorf("%w: zero points %v, expected %d bytes", ErrShape, t, lines*line)
	}
	out := make([]float32, 0, lines*each)
	for l := range lines {
		for i := range each {
			out = append(out, float32(packedAt(b[l*line:], i, p.Bits)))
		}
	}
	return out, nil
}

// packedAt returns integer i of those that bytes hold, the low bits first.
func packedAt(b []byte, i, bits int) int {
	return int(b[i*bits/8]>>(i*bits%8)) & (1<<bits - 1)
}

// row returns the weights of result n of an expert, in dst or where they lie.
func (l *expertLayer) row(expert, n int, dst []float32) []float32 {
	at := expert*l.n + n
	switch {
	case l.bits > 0:
		blocks, bytes := l.k/l.block, l.of.Bytes()[at*(l.k*l.bits/8):]
		for b := range blocks {
			scale, zero := l.scales[at*blocks+b], l.zeros[min(at*blocks+b, len(l.zeros)-1)]
			for i := b * l.block; i < (b+1)*l.block; i++ {
				dst[i] = (float32(packedAt(bytes, i, l.bits)) - zero) * scale
			}
		}
	case l.of.DType == tensor.Float32 && l.of.IsCompact():
		return tensor.Elements[float32](l.of)[at*l.k:][:l.k]
	default:
		for i := range dst[:l.k] {
			dst[i] = float32(l.of.Float64At(at*l.k + i))
		}
	}
	return dst[:l.k]
}

// times returns the results of a layer of one expert for some tokens, [tokens, n].
func (l *expertLayer) times(c *call, expert int, tokens [][]float32) ([][]float32, error) {
	out := make([][]float32, len(tokens))
	for i := range out {
		out[i] = make([]float32, l.n)
	}
	buffer := make([]float32, l.k)
	for n := range l.n {
		if n%64 == 0 && c.ctx.Err() != nil {
			return nil, c.ctx.Err()
		}
		row, bias := l.row(expert, n, buffer), 0.0
		if l.bias != nil {
			bias = float64(l.bias[expert*l.n+n])
		}
		for i, x := range tokens {
			sum := bias
			for j, w := range row {
				sum += float64(w) * float64(x[j])
			}
			out[i][n] = float32(sum)
		}
	}
	return out, nil
}

// experts computes a node.
func (c *call) experts() error {
	e, err := ReadExperts(c.n)
	if err != nil {
		return err
	}
	x, err := c.input(0, -1)
	if err != nil {
		return err
	}
	router, err := c.input(1, 2)
	if err != nil {
		return err
	}
	if x.Rank() < 2 {
		return fmt.Errorf("%w: tokens %v", ErrShape, x)
	}
	if x.Len() == 0 {
		return c.put(0, x.DType, nil, x.Shape...)
	}
	hidden, experts := x.Shape[x.Rank()-1], router.Shape[1]
	tokens := x.Len() / hidden
	if router.Shape[0] != tokens || e.Chosen > experts {
		return fmt.Errorf("%w: %d of the experts of %v for tokens %v", ErrShape, e.Chosen, router, x)
	}
	layers, err := c.expertLayers(e, experts, hidden)
	if err != nil {
		return err
	}
	routes, err := c.routes(e, experts)
	if err != nil {
		return err
	}
	v, err := c.floats(0)
	if err != nil {
		return err
	}
	out := make([]float32, len(v))
	for i := range experts {
		var rows [][]float32
		var to []route
		for _, r := range routes {
			if r.expert == i {
				rows, to = append(rows, v[r.token*hidden:][:hidden]), append(to, r)
			}
		}
		if len(rows) == 0 {
			continue
		}
		y, err := c.expert(e, layers, i, rows)
		if err != nil {
			return err
		}
		for l, r := range to {
			for j, v := range y[l] {
				out[r.token*hidden+j] += r.weight * v
			}
		}
	}
	return c.put(0, x.DType, out, x.Shape...)
}

func (c *call) expertLayers(e *Experts, experts, hidden int) (l [3]*expertLayer, err error) {
	for _, i := range []int{0, 2, 1} {
		k := hidden
		if i == 1 {
			if k = l[0].n; e.Fused {
				k /= 2
			}
		}
		if l[i], err = c.expertLayer(i, &e.Layers[i], experts, k); err != nil {
			return l, err
		}
	}
	if l[2] != nil && (e.Fused || l[2].n != l[0].n) || e.Fused && l[0].n%2 != 0 || l[1].n != hidden {
		return l, fmt.Errorf("%w: layers of %v and %v", ErrShape, l[0].of, l[1].of)
	}
	if l[2] == nil && !e.Fused && e.Activation == "swiglu" {
		return l, fmt.Errorf("%w: SwiGLU of one layer", ErrShape)
	}
	return l, nil
}

// expert runs expert i on rows.
func (c *call) expert(e *Experts, l [3]*expertLayer, i int, rows [][]float32) ([][]float32, error) {
	h, err := l[0].times(c, i, rows)
	if err != nil {
		return nil, err
	}
	linear := make([][]float32, len(rows))
	if l[2] != nil {
		if linear, err = l[2].times(c, i, rows); err != nil {
			return nil, err
		}
	}
	for r, v := range h {
		switch {
		case e.Activation == "swiglu":
			h[r] = e.gated(v, linear[r])
		default:
			for j, x := range v {
				v[j] = float32(expertActivations[e.Activation](float64(x)))
				if linear[r] != nil {
					v[j] *= linear[r][j]
				}
			}
		}
	}
	return l[1].times(c, i, h)
}

// gated is SwiGLU of a layer's results and those of another; where this is nil they stand by turns, or one behind the other.
func (e *Experts) gated(v, linear []float32) []float32 {
	alpha, beta, limit := float64(e.Alpha), float64(e.Beta), float64(e.Limit)
	n := len(v)
	if linear == nil {
		n /= 2
	}
	out := make([]float32, n)
	for j := range out {
		var g, x float64
		switch {
		case linear != nil:
			g, x = float64(v[j]), float64(linear[j])
		case e.Turns:
			g, x = float64(v[2*j]), float64(v[2*j+1])
		default:
			g, x = float64(v[j]), float64(v[n+j])
		}
		g, x = min(g, limit), min(max(x, -limit), limit)
		out[j] = float32(g / (1 + math.Exp(-alpha*g)) * (x + beta))
	}
	return out
}

// route is the part that an expert has in a token.
type route struct {
	token, expert int
	weight        float32
}

// routes returns the k experts of each token, of equal ones the first. Their weights are a softmax: of MoE over all experts, divided by their
// sum where they are to be normalised, of QMoE over the chosen ones, unless an input says others.
func (c *call) routes(e *Experts, experts int) ([]route, error) {
	logits, err := c.floats(1)
	if err != nil {
		return nil, err
	}
	given := logits
	if c.has(e.Mix) {
		if given, err = c.floats(e.Mix); err != nil {
			return nil, err
		}
		if len(given) != len(logits) {
			return nil, fmt.Errorf("%w: routing %v and %v", ErrShape, c.in[1], c.in[e.Mix])
		}
	}
	var out []route
	order, w := make([]int, experts), make([]float64, e.Chosen)
	for t := range len(logits) / experts {
		row := logits[t*experts:][:experts]
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case row[a] > row[b]:
				return -1
			case row[a] < row[b]:
				return 1
			}
			return 0
		})
		all, sum, most := 0.0, 0.0, float64(row[order[0]])
		for _, v := range row {
			all += math.Exp(float64(v) - most)
		}
		for i := range w {
			if w[i] = float64(given[t*experts+order[i]]); !c.has(e.Mix) {
				w[i] = math.Exp(w[i] - most)
			}
			sum += w[i]
		}
		switch {
		case e.OfChosen:
		case c.has(e.Mix):
			sum = 1
		default:
			sum = all
		}
		for i, v := range w {
			out = append(out, route{t, order[i], float32(v / sum)})
		}
	}
	return out, nil
}
