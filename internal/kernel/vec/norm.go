package vec

import "math"

// LayerNorm writes (x - mean) / √(variance + eps) · gamma + beta for each row of src[rows, cols], with the mean and the
// (biased) variance of the row, found in two passes. gamma[cols] and beta[cols] may be nil, meaning 1 and 0; beta needs
// gamma. dst may be src.
func (v Kernels) LayerNorm(dst []float32, ldd int, src []float32, lds int, gamma, beta []float32, rows, cols int, eps float32) {
	v.normRows(false, dst, ldd, src, lds, gamma, beta, rows, cols, eps)
}

// RMSNorm writes x / √(mean(x²) + eps) · gamma + beta; see LayerNorm.
func (v Kernels) RMSNorm(dst []float32, ldd int, src []float32, lds int, gamma, beta []float32, rows, cols int, eps float32) {
	v.normRows(true, dst, ldd, src, lds, gamma, beta, rows, cols, eps)
}

func (v Kernels) normRows(rms bool, dst []float32, ldd int, src []float32, lds int, gamma, beta []float32, rows, cols int, eps float32) {
	if rows <= 0 || cols <= 0 {
		return
	}
	d, s := at(dst, extent(rows, cols, ldd)), at(src, extent(rows, cols, lds))
	var g, b *float32
	if gamma != nil {
		g = at(gamma, cols)
	}
	if beta != nil {
		if gamma == nil {
			panic("vec: beta without gamma")
		}
		b = at(beta, cols)
	}
	if cols <= stageFloats-lineFloats && v.passes(d, s, ldd, rows, cols) {
		v.normPast(rms, d, s, lds, g, b, rows, cols, eps)
		return
	}
	step := max(1, blockElements/cols)
	for r := 0; r < rows; r += step {
		norm(v.set, rms, advance(d, r*ldd), advance(s, r*lds), g, b, cols, min(step, rows-r), ldd, lds, v.fetched, eps)
	}
}

// Moments writes mean and 1 / √(variance + eps) of each row of src[rows, cols] to dst[rows, 2]; see LayerNorm.
func (v Kernels) Moments(dst, src []float32, lds, rows, cols int, eps float32) {
	if rows <= 0 || cols <= 0 {
		return
	}
	d, s := at(dst, 2*rows), at(src, extent(rows, cols, lds))
	step := max(1, blockElements/cols)
	for r := 0; r < rows; r += step {
		moments(v.set, advance(d, 2*r), advance(s, r*lds), cols, min(step, rows-r), lds, eps)
	}
}

// normPast is normRows past the caches.
func (v Kernels) normPast(rms bool, dst, src *float32, lds int, gamma, beta *float32, rows, cols int, eps float32) {
	var s stage
	s.begin(v.set, dst)
	for r := 0; r < rows; {
		n := s.rowsOf(rows-r, cols, 2)
		norm(v.set, rms, s.next(), advance(src, r*lds), gamma, beta, cols, n, cols, lds, v.fetched, eps)
		s.wrote(n * cols)
		r += n
		s.a = upcoming(src, r, 0, lds, rows, cols)
		s.b = s.a
	}
	s.end()
}

// genericNorm is the portable version of the normalisation kernels.
func genericNorm(rms bool, dst, src, gamma, beta *float32, n, rows, ldd, lds int, eps float32) {
	for r := range rows {
		d, s := view(advance(dst, r*ldd), n), view(advance(src, r*lds), n)
		m, k := genericMoment(s, rms, eps)
		for i, x := range s {
			y := (x - m) * k
			if gamma != nil {
				y *= *advance(gamma, i)
			}
			if beta != nil {
				y += *advance(beta, i)
			}
			d[i] = y
		}
	}
}

// genericMoments is the portable version of the kernels of moments.
func genericMoments(dst, src *float32, n, rows, lds int, eps float32) {
	for r := range rows {
		d := view(advance(dst, 2*r), 2)
		d[0], d[1] = genericMoment(view(advance(src, r*lds), n), false, eps)
	}
}

// genericMoment returns mean, or 0, and 1 / √(variance + eps) of a row.
func genericMoment(s []float32, rms bool, eps float32) (m, k float32) {
	var mean, square float64
	if !rms {
		for _, x := range s {
			mean += float64(x)
		}
		mean /= float64(len(s))
	}
	for _, x := range s {
		v := float64(x) - mean
		square += v * v
	}
	return float32(mean), float32(1 / math.Sqrt(square/float64(len(s))+float64(eps)))
}
