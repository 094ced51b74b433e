package graph

import (
	"math"
	"runtime"
	"sync"

	"github.com/carve-dev/carve/graph/tensor"
)

// affine is what a normalisation or a scale does to channel c of its operand: scale[c]·x + shift[c]. A nil scale is 1
// everywhere, a nil shift 0.
type affine struct {
	scale, shift []float64
}

// absorber describes the Conv, ConvTranspose or Gemm that produces n's operand x and may compute n as well, as far as that is
// known without n's constants; ok is false where there is none.
func absorber(n *Node, x *Value) (l linear, ok bool) {
	if x.Producer == nil || !x.HasOneUse() || !onlyFirst(n) || x.Format != n.Outputs[0].Format {
		return l, false
	}
	return linearOf(x.Producer)
}

// absorbAffine folds an affine map per channel, done by n, into the weights of the Conv, ConvTranspose or Gemm that
// produces its operand x, which nothing else reads: new constants, computed in float64, take the place of weights and
// bias. Where that cannot be done nothing changes.
func (s *simplifier) absorbAffine(n *Node, x *Value, a affine) {
	p := x.Producer
	l, ok := absorber(n, x)
	if !ok || a.scale != nil && len(a.scale) != l.channels || a.shift != nil && len(a.shift) != l.channels {
		return
	}
	bias, ok := l.biasOf(p)
	if !ok || !finite(a.scale) || !finite(a.shift) {
		return
	}
	if a.scale != nil {
		if l.weight.Const == nil || int64(l.weight.Const.NumBytes()) > s.o.MaxFold || l.weight.NumUses() == 0 {
			return
		}
		w := l.scaled(l.weight.Const, a.scale)
		if w == nil {
			return
		}
		p.SetOperand(1, s.g.AddConst(l.weight.Name, w))
	}
	for c := range bias {
		if a.scale != nil {
			bias[c] *= a.scale[c]
		}
		if a.shift != nil {
			bias[c] += a.shift[c]
		}
	}
	if a.shift != nil || p.Input(2) != nil {
		s.setBias(p, l, bias)
	}
	out := n.Outputs[0]
	x.Type = out.Type
	s.replace(out, x)
	s.absorb(p, n)
	s.g.Remove(n)
}

// linear describes where a Conv, ConvTranspose or Gemm keeps its channels.
type linear struct {
	weight    *Value
	channels  int
	run       int             // that many elements of the weights side by side belong to one channel
	rows      bool            // the weights are rows with one element of each channel
	channelOf func(i int) int // the output channel that element i of the weights belongs to
	beta      float64         // factor of Gemm's bias
}

// linearOf returns the description of n; ok is false where n is another operator or its weights have no known shape.
func linearOf(n *Node) (l linear, ok bool) {
	if !n.Is("Conv", "ConvTranspose", "Gemm") || len(n.Inputs) < 2 || n.Inputs[1] == nil {
		return l, false
	}
	w := n.Inputs[1]
	dims, ok := w.Type.Shape.Static()
	if !ok || !floating(w.Type.DType) {
		return l, false
	}
	l = linear{weight: w, run: 1, beta: 1}
	inner := 1
	switch {
	case n.Is("Gemm"):
		if len(dims) != 2 || n.Outputs[0].Type.Shape == nil {
			return l, false
		}
		l.beta = float64(n.Float("beta", 1))
		if n.Int("transB", 0) != 0 {
			l.channels, inner = dims[0], dims[1]
			l.run = inner
			l.channelOf = func(i int) int { return i / inner }
		} else {
			l.channels, l.rows = dims[1], true
			l.channelOf = func(i int) int { return i % l.channels }
		}
	case len(dims) < 3:
		return l, false
	case n.Is("Conv"):
		l.channels = dims[0]
		for _, d := range dims[1:] {
			inner *= d
		}
		l.run = inner
		l.channelOf = func(i int) int { return i / inner }
	default: // ConvTranspose: [C, M/group, …], the channels of a group side by side
		group := int(n.Int("group", 1))
		if group < 1 || dims[0]%group != 0 {
			return l, false
		}
		per, rows := dims[1], dims[0]/group
		l.channels = per * group
		for _, d := range dims[2:] {
			inner *= d
		}
		l.run = inner
		l.channelOf = func(i int) int { return i/(inner*per)/rows*per + i/inner%per }
	}
	return l, l.channels > 0 && inner > 0
}

