package carve

import (
	"maps"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/constants"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/partition"
)

// private reports whether a device's memory ends with the Program, because the backend does, which Compile opened, or because
// the Program has an allocator of its own: what lies there is not shared.
func (c *compilation) private(id tensor.DeviceID) bool {
	if id.IsHost() {
		return c.o.Allocator != nil // which may end with the Program
	}
	for _, b := range c.opened.backends {
		for _, d := range b.Devices() {
			if d.ID() == id {
				return true
			}
		}
	}
	return false
}

// pack is the pass that converts constants, once per constant and format: those of the model for all its Programs, those
// that simplification made for this Program alone.
func (c *compilation) pack() error {
	var packs []*partition.Pack
	var list []constants.Request
	if err := c.blocks(func(g *graph.Graph) error {
		for i := range c.results[g].Packs {
			p := &c.results[g].Packs[i]
			packs = append(packs, p)
			list = append(list, constants.Request{Key: constants.Key{Constant: p.Constant, Format: p.Format}, Name: p.Name})
		}
		return nil
	}); err != nil {
		return err
	}
	made, err := c.packer.Pack(c.ctx, list, constants.Job{Threads: c.o.Threads, Progress: c.progress})
	if err != nil {
		return err
	}
	for i, p := range packs {
		p.Packed.Data, p.Packed.Handle = made[i].Data, made[i].Handle
		// Reports need the type; the data of folded constants need not be kept.
		p.Constant = &tensor.Tensor{DType: p.Constant.DType, Shape: p.Constant.Shape}
	}
	return nil
}

// ownConstants is the pass that gives groups which read constants as the model stores them copies of their own where that is
// needed: all of them under Options.CopyWeights, so that the model's file is not read after Compile, and otherwise those
// that a file holds at an address unfit for their dtype. The defaults of inputs are treated alike. Equal constants are
// copied once, however often groups are compiled.
func (c *compilation) ownConstants() error {
	var list []*tensor.Tensor
	var values []*graph.Value
	want := func(t *tensor.Tensor) bool {
		return t.DType != tensor.String && (c.o.CopyWeights || exec.Misaligned(t))
	}
	collect := func(g *graph.Graph) {
		for v := range g.Constants() {
			if v.IsConst() && v.Format == graph.HostFormat && want(v.Const) {
				values, list = append(values, v), append(list, v.Const)
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
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if t := defaults[name]; want(t) {
			list = append(list, t)
		}
	}
	if err := c.copies.Add(c.ctx, c.devices[tensor.DeviceID{}], list); err != nil {
		return err
	}
	for _, v := range values {
		if own := c.copies.Of(v.Const); own != nil {
			v.Const = own
		}
	}
	return nil
}

// Group implements exec.Code.
func (c *compilation) Group(n *graph.Node) (exe backend.Executable, b backend.Backend, dynamic bool) {
	i := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Name == n.Backend })
	return c.exes[n], c.backends[i], c.dynamic[n]
}

// Hop implements exec.Code.
func (c *compilation) Hop(g *graph.Graph, n *graph.Node) *convert.Converter { return c.hops[g][n] }
