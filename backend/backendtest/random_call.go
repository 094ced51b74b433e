package backendtest

import (
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// call is an operator that gets its settings by the names that its schema has for them, as attributes or as operands,
// whichever the version at hand has. Settings that it has not are left out.
type call struct {
	m      *maker
	domain string
	op     string
	schema *graph.Schema
	inputs []*graph.Value
	attrs  []graph.Attr
}

// call begins a call of an operator, whose name has its domain and a colon in front where that is not the default one. Operators
// that the operator set has not yet get their newest version.
func (m *maker) call(op string, inputs ...*graph.Value) *call {
	domain, name, found := strings.Cut(op, ":")
	last := newestML
	if !found {
		domain, name, last = "", op, newest
	} else if m.g.Opsets[domain] == 0 {
		m.g.Opsets[domain] = m.between(1, last)
	}
	s := graph.LookupSchema(domain, name, m.g.Opsets[domain])
	if s == nil || op == "LayerNormalization" && s.Since < 17 { // which package microsoft expands
		s = graph.LookupSchema(domain, name, last)
	}
	return &call{m: m, domain: domain, op: name, schema: s, inputs: inputs}
}

// has reports whether the version at hand knows a setting.
func (c *call) has(name string) bool { return c.port(name) >= 0 || c.attr(name) }

func (c *call) port(name string) int {
	return slices.IndexFunc(c.schema.Inputs, func(p graph.Param) bool { return p.Name == name })
}

func (c *call) attr(name string) bool {
	return slices.ContainsFunc(c.schema.Attrs, func(a graph.AttrSpec) bool { return a.Name == name })
}

// operand sets input i.
func (c *call) operand(i int, v *graph.Value) {
	for len(c.inputs) <= i {
		c.inputs = append(c.inputs, nil)
	}
	c.inputs[i] = v
}

// set gives a setting: t as an operand, a as an attribute.
func (c *call) set(name string, t *tensor.Tensor, a graph.Attr) *call {
	if i := c.port(name); i >= 0 {
		c.operand(i, c.m.constant(t))
	} else if c.attr(name) {
		c.attrs = append(c.attrs, a)
	}
	return c
}

func (c *call) ints(name string, v ...int) *call {
	list := make([]int64, len(v))
	for i, x := range v {
		list[i] = int64(x)
	}
	return c.set(name, tensor.From(list, len(list)), graph.IntsAttr(name, list...))
}

// int sets a number: an operand of one is a scalar, or a vector of one element for TopK.
func (c *call) int(name string, v int) *call {
	t := tensor.Scalar(int64(v))
	if c.op == "TopK" {
		t = tensor.From([]int64{int64(v)}, 1)
	}
	return c.set(name, t, graph.IntAttr(name, int64(v)))
}

// flag sets a number to 0 or 1, or leaves it out.
func (c *call) flag(name string) *call {
	if k := c.m.r.IntN(3); k < 2 {
		return c.int(name, k)
	}
	return c
}

// float sets a number, of the type of the first operand where it is an operand.
func (c *call) float(name string, v float64) *call {
	dt := tensor.Float32
	if t := c.m.c.Values[c.inputs[0]]; t != nil {
		dt = t.DType
	}
	t, err := tensor.New(dt)
	if err == nil {
		err = tensor.Encode(t, []float64{v})
	}
	if c.m.err == nil {
		c.m.err = err
	}
	return c.set(name, t, graph.FloatAttr(name, float32(v)))
}

func (c *call) text(name, v string) *call {
	if c.attr(name) {
		c.attrs = append(c.attrs, graph.StringAttr(name, v))
	}
	return c
}

// out adds the node with so many outputs.
func (c *call) out(outputs int) []*graph.Value {
	return c.m.node(graph.NodeSpec{Op: graph.Op{Domain: c.domain, Name: c.op, Since: c.schema.Since}, Attrs: c.attrs, Inputs: c.inputs}, outputs)
}

// one adds the node with one output.
func (c *call) one() *graph.Value { return c.out(1)[0] }

// types returns the element types of an operand that cases can be made of.
func (c *call) types(port int) []tensor.DType {
	if port >= len(c.schema.Inputs) {
		return nil
	}
	var out []tensor.DType
	for _, dt := range testedTypes {
		name := dt.Name()
		switch dt {
		case tensor.Float32:
			name = "float"
		case tensor.Float64:
			name = "double"
		}
		if slices.Contains(c.schema.Types[c.schema.Inputs[port].Type], "tensor("+name+")") {
			out = append(out, dt)
		}
	}
	return out
}
