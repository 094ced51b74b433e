package reference

import "image"

// fromVideo converts the planes of a WebP file, of brightness and of differences of colour at half the size, as libwebp does:
// brightness goes from 16 to 235 (ITU-R BT.601), factors have 14 bits behind the point of which products lose 8, and differences
// are mixed from the four samples around a pixel by 9, 3, 3 and 1, rounded twice. It reports whether img has such planes.
func (p *picture) fromVideo(c *Call, img image.Image) bool {
	var y *image.YCbCr
	switch img := img.(type) {
	case *image.YCbCr:
		y = img
	case *image.NYCbCrA:
		y = &img.YCbCr
	default:
		return false
	}
	if y.SubsampleRatio != image.YCbCrSubsampleRatio420 || y.Rect.Min != (image.Point{}) {
		return false
	}
	for r := range p.h {
		near, far := r/2, min(max(r/2-1+r%2*2, 0), (p.h-1)/2)
		row := func(plane []byte, r int) []byte { return plane[r*y.CStride:][:(p.w+1)/2] }
		cb, cbFar, cr, crFar := row(y.Cb, near), row(y.Cb, far), row(y.Cr, near), row(y.Cr, far)
		dst := p.rgb[3*r*p.w:]
		for x, v := range y.Y[r*y.YStride:][:p.w] {
			k, side := x/2, min(max(x/2-1+x%2*2, 0), len(cb)-1)
			l := int(v) * 19077 >> 8
			b, e := mixed(cb, cbFar, k, side), mixed(cr, crFar, k, side)
			dst[3*x] = videoByte(l + e*26149>>8 - 14234)
			dst[3*x+1] = videoByte(l - b*6419>>8 - e*13320>>8 + 8708)
			dst[3*x+2] = videoByte(l + b*33050>>8 - 17685)
		}
		c.spend(16 * p.w)
	}
	return true
}

// mixed is a sample between those at k and side of the nearer and the farther row.
func mixed(near, far []byte, k, side int) int {
	own := int(near[k])
	return ((own+3*int(near[side])+3*int(far[k])+int(far[side])+8)>>3 + own) >> 1
}

func videoByte(v int) byte { return byte(min(max(v>>6, 0), 255)) }
