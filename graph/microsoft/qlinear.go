package microsoft

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Operands of QLinearConv and QLinearMatMul.
const (
	qlinearX = iota
	qlinearXScale
	qlinearXZero
	qlinearW
	qlinearWScale
	qlinearWZero
	qlinearYScale
	qlinearYZero
	qlinearBias
)

// keepsScales reports whether a QLinearConv or QLinearMatMul stays: backends round its sums by constant scales. Of others, one scale of x and of the
// result, or one for each channel or column of w, are said by a product of integers.
func keepsScales(n *graph.Node) bool {
	for _, i := range []int{qlinearX, qlinearW, qlinearYZero} {
		if dt := n.Inputs[i].Type.DType; dt != tensor.Int8 && dt != tensor.Uint8 {
			return true
		}
	}
	constant := true
	for _, i := range []int{qlinearXScale, qlinearWScale, qlinearYScale, qlinearYZero} {
		v := n.Inputs[i]
		for v.Producer != nil && v.Producer.Is("Identity") {
			v = v.Producer.Inputs[0]
		}
		constant = constant && v.Const != nil
		list := i == qlinearWScale && len(v.Type.Shape) == 1
		if v.Type.Shape == nil || !list && !isOne(v.Type.Shape) || i != qlinearYZero && v.Type.DType != tensor.Float32 {
			return true
		}
	}
	return constant || len(n.Inputs[qlinearW].Type.Shape) < 2
}

// isOne reports whether a shape is that of a scalar, or of a vector of one element.
func isOne(s graph.Shape) bool { return len(s) == 0 || len(s) == 1 && s[0].Is(1) }

// quantisedConv says QLinearConv by ConvInteger, whose sums a bias is added to, and which are rounded.
func quantisedConv(o *op) {
	y := o.call("ConvInteger", o.n.Attrs, o.in[qlinearX], o.in[qlinearW], o.number(o.in[qlinearXZero]), o.number(o.in[qlinearWZero]))
	each := make([]int64, o.rank(o.in[qlinearW])-1) // a number for each channel: [channels, 1, …]
	for i := range each {
		each[i] = 1
	}
	each[0] = -1
	if b := o.input(qlinearBias); b != nil {
		y = o.sum(y, o.reshape(b, each...))
	}
	o.set(0, o.rounded(y, each...))
}

// quantisedMatMul says QLinearMatMul by MatMulInteger.
func quantisedMatMul(o *op) {
	o.set(0, o.rounded(o.call("MatMulInteger", nil, o.in[qlinearX], o.in[qlinearW], o.number(o.in[qlinearXZero]), o.number(o.in[qlinearWZero])), -1))
}

// rounded makes integers of sums, which count in steps of the result as ONNX Runtime reckons them; each is the shape of scales that w has several of.
func (o *op) rounded(sums *graph.Value, each ...int64) *graph.Value {
	w := o.in[qlinearWScale]
	if isOne(w.Type.Shape) {
		w = o.reshape(w)
	} else {
		w = o.reshape(w, each...)
	}
	factor := o.call("Div", nil, o.times(o.reshape(o.in[qlinearXScale]), w), o.reshape(o.in[qlinearYScale]))
	return o.call("QuantizeLinear", nil, o.times(o.cast(sums, tensor.Float32), factor), o.scalar(tensor.Float32, 1), o.number(o.in[qlinearYZero]))
}
