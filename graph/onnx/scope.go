package onnx

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// loader builds a graph from the messages of a model.
type loader struct {
	ctx     context.Context
	o       Options
	proto   *modelProto
	data    *dataFiles
	top     *graph.Graph
	symbols map[string]string // names of the model's dims, and their symbols
	taken   *names            // symbols
	dense   int               // bytes that sparse tensors may still take
	nodes   int               // nodes that may still be made
	inlined int               // those of them that functions may make
	labels  int               // bytes that composed names may still take
	polls   int               // of the context
}

// scope is where names are looked up: a graph of the file, or the body of one call of a function.
type scope struct {
	parent *scope // around it in the file; nil for the model's graph and for functions
	frame  *frame // where its nodes go
	values map[string]*graph.Value
	types  map[string][]byte
	opsets map[string]int
	label  string            // before the names of its nodes: "", "owner/attribute/" or "caller/"
	prefix string            // before the names of its values: those of functions get their caller's name
	rename map[string]string // results of a function: what the caller calls them
	attrs  map[string]binding
	call   *call
	dims   *innerDims
	count  map[string]int // how many nodes bear a name
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

// resolve returns the value of a name, in the graph that s builds. A nil value stands for an omitted argument of a
// function.
func (s *scope) resolve(name string) (*graph.Value, error) {
	for at := s; at != nil; at = at.parent {
		if v, ok := at.values[name]; ok {
			return s.frame.bring(v), nil
		}
	}
	return nil, ErrDangling
}

// define gives a name its value.
func (s *scope) define(name string, v *graph.Value) error {
	if _, ok := s.values[name]; ok {
		return fmt.Errorf("%w in one graph", ErrDuplicate)
	}
	s.values[name] = v
	return nil
}

// valueName returns the name in the graph for a name of the file.
func (l *loader) valueName(s *scope, name string) (string, error) {
	if r, ok := s.rename[name]; ok {
		return r, nil
	}
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
	name := n.name
	if name == "" || s.count[name] > 1 {
		if first := n.firstOutput(); first != "" {
			name = first
		} else if name == "" {
			name = fmt.Sprintf("%s_%d", n.op, i)
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

// countNames fills s.count.
func (s *scope) countNames(nodes []nodeProto) {
	s.count = make(map[string]int, len(nodes))
	for i := range nodes {
		if n := nodes[i].name; n != "" {
			s.count[n]++
		}
	}
}

// order returns the indices of nodes in a topological order: the file's own where it is one, else that with every node
// preceded by what it needs. The error wraps ErrCycle or ErrDuplicate.
func (s *scope) order(nodes []nodeProto) ([]int, error) {
	producer := make(map[string]int, len(nodes))
	for i := range nodes {
		for _, out := range nodes[i].out {
			if out == "" {
				continue
			}
			_, defined := s.values[out]
			if _, twice := producer[out]; twice || defined {
				return nil, at(fmt.Errorf("%w in one graph", ErrDuplicate), nodes[i].label(i), out)
			}
			producer[out] = i
		}
	}
	order := make([]int, 0, len(nodes))
	const (
		open = 1
		done = 2
	)
	state := make([]uint8, len(nodes))
	type step struct {
		node int
		deps []int
	}
	deps := func(i int) (out []int) {
		nodes[i].eachName(func(name string) {
			if p, ok := producer[name]; ok && state[p] != done {
				out = append(out, p)
			}
		})
		return out
	}
	for root := range nodes {
		if state[root] != 0 {
			continue
		}
		state[root] = open
		stack := []step{{root, deps(root)}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.deps) == 0 {
				state[top.node] = done
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			p := top.deps[0]
			top.deps = top.deps[1:]
			switch state[p] {
			case open:
				return nil, at(fmt.Errorf("%w", ErrCycle), nodes[p].label(p), nodes[p].firstOutput())
			case 0:
				state[p] = open
				stack = append(stack, step{p, deps(p)})
			}
		}
	}
	return order, nil
}
