package backendtest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/carve-dev/carve/graph"
)

// symbolicGraph writes random graphs of which dims are open: rows of N times M elements, single numbers, and integers that come from shapes.
// What an operator makes is one of these again.
// There is no Sub, since what is left of two numbers that are nearly equal tells nothing.
type symbolicGraph struct {
	r                   *rand.Rand
	text                strings.Builder
	made                int
	rows, numbers, ints []string
}

// randomSymbolic returns the text of a random graph.
func randomSymbolic(seed uint64) testCase {
	g := &symbolicGraph{r: rand.New(rand.NewPCG(seed, 7)), rows: []string{"%x"}, ints: []string{"%n", "%m"}}
	g.text.WriteString(`
  opset 17
  input %x: f32[N,M]
  const %first = i64[]{0}
  const %second = i64[]{1}
  const %zeros = i64[1]{0}
  const %ones = i64[1]{1}
  const %flat = i64[1]{-1}
  const %three = i64[]{3}
  const %few = f32[]{7}
  const %none = f32[]{0}
  %s = Shape(%x)
  %n = Gather(%s, %first)
  %m = Gather(%s, %second)
`)
	g.numbers = append(g.numbers, g.add("Cast(%s; to=1)", "%n"))
	for range 4 + g.r.IntN(12) {
		g.grow()
	}
	fmt.Fprintf(&g.text, "  output %s, %s, %s", last(g.rows), last(g.numbers), last(g.ints))
	return testCase{fmt.Sprintf("random symbols %d", seed), g.text.String()}
}

func last(list []string) string { return list[len(list)-1] }

// any returns one of a list, the latest ones more often.
func (g *symbolicGraph) any(list []string) string {
	return list[max(g.r.IntN(len(list)), g.r.IntN(len(list)))]
}

// add writes a node and returns its result.
func (g *symbolicGraph) add(format string, operands ...any) string {
	g.made++
	name := fmt.Sprintf("%%v%d", g.made)
	fmt.Fprintf(&g.text, "  %s = %s\n", name, fmt.Sprintf(format, operands...))
	return name
}

// grow adds an operator, or a few that belong together.
func (g *symbolicGraph) grow() {
	row, number, integer := g.any(g.rows), g.any(g.numbers), g.any(g.ints)
	switch g.r.IntN(16) {
	case 0:
		g.rows = append(g.rows, g.add("%s(%s)", []string{"Tanh", "Relu", "Sigmoid"}[g.r.IntN(3)], row))
	case 1:
		g.rows = append(g.rows, g.add("%s(%s, %s)", []string{"Add", "Mul", "Max"}[g.r.IntN(3)], row, g.any(g.rows)))
	case 2:
		g.rows = append(g.rows, g.add("%s(%s, %s)", []string{"Add", "Min", "Max"}[g.r.IntN(3)], row, number))
	case 3:
		g.numbers = append(g.numbers, g.add("%s(%s, %s)", []string{"Add", "Min", "Max"}[g.r.IntN(3)], number, g.any(g.numbers)))
	case 4:
		g.numbers = append(g.numbers, g.add("Div(%s, %s)", number, "%few"))
	case 5:
		g.numbers = append(g.numbers, g.add("%s(%s; keepdims=0)", []string{"ReduceMean", "ReduceMin", "ReduceL2"}[g.r.IntN(3)], row))
	case 6:
		g.numbers = append(g.numbers, g.add("Cast(%s; to=1)", integer))
	case 7:
		g.ints = append(g.ints, g.add("%s(%s, %s)", []string{"Add", "Mul", "Div"}[g.r.IntN(3)], g.any([]string{"%n", "%m"}), "%three"))
	case 8: // the first rows, as many as a shape says
		end := g.add("Unsqueeze(%s, %s)", g.add("Div(%s, %s)", g.add("Add(%s, %s)", "%n", "%second"), g.add("Add(%s, %s)", "%second", "%second")), "%zeros")
		g.numbers = append(g.numbers, g.add("ReduceMax(%s; keepdims=0)", g.add("Slice(%s, %s, %s, %s)", row, "%zeros", end, "%zeros")))
	case 9: // two behind one another, of which the first is left
		end := g.add("Unsqueeze(%s, %s)", "%n", "%zeros")
		g.rows = append(g.rows, g.add("Slice(%s, %s, %s, %s)", g.add("Concat(%s, %s; axis=0)", row, g.any(g.rows)), "%zeros", end, "%zeros"))
	case 10:
		g.rows = append(g.rows, g.add("Reshape(%s, %s)", g.add("Tanh(%s)", g.add("Reshape(%s, %s)", row, "%flat")), "%s"))
	case 11:
		g.rows = append(g.rows, g.add("Expand(%s, %s)", number, "%s"))
	case 12:
		g.rows = append(g.rows, g.add("Transpose(%s)", g.add("Tanh(%s)", g.add("Transpose(%s)", row))))
	case 13: // as many as the data say
		flat := g.add("Relu(%s)", g.add("Reshape(%s, %s)", row, "%flat"))
		where := g.add("Squeeze(%s, %s)", g.add("NonZero(%s)", flat), "%zeros")
		g.numbers = append(g.numbers, g.add("ReduceSum(%s; keepdims=0)", g.add("Tanh(%s)", g.add("Gather(%s, %s)", flat, where))))
		g.ints = append(g.ints, g.add("Gather(%s, %s)", g.add("Shape(%s)", where), "%first"))
	case 14:
		count := g.add("Range(%s, %s, %s)", "%none", g.add("Cast(%s; to=1)", "%n"), "%few")
		g.numbers = append(g.numbers, g.add("ReduceSum(%s; keepdims=0)", count))
	case 15:
		near := g.add("Tanh(%s)", row) // a softmax of large numbers makes much of small differences
		square := g.add("Softmax(%s)", g.add("MatMul(%s, %s)", near, g.add("Transpose(%s)", near)))
		g.rows = append(g.rows, g.add("MatMul(%s, %s)", square, row))
	}
}

// randomBindings are the values of a random graph's symbols, run by run: the same again, larger and smaller ones, and one alone that changes.
func randomBindings(seed uint64) (list []graph.Bindings) {
	r := rand.New(rand.NewPCG(seed, 8))
	b := graph.Bindings{"N": 1 + r.Int64N(9), "M": 1 + r.Int64N(9)}
	for i := range 7 {
		list = append(list, graph.Bindings{"N": b["N"], "M": b["M"]})
		switch i % 3 {
		case 0:
			b["N"] = 1 + r.Int64N(80)
		case 1:
			b["M"] = 1 + r.Int64N(40)
		case 2:
			b["N"], b["M"] = 1+r.Int64N(9), 1+r.Int64N(9)
		}
	}
	return list
}
