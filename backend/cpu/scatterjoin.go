package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

// How updates join what is there: they take its place, or are added, multiplied or compared.

const (
	leastRun   = 8       // elements of one index that are worth a call of a kernel
	leastPoint = 32      // elements of a row of ScatterND that are, half as many of which are compared
	pieceOfRow = 1 << 14 // elements of a row that are looked at together

	pointsTogether = 256 // rows of ScatterND that a kernel joins together
)

// reduced is a reduction, as a branch in a loop tells it.
type reduced uint8

const (
	added reduced = iota
	multiplied
	largest
	smallest
)

var reductionsOfUpdates = map[string]reduced{"add": added, "mul": multiplied, "max": largest, "min": smallest}

// joining is what updates of a type do.
type joining struct {
	run    func(dst, src []byte)                                 // as many on each side, in place
	row    func(x indices, o, u []byte, i, n int, r indexRow)    // each to where its index says, in order
	points func(x indices, o, u []byte, dims []int, rows, n int) // rows of n to where their indices of dims say, in order
}

// joining returns that of a node.
func (p *planner) joining(n *graph.Node) joining {
	dt, reduction := n.Inputs[0].Type.DType, n.Str("reduction", "none")
	if reduction != "none" {
		return joinings[dt](p, reduction)
	}
	size := dt.Size()
	return joining{
		run: func(dst, src []byte) { move(dst, src, len(src)) },
		row: func(x indices, o, u []byte, i, n int, r indexRow) { x.scatter(o, u, size, i, n, r) },
		points: func(x indices, o, u []byte, dims []int, rows, n int) {
			n *= size
			for i := range rows {
				at := x.point(i*len(dims), dims)
				move(o[at*n:(at+1)*n], u[i*n:(i+1)*n], n)
			}
		},
	}
}

// joinings are those with a reduction, of the types that there are reductions of.
var joinings = map[tensor.DType]func(p *planner, reduction string) joining{
	tensor.Float32: joinsFloats, tensor.Float64: joinsDoubles,
	tensor.Int8: joinsIntegers[int8], tensor.Int16: joinsIntegers[int16], tensor.Int32: joinsIntegers[int32], tensor.Int64: joinsIntegers[int64],
	tensor.Uint8: joinsIntegers[uint8], tensor.Uint16: joinsIntegers[uint16], tensor.Uint32: joinsIntegers[uint32], tensor.Uint64: joinsIntegers[uint64],
}

func joinsFloats(p *planner, reduction string) joining {
	kernels, op := p.kernels, map[string]vec.BinaryOp{"add": vec.Add, "mul": vec.Mul, "max": vec.Max, "min": vec.Min}[reduction]
	j := joins(reduction, func(d, s []float32) { kernels.Binary(op, d, d, s) })
	j.points = func(x indices, o, u []byte, dims []int, rows, n int) {
		var at [pointsTogether]int
		d, s := place.Elements[float32](o), place.Elements[float32](u)
		for r := 0; r < rows; r += len(at) {
			some := at[:min(len(at), rows-r)]
			x.places(some, r*len(dims), dims, n)
			kernels.JoinRows(op, d, s[r*n:], some, n)
		}
	}
	return j
}

func joinsDoubles(p *planner, reduction string) joining {
	kernels, op := p.doubles(), map[string]double.BinaryOp{"add": double.Add, "mul": double.Mul, "max": double.Max, "min": double.Min}[reduction]
	return joins(reduction, func(d, s []float64) { kernels.Binary(op, double.VV, d, d, s) })
}

func joinsIntegers[T integer](p *planner, reduction string) joining {
	set, op := p.target.Set, map[string]element.Op{"add": element.Add, "mul": element.Mul, "max": element.Max, "min": element.Min}[reduction]
	return joins(reduction, func(d, s []T) { element.Binary(set, op, d, d, s) })
}

// joins returns the joining of a reduction, which many does of as many elements on each side.
func joins[T integer | float32 | float64](reduction string, many func(d, s []T)) joining {
	how := reductionsOfUpdates[reduction]
	return joining{
		run: func(dst, src []byte) { many(place.Elements[T](dst), place.Elements[T](src)) },
		row: func(x indices, o, u []byte, i, n int, r indexRow) {
			d, s := place.Elements[T](o), place.Elements[T](u)[i:i+n]
			var bad int
			if x.wide != nil {
				bad = joinRow(how, d, s, x.wide[i:i+n], r)
			} else {
				bad = joinRow(how, d, s, x.narrow[i:i+n], r)
			}
			if bad >= 0 {
				x.at(i+bad, r.length) // which says what is wrong with it
			}
		},
		points: func(x indices, o, u []byte, dims []int, rows, n int) {
			d, s := place.Elements[T](o), place.Elements[T](u)
			for i := range rows {
				at := x.point(i*len(dims), dims) * n
				if to, from := d[at:at+n], s[i*n:i*n+n]; n < leastPoint && (how < largest || n < leastPoint/2) {
					joinFew(how, to, from)
				} else {
					many(to, from)
				}
			}
		},
	}
}

// joinRow joins elements with those that indices name, and returns the place of the first index that the axis does not have, -1 where there is none.
func joinRow[T integer | float32 | float64, I int32 | int64](how reduced, o, u []T, index []I, r indexRow) int {
	u = u[:len(index)]
	base := r.base
	switch how {
	case added:
		for k, i := range index {
			at, ok := r.place(int(i))
			if !ok {
				return k
			}
			o[base+at] += u[k]
			base += r.next
		}
	case multiplied:
		for k, i := range index {
			at, ok := r.place(int(i))
			if !ok {
				return k
			}
			o[base+at] *= u[k]
			base += r.next
		}
	case largest:
		for k, i := range index {
			at, ok := r.place(int(i))
			if !ok {
				return k
			}
			o[base+at] = max(o[base+at], u[k])
			base += r.next
		}
	case smallest:
		for k, i := range index {
			at, ok := r.place(int(i))
			if !ok {
				return k
			}
			o[base+at] = min(o[base+at], u[k])
			base += r.next
		}
	}
	return -1
}

// joinFew joins so few elements with as many that a kernel is not worth its call.
func joinFew[T integer | float32 | float64](r reduced, d, s []T) {
	switch r {
	case added:
		for len(d) >= 4 && len(s) >= 4 {
			x, y := (*[4]T)(d), (*[4]T)(s)
			x[0], x[1], x[2], x[3] = x[0]+y[0], x[1]+y[1], x[2]+y[2], x[3]+y[3]
			d, s = d[4:], s[4:]
		}
		for i, v := range s[:len(d)] {
			d[i] += v
		}
	case multiplied:
		for len(d) >= 4 && len(s) >= 4 {
			x, y := (*[4]T)(d), (*[4]T)(s)
			x[0], x[1], x[2], x[3] = x[0]*y[0], x[1]*y[1], x[2]*y[2], x[3]*y[3]
			d, s = d[4:], s[4:]
		}
		for i, v := range s[:len(d)] {
			d[i] *= v
		}
	case largest:
		for i, v := range s[:len(d)] {
			d[i] = max(d[i], v)
		}
	case smallest:
		for i, v := range s[:len(d)] {
			d[i] = min(d[i], v)
		}
	}
}
