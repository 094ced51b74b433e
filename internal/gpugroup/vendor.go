package gpugroup

import (
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/place"
)

// Vendor is libraries of a device's maker, which do products and convolutions in the place of kernels. It is safe for concurrent use.
type Vendor interface {
	// Product returns what does a product of row-major matrices. The error wraps gpukernel.ErrUnsupported where no library does.
	Product(s gpukernel.ProductShape) (Call, error)
	// Convolution is Product for a convolution whose weights are [Filters, KernelD, KernelH, KernelW, C/Groups].
	Convolution(s gpukernel.ConvShape) (Call, error)
}

// Call is a product or a convolution that a library does. Release it.
type Call interface {
	Library() string  // who does it
	Done() int        // steps of Finish that it does, from the first on
	Workspace() int64 // bytes that it needs beside its operands
	Release()
}

// Arguments of a Step that is a Call, by index; the operands of Finish that it reads follow, nowhere for steps without.
const (
	CallA = iota
	CallB
	CallC
	CallWorkspace
	CallOperands
)

// library is how names of signatures say, in the place of a tile, that a library runs the node.
const library = "library"

// Shares of what kernels take that libraries are taken to need, of products in float32 and on matrix instructions, and that kernels take
// which were compiled beforehand. They are estimates, as nobody has measured them.
const (
	libraryPlain  = 0.9
	libraryMatrix = 0.75
	prebuiltPlain = 1.1
)

// byLibrary returns a head's signatures with the one of a library among them, where one does the node, on the operands of base: in front
// where the model has it take less, with the pass over the result counted that may have to follow, else behind.
func (d *Device) byLibrary(h head, n, one *graph.Node, base graph.Signature, list []graph.Signature) []graph.Signature {
	if d.Vendor == nil || h.library == nil || n.Inputs[0].Type.DType != tensor.Float32 {
		return list
	}
	s, p, err := h.library(d, n, one, base)
	if err != nil {
		return list
	}
	s.Name += " " + library
	list = list[:min(len(list), mostTiles-1)]
	more := d.libraryExtra(p)
	if d.VendorFirst {
		more = min(more, 0)
	}
	if more > 0 || more == 0 && !d.VendorFirst {
		s.Extra = list[0].Extra + more
		return append(list, s)
	}
	s.Extra = list[0].Extra
	for i := range list {
		list[i].Extra -= more
	}
	return slices.Insert(list, 0, s)
}

// libraryExtra returns how many nanoseconds more than kernels a library takes for a product by the model.
func (d *Device) libraryExtra(p gpukernel.ProductShape) float64 {
	k := d.Kernels
	k.Prebuilt = false
	tiles, err := gpukernel.Tiles(k, p)
	if err != nil || len(tiles) == 0 || d.Ceilings.Memory == 0 {
		return 0
	}
	library, own := libraryPlain, 1.0
	if k.Matrix && d.Kernels.Rounds() != gpukernel.Exact {
		library = libraryMatrix
	}
	if d.Kernels.Prebuilt {
		own = prebuiltPlain
	}
	pass := d.Ceilings.Kernel + 8*float64(p.M)*float64(p.N)*float64(max(p.Batch0, 1)*max(p.Batch1, 1))/d.Ceilings.Memory
	return d.Ceilings.multiplication(k.Processors)*tiles[0].Share()*(library-own) + pass
}

// toLibrary reports whether the node's signature says that a library runs it.
func (p *planner) toLibrary(n *graph.Node) bool { return p.vendor != nil && tileOf(n) == library }

// matMulLibrary and gemmLibrary ask for a product that a signature of kernels is there for.
func matMulLibrary(d *Device, _, one *graph.Node, s graph.Signature) (graph.Signature, gpukernel.ProductShape, error) {
	p, err := matMulShape(one)
	if err != nil {
		return s, p, err
	}
	return s, p, d.asks(p)
}

func gemmLibrary(d *Device, _, one *graph.Node, s graph.Signature) (graph.Signature, gpukernel.ProductShape, error) {
	p, _, _, err := gemmShape(one)
	if err != nil {
		return s, p, err
	}
	if p.TransposedB && fuse.IsConst(one.Inputs[1]) { // it is kept the other way
		p.TransposedB, p.B.Stride = false, p.N
	}
	return s, p, d.asks(p)
}

