package mkl

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

var binaryAlgs = map[string]binaryAlg{"Add": binaryAdd, "Mul": binaryMul, "Max": binaryMax, "Min": binaryMin, "Div": binaryDiv, "Sub": binarySub}

func commutes(alg binaryAlg) bool { return alg != binaryDiv && alg != binarySub }

func binarySignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	if len(n.Inputs) != 2 || n.Op.Since < 7 && (n.Is("Add", "Sub", "Mul", "Div")) {
		return nil, property.Because(property.Unsupported, "%d operands, version %d", len(n.Inputs), n.Op.Since)
	}
	x, y := n.Inputs[0], n.Inputs[1]
	alg := binaryAlgs[n.Op.Name]
	dz := operators.AssumedDims(n.Outputs[0])
	if x.Type.Shape.Equal(y.Type.Shape) {
		if why := refused(b.l.ask(b.answers, b.l.binary(alg, plain(1024), plain(1024), plain(1024), nil))); why != nil {
			return nil, why
		}
		return b.followSignatures(n, 2), nil
	}
	dx, dy := operators.AssumedDims(x), operators.AssumedDims(y)
	if !spans(x.Type.Shape, y.Type.Shape) {
		if !commutes(alg) || !spans(y.Type.Shape, x.Type.Shape) {
			return nil, property.Because(property.ShapeReason, "both operands broadcast, or the first one does")
		}
		dx, dy = dy, dx
	}
	sx, sy := collapse(withOnes(dx, len(dz)), withOnes(dy, len(dz)))
	if why := refused(b.l.ask(b.answers, b.l.binary(alg, plain(sx...), plain(sy...), plain(sx...), nil))); why != nil {
		return nil, why
	}
	sigs := operators.RowMajor(n)
	// One value per channel of blocked activations: the second operand is as good as blocked. A single channel stays in rows,
	// where it has no padding: with blocks of 8, oneDNN 2.6 returns the first operand for the result.
	act := b.activations(len(dz))
	if act == graph.HostFormat || len(dx) != len(dz) || len(dy) != len(dz) || dz[1] == 1 || dy[1] != dz[1] || product(dy[2:]) != 1 || dy[0] != 1 && dy[0] != dz[0] {
		return sigs, nil
	}
	if c, ok := operators.ConstDim(n.Outputs[0], 1); ok && c == dz[1] && refused(b.l.ask(b.answers,
		b.l.binary(alg, in(act.Layout, dz), in(act.Layout, dy), in(act.Layout, dz), nil))) == nil && !fuse.IsConst(n.Inputs[0]) && !fuse.IsConst(n.Inputs[1]) {
		return append([]graph.Signature{graph.UniformSignature("per-channel", n, act)}, sigs...), nil
	}
	return sigs, nil
}

// spans reports whether y broadcasts to x, whatever the symbols among their dims are.
func spans(x, y graph.Shape) bool {
	for i := range max(len(x), len(y)) {
		a, b := graph.D(1), graph.D(1)
		if i < len(x) {
			a = x[len(x)-1-i]
		}
		if i < len(y) {
			b = y[len(y)-1-i]
		}
		if !b.Is(1) && !a.Equal(b) {
			return false
		}
	}
	return true
}

// withOnes puts dims of 1 in front up to a rank.
func withOnes(d []int, rank int) []int {
	if len(d) >= rank {
		return d
	}
	return append(slices.Repeat([]int{1}, rank-len(d)), d...)
}

// collapse puts neighbouring dims together in which the second operand broadcasts alike.
func collapse(x, y []int) (a, b []int) {
	for i := range x {
		switch n := len(a); {
		case x[i] == 1:
		case n > 0 && (b[n-1] == 1) == (y[i] == 1):
			a[n-1] *= x[i]
			b[n-1] *= y[i]
		default:
			a, b = append(a, x[i]), append(b, y[i])
		}
	}
	if len(a) == 0 {
		a, b = []int{1}, []int{1}
	}
	if len(a) == 1 { // the library broadcasts a scalar along a matrix best
		a, b = append([]int{1}, a...), append([]int{1}, b...)
	}
	return a, b
}

