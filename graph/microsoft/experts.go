package microsoft

import (
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// expertOperators are mixtures of experts: every token goes through those k of some networks of two layers that its routing favours.
// No standard operators say that without running all of them.
var expertOperators = []operator{
	{name: "MoE", schema: "in input:T router_probs:T fc1_experts_weights:T fc1_experts_bias?:T fc2_experts_weights:T fc2_experts_bias?:T " +
		"fc3_experts_weights?:T fc3_experts_bias?:T\nout output:T\nat " + expertsText + "\nty T=bfloat16,float,float16",
		infer: inferExperts, eval: func(c *call) error {
			return c.experts([3]expertPorts{{2, 3, -1, -1}, {4, 5, -1, -1}, {6, 7, -1, -1}}, -1)
		}},
	{name: "QMoE", schema: "in input:T router_probs:T fc1_experts_weights:T1 fc1_scales?:T2 fc1_experts_bias?:T fc2_experts_weights:T1 fc2_scales?:T2 " +
		"fc2_experts_bias?:T fc3_experts_weights?:T1 fc3_scales?:T2 fc3_experts_bias?:T fc1_zero_points?:T1 fc2_zero_points?:T1 fc3_zero_points?:T1 " +
		"router_weights?:T fc1_global_scale?:T4 fc2_global_scale?:T4 fc1_act_scale?:T4 fc2_act_scale?:T4 fc1_act_block_scale?:T2 fc2_act_block_scale?:T2\n" +
		"out output:T\nat " + expertsText + " accuracy_level:int=0 block_size:int=0 expert_weight_bits:int=4 fc1_expert_weight_bits:int fc2_expert_weight_bits:int " +
		"fc3_expert_weight_bits:int quant_type:string=\"int\" weights_prepacked:int=-1\nty T=bfloat16,float,float16 T1=float8e4m3fn,uint8 " +
		"T2=bfloat16,float,float16,float8e4m3fn,float8e8m0 T4=float",
		infer: inferExperts, eval: func(c *call) error {
			return c.experts([3]expertPorts{{2, 4, 3, 11}, {5, 7, 6, 12}, {8, 10, 9, 13}}, 14)
		}},
}

const expertsText = "activation_alpha:float=1 activation_beta:float=0 activation_type:string=\"relu\" k:int=1 normalize_routing_weights:int=0 " +
	"swiglu_fusion:int=0 swiglu_limit:float use_sparse_mixer:int=0"

// expertActivations are functions of a layer's results. That of Gelu is the one with a tangent, as ONNX Runtime has it here.
var expertActivations = map[string]func(x float64) float64{
	"identity": func(x float64) float64 { return x },
	"relu":     func(x float64) float64 { return max(x, 0) },
	"silu":     func(x float64) float64 { return x / (1 + math.Exp(-x)) },
	"gelu":     func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) },
	"swiglu":   nil, // of two numbers
}

func inferExperts(c *graph.Inference) error {
	n := c.Node
	_, known := expertActivations[n.Str("activation_type", "relu")]
	fusion := n.Int("swiglu_fusion", 0)
	switch s := c.Shape(0); {
	case s != nil && len(s) != 2 && len(s) != 3:
		return fmt.Errorf("%w: tokens of rank %d", ErrShape, len(s))
	case !known || fusion < 0 || fusion > 2 || n.Int("k", 1) < 1:
		return fmt.Errorf("%w: activation_type %q, swiglu_fusion %d, k %d", ErrAttribute, n.Str("activation_type", "relu"), fusion, n.Int("k", 1))
	case n.Int("use_sparse_mixer", 0) != 0 || n.Str("quant_type", "int") != "int" || n.Int("weights_prepacked", -1) > 0:
		return fmt.Errorf("%w: a sparse mixer, weights of %q, or weights packed for a device", ErrUnsupported, n.Str("quant_type", "int"))
	}
	c.SetType(0, c.Type(0))
	return nil
}

// expertPorts are the inputs of one layer of all experts; -1 where the operator has none.
type expertPorts struct{ weights, bias, scales, zeros int }

// expertLayer is a layer of all experts, [experts, n, k].
type expertLayer struct {
	of       *tensor.Tensor
	n, k     int
	bias     []float32 // [experts, n], or nil
	bits     int       // of an integer; 0 where weights are numbers
	block    int       // integers with one scale
	scales   []float32 // [experts, n, blocks]
	zeros    []byte    // packed, nil where they are in the middle of the range
	zerosRow int       // bytes of zeros for a row, or for all rows of an expert where a row has one block
}

