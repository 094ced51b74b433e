package mkl

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// Quantised models say what they mean with DequantizeLinear in front of float operators and QuantizeLinear behind them. A
// convolution or matrix product between such nodes becomes one primitive on integers:
//
//	DequantizeLinear(x) → Conv|MatMul|Gemm with weights that are integers → [bias] → [+ residual] → [activation] → [QuantizeLinear]
//
// The conditions: scale and zero point of x, of the residual and of the result are constants, one for the whole tensor; x and
// the result are uint8 or int8; weights are constant, int8 about a zero point, with one scale or one per output channel, be
// they still quantised or folded; the bias is constant; between the nodes nobody else reads, and nothing is an output.

// quant are scale and zero point of a whole tensor: numbers are (integer - zero) · scale.
type quant struct {
	scale float32
	zero  int
	dtype tensor.DType
}

func isQuantize(n *graph.Node) bool { return n.Is("QuantizeLinear") && n.Op.Since >= 10 }

func isDequantize(n *graph.Node) bool { return n.Is("DequantizeLinear") && n.Op.Since >= 10 }

// isByte reports whether a value is a tensor of eight-bit integers.
func isByte(v *graph.Value) bool {
	return v != nil && v.Type.IsTensor() && (v.Type.DType == tensor.Int8 || v.Type.DType == tensor.Uint8)
}

// quantOf returns the parameters of a QuantizeLinear or DequantizeLinear between float32 and eight bits whose scale and zero
// point are constants for the whole tensor.
func quantOf(n *graph.Node) (q quant, why *property.Reason) {
	x, y := n.Inputs[0], n.Outputs[0]
	if isQuantize(n) {
		x, y = y, x
	}
	if !isByte(x) || !operators.IsFloat32(y, n.Input(1)) || len(n.Inputs) > 1 && n.Inputs[1] == nil {
		return q, property.Because(property.DTypeReason, "float32 and integers of eight bits only, found %v and %v", y.Type, x.Type)
	}
	if p := n.Int("precision", 0); p != 0 && tensor.DType(p) != tensor.Float32 {
		return q, property.Because(property.Attribute, "precision %d", p)
	}
	return quantFrom(x.Type.DType, n.Input(1), n.Input(2))
}

// quantFrom reads scale and zero point, which may be absent, from constants of one element.
func quantFrom(dt tensor.DType, scale, zero *graph.Value) (q quant, why *property.Reason) {
	q.dtype = dt
	s, z := fuse.Behind(scale), fuse.Behind(zero)
	if !fuse.IsTensorConst(s) || z != nil && !fuse.IsTensorConst(z) {
		return q, property.Because(property.Unsupported, "scale or zero point is not constant")
	}
	if s.Const.Len() != 1 || z != nil && z.Const.Len() != 1 || s.Const.DType != tensor.Float32 {
		return q, property.Because(property.Attribute, "%d scales", s.Const.Len())
	}
	if z != nil {
		if z.Const.DType != dt {
			return q, property.Because(property.DTypeReason, "zero point of %v for %v", z.Const.DType, dt)
		}
		q.zero = int(z.Const.Int64At(0))
	}
	if q.scale = float32(s.Const.Float64At(0)); !fuse.Usable(q.scale) {
		return q, property.Because(property.Attribute, "scale %g", q.scale)
	}
	return q, nil
}

// least is the smallest integer of the type.
func (q quant) least() int {
	if q.dtype == tensor.Int8 {
		return math.MinInt8
	}
	return 0
}

// dequantized returns the DequantizeLinear that makes v of eight-bit integers, nil where there is none; own asks that nobody
// else reads v.
func dequantized(v *graph.Value, own bool) (*graph.Node, quant) {
	if v == nil || v.Producer == nil || !isDequantize(v.Producer) || own && !v.HasOneUse() {
		return nil, quant{}
	}
	q, why := quantOf(v.Producer)
	if why != nil {
		return nil, q
	}
	return v.Producer, q
}

// qlinks is a parsed chain on integers.
type qlinks struct {
	fuse.Links
	posts   []post
	x, r, y quant       // of the operand, the residual and the result
	dx, dr  *graph.Node // that dequantize operand and residual; dr is nil where the residual is a float
	dw      *graph.Node // that dequantizes the weights
	w       *fuse.Integers
	q       *graph.Node // that quantizes the result, nil for a float
}