// asks returns why no library does a product.
func (d *Device) asks(p gpukernel.ProductShape) error {
	p.Precision = d.Kernels.Rounds()
	c, err := d.Vendor.Product(p)
	if err == nil {
		c.Release()
	}
	return err
}

// convLibrary asks for a convolution whose weights are constants, in the order that the library wants.
func convLibrary(d *Device, n, one *graph.Node, s graph.Signature) (graph.Signature, gpukernel.ProductShape, error) {
	shape, err := convShape(one)
	if err != nil {
		return s, gpukernel.ProductShape{}, err
	}
	last, ok := images(len(n.Inputs[1].Type.Shape))
	if !ok || shape.Direct() || !fuse.IsConst(n.Inputs[1]) {
		return s, gpukernel.ProductShape{}, fmt.Errorf("%w: weights that are computed, or a channel for each filter", gpukernel.ErrUnsupported)
	}
	shape.Precision = d.Kernels.Rounds()
	c, err := d.Vendor.Convolution(shape)
	if err != nil {
		return s, gpukernel.ProductShape{}, err
	}
	c.Release()
	s.Inputs = slices.Clone(s.Inputs)
	s.Inputs[1] = graph.Fixed(d.format(last))
	product, err := shape.AsProduct()
	return s, product, err
}

// call emits what a library does of a product or a convolution whose operands lie in buffers, and then what is left of it.
func (p *planner) call(c Call, rest *gpukernel.Plan, t tail, a, b, result place.Memory) error {
	s := Step{Plan: -1, Call: c, Args: []place.Memory{CallA: a, CallB: b, CallC: result, CallWorkspace: place.Nowhere}}
	reads, writes := []place.Memory{a, b}, []place.Memory{result}
	if n := c.Workspace(); n > 0 {
		s.Args[CallWorkspace] = p.Temp(int(n))
		writes = append(writes, s.Args[CallWorkspace])
	}
	for _, at := range t.operands[:c.Done()] {
		s.Args = append(s.Args, at)
		if at.Slot >= 0 {
			reads = append(reads, at)
		}
	}
	for _, m := range slices.Concat(reads, writes) {
		if m.Slot < 0 || p.Slots[m.Slot].Kind == place.Data {
			return fmt.Errorf("%w: an operand of %s is not on the device", gpukernel.ErrUnsupported, c.Library())
		}
	}
	p.Step(1, reads, writes)
	p.steps = append(p.steps, s)
	if !slices.Contains(p.Reqs.Libraries, c.Library()) {
		p.Reqs.Libraries = append(p.Reqs.Libraries, c.Library())
	}
	return p.emit(0, rest, p.bind(t, map[string]place.Memory{"c": result}))
}

// productByLibrary emits a product that a library does. It reports false where none does, for the shapes of this run.
func (p *planner) productByLibrary(left place.Memory, n *graph.Node, s gpukernel.ProductShape, t tail) (done bool, err error) {
	s.Precision = p.d.Rounds()
	c, err := p.vendor.Product(s)
	if err != nil {
		return false, unlessUnsupported(err)
	}
	p.calls = append(p.calls, c)
	rest, err := s.Rest("finish", p.d, c.Done())
	if err != nil {
		return false, unlessUnsupported(err)
	}
	return true, p.call(c, rest, t, left, p.In(n.Inputs[1]), p.result(n.Outputs[0], t))
}

// convByLibrary is productByLibrary for a convolution.
func (p *planner) convByLibrary(n *graph.Node, s gpukernel.ConvShape, t tail) (done bool, err error) {
	s.Precision = p.d.Rounds()
	c, err := p.vendor.Convolution(s)
	if err != nil {
		return false, unlessUnsupported(err)
	}
	p.calls = append(p.calls, c)
	rest, err := s.Rest("finish", p.d, c.Done())
	if err != nil {
		return false, unlessUnsupported(err)
	}
	return true, p.call(c, rest, t, p.In(n.Inputs[0]), p.In(n.Inputs[1]), p.result(n.Outputs[0], t))
}

// unlessUnsupported returns errors that are about something else than what there are no kernels or libraries for.
func unlessUnsupported(err error) error {
	if errors.Is(err, gpukernel.ErrUnsupported) {
		return nil
	}
	return err
}

// release gives calls back.
func release(calls []Call) {
	for _, c := range calls {
		c.Release()
	}
}
