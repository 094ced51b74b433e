package cpu

import (
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss of float32 scores [N, C, d…] and labels [N, d…]: of each label's score, negated and
// weighted by its class, or their sum or weighted mean, which are added up in float64. Of the second the scores are the logarithms of a softmax over C.

func lossSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x, labels := n.Inputs[0], n.Inputs[1]; !operators.IsFloat32(x, n.Input(2)) {
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
		p.softmax(scores, logarithms, []int{d[0], d[1], product(d[2:])}, true)
		scores = logarithms
	}
	if labels.Type.DType == tensor.Int32 {
		emitLoss[int32](p, n, scores, d[1], product(d[2:]))
	} else {
		emitLoss[int64](p, n, scores, d[1], product(d[2:]))
	}
	return nil
}

// emitLoss emits the loss of scores [N, classes, inner] at labels of type T.
func emitLoss[T int32 | int64](p *planner, n *graph.Node, scores place.Memory, classes, inner int) {
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
	s.body = func(st *state, _, lo, hi int) {
		x, t, w, y := st.F32(scores), of[T](st, labels), st.F32(weights), st.F32(dst)
		if reduction != "none" {
			lo, hi = 0, count
		}
		sum, total := 0.0, 0.0
		image, at := lo/inner*classes*inner, lo%inner
		for i := lo; i < hi; i++ {
			class, loss, weight := int64(t[i]), float32(0), float32(1)
			switch {
			case ignores && class == ignored:
				weight = 0
			case uint64(class) >= uint64(classes):
				panic(backend.OutOfRange(n, 1, class, 0, int64(classes)-1))
			default:
				if len(w) > 0 {
					weight = w[class]
				}
				loss = -x[image+int(class)*inner+at] * weight
			}
			if at++; at == inner {
				image, at = image+classes*inner, 0
			}
			if reduction == "none" {
				y[i] = loss
			}
			sum, total = sum+float64(loss), total+float64(weight)
		}
		switch reduction {
		case "sum":
			y[0] = float32(sum)
		case "mean":
			y[0] = float32(sum / total)
		}
	}
	p.emit(s, []place.Memory{scores, labels, weights}, []place.Memory{dst})
}

func init() {
	table.Register("NegativeLogLikelihoodLoss", operator{Signatures: lossSignatures, Plan: planLoss})
	table.Register("SoftmaxCrossEntropyLoss", operator{Signatures: lossSignatures, Plan: planLoss})
}
