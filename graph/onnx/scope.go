package onnx

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// loader builds a graph from the messages of a model.
type loader struct {
	ctx         context.Context
	o           Options
	proto       *modelProto
	data        *dataFiles
	top         *graph.Graph
	words       words             // names of dims
	symbols     map[string]string // names of the model's dims, and their symbols
	taken       *names            // symbols
	parse       tensor.ProtoOptions
	inputs      []*graph.Value           // storage for those of a node under construction
	outputs     []string                 // the same for the names of its outputs
	overridable []string                 // initializers that the model offers as inputs
	dense       int                      // bytes that sparse tensors may still take
	nodes       int                      // nodes that may still be made
	inlined     int                      // those of them that functions may make
	labels      int                      // bytes that composed names may still take
	polls       int                      // of the context
	weights     map[*byte]*tensor.Tensor // those of Options.Weights, by their first byte
}

// scope is where names are looked up: a graph of the file, or the body of one call of a function.
type scope struct {
	parent  *scope         // around it in the file; nil for the model's graph and for functions
	frame   *frame         // where its nodes go
	body    *body          // whose names it looks up
	outer   []int32        // of body's names: their numbers in parent's body
	values  []*graph.Value // by name; nil where it is not defined yet, omitted where it stands for no value
	opsets  *opsets
	label   string           // before the names of its nodes: "", "owner/attribute/" or "caller/"
	prefix  string           // before the names of its values: those of functions get their caller's name
	rename  map[int32]string // results of a function: what the caller calls them
	attrs   map[string]binding
	call    *call
	dims    *innerDims
	bearers []uint8 // by name: how many nodes bear it, 2 for more

	gradients []*graph.Node // Gradient nodes, where values are named otherwise than in the graph
}

// call is one call of a function on the way to where the loader is.
type call struct {
	parent *call
	fn     *functionProto
	depth  int
}

// binding is an attribute given to a function: as it stands in the file, and the scope in which it stands.
type binding struct {
	attr  *attrProto
	scope *scope
}

// frame is a graph under construction. Its parent is the graph of the node whose region it will be.
type frame struct {
	g      *graph.Graph
	parent *frame
	depth  int
	set    *captures // shared by the regions of one node; nil for the model's graph
	memo   map[*graph.Value]*graph.Value
	names  *names // of its values; nil where they cannot clash
}

// captures are what the regions of a node under construction use of the graph around it.
type captures struct {
	outer []*graph.Value
	index map[*graph.Value]int
	in    []*frame // the regions that exist so far
}

// addRegion makes the graph of one more region. It has a parameter for every capture so far.
func (c *captures) addRegion(name string, parent *frame) *frame {
	f := &frame{g: graph.New(name), parent: parent, depth: parent.depth + 1, set: c, memo: map[*graph.Value]*graph.Value{}, names: newNames()}
	for _, v := range c.outer {
		f.addParam(v)
	}
	c.in = append(c.in, f)
	return f
}

func (f *frame) addParam(v *graph.Value) {
	f.memo[v] = f.g.AddCapture(f.unique(v.Name), v.Type)
	f.memo[v].Dims = v.Dims
}

func (f *frame) unique(name string) string {
	if f.names == nil || name == "" {
		return name
	}
	return f.names.unique(name)
}

// bring returns what stands in f for a value of a graph around it: a constant that shares its tensor, or a capture.
func (f *frame) bring(v *graph.Value) *graph.Value {
	if v == nil || v.Graph() == f.g {
		return v
	}
	if in := f.memo[v]; in != nil {
		return in
	}
	if t := constantOf(v); t != nil {
		in := f.g.AddConst(f.unique(v.Name), t)
		f.memo[v] = in
		return in
	}
	outer := f.parent.bring(v)
	if _, ok := f.set.index[outer]; !ok {
		if f.set.index == nil {
			f.set.index = map[*graph.Value]int{}
		}
		f.set.index[outer] = len(f.set.outer)
		f.set.outer = append(f.set.outer, outer)
		for _, in := range f.set.in {
			in.addParam(outer)
		}
	}
	f.memo[v] = f.memo[outer]
	return f.memo[v]
}

// constantOf returns the data of a constant, or of the result of a node Constant.
func constantOf(v *graph.Value) *tensor.Tensor {
	if v.Const != nil {
		return v.Const
	}
	if v.Producer != nil && v.Producer.Is("Constant") {
		return v.Producer.TensorAttr("value")
	}
	return nil
}