// settleBinary lets the result overwrite the operand of its shape that the library reads first.
func settleBinary(p *planner, n *graph.Node) {
	x, y, z := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	if x = p.whole(binaryAlgs[n.Op.Name], x, y, z); x != nil {
		p.InPlace(z, x)
	}
}

// whole returns the operand of a binary operation that has the shape of the result z, and that the other broadcasts to; nil
// where there is none that may be the first.
func (p *planner) whole(alg binaryAlg, x, y, z *graph.Value) *graph.Value {
	dz := p.Dims[z.ID]
	fits := func(v *graph.Value) bool { return slices.Equal(withOnes(p.Dims[v.ID], len(dz)), dz) }
	switch {
	case fits(x):
		return x
	case commutes(alg) && fits(y):
		return y
	}
	return nil
}

func planBinary(p *planner, n *graph.Node) error {
	return p.binary(binaryAlgs[n.Op.Name], n.Inputs[0], n.Inputs[1], n.Outputs[0], nil)
}

// binary emits an operation on two operands, the second of which may broadcast.
func (p *planner) binary(alg binaryAlg, x, y, z *graph.Value, posts []post) error {
	dz := p.Dims[z.ID]
	rank := len(dz)
	switch p.whole(alg, x, y, z) {
	case x:
	case y:
		x, y = y, x
	default:
		return property.Because(property.ShapeReason, "operands %v and %v", p.Dims[x.ID], p.Dims[y.ID])
	}
	same := slices.Equal(withOnes(p.Dims[y.ID], rank), dz)
	var sx, sy shape
	switch {
	case z.Format != graph.HostFormat && same && alg != binaryDiv:
		sx = plain(p.Bytes(z) / 4)
		sy = sx
	case z.Format != graph.HostFormat:
		sx, sy = p.shape(z), in(z.Format.Layout, withOnes(p.Dims[y.ID], rank))
	case same:
		sx = plain(product(dz))
		sy = sx
	default:
		a, b := collapse(withOnes(p.Dims[x.ID], rank), withOnes(p.Dims[y.ID], rank))
		sx, sy = plain(a...), plain(b...)
	}
	pr, err := p.make(p.l.binary(alg, sx, sy, sx, posts))
	if err != nil {
		return err
	}
	d, err := p.desc(sy)
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argSrc1, p.In(y), d, false}, arg{argDst, p.Out(z), pr.dst, true})
	return nil
}

// sumSignatures: tensors of one shape are added by one primitive.
func sumSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	for _, v := range n.Inputs {
		if !v.Type.Shape.Equal(n.Outputs[0].Type.Shape) {
			return nil, property.Because(property.ShapeReason, "operands broadcast")
		}
	}
	if len(n.Inputs) > 16 {
		return nil, property.Because(property.ShapeReason, "%d operands", len(n.Inputs))
	}
	if why := refused(b.l.ask(b.answers, b.l.sum(len(n.Inputs), plain(1024)))); why != nil {
		return nil, why
	}
	return b.followSignatures(n, len(n.Inputs)), nil
}

func planSum(p *planner, n *graph.Node) error {
	z := n.Outputs[0]
	s := plain(p.Bytes(z) / 4)
	pr, err := p.make(p.l.sum(len(n.Inputs), s))
	if err != nil {
		return err
	}
	d, err := p.desc(s)
	if err != nil {
		return err
	}
	args := []arg{{argDst, p.Out(z), d, true}}
	for i, v := range n.Inputs {
		args = append(args, arg{argMany + int32(i), p.In(v), d, false})
	}
	p.run(pr, args...)
	return nil
}

func init() {
	for name := range binaryAlgs {
		table.Register(name, operator{Signatures: binarySignatures, Settle: settleBinary, Plan: planBinary, Strided: byImages, Single: true})
	}
	table.Register("Sum", operator{Signatures: sumSignatures, Plan: planSum, Strided: byImages, Single: true})
}
