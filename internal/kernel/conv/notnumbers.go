package conv

import "math"

// keepNaN makes results of a maximum NaN whose windows have one, where the kernel forgets it: those in floats [lo, hi) of each channel plane of a tile. Rows
// of the source that these windows see are looked at again, while a cache still has them.
func (p *Plan) keepNaN(t *Tensors, n int, ct *channelTile, lo, hi int) {
	s := &p.spec
	if lo >= hi {
		return
	}
	row := 16 * s.OW
	first := max(0, lo/row*s.Stride[0]-s.Pad[0])
	end := min(s.H, (ceilDiv(hi, row)-1)*s.Stride[0]-s.Pad[0]+(s.Kernel[0]-1)*s.Dilate[0]+1)
	if first >= end {
		return
	}
	for b := ct.block; b < ct.block+ct.count; b++ {
		src := t.Src[n*s.SrcImage+b*s.sourcePlane()/4:][:16*s.H*s.W]
		if !losesNaN(p.target.Set, &src[16*first*s.W], (end-first)*s.W) {
			continue
		}
		lanes := 16
		if b == p.lastBlock {
			lanes = p.tailLanes
		}
		dst := t.Dst[n*s.DstImage+b*s.resultPlane():][:hi]
		for i := 16 * first * s.W; i < 16*end*s.W; i++ {
			if v := src[i]; v != v && i%16 < lanes {
				p.spread(dst, lo, i/16/s.W, i/16%s.W, i%16)
			}
		}
	}
}

// spread makes results from float lo on NaN whose windows have a pixel of a channel.
func (p *Plan) spread(dst []float32, lo, y, x, lane int) {
	s, nan := &p.spec, float32(math.NaN())
	for ky := range s.Kernel[0] {
		oy := y + s.Pad[0] - ky*s.Dilate[0]
		if oy < 0 || oy%s.Stride[0] != 0 || oy/s.Stride[0] >= s.OH {
			continue
		}
		for kx := range s.Kernel[1] {
			ox := x + s.Pad[1] - kx*s.Dilate[1]
			if ox < 0 || ox%s.Stride[1] != 0 || ox/s.Stride[1] >= s.OW {
				continue
			}
			if at := 16*(oy/s.Stride[0]*s.OW+ox/s.Stride[1]) + lane; at >= lo && at < len(dst) {
				dst[at] = nan
			}
		}
	}
}
