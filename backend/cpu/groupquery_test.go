package cpu_test

import (
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// groupQuery is a GroupQueryAttention of random sizes and attributes.
type groupQuery struct {
	*model
	batch, rows, own, share, size, past, room, total int
	lengths                                          []int32
	open                                             bool // the batch is a symbol
	slides                                           int  // the window of caches that slide, 0 where they do not
	cache                                            tensor.DType
}

func newGroupQuery(m *model) *groupQuery {
	g := &groupQuery{model: m, batch: m.between(1, 3), rows: pick(m, 1, 1, m.between(2, 9), m.between(60, 90)), own: m.between(1, 3), share: m.between(1, 5),
		size: pick(m, 4, 8, 16, 20), open: m.chance(2), cache: pick(m, tensor.Float32, tensor.Float32, tensor.Float16, tensor.BFloat16)}
	m.g.Opsets[microsoft.Domain] = 1
	if !m.chance(3) {
		g.past = pick(m, m.between(1, 20), m.between(250, 300))
	}
	g.total = g.past + g.rows
	if g.room = g.past; m.chance(3) {
		g.room += m.between(0, g.rows+5)
	}
	if g.room > 0 && m.chance(3) {
		g.slides, g.room = m.between(1, g.room), g.room/pick(m, 1, 2)+1
		g.slides = min(g.slides, g.room)
	}
	for b := range g.batch {
		n := g.total
		if b > 0 { // rows of other lengths, behind which a cache is not filled
			n -= m.between(0, g.past)
		}
		g.lengths = append(g.lengths, int32(n-1))
	}
	return g
}

// sized adds an input of a batch's rows.
func (g *groupQuery) sized(t *tensor.Tensor) *graph.Value {
	ty := graph.TypeOf(t)
	if g.open {
		ty.Shape = append(graph.Shape{graph.Sym("N")}, ty.Shape[1:]...)
	}
	return g.feedAs(ty, t)
}

// length adds the length of the longest row: a constant, a mask's, or an input, of which a run learns how long the results are.
func (g *groupQuery) length() *graph.Value {
	t := tensor.Scalar(int32(g.total))
	switch g.between(0, 2) {
	case 0:
		return g.data(t)
	case 1:
		mask := tensor.From(make([]bool, g.batch*g.total), g.batch, g.total)
		v := g.feedAs(graph.TensorType(tensor.Bool, graph.Shape{graph.D(g.batch), graph.Sym("T")}), mask)
		n := g.op("Gather", g.op("Shape", v), g.data(tensor.Scalar(int64(1))))
		return g.op("Cast", n, graph.IntAttr("to", 6))
	}
	return g.feed(t)
}

// node adds the node and returns its results.
func (g *groupQuery) node() []*graph.Value {
	GinkgoHelper()
	in := make([]*graph.Value, 16)
	width, heads := g.own*g.size, g.own*g.share
	if g.chance(3) {
		in[0] = g.sized(g.floats(g.batch, g.rows, (heads+2*g.own)*g.size))
	} else {
		in[0] = g.sized(g.floats(g.batch, g.rows, heads*g.size))
		in[1], in[2] = g.sized(g.floats(g.batch, g.rows, width)), g.sized(g.floats(g.batch, g.rows, width))
	}
	if g.room > 0 {
		for i := range 2 {
			in[3+i] = g.sized(as(g.floats(g.batch, g.own, g.room, g.size), g.cache, false))
		}
		if g.cache != tensor.Float32 {
			g.judge = g.rounded
		}
	}
	in[5], in[6] = g.sized(tensor.From(g.lengths, g.batch)), g.length()
	as := []graph.Attr{graph.IntAttr("num_heads", int64(heads)), graph.IntAttr("kv_num_heads", int64(g.own))}
	if g.chance(2) {
		half := pick(g.model, g.size/2, g.size/4)
		as = append(as, graph.IntAttr("do_rotary", 1), graph.IntAttr("rotary_interleaved", int64(g.between(0, 1))))
		in[7], in[8] = g.constant(g.total+3, half), g.constant(g.total+3, half)
		if g.chance(2) {
			ids := make([]int64, g.batch*g.rows)
			for i := range ids {
				ids[i] = int64(g.between(0, g.total+2))
			}
			in[9] = g.sized(tensor.From(ids, g.batch, g.rows))
		}
	}
	if g.chance(3) && g.slides == 0 {
		in[10] = g.input(pick(g.model, 1, g.batch), pick(g.model, 1, heads), g.rows, g.total)
	}
	switch g.between(0, 4) {
	case 0:
		in[11] = g.constant(heads)
	case 1:
		as = append(as, graph.IntAttr("smooth_softmax", 1))
	}
	if g.chance(3) {
		in[14], in[15] = g.constant(g.size), g.constant(g.size)
	}
	if g.chance(3) {
		as = append(as, graph.FloatAttr("softcap", 3))
	}
	if g.slides > 0 {
		as = append(as, graph.IntAttr("local_window_size", int64(g.slides)), graph.IntAttr("sliding_window_cache", 1))
	} else if g.chance(3) {
		as = append(as, graph.IntAttr("local_window_size", int64(g.between(1, 12))))
	}
	if g.chance(4) && g.slides == 0 {
		as = append(as, graph.IntAttr("causal", 0))
	}
	if g.chance(3) {
		as = append(as, graph.FloatAttr("scale", 0.3))
	}
	for len(in) > 7 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	out := g.add(graph.NodeSpec{Op: graph.Op{Domain: microsoft.Domain, Name: "GroupQueryAttention"}, Name: "node", Inputs: in, Outputs: []string{"y", "keys", "values"}, Attrs: as})
	Expect(g.err).NotTo(HaveOccurred())
	return out
}

// rounded judges results with caches of half precision: one of theirs may be rounded to the other side where it is in the middle, and results
// are sums of values whose weights are off by as much.
func (g *groupQuery) rounded(got map[string]tensor.Value) string {
	for _, v := range g.g.Outputs {
		t, want := got[v.Name].(*tensor.Tensor), g.known[v]
		largest := 0.0
		for i := range want.Len() {
			largest = max(largest, math.Abs(want.Float64At(i)))
		}
		for i := range want.Len() {
			x, y := t.Float64At(i), want.Float64At(i)
			limit := tolerance([]float64{1, -1}) + 2*halfTypes[g.cache]*largest*0.1
			if want.DType == g.cache {
				limit = 2.01 * halfTypes[g.cache] * math.Abs(y)
			}
			if d := math.Abs(x - y); !(d <= limit) && !(math.IsNaN(x) && math.IsNaN(y)) {
				return fmt.Sprintf("%v: %g instead of %g at %d", v, x, y, i)
			}
		}
	}
	return ""
}

var _ = Describe("attention of groups of queries", func() {
	It("is that of the reference kernels, for batches whose rows have lengths of their own", seeds(150, func(m *model) {
		out := newGroupQuery(m).node()
		m.sample(out...)
	}))
	It("is a part of groups where shapes tell the length of the caches, and what follows it as well", seeds(20, func(m *model) {
		g := newGroupQuery(m)
		out := g.node()
		m.sample(append(out, m.op("Neg", out[0]))...)
	}))
})
