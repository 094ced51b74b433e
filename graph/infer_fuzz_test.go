package graph_test

import (
	"math/rand/v2"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// dice draws small numbers from fuzzed bytes; it gives 0 when they are used up.
type dice []byte

func (d *dice) n(n int) int {
	if len(*d) == 0 || n <= 0 {
		return 0
	}
	b := int((*d)[0])
	*d = (*d)[1:]
	return b % n
}

var hostile = []int64{0, 1, -1, 2, 3, 4, 5, 7, 8, 64, -2, -3, 1 << 31, -1 << 31, 1 << 40, 1<<62 + 1, -1 << 63, 1<<63 - 1, 100, 6}

func (d *dice) int() int64 { return hostile[d.n(len(hostile))] }

func (d *dice) dim() graph.Dim {
	switch d.n(8) {
	case 0:
		return graph.Sym("N")
	case 1:
		return graph.Sym("?7")
	case 2:
		return graph.Sym("S").Scale(d.int()).Add(graph.D(int(d.int())))
	case 3:
		return graph.Sym("N").FloorDiv(graph.D(int(d.int())))
	}
	return graph.D(int(d.int()))
}

func (d *dice) shape() graph.Shape {
	rank := d.n(7) - 1
	if rank < 0 {
		return nil
	}
	s := make(graph.Shape, rank)
	for i := range s {
		s[i] = d.dim()
	}
	return s
}

func (d *dice) typ(depth int) graph.Type {
	dt := []tensor.DType{tensor.Float32, tensor.Int64, tensor.Bool, tensor.Float16, tensor.Uint8, tensor.String, tensor.Invalid, tensor.Int32}[d.n(8)]
	switch k := d.n(16); {
	case k == 0 && depth > 0:
		return graph.SequenceOf(d.typ(depth - 1))
	case k == 1 && depth > 0:
		return graph.OptionalOf(d.typ(depth - 1))
	case k == 2:
		return graph.Type{Kind: graph.Kind(d.n(5))}
	}
	return graph.TensorType(dt, d.shape())
}

func (d *dice) ints(n int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = d.int()
	}
	return v
}

func (d *dice) value(g *graph.Graph) *graph.Value {
	switch d.n(8) {
	case 0:
		return nil
	case 1:
		v := d.ints(d.n(6))
		return g.AddConst("", tensor.From(v, len(v)))
	case 2:
		return g.AddConst("", tensor.Scalar(d.int()))
	case 3:
		dims := make([]graph.Dim, d.n(6))
		for i := range dims {
			dims[i] = d.dim()
		}
		return g.AddDims("", dims, false)
	case 4:
		return g.AddConst("", tensor.From([]float32{float32(d.n(5)) / 2, float32(d.int())}, 2))
	}
	return g.AddInput("", d.typ(2))
}

// matching returns a value of the type that a port asks for, most of the time.
func (d *dice) matching(g *graph.Graph, s *graph.Schema, p graph.Param) *graph.Value {
	if d.n(4) == 0 {
		return d.value(g)
	}
	name := p.Type
	if list := s.Types[p.Type]; len(list) > 0 {
		name = list[d.n(len(list))]
	}
	switch name {
	case "tensor(int64)":
		return []func() *graph.Value{
			func() *graph.Value { v := d.ints(d.n(6)); return g.AddConst("", tensor.From(v, len(v))) },
			func() *graph.Value { return g.AddConst("", tensor.Scalar(d.int())) },
			func() *graph.Value { return g.AddDims("", []graph.Dim{d.dim(), d.dim(), d.dim()}[:d.n(4)], false) },
			func() *graph.Value { return g.AddInput("", graph.TensorType(tensor.Int64, d.shape())) },
		}[d.n(4)]()
	case "tensor(bool)":
		return g.AddInput("", graph.TensorType(tensor.Bool, d.shape()))
	case "tensor(uint8)":
		return g.AddInput("", graph.TensorType(tensor.Uint8, d.shape()))
	case "tensor(string)":
		return g.AddInput("", graph.TensorType(tensor.String, d.shape()))
	case "tensor(int32)":
		return g.AddInput("", graph.TensorType(tensor.Int32, d.shape()))
	}
	return g.AddInput("", graph.TensorType(tensor.Float32, d.shape()))
}

