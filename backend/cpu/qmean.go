package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Means of images between DequantizeLinear and QuantizeLinear: sums of integers, which are exact, and a float for each channel. Where the
// definition's floats add up to something between two integers, rounding on the way, it may give the other one.

// meanLinks is a GlobalAveragePool, or a ReduceMean over the same axes, with what surrounds it.
type meanLinks struct {
	d, head, q *graph.Node
	x, y       quant.Levels
}

func (l *meanLinks) nodes() []*graph.Node { return []*graph.Node{l.d, l.head, l.q} }

// followMean reads what surrounds a node, nil where that is not quantised. own asks that the operand is dequantised for the node alone.
func followMean(head *graph.Node, own bool) *meanLinks {
	if !isImageMean(head) {
		return nil
	}
	v := head.Inputs[0]
	if v.Producer == nil || !v.Producer.Is("DequantizeLinear") || own && !v.HasOneUse() {
		return nil
	}
	l := &meanLinks{d: v.Producer, head: head, q: fuse.Next(head.Outputs[0])}
	if l.q == nil || !l.q.Is("QuantizeLinear") || l.q.Inputs[0] != head.Outputs[0] {
		return nil
	}
	var ok [2]bool
	l.x, ok[0] = levelsBetween(l.d)
	l.y, ok[1] = levelsBetween(l.q)
	if !ok[0] || !ok[1] {
		return nil
	}
	return l
}

// isImageMean reports whether a node is a mean over all axes behind the second.
func isImageMean(n *graph.Node) bool {
	switch {
	case n.Is("GlobalAveragePool"):
		return len(n.Inputs[0].Type.Shape) > 2
	case n.Is("ReduceMean"):
		axes, ok := reduceAxes(n)
		return ok && len(axes) > 0 && axes[0] == 2 && len(axes) == len(n.Inputs[0].Type.Shape)-2
	}
	return false
}

const quantizedMeanName = "quantized-mean"

func quantizedMean() property.SubgraphProperty {
	return property.Found(quantizedMeanName, 3, func(seed *graph.Node) []*graph.Node {
		if l := followMean(seed, true); l != nil {
			return l.nodes()
		}
		return nil
	})
}

// fusedMean reads the body of a fused node.
func fusedMean(n *graph.Node) (*meanLinks, *property.Reason) {
	return formOf(n, "mean of quantised images", func(m *graph.Node) *meanLinks { return followMean(m, true) })
}

func quantizedMeanSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	l, why := fusedMean(n)
	if why != nil {
		return nil, why
	}
	s := operators.RowMajor(n)
	for i, v := range n.Regions[0].Graph.Inputs {
		if v == l.d.Inputs[0] && isByteImage(v) {
			s[0].Inputs[i], s[0].Vars = graph.Variable(0), [][]graph.Format{{lastChannels, rowMaj}}
		}
	}
	return s, nil
}

func planQuantizedMean(p *planner, n *graph.Node) error {
	l, why := fusedMean(n)
	if why != nil {
		return why
	}
	x := fuse.Outer(n, l.d.Inputs[0])
	d := p.Dims[x.ID]
	m := byteMeans{meanLinks: l, kernels: p.integers, planes: d[0] * d[1], pixels: product(d[2:])}
	if m.pixels > 1<<23 {
		return property.Because(property.ShapeReason, "the mean of %d numbers", m.pixels)
	}
	if x.Format == lastChannels && m.pixels > 0 {
		p.emitChannelMeans(m, d[1], p.In(x), p.Out(n.Outputs[0]))
		return nil
	}
	src, dst := p.In(x), p.Out(n.Outputs[0])
	p.emit(step{chunks: m.planes, grain: grainFor(float64(m.pixels)/25 + 20), body: func(st *state, _, lo, hi int) {
		var sums [meansAtOnce]int32
		for ; lo < hi; lo += meansAtOnce {
			some := sums[:min(hi-lo, meansAtOnce)]
			for i := range some {
				some[i] = m.kernels.Sum(st.Bytes(src)[(lo+i)*m.pixels:][:m.pixels], m.x.Signed)
			}
			m.finish(st.Bytes(dst)[lo:], some)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

// meansAtOnce is how many means are made of their sums together.
const meansAtOnce = 64

// byteMeans are the means of planes.
type byteMeans struct {
	*meanLinks
	kernels        quant.Kernels
	planes, pixels int
}

// finish makes means of sums.
func (m *byteMeans) finish(dst []byte, sums []int32) {
	var means [meansAtOnce]float32
	offset, scale := int64(m.pixels)*int64(m.x.Zero), float64(m.x.Scale)/float64(max(m.pixels, 1)) // the mean of nothing is 0
	for i, s := range sums {
		means[i] = float32(float64(int64(s)-offset) * scale)
	}
	m.kernels.Quantize(dst[:len(sums)], means[:len(sums)], m.y)
}

// emitChannelMeans emits the means of images whose channels lie last.
func (p *planner) emitChannelMeans(m byteMeans, channels int, src, dst place.Memory) {
	images, parts := m.planes/max(channels, 1), ceilDiv(channels, meansAtOnce)
	p.emit(step{chunks: images * parts, grain: grainFor(float64(m.pixels) * 2), body: func(st *state, _, lo, hi int) {
		var sums [meansAtOnce]int32
		for i := lo; i < hi; i++ {
			image, first := i/parts, i%parts*meansAtOnce
			some := sums[:min(channels-first, meansAtOnce)]
			at := image * channels
			m.kernels.ChannelSums(some, st.Bytes(src)[at*m.pixels+first:(at+channels)*m.pixels], channels, m.pixels, m.x.Signed)
			m.finish(st.Bytes(dst)[at+first:], some)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

func init() {
	table.Register(operators.Pattern(quantizedMeanName), operator{Signatures: quantizedMeanSignatures, Plan: planQuantizedMean})
}
