package microsoft

import (
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// linearAttention is attention whose memory is a matrix for each head, [keys' size, values' size], instead of keys and values: each token
// lets it decay, adds what it brings, and reads by its query.
var linearAttention = operator{
	name: "LinearAttention",
	schema: "in query:T key:T value:T past_state?:S decay?:T beta?:T\nout output:T present_state:S\nat chunk_size:int=64 kv_num_heads:int! " +
		"q_num_heads:int! scale:float=0 state_window:int=0 update_rule:string=gated_delta\nty T=bfloat16,float,float16 S=bfloat16,float,float16",
	infer: inferLinearAttention, eval: evalLinearAttention,
}

// Inputs of LinearAttention, by their places.
const (
	LinearQuery = iota
	LinearKey
	LinearValue
	LinearPast
	LinearDecay
	LinearBeta
	LinearInputs // how many there are
)

// LinearAttention is a node of the operator whose shapes are known.
type LinearAttention struct {
	Batch, Length       int
	Queries, Keys, Own  int // heads; each of the Own has values and a state
	Size, Width         int // of keys, and of values
	Scale               float32
	Decays, PerKey      bool // states decay, row by row
	Delta, BetaPerState bool // what a state has for a key is taken off what is added
}

// linearHeads returns the heads of queries and of states.
func linearHeads(n *graph.Node) (q, own int64, err error) {
	q, own = n.Int("q_num_heads", 0), n.Int("kv_num_heads", 0)
	switch {
	case q <= 0 || own <= 0 || q > 1<<16 || own > 1<<16 || q%own != 0 && own%q != 0:
		return 0, 0, fmt.Errorf("%w: %d heads of queries and %d of values", ErrAttribute, q, own)
	case n.Int("state_window", 0) != 0:
		return 0, 0, fmt.Errorf("%w: states of several positions", ErrUnsupported)
	case !slices.Contains([]string{"linear", "gated", "delta", "gated_delta"}, n.Str("update_rule", "gated_delta")):
		return 0, 0, fmt.Errorf("%w: update_rule %q", ErrAttribute, n.Str("update_rule", ""))
	}
	return q, own, nil
}

func inferLinearAttention(c *graph.Inference) error {
	heads, own, err := linearHeads(c.Node)
	if err != nil {
		return err
	}
	if err := checkLinearAttention(c); err != nil {
		return err
	}
	q, v := c.Shape(LinearQuery), c.Shape(LinearValue)
	if q == nil || v == nil {
		return nil
	}
	if len(q) != 3 || len(v) != 3 {
		return fmt.Errorf("%w: queries of rank %d and values of rank %d", ErrShape, len(q), len(v))
	}
	size, width := q[2].FloorDiv(graph.D(int(heads))), v[2].FloorDiv(graph.D(int(own)))
	c.SetType(0, graph.TensorType(c.DType(LinearQuery), graph.Shape{q[0], q[1], width.Scale(max(heads, own))}))
	dt := c.DType(LinearPast)
	if !c.Has(LinearPast) {
		dt = c.DType(LinearQuery)
	}
	c.SetType(1, graph.TensorType(dt, graph.Shape{q[0], graph.D(int(own)), size, width}))
	return nil
}

// checkLinearAttention has ReadLinearAttention check a node of which all dims are known.
func checkLinearAttention(c *graph.Inference) error {
	dims := make([][]int, LinearInputs)
	for i := range dims {
		if !c.Has(i) {
			continue
		}
		var known bool
		if dims[i], known = c.Shape(i).Static(); !known {
			return nil
		}
	}
	_, err := ReadLinearAttention(c.Node, dims)
	return err
}

// ReadLinearAttention checks a node with operands of these dims, nil for one that is left out.
func ReadLinearAttention(n *graph.Node, dims [][]int) (*LinearAttention, error) {
	heads, own, err := linearHeads(n)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	bad := func() error { return fmt.Errorf("%v: %w: operands %v", n, ErrShape, dims) }
	for i, d := range dims {
		if want := map[bool]int{true: 4, false: 3}[i == LinearPast]; d != nil && len(d) != want || d == nil && i <= LinearValue {
			return nil, bad()
		}
	}
	q, k, v := dims[LinearQuery], dims[LinearKey], dims[LinearValue]
	rule := n.Str("update_rule", "gated_delta")
	a := &LinearAttention{Batch: q[0], Length: q[1], Queries: int(heads), Own: int(own), Size: q[2] / int(heads), Width: v[2] / int(own), Scale: n.Float("scale", 0),
		Decays: rule == "gated" || rule == "gated_delta", Delta: rule == "delta" || rule == "gated_delta"}
	if a.Size == 0 || a.Width == 0 || q[2] != a.Queries*a.Size || v[2] != a.Own*a.Width || k[2] == 0 || k[2]%a.Size != 0 {
		return nil, bad()
	}
	if a.Keys = k[2] / a.Size; a.Keys > a.Own || a.Own%a.Keys != 0 {
		return nil, bad()
	}
	if a.Scale == 0 {
		a.Scale = float32(1 / math.Sqrt(float64(a.Size)))
	}
	for _, i := range []int{LinearKey, LinearValue, LinearDecay, LinearBeta} {
		if d := dims[i]; d != nil && (d[0] != a.Batch || d[1] != a.Length) {
			return nil, bad()
		}
	}
	if p := dims[LinearPast]; p != nil && !slices.Equal(p, []int{a.Batch, a.Own, a.Size, a.Width}) {
		return nil, bad()
	}
	if d := dims[LinearDecay]; a.Decays {
		if d == nil || d[2] != a.Own && d[2] != a.Own*a.Size {
			return nil, bad()
		}
		a.PerKey = d[2] == a.Own*a.Size
	}
	if d := dims[LinearBeta]; a.Delta {
		if d == nil || d[2] != a.Own && d[2] != 1 {
			return nil, bad()
		}
		a.BetaPerState = d[2] == a.Own
	}
	return a, nil
}

func evalLinearAttention(c *call) error {
	dims, in := make([][]int, LinearInputs), make([][]float32, LinearInputs)
	for i := range dims {
		if !c.has(i) {
			continue
		}
		dims[i] = append([]int{}, c.in[i].Shape...)
		var err error
		if in[i], err = c.floats(i); err != nil {
			return err
		}
	}
	a, err := ReadLinearAttention(c.n, dims)
	if err != nil {
		return err
	}
	heads := max(a.Queries, a.Own)
	out, state := make([]float32, a.Batch*a.Length*heads*a.Width), make([]float64, a.Batch*a.Own*a.Size*a.Width)
	for i, x := range in[LinearPast] {
		state[i] = float64(x)
	}
	for i := range a.Batch * a.Own {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		a.run(in, state[i*a.Size*a.Width:][:a.Size*a.Width], out, i/a.Own, i%a.Own)
	}
	last := make([]float32, len(state))
	for i, x := range state {
		last[i] = float32(x)
	}
	dt := c.in[LinearQuery].DType
	if err := c.put(0, dt, out, a.Batch, a.Length, heads*a.Width); err != nil {
		return err
	}
	if c.has(LinearPast) {
		dt = c.in[LinearPast].DType
	}
	return c.put(1, dt, last, a.Batch, a.Own, a.Size, a.Width)
}

// QueriesOf returns the heads of queries that read a state, [first, first+n), and the head of results of the first.
func (a *LinearAttention) QueriesOf(own int) (first, n, result int) {
	if a.Queries >= a.Own {
		n = a.Queries / a.Own
		return own * n, n, own * n
	}
	return own * a.Queries / a.Own, 1, own
}

// run goes through all tokens for one state.
func (a *LinearAttention) run(in [][]float32, state []float64, out []float32, b, own int) {
	add := make([]float64, a.Width)
	for t := range a.Length {
		at := b*a.Length + t
		k := in[LinearKey][(at*a.Keys+own/(a.Own/a.Keys))*a.Size:][:a.Size]
		a.decay(in[LinearDecay], state, at, own)
		for j, v := range in[LinearValue][(at*a.Own+own)*a.Width:][:a.Width] {
			add[j] = float64(v)
		}
		if a.Delta {
			beta := in[LinearBeta][at]
			if a.BetaPerState {
				beta = in[LinearBeta][at*a.Own+own]
			}
			for j := range add {
				for i, x := range k {
					add[j] -= float64(x) * state[i*a.Width+j]
				}
				add[j] *= float64(beta)
			}
		}
		for i, x := range k {
			for j, v := range add {
				state[i*a.Width+j] += float64(x) * v
			}
		}
		first, n, result := a.QueriesOf(own)
		for h := range n {
			q := in[LinearQuery][(at*a.Queries+first+h)*a.Size:][:a.Size]
			y := out[(at*max(a.Queries, a.Own)+result+h)*a.Width:][:a.Width]
			for j := range y {
				sum := 0.0
				for i, x := range q {
					sum += float64(x) * state[i*a.Width+j]
				}
				y[j] = float32(sum * float64(a.Scale))
			}
		}
	}
}

// decay lets a state decay by a token's logarithms: one for all rows, or one for each.
func (a *LinearAttention) decay(g []float32, state []float64, at, own int) {
	if !a.Decays {
		return
	}
	for i := range a.Size {
		x := 0.0
		if a.PerKey {
			x = float64(g[(at*a.Own+own)*a.Size+i])
		} else {
			x = float64(g[at*a.Own+own])
		}
		x = math.Exp(x)
		for j := range a.Width {
			state[i*a.Width+j] *= x
		}
	}
}