// biasOf returns the bias per channel as it acts on the result, zeros where there is none; ok is false where it is no
// constant or no vector of channels.
func (l linear) biasOf(n *Node) (bias []float64, ok bool) {
	bias = make([]float64, l.channels)
	b := n.Input(2)
	if b == nil {
		return bias, true
	}
	c := b.Const
	if c == nil || !floating(c.DType) || len(c.Shape) > 1 && (len(c.Shape) > 2 || c.Shape[0] != 1) {
		return nil, false
	}
	switch c.Len() {
	case l.channels:
		if tensor.Decode(bias, c) != nil {
			return nil, false
		}
	case 1:
		for i := range bias {
			bias[i] = c.Float64At(0)
		}
	default:
		return nil, false
	}
	for i := range bias {
		bias[i] *= l.beta
	}
	return bias, true
}

// channelConst adds a vector of one number for each channel, of the type of a tensor that exists.
func (s *simplifier) channelConst(name string, dt tensor.DType, v []float64) *Value {
	t, err := tensor.New(dt, len(v))
	if err != nil || tensor.Encode(t, v) != nil {
		panic("graph: a vector of channels cannot be made")
	}
	return s.g.AddConst(name, t)
}

func (s *simplifier) setBias(n *Node, l linear, bias []float64) {
	name := l.weight.Name
	if b := n.Input(2); b != nil {
		name = b.Name
	} else if name != "" {
		name += ".bias"
	}
	c := s.channelConst(name, l.weight.Type.DType, bias)
	if len(n.Inputs) > 2 {
		n.SetOperand(2, c)
	} else {
		n.SetInputs(n.Inputs[0], n.Inputs[1], c)
	}
	if n.Is("Gemm") {
		n.Attrs = n.Attrs.Without("beta")
	}
}

// floating reports whether weights of that type are rewritten.
func floating(dt tensor.DType) bool {
	return dt == tensor.Float32 || dt == tensor.Float64 || dt == tensor.Float16 || dt == tensor.BFloat16
}

// scaled returns the weights t with every element multiplied by the scale of its channel, in float64; nil where t is
// malformed, or a product is out of range for its type.
func (l linear) scaled(t *tensor.Tensor, scale []float64) *tensor.Tensor {
	out, err := tensor.New(t.DType, t.Shape...)
	if err != nil {
		return nil
	}
	if t.DType == tensor.Float32 {
		src, dst := tensor.Elements[float32](t), tensor.Of[float32](out)
		if len(src) != len(dst) {
			return nil
		}
		if l.rows {
			inPieces(len(src)/l.channels, l.channels, func(lo, hi int) {
				for i := lo * l.channels; i < hi*l.channels; i++ {
					dst[i] = float32(float64(src[i]) * scale[i%l.channels])
				}
			})
			return out
		}
		inPieces(len(src)/l.run, l.run, func(lo, hi int) {
			for i := lo * l.run; i < hi*l.run; i += l.run {
				f := scale[l.channelOf(i)]
				times(dst[i:i+l.run], src[i:i+l.run], f)
			}
		})
		return out
	}
	v := make([]float64, t.Len())
	if tensor.Decode(v, t) != nil {
		return nil
	}
	for i := range v {
		v[i] *= scale[l.channelOf(i)]
		if t.DType == tensor.Float16 && math.Abs(v[i]) > 65504 {
			return nil
		}
	}
	if tensor.Encode(out, v) != nil {
		return nil
	}
	return out
}

// times writes the elements of src times f to dst. Four at a time take a fifth less.
func times(dst, src []float32, f float64) {
	for ; len(src) >= 4 && len(dst) >= 4; src, dst = src[4:], dst[4:] {
		dst[0], dst[1] = float32(float64(src[0])*f), float32(float64(src[1])*f)
		dst[2], dst[3] = float32(float64(src[2])*f), float32(float64(src[3])*f)
	}
	for i, v := range src {
		dst[i] = float32(float64(v) * f)
	}
}

// inPieces calls fn for ranges that cover [0, n), at once on several processors where the n items of that size are many
// elements.
func inPieces(n, size int, fn func(lo, hi int)) {
	pieces := min(runtime.GOMAXPROCS(0), n*size>>15)
	if pieces < 2 {
		fn(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := range pieces {
		wg.Go(func() { fn(n*i/pieces, n*(i+1)/pieces) })
	}
	wg.Wait()
}

func finite(v []float64) bool {
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// vector decodes a floating constant of n elements; nil for anything else.
func vector(v *Value, n int) []float64 {
	if v == nil || v.Const == nil || !floating(v.Const.DType) || v.Const.Len() != n {
		return nil
	}
	out := make([]float64, n)
	if tensor.Decode(out, v.Const) != nil {
		return nil
	}
	return out
}
