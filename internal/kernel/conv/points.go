package conv

import "github.com/carve-dev/carve/internal/kernel/isa"

// Points samples points of images whose channels are last, [H][W][channels], blocks of 16 channels at a time: a point is a mean of four pixels
// that are neighbours, weighted by how near they are. It is immutable and safe for concurrent use.
type Points struct {
	at  []int32
	set isa.Set
	far int // floats from a pixel to the next one
}

// NewPoints returns what samples up to that many channels of pixels that are far floats apart.
func NewPoints(t isa.Target, channels, far int) *Points {
	p := &Points{at: make([]int32, channels/16*2), set: t.Set, far: far}
	for i := range channels / 16 {
		p.at[2*i], p.at[2*i+1] = int32(64*i), int32(4*far+64*i) // bytes of two pixels
	}
	return p
}

// Sample writes len(dst) channels, whole blocks, of a point: between the pixel with which top begins and the next one, x of the way, and y of the way
// to those that bottom begins with. weights has room for a float a block.
func (p *Points) Sample(dst, top, bottom []float32, x, y float32, weights []float32) {
	n := len(dst) / 16
	if n == 0 {
		return
	}
	weights, at := weights[:n], p.at[:2*n]
	_, _ = top[p.far+16*n-1], bottom[p.far+16*n-1]
	for i := range weights {
		weights[i] = x
	}
	linearRow(p.set, &dst[0], &top[0], &bottom[0], &at[0], &weights[0], y, n)
}
