package mkl

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// attentionName is the name of the property of what stands around a product of two activations and is fused into its
// strides and its post operations, as in attention: Transposes of the operands, and a scale, by which the product is
// multiplied or divided.
const attentionName = "matmul-transposes-scale"

func (b *mkl) attention() property.SubgraphProperty {
	return property.Found(attentionName, 2, func(n *graph.Node) []*graph.Node {
		if f := b.parseAttention(n); f != nil {
			return f.nodes
		}
		return nil
	})
}

// attentionForm is a parsed pattern.
type attentionForm struct {
	nodes        []*graph.Node
	a, b, out    *graph.Value
	permA, permB []int
	scale        float32
}

// parseAttention reads the pattern around a MatMul, nil where there is nothing to fuse.
func (b *mkl) parseAttention(n *graph.Node) *attentionForm {
	if !n.Is("MatMul") || !operators.IsFloat32(n.Inputs...) || fuse.IsConst(n.Inputs[1]) || !n.Inputs[0].Type.Backed() || !n.Inputs[1].Type.Backed() ||
		!n.Outputs[0].Type.Backed() || len(n.Inputs[0].Type.Shape) < 2 || len(n.Inputs[1].Type.Shape) < 2 {
		return nil
	}
	f := &attentionForm{a: n.Inputs[0], b: n.Inputs[1], out: n.Outputs[0], scale: 1}
	before := func(v *graph.Value) (*graph.Value, []int) {
		t := v.Producer
		if t == nil || !t.Is("Transpose") || fuse.Next(v) != n {
			return v, nil
		}
		perm := fuse.Perm(t, len(v.Type.Shape))
		if perm == nil {
			return v, nil
		}
		f.nodes = append(f.nodes, t)
		return t.Inputs[0], perm
	}
	if f.a != f.b {
		f.a, f.permA = before(f.a)
		f.b, f.permB = before(f.b)
	}
	f.nodes = append(f.nodes, n)
	if m := fuse.Next(f.out); m != nil && m.Is("Mul", "Div") {
		if s, ok := fuse.Scalar(fuse.Other(m, f.out)); ok && len(fuse.Other(m, f.out).Type.Shape) <= len(f.out.Type.Shape) && (m.Is("Mul") || m.Inputs[0] == f.out && s != 0) {
			f.scale = s
			if m.Is("Div") {
				f.scale = 1 / s
			}
			f.nodes, f.out = append(f.nodes, m), m.Outputs[0]
		}
	}
	if len(f.nodes) < 2 {
		return nil
	}
	return f
}

func (f *attentionForm) posts() []post {
	if f.scale == 1 {
		return nil
	}
	return []post{{alg: eltLinear, alpha: f.scale}}
}

// formOf reads the body of a fused node again.
func (b *mkl) formOf(n *graph.Node) (*attentionForm, error) {
	body := n.Regions[0].Graph
	for m := range body.Nodes() {
		if f := b.parseAttention(m); f != nil && len(f.nodes) == body.NumNodes() {
			return f, nil
		}
	}
	return nil, fmt.Errorf("body of %v is no product with transposes or scale", n)
}

func attentionSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	f, err := b.formOf(n)
	if err != nil {
		return nil, property.Because(property.Veto, "%v", err)
	}
	da, db := transposed(operators.AssumedDims(f.a), f.permA), transposed(operators.AssumedDims(f.b), f.permB)
	r, err := b.batched(da, db, operators.AssumedDims(f.out), f.permA, f.permB, f.posts())
	if err != nil {
		return nil, property.Because(property.ShapeReason, "%v", err)
	}
	if why := refused(b.l.ask(b.answers, r)); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

func planAttention(p *planner, n *graph.Node) error {
	f, err := p.b.formOf(n)
	if err != nil {
		return err
	}
	return p.batched(fuse.Outer(n, f.a), fuse.Outer(n, f.b), n.Outputs[0], f.permA, f.permB, tail{act: f.posts()})
}

func init() {
	table.Register(operators.Pattern(attentionName), operator{Signatures: attentionSignatures, Plan: planAttention})
}
