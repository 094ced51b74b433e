package carve

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// ownConstants gives groups that read constants as the model stores them copies of their own where that is needed: all of
// them under Options.CopyWeights, so that the model's file is not read after Compile, and otherwise those that a file
// holds at an address unfit for their dtype. Equal constants are copied once.
func (c *compilation) ownConstants() error {
	copies := map[*tensor.Tensor]*tensor.Tensor{}
	own := func(g *graph.Graph) error {
		for v := range g.Constants() {
			if !v.IsConst() || v.Format != graph.HostFormat || v.Const.DType == tensor.String {
				continue
			}
			t := v.Const
			if !c.o.CopyWeights && !misaligned(t, t.DType.Size()) {
				continue
			}
			if copies[t] == nil {
				own, err := t.Clone()
				if err != nil {
					return err
				}
				copies[t] = own
			}
			v.Const = copies[t]
		}
		return nil
	}
	return c.blocks(func(g *graph.Graph) error {
		if err := own(g); err != nil {
			return err
		}
		for _, gr := range c.results[g].Groups {
			if err := own(gr.Body); err != nil {
				return err
			}
		}
		return nil
	})
}
