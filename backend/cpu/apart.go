package cpu

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
)

// Values in rows apart: operands of a concatenation that their producers write in its result. Which kernels can do that,
// or read such a value, is said where they are registered (operator.apart), by one of the functions here or their own.

// leastRow is the fewest bytes of a row. Kernels that step by strides count on several elements that lie together. Time
// would allow less: with rows of 8 bytes a function, sum, product, softmax, transposition or slice of two operands takes
// 0.4 to 0.9 of what it takes with the copies, as it does with rows of 16 to 1,024 bytes (one core of an AMD EPYC 9004).
const leastRow = 16

// apart implements what place.WantConcats asks.
func (p *planner) apart(n *graph.Node, v *graph.Value, m place.Memory) bool {
	op, ok := p.e.lookup(n)
	return ok && op.Apart != nil && m.Row >= leastRow && op.Apart(p, n, v, m)
}

// together returns an error where an operand or result of n lies in rows that its kernel does not know of.
func (p *planner) together(n *graph.Node) error {
	for v, m := range p.InRows(n) {
		if !p.apart(n, v, m) {
			return fmt.Errorf("%v lies in rows apart", v)
		}
	}
	return nil
}

// anyRows is for kernels that go through their operands and results piece by piece, in every format.
func anyRows(p *planner, _ *graph.Node, v *graph.Value, m place.Memory) bool {
	return v.Format == rowMaj || v.Format == blocked && p.wholeImages(v, m)
}

// wholeImages reports whether the rows at m are the images of v.
func (p *planner) wholeImages(v *graph.Value, m place.Memory) bool {
	d := p.Dims[v.ID]
	return len(d) > 1 && m.Row*d[0] == p.Bytes(v)
}

// strides returns the strides of a value's elements where it lies, which apart has checked.
func (p *planner) strides(v *graph.Value) []int {
	return stridesAt(p.In(v), p.Dims[v.ID], v.Type.DType.Size())
}

// stridesAt returns the strides of the elements of a row-major tensor at m, whose rows are known to be whole dims.
func stridesAt(m place.Memory, dims []int, size int) []int {
	s, _ := m.Strides(dims, size)
	return s
}
