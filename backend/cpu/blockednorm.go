package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

// Normalisation of blocked images over groups of channels: moments of each channel, which are those of a lane of a block; of these the moments of groups, and so a
// scale and a shift of each channel; and images scaled by them. So an image is read twice and written once.

const (
	momentPixels     = 2048 // pixels of a block whose moments are found about one mean: the second-level cache holds them
	differencePixels = 256  // pixels that the first-level cache holds with their differences from it
	meanPixels       = 64   // how often the mean is repeated, so that a kernel takes that many pixels for one row
)

// moments are the mean and the sum of the squared deviations from it, of some elements.
type moments struct{ mean, squares float64 }

// join adds the moments of n elements to those of count others (Chan, Golub, LeVeque 1979).
func (m *moments) join(count float64, o moments, n float64) {
	d := o.mean - m.mean
	m.mean += d * n / (count + n)
	m.squares += o.squares + d*d*count*n/(count+n)
}

// lanePixels is how many pixels are one row of what is added up, so that sums go on side by side.
const lanePixels = 4

// laneSums writes the sum of each of 16 lanes of pixels, of their squares where op says so.
func laneSums(k vec.Kernels, op vec.ReduceOp, sums *[16]float32, x []float32) {
	const width = 16 * lanePixels
	var part [width]float32
	rows := len(x) / width
	k.ReduceColumns(op, part[:], x, width, rows, width)
	k.ReduceColumns(op, sums[:], x[rows*width:], 16, len(x)/16%lanePixels, 16)
	for p := range lanePixels {
		for i := range sums {
			sums[i] += part[16*p+i]
		}
	}
}

// laneMoments finds the moments of each lane of the pixels of x, the mean first; work has room for differencePixels.
func laneMoments(k vec.Kernels, found []float64, x, work []float32) {
	var all [16]moments
	count := 0.0
	for len(x) > 0 {
		part := x[:min(len(x), 16*momentPixels)]
		x = x[len(part):]
		n := float64(len(part) / 16)
		var sums, squares, more [16]float32
		laneSums(k, vec.ReduceSum, &sums, part)
		var means [16 * meanPixels]float32
		for i, v := range sums {
			means[i] = float32(float64(v) / n)
		}
		for at := 16; at < len(means); at *= 2 {
			copy(means[at:], means[:at])
		}
		for len(part) > 0 {
			d := work[:min(len(part), 16*differencePixels)]
			rows, left := len(d)/len(means), len(d)/16%meanPixels
			k.BinaryRows(vec.Sub, vec.VV, d, len(means), part, len(means), means[:], 0, rows, len(means))
			at := rows * len(means)
			k.BinaryRows(vec.Sub, vec.VV, d[at:], 16*left, part[at:], 16*left, means[:], 0, 1, 16*left)
			laneSums(k, vec.ReduceSumSquares, &more, d)
			for i, v := range more {
				squares[i] += v
			}
			part = part[len(d):]
		}
		for i := range all {
			all[i].join(count, moments{float64(means[i]), float64(squares[i])}, n)
		}
		count += n
	}
	for i, m := range all {
		found[2*i], found[2*i+1] = m.mean, m.squares
	}
}

// blockedNorm emits a normalisation of blocked images over groups of channels, and what comes behind it.
func (p *planner) blockedNorm(n *graph.Node, in []*graph.Value, y *graph.Value, t tail) error {
	x := in[0]
	d, slices := p.Dims[x.ID], 1
	images := d[0]
	if x.Format == volume {
		slices, d = d[2], slices2D(d)
	}
	channels, hw := d[1], d[2]*d[3]
	blocks := ceilDiv(channels, 16)
	src, gamma, beta, dst := p.In(x), p.In(in[1]), p.In(in[2]), p.Out(y)
	found := p.Temp(images * slices * blocks * 16 * 16)
	made := channelScale{at: p.Temp(8 * images * slices * blocks * 16)}
	work := p.scratch(4 * 16 * differencePixels)
	kernels, pitch := p.kernels, max(src.Pitch/4, blocks*16*hw)
	p.emit(step{chunks: images * slices * blocks, grain: grainFor(float64(hw)*16*0.15 + 500), body: func(st *state, worker, lo, hi int) {
		s, f, w := st.F32(src), place.Elements[float64](st.Bytes(found)), work.floats(st, worker)
		for i := lo; i < hi; i++ {
			laneMoments(kernels, f[32*i:], s[i/blocks*pitch+i%blocks*16*hw:][:16*hw], w)
		}
	}}, []place.Memory{src}, []place.Memory{found, work.at})

	groups := groupsOf(n, channels)
	g := lanesOfGroups{slices: slices, channels: channels, per: channels / groups, count: float64(hw), eps: float64(n.Float("epsilon", 1e-5)),
		byGroup: n.Is("GroupNormalization") && n.Op.Since < 21}
	p.emit(step{serial: func(st *state) {
		scale, shift := made.of(st)
		g.scales(scale, shift, place.Elements[float64](st.Bytes(found)), st.F32(gamma), st.F32(beta))
	}}, []place.Memory{found, gamma, beta}, []place.Memory{made.at})

	spec := conv.ScaleSpec{N: d[0], C: channels, HW: hw, SrcImage: src.Pitch / 4, DstImage: dst.Pitch / 4, ScaleImage: 16 * blocks, ShiftImage: 16 * blocks}
	t.epilogue(kernels, &spec.Epilogue)
	plan, err := conv.NewScale(p.target, spec)
	if err != nil {
		return err
	}
	p.emit(p.convStep(plan, float64(product(d))*0.1, func(st *state) conv.Tensors {
		scale, shift := made.of(st)
		return conv.Tensors{Src: st.F32(src), Dst: st.F32(dst), Weights: scale, Bias: shift}
	}), []place.Memory{src, made.at}, []place.Memory{dst})
	return nil
}

// lanesOfGroups says which lanes of blocks belong to the groups of a normalisation.
type lanesOfGroups struct {
	slices, channels, per int     // of an image, and channels of a group
	count                 float64 // of elements in a lane
	eps                   float64
	byGroup               bool // whether gamma and beta belong to groups, not channels
}

// scales writes the scale and shift of each lane of all images, of the moments found for them: zeros behind the last channel.
func (g *lanesOfGroups) scales(scale, shift []float32, found []float64, gamma, beta []float32) {
	clear(scale)
	clear(shift)
	width := ceilDiv(g.channels, 16) * 16
	for ; len(found) > 0; found, scale, shift = found[2*g.slices*width:], scale[g.slices*width:], shift[g.slices*width:] {
		for first := 0; first < g.channels; first += g.per {
			var m moments
			count := 0.0
			for s := range g.slices {
				for c := s*width + first; c < s*width+first+g.per; c++ {
					m.join(count, moments{found[2*c], found[2*c+1]}, g.count)
					count += g.count
				}
			}
			k := 1 / math.Sqrt(m.squares/count+g.eps)
			for c := first; c < first+g.per; c++ {
				of := c
				if g.byGroup {
					of /= g.per
				}
				by := float64(float32(k * float64(gamma[of])))
				for s := range g.slices {
					scale[s*width+c], shift[s*width+c] = float32(by), float32(float64(beta[of])-m.mean*by)
				}
			}
		}
	}
}
