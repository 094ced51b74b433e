package mxnet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Opset is the version of ONNX's operators that symbols are translated to.
const Opset = 24

// Domain is the domain of MXNet's operators that ONNX has no words for.
const Domain = "mxnet"

// translator makes a graph of a symbol.
type translator struct {
	ctx    context.Context
	o      Options
	params map[string]*tensor.Tensor
	budget int // nodes that may still be made
	made   int // bytes of constants
	depth  int
	real   map[*graph.Value]bool // results that MXNet holds as int32 and the graph as the numbers that they stand for
	labels map[string]int        // of nodes, which MXNet may give twice
	open   map[*graph.Value]bool // zeros of a shape that MXNet infers from the reader
}

// scope is a graph that is being made: the model's or a body's.
type scope struct {
	t       *translator
	g       *graph.Graph
	sym     *Symbol
	prefix  string
	values  [][]*graph.Value // results by node; nil where there are none yet
	scalars map[scalarKey]*graph.Value
	asked   []Entry // what run was asked for
}

func (t *translator) scope(g *graph.Graph, s *Symbol, prefix string) *scope {
	return &scope{t: t, g: g, sym: s, prefix: prefix, values: make([][]*graph.Value, len(s.Nodes)), scalars: map[scalarKey]*graph.Value{}}
}

// needed returns which nodes the heads need. What an output head gets for training only is not followed.
func (s *Symbol) needed(heads []Entry) []bool {
	need := make([]bool, len(s.Nodes))
	for _, e := range heads {
		need[e.Node] = true
	}
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		if !need[i] {
			continue
		}
		n := &s.Nodes[i]
		for k, e := range n.Inputs {
			if k == 0 || !labelled(n.Op) {
				need[e.Node] = true
			}
		}
	}
	return need
}

// labelled reports operators whose inputs but the first are labels, which nobody has in inference.
func labelled(name string) bool {
	switch name {
	case "SoftmaxOutput", "Softmax", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput", "SVMOutput":
		return true
	}
	return false
}

// run translates the nodes that the heads need, and returns the heads. Variables have their values already.
func (s *scope) run(heads []Entry) ([]*graph.Value, error) {
	need := s.sym.needed(heads)
	s.asked = heads
	for i := range s.sym.Nodes {
		if !need[i] || s.values[i] != nil {
			continue
		}
		if err := s.t.ctx.Err(); err != nil {
			return nil, err
		}
		n := &s.sym.Nodes[i]
		out, err := s.translate(n)
		if err != nil {
			var own *Error
			if !errors.As(err, &own) {
				own = &Error{Offset: n.Offset, Err: err}
			}
			return nil, located(own, "", s.prefix+n.Name)
		}
		s.values[i] = out
	}
	out := make([]*graph.Value, len(heads))
	for i, e := range heads {
		v, err := s.value(e)
		if err == nil && s.t.real[v] {
			err = fmt.Errorf("%w: a result in 32-bit integers that is not quantised again", ErrUnsupported)
		}
		if err != nil {
			n := &s.sym.Nodes[e.Node]
			return nil, &Error{Op: "load", Node: s.prefix + n.Name, Offset: n.Offset, Err: err}
		}
		out[i] = v
	}
	return out, nil
}

// value returns a result of a node that was translated.
func (s *scope) value(e Entry) (*graph.Value, error) {
	list, n := s.values[e.Node], &s.sym.Nodes[e.Node]
	switch {
	case e.Index >= len(list):
		return nil, fmt.Errorf("%w: output %d of %.80q (%.80s), which has %d", ErrInputs, e.Index, n.Name, n.Op, len(list))
	case list[e.Index] == nil:
		return nil, fmt.Errorf("%w: output %d of %.80q (%.80s), which is for training", ErrUnsupported, e.Index, n.Name, n.Op)
	}
	return list[e.Index], nil
}

// label returns a name for a node: its own, with a number where others have it.
func (t *translator) label(name string) string {
	for k := t.labels[name]; ; k++ {
		try := name
		if k > 0 {
			try = fmt.Sprintf("%s_%d", name, k)
		}
		if _, taken := t.labels[try]; !taken {
			t.labels[name] = k
			t.labels[try] = max(t.labels[try], 1)
			return try
		}
	}
}

// translate adds what a node stands for.
func (s *scope) translate(n *Node) (out []*graph.Value, err error) {
	kind, ok := operators()[n.Op]
	if !ok {
		return nil, fmt.Errorf("%w: %.80q", ErrOperator, n.Op)
	}
	if kind.do == nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrUnsupported, n.Op, kind.note)
	}
	o := &op{scope: s, n: n, kind: n.Op, label: s.t.label(s.prefix + n.Name)}
	if first, second := secondNames[n.Op]; second {
		o.kind = first
	}
	for k, e := range n.Inputs {
		if k > 0 && labelled(n.Op) {
			break
		}
		v, err := s.value(e)
		if err != nil {
			return nil, err
		}
		if s.t.real[v] && !kind.takesReal {
			return nil, fmt.Errorf("%w: input %d is in 32-bit integers", ErrUnsupported, k)
		}
		o.in = append(o.in, v)
	}
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(fault)
			if !ok {
				panic(r)
			}
			out, err = nil, f.err
		}
	}()
	out = kind.do(o)
	if key, ok := o.unread(); ok {
		o.fail(ErrAttribute, "%.80s is no attribute of %s", key, n.Op)
	}
	o.name(out)
	return out, nil
}