func (l *qlinks) nodes() []*graph.Node {
	out := l.Links.Nodes()
	for _, n := range []*graph.Node{l.dx, l.dw, l.dr, l.q} {
		if n != nil {
			out = append(out, n)
		}
	}
	return out
}

// outputAxis is the dim of a head's weights that counts outputs.
func outputAxis(n *graph.Node) int {
	if n.Is("Conv") || n.Is("Gemm") && n.Int("transB", 0) != 0 {
		return 0
	}
	return 1
}

// followIntegers walks down from a head. own asks that what is dequantised for the head is dequantised for nobody else, and
// that the weights are in the form of integers.
func (b *mkl) followIntegers(head *graph.Node, own bool) (*qlinks, *property.Reason) {
	if !head.Is("Conv", "MatMul", "Gemm") {
		return nil, property.Because(property.Unsupported, "%v", head.Op)
	}
	x, w := head.Inputs[0], head.Inputs[1]
	l := &qlinks{}
	if l.dx, l.x = dequantized(x, own); l.dx == nil || !l.dx.Inputs[0].Type.Backed() || !head.Outputs[0].Type.Backed() || !operators.IsFloat32(head.Outputs[0]) {
		return nil, property.Because(property.NotSelected, "%v is not dequantised", x)
	}
	if head.Is("Gemm") {
		if why := gemmRefused(head); why != nil {
			return nil, why
		}
	}
	rank := 2
	if head.Is("Conv") {
		rank = len(x.Type.Shape)
	}
	if len(w.Type.Shape) != rank {
		return nil, property.Because(property.ShapeReason, "weights of rank %d", len(w.Type.Shape))
	}
	if l.w = b.quants.Weights(w, outputAxis(head)); l.w == nil {
		return nil, property.Because(property.Unsupported, "weights %v are no integers of eight bits with one scale per output", w)
	}
	if own {
		if l.dw = w.Producer; l.dw == nil || l.w.Q != nil || !w.HasOneUse() {
			return nil, property.Because(property.NotSelected, "weights %v are shared", w)
		}
	}
	if why := b.inexact(l.x.dtype, l.w); why != nil {
		return nil, why
	}
	if bias := head.Input(2); bias != nil && (!fuse.IsConst(bias) || !operators.IsFloat32(bias)) {
		return nil, property.Because(property.Unsupported, "bias %v is not constant", bias)
	}
	tail := &fuse.Chain{Bias: func(*graph.Node) bool { return true }, Activation: b.activates, Residual: func(_ *graph.Node, r *graph.Value) bool {
		if fuse.IsConst(r) || r.Producer == nil || !isDequantize(r.Producer) {
			return !fuse.IsConst(r)
		}
		l.dr, l.r = dequantized(r, own)
		return l.dr != nil
	}}
	l.Links = *tail.Follow(head)
	l.posts = b.activation(&l.Links)
	if n := fuse.Next(l.Out); n != nil && isQuantize(n) && n.Inputs[0] == l.Out {
		if q, why := quantOf(n); why == nil {
			l.q, l.y, l.Out = n, q, n.Outputs[0]
		}
	}
	return l, nil
}

// inexact tells why products of such operands may lose something on this processor, nil where they do not.
func (b *mkl) inexact(x tensor.DType, w *fuse.Integers) *property.Reason {
	if b.l.exactProducts() || x == tensor.Uint8 && w.Most <= safeWeight {
		return nil
	}
	return property.Because(property.Unsupported, "without VNNI, products of %v and weights up to %d may saturate in 16 bits", x, w.Most)
}

// integerChain returns the chain of a head that the library has a primitive for.
func (b *mkl) integerChain(head *graph.Node, own bool) (*qlinks, *property.Reason) {
	l, why := b.followIntegers(head, own)
	if why != nil {
		return nil, why
	}
	_, why = b.integerPorts(l.job())
	return l, why
}

// ReadsIntegers implements backend.IntegerReader: weights of chains on integers stay integers.
func (b *mkl) ReadsIntegers(n *graph.Node, k int) bool {
	if k != 1 || !n.Is("Conv", "MatMul", "Gemm") {
		return false
	}
	_, why := b.integerChain(n, false)
	return why == nil
}

