package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/place"
)

// convLine emits a convolution over one axis: its row-major operand and result are blocked for the kernel.
func (p *planner) convLine(c *convCall, spec *conv.Spec, dx, dy []int, out *graph.Value) error {
	if pieces, err := p.linePieces(spec); pieces != nil || err != nil {
		p.convPieces(c, spec, pieces, p.Out(out))
		return err
	}
	if spec.Source != conv.Planar {
		var err error
		if c.src, err = p.toBlocked(dx, c.src); err != nil {
			return err
		}
		if spec.Pairs != pairs.Float32 {
			c.src = p.roundedImages(spec.Pairs, dx, c.src)
		}
	}
	c.dst = p.Temp(blockedBytes(dy))
	p.emitConv(*c)
	return p.fromBlocked(dy, c.dst, p.Out(out))
}

// linePiece is a part of the positions of a convolution over one axis: those from out on, of a source from src on.
type linePiece struct {
	out, src    int
	spec        conv.Spec  // of whole parts of the channels
	whole, last *conv.Plan // of these, and of the last part, nil where that is whole
}

// pieceChannels is how many channels a part has: tiles have two blocks of them, or one.
const pieceChannels = 32

// linePieces divides a convolution over the only channel of a line, such as sound: of so few multiply-adds that its results, which the second-level cache does not hold,
// take nearly as long to be read again for their change of layout. It returns none for others. A piece's results of a part of the channels take a quarter of that cache.
func (p *planner) linePieces(spec *conv.Spec) (list []linePiece, err error) {
	if spec.Source != conv.Planar || spec.C > 1 {
		return nil, nil
	}
	most := max(1, p.target.SecondCache()/4/(4*pieceChannels))
	n := ceilDiv(spec.OW, ceilDiv(spec.OW, most))
	for out := 0; out < spec.OW; out += n {
		begin := out*spec.Stride[1] - spec.Pad[1]
		piece := linePiece{out: out, src: max(begin, 0), spec: *spec}
		s := &piece.spec
		s.N, s.OC, s.OW = 1, min(pieceChannels, spec.OC), min(n, spec.OW-out)
		end := begin + (s.OW-1)*s.Stride[1] + (s.Kernel[1]-1)*s.Dilate[1] + 1
		s.W, s.Pad = min(end, spec.W)-piece.src, [4]int{0, max(-begin, 0), 0, max(end-spec.W, 0)}
		if s.W < 1 { // all of it is padding
			return nil, nil
		}
		if k := len(list); k > 0 && list[k-1].spec.Map == s.Map {
			piece.whole, piece.last = list[k-1].whole, list[k-1].last
		} else if err := piece.plan(p, spec.OC%s.OC); err != nil {
			return nil, err
		}
		list = append(list, piece)
	}
	return list, nil
}

// plan plans a piece, whose last part has so many channels if not 0.
func (l *linePiece) plan(p *planner, last int) (err error) {
	if l.whole, err = conv.NewConv(p.target, l.spec); err != nil || last == 0 {
		return err
	}
	s := l.spec
	s.OC = last
	l.last, err = conv.NewConv(p.target, s)
	return err
}

// convPieces emits a convolution by pieces, each of which is made row-major before the next.
func (p *planner) convPieces(c *convCall, spec *conv.Spec, pieces []linePiece, dst place.Memory) {
	parts, chunks := ceilDiv(spec.OC, pieceChannels), spec.N*ceilDiv(spec.OC, pieceChannels)*len(pieces)
	sums, target := p.scratch(4*pieceChannels*pieces[0].spec.OW), p.target
	call, oc, w, ow := *c, spec.OC, spec.W, spec.OW
	p.emit(step{work: c.work, chunks: chunks, grain: grainFor(float64(c.plan.Cost()) / 3 / float64(chunks)), body: func(st *state, worker, lo, hi int) {
		call := call
		call.dst = dst
		all, sums := call.tensors(st), sums.floats(st, worker)
		for i := lo; i < hi; i++ {
			l, first, n := &pieces[i%len(pieces)], i/len(pieces)%parts*pieceChannels, i/len(pieces)/parts
			plan := l.whole
			if oc-first < pieceChannels && l.last != nil {
				plan = l.last
			}
			t := conv.Tensors{Src: all.Src[n*w+l.src:], Weights: all.Weights[first*spec.Kernel[1]:], Dst: sums}
			if all.Bias != nil {
				t.Bias = all.Bias[first:]
			}
			if err := plan.Run(0, plan.Chunks(), &t); err != nil {
				panic(err)
			}
			for at := first; at < min(first+pieceChannels, oc); at += 16 {
				reorder.Transpose2D(target, all.Dst[(n*oc+at)*ow+l.out:], sums[(at-first)*l.spec.OW:], l.spec.OW, min(16, oc-at), 16, ow)
			}
		}
	}}, []place.Memory{c.src, c.weights, c.biasAt}, []place.Memory{dst, sums.at})
}
