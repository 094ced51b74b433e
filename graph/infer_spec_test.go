package graph_test

import (
	"fmt"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// operand adds an input to g: "f32[N,3]" by its type, "=[2,-1]" and "=5" as int64 constants, "~[0.5,2]" as a float
// constant, "#[N,4]" and "#N" as dims values, "" as an omitted one.
func operand(g *graph.Graph, s string) *graph.Value {
	GinkgoHelper()
	name := fmt.Sprint("x", g.ValueIDs())
	list := func(s string) []string {
		s = strings.Trim(s, "[]")
		if s == "" {
			return nil
		}
		return strings.Split(s, ",")
	}
	switch {
	case s == "":
		return nil
	case s[0] == '=':
		vals := []int64{}
		for _, x := range list(s[1:]) {
			n, err := strconv.ParseInt(x, 10, 64)
			Expect(err).NotTo(HaveOccurred())
			vals = append(vals, n)
		}
		if s[1] != '[' {
			return g.AddConst(name, tensor.Scalar(vals[0]))
		}
		return g.AddConst(name, tensor.From(vals, len(vals)))
	case s[0] == '~':
		vals := []float32{}
		for _, x := range list(s[1:]) {
			f, err := strconv.ParseFloat(x, 32)
			Expect(err).NotTo(HaveOccurred())
			vals = append(vals, float32(f))
		}
		if s[1] != '[' {
			return g.AddConst(name, tensor.Scalar(vals[0]))
		}
		return g.AddConst(name, tensor.From(vals, len(vals)))
	case s[0] == '#':
		dims := []graph.Dim{}
		for _, x := range list(s[1:]) {
			d, err := graph.ParseDim(x)
			Expect(err).NotTo(HaveOccurred())
			dims = append(dims, d)
		}
		return g.AddDims(name, dims, s[1] != '[')
	}
	t, err := graph.ParseType(s)
	Expect(err).NotTo(HaveOccurred(), s)
	return g.AddInput(name, t)
}

// opNode makes a node of an operator such as "Conv" or "Conv@1" (of that operator set) with so many outputs.
func opNode(g *graph.Graph, op string, outputs int, in []string, attrs ...graph.Attr) *graph.Node {
	GinkgoHelper()
	name, version, given := strings.Cut(op, "@")
	since := 0
	if given {
		v, err := strconv.Atoi(version)
		Expect(err).NotTo(HaveOccurred())
		since = v
	}
	domain := ""
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		domain, name = name[:i], name[i+1:]
	}
	spec := graph.NodeSpec{Op: graph.Op{Domain: domain, Name: name, Since: since}, Name: "n", Attrs: attrs}
	for _, s := range in {
		spec.Inputs = append(spec.Inputs, operand(g, s))
	}
	for i := range outputs {
		spec.Outputs = append(spec.Outputs, fmt.Sprint("y", i))
	}
	n := g.AddNode(spec)
	Expect(n.Schema).NotTo(BeNil(), op)
	return n
}

// shown returns a type, with the contents where they are known: "i64[2] = [N,3]".
func shown(v *graph.Value) string {
	if v.Dims == nil {
		return v.Type.String()
	}
	return v.Type.String() + " = " + graph.Shape(v.Dims).String()
}

// infers expects the outputs of one node, separated by spaces around "; ".
func infers(op string, in []string, want string, attrs ...graph.Attr) {
	GinkgoHelper()
	outputs := strings.Split(want, "; ")
	n := opNode(graph.New("g"), op, len(outputs), in, attrs...)
	Expect(graph.InferNode(n)).To(Succeed())
	var got []string
	for _, v := range n.Outputs {
		got = append(got, shown(v))
	}
	Expect(strings.Join(got, "; ")).To(Equal(want))
	Expect(graph.CheckNode(n)).To(Succeed())
	// A second inference changes nothing: symbols that were made stay.
	Expect(graph.InferNode(n)).To(Succeed())
	for i, v := range n.Outputs {
		Expect(shown(v)).To(Equal(got[i]))
	}
}

// refuses expects an error of that cause whose message has the given part.
func refuses(op string, outputs int, in []string, cause error, part string, attrs ...graph.Attr) {
	GinkgoHelper()
	err := graph.InferNode(opNode(graph.New("g"), op, outputs, in, attrs...))
	Expect(err).To(MatchError(cause))
	Expect(err.Error()).To(ContainSubstring(part))
	var typed *graph.InferError
	Expect(err).To(BeAssignableToTypeOf(typed))
}

// ins, ints, num and str shorten tables.
func ins(s ...string) []string { return s }

func ints(name string, v ...int64) graph.Attr { return graph.IntsAttr(name, v...) }

func num(name string, v int64) graph.Attr { return graph.IntAttr(name, v) }

func str(name, v string) graph.Attr { return graph.StringAttr(name, v) }
