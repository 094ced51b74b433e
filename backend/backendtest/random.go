package backendtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Case is a random graph with operands, and what the reference kernels make of them. The same seed makes the same case.
type Case struct {
	Name   string
	Seed   uint64
	Graph  *graph.Graph
	Feeds  map[string]tensor.Value
	Values map[*graph.Value]*tensor.Tensor // what each value of the graph holds
	slack  map[*graph.Value]float64        // by how much values may differ beside rounding: steps of quantisation
}

// newest is an operator set beyond all: every operator has its newest version.
const newest = 1 << 20

// opsets are those that graphs are made for, the newest more often.
var opsets = []int{newest, newest, newest, 8, 11, 12, 13, 17, 18, 21}

// RandomOperators returns the names of the operators that RandomOperator makes cases of, sorted.
func RandomOperators() []string { return slices.Sorted(maps.Keys(generators)) }

// RandomOperator returns a case of an operator of the default domain on random operands, shapes, attributes and types. The
// error says what the reference kernels have against it: nothing is wrong with a case that shapes do not admit, but few
// should be so.
func RandomOperator(op string, seed uint64) (*Case, error) {
	generate := generators[op]
	if generate == nil {
		return nil, fmt.Errorf("no generator of %s", op)
	}
	m := newMaker(op, seed)
	return m.finish(generate(m, op))
}

// RandomCorner returns a case like RandomOperator's with dims of 0 to 3 and ranks of 0 to 6. Between the floats of every other case of an
// operator that computes element by element, moves or chooses, there are NaN, infinities, zeros of both signs and subnormal numbers.
func RandomCorner(op string, seed uint64) (*Case, error) {
	generate := generators[op]
	if generate == nil {
		return nil, fmt.Errorf("no generator of %s", op)
	}
	m := newMaker("corners of "+op, seed)
	m.small, m.odd = true, seed%2 == 1 && elementary[op] != nil
	m.c.Name = op
	return m.finish(generate(m, op))
}

// RandomChain returns a case of a few operators in a row, between which values are quantised, transposed and viewed, so that
// formats change.
func RandomChain(seed uint64) (*Case, error) {
	m := newMaker("chain", seed)
	return m.finish(m.chain())
}

// maker builds a case node by node. The first node that is refused ends it: what is added behind it is ignored.
type maker struct {
	c      *Case
	r      *rand.Rand
	g      *graph.Graph
	symbol int // the length of first dims that are a symbol, -1 where there are none
	exact  map[*graph.Value]bool
	small  bool // dims are of 0 to 3
	odd    bool // there are floats that are no ordinary numbers
	err    error
}

func newMaker(name string, seed uint64) *maker {
	m := &maker{r: rand.New(rand.NewPCG(seed, hash(name))), g: graph.New("random"), symbol: -1, exact: map[*graph.Value]bool{}}
	m.c = &Case{Name: name, Seed: seed, Graph: m.g, Feeds: map[string]tensor.Value{}, Values: map[*graph.Value]*tensor.Tensor{}, slack: map[*graph.Value]float64{}}
	m.g.Opsets[""] = pick(m, opsets...)
	return m
}

// hash makes cases of different names different.
func hash(name string) uint64 {
	s := source(17)
	for _, c := range name {
		s += source(c)
		s.next()
	}
	return s.next()
}

// finish makes values the outputs of the case.
func (m *maker) finish(outputs []*graph.Value) (*Case, error) {
	if m.err != nil {
		return nil, m.err
	}
	outputs = slices.DeleteFunc(outputs, func(v *graph.Value) bool { return v == nil || v.Producer == nil })
	if len(outputs) == 0 {
		return nil, errors.New("nothing is computed")
	}
	m.g.SetOutputs(outputs...)
	return m.c, nil
}

// Compare returns what is wrong with the results of a run, "" where nothing is.
func (c *Case) Compare(got map[string]tensor.Value) string {
	for _, v := range c.Graph.Outputs {
		t, ok := got[v.Name].(*tensor.Tensor)
		if !ok {
			return fmt.Sprintf("output %s is %T", v.Name, got[v.Name])
		}
		if why := differ(t, c.Values[v], c.slack[v]); why != "" {
			return "output " + v.Name + " " + why
		}
	}
	return ""
}

