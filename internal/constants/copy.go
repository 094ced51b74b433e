package constants

import (
	"context"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Copies are copies of constants as the model stores them, in memory outside of Go's heap: so that the model's file is not
// read later, or because their address there is unfit for their dtype. The zero value is empty. It is used by one goroutine
// at a time.
type Copies struct {
	made      map[*tensor.Tensor]*tensor.Tensor
	allocated []allocation
	bytes     int64
}

// Of returns the copy of a tensor, nil where there is none.
func (c *Copies) Of(t *tensor.Tensor) *tensor.Tensor { return c.made[t] }

// Bytes returns the memory that the copies take.
func (c *Copies) Bytes() int64 { return c.bytes }

// Free gives the memory back.
func (c *Copies) Free() {
	for _, b := range c.allocated {
		b.device.Free(b.mem)
	}
	*c = Copies{}
}

// Add copies what of a list, of host tensors that are not of strings, has not been copied yet. The copies lie in one allocation.
func (c *Copies) Add(ctx context.Context, host device.Device, list []*tensor.Tensor) error {
	var total int64
	var missing []*tensor.Tensor
	seen := map[*tensor.Tensor]bool{}
	for _, t := range list {
		if c.made[t] == nil && !seen[t] {
			seen[t] = true
			missing = append(missing, t)
			total += slot(int64(t.NumBytes()))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	mem, err := host.Alloc(total)
	if err != nil {
		return err
	}
	c.allocated = append(c.allocated, allocation{host, mem})
	c.bytes += mem.Size
	if c.made == nil {
		c.made = map[*tensor.Tensor]*tensor.Tensor{}
	}
	off := int64(0)
	for _, t := range missing {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := t
		if !t.IsCompact() {
			if from, err = t.Clone(); err != nil {
				return err
			}
		}
		n := int64(from.NumBytes())
		data := mem.Data[off : off+n : off+n]
		copy(data, from.Bytes())
		c.made[t] = &tensor.Tensor{DType: t.DType, Shape: t.Shape, Data: data}
		off += slot(n)
	}
	return nil
}
