package quant

// Transpose writes dst[c, r] = src[r, c] for bytes src[rows, cols], with rows lds bytes apart in src and ldd in dst, which do not
// overlap.
func (k Kernels) Transpose(dst, src []byte, rows, cols, lds, ldd int) {
	if rows == 0 || cols == 0 {
		return
	}
	first(src, (rows-1)*lds+cols)
	first(dst, (cols-1)*ldd+rows)
	if rows < 16 || cols < 16 {
		genericTranspose2D(dst, src, rows, cols, lds, ldd)
		return
	}
	const most = callElements / 256 // blocks of a call
	for r := 0; r < rows; r += 16 {
		r = min(r, rows-16) // the last blocks overlap those before
		full := cols / 16
		for at := 0; at < full; at += most {
			transpose(k.set, &dst[16*at*ldd+r], &src[r*lds+16*at], ldd, lds, min(full-at, most))
		}
		if cols%16 != 0 {
			transpose(k.set, &dst[(cols-16)*ldd+r], &src[r*lds+cols-16], ldd, lds, 1)
		}
	}
}

func genericTranspose2D(dst, src []byte, rows, cols, lds, ldd int) {
	for r := range rows {
		for c, x := range src[r*lds:][:cols] {
			dst[c*ldd+r] = x
		}
	}
}

// genericTranspose is the portable version of transpose, of cols columns.
func genericTranspose(dst, src *byte, ldd, lds, cols int) {
	genericTranspose2D(view(dst, (cols-1)*ldd+16), view(src, 15*lds+cols), 16, cols, lds, ldd)
}