// String names the case and prints its graph without long constants.
func (c *Case) String() string {
	lines := strings.Split(c.Graph.String(), "\n")
	for i, l := range lines {
		if len(l) > 240 {
			lines[i] = l[:160] + "…" + l[len(l)-40:]
		}
	}
	return fmt.Sprintf("%s, seed %d\n%s", c.Name, c.Seed, strings.Join(lines, "\n"))
}

func pick[T any](m *maker, of ...T) T { return of[m.r.IntN(len(of))] }

// between returns a number from lo to hi, both included, and lo where hi is less, as with dims of 0.
func (m *maker) between(lo, hi int) int { return lo + m.r.IntN(max(1, hi-lo+1)) }

// chance is true once in n times.
func (m *maker) chance(n int) bool { return m.r.IntN(n) == 0 }

// feed adds a graph input with that content. Its first dim is the symbol N where it has the length of the symbol.
func (m *maker) feed(t *tensor.Tensor) *graph.Value {
	ty := graph.TypeOf(t)
	if len(t.Shape) > 0 && t.Shape[0] == m.symbol {
		ty.Shape = append(graph.Shape{graph.Sym("N")}, ty.Shape[1:]...)
	}
	v := m.g.AddInput(fmt.Sprintf("x%d", len(m.g.Inputs)), ty)
	m.c.Feeds[v.Name], m.c.Values[v], m.exact[v] = t, t, true
	return v
}

// constant adds a constant with that content. Every other one lies as those of files may, not aligned.
func (m *maker) constant(t *tensor.Tensor) *graph.Value {
	data := t
	if m.g.ValueIDs()%2 == 0 && !t.DType.IsPacked() && t.DType != tensor.String {
		odd := *t
		odd.Data, odd.Offset = append([]byte{0}, t.Bytes()...), 1
		data = &odd
	}
	v := m.g.AddConst(fmt.Sprintf("c%d", m.g.ValueIDs()), data)
	m.c.Values[v], m.exact[v] = t, true
	return v
}

// shapeOf returns the dims of a value, nil after an error.
func (m *maker) shapeOf(v *graph.Value) []int {
	if t := m.c.Values[v]; t != nil {
		return t.Shape
	}
	return nil
}

// node adds a node and computes it. After an error it returns values that hold nothing.
func (m *maker) node(spec graph.NodeSpec, outputs int) []*graph.Value {
	spec.Name = fmt.Sprintf("%s_%d", spec.Op.Name, m.g.NodeIDs())
	for i := range outputs {
		spec.Outputs = append(spec.Outputs, fmt.Sprintf("%s_%d", spec.Name, i))
	}
	if m.err != nil {
		return make([]*graph.Value, outputs)
	}
	n := m.g.AddNode(spec)
	if m.err = errors.Join(graph.InferNode(n), graph.CheckNode(n)); m.err == nil {
		m.err = m.evaluate(n)
	}
	return n.Outputs
}

func (m *maker) evaluate(n *graph.Node) error {
	in := make([]tensor.Value, len(n.Inputs))
	exact := !n.Is(rounded...)
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = m.c.Values[v]
			exact = exact && m.exact[v]
		}
	}
	out, err := reference.Evaluate(context.Background(), n, in)
	if err != nil {
		return err
	}
	for i, v := range n.Outputs {
		t, ok := out[i].(*tensor.Tensor)
		if v == nil || !ok {
			return fmt.Errorf("output %d of %v is no tensor", i, n)
		}
		m.c.Values[v], m.exact[v] = t, exact
	}
	return nil
}

// rounded are operators of chains whose results differ from backend to backend by rounding. Those of all others are what
// they choose, or the same everywhere.
var rounded = []string{"Conv", "ConvTranspose", "MatMul", "Gemm", "Add", "Mul", "Sub", "Sigmoid", "Softmax", "AveragePool", "GlobalAveragePool",
	"BatchNormalization", "LayerNormalization", "HardSwish", "Tanh", "Div", "Gelu", "LeakyRelu"}
