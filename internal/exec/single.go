package exec

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// single compiles a node alone on a backend, runs it on host operands, and returns its results in the host format, nil for those that
// it leaves out. It runs like any other group, in a session of its own, but falls back nowhere.
func (c *checker) single(ctx context.Context, of *Step, n *graph.Node, bind graph.Bindings, operands []tensor.Value) ([]tensor.Value, error) {
	group, twin, err := isolate(n)
	if group == nil || err != nil {
		return nil, err
	}
	o := c.m.env.Options(of.backend)
	o.Threads = 1
	exe, err := of.backend.Compile(ctx, group.Regions[0].Graph, o)
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	b := groupBlock(group, &Step{exe: exe, backend: of.backend, info: of.info, dynamic: of.dynamic})
	env := c.m.env
	env.Strict, env.Poison, env.Bounds = true, false, nil
	m := &Machine{env: env, spaces: c.m.spaces, main: b}
	s := newSession(m)
	defer s.free()
	spec, err := m.specialize(ctx, b, bind)
	if err != nil {
		return nil, err
	}
	f, err := s.bind(spec)
	if err != nil {
		return nil, err
	}
	defer f.free()
	release, err := c.feed(ctx, f, twin, operands)
	defer release()
	if err != nil {
		return nil, err
	}
	if err := f.prepareDirect(); err != nil {
		return nil, err
	}
	s.run.Begin(1)
	defer s.run.End()
	if err := f.run(ctx); err != nil {
		return nil, err
	}
	results := make([]tensor.Value, len(n.Outputs))
	for k, v := range group.Regions[0].Graph.Outputs {
		got, ok := f.values[b.Outputs[k]].(*tensor.Tensor)
		if !ok {
			continue
		}
		t, err := c.m.toHost(ctx, got, v.Format)
		if err == nil && t == got {
			t, err = got.Clone() // the session's memory ends with it
		}
		if err != nil {
			return nil, err
		}
		results[v.Index] = t
	}
	return results, nil
}

// feed gives the inputs of a block of one group the operands of the node that it holds, in the group's formats. release frees
// what that took.
func (c *checker) feed(ctx context.Context, f *frame, n *graph.Node, operands []tensor.Value) (release func(), err error) {
	var made []func()
	release = func() {
		for _, free := range made {
			free()
		}
	}
	b := f.s.block
	for _, slot := range b.Inputs {
		v := b.Slots[slot].Value
		k := slices.Index(n.Inputs, v)
		if k < 0 {
			return release, fmt.Errorf("%v is captured", v)
		}
		t, ok := operands[k].(*tensor.Tensor)
		if !ok {
			return release, fmt.Errorf("operand %v is no tensor", v)
		}
		if v.Format != graph.HostFormat {
			m, err := c.m.env.Transfer.New(ctx, t, graph.HostFormat, v.Format, nil)
			if err != nil {
				return release, err
			}
			dev := c.m.env.Transfer.Devices[v.Format.Device.Canonical()]
			made = append(made, func() { dev.Free(m) })
			t = &tensor.Tensor{DType: t.DType, Shape: t.Shape, Device: v.Format.Device, Data: m.Data, Handle: m.Handle}
		}
		f.setValue(slot, t)
	}
	return release, nil
}

// isolate makes a Subgraph node of a node, in a copy of its graph; nil for a Convert node. It returns the node's twin in the
// body as well.
func isolate(n *graph.Node) (group, twin *graph.Node, err error) {
	if n.IsCarve(graph.OpConvert) {
		return nil, nil, nil
	}
	whole, err := n.Graph().Clone()
	if err != nil {
		return nil, nil, err
	}
	for m := range whole.Nodes() {
		if m.ID == n.ID {
			twin = m
		}
	}
	if twin == nil {
		return nil, nil, nil
	}
	keep := make([]*graph.Value, 0, len(twin.Outputs))
	for _, v := range twin.Outputs {
		if v != nil {
			keep = append(keep, v)
		}
	}
	whole.SetOutputs(keep...)
	group, err = whole.Extract([]*graph.Node{twin}, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
	if group != nil {
		group.Backend = n.Backend
	}
	return group, twin, err
}

// groupBlock returns a block that consists of one group: its inputs and outputs are the group's, in the group's formats.
func groupBlock(group *graph.Node, st *Step) *Block {
	body := group.Regions[0].Graph
	st.Node, st.Kind, st.state = group, StepGroup, &stepState{}
	b := &Block{Graph: body, lanes: []lane{{}}}
	add := func(v *graph.Value, k SlotKind) int {
		b.Slots = append(b.Slots, Slot{Value: v, Kind: k, direct: -1})
		return len(b.Slots) - 1
	}
	for _, v := range body.Inputs {
		b.Inputs = append(b.Inputs, add(v, SlotInput))
	}
	st.in = b.Inputs
	for v := range body.Constants() {
		st.constants = append(st.constants, v.Const)
	}
	for _, v := range body.Outputs {
		k := SlotPlanned
		if st.dynamic || !v.Type.Backed() {
			k = SlotDynamic
		}
		b.Outputs = append(b.Outputs, add(v, k))
	}
	st.out = b.Outputs
	b.Steps = []Step{*st}
	b.chooseDirect()
	return b
}
