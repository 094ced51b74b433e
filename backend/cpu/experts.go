package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/kernel/octet"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Mixtures of experts (MoE, QMoE). A run alone knows which experts a token goes through: rows of tokens are brought into the order of their
// experts, so that the weights of each are read once, and those of no other.

// expertChosen is the most experts of a token.
const expertChosen = 64

func expertSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	e, err := microsoft.ReadExperts(n)
	if err != nil {
		return nil, property.Because(property.Unsupported, "%v", err)
	}
	floats := []*graph.Value{n.Inputs[0], n.Inputs[1]}
	if e.Mix >= 0 {
		floats = append(floats, n.Input(e.Mix))
	}
	for i := range e.Layers {
		l := &e.Layers[i]
		w := n.Input(l.Weights)
		switch {
		case w == nil && i == 2:
			continue
		case w == nil || !w.IsConst() || len(w.Type.Shape) != 3:
			return nil, property.Because(property.Unsupported, "weights of layer %d are no constant matrices", i+1)
		case l.Bits == 0:
			floats = append(floats, w)
		case w.Type.DType != tensor.Uint8 || n.Input(l.Scales) == nil || !fuse.IsTensorConst(n.Input(l.Scales)):
			return nil, property.Because(property.Unsupported, "weights %v of layer %d, without constant scales or of another type", w.Type, i+1)
		default:
			floats = append(floats, n.Input(l.Scales))
			if z := n.Input(l.Zeros); z != nil && !z.IsConst() {
				return nil, property.Because(property.Unsupported, "zero points of layer %d are not constant", i+1)
			}
		}
		if b := n.Input(l.Bias); b != nil {
			floats = append(floats, b)
		}
	}
	for _, v := range floats {
		if !operators.IsFloat32(v) {
			return nil, operators.NotFloat32(v)
		}
	}
	if e.Chosen > expertChosen {
		return nil, property.Because(property.Unsupported, "%d experts of a token", e.Chosen)
	}
	return operators.RowMajor(n), nil
}

// expertLayer is a layer of all experts, whose results are n and whose operands k.
type expertLayer struct {
	k, n, experts int
	blocks        *blockWeights // nil where weights are floats
	columns       int           // of a chunk of the product
	pitch         int           // floats from one row of operands to the next
	whole, last   expertPlans   // for a chunk, and for the last one
}

// expertPlans are products of 1, 2, 4, … rows with some columns.
type expertPlans struct {
	direct []*gemm.Plan // weights as they lie
	packed []*gemm.Plan // weights in panels
}

// Most rows that are multiplied by floats as they lie, and at a time.
const (
	expertFew  = 8
	expertMost = 64
)

// newExpertLayer reads layer i. asBytes has weights be packed that could be read where they lie.
func newExpertLayer(p *planner, n *graph.Node, e *microsoft.Experts, i int, asBytes bool) (*expertLayer, error) {
	of := &e.Layers[i]
	v := n.Inputs[of.Weights]
	dims := p.Dims[v.ID]
	l := &expertLayer{experts: dims[0], n: dims[1], k: dims[2]}
	if l.pitch = l.k; of.Bits > 0 {
		l.k = dims[2] * 8 / of.Bits
	}
	block := of.Block
	if block == 0 {
		block = l.k
	}
	if l.n == 0 || l.k == 0 || l.experts == 0 || l.k%block != 0 {
		return nil, property.Because(property.ShapeReason, "weights %v in blocks of %d of %v", dims, block, n)
	}
	if of.Bits > 0 {
		if err := l.readBlocks(p, n, e, i, block, asBytes); err != nil {
			return nil, err
		}
	}
	l.columns = min(max(nbitsFloats/l.k/gemm.Panel*gemm.Panel, gemm.Panel), 8*gemm.Panel)
	if l.blocks != nil && l.blocks.digits > 0 { // then there are no products of floats
		return l, nil
	}
	return l, l.plan(p, n.Input(of.Bias) != nil)
}

// readBlocks reads the weights of layer i, in blocks.
func (l *expertLayer) readBlocks(p *planner, n *graph.Node, e *microsoft.Experts, i, block int, asBytes bool) error {
	of := &e.Layers[i]
	s := blockShape{bits: of.Bits, matrices: l.experts, columns: l.n, block: block, blocks: l.k / block, asBytes: asBytes,
		mayRound: of.Block > 0 && n.Int("accuracy_level", 0) == roundsRows} // a row as one block is not rounded by ONNX Runtime either
	zeros, err := e.ZeroPoints(n, i, l.experts, l.n, s.blocks)
	if err != nil {
		return err
	}
	scales := n.Inputs[of.Scales]
	if fuse.Behind(scales).Const.Len() != l.experts*l.n*s.blocks {
		return property.Because(property.ShapeReason, "scales %v of weights %v", scales, n.Inputs[of.Weights])
	}
	w := &blockWeights{nibbles: nibble.Weights{Zeros: zeros, Block: block, Blocks: s.blocks}, columns: l.n, bytes: place.Nowhere, scales: place.Nowhere}
	if k := octet.For(p.target); s.packs(k) {
		w.octets = s.packedConstants(k, n.Inputs[of.Weights], scales, zeros)
	}
	w.multiplyFor(p.target, s.mayRound)
	if l.blocks, l.pitch = w, ceilDiv(w.rowBytes(), 4); w.digits == 0 { // rows may stay as they are
		l.pitch = max(l.k, l.pitch)
	}
	return nil
}

