package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

// image4 returns the dims of input 0, which must be [N, C, H, W].
func (c *Call) image4() (n, ch, h, w int) {
	x := c.input(0)
	c.require(len(x.Shape) == 4, c.portName(0), "[N, C, H, W] is expected, found %v", x)
	return x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
}

// bilinear returns the value of a plane at (y, x), and 0 further than one pixel outside it. Within that border the
// nearest pixels count.
func bilinear(plane []float64, h, w int, y, x float64, add func(v, weight float64)) {
	if !(y >= -1 && y <= float64(h) && x >= -1 && x <= float64(w)) {
		return
	}
	y, x = math.Max(y, 0), math.Max(x, 0)
	y0, x0 := min(int(y), h-1), min(int(x), w-1)
	y1, x1 := min(y0+1, h-1), min(x0+1, w-1)
	fy, fx := y-float64(y0), x-float64(x0)
	if y0 == h-1 {
		fy = 0
	}
	if x0 == w-1 {
		fx = 0
	}
	add(plane[y0*w+x0], (1-fy)*(1-fx))
	add(plane[y0*w+x1], (1-fy)*fx)
	add(plane[y1*w+x0], fy*(1-fx))
	add(plane[y1*w+x1], fy*fx)
}

// maxRoiAlignGrid bounds the samples of a bin along an axis, which follow from the data of the regions.
const maxRoiAlignGrid = 1 << 14

func roiAlign(c *Call) {
	n, channels, h, w := c.image4()
	c.require(h > 0 && w > 0, c.portName(0), "nothing to sample in %v", c.input(0))
	x, rois, batch := c.floats(0), c.floats(1), c.ints(2)
	c.require(len(rois) == 4*len(batch), c.portName(1), "%v for %d regions", c.input(1), len(batch))
	oh, ow := c.positive("output_height", 1), c.positive("output_width", 1)
	ratio := int(c.Node.Int("sampling_ratio", 0))
	scale := c.float("spatial_scale", 1)
	mode := c.Node.Str("mode", "avg")
	half := c.version >= 16 && c.Node.Str("coordinate_transformation_mode", "half_pixel") == "half_pixel"
	shape := []int{len(batch), channels, oh, ow}
	out := c.floatBuffer(shape...)
	for r, b := range batch {
		if b < 0 || b >= int64(n) {
			c.outOfRange(2, b, 0, int64(n)-1)
		}
		shift := 0.0
		if half {
			shift = 0.5
		}
		x0, y0 := rois[4*r]*scale-shift, rois[4*r+1]*scale-shift
		rw, rh := rois[4*r+2]*scale-shift-x0, rois[4*r+3]*scale-shift-y0
		if !half {
			rw, rh = math.Max(rw, 1), math.Max(rh, 1)
		}
		bh, bw := rh/float64(oh), rw/float64(ow)
		gh, gw := ratio, ratio
		if ratio <= 0 {
			gh, gw = gridSize(bh), gridSize(bw)
		}
		if gh > maxRoiAlignGrid || gw > maxRoiAlignGrid {
			c.fail(c.portName(1), tensor.ErrTooLarge, "region %d has %d by %d samples in a bin", r, gh, gw)
		}
		for ch := range channels {
			plane := x[(int(b)*channels+ch)*h*w:][:h*w]
			for p := range oh * ow {
				sum, best := 0.0, math.Inf(-1)
				for iy := range gh {
					yy := y0 + float64(p/ow)*bh + (float64(iy)+0.5)*bh/float64(gh)
					for ix := range gw {
						xx := x0 + float64(p%ow)*bw + (float64(ix)+0.5)*bw/float64(gw)
						sampled := false
						bilinear(plane, h, w, yy, xx, func(v, weight float64) {
							sum += v * weight
							best = math.Max(best, v*weight)
							sampled = true
						})
						if !sampled {
							best = math.Max(best, 0)
						}
					}
					c.spend(8 * gw)
				}
				o := &out[((r*channels+ch)*oh+p/ow)*ow+p%ow]
				switch {
				case mode == "max" && gh*gw > 0:
					*o = best
				case mode != "max":
					*o = sum / float64(max(gh*gw, 1))
				}
			}
		}
	}
	c.putFloats(0, c.input(0).DType, shape, out)
}

// gridSize returns the number of samples for a bin of that size.
func gridSize(bin float64) int {
	if !(bin > 0) {
		return 0
	}
	return int(math.Min(math.Ceil(bin), maxRoiAlignGrid+1))
}

// positive returns an integer attribute of at least 1.
func (c *Call) positive(name string, def int64) int {
	v := c.Node.Int(name, def)
	if v < 1 || v > 1<<30 {
		c.fail(name, ErrAttribute, "%d", v)
	}
	return int(v)
}

