package microsoft

import "github.com/carve-dev/carve/graph"

// keepsLayout reports whether a recurrent operator has the sequence first already, or ranks that are not known.
func keepsLayout(n *graph.Node) bool {
	for _, i := range []int{0, 5, 6} {
		if v := n.Input(i); v != nil && len(v.Type.Shape) != 3 {
			return true
		}
	}
	return n.Int("layout", 0) == 0
}

// batchFirst says a recurrent operator over [batch, sequence, inputs] by one over [sequence, batch, inputs], and transpositions of what has a
// batch: X and the initial states, and all results.
func batchFirst(o *op) {
	in := append([]*graph.Value{}, o.in...)
	for _, i := range []int{0, 5, 6} {
		if o.has(i) {
			in[i] = o.transpose(in[i], 1, 0, 2)
		}
	}
	out := o.calls(o.n.Op.Name, len(o.n.Outputs), o.attrsWithout("layout"), in...)
	for i, v := range out {
		perm := []int64{1, 0, 2}
		if i == 0 { // [sequence, directions, batch, hidden]
			perm = []int64{2, 0, 1, 3}
		}
		if o.wants(i) {
			o.set(i, o.transpose(v, perm...))
		}
	}
}
