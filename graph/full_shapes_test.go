package graph_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// counted is a graph of one operator over a tensor and lists of numbers, which are the dims of the numbers' inputs.
func counted(op string, attrs []graph.Attr, shape graph.Shape, numbers ...[]graph.Dim) *graph.Graph {
	g := graph.New(op)
	g.Opsets[""] = 17
	spec := graph.NodeSpec{Op: graph.Op{Name: op}, Name: op, Attrs: attrs, Outputs: []string{"y"}}
	if shape != nil {
		spec.Inputs = append(spec.Inputs, g.AddInput("x", graph.TensorType(tensor.Float32, shape)))
	}
	for i, list := range numbers {
		dims := graph.ShapeOf(len(list))
		if op == "Range" {
			dims = graph.Shape{}
		}
		v := g.AddInput("n"+string(rune('0'+i)), graph.TensorType(tensor.Int64, dims))
		v.Dims = list
		spec.Inputs = append(spec.Inputs, v)
	}
	g.SetOutputs(g.AddNode(spec).Outputs...)
	if graph.InferGraph(g) != nil {
		return nil
	}
	return g
}

var _ = Describe("shape checks of nodes that read numbers", func() {
	n, m := graph.Sym("n"), graph.Sym("m")
	dims := []graph.Dim{graph.D(1), graph.D(2), graph.D(4), n, n, m, n.Add(m), n.Add(graph.D(1)), n.Mul(m), m.Scale(2), n.Sub(m)}

	It("find what inference for the run's dims finds", func() {
		r := rand.New(rand.NewPCG(15, 7))
		some := func(from []graph.Dim, most int) []graph.Dim {
			out := []graph.Dim{}
			for range 1 + r.IntN(most) {
				out = append(out, from[r.IntN(len(from))])
			}
			return out
		}
		held, failed := map[string]int{}, map[string]int{}
		for range 30000 {
			op := []string{"Reshape", "Expand", "Range", "Slice", "ConstantOfShape", "Flatten"}[r.IntN(6)]
			shape := graph.Shape(some(dims, 3))
			var numbers [][]graph.Dim
			var attrs []graph.Attr
			switch op {
			case "Reshape":
				target := some(append(dims, graph.D(-1), graph.D(0)), 3)
				if r.IntN(2) == 0 { // the same dims, in another order, one of which may be open
					target = append([]graph.Dim{}, shape...)
					r.Shuffle(len(target), func(i, k int) { target[i], target[k] = target[k], target[i] })
					if k := r.IntN(2 * len(target)); k < len(target) {
						target[k] = graph.D(-1)
					}
				}
				numbers = [][]graph.Dim{target}
			case "Expand":
				numbers = [][]graph.Dim{some(dims, 3)}
			case "ConstantOfShape":
				shape, numbers = nil, [][]graph.Dim{some(dims, 3)}
			case "Range":
				shape, numbers = nil, [][]graph.Dim{some(append(dims, graph.D(0)), 1), some(dims, 1), {graph.D(1 + r.IntN(2))}}
			case "Slice":
				axis := r.IntN(len(shape))
				end := []graph.Dim{shape[axis], shape[axis], graph.D(1 << 40), graph.D(2), n}[r.IntN(5)]
				numbers = [][]graph.Dim{{graph.D(r.IntN(4) / 3)}, {end}, {graph.D(axis)}, {graph.D(1 + r.IntN(4)/3)}}
			case "Flatten":
				attrs = []graph.Attr{graph.IntAttr("axis", int64(r.IntN(len(shape)+1)))}
			}
			g := counted(op, attrs, shape, numbers...)
			if g == nil {
				continue
			}
			checks := graph.NewShapeChecks(g)
			for range 4 {
				b := graph.Bindings{"n": int64(r.IntN(5)), "m": int64(r.IntN(5))}
				at := func(list []graph.Dim) []graph.Dim {
					if list == nil {
						return nil
					}
					out := []graph.Dim{}
					for _, d := range list {
						k, err := d.Eval(b)
						Expect(err).NotTo(HaveOccurred())
						out = append(out, graph.D(int(k)))
					}
					return out
				}
				static := at(shape)
				lists := make([][]graph.Dim, len(numbers))
				for i := range lists {
					lists[i] = at(numbers[i])
				}
				if _, err := shape.Eval(b, nil); err != nil {
					continue // no such input
				}
				want := counted(op, attrs, static, lists...)
				out, err := g.Outputs[0].Type.Shape.Eval(b, nil)
				if err != nil && want != nil {
					continue // the dims are those of another case
				}
				if want != nil && graph.TensorType(tensor.Float32, graph.ShapeOf(out...)).MayBe(graph.TensorType(tensor.Float32, want.Outputs[0].Type.Shape)) {
					held[op]++
					Expect(checks.Check(b)).To(Succeed(), "%s %v %v at %v", op, shape, numbers, b)
				} else {
					failed[op]++
					Expect(checks.Check(b)).NotTo(Succeed(), "%s %v %v at %v", op, shape, numbers, b)
				}
			}
		}
		for _, op := range []string{"Reshape", "Expand", "Range", "Slice", "ConstantOfShape", "Flatten"} {
			Expect(held[op]).To(BeNumerically(">", 1000), op)
		}
		Expect(failed["Reshape"]).To(BeNumerically(">", 100))
		Expect(failed["Expand"]).To(BeNumerically(">", 100))
	})
})
