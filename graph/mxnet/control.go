package mxnet

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

func controlOperators() map[string]operator {
	return map[string]operator{
		"_foreach": {do: foreach}, "_npx_foreach": {do: foreach}, "_while_loop": {do: whileLoop}, "_npx_while_loop": {do: whileLoop},
		"_cond": {do: cond}, "_npx_cond": {do: cond}, "_CachedOp": {do: cachedOp},
	}
}

// body is a subgraph that is being translated in a graph of its own, a region.
type body struct {
	*scope
	o        *op
	captures []*graph.Value // of the graph around it, one for each capture of the region
	inner    map[*graph.Value]*graph.Value
}

func (o *op) region(s *Symbol, name string) *body {
	if o.t.depth++; o.t.depth > maxDepth {
		o.fail(ErrTooLarge, "bodies nested deeper than %d", maxDepth)
	}
	g := graph.New(name)
	g.Opsets[""] = Opset // until it has an owner
	return &body{scope: o.t.scope(g, s, o.label+"/"+name+"/"), o: o, inner: map[*graph.Value]*graph.Value{}}
}

// outer returns what stands in the region for a value of the graph around it: a constant for a constant, else a capture.
func (b *body) outer(v *graph.Value) *graph.Value {
	if in := b.inner[v]; in != nil {
		return in
	}
	var in *graph.Value
	if v.Const != nil {
		in = b.g.AddConst(v.Name, v.Const)
	} else {
		in = b.g.AddCapture(v.Name, v.Type)
		b.captures = append(b.captures, v)
	}
	b.inner[v] = in
	return in
}

// subgraph returns body i of the node, and the places of its variables.
func (o *op) subgraph(i, want int) (*Symbol, []int) {
	o.require(len(o.n.Subgraphs) == want, "%d bodies are expected, found %d", want, len(o.n.Subgraphs))
	s := o.n.Subgraphs[i]
	var vars []int
	for k := range s.Nodes {
		if s.Nodes[k].IsVariable() && s.Nodes[k].Offset >= 0 {
			vars = append(vars, k)
		}
	}
	return s, vars
}

// places reads an attribute that lists numbers below n.
func (o *op) places(key string, n int) []int {
	list, _ := o.list(key)
	for _, x := range list {
		if x < 0 || x >= n {
			o.fail(ErrAttribute, "%s: %d is no number below %d", key, x, n)
		}
	}
	return list
}

// heads translates the body, whose variables are set, and returns what it computes.
func (b *body) heads() []*graph.Value {
	b.o.t.depth--
	out, err := b.run(b.sym.Heads)
	if err != nil {
		panic(fault{err})
	}
	return out
}

// inline translates a subgraph into the graph of o itself, with these values for its variables.
func (o *op) inline(s *Symbol, vars []int, name string, values []*graph.Value) []*graph.Value {
	o.require(len(vars) == len(values), "%d values for %d variables", len(values), len(vars))
	in := o.t.scope(o.g, s, o.label+"/"+name+"/")
	in.scalars = o.scalars
	for i, k := range vars {
		in.values[k] = []*graph.Value{values[i]}
	}
	if o.t.depth++; o.t.depth > maxDepth {
		o.fail(ErrTooLarge, "bodies nested deeper than %d", maxDepth)
	}
	out, err := in.run(s.Heads)
	o.t.depth--
	if err != nil {
		panic(fault{err})
	}
	return out
}

// seal makes values outputs of the region. A value that the region only passes on, or gives twice, goes through an Identity.
// Types of results are left to the inference of the node that gets the region: symbols made here have names of their own.
func (b *body) seal(out []*graph.Value) *graph.Graph {
	seen := map[*graph.Value]bool{}
	list := make([]*graph.Value, len(out))
	for i, v := range out {
		if v.Producer == nil || seen[v] {
			n := b.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Identity"}, Name: fmt.Sprintf("%sout%d", b.prefix, i), Inputs: []*graph.Value{v}, Outputs: []string{""}})
			v = n.Outputs[0]
		}
		seen[v] = true
		list[i] = v
	}
	b.g.SetOutputs(list...)
	delete(b.g.Opsets, "")
	for n := range b.g.Nodes() {
		for _, v := range n.Outputs {
			if v != nil {
				v.Type, v.Dims = graph.Type{}, nil
			}
		}
	}
	return b.g
}