func (d *dice) attr(a graph.AttrSpec) graph.Attr {
	switch a.Kind {
	case graph.AttrInt:
		return graph.IntAttr(a.Name, d.int())
	case graph.AttrInts:
		return graph.IntsAttr(a.Name, d.ints(d.n(6))...)
	case graph.AttrFloat:
		return graph.FloatAttr(a.Name, float32(d.int()))
	case graph.AttrFloats:
		return graph.FloatsAttr(a.Name, float32(d.int()), 0.5)
	case graph.AttrStrings:
		return graph.StringsAttr(a.Name, "a", "b")
	case graph.AttrTensor:
		t := tensor.From(d.ints(2), 2)
		if d.n(4) == 0 {
			t.Shape = []int{d.n(9) - 1} // malformed
		}
		return graph.TensorAttr(a.Name, t)
	case graph.AttrType:
		return graph.Attr{Name: a.Name, Kind: graph.AttrType, Type: d.typ(2)}
	}
	return graph.StringAttr(a.Name, []string{"SAME_UPPER", "VALID", "", "ij,jk->ik", "...i,i...", "bidirectional", "none", "RIGHT", "wrap"}[d.n(9)])
}

// body returns a region with a few nodes over its inputs and captures.
func (d *dice) body(captures int) *graph.Graph {
	g := graph.New("r")
	var vals []*graph.Value
	for range d.n(5) {
		vals = append(vals, g.AddInput("", d.typ(1)))
	}
	for range captures {
		vals = append(vals, g.AddCapture("", graph.Type{}))
	}
	for range d.n(4) {
		if len(vals) == 0 {
			break
		}
		op := []string{"Add", "Concat", "Shape", "Unsqueeze", "Identity", "NonZero"}[d.n(6)]
		spec := graph.NodeSpec{Op: graph.Op{Name: op}, Inputs: []*graph.Value{vals[d.n(len(vals))]}, Outputs: []string{"r"}}
		if op == "Add" || op == "Concat" {
			spec.Inputs = append(spec.Inputs, vals[d.n(len(vals))])
		}
		if op == "Concat" {
			spec.Attrs = []graph.Attr{graph.IntAttr("axis", 0)}
		}
		vals = append(vals, g.AddNode(spec).Outputs[0])
	}
	var outs []*graph.Value
	for range d.n(5) {
		if len(vals) > 0 {
			outs = append(outs, vals[len(vals)-1-d.n(len(vals))])
		}
	}
	g.SetOutputs(outs...)
	return g
}

// FuzzInferNode makes nodes of any operator from bytes and infers them twice: errors are fine, panics are not.
func FuzzInferNode(f *testing.F) {
	ops := graph.Operators()
	for i := range ops {
		f.Add([]byte{byte(i), byte(i >> 8), 3, 9, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 0, 2, 8})
	}
	f.Fuzz(func(t *testing.T, b []byte) { inferBytes(ops, b) })
}

// inferBytes makes a node from bytes and infers it twice. It reports whether that succeeded.
func inferBytes(ops []graph.Op, b []byte) bool {
	if len(b) < 3 {
		return false
	}
	d := dice(b[2:])
	op := ops[(int(b[0])|int(b[1])<<8)%len(ops)]
	versions := graph.SchemaVersions(op.Domain, op.Name)
	s := versions[d.n(len(versions))]
	g := graph.New("g")
	spec := graph.NodeSpec{Op: graph.Op{Domain: s.Domain, Name: s.Name, Since: s.Since}, Name: "n"}
	for range d.n(3) {
		spec.Captures = append(spec.Captures, g.AddInput("", d.typ(1)))
	}
	for _, p := range s.Inputs {
		spec.Inputs = append(spec.Inputs, d.matching(g, s, p))
		for p.Variadic && d.n(3) != 0 {
			spec.Inputs = append(spec.Inputs, d.matching(g, s, p))
		}
	}
	for range max(1, d.n(len(s.Outputs)+2)) {
		spec.Outputs = append(spec.Outputs, "y")
	}
	for _, a := range s.Attrs {
		switch {
		case a.Kind == graph.AttrNone:
			spec.Regions = append(spec.Regions, graph.Region{Name: a.Name, Graph: d.body(len(spec.Captures))})
		case a.Required || d.n(3) == 0:
			spec.Attrs = append(spec.Attrs, d.attr(a))
		}
	}
	n := g.AddNode(spec)
	for _, v := range n.Outputs {
		if v != nil && d.n(4) == 0 {
			v.Type = d.typ(1) // what a model may declare
		}
	}
	for range 2 {
		if graph.InferNode(n) != nil {
			return false
		}
	}
	_ = graph.CheckNode(n)
	for _, v := range n.Outputs {
		_ = shown(v)
	}
	return true
}

var _ = Describe("Inference of random nodes", func() {
	It("never panics, and succeeds for some of every kind", func() {
		ops := graph.Operators()
		rng := rand.New(rand.NewPCG(1, 2))
		good := map[string]bool{}
		b := make([]byte, 160)
		for i := range 60 * len(ops) {
			for k := range b {
				b[k] = byte(rng.Uint32())
			}
			b[0], b[1] = byte(i%len(ops)), byte(i%len(ops)>>8)
			if inferBytes(ops, b) {
				good[ops[i%len(ops)].String()] = true
			}
		}
		Expect(len(good)).To(BeNumerically(">", len(ops)/2))
	})
})