// omitted stands for an argument of a function that the call omits, and for names that are taken already.
var omitted = new(graph.Value)

// resolve returns the value of a name, in the graph that s builds. A nil value stands for an omitted argument of a
// function.
func (s *scope) resolve(name int32) (*graph.Value, error) {
	for at := s; ; at = at.parent {
		switch v := at.values[name]; {
		case v == omitted:
			return nil, nil
		case v != nil:
			return s.frame.bring(v), nil
		case at.parent == nil || at.outer[name] == 0:
			return nil, ErrDangling
		}
		name = at.outer[name]
	}
}

// define gives a name its value; nil for an argument that is omitted.
func (s *scope) define(name int32, v *graph.Value) error {
	if s.values[name] != nil {
		return fmt.Errorf("%w in one graph", ErrDuplicate)
	}
	if v == nil {
		v = omitted
	}
	s.values[name] = v
	return nil
}

// text returns the name with a number.
func (s *scope) text(name int32) string { return s.body.names[name] }

// valueName returns the name in the graph for a name of the file.
func (l *loader) valueName(s *scope, number int32) (string, error) {
	if r, ok := s.rename[number]; ok {
		return r, nil
	}
	name := s.text(number)
	if s.prefix == "" { // names of the file are reserved
		return name, nil
	}
	if l.labels -= len(s.prefix) + len(name); l.labels < 0 {
		return "", errLabels
	}
	return s.frame.unique(s.prefix + name), nil
}

var errLabels = fmt.Errorf("%w: names of nodes in functions and branches", ErrTooLarge)

// nodeLabel returns the name by which the user knows node i of a list: its own where that is unique, else that of its
// first result, below the name of the branch or call that holds it.
func (l *loader) nodeLabel(s *scope, n *nodeProto, i int) (string, error) {
	name := s.text(n.name)
	if name == "" || s.bearers[n.name] > 1 {
		if first := n.firstOutput(); first != 0 {
			name = s.text(first)
		} else if name == "" {
			name = fmt.Sprintf("%s_%d", n.op.name, i)
		}
	}
	if s.label == "" {
		return name, nil
	}
	if l.labels -= len(s.label) + len(name); l.labels < 0 {
		return "", errLabels
	}
	return s.label + name, nil
}

// countNames fills s.bearers.
func (s *scope) countNames(nodes []nodeProto) {
	s.bearers = make([]uint8, len(s.body.names))
	for i := range nodes {
		s.bearers[nodes[i].name] = min(s.bearers[nodes[i].name]+1, 2)
	}
}

// order returns the indices of nodes in a topological order: the file's own where it is one, else that with every node
// preceded by what it needs. The error wraps ErrCycle or ErrDuplicate.
func (s *scope) order(nodes []nodeProto) ([]int, error) {
	producer := make([]int32, len(s.body.names)) // 1 + the index of the node; 0 for none
	for i := range nodes {
		for _, out := range nodes[i].out() {
			if out == 0 {
				continue
			}
			if producer[out] != 0 || s.values[out] != nil {
				return nil, at(fmt.Errorf("%w in one graph", ErrDuplicate), nodes[i].label(s.body.names, i), s.text(out))
			}
			producer[out] = int32(i + 1)
		}
	}
	order := make([]int, 0, len(nodes))
	const (
		open = 1
		done = 2
	)
	state := make([]uint8, len(nodes))
	type step struct {
		node    int
		missing []int // nodes that it needs and that were not done when it was opened
	}
	missing := func(i int) (out []int) {
		nodes[i].eachName(func(name int32) {
			if p := int(producer[name]) - 1; p >= 0 && state[p] != done {
				out = append(out, p)
			}
		})
		return out
	}
	var stack []step
	for root := range nodes {
		if state[root] != 0 {
			continue
		}
		state[root] = open
		for stack = append(stack[:0], step{root, missing(root)}); len(stack) > 0; {
			top := &stack[len(stack)-1]
			if len(top.missing) == 0 {
				state[top.node] = done
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			p := top.missing[0]
			top.missing = top.missing[1:]
			switch state[p] {
			case open:
				return nil, at(fmt.Errorf("%w", ErrCycle), nodes[p].label(s.body.names, p), s.text(nodes[p].firstOutput()))
			case 0:
				state[p] = open
				stack = append(stack, step{p, missing(p)})
			}
		}
	}
	return order, nil
}