// used reports whether a node or a head reads a result of the operator.
func (o *op) used(index int) bool {
	reads := func(e Entry) bool { return &o.sym.Nodes[e.Node] == o.n && e.Index == index }
	return slices.ContainsFunc(o.asked, reads) ||
		slices.ContainsFunc(o.sym.Nodes, func(n Node) bool { return slices.ContainsFunc(n.Inputs, reads) })
}

// name gives the results MXNet's names, and the node that makes the first the operator's.
func (o *op) name(out []*graph.Value) {
	for i, v := range out {
		if v == nil || v.Producer == nil || !slices.Contains(o.nodes, v.Producer) {
			continue
		}
		v.Name = outputName(o.label, o.n.Op, i, len(out))
		if i == 0 {
			v.Producer.Name = o.label
		}
	}
}

// outputNames are names of results where they are not output.
var outputNames = map[string][]string{
	"RNN":                             {"output", "state", "statecell"},
	"LeakyReLU":                       {"output", "mask"},
	"BatchNorm":                       {"output", "mean", "var"},
	"LayerNorm":                       {"output", "mean", "std"},
	"GroupNorm":                       {"output", "mean", "std"},
	"moments":                         {"mean", "var"},
	"_contrib_quantize_asym":          {"output", "scale", "shift"},
	"_contrib_quantized_rnn":          {"output", "state_output", "statecell_ouput"}, //nolint:misspell // as MXNet writes it
	"_contrib_DeformablePSROIPooling": {"output", "top_count"},
	"_npi_std":                        {"std", "mean"},
	"_npi_var":                        {"var", "mean"},
}

// outputName returns what MXNet calls a result.
func outputName(node, op string, i, n int) string {
	if list := outputNames[op]; i < len(list) {
		return node + "_" + list[i]
	}
	if n == 1 {
		return node + "_output"
	}
	return fmt.Sprintf("%s_output%d", node, i)
}

// variables gives every variable that is needed a value: a constant where there are parameters, else an input, in the order
// of the symbol.
func (s *scope) variables(need []bool) error {
	hints := s.inputHints(need)
	for i := range s.sym.Nodes {
		n := &s.sym.Nodes[i]
		if !need[i] || !n.IsVariable() {
			continue
		}
		if t, ok := s.t.params[n.Name]; ok {
			if t == nil {
				return &Error{Op: "load", Node: n.Name, Offset: n.Offset, Err: fmt.Errorf("%w: the array is none", ErrParameter)}
			}
			s.values[i] = []*graph.Value{s.g.AddConst(n.Name, t)}
			continue
		}
		if hints[i].parameter {
			return &Error{Op: "load", Node: n.Name, Offset: n.Offset, Err: fmt.Errorf("%w: neither a file of parameters nor Options.Shapes has it", ErrParameter)}
		}
		t, err := s.inputType(n, hints[i])
		if err != nil {
			return &Error{Op: "load", Node: n.Name, Offset: n.Offset, Err: err}
		}
		s.values[i] = []*graph.Value{s.g.AddInput(n.Name, t)}
	}
	return nil
}

// inputType returns type and shape of an input: as Options say, as the variable's attributes do, or as its readers want it.
func (s *scope) inputType(n *Node, h hint) (graph.Type, error) {
	o := op{scope: s, n: n}
	dt := h.dtype
	if v, ok := n.Attr("__dtype__"); ok {
		code, ok1 := parseInt(v)
		known, ok2 := typeOf(code)
		if ok1 && ok2 {
			dt = known
		}
	}
	if given, ok := s.t.o.Types[n.Name]; ok {
		dt = given
	}
	if dt == tensor.Invalid {
		dt = tensor.Float32
	}
	if given, ok := s.t.o.Shapes[n.Name]; ok {
		shape := make(graph.Shape, len(given))
		for i, d := range given {
			if d < -1 || int64(d) > 1<<40 {
				return graph.Type{}, fmt.Errorf("%w: shape %v", ErrAttribute, given)
			}
			if shape[i] = graph.D(d); d == -1 {
				shape[i] = symbolFor(n.Name, i)
			}
		}
		return graph.TensorType(dt, shape), nil
	}
	shape := h.shape
	if list, err := o.shapeAttr(); err != nil {
		return graph.Type{}, err
	} else if list != nil && (len(list) > 0 || s.sym.NumPy) {
		shape = make(graph.Shape, len(list))
		for i, d := range list {
			switch {
			case d < 0 || d == 0 && !s.sym.NumPy:
				if shape[i] = symbolFor(n.Name, i); len(h.shape) == len(list) {
					shape[i] = h.shape[i]
				}
			default:
				shape[i] = graph.D(d)
			}
		}
	}
	return graph.TensorType(dt, shape), nil
}

// shapeAttr returns the attribute __shape__; nil where there is none.
func (o *op) shapeAttr() (list []int, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(fault)
			if !ok {
				panic(r)
			}
			err = f.err
		}
	}()
	list, _ = o.list("__shape__")
	return list, nil
}

// symbolFor names a dim of an input that is open: the first is the batch, which inputs have in common.
func symbolFor(input string, axis int) graph.Dim {
	if axis == 0 {
		return graph.Sym("batch")
	}
	plain := strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, input)
	if plain == "" || plain[0] >= '0' && plain[0] <= '9' {
		plain = "_" + plain
	}
	return graph.Sym(fmt.Sprintf("%s_%d", plain, axis))
}