// foreach runs its body for each slice of the data along the first axis, and carries states: a Scan.
func foreach(o *op) []*graph.Value {
	o.ignore("num_args")
	s, vars := o.subgraph(0, 1)
	data, states, remain := o.places("in_data_locs", len(vars)), o.places("in_state_locs", len(vars)), o.places("remain_locs", len(vars))
	outs, outData := o.required("num_outputs"), o.required("num_out_data")
	o.require(len(data) > 0 && len(o.in) == len(data)+len(states)+len(remain) && len(vars) == len(o.in), "%d inputs for %d variables", len(o.in), len(vars))
	o.require(outData >= 0 && outs == outData+len(states) && len(s.Heads) == outs, "%d outputs of %d are data, with %d states", outData, outs, len(states))
	b := o.region(s, "body")
	set := func(v *graph.Value, where int) { b.values[vars[where]] = []*graph.Value{v} }
	ins := []*graph.Value{}
	for i, where := range states {
		v := o.input(len(data) + i)
		ins = append(ins, v)
		set(b.g.AddInput(fmt.Sprintf("state%d", i), v.Type), where)
	}
	for i, where := range data {
		v := o.input(i)
		ins = append(ins, v)
		shape := o.shape(v)
		o.require(len(shape) > 0, "data of rank 0")
		set(b.g.AddInput(fmt.Sprintf("data%d", i), graph.TensorType(o.typeOf(v), shape[1:])), where)
	}
	for i, where := range remain {
		set(b.outer(o.input(len(data)+len(states)+i)), where)
	}
	heads := b.heads()
	g := b.seal(append(heads[outData:], heads[:outData]...))
	n := o.add(graph.NodeSpec{Op: graph.Op{Name: "Scan"}, Attrs: attrs(graph.IntAttr("num_scan_inputs", int64(len(data)))), Inputs: ins,
		Captures: b.captures, Outputs: make([]string, outs), Regions: []graph.Region{{Name: "body", Graph: g}}})
	return append(append([]*graph.Value{}, n.Outputs[len(states):]...), n.Outputs[:len(states)]...)
}

// verdictOf makes a truth value of rank 0 of a body's only result.
func (o *op) verdictOf(list []*graph.Value) *graph.Value {
	o.require(len(list) == 1, "a condition with %d results", len(list))
	return o.reshape(o.truth(list[0]))
}

// whileLoop runs its body while a condition of the loop's variables holds, at most so many times: a Loop. What the body gives in
// each step is stacked and filled up with zeros to the most steps that there may be.
func whileLoop(o *op) []*graph.Value {
	o.ignore("num_args")
	test, testVars := o.subgraph(0, 2)
	do, doVars := o.subgraph(1, 2)
	testIn, doIn := o.places("cond_input_locs", len(o.in)), o.places("func_input_locs", len(o.in))
	loop := o.places("func_var_locs", len(doIn))
	most, outs, outData := o.required("max_iterations"), o.required("num_outputs"), o.required("num_out_data")
	o.require(len(testIn) == len(testVars) && len(doIn) == len(doVars), "%d and %d inputs for %d and %d variables", len(testIn), len(doIn), len(testVars), len(doVars))
	o.require(most >= 0 && outData >= 0 && outs == outData+len(loop) && len(do.Heads) == outs, "%d outputs of %d are data, with %d variables", outData, outs, len(loop))
	first := make([]*graph.Value, len(testIn))
	for i, k := range testIn {
		first[i] = o.input(k)
	}
	start := o.verdictOf(o.inline(test, testVars, "cond", first))

	b := o.region(do, "body")
	b.g.AddInput("iteration", graph.TensorType(tensor.Int64, graph.Shape{}))
	b.g.AddInput("go", graph.TensorType(tensor.Bool, graph.Shape{}))
	ins := []*graph.Value{o.scalar(tensor.Int64, float64(most)), start}
	carried := map[int]int{} // loop variable by the node's input
	for i, k := range loop {
		v := o.input(doIn[k])
		carried[doIn[k]] = i
		ins = append(ins, v)
		b.values[doVars[k]] = []*graph.Value{b.g.AddInput(fmt.Sprintf("var%d", i), v.Type)}
	}
	for k := range doVars {
		if b.values[doVars[k]] == nil {
			b.values[doVars[k]] = []*graph.Value{b.outer(o.input(doIn[k]))}
		}
	}
	heads := b.heads()
	next := make([]*graph.Value, len(testIn))
	for i, k := range testIn {
		if v, ok := carried[k]; ok {
			next[i] = heads[outData+v]
		} else {
			next[i] = b.outer(o.input(k))
		}
	}
	inner := &op{scope: b.scope, n: o.n, label: o.label + "/next"}
	again := inner.verdictOf(inner.inline(test, testVars, "cond", next))
	g := b.seal(append(append([]*graph.Value{again}, heads[outData:]...), heads[:outData]...))
	n := o.add(graph.NodeSpec{Op: graph.Op{Name: "Loop"}, Inputs: ins, Captures: b.captures, Outputs: make([]string, outs),
		Regions: []graph.Region{{Name: "body", Graph: g}}})
	out := []*graph.Value{}
	for _, v := range n.Outputs[len(loop):] {
		out = append(out, o.filledUp(v, most))
	}
	return append(out, n.Outputs[:len(loop)]...)
}

