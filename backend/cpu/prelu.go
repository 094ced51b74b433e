package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// PRelu: x where it is not negative, x times a slope elsewhere.

func preluSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if preluOf(n) != nil {
		return operators.RowMajor(n), nil
	}
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	plain := operators.RowMajor(n)
	if f, ok := blockedFormat(n.Outputs[0]); ok && slopesOf(n) != nil {
		images := graph.Signature{Name: "per-channel", Inputs: []graph.Port{graph.Fixed(f), graph.Fixed(rowMaj)}, Outputs: []graph.Port{graph.Fixed(f)}}
		return append([]graph.Signature{images}, plain...), nil
	}
	return plain, nil
}

// channelSlopes are slopes of a PRelu by channel, each block of 16 channels as often as slopePixels.
type channelSlopes []float32

// slopePixels is for how many pixels of a block slopes are repeated: a row of vectors, which is one call's.
const slopePixels = 8

// slopesOf returns the slopes of a PRelu of images or volumes that are constants by channel, nil where it is none.
func slopesOf(n *graph.Node) channelSlopes {
	if !n.Is("PRelu") || !operators.IsFloat32(n.Inputs...) {
		return nil
	}
	x, slope := n.Inputs[0].Type.Shape, fuse.Behind(n.Inputs[1])
	if len(x) != 4 && len(x) != 5 || !slope.IsConst() {
		return nil
	}
	channels, known := x[1].Const()
	s, c := slope.Const.Shape, int(channels)
	axis := len(s) + 1 - len(x) // of the channels
	if !known || axis != 0 && axis != 1 || s[axis] != c || slope.Const.Len() != c {
		return nil
	}
	values := fuse.Floats(slope.Const)
	if values == nil {
		return nil
	}
	out := make(channelSlopes, ceilDiv(c, 16)*16*slopePixels)
	for i := range out {
		if k := i/(16*slopePixels)*16 + i%16; k < c {
			out[i] = values[k]
		}
	}
	return out
}

// of returns the slope of a channel.
func (s channelSlopes) of(channel int) float32 { return s[channel/16*16*slopePixels+channel%16] }

// apply writes the PRelu of pixels of a block of channels.
func (s channelSlopes) apply(kernels vec.Kernels, dst, src []float32, block int) {
	const row = 16 * slopePixels
	if s == nil {
		return
	}
	whole, slopes := len(dst)/row*row, s[block*row:][:row]
	kernels.BinaryRows(vec.PRelu, vec.VV, dst[:whole], row, src[:whole], row, slopes, 0, whole/row, row)
	kernels.Binary(vec.PRelu, dst[whole:], src[whole:], slopes[:len(dst)-whole])
}

// preluStrided is the Strided of PRelu: of everything but slopes.
func preluStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	if v.Format == blocked {
		return is4D(v) && p.wholeImages(v, m)
	}
	return v != n.Inputs[1] && preluOf(n) == nil && operators.WholeDims(p, n, v, m)
}

// preluOf returns what emits a PRelu of integers, nil for others.
func preluOf(n *graph.Node) func(p *planner, b *broadcast, src, slopes, dst place.Memory) {
	switch n.Inputs[0].Type.DType {
	case tensor.Int32:
		return prelu[int32]
	case tensor.Int64:
		return prelu[int64]
	case tensor.Uint32:
		return prelu[uint32]
	case tensor.Uint64:
		return prelu[uint64]
	}
	return nil
}

func prelu[T int32 | int64 | uint32 | uint64](p *planner, b *broadcast, src, slopes, dst place.Memory) {
	rows2(p, b, src, slopes, dst, preluRow[T](p.target.Set))
}

// preluRow returns the loop over a row: of what is below 0 the products, which are 0 elsewhere, and what is not are sums of both parts.
func preluRow[T int32 | int64 | uint32 | uint64](set isa.Set) row2[T, T, T] {
	few := each2(func(x, s T) T {
		if x < 0 {
			return x * s
		}
		return x
	})
	unsigned := ^T(0) > 0
	return func(out, x []T, dx int, slopes []T, dy int) {
		switch {
		case unsigned && dx == 1:
			copy(out, x)
			return
		case dx != 1 || len(out) < fewElements:
			few(out, x, dx, slopes, dy)
			return
		}
		var below [256]T
		var zero [1]T
		for at := 0; at < len(out); at += len(below) {
			n := min(len(out)-at, len(below))
			part, s := x[at:at+n], slopes[:1]
			if dy == 1 {
				s = slopes[at : at+n]
			}
			element.Binary(set, element.Min, below[:n], part, zero[:])
			element.Binary(set, element.Mul, below[:n], below[:n], s)
			element.Binary(set, element.Max, out[at:at+n], part, zero[:])
			element.Binary(set, element.Add, out[at:at+n], out[at:at+n], below[:n])
		}
	}
}

// settlePRelu lets the result of images overwrite them.
func settlePRelu(p *planner, n *graph.Node) {
	if inBlocks(n.Outputs[0].Format) {
		p.inPlace(n.Outputs[0], n.Inputs[0])
	}
}

// imagePRelu emits the PRelu of images or volumes in blocks.
func (p *planner) imagePRelu(n *graph.Node) {
	x, y, slopes := n.Inputs[0], n.Outputs[0], slopesOf(n)
	d := p.Dims[y.ID]
	slices, plane := 1, product(d[2:])*16
	if y.Format == volume {
		slices, plane = d[2], d[3]*d[4]*16
	}
	const part = 32 * 16 * slopePixels
	src, dst := p.In(x), p.Out(y)
	parts, blocks := ceilDiv(plane, part), ceilDiv(d[1], 16)
	image := blocks * plane
	from, to := image, image
	if src.Pitch != 0 {
		from = src.Pitch / 4
	}
	if dst.Pitch != 0 {
		to = dst.Pitch / 4
	}
	p.emit(step{chunks: d[0] * slices * blocks * parts, grain: grainFor(part * 0.1), body: func(st *state, _, lo, hi int) {
		s, out := st.F32(src), st.F32(dst)
		for i := lo; i < hi; i++ {
			at, block := i/parts, i/parts%blocks
			begin := i % parts * part
			end, k, within := min(begin+part, plane), at/blocks, at%blocks*plane
			slopes.apply(p.kernels, out[k*to+within+begin:k*to+within+end], s[k*from+within+begin:k*from+within+end], block)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

func planPRelu(p *planner, n *graph.Node) error {
	x, slope, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	if inBlocks(y.Format) {
		p.imagePRelu(n)
		return nil
	}
	ds := p.Dims[slope.ID]
	if n.Op.Since < 7 && len(ds) == 1 { // one slope per channel
		for range len(p.Dims[x.ID]) - 2 {
			ds = append(ds[:len(ds):len(ds)], 1)
		}
	}
	src, slopes, dst := p.In(x), p.In(slope), p.Out(y)
	b := newBroadcast(p.laid(y), p.laid(x), compact(ds))
	if whole := preluOf(n); whole != nil {
		whole(p, b, src, slopes, dst)
		return nil
	}
	p.binaryOver(vec.PRelu, b, src, slopes, dst)
	return nil
}

func init() {
	table.Register("PRelu", operator{Signatures: preluSignatures, Settle: settlePRelu, Plan: planPRelu, Strided: preluStrided})
}
