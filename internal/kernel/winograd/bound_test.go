package winograd

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/winograd/points"
)

// Bound returns a bound of the error of one tile of F(m), as the package documentation has it: m² numbers, for the source
// pixels d, (m+2)² for each channel, and the weights g, nine for each.
func Bound(m int, d, g [][]float64) []float64 {
	n := m + 2
	sum := make([]float64, n*n)
	for c := range d {
		u := sandwich(absolute(filter(m)), 3, g[c])
		v := sandwich(absolute(source(m)), n, d[c])
		for i := range sum {
			sum[i] += u[i] * v[i]
		}
	}
	out := sandwich(absolute(results(m)), n, sum)
	for i := range out {
		out[i] *= 1.01 * float64(len(d)+24) * 0x1p-24
	}
	return out
}

// filter, source and results are the matrices G, Bᵀ and Aᵀ of F(m), by rows.
func filter(m int) (rows [][]float64) {
	for _, r := range points.FilterRows(m) {
		rows = append(rows, r[:])
	}
	return rows
}

func source(m int) (rows [][]float64) {
	row := func(q []float64, first int) []float64 {
		r := make([]float64, m+2)
		for k, c := range q {
			r[first+2*k] = c
		}
		return r
	}
	all := points.EvenPoly(m, -1)
	rows = append(rows, row(all, 0))
	for i, p := range points.Pairs(m) {
		even, odd := row(points.EvenPoly(m, i), 2), row(points.EvenPoly(m, i), 1)
		for _, sign := range []float64{p, -p} {
			r := make([]float64, m+2)
			for k := range r {
				r[k] = even[k] + sign*odd[k]
			}
			rows = append(rows, r)
		}
	}
	return append(rows, row(all, 1))
}

func results(m int) (rows [][]float64) {
	for k := range m {
		var r []float64
		for _, p := range points.All(m) {
			r = append(r, math.Pow(p, float64(k)))
		}
		last := 0.0
		if k == m-1 {
			last = 1
		}
		rows = append(rows, append(r, last))
	}
	return rows
}

func absolute(rows [][]float64) [][]float64 {
	for _, r := range rows {
		for i := range r {
			r[i] = math.Abs(r[i])
		}
	}
	return rows
}

// sandwich returns L |x| Lᵀ for a square x of the side given.
func sandwich(l [][]float64, side int, x []float64) []float64 {
	out := make([]float64, len(l)*len(l))
	for i, a := range l {
		for j, b := range l {
			for y := range side {
				for z := range side {
					out[i*len(l)+j] += a[y] * math.Abs(x[y*side+z]) * b[z]
				}
			}
		}
	}
	return out
}