// operands gives each head on integers operands of its own, before the heads are fused: a DequantizeLinear that others read
// too is doubled, weights that were folded to floats become integers again, and those about another zero point become
// signed ones about zero.
type operands struct{ b *mkl }

// Name implements property.SubgraphProperty.
func (*operands) Name() string { return "quantized-operands" }

// NewSelector implements property.SubgraphProperty.
func (o *operands) NewSelector(*graph.Graph) property.Selector { return &operandSelector{b: o.b} }

type operandSelector struct {
	fuse.HeadSelector // with what makes operand 0, which is fused with the head

	b   *mkl
	why *property.Reason
}

// Select implements property.Selector: a head whose operands are not its own.
func (s *operandSelector) Select(seed *graph.Node) bool {
	s.why, s.With = nil, nil
	if seed.Is("QLinearConv", "QLinearMatMul") {
		j, why := qlinearJob(s.b, seed)
		return why == nil && j.weights.Q != nil
	}
	if l := s.b.followSum(seed, false); l != nil {
		return s.b.followSum(seed, true) == nil
	}
	if !seed.Is("Conv", "MatMul", "Gemm") {
		return false
	}
	l, why := s.b.integerChain(seed, false)
	if why != nil {
		if why.Code != property.NotSelected {
			s.why = why
		}
		return false
	}
	if l.dx.Outputs[0].HasOneUse() {
		s.With = l.dx
	}
	_, why = s.b.followIntegers(seed, true)
	return why != nil || l.dr != nil && !l.dr.Outputs[0].HasOneUse()
}

// Why implements property.Explainer.
func (s *operandSelector) Why(*graph.Node) *property.Reason { return s.why }

// Adjust implements property.Adjuster.
func (o *operands) Adjust(nodes []*graph.Node) error {
	for _, head := range nodes {
		if head.Is("QLinearConv", "QLinearMatMul") {
			if err := o.centre(head); err != nil {
				return err
			}
			continue
		}
		if head.Is("Add") {
			fuse.OwnDequantize(head, 0)
			fuse.OwnDequantize(head, 1)
			continue
		}
		if isDequantize(head) {
			continue
		}
		l, why := o.b.followIntegers(head, false)
		if why != nil {
			return why
		}
		fuse.OwnDequantize(head, 0)
		if l.dr != nil {
			for k, v := range l.Sum.Inputs {
				if v == l.Residual {
					fuse.OwnDequantize(l.Sum, k)
				}
			}
		}
		fuse.OwnWeights(head, l.w, outputAxis(head))
	}
	return nil
}

// integerPattern is the name of the property of chains on integers, and of the fused nodes' pattern.
const integerPattern = "quantized-product"

// integerProduct is the property that fuses the chains.
func (b *mkl) integerProduct() property.SubgraphProperty {
	return property.Found(integerPattern, 2, func(seed *graph.Node) []*graph.Node {
		l, why := b.integerChain(seed, true)
		if why != nil {
			return nil
		}
		return l.nodes()
	})
}

// centre gives a QLinear operator weights about zero.
func (o *operands) centre(n *graph.Node) error {
	j, why := qlinearJob(o.b, n)
	if why != nil {
		return why
	}
	zero, err := tensor.New(tensor.Int8, fuse.Behind(n.Inputs[5]).Const.Shape...)
	if err != nil {
		return err
	}
	g := n.Graph()
	fuse.ReplaceOperand(n, 3, g.AddConst("", j.weights.Q))
	fuse.ReplaceOperand(n, 5, g.AddConst("", zero))
	return nil
}

// parseIntegers reads the body of a fused node again.
func (b *mkl) parseIntegers(n *graph.Node) (*qlinks, error) {
	body := n.Regions[0].Graph
	for m := range body.Nodes() {
		if !m.Is("Conv", "MatMul", "Gemm") {
			continue
		}
		l, why := b.followIntegers(m, true)
		if why != nil {
			return nil, why
		}
		if len(l.nodes()) != body.NumNodes() || len(body.Outputs) != 1 || body.Outputs[0] != l.Out {
			break
		}
		return l, nil
	}
	return nil, fmt.Errorf("body of %v is no chain", n)
}
