package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// padPoolName is the name of the property of a Pad with zeros that is fused into the average pooling that reads it, which
// then counts its own padding: frameworks export padded averages so.
const padPoolName = "pad-average"

func padPool() property.SubgraphProperty {
	return property.Found(padPoolName, 2, func(n *graph.Node) []*graph.Node {
		if pool, _ := parsePadPool(n); pool != nil {
			return []*graph.Node{n, pool}
		}
		return nil
	})
}

// parsePadPool returns the pooling behind a Pad, and the pads of the spatial dims, ends after beginnings; nil where the two
// are no pattern.
func parsePadPool(n *graph.Node) (pool *graph.Node, pads []int) {
	if !n.Is("Pad") || n.Op.Since < 11 || !operators.IsFloat32(n.Inputs[0]) || n.Str("mode", "constant") != "constant" || n.Input(3) != nil ||
		!n.Inputs[0].Type.Backed() {
		return nil, nil
	}
	if c := n.Input(2); c != nil {
		if x, ok := fuse.Scalar(c); !ok || x != 0 {
			return nil, nil
		}
	}
	if pool = fuse.Next(n.Outputs[0]); pool == nil || !pool.Is("AveragePool") || pool.Int("ceil_mode", 0) != 0 ||
		pool.Str("auto_pad", "NOTSET") != "NOTSET" {
		return nil, nil
	}
	rank := len(n.Inputs[0].Type.Shape)
	list := n.Inputs[1].Dims
	own, err := intsOr(pool, "pads", max(2*(rank-2), 0), 0)
	if err != nil || len(list) != 2*rank {
		return nil, nil
	}
	for i, d := range list {
		x, ok := d.Const()
		if !ok || x < 0 || i%rank < 2 && x != 0 {
			return nil, nil
		}
		if i%rank >= 2 {
			pads = append(pads, int(x))
		}
	}
	for _, x := range own {
		if x != 0 {
			return nil, nil
		}
	}
	return pool, pads
}

// padPoolForm reads the body of a fused node again.
func padPoolForm(n *graph.Node, x, y []int) (f poolForm, why *property.Reason) {
	for m := range n.Regions[0].Graph.Nodes() {
		pool, pads := parsePadPool(m)
		if pool == nil {
			continue
		}
		padded := append([]int(nil), x...)
		r := len(x) - 2
		for i := range r {
			padded[2+i] += pads[i] + pads[r+i]
		}
		if f, why = resolvePool(pool, padded, y); why != nil {
			return f, why
		}
		f.alg = poolPadded
		for i := range r {
			f.window.padL[i], f.window.padR[i] = pads[i], pads[r+i]
			if span := f.window.kernel[i]; pads[i] >= span || pads[r+i] >= span {
				return f, property.Because(property.Attribute, "padding %v of a window of %v", pads, f.window.kernel)
			}
		}
		return f, nil
	}
	return f, property.Because(property.Veto, "body of %v is no padded average", n)
}

// imageOf returns the operand of a fused node that its Pad reads.
func imageOf(n *graph.Node) *graph.Value {
	for m := range n.Regions[0].Graph.Nodes() {
		if m.Is("Pad") {
			return fuse.Outer(n, m.Inputs[0])
		}
	}
	return nil
}

func padPoolSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := imageOf(n)
	if x == nil {
		return nil, property.Because(property.Veto, "body of %v is no padded average", n)
	}
	dx, dy := operators.AssumedDims(x), operators.AssumedDims(n.Outputs[0])
	f, why := padPoolForm(n, dx, dy)
	if why != nil {
		return nil, why
	}
	act := b.activations(len(dx))
	a := b.l.ask(b.answers, b.l.pooling(f.alg, f.window, in(act.Layout, dx), in(act.Layout, dy)))
	if why := refused(a); why != nil {
		return nil, why
	}
	s := graph.Signature{Name: a.impl, Outputs: []graph.Port{graph.Fixed(act)}}
	for _, v := range n.Inputs {
		port := graph.Fixed(graph.HostFormat)
		if v == x {
			port = graph.Fixed(act)
		}
		s.Inputs = append(s.Inputs, port)
	}
	return []graph.Signature{s}, nil
}

func planPadPool(p *planner, n *graph.Node) error {
	x, y := imageOf(n), n.Outputs[0]
	if x == nil {
		return property.Because(property.Veto, "body of %v is no padded average", n)
	}
	f, why := padPoolForm(n, p.Dims[x.ID], p.Dims[y.ID])
	if why != nil {
		return why
	}
	pr, err := p.make(p.l.pooling(f.alg, f.window, p.shape(x), p.shape(y)))
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argDst, p.Out(y), pr.dst, true})
	return nil
}

func init() {
	table.Register(operators.Pattern(padPoolName), operator{Signatures: padPoolSignatures, Plan: planPadPool})
}
