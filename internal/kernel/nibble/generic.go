package nibble

import "unsafe"

// genericDot multiplies rows, width floats apart, by n rows of weights. Sums are made by halves of groups, as kernels make them.
func genericDot(rows int, dst *float32, ldd int, a *float32, width int, w *byte, scale, zero *float32, step, blocks, groups, n int) {
	out := unsafe.Slice(dst, (rows-1)*ldd+n)
	x := unsafe.Slice(a, rows*width)
	bytes := unsafe.Slice(w, n*blocks*groups*Group/2)
	scales := unsafe.Slice(scale, n*blocks)
	zeros := unsafe.Slice(zero, (n*blocks-1)*step+1)
	for r := range rows {
		row := x[r*width:][:width]
		for c := range n {
			var even, odd float32
			for b := range blocks {
				s, z := scales[c*blocks+b], zeros[(c*blocks+b)*step]
				for g := range groups {
					at := b*groups + g
					part := bytes[(c*blocks*groups+at)*Group/2:][:Group/2]
					f := row[at*Group:][:Group]
					for i, q := range part {
						even += f[i] * ((float32(q&15) - z) * s)
						odd += f[Group/2+i] * ((float32(q>>4) - z) * s)
					}
				}
			}
			out[r*ldd+c] = even + odd
		}
	}
}

// genericUnpack is the portable version of unpack.
func genericUnpack(dst *float32, src *byte, scale, zero *float32, n int) {
	d, s := unsafe.Slice(dst, 32*n), unsafe.Slice(src, 16*n)
	f, z := unsafe.Slice(scale, 16), unsafe.Slice(zero, 16)
	for i, b := range s {
		row, c := i/16*32, i%16
		d[row+c], d[row+16+c] = (float32(b&15)-z[c])*f[c], (float32(b>>4)-z[c])*f[c]
	}
}
