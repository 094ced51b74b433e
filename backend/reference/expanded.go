package reference

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// expanded runs a node by the standard operators that it stands for with operands of such shapes.
func expanded(c *Call) {
	operands := make([]*tensor.Tensor, len(c.Inputs))
	for i := range operands {
		operands[i] = c.optional(i)
	}
	g, err := microsoft.ExpandFor(c.Node, operands)
	c.check("", err)
	values := map[*graph.Value]tensor.Value{}
	valueOf := func(v *graph.Value) tensor.Value {
		if v == nil || v.Const == nil {
			return values[v]
		}
		return v.Const
	}
	for n := range g.Nodes() {
		inner := Call{Ctx: c.Ctx, Node: n, Inputs: make([]tensor.Value, len(n.Inputs)), MaxBytes: c.MaxBytes, Reserve: c.Reserve}
		for i, v := range n.Inputs {
			inner.Inputs[i] = valueOf(v)
		}
		results, err := inner.Run()
		c.check("", err)
		for i, v := range n.Outputs {
			if v != nil {
				values[v] = results[i]
			}
		}
	}
	made := g.Outputs
	for i := range c.results {
		if !c.wants(i) {
			continue
		}
		t := valueOf(made[0]).(*tensor.Tensor)
		made = made[1:]
		if t.DType == tensor.String {
			c.set(i, t)
			continue
		}
		copy(c.result(i, t.DType, t.Shape).Bytes(), t.Bytes())
	}
}