// expertLayer checks the operands of layer i, nil where it has none, for so many experts and inputs.
func (c *call) expertLayer(i int, p expertPorts, experts, k int) (*expertLayer, error) {
	if i == 2 && !c.has(p.weights) {
		return nil, nil
	}
	w, err := c.input(p.weights, 3)
	if err != nil {
		return nil, err
	}
	if w.Len() == 0 || k == 0 {
		return nil, fmt.Errorf("%w: weights %v", ErrShape, w)
	}
	l := &expertLayer{of: w, n: w.Shape[1], k: k, block: k}
	if p.scales >= 0 {
		l.bits = int(c.n.Int(fmt.Sprintf("fc%d_expert_weight_bits", i+1), c.n.Int("expert_weight_bits", 4)))
		if l.bits != 2 && l.bits != 4 && l.bits != 8 || w.DType != tensor.Uint8 || !c.has(p.scales) {
			return nil, fmt.Errorf("%w: weights %v of %d bits without scales", ErrUnsupported, w, l.bits)
		}
	}
	if w.Shape[0] != experts || w.Shape[2] != k && l.bits == 0 || l.bits > 0 && w.Shape[2]*8 != k*l.bits {
		return nil, fmt.Errorf("%w: weights %v for %d experts of %d inputs", ErrShape, w, experts, k)
	}
	if c.has(p.bias) {
		if l.bias, err = c.floats(p.bias); err != nil {
			return nil, err
		}
		if len(l.bias) != experts*l.n {
			return nil, fmt.Errorf("%w: bias %v for weights %v", ErrShape, c.in[p.bias], w)
		}
	}
	if l.bits == 0 {
		return l, nil
	}
	return l, c.quantisedExperts(l, p, experts)
}

func (c *call) quantisedExperts(l *expertLayer, p expertPorts, experts int) (err error) {
	if b := c.n.Int("block_size", 0); b > 0 {
		if b < 16 || b > int64(l.k) || l.k%int(b) != 0 {
			return fmt.Errorf("%w: blocks of %d in rows of %d", ErrAttribute, b, l.k)
		}
		l.block = int(b)
	}
	blocks := l.k / l.block
	if l.scales, err = c.floats(p.scales); err != nil {
		return err
	}
	if len(l.scales) != experts*l.n*blocks {
		return fmt.Errorf("%w: scales %v for %d experts of %d rows of %d blocks", ErrShape, c.in[p.scales], experts, l.n, blocks)
	}
	if !c.has(p.zeros) {
		return nil
	}
	l.zeros = c.in[p.zeros].Bytes()
	want := experts
	if c.n.Int("block_size", 0) > 0 {
		l.zerosRow = (blocks*l.bits + 7) / 8
		want *= l.n * l.zerosRow
	} else {
		want *= (l.n*l.bits + 7) / 8
	}
	if len(l.zeros) != want || c.in[p.zeros].DType != tensor.Uint8 {
		return fmt.Errorf("%w: zero points %v, expected %d bytes", ErrShape, c.in[p.zeros], want)
	}
	return nil
}

// packed returns integer i of those that bytes hold, the low bits first.
func (l *expertLayer) packed(b []byte, i int) int {
	return int(b[i*l.bits/8]>>(i*l.bits%8)) & (1<<l.bits - 1)
}

