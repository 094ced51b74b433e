package cpu

import (
	"fmt"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
)

// sameBytes reports whether a Convert changes none: of images of one pixel, in whole blocks of channels.
func (p *planner) sameBytes(n *graph.Node) bool {
	x := n.Inputs[0]
	_, ok1 := reorderLayout(x.Format)
	_, ok2 := reorderLayout(n.Outputs[0].Format)
	d := p.Dims[x.ID]
	return ok1 && ok2 && is4D(x) && d[2]*d[3] == 1 && d[1]%16 == 0
}

func settleConvert(p *planner, n *graph.Node) {
	if p.sameBytes(n) {
		operators.View(p, n)
	}
}

// planConvert emits a change of layout inside of a group.
func planConvert(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	if x.Type.DType == tensor.Float32 && len(d) == 4 {
		from, ok1 := reorderLayout(x.Format)
		to, ok2 := reorderLayout(y.Format)
		if ok1 && ok2 {
			if p.sameBytes(n) {
				p.ViewOr(y, x, p.copyStep)
				return nil
			}
			src, dst := p.In(x), p.Out(y)
			return p.reorder(reorder.Spec{N: d[0], C: d[1], HW: d[2] * d[3], From: from, To: to, SrcImage: src.Pitch / 4, DstImage: dst.Pitch / 4}, src, dst)
		}
	}
	if x.Type.DType == tensor.Float32 && len(d) == 5 && (x.Format == volume && y.Format == rowMaj || x.Format == rowMaj && y.Format == volume) {
		return p.reorderVolume(d, y.Format == volume, p.In(x), p.Out(y))
	}
	move, err := convert.PlanHost(x.Format.Layout, y.Format.Layout, x.Type.DType, d)
	if err != nil {
		return fmt.Errorf("%v to %v: %w", x.Format, y.Format, err)
	}
	src, dst := p.In(x), p.Out(y)
	dt := x.Type.DType
	p.emit(step{serial: func(st *state) {
		s := tensor.Tensor{DType: dt, Shape: d, Data: st.Bytes(src)}
		t := tensor.Tensor{DType: dt, Shape: d, Data: st.Bytes(dst)}
		if err := move(st.ctx, &t, &s, convert.Exec{}); err != nil {
			panic(err)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

// convertStrided is the Strided of Convert: of images between the layouts of the reorder kernels.
func convertStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	x, y := n.Inputs[0], n.Outputs[0]
	_, ok1 := reorderLayout(x.Format)
	_, ok2 := reorderLayout(y.Format)
	return ok1 && ok2 && is4D(x) && p.wholeImages(v, m)
}

func reorderLayout(f graph.Format) (reorder.Layout, bool) {
	switch f {
	case rowMaj:
		return reorder.NCHW, true
	case blocked:
		return reorder.NCHW16c, true
	case graph.On(graph.NHWC):
		return reorder.NHWC, true
	}
	return 0, false
}

// reorder emits a change between layouts that the reorder kernels know.
func (p *planner) reorder(spec reorder.Spec, src, dst place.Memory) error {
	plan, err := reorder.New(p.target, spec)
	if err != nil {
		return err
	}
	p.runMover(plan, src, dst)
	return nil
}

// blockedBytes returns the size of an image [N, C, H, W] in the blocked layout.
func blockedBytes(d []int) int { return d[0] * ceilDiv(d[1], 16) * 16 * d[2] * d[3] * 4 }

// toBlocked emits a copy of a row-major image [N, C, H, W] in the blocked layout and returns its place.
func (p *planner) toBlocked(d []int, src place.Memory) (place.Memory, error) {
	t := p.Temp(blockedBytes(d))
	return t, p.reorder(reorder.Spec{N: d[0], C: d[1], HW: d[2] * d[3], From: reorder.NCHW, To: reorder.NCHW16c}, src, t)
}

// fromBlocked emits the opposite.
func (p *planner) fromBlocked(d []int, src, dst place.Memory) error {
	return p.reorder(reorder.Spec{N: d[0], C: d[1], HW: d[2] * d[3], From: reorder.NCHW16c, To: reorder.NCHW}, src, dst)
}

// mover is a planned kernel that reads one tensor, writes another, and is bound by memory.
type mover interface {
	Chunks() int
	Run(lo, hi int, dst, src []float32) error
}

// pixelBlocks emits the change of images of float32 between blocks of 16 channels, each of all pixels, and pixels of all channels; apart says that blocks are
// what is read. A few pixels go together, so that lines of a block follow each other.
func (p *planner) pixelBlocks(images, pixels, blocks int, apart bool, src, dst place.Memory) {
	const together = 8
	tiles := ceilDiv(pixels, together)
	p.emit(step{chunks: images * tiles, grain: grainFor(float64(together*blocks) * 4), body: func(st *state, _, lo, hi int) {
		d, s := st.F32(dst), st.F32(src)
		for i := lo; i < hi; i++ {
			image, first := i/tiles*pixels*blocks*16, i%tiles*together
			n := min(together, pixels-first)
			for b := range blocks {
				block, pixel := image+(b*pixels+first)*16, image+(first*blocks+b)*16
				if apart {
					for k := range n {
						*(*[16]float32)(d[pixel+k*blocks*16:]) = *(*[16]float32)(s[block+k*16:])
					}
					continue
				}
				for k := range n {
					*(*[16]float32)(d[block+k*16:]) = *(*[16]float32)(s[pixel+k*blocks*16:])
				}
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

// runMover emits a mover.
func (p *planner) runMover(m mover, src, dst place.Memory) {
	chunks := m.Chunks()
	nanos := max(float64(src.Size)*0.025, float64(dst.Size)*0.1) / float64(max(chunks, 1))
	p.emit(step{chunks: chunks, grain: grainFor(nanos), body: func(st *state, _, lo, hi int) {
		if err := m.Run(lo, hi, st.F32(dst), st.F32(src)); err != nil {
			panic(err)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

func init() {
	table.Register(operators.Convert, operator{Settle: settleConvert, Plan: planConvert, Strided: convertStrided})
}
