package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// BatchNormalization is a scale and a shift of each channel: of blocked or row-major images where they are constants, else of row-major ones.

func batchNormSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if operators.NoScale(n) == nil {
		return followSignatures(n, 1), nil
	}
	if why := operators.NoInference(n); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

// batchNormScale returns scale and shift per channel.
func (p *planner) batchNormScale(n *graph.Node, in []*graph.Value, width int) (scale, shift []float32, err error) {
	var part [4][]float32
	for i := range part {
		if part[i], err = paddedFloats(in[i+1].Const, width); err != nil {
			return nil, nil, err
		}
	}
	eps := float64(n.Float("epsilon", 1e-5))
	c := in[1].Const.Len()
	scale, shift = make([]float32, width), make([]float32, width)
	for i := range c {
		s := float64(part[0][i]) / math.Sqrt(float64(part[3][i])+eps)
		scale[i] = float32(s)
		shift[i] = float32(float64(part[1][i]) - float64(part[2][i])*s)
	}
	return scale, shift, nil
}

func planBatchNorm(p *planner, n *graph.Node) error {
	for _, o := range n.Outputs[1:] {
		p.Out(o)
	}
	if operators.NoScale(n) == nil {
		return p.fusedBatchNorm(n, n.Inputs, n.Outputs[0], tail{})
	}
	return p.lateBatchNorm(n)
}

// lateBatchNorm emits a batch normalisation by statistics that a run knows.
func (p *planner) lateBatchNorm(n *graph.Node) error {
	d := p.Dims[n.Inputs[0].ID]
	c, eps, kernels := d[1], n.Float("epsilon", 1e-5), p.kernels
	gamma, beta, mean, variance := p.In(n.Inputs[1]), p.In(n.Inputs[2]), p.In(n.Inputs[3]), p.In(n.Inputs[4])
	for _, v := range n.Inputs[1:5] {
		if product(p.Dims[v.ID]) != c {
			return property.Because(property.ShapeReason, "%v for %d channels", p.Dims[v.ID], c)
		}
	}
	made := channelScale{at: p.Temp(8 * c)}
	p.emit(step{serial: func(st *state) {
		scale, shift := made.of(st)
		kernels.BinaryScalar(vec.Add, scale, st.F32(variance), eps)
		kernels.Apply(vec.Sqrt, scale, scale, vec.Params{})
		kernels.Binary(vec.Div, scale, st.F32(gamma), scale)
		kernels.Binary(vec.Mul, shift, st.F32(mean), scale)
		kernels.Binary(vec.Sub, shift, st.F32(beta), shift)
	}}, []place.Memory{gamma, beta, mean, variance}, []place.Memory{made.at})
	lo, hi := vec.Unbounded()
	p.scaleChannels(d, p.In(n.Inputs[0]), p.Out(n.Outputs[0]), made, lo, hi, nil)
	return nil
}

// channelScale is a scale and a shift of each channel: known, or in memory, the scales first.
type channelScale struct {
	scale, shift []float32
	at           place.Memory
}

func (c *channelScale) of(st *state) (scale, shift []float32) {
	if c.scale != nil {
		return c.scale, c.shift
	}
	all := st.F32(c.at)
	return all[:len(all)/2], all[len(all)/2:]
}

// fewPixels is the most pixels of a channel that are scaled as a part of their image, each by a scale of its own.
const fewPixels = 12

// scaleChannels emits x·scale + shift, by channel, over row-major images of dims d, and what comes after it.
func (p *planner) scaleChannels(d []int, src, dst place.Memory, c channelScale, lo, hi float32, post func([]float32)) {
	channels, hw, kernels := d[1], product(d[2:]), p.kernels
	if post == nil {
		kernels = p.into(dst)
	}
	if hw <= fewPixels {
		row := channels * hw
		if hw > 1 {
			c = p.repeated(c, channels, hw)
		}
		p.emit(step{chunks: d[0], grain: grainFor(float64(row)*0.1 + 5), body: func(st *state, _, from, to int) {
			scale, shift := c.of(st)
			o, s := st.F32(dst)[from*row:to*row], st.F32(src)[from*row:to*row]
			kernels.MulAddColumns(o, row, s, row, scale[:row], shift[:row], to-from, row, lo, hi)
			if post != nil {
				post(o)
			}
		}}, []place.Memory{src, c.at}, []place.Memory{dst})
		return
	}
	p.emit(step{chunks: d[0] * channels, grain: grainFor(float64(hw)*0.1 + 5), body: func(st *state, _, from, to int) {
		o, s := st.F32(dst), st.F32(src)
		scale, shift := c.of(st)
		for i := from; i < to; {
			first := i % channels
			n := min(to-i, channels-first)
			rows := o[i*hw : (i+n)*hw]
			kernels.MulAddRows(rows, hw, s[i*hw:(i+n)*hw], hw, scale[first:], shift[first:], n, hw, lo, hi)
			if post != nil {
				post(rows)
			}
			i += n
		}
	}}, []place.Memory{src, c.at}, []place.Memory{dst})
}

// repeated repeats the scale and shift of each channel hw times.
func (p *planner) repeated(c channelScale, channels, hw int) channelScale {
	repeat := func(dst, src []float32) {
		for i, v := range src[:channels] {
			for k := range hw {
				dst[i*hw+k] = v
			}
		}
	}
	if c.scale != nil {
		out := channelScale{scale: make([]float32, channels*hw), shift: make([]float32, channels*hw), at: place.Nowhere}
		repeat(out.scale, c.scale)
		repeat(out.shift, c.shift)
		return out
	}
	out := channelScale{at: p.Temp(8 * channels * hw)}
	p.emit(step{serial: func(st *state) {
		scale, shift := c.of(st)
		to, too := out.of(st)
		repeat(to, scale)
		repeat(too, shift)
	}}, []place.Memory{c.at}, []place.Memory{out.at})
	return out
}

// fusedBatchNorm emits a batch normalisation with its activation; in are its operands as the subgraph knows them.
func (p *planner) fusedBatchNorm(n *graph.Node, in []*graph.Value, y *graph.Value, t tail) error {
	x := in[0]
	d := p.Dims[x.ID]
	width := ceilDiv(d[1], 16) * 16
	scale, shift, err := p.batchNormScale(n, in, width)
	if err != nil {
		return err
	}
	src, dst := p.In(x), p.Out(y)
	lo, hi := vec.Unbounded()
	if t.act.clip {
		lo, hi = t.act.lo, t.act.hi
	}
	if inBlocks(x.Format) {
		if x.Format == volume {
			d = slices2D(d)
		}
		spec := conv.ScaleSpec{N: d[0], C: d[1], HW: d[2] * d[3], SrcImage: src.Pitch / 4, DstImage: dst.Pitch / 4}
		t.epilogue(p.kernels, &spec.Epilogue)
		plan, err := conv.NewScale(p.target, spec)
		if err != nil {
			return err
		}
		p.emit(p.convStep(plan, float64(product(d))*0.1, func(st *state) conv.Tensors {
			return conv.Tensors{Src: st.F32(src), Dst: st.F32(dst), Weights: scale, Bias: shift}
		}), []place.Memory{src}, []place.Memory{dst})
		return nil
	}
	p.scaleChannels(d, src, dst, channelScale{scale: scale, shift: shift, at: place.Nowhere}, lo, hi, t.post(p.kernels))
	return nil
}

func init() {
	table.Register("BatchNormalization", operator{Signatures: batchNormSignatures, Settle: overFirst, Plan: planBatchNorm, Strided: imagesStrided})
}