// row returns the weights of result n of an expert, in dst or where they lie.
func (l *expertLayer) row(expert, n int, dst []float32) []float32 {
	at := expert*l.n + n
	switch {
	case l.bits > 0:
		blocks, bytes := l.k/l.block, l.of.Bytes()[at*(l.k*l.bits/8):]
		for b := range blocks {
			zero := 1 << (l.bits - 1)
			if l.zeros != nil && l.zerosRow > 0 {
				zero = l.packed(l.zeros[at*l.zerosRow:], b)
			} else if l.zeros != nil {
				zero = l.packed(l.zeros[expert*((l.n*l.bits+7)/8):], n)
			}
			scale := l.scales[at*blocks+b]
			for i := b * l.block; i < (b+1)*l.block; i++ {
				dst[i] = float32(l.packed(bytes, i)-zero) * scale
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

// experts computes a node; chosen is the input that says with which weights experts are mixed, -1 where there is none.
func (c *call) experts(ports [3]expertPorts, chosen int) error {
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
	k := c.n.Int("k", 1)
	if router.Shape[0] != tokens || k < 1 || k > int64(experts) {
		return fmt.Errorf("%w: %d of the experts of %v for tokens %v", ErrShape, k, router, x)
	}
	layers, err := c.expertLayers(ports, experts, hidden)
	if err != nil {
		return err
	}
	routes, err := c.routes(chosen, int(k), experts)
	if err != nil {
		return err
	}
	v, err := c.floats(0)
	if err != nil {
		return err
	}
	out := make([]float32, len(v))
	for e := range experts {
		var rows [][]float32
		var to []route
		for _, r := range routes {
			if r.expert == e {
				rows, to = append(rows, v[r.token*hidden:][:hidden]), append(to, r)
			}
		}
		if len(rows) == 0 {
			continue
		}
		y, err := c.expert(layers, e, rows)
		if err != nil {
			return err
		}
		for i, r := range to {
			for j, v := range y[i] {
				out[r.token*hidden+j] += r.weight * v
			}
		}
	}
	return c.put(0, x.DType, out, x.Shape...)
}

func (c *call) expertLayers(ports [3]expertPorts, experts, hidden int) (l [3]*expertLayer, err error) {
	for _, i := range []int{0, 2, 1} {
		k := hidden
		if i == 1 {
			if k = l[0].n; c.fused() {
				k /= 2
			}
		}
		if l[i], err = c.expertLayer(i, ports[i], experts, k); err != nil {
			return l, err
		}
	}
	if l[2] != nil && (c.fused() || l[2].n != l[0].n) || c.fused() && l[0].n%2 != 0 || l[1].n != hidden {
		return l, fmt.Errorf("%w: layers of %v and %v", ErrShape, l[0].of, l[1].of)
	}
	if l[2] == nil && !c.fused() && c.n.Str("activation_type", "relu") == "swiglu" {
		return l, fmt.Errorf("%w: SwiGLU of one layer", ErrShape)
	}
	return l, nil
}

// fused reports whether the first layer computes both operands of a SwiGLU.
func (c *call) fused() bool {
	return c.n.Str("activation_type", "relu") == "swiglu" && c.n.Int("swiglu_fusion", 0) != 0
}

// expert runs one expert on rows.
func (c *call) expert(l [3]*expertLayer, e int, rows [][]float32) ([][]float32, error) {
	h, err := l[0].times(c, e, rows)
	if err != nil {
		return nil, err
	}
	linear := make([][]float32, len(rows))
	if l[2] != nil {
		if linear, err = l[2].times(c, e, rows); err != nil {
			return nil, err
		}
	}
	name := c.n.Str("activation_type", "relu")
	for i, v := range h {
		switch {
		case name == "swiglu":
			h[i] = c.gated(v, linear[i])
		default:
			for j, x := range v {
				v[j] = float32(expertActivations[name](float64(x)))
				if linear[i] != nil {
					v[j] *= linear[i][j]
				}
			}
		}
	}
	return l[1].times(c, e, h)
}

// gated is SwiGLU of a layer's results and those of another; where this is nil they stand by turns, or one behind the other.
func (c *call) gated(v, linear []float32) []float32 {
	alpha, beta := float64(c.n.Float("activation_alpha", 1)), float64(c.n.Float("activation_beta", 0))
	limit := float64(c.n.Float("swiglu_limit", math.MaxFloat32))
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
		case c.n.Int("swiglu_fusion", 0) == 1:
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
func (c *call) routes(chosen, k, experts int) ([]route, error) {
	logits, err := c.floats(1)
	if err != nil {
		return nil, err
	}
	given := logits
	if c.has(chosen) {
		if given, err = c.floats(chosen); err != nil {
			return nil, err
		}
		if len(given) != len(logits) {
			return nil, fmt.Errorf("%w: routing %v and %v", ErrShape, c.in[1], c.in[chosen])
		}
	}
	var out []route
	order, w := make([]int, experts), make([]float64, k)
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
			if w[i] = float64(given[t*experts+order[i]]); !c.has(chosen) {
				w[i] = math.Exp(w[i] - most)
			}
			sum += w[i]
		}
		switch {
		case c.n.Int("normalize_routing_weights", 0) != 0 || chosen >= 0 && !c.has(chosen):
		case c.has(chosen):
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
