package gpugroup

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// attentionOf returns an Attention of static shapes in the kernel's terms: without caches, its result alone, with a mask of floats
// that is as long as there are keys.
func attentionOf(n *graph.Node) (s gpukernel.AttentionShape, err error) {
	for i, v := range n.Inputs {
		if v != nil && v.Type.DType != tensor.Float32 && (i != 3 || v.Type.DType != tensor.Bool) {
			return s, fmt.Errorf("input %d of type %s", i, v.Type.DType)
		}
	}
	for i := 4; i < len(n.Inputs); i++ {
		if n.Inputs[i] != nil {
			return s, fmt.Errorf("a cache, or lengths of keys")
		}
	}
	for _, v := range n.Outputs[1:] {
		if v != nil {
			return s, fmt.Errorf("results beside the first")
		}
	}
	if n.Float("softcap", 0) != 0 || n.Attrs.Lookup("left_window_size") != nil || n.Attrs.Lookup("right_window_size") != nil {
		return s, fmt.Errorf("a cap of products, or a window")
	}
	q, k, v := dims(n.Inputs[0]), dims(n.Inputs[1]), dims(n.Inputs[2])
	if len(q) != len(k) || len(k) != len(v) || len(q) < 3 || len(q) > 4 {
		return s, fmt.Errorf("attention of %v, %v and %v", q, k, v)
	}
	qHeads, kvHeads := 0, 0
	if len(q) == 3 {
		qHeads, kvHeads = int(min(n.Int("q_num_heads", 0), 1<<16)), int(min(n.Int("kv_num_heads", 0), 1<<16))
		if qHeads < 1 || kvHeads < 1 || q[2]%qHeads != 0 || k[2]%kvHeads != 0 || v[2]%kvHeads != 0 {
			return s, fmt.Errorf("%d and %d heads of %v, %v and %v", qHeads, kvHeads, q, k, v)
		}
	}
	var heads, vHeads int
	var depth int
	s.Q, s.Batch, heads, s.Queries, s.Depth = headsOf(q, qHeads)
	s.K, _, s.KVHeads, s.Keys, depth = headsOf(k, kvHeads)
	s.V, _, vHeads, _, s.Width = headsOf(v, kvHeads)
	s.Heads = heads
	if depth != s.Depth || vHeads != s.KVHeads || k[0] != q[0] || v[0] != q[0] || v[len(v)-2] != s.Keys && len(v) == 4 || len(v) == 3 && v[1] != s.Keys {
		return s, fmt.Errorf("attention of %v, %v and %v", q, k, v)
	}
	result := []int{q[0], heads, s.Queries, s.Width}
	if len(q) == 3 {
		result = []int{q[0], s.Queries, heads * s.Width}
	}
	s.C, _, _, _, _ = headsOf(result, qHeads)
	s.Scale = n.Float("scale", float32(1/math.Sqrt(float64(s.Depth))))
	if s.Causal = n.Int("is_causal", 0) != 0; s.Causal && s.Queries != s.Keys {
		return s, fmt.Errorf("causality of %d queries and %d keys", s.Queries, s.Keys)
	}
	if m := n.Input(3); m != nil {
		if s.Mask, s.MaskStrides, err = maskOf(dims(m), s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// headsOf returns how a matrix of each head lies in [batch, heads, rows, columns], or [batch, rows, heads·columns].
func headsOf(d []int, heads int) (m gpukernel.Matrix, batch, count, rows, columns int) {
	m.Type = gpukernel.F32
	if len(d) == 4 {
		m.Stride, m.Batch1, m.Batch0 = d[3], d[2]*d[3], d[1]*d[2]*d[3]
		return m, d[0], d[1], d[2], d[3]
	}
	m.Stride, m.Batch1, m.Batch0 = d[2], d[2]/heads, d[1]*d[2]
	return m, d[0], heads, d[1], d[2] / heads
}

// maskOf returns the strides of a mask that broadcasts to [batch, heads, queries, keys].
func maskOf(d []int, s gpukernel.AttentionShape) (gpukernel.Type, [4]int, error) {
	var strides [4]int
	if len(d) < 2 || len(d) > 4 {
		return "", strides, fmt.Errorf("a mask of %v", d)
	}
	want := [4]int{s.Batch, s.Heads, s.Queries, s.Keys}
	step := 1
	for i, k := len(d)-1, 3; i >= 0; i, k = i-1, k-1 {
		if d[i] != want[k] && (d[i] != 1 || k == 3) {
			return "", strides, fmt.Errorf("a mask of %v", d)
		}
		if d[i] != 1 {
			strides[k] = step
		}
		step *= d[i]
	}
	return gpukernel.F32, strides, nil
}

func attentionSignature(d *Device, n, one *graph.Node) (graph.Signature, *property.Reason) {
	here := d.format(graph.RowMajor)
	s, err := attentionOf(one)
	if err == nil {
		_, err = gpukernel.Attention("k", d.Kernels, s)
	}
	sig := graph.Signature{Name: "attention"}
	if err != nil {
		sig.Name = "attention-chain"
		var c *attentionChain
		if c, err = chainOf(one); err == nil {
			err = c.emit(d.Kernels, nil)
		}
	}
	if err != nil {
		return graph.Signature{}, property.Because(property.Unsupported, "%v", err)
	}
	for range n.Inputs {
		sig.Inputs = append(sig.Inputs, graph.Fixed(here))
	}
	for range n.Outputs {
		sig.Outputs = append(sig.Outputs, graph.Fixed(here))
	}
	return sig, nil
}

func planAttention(p *planner, n *graph.Node, _ tail) error {
	var plan *gpukernel.Plan
	s, err := attentionOf(n)
	if err == nil {
		plan, err = gpukernel.Attention("attention", p.d, s)
	}
	if err != nil {
		c, err := chainOf(n)
		if err != nil {
			return err
		}
		return c.emit(p.d, p)
	}
	buffers := map[string]place.Memory{"q": p.In(n.Inputs[0]), "k": p.In(n.Inputs[1]), "v": p.In(n.Inputs[2]), "c": p.Out(n.Outputs[0])}
	if m := n.Input(3); m != nil {
		if buffers["mask"] = p.In(m); m.Type.DType == tensor.Bool {
			if buffers["mask"], err = p.additive(m); err != nil {
				return err
			}
		}
	}
	return p.emit(1, plan, buffers)
}

// additive emits what makes a mask of truths one that is added: 0, or what leaves nothing.
func (p *planner) additive(m *graph.Value) (place.Memory, error) {
	var prog gpukernel.Program
	given := prog.Input("given", gpukernel.Bool, dims(m)...)
	prog.Output(prog.Scalar(gpukernel.F32, "($0 ? 0.0f : NEGATIVE_INFINITY)", given), "made")
	return p.make(&prog, p.In(m), 4*elementsOf(m))
}