// plan plans products of floats.
func (l *expertLayer) plan(p *planner, bias bool) error {
	width := (l.n-1)%l.columns + 1
	for _, x := range []struct {
		plans   *expertPlans
		columns int
	}{{&l.whole, min(l.columns, l.n)}, {&l.last, width}} {
		for m := 1; m <= expertMost; m *= 2 {
			spec := gemm.Spec{M: m, N: x.columns, K: l.k, LDA: l.pitch, LDC: l.n, Bias: bias}
			packed, err := gemm.NewPlan(p.target, spec)
			if err != nil {
				return err
			}
			x.plans.packed = append(x.plans.packed, packed)
			if m > expertFew || l.blocks != nil {
				continue
			}
			spec.B = gemm.Columns
			direct, err := gemm.NewPlan(p.target, spec)
			if err != nil {
				return err
			}
			x.plans.direct = append(x.plans.direct, direct)
		}
	}
	return nil
}

// chunks returns how many chunks of columns there are.
func (l *expertLayer) chunks() int { return ceilDiv(l.n, l.columns) }

// reads reports whether so many rows of an expert are multiplied by weights in blocks as they are read.
func (l *expertLayer) reads(rows int) bool { return l.blocks != nil && l.blocks.reads(rows) }

// expertLayers are made once, whatever the shapes of tokens.
type expertLayers [3]*expertLayer

func newExpertLayers(p *planner, n *graph.Node, e *microsoft.Experts) (l expertLayers, err error) {
	beside := n.Input(e.Layers[2].Weights) != nil // then two layers read the same rows
	asBytes := beside && e.Layers[0].Bits != e.Layers[2].Bits
	for i := range l {
		if n.Input(e.Layers[i].Weights) == nil {
			continue
		}
		if l[i], err = newExpertLayer(p, n, e, i, asBytes && i != 1); err != nil {
			return l, err
		}
	}
	inner := l[0].n
	if e.Fused {
		inner /= 2
	}
	for _, x := range l {
		if x != nil && x.experts != l[0].experts {
			inner = -1
		}
	}
	if l[1].k != inner || e.Fused && (l[0].n%2 != 0 || l[2] != nil) || l[2] != nil && (l[2].n != l[0].n || l[2].k != l[0].k) || l[1].n != l[0].k ||
		e.Activation == "swiglu" && !e.Fused && l[2] == nil {
		return l, property.Because(property.ShapeReason, "layers of %v do not fit together", n)
	}
	return l, nil
}

// experts is a mixture of known shapes, and where everything is.
type experts struct {
	*microsoft.Experts
	p                    *planner
	layers               expertLayers
	tokens, count, pairs int // pairs of a token and an expert of it
	hidden, inner        int

	x, routing, mix, y place.Memory
	chosen, weights    place.Memory                                    // of each pair its expert, and the part that this has in the token
	order, at          place.Memory                                    // pairs by their experts; where each pair stands there
	starts, active     place.Memory                                    // where an expert's pairs begin; how many experts have some, and which
	rows, inner2       place.Memory                                    // operands of the first layer, and of the second
	out                place.Memory                                    // results of the second layer
	ports              [3]struct{ weights, scales, bias place.Memory } // Nowhere where a layer has its own
}

func planExperts(p *planner, n *graph.Node) error {
	e, err := microsoft.ReadExperts(n)
	if err != nil {
		return err
	}
	layers, err := keep(p.e, n, func() (expertLayers, error) { return newExpertLayers(p, n, e) })
	if err != nil {
		return err
	}
	dims, router := p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[1].ID]
	g := &experts{Experts: e, p: p, layers: layers, count: layers[0].experts, hidden: layers[0].k, inner: layers[1].k,
		x: p.In(n.Inputs[0]), routing: p.In(n.Inputs[1]), mix: place.Nowhere, y: p.Out(n.Outputs[0])}
	g.tokens = product(dims) / g.hidden
	g.pairs = g.tokens * e.Chosen
	if dims[len(dims)-1] != g.hidden || len(router) != 2 || router[0] != g.tokens || router[1] != g.count || e.Chosen > g.count {
		return property.Because(property.ShapeReason, "tokens %v and their routing %v, for %d experts of %d", dims, router, g.count, g.hidden)
	}
	if e.Mix >= 0 {
		if v := n.Inputs[e.Mix]; product(p.Dims[v.ID]) != product(router) {
			return property.Because(property.ShapeReason, "weights %v of the routing %v", p.Dims[v.ID], router)
		}
		g.mix = p.In(n.Inputs[e.Mix])
	}
	for i, l := range layers {
		if l == nil {
			continue
		}
		at := &g.ports[i]
		of := &e.Layers[i]
		at.weights, at.scales, at.bias = place.Nowhere, place.Nowhere, place.Nowhere
		if l.blocks == nil || l.blocks.octets == nil {
			at.weights = p.In(n.Inputs[of.Weights])
		}
		if l.blocks != nil && l.blocks.octets == nil {
			at.scales = p.In(n.Inputs[of.Scales])
		}
		if b := n.Input(of.Bias); b != nil {
			if product(p.Dims[b.ID]) != l.experts*l.n {
				return property.Because(property.ShapeReason, "bias %v of weights %v", p.Dims[b.ID], p.Dims[n.Inputs[of.Weights].ID])
			}
			at.bias = p.In(b)
		}
	}
	g.emit()
	return nil
}

func init() {
	for _, name := range []string{"MoE", "QMoE"} {
		table.Register(operators.Of(microsoft.Domain, name), operator{Signatures: expertSignatures, Plan: planExperts})
	}
}
