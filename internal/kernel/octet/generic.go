package octet

import "unsafe"

// genericDot multiplies rows, lda floats apart, by panels of weights. Sums are made by places in groups, as kernels make them.
func genericDot(rows int, dst *float32, ldd int, a *float32, lda int, w *byte, scale *float32, zero *byte, blocks, groups, n int) {
	out, x := unsafe.Slice(dst, (rows-1)*ldd+n*Panel), unsafe.Slice(a, (rows-1)*lda+blocks*groups*Group)
	bytes := unsafe.Slice(w, n*blocks*groups*Group*Panel)
	scales, zeros := unsafe.Slice(scale, n*blocks*Panel), unsafe.Slice(zero, n*blocks*Panel)
	for r := range rows {
		for c := range n * Panel {
			total := float32(0)
			for b := range blocks {
				at := (c/Panel*blocks+b)*Panel + c%Panel
				var sums [Group]float32
				for g := range groups {
					q, f := bytes[((at/Panel*groups+g)*Panel+c%Panel)*Group:][:Group], x[r*lda+(b*groups+g)*Group:][:Group]
					for i, v := range f {
						sums[i] += v * float32(int(q[i])-int(zeros[at]))
					}
				}
				total += ((sums[0] + sums[1]) + (sums[2] + sums[3])) * scales[at]
			}
			out[r*ldd+c] = total
		}
	}
}

// genericUnpack is the portable version of unpack.
func genericUnpack(dst *float32, src *byte, scale *float32, zero *byte, n int) {
	d, s := unsafe.Slice(dst, n*Group*Panel), unsafe.Slice(src, n*Group*Panel)
	f, z := unsafe.Slice(scale, Panel), unsafe.Slice(zero, Panel)
	for i := range d {
		k, c := i/Panel, i%Panel
		d[i] = float32(int(s[(k/Group*Panel+c)*Group+k%Group])-int(z[c])) * f[c]
	}
}
