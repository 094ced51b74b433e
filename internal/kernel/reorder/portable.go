package reorder

import "unsafe"

// row returns n floats at off bytes from base.
func row(base *float32, off, n int) []float32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(base), off)), n)
}

// portableTranspose does what transpose512 does.
func portableTranspose(dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, rows, cols, lanes, n int) {
	for i := range n {
		for c := range cols {
			out := row(dst, i*dstStep+c*dstStride, lanes)
			clear(out[rows:])
		}
		for r := range rows {
			for c, v := range row(src, i*srcStep+r*srcStride, cols) {
				*(*float32)(unsafe.Add(unsafe.Pointer(dst), i*dstStep+c*dstStride+4*r)) = v
			}
		}
	}
}

// portableRows does what rows512 does.
func portableRows(dst *float32, dstStride, dstBlock int, src *float32, srcStride, srcBlock, blocks, n int) {
	for b := range blocks {
		for i := range n {
			copy(row(dst, b*dstBlock+i*dstStride, 16), row(src, b*srcBlock+i*srcStride, 16))
		}
	}
}

// portableCopy does what copy512 does.
func portableCopy(dst *float32, dstStride int, src *float32, srcStride, lanes, stored, n int) {
	for i := range n {
		out := row(dst, i*dstStride, stored)
		copy(out, row(src, i*srcStride, min(lanes, stored)))
		if lanes < stored {
			clear(out[lanes:])
		}
	}
}

// portableGather does what gather512 does, and gatherEights, in blocks of w lanes.
func portableGather(w int, dst, a, b *float32, m *mixture, keep, n int) {
	out, xs, ys := row(dst, 0, w*n), row(a, 0, w*n), row(b, 0, w*n)
	for l, from := range m[:w] {
		switch {
		case from == absent && keep == 0:
			for i := l; i < len(out); i += w {
				out[i] = 0
			}
		case from == absent:
		default:
			in, at := xs, int(from)
			if at >= w {
				in, at = ys, at-w
			}
			for i, j := l, at; i < len(out); i, j = i+w, j+w {
				out[i] = in[j]
			}
		}
	}
}