func maxRoiPool(c *Call) {
	n, channels, h, w := c.image4()
	x, rois := c.floats(0), c.floats(1)
	c.require(len(rois)%5 == 0, c.portName(1), "[R, 5] is expected, found %v", c.input(1))
	pooled := c.spatial("pooled_shape", 2, 1, 1)
	oh, ow := pooled[0], pooled[1]
	scale := c.float("spatial_scale", 1)
	shape := []int{len(rois) / 5, channels, oh, ow}
	out := c.floatBuffer(shape...)
	clampTo := func(v float64, hi int) int { return int(math.Min(math.Max(v, 0), float64(hi))) }
	for r := range shape[0] {
		roi := rois[5*r : 5*r+5]
		if !(roi[0] >= 0 && roi[0] < float64(n)) {
			c.fail(c.portName(1), ErrAttribute, "image %v of %d", roi[0], n)
		}
		x0, y0 := math.Round(roi[1]*scale), math.Round(roi[2]*scale)
		rw, rh := math.Max(math.Round(roi[3]*scale)-x0+1, 1), math.Max(math.Round(roi[4]*scale)-y0+1, 1)
		for ch := range channels {
			plane := x[(int(roi[0])*channels+ch)*h*w:][:h*w]
			for p := range oh * ow {
				py, px := float64(p/ow), float64(p%ow)
				ya, yb := clampTo(math.Floor(py*rh/float64(oh))+y0, h), clampTo(math.Ceil((py+1)*rh/float64(oh))+y0, h)
				xa, xb := clampTo(math.Floor(px*rw/float64(ow))+x0, w), clampTo(math.Ceil((px+1)*rw/float64(ow))+x0, w)
				best := math.Inf(-1)
				for y := ya; y < yb; y++ {
					for xx := xa; xx < xb; xx++ {
						best = math.Max(best, plane[y*w+xx])
					}
				}
				if ya >= yb || xa >= xb {
					best = 0
				}
				out[(r*channels+ch)*oh*ow+p] = best
				c.spend((yb-ya)*(xb-xa) + 4)
			}
		}
	}
	c.putFloats(0, c.input(0).DType, shape, out)
}

// deformConv samples the input at positions that offsets displace: x [N, C, H, W], w [OC, C/group, kh, kw],
// offset [N, offset_group*kh*kw*2, oh, ow], mask [N, offset_group*kh*kw, oh, ow].
func deformConv(c *Call) {
	n, channels, h, w := c.image4()
	v := c.convolutionOf(1)
	groups := c.positive("offset_group", 1)
	c.require(channels%groups == 0, "offset_group", "%d groups of %d channels", groups, channels)
	taps, oh, ow := product(v.kernel), v.out[0], v.out[1]
	c.require(sameShape(c.input(2).Shape, []int{n, groups * taps * 2, oh, ow}), c.portName(2), "found %v", c.input(2))
	x, wt, offset := c.floats(0), c.floats(1), c.floats(2)
	var mask []float64
	if m := c.optional(4); m != nil {
		c.require(sameShape(m.Shape, []int{n, groups * taps, oh, ow}), c.portName(4), "found %v", m)
		mask = c.floats(4)
	}
	out := c.floatBuffer(v.shape...)
	size := oh * ow
	for b := range n {
		for ch := range channels {
			plane := x[(b*channels+ch)*h*w:][:h*w]
			og, g := ch/(channels/groups), ch/v.cin
			for k := range taps {
				for p := range size {
					at := ((b*groups+og)*taps + k)
					y := float64(p/ow*v.stride[0]-v.begin[0]+k/v.kernel[1]*v.dilation[0]) + offset[(2*at)*size+p]
					xx := float64(p%ow*v.stride[1]-v.begin[1]+k%v.kernel[1]*v.dilation[1]) + offset[(2*at+1)*size+p]
					s := sampleZero(plane, h, w, y, xx)
					if mask != nil {
						s *= mask[at*size+p]
					}
					for oc := range v.cout {
						out[((b*v.groups+g)*v.cout+oc)*size+p] += s * wt[((g*v.cout+oc)*v.cin+ch%v.cin)*taps+k]
					}
				}
				c.spend(size * (v.cout + 8))
			}
		}
	}
	if bias := c.optional(3); bias != nil {
		c.addBias(out, c.floats(3), v.shape)
	}
	c.putFloats(0, c.input(0).DType, v.shape, out)
}

// sampleZero interpolates a plane at (y, x), with zeros around it.
func sampleZero(plane []float64, h, w int, y, x float64) float64 {
	if !(y > -1 && y < float64(h) && x > -1 && x < float64(w)) {
		return 0
	}
	y0, x0 := math.Floor(y), math.Floor(x)
	fy, fx := y-y0, x-x0
	at := func(yy, xx int) float64 {
		if yy < 0 || yy >= h || xx < 0 || xx >= w {
			return 0
		}
		return plane[yy*w+xx]
	}
	i, j := int(y0), int(x0)
	return (1-fy)*((1-fx)*at(i, j)+fx*at(i, j+1)) + fy*((1-fx)*at(i+1, j)+fx*at(i+1, j+1))
}
