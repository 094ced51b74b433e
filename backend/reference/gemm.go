package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

// accumulator is a type in which sums of products are formed: float64 for floats, int64, which wraps, for integers.
type accumulator interface{ float64 | int64 }

// matrix addresses element (i, j) of a matrix at base + i*row + j*col.
type matrix[T any] struct {
	v              []T
	base, row, col int
}

// Block sizes of gemm: a block of A and a panel of B stay in the caches while they are multiplied.
const (
	blockM = 32
	blockN = 128
	blockK = 256
)

// gemm adds the product of a [m, k] and b [k, n] to out [m, n]. Both factors are copied block by block to the
// accumulator's type, rows of A in pairs and columns of B in fours, so that the inner loop holds its sums in registers.
func gemm[T float32 | float64 | int64, S accumulator](c *Call, m, n, k int, a, b matrix[T], out []S) {
	if m == 0 || n == 0 || k == 0 {
		return
	}
	ap := make([]S, min(blockM, m+1)*min(blockK, k))
	bp := make([]S, (min(blockN, n)+3)/4*4*min(blockK, k))
	for p := 0; p < k; p += blockK {
		kc := min(blockK, k-p)
		for j := 0; j < n; j += blockN {
			nc := min(blockN, n-j)
			packPanel(bp, b, p, j, kc, nc)
			for i := 0; i < m; i += blockM {
				mc := min(blockM, m-i)
				packRows(ap, a, i, p, mc, kc)
				multiplyBlock(ap, bp, mc, nc, kc, out[i*n+j:], n)
				c.spend(mc*nc*kc/4 + 1)
			}
		}
	}
}

// packPanel copies kc rows and nc columns of b, in groups of four columns, the last one filled up with zeros.
func packPanel[T float32 | float64 | int64, S accumulator](dst []S, b matrix[T], p, j, kc, nc int) {
	o := 0
	for q := 0; q < nc; q += 4 {
		w := min(4, nc-q)
		for r := range kc {
			src := b.base + (p+r)*b.row + (j+q)*b.col
			for x := range w {
				dst[o+x] = S(b.v[src+x*b.col])
			}
			for x := w; x < 4; x++ {
				dst[o+x] = 0
			}
			o += 4
		}
	}
}

// packRows copies mc rows and kc columns of a, in pairs of rows.
func packRows[T float32 | float64 | int64, S accumulator](dst []S, a matrix[T], i, p, mc, kc int) {
	o := 0
	for q := 0; q < mc; q += 2 {
		first := a.base + (i+q)*a.row + p*a.col
		second := first
		if q+1 < mc {
			second += a.row
		}
		for r := range kc {
			dst[o], dst[o+1] = S(a.v[first+r*a.col]), S(a.v[second+r*a.col])
			o += 2
		}
	}
}

// multiplyBlock adds the product of packed blocks to out, whose rows are ld apart.
func multiplyBlock[S accumulator](ap, bp []S, mc, nc, kc int, out []S, ld int) {
	for q := 0; q < nc; q += 4 {
		b := bp[q*kc : (q+4)*kc]
		w := min(4, nc-q)
		for i := 0; i < mc; i += 2 {
			a := ap[i*kc : (i+2)*kc]
			var s00, s01, s02, s03, s10, s11, s12, s13 S
			bb := b
			for len(a) >= 2 && len(bb) >= 4 {
				x, y := a[0], a[1]
				s00 += x * bb[0]
				s01 += x * bb[1]
				s02 += x * bb[2]
				s03 += x * bb[3]
				s10 += y * bb[0]
				s11 += y * bb[1]
				s12 += y * bb[2]
				s13 += y * bb[3]
				a, bb = a[2:], bb[4:]
			}
			sums := [2][4]S{{s00, s01, s02, s03}, {s10, s11, s12, s13}}
			for r := range min(2, mc-i) {
				row := out[(i+r)*ld+q:]
				for x := range w {
					row[x] += sums[r][x]
				}
			}
		}
	}
}

// float32s returns the elements of a tensor of float32 or narrower floats, shared where they are float32.
func (c *Call) float32s(port string, t *tensor.Tensor) []float32 {
	if t.DType != tensor.Float32 {
		n, err := tensor.Convert(t, tensor.Float32, nil)
		c.check(port, err)
		t = n
	}
	return tensor.Elements[float32](t)
}
