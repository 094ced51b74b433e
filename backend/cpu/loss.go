package cpu

import (
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss of float32 and float64: of scores [N, C, d…] and labels [N, d…]: of each label's score, negated and
// weighted by its class, or their sum or weighted mean, which are added up in float64. Of the second the scores are the logarithms of a softmax over C.

func lossSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x, labels := n.Inputs[0], n.Inputs[1]; !operators.IsFloat32(x, n.Input(2)) && !isDouble(x, n.Input(2)) {
		return nil, operators.NotFloat32(x)
	} else if labels.Type.DType != tensor.Int64 && labels.Type.DType != tensor.Int32 {
		return nil, property.Because(property.DTypeReason, "%v is %v", labels, labels.Type.DType)
	}
	return operators.RowMajor(n), nil
}

func planLoss(p *planner, n *graph.Node) error {
	x, labels := n.Inputs[0], n.Inputs[1]
	d, l := p.Dims[x.ID], p.Dims[labels.ID]
	if len(d) < 2 || !sameDims(l, append([]int{d[0]}, d[2:]...)) {
		return property.Because(property.ShapeReason, "labels %v of scores %v", l, d)
	}
	if w := n.Input(2); w != nil && !sameDims(p.Dims[w.ID], d[1:2]) {
		return property.Because(property.ShapeReason, "weights %v of scores %v", p.Dims[w.ID], d)
	}
	scores := p.In(x)
	if n.Is("SoftmaxCrossEntropyLoss") {
		var logarithms place.Memory
		if len(n.Outputs) > 1 && isWanted(n.Outputs[1]) {
			logarithms = p.Out(n.Outputs[1])
		} else {
			logarithms = p.Temp(p.Bytes(x))
		}
		if rows := []int{d[0], d[1], product(d[2:])}; isDouble(x) {
			p.softmaxDoubles(scores, logarithms, rows, true)
		} else {
			p.softmax(scores, logarithms, rows, true)
		}
		scores = logarithms
	}
	emit := emitLoss[int64, float32]
	switch short := labels.Type.DType == tensor.Int32; {
	case short && isDouble(x):
		emit = emitLoss[int32, float64]
	case short:
		emit = emitLoss[int32, float32]
	case isDouble(x):
		emit = emitLoss[int64, float64]
	}
	emit(p, n, scores, d[1], product(d[2:]))
	return nil
}

// emitLoss emits the loss of scores [N, classes, inner] of type F at labels of type T.
func emitLoss[T int32 | int64, F float32 | float64](p *planner, n *graph.Node, scores place.Memory, classes, inner int) {
	labels, weights, dst := p.In(n.Inputs[1]), p.In(n.Input(2)), p.Out(n.Outputs[0])
	count := product(p.Dims[n.Inputs[1].ID])
	ignored, ignores := int64(0), n.Attrs.Lookup("ignore_index") != nil
	if ignores {
		ignored = n.Int("ignore_index", 0)
	}
	reduction := n.Str("reduction", "mean")
	s := step{chunks: count, grain: grainFor(4)}
	if reduction != "none" {
		s.chunks = 1
	}
	l := labelled[T, F]{classes: classes, inner: inner, ignored: T(ignored), ignores: ignores}
	s.body = func(st *state, _, lo, hi int) {
		x, t, w, y := of[F](st, scores), of[T](st, labels), of[F](st, weights), of[F](st, dst)
		single := reduction != "none"
		if single {
			lo, hi = 0, count
		}
		sum, total := 0.0, 0.0
		for lo < hi {
			image, at := lo/inner, lo%inner
			some := min(hi-lo, inner-at)
			var out []F
			if !single {
				out = y[lo:][:some]
			}
			s, weight, bad := l.losses(out, x[image*classes*inner:][:classes*inner], t[lo:][:some], w, at)
			if bad >= 0 {
				panic(backend.OutOfRange(n, 1, int64(t[lo+bad]), 0, int64(classes)-1))
			}
			sum, total, lo = sum+s, total+weight, lo+some
		}
		switch reduction {
		case "sum":
			y[0] = F(sum)
		case "mean":
			y[0] = F(sum / total)
		}
	}
	p.emit(s, []place.Memory{scores, labels, weights}, []place.Memory{dst})
}

// labelled is how losses are taken from scores [classes, inner] of an image.
type labelled[T int32 | int64, F float32 | float64] struct {
	classes, inner int
	ignored        T
	ignores        bool
}

// losses writes the losses at labels t, which begin at place at of an image with scores x, to y if that is not nil, and returns their sum and that of the weights; weights w, of each class, may be
// missing. bad is the place in t of a label that is no class, or -1.
func (l *labelled[T, F]) losses(y, x []F, t []T, w []F, at int) (sum, total float64, bad int) {
	classes, inner := uint64(l.classes), l.inner
	for i, class := range t {
		loss, weight := F(0), F(0)
		switch {
		case l.ignores && class == l.ignored:
		case uint64(class) >= classes:
			return 0, 0, i
		case len(w) > 0:
			weight = w[class]
			loss = -x[int(class)*inner+at] * weight
		default:
			weight = 1
			loss = -x[int(class)*inner+at]
		}
		if at++; y != nil {
			y[i] = loss
		}
		sum, total = sum+float64(loss), total+float64(weight)
	}
	return sum, total, -1
}

func init() {
	table.Register("NegativeLogLikelihoodLoss", operator{Signatures: lossSignatures, Plan: planLoss})
	table.Register("SoftmaxCrossEntropyLoss", operator{Signatures: lossSignatures, Plan: planLoss})
}