// filledUp appends zeros along the first axis until there are n.
func (o *op) filledUp(x *graph.Value, n int) *graph.Value {
	rank := o.rank(x)
	var pads []extent
	for range 2 * rank {
		pads = append(pads, fixed(0))
	}
	pads[rank] = o.sub(fixed(n), o.dim(x, 0))
	dims := o.dims(x)
	dims[0] = fixed(n)
	for i := range dims {
		dims[i].of = nil
	}
	if n == 0 || rank > 1 && dims[1].v == nil && dims[1].n == 0 {
		return o.call("Pad", nil, x, o.vector(pads...), o.like(x, 0))
	}
	return o.reshape(o.call("Pad", nil, x, o.vector(pads...), o.like(x, 0)), dims...)
}

// cond runs one of two bodies: an If.
func cond(o *op) []*graph.Value {
	o.ignore("num_args")
	test, testVars := o.subgraph(0, 3)
	outs := o.required("num_outputs")
	testIn := o.places("cond_input_locs", len(o.in))
	values := make([]*graph.Value, len(testIn))
	for i, k := range testIn {
		values[i] = o.input(k)
	}
	verdict := o.verdictOf(o.inline(test, testVars, "cond", values))
	var regions []graph.Region
	var captures []*graph.Value
	var bodies []*body
	for i, name := range []string{"then", "else"} {
		s, vars := o.subgraph(i+1, 3)
		where := o.places(name+"_input_locs", len(o.in))
		o.require(len(where) == len(vars) && len(s.Heads) == outs, "%d inputs for %d variables, %d outputs of %d", len(where), len(vars), len(s.Heads), outs)
		b := o.region(s, name)
		// Both branches have the same captures.
		for _, c := range captures {
			b.outer(c)
		}
		for k, v := range vars {
			b.values[v] = []*graph.Value{b.outer(o.input(where[k]))}
		}
		captures = b.captures
		bodies = append(bodies, b)
		regions = append(regions, graph.Region{Name: name + "_branch"})
	}
	for i, b := range bodies {
		heads := b.heads()
		for _, c := range captures {
			b.outer(c)
		}
		regions[i].Graph = b.seal(heads)
	}
	n := o.add(graph.NodeSpec{Op: graph.Op{Name: "If"}, Inputs: []*graph.Value{verdict}, Captures: captures, Outputs: make([]string, outs), Regions: regions})
	return n.Outputs
}

// cachedOp is a part of the graph that a partitioner put into a node of its own.
func cachedOp(o *op) []*graph.Value {
	o.ignore("static_alloc", "static_shape", "inline_limit", "forward_bulk_size", "backward_bulk_size", "data_indices", "param_indices", "subgraph", "is_dynamic")
	s, vars := o.subgraph(0, 1)
	return o.inline(s, vars, "body", o.in)
}
