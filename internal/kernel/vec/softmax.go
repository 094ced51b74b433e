package vec

import "math"

// Softmax writes e^y[r, c] / Σ e^y[r, ·] for each row of y = src·scale + mask, [rows, cols]. mask may be nil; its row stride
// ldm may be 0, which uses one row for all. The row's maximum is taken off first. A row of which every element is -Inf,
// or one with NaN or +Inf, gives NaN. Results below 2^-126 may be 0. dst may be src.
func (v Kernels) Softmax(dst []float32, ldd int, src []float32, lds int, mask []float32, ldm, rows, cols int, scale float32) {
	v.softmaxRows(false, dst, ldd, src, lds, mask, ldm, rows, cols, scale)
}

// LogSoftmax writes y - ln Σ e^y; see Softmax.
func (v Kernels) LogSoftmax(dst []float32, ldd int, src []float32, lds int, mask []float32, ldm, rows, cols int, scale float32) {
	v.softmaxRows(true, dst, ldd, src, lds, mask, ldm, rows, cols, scale)
}

func (v Kernels) softmaxRows(logarithm bool, dst []float32, ldd int, src []float32, lds int, mask []float32, ldm, rows, cols int, scale float32) {
	if rows <= 0 || cols <= 0 {
		return
	}
	d, s := at(dst, extent(rows, cols, ldd)), at(src, extent(rows, cols, lds))
	var m *float32
	if mask != nil {
		m = at(mask, extent(rows, cols, ldm))
	}
	// A row is not divided: with up to 2^17 elements it takes below 100 µs.
	step := max(1, blockElements/cols)
	for r := 0; r < rows; r += step {
		softmax(v.set, logarithm, advance(d, r*ldd), advance(s, r*lds), advance(m, r*ldm), cols, min(step, rows-r), ldd, lds, ldm, v.fetched, scale)
	}
}

// genericSoftmax is the portable version of the softmax kernels.
func genericSoftmax(logarithm bool, dst, src, mask *float32, n, rows, ldd, lds, ldm int, scale float32) {
	for r := range rows {
		d, s := view(advance(dst, r*ldd), n), view(advance(src, r*lds), n)
		top := float32(math.Inf(-1))
		for i, x := range s {
			y := x * scale
			if mask != nil {
				y += *advance(mask, r*ldm+i)
			}
			d[i] = y
			top = max(top, y)
		}
		var sum float64
		for i, y := range d {
			e := math.Exp(float64(y - top))
			sum += e
			if !logarithm {
				d[i] = float32(e)
			}
		}
		if logarithm {
			l := float32(math.Log(sum))
			for i, y := range d {
				d[i] = y - top - l
			}
			continue
		}
		k := float32(1 / sum)
		for i := range d {
			d[i] *= k
		}
	}
}

// ColumnsWork is how many floats SoftmaxColumns takes besides for each row.
const ColumnsWork = 32

// SoftmaxColumns writes e^x[r, c] / Σ e^x[·, c] for each column of x = src[rows, cols], with the column's maximum taken off first; see Softmax. work has
// ColumnsWork floats for each row. dst may be src.
func (v Kernels) SoftmaxColumns(dst []float32, ldd int, src []float32, lds int, work []float32, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	d, s, w := at(dst, extent(rows, cols, ldd)), at(src, extent(rows, cols, lds)), at(work, rows*ColumnsWork)
	step := max(64, blockElements/rows&^63)
	for c := 0; c < cols; c += step {
		softmaxColumns(v.set, advance(d, c), advance(s, c), w, min(step, cols-c), rows, ldd, lds)
	}
}

// genericSoftmaxColumns is the portable version of the kernels of softmax over columns.
func genericSoftmaxColumns(dst, src *float32, n, rows, ldd, lds int) {
	for c := range n {
		top := float32(math.Inf(-1))
		for r := range rows {
			top = max(top, *advance(src, r*lds+c))
		}
		var sum float64
		for r := range rows {
			e := math.Exp(float64(*advance(src, r*lds+c) - top))
			sum += e
			*advance(dst, r*ldd+c) = float32(e)
		}
		k := float32(1 / sum)
		for r := range rows {
			*advance(dst, r*ldd+c) *= k
		}
	}
}
