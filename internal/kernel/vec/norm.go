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
	step := max(1, blockElements/cols)
	for r := 0; r < rows; r += step {
		norm(v.set, rms, advance(d, r*ldd), advance(s, r*lds), g, b, cols, min(step, rows-r), ldd, lds, v.fetched, eps)
	}
}

// genericNorm is the portable version of the normalisation kernels.
func genericNorm(rms bool, dst, src, gamma, beta *float32, n, rows, ldd, lds int, eps float32) {
	for r := range rows {
		d, s := view(advance(dst, r*ldd), n), view(advance(src, r*lds), n)
		var mean, square float64
		if !rms {
			for _, x := range s {
				mean += float64(x)
			}
			mean /= float64(n)
		}
		for _, x := range s {
			v := float64(x) - mean
			square += v * v
		}
		k := float32(1 / math.Sqrt(square/float64(n)+float64(eps)))
		m := float32(mean)
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
