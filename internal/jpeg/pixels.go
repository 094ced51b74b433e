package jpeg

// pixels transforms the coefficients of all components, brings their planes to the size of the image, and returns the colours.
func (d *decoder) pixels() ([]byte, error) {
	planes := make([][]byte, len(d.c))
	for i := range d.c {
		c := &d.c[i]
		if !c.quantised {
			return nil, ErrFormat // no scan has it
		}
		planes[i] = d.enlarge(c, d.samples(c))
	}
	rgb := make([]byte, 3*d.w*d.h)
	for y := range d.h {
		row := rgb[3*y*d.w:][:3*d.w]
		var s [4][]byte
		for i, p := range planes {
			s[i] = p[y*d.w:][:d.w]
		}
		switch {
		case len(d.c) == 1:
			for x, v := range s[0] {
				row[3*x], row[3*x+1], row[3*x+2] = v, v, v
			}
		case d.differences():
			colours(row, s[0], s[1], s[2])
		default:
			for x := range d.w {
				row[3*x], row[3*x+1], row[3*x+2] = s[0][x], s[1][x], s[2][x]
			}
		}
		if len(d.c) == 4 {
			d.inks(row, s[3])
		}
		d.spend(4 * d.w)
	}
	return rgb, nil
}

// samples returns the plane of a component, as large as its blocks.
func (d *decoder) samples(c *component) []byte {
	stride := 8 * c.bw
	out := make([]byte, stride*8*c.bh)
	for i := range c.bw * c.bh {
		inverse(out[i/c.bw*8*stride+i%c.bw*8:], stride, c.coef[64*i:], &c.quant)
		d.spend(64)
	}
	c.coef = nil
	return out
}

// differences reports whether the first three components are brightness and two differences of colour. Where no header says
// so, components with the numbers of the letters R, G and B are those, and inks have no differences.
func (d *decoder) differences() bool {
	switch {
	case len(d.c) == 4:
		return d.adobe && d.transform != 0
	case d.jfif:
		return true
	case d.adobe:
		return d.transform != 0
	}
	return d.c[0].id != 'R' || d.c[1].id != 'G' || d.c[2].id != 'B'
}

// colours converts by the formula of JFIF, in 16 bits behind the point.
func colours(rgb, y, cb, cr []byte) {
	for x := range y {
		l, b, r := int32(y[x]), int32(cb[x])-128, int32(cr[x])-128
		rgb[3*x] = clip(l + (91881*r+1<<15)>>16)
		rgb[3*x+1] = clip(l + (-22554*b-46802*r+1<<15)>>16)
		rgb[3*x+2] = clip(l + (116130*b+1<<15)>>16)
	}
}

// inks turns cyan, magenta and yellow with black to red, green and blue. Files have them inverted, as Adobe's programs write them;
// behind differences of colour stand red, green and blue, which are the inks once more inverted.
func (d *decoder) inks(row, black []byte) {
	for i, v := range row {
		if d.differences() {
			v = 255 - v
		}
		k := int32(black[i/3])
		m := int32(255-v)*k + 128
		row[i] = clip(k - (m>>8+m)>>8)
	}
}

// enlarge returns a component's plane at the size of the image, [height, width]. Between samples of half the width, the height or
// both, a quarter is that of the neighbour; other factors, and planes of two samples and less a row, repeat them.
func (d *decoder) enlarge(c *component, plane []byte) []byte {
	fx, fy := d.hmax/c.h, d.vmax/c.v
	smooth := fx <= 2 && fy <= 2 && fx*fy > 1 && (fx == 1 || c.w > 2)
	out := make([]byte, d.w*d.h)
	stride := 8 * c.bw
	sums := make([]int32, c.w)
	for y := range d.h {
		near, dst := plane[y/fy*stride:][:c.w], out[y*d.w:][:d.w]
		if !smooth {
			for x := range dst {
				dst[x] = near[x/fx]
			}
			continue
		}
		for x := range sums {
			sums[x] = int32(near[x])
		}
		if fy == 2 {
			other := min(max(y/2-1+y%2*2, 0), c.rows-1)
			for x, v := range plane[other*stride:][:c.w] {
				sums[x] = 3*sums[x] + int32(v)
			}
		}
		smoothRow(dst, sums, fx, fy, int32(y%2))
		d.spend(4 * d.w)
	}
	return out
}

// smoothRow writes a row of an enlarged plane from its samples, which hold four times their values where rows were mixed. Halves are
// rounded up and down by turns.
func smoothRow(dst []byte, sums []int32, fx, fy int, odd int32) {
	for x := range dst {
		if fx == 1 {
			dst[x] = byte((sums[x] + 1 + odd) >> 2)
			continue
		}
		k := x / 2
		side := min(max(k-1+x%2*2, 0), len(sums)-1)
		v := 3*sums[k] + sums[side]
		if fy == 1 {
			dst[x] = byte((v + 1 + int32(x%2)) >> 2)
		} else {
			dst[x] = byte((v + 8 - int32(x%2)) >> 4)
		}
	}
}
