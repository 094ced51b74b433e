package fewconv

import "unsafe"

// genericSums is the portable version of the kernels.
func genericSums(results int, wide bool, c *call) {
	width := 1
	if wide {
		width = pixels(results)
	}
	for t := range int(c.tiles) {
		for p := range width {
			for r := range results {
				src, w := unsafe.Add(c.src, t*int(c.srcTile)+p*int(c.srcPixel)), unsafe.Add(c.w, 64*r)
				*(*float32)(unsafe.Add(c.dst, 4*(t*width+p)+r*int(c.dstPlane))) = genericSum(c, src, w, 64*results)
			}
		}
	}
}

// genericSum is a result; weights of a tap are apart bytes from those of the one before.
func genericSum(c *call, src, w unsafe.Pointer, apart int) float32 {
	var sums [16]float32
	for b := range int(c.blocks) {
		for y := range int(c.rows) {
			x, k := unsafe.Add(src, b*int(c.srcBlock)+y*int(c.srcRow)), unsafe.Add(w, b*int(c.wBlock)+y*int(c.wRow))
			for i := range int(c.taps) {
				a, b := (*[16]float32)(unsafe.Add(x, i*int(c.srcTap))), (*[16]float32)(unsafe.Add(k, i*apart))
				for l := range sums {
					sums[l] += a[l] * b[l]
				}
			}
		}
	}
	var halves [2]float32
	for h := range halves {
		q := sums[4*h:]
		halves[h] = ((q[0] + q[8]) + (q[1] + q[9])) + ((q[2] + q[10]) + (q[3] + q[11]))
	}
	return halves[0] + halves[1]
}
