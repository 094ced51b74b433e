package reference

import (
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

var einsumKernels = []kernel{{"Einsum", 12, einsum}}

// einsumPlan is a parsed equation: the loop dims, those of the result first, and the strides of every operand.
type einsumPlan struct {
	dims    []int
	out     int // number of loop dims of the result
	strides [][]int
}

// ellipsisLabel is the first of the labels that stand for the dims of an ellipsis, the last dim first.
const ellipsisLabel = 256

// einsumLabels returns the labels of a term; an ellipsis stands for n dims.
func (c *Call) einsumLabels(term string, n int) []int {
	var out []int
	for i := 0; i < len(term); i++ {
		switch ch := term[i]; {
		case ch == '.':
			if !strings.HasPrefix(term[i:], "...") {
				c.fail("equation", ErrAttribute, "%.80q", term)
			}
			for k := n - 1; k >= 0; k-- {
				out = append(out, ellipsisLabel+k)
			}
			i += 2
		case ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z':
			out = append(out, int(ch))
		default:
			c.fail("equation", ErrAttribute, "%.80q", term)
		}
	}
	return out
}

func (c *Call) einsumPlan() einsumPlan {
	equation := strings.ReplaceAll(c.Node.Str("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	c.require(len(terms) == len(c.Inputs), "equation", "%d terms for %d operands", len(terms), len(c.Inputs))
	size := map[int]int{}
	count := map[int]int{}
	labels := make([][]int, len(terms))
	widest := 0
	for i, term := range terms {
		t := c.input(i)
		n := max(len(t.Shape)-len(strings.ReplaceAll(term, "...", "")), 0)
		widest = max(widest, n)
		labels[i] = c.einsumLabels(term, n)
		c.require(len(labels[i]) == len(t.Shape), c.portName(i), "%v for %.80q", t, term)
		for a, l := range labels[i] {
			d := t.Shape[a]
			old, seen := size[l]
			c.require(!seen || old == d || old == 1 || d == 1, c.portName(i), "%v for %.80q", t, equation)
			if !seen || old == 1 {
				size[l] = d
			}
			count[l]++
		}
	}
	var order []int
	if explicit {
		order = c.einsumLabels(right, widest)
	} else {
		for k := widest - 1; k >= 0; k-- {
			order = append(order, ellipsisLabel+k)
		}
		for l := range ellipsisLabel {
			if count[l] == 1 {
				order = append(order, l)
			}
		}
	}
	p := einsumPlan{out: len(order), strides: make([][]int, len(terms))}
	used := map[int]bool{}
	for _, l := range order {
		if used[l] || count[l] == 0 {
			c.fail("equation", ErrAttribute, "%.80q", equation)
		}
		used[l] = true
	}
	for _, list := range labels { // summed labels in the order in which they appear
		for _, l := range list {
			if !used[l] {
				used[l] = true
				order = append(order, l)
			}
		}
	}
	for i, list := range labels {
		shape := c.input(i).Shape
		strides := tensor.CompactStrides(shape)
		p.strides[i] = make([]int, len(order))
		for a, l := range list {
			for k, o := range order {
				if o == l && shape[a] != 1 {
					p.strides[i][k] += strides[a] // a repeated label walks the diagonal
				}
			}
		}
	}
	for _, l := range order {
		p.dims = append(p.dims, size[l])
	}
	return p
}

func einsum(c *Call) {
	p := c.einsumPlan()
	dt := c.input(0).DType
	for i := range c.Inputs {
		if c.input(i).DType != dt {
			c.fail(c.portName(i), tensor.ErrDType, "%v and %v differ", c.input(i).DType, dt)
		}
	}
	shape := append([]int{}, p.dims[:p.out]...)
	if dt.IsFloat() {
		c.putFloats(0, dt, shape, sumProducts(c, p, c.floats))
		return
	}
	c.wantType(0, c.input(0), dt.IsInt())
	c.putInts(0, dt, shape, sumProducts(c, p, c.ints))
}

// sumProducts computes the result element by element: the sum over the summed dims of the products of the operands.
func sumProducts[S accumulator](c *Call, p einsumPlan, get func(int) []S) []S {
	ops := make([][]S, len(p.strides))
	outer, inner := make([][]int, len(ops)), make([][]int, len(ops))
	for i := range ops {
		ops[i] = get(i)
		outer[i], inner[i] = p.strides[i][:p.out], p.strides[i][p.out:]
	}
	out := make([]S, c.reserve("output Output", p.dims[:p.out], 8))
	o := 0
	base := make([]int, len(ops))
	c.walk(p.dims[:p.out], make([]int, len(ops)), outer, func(off, step []int, n int) {
		for r := range n {
			for i := range base {
				base[i] = off[i] + r*step[i]
			}
			sum := S(0)
			c.walk(p.dims[p.out:], base, inner, func(off, step []int, n int) {
				for k := range n {
					f := S(1)
					for i, v := range ops {
						f *= v[off[i]+k*step[i]]
					}
					sum += f
				}
			})
			out[o] = sum
			o++
		}
	})
	return out
}
