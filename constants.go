package carve

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// ownConstants gives groups that read constants as the model stores them copies of their own where that is needed: all of
// them under Options.CopyWeights, so that the model's file is not read after Compile, and otherwise those that a file
// holds at an address unfit for their dtype. The defaults of inputs are treated alike. Equal constants are copied once,
// however often groups are compiled.
func (c *compilation) ownConstants() error {
	var mapped []*tensor.Tensor
	want := func(t *tensor.Tensor) bool {
		if t.DType == tensor.String || !c.o.CopyWeights && !misaligned(t, t.DType.Size()) {
			return false
		}
		if _, ok := c.copies[t]; !ok {
			c.copies[t] = nil
			mapped = append(mapped, t)
		}
		return true
	}
	var values []*graph.Value
	collect := func(g *graph.Graph) {
		for v := range g.Constants() {
			if v.IsConst() && v.Format == graph.HostFormat && want(v.Const) {
				values = append(values, v)
			}
		}
	}
	err := c.blocks(func(g *graph.Graph) error {
		collect(g)
		for _, gr := range c.results[g].Groups {
			collect(gr.Body)
		}
		return nil
	})
	if err != nil {
		return err
	}
	defaults := c.model.defaults()
	for _, name := range sortedKeys(defaults) {
		want(defaults[name])
	}
	if err := c.copyOut(mapped); err != nil {
		return err
	}
	for _, v := range values {
		v.Const = c.copies[v.Const]
	}
	return nil
}

// copyOut fills c.copies for a list of tensors, with one block of memory outside of Go's heap.
func (c *compilation) copyOut(list []*tensor.Tensor) error {
	var total int64
	for _, t := range list {
		total += (int64(t.NumBytes()) + packSlack + packAlign - 1) / packAlign * packAlign
	}
	if total == 0 {
		return nil
	}
	block, err := device.Host.Alloc(total)
	if err != nil {
		return err
	}
	c.copied.blocks = append(c.copied.blocks, ownedMemory{device.Host, block})
	c.copied.bytes += block.Size
	for off, i := int64(0), 0; i < len(list); i++ {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		t := list[i]
		if !t.IsCompact() {
			if t, err = t.Clone(); err != nil {
				return err
			}
		}
		n := int64(t.NumBytes())
		data := block.Data[off : off+n : off+n]
		copy(data, t.Bytes())
		c.copies[list[i]] = &tensor.Tensor{DType: t.DType, Shape: t.Shape, Data: data}
		off += (n + packSlack + packAlign - 1) / packAlign * packAlign
	}
	return nil
}
