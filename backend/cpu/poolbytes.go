package cpu

import (
	"encoding/binary"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
)

// poolsBytes reports whether a node is a MaxPool of 8-bit integers over one or two axes, without indices.
func poolsBytes(n *graph.Node) bool {
	x := n.Inputs[0]
	rank := len(x.Type.Shape)
	if !n.Is("MaxPool") || !byteDType(x.Type.DType) || rank < 3 || rank > 4 || len(n.Outputs) > 1 && n.Outputs[1] != nil {
		return false
	}
	w, err := graph.PoolAttrs(n)
	return err == nil && len(w.Kernel) == rank-2
}

func planPoolBytes(p *planner, n *graph.Node, m conv.Map) {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	b := bytePool{Map: m, c: 1, kernels: p.integers, signed: x.Type.DType == tensor.Int8}
	planes := d[0] * d[1]
	if x.Format == lastChannels {
		planes, b.c = d[0], d[1]
	}
	p.maxPoolBytes(b, planes, p.In(x), p.Out(y))
}

// bytePool is a MaxPool of 8-bit integers: of planes whose pixels are c of them side by side, the channels of an image or one. It goes by
// bands of rows of the result: the largest of the rows that windows see lie side by side with their padding, the largest of
// neighbours are found over all of them, and one pixel of each stride is kept.
type bytePool struct {
	conv.Map
	c       int
	kernels quant.Kernels
	signed  bool
	pitch   int // bytes from row to row of a band
	band    int // rows
}

// laidBytes is about how much of a band lies in memory at a time: twice as much stays in a core's first cache.
const laidBytes = 8 << 10

func (p *planner) maxPoolBytes(b bytePool, planes int, src, dst place.Memory) {
	b.pitch = max(((b.OW-1)*b.Stride[1]+(b.Kernel[1]-1)*b.Dilate[1]+1)*b.c, quant.Group)
	b.band = min(max(laidBytes/b.pitch, 1), b.OH)
	bands, made := ceilDiv(b.OH, b.band), b.band*b.pitch
	work := p.scratch(2 * made)
	nanos := float64(made*(b.Kernel[0]+b.Kernel[1]))/40 + float64(b.band*(b.OW+20))
	p.emit(step{chunks: planes * bands, grain: grainFor(nanos), body: func(st *state, worker, lo, hi int) {
		x, y, near := st.Bytes(src), st.Bytes(dst), work.bytes(st, worker)
		tall, wide := near[:made], near[made:][:made]
		fill(tall, leastByte(b.signed)) // what stays beside the rows is their padding
		for i := lo; i < hi; i++ {
			in, out := x[i/bands*b.H*b.W*b.c:][:b.H*b.W*b.c], y[i/bands*b.OH*b.OW*b.c:][:b.OH*b.OW*b.c]
			first := i % bands * b.band
			n := min(b.band, b.OH-first)
			for r := range n {
				b.tallest(tall[r*b.pitch:], in, first+r)
			}
			row := b.widest(wide[:n*b.pitch], tall)
			for r := range n {
				b.pick(out[(first+r)*b.OW*b.c:][:b.OW*b.c], row[r*b.pitch:])
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst, work.at})
}

// tallest writes the largest of the rows of a plane that windows of one row of the result see.
func (b *bytePool) tallest(to, in []byte, y int) {
	left := max(-b.Pad[1], 0)
	right := max(min(b.W, b.pitch/b.c-b.Pad[1]), left)
	to = to[min((left+b.Pad[1])*b.c, len(to)):][:(right-left)*b.c]
	var before []byte
	rows := 0
	for ky := range b.Kernel[0] {
		iy := y*b.Stride[0] + ky*b.Dilate[0] - b.Pad[0]
		if iy < 0 || iy >= b.H {
			continue
		}
		row := in[(iy*b.W+left)*b.c:][:len(to)]
		if rows++; rows > 1 {
			b.kernels.Larger(to, before, row, b.signed)
			row = to
		}
		before = row
	}
	switch rows {
	case 0:
		fill(to, leastByte(b.signed))
	case 1:
		copy(to, before)
	}
}

// widest returns the largest of the pixels that each window sees whose first is at a place, where there is such a window: in to, or
// where it lies if a window has one.
func (b *bytePool) widest(to, from []byte) []byte {
	step := b.Dilate[1] * b.c
	n := len(to) - (b.Kernel[1]-1)*step
	if to = to[:n]; b.Kernel[1] == 1 {
		return from[:n]
	}
	b.kernels.Larger(to, from[:n], from[step:][:n], b.signed)
	for i := 2; i < b.Kernel[1]; i++ {
		b.kernels.Larger(to, to, from[i*step:][:n], b.signed)
	}
	return to
}

// pick keeps one pixel of each stride.
func (b *bytePool) pick(to, from []byte) {
	step := b.Stride[1] * b.c
	switch {
	case b.Stride[1] == 1:
		copy(to, from)
	case step == 2:
		everySecond(to, from)
	case b.c == 1:
		for i := range to {
			to[i] = from[i*step]
		}
	default:
		for ; len(to) > 0; to = to[b.c:] {
			copy(to[:b.c], from)
			from = from[min(step, len(from)):]
		}
	}
}

// everySecond keeps bytes 0, 2, 4 and so on, eight of them at a time.
func everySecond(to, from []byte) {
	const bytes, words = 0x00ff00ff00ff00ff, 0x0000ffff0000ffff
	for len(to) >= 4 && len(from) >= 8 {
		v := binary.LittleEndian.Uint64(from) & bytes
		v = (v | v>>8) & words
		binary.LittleEndian.PutUint32(to, uint32(v|v>>16)) // the lower half
		to, from = to[4:], from[8:]
	}
	for i := range to {
		to[i] = from[2*i]
	}
}

// leastByte returns the smallest integer of a type.
func leastByte(signed bool) byte {
	if signed {
		return 128
	}
	return 0
}
