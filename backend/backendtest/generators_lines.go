package backendtest

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Quantisations with a scale for each index of an axis, or for each block of them, to 8 or 16 bits.

// lines are the numbers of such a quantisation, and the attributes that say where they count.
type lines struct {
	dtype       tensor.DType
	shape       []int // of the tensor
	axis, block int
	scales      []int // their shape
	scale, zero *graph.Value
}

func (m *maker) lines() *lines {
	l := &lines{dtype: pick(m, tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16), shape: m.shape(m.rank(1, 4))}
	if l.dtype.Size() == 2 {
		m.g.Opsets[""] = newest
	}
	if m.chance(3) {
		l.shape[m.between(0, len(l.shape)-1)] = pick(m, 16, 17, 40)
	}
	l.axis = m.between(0, len(l.shape)-1)
	switch m.r.IntN(4) {
	case 0: // one
	case 1:
		m.g.Opsets[""] = newest
		l.block = m.between(1, l.shape[l.axis]+1)
		l.scales = append(l.scales, l.shape...)
		l.scales[l.axis] = (l.shape[l.axis] + l.block - 1) / l.block
	default:
		if m.g.Opsets[""] < 13 {
			m.g.Opsets[""] = 13
		}
		l.scales = []int{l.shape[l.axis]}
	}
	l.scale = m.parameter(m.uniform(tensor.Float32, 0.01, 0.06, l.scales...))
	if !m.chance(4) {
		l.zero = m.parameter(m.integers(l.dtype, l.scales...))
	}
	return l
}

// integers returns a tensor over the whole range of a type of 8 or 16 bits.
func (m *maker) integers(dt tensor.DType, shape ...int) *tensor.Tensor {
	if dt.Size() == 1 {
		return m.anyBytes(dt, shape...)
	}
	lo := map[bool]int{true: -1 << 15}[dt == tensor.Int16]
	return m.fill(dt, shape, func(int) float64 { return float64(m.between(lo, lo+1<<16-1)) })
}

// call calls op on x with them.
func (l *lines) call(m *maker, op string, x *graph.Value) *call {
	c := m.call(op, x, l.scale)
	if l.zero != nil {
		c.operand(2, l.zero)
	} else if op == "QuantizeLinear" && l.dtype != tensor.Uint8 {
		c.operand(2, m.constant(m.fill(l.dtype, l.scales, func(int) float64 { return 0 })))
	}
	if l.scales != nil {
		c.int("axis", pick(m, l.axis, l.axis-len(l.shape)))
	}
	if l.block > 0 {
		c.int("block_size", l.block)
	}
	return c
}

func quantizeLines(m *maker) *graph.Value {
	l := m.lines()
	y := l.call(m, "QuantizeLinear", m.leaf(m.uniform(tensor.Float32, -10, 10, l.shape...))).one()
	m.c.slack[y] = 1 // where a quotient is half an odd number to a rounding
	return y
}

func dequantizeLines(m *maker) *graph.Value {
	l := m.lines()
	return l.call(m, "DequantizeLinear", m.leaf(m.integers(l.dtype, l.shape...))).one()
}
