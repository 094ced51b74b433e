package cpu

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
)

// Values in strided rows: operands of a concatenation that their producers write in its result. Which kernels can write or
// read them is said where they are registered (operators.Operator.Strided), by one of the functions here or their own.

// leastRow is the fewest bytes of a strided row. Kernels that step by strides need rows of several contiguous elements. Shorter
// rows would still pay: with rows of 8 bytes a function, sum, product, softmax, transposition or slice of two operands takes
// 0.4 to 0.9 of its time with copies, as with rows of 16 to 1,024 bytes (one core of an AMD EPYC 9004).
const leastRow = 16

// takesStrided implements what place.WantConcats asks.
func (p *planner) takesStrided(n *graph.Node, v *graph.Value, m place.Memory) bool {
	op := &p.e.ops[n.ID]
	return op.Strided != nil && m.Row >= leastRow && op.Strided(p, n, v, m)
}

// checkStrided returns an error where an operand or result of n lies in strided rows and its kernel does not take them.
func (p *planner) checkStrided(n *graph.Node) error {
	for v, m := range p.InRows(n) {
		if !p.takesStrided(n, v, m) {
			return fmt.Errorf("%v lies in strided rows", v)
		}
	}
	return nil
}

// anyRows is the Strided of kernels that go through their operands and results piece by piece, in every format.
func anyRows(p *planner, _ *graph.Node, v *graph.Value, m place.Memory) bool {
	return v.Format == rowMaj || v.Format == blocked && p.wholeImages(v, m)
}

// wholeImages reports whether the rows at m are the images of v.
func (p *planner) wholeImages(v *graph.Value, m place.Memory) bool {
	d := p.Dims[v.ID]
	return len(d) > 1 && m.Row*d[0] == p.Bytes(v)
}

// strides returns the strides of a value's elements where it lies; takesStrided has checked that there are such.
func (p *planner) strides(v *graph.Value) []int {
	return stridesAt(p.In(v), p.Dims[v.ID], v.Type.DType.Size())
}

// stridesAt returns the strides of the elements of a row-major tensor at m, whose rows are known to be whole dims.
func stridesAt(m place.Memory, dims []int, size int) []int {
	s, _ := m.Strides(dims, size)
	return s
}
