package mkl

import (
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
)

// tail is what is fused behind a convolution or matrix product: first a residual that is added, then an activation.
type tail struct {
	residual *graph.Value
	act      []post
}

// tail turns a tail into post operations. The residual is added in place where the result lies over it; otherwise it is an
// argument of its own.
func (p *planner) tail(t tail, out *graph.Value, as shape) (posts []post, args []arg) {
	if t.residual != nil {
		if p.In(out) == p.In(t.residual) {
			posts = append(posts, post{kind: postSum})
		} else {
			d, err := p.desc(as)
			if err == nil {
				posts = append(posts, post{kind: postBinaryAdd, src: as})
				args = append(args, arg{p.l.binaryArg(0), p.In(t.residual), d, false})
			}
		}
	}
	return append(posts, t.act...), args
}

// misplaces reports whether an implementation of a grouped convolution adds the wrong elements of an operand of its own:
// products of matrices count from the first group for all groups, where channels lie last.
func misplaces(impl string, groups int, posts []post) bool {
	return groups > 1 && strings.Contains(impl, "gemm") && !strings.Contains(impl, "brgemm") &&
		slices.ContainsFunc(posts, func(x post) bool { return x.kind == postBinaryAdd })
}

// tailBehind emits a tail with a residual as a step of its own.
func (p *planner) tailBehind(t tail, out *graph.Value) error {
	s := p.shape(out)
	pr, err := p.make(p.l.binary(binaryAdd, s, s, s, t.act))
	if err != nil {
		return err
	}
	d, err := p.desc(s)
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.Out(out), d, false}, arg{argSrc1, p.In(t.residual), d, false}, arg{argDst, p.Out(out), d, true})
	return nil
}

var inf = float32(math.Inf(1))

// activationOf returns the library's operations for a unary float node, whose limits are constants.
func (l *library) activationOf(n *graph.Node) ([]post, bool) {
	one := func(alg eltwise, alpha, beta float32) ([]post, bool) {
		return []post{{alg: alg, alpha: alpha, beta: beta}}, eltwiseNumbers[l.major][alg] != 0
	}
	if n.Op.Domain != "" || len(n.Inputs) == 0 {
		return nil, false
	}
	switch n.Op.Name {
	case "Relu":
		return one(eltRelu, 0, 0)
	case "LeakyRelu":
		return one(eltRelu, n.Float("alpha", 0.01), 0)
	case "Clip":
		return clipOf(n)
	case "Elu":
		return one(eltElu, n.Float("alpha", 1), 0)
	case "Selu":
		a, g := n.Float("alpha", 1.67326319217681884765625), n.Float("gamma", 1.05070102214813232421875)
		return []post{{alg: eltElu, alpha: a}, {alg: eltLinear, alpha: g}}, true
	case "HardSigmoid":
		a, b := n.Float("alpha", 0.2), n.Float("beta", 0.5)
		return []post{{alg: eltLinear, alpha: a, beta: b}, {alg: eltClip, alpha: 0, beta: 1}}, true
	case "HardSwish":
		return one(eltHardSwish, 1.0/6, 0.5)
	case "Swish":
		return one(eltSwish, n.Float("alpha", 1), 0)
	case "Gelu":
		if n.Str("approximate", "none") == "tanh" {
			return one(eltGeluTanh, 0, 0)
		}
		return one(eltGeluErf, 0, 0)
	case "Sigmoid":
		return one(eltLogistic, 0, 0)
	case "Tanh":
		return one(eltTanh, 0, 0)
	case "Exp":
		return one(eltExp, 0, 0)
	case "Abs":
		return one(eltAbs, 0, 0)
	case "Sqrt":
		return one(eltSqrt, 0, 0)
	case "Neg":
		return one(eltLinear, -1, 0)
	case "Reciprocal":
		return one(eltPow, 1, -1)
	case "Round":
		return one(eltRound, 0, 0)
	case "Softplus":
		return one(eltSoftRelu, 1, 0)
	case "Mish":
		return one(eltMish, 0, 0)
	}
	return nil, false
}

func clipOf(n *graph.Node) ([]post, bool) {
	lo, hi := -inf, inf
	if n.Op.Since < 11 {
		lo, hi = n.Float("min", -math.MaxFloat32), n.Float("max", math.MaxFloat32)
	} else {
		for i, at := range []*float32{&lo, &hi} {
			if v := n.Input(i + 1); v != nil {
				x, ok := fuse.Scalar(v)
				if !ok {
					return nil, false
				}
				*at = x
			}
		}
	}
	lo, hi = max(lo, -math.MaxFloat32), min(hi, math.MaxFloat32)
	if !(lo <= hi) {
		return nil, false
	}
	return []post{{alg: eltClip, alpha: lo, beta: hi}}, true
}

// keepsZero reports whether the operations map 0 to 0, so that padding lanes stay zero.
func keepsZero(list []post) bool {
	for _, x := range list {
		switch x.alg {
		case eltExp, eltLog, eltLogistic, eltSoftRelu, eltPow, eltHardSigmoid:
			return false
		case eltLinear:
			if x.beta != 0 {
				return false
			}
		case eltClip:
			if x.alpha > 0 || x.beta < 0 {
				return false
			}
		}
	}
	return true
}
