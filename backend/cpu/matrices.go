package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Determinants, and ONNX Runtime's Inverse, of float32 and float64: by elimination, in float64, about the largest element of each column. A matrix is a chunk.

func matrixSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !operators.IsFloat32(x) && !isDouble(x) {
		return nil, operators.NotFloat32(x)
	}
	return operators.RowMajor(n), nil
}

// eachMatrix emits a function of square matrices of n rows, which it may overwrite, and of two times n numbers more, in memory of a worker; at is the number of a matrix.
func (p *planner) eachMatrix(node *graph.Node, fn func(st *state, a []float64, more [2][]float64, at int)) error {
	x := node.Inputs[0]
	d := p.Dims[x.ID]
	if len(d) < 2 || d[len(d)-1] != d[len(d)-2] {
		return property.Because(property.ShapeReason, "%v is no square matrix", d)
	}
	n := d[len(d)-1]
	size, src, dst, set := n*n, p.In(x), p.Out(node.Outputs[0]), p.target.Set
	work := p.scratch(8 * (size + 2*n))
	p.emit(step{chunks: product(d[:len(d)-2]), grain: grainFor(float64(n*size)*0.3 + 50), body: func(st *state, worker, lo, hi int) {
		all := work.doubles(st, worker)
		a, more := all[:size], [2][]float64{all[size:][:n], all[size+n:][:n]}
		for m := lo; m < hi; m++ {
			if isDouble(x) {
				copy(a, f64(st, src)[m*size:])
			} else {
				cast.Doubles(set, a, st.F32(src)[m*size:][:size])
			}
			fn(st, a, more, m)
		}
	}}, []place.Memory{src}, []place.Memory{dst, work.at})
	return nil
}

// addRow adds a row, multiplied by a number each, to rows of dst that lie n apart.
func addRow(k double.Kernels, dst []float64, n int, src, by []float64) {
	if len(src) > fewElements {
		k.MulAddRows(dst, n, src, by)
		return
	}
	for r, f := range by {
		to := dst[r*n:][:len(src)]
		for i, x := range src {
			to[i] += x * f
		}
	}
}

// pivot exchanges a row with the one below it that has the largest element in column i, and returns which that is.
func pivot(a []float64, n, i int) int {
	best := i
	for r := i + 1; r < n; r++ {
		if math.Abs(a[r*n+i]) > math.Abs(a[best*n+i]) {
			best = r
		}
	}
	if best != i {
		other := a[best*n:][:n]
		for k, x := range a[i*n:][:n] {
			a[i*n+k], other[k] = other[k], x
		}
	}
	return best
}

// determinant overwrites a, and factors, one for each row.
func determinant(k double.Kernels, a, factors []float64) float64 {
	d, n := 1.0, len(factors)
	for i := range n {
		if pivot(a, n, i) != i {
			d = -d
		}
		row := a[i*n:][:n]
		if d *= row[i]; row[i] == 0 {
			return 0
		}
		from := (i + 1) / 4 * 4 // nobody reads what stands in front, and whole vectors are faster
		by := factors[i+1:]
		for r := range by {
			by[r] = -a[(i+1+r)*n+i] / row[i]
		}
		if len(by) > 0 {
			addRow(k, a[(i+1)*n+from:], n, row[from:], by)
		}
	}
	return d
}

// invert puts the inverse of a matrix in its place. Column by column it becomes that of one with exchanged rows, whose columns are exchanged back at the end. In places and factors it keeps a number for each row.
func invert(k double.Kernels, a, places, factors []float64) {
	n := len(places)
	for i := range n {
		places[i] = float64(pivot(a, n, i))
		row := a[i*n:][:n]
		by := [1]float64{row[i]}
		row[i] = 1
		k.Binary(double.Div, double.VS, row, row, by[:])
		for r := range factors {
			if f := &a[r*n+i]; r != i {
				factors[r], *f = -*f, 0
			}
		}
		addRow(k, a, n, row, factors[:i])
		if i+1 < n {
			addRow(k, a[(i+1)*n:], n, row, factors[i+1:])
		}
	}
	for i := n - 1; i >= 0; i-- {
		for at, j := i, int(places[i]); j != i && at < n*n; at, j = at+n, j+n {
			a[at], a[j] = a[j], a[at]
		}
	}
}

func planDet(p *planner, n *graph.Node) error {
	kernels, y := p.doubles(), n.Outputs[0]
	dst := p.Out(y)
	return p.eachMatrix(n, func(st *state, a []float64, more [2][]float64, at int) {
		if d := determinant(kernels, a, more[0]); isDouble(y) {
			f64(st, dst)[at] = d
		} else {
			st.F32(dst)[at] = float32(d)
		}
	})
}

func planInverseMatrix(p *planner, n *graph.Node) error {
	kernels, y, set := p.doubles(), n.Outputs[0], p.target.Set
	dst := p.Out(y)
	return p.eachMatrix(n, func(st *state, a []float64, more [2][]float64, at int) {
		if invert(kernels, a, more[0], more[1]); isDouble(y) {
			copy(f64(st, dst)[at*len(a):], a)
		} else {
			cast.Singles(set, st.F32(dst)[at*len(a):], a)
		}
	})
}

func init() {
	table.Register("Det", operator{Signatures: matrixSignatures, Plan: planDet})
	table.Register(operators.Of(microsoft.Domain, "Inverse"), operator{Signatures: matrixSignatures, Plan: planInverseMatrix})
}
