// Package gpugroup plans groups of nodes for graphics processors: which nodes have kernels, in which layouts tensors lie, which
// launches compute a subgraph of known shapes, and where in a run's memory their arguments lie. It is what backends of such
// devices share. It touches no device and compiles nothing: a backend has the kernels of a Group's plans compiled, and launches
// its steps in order.
//
// Products and convolutions, with the bias, residual and activation behind them, are a kernel each; the element-wise operators,
// reductions and movements of data that hang together are rendered as one.
package gpugroup

import (
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/place"
)

// Device is what planning has to know of a device. It is immutable.
type Device struct {
	ID      tensor.DeviceID
	Kernels gpukernel.Device // what the choice of kernels depends on
	// Ceilings say what tiles are worth beside each other; their zero value nothing.
	Ceilings Ceilings
	Vendor   Vendor // libraries that may do products and convolutions, nil for none
	// VendorFirst prefers libraries wherever they do a node, whatever the model says.
	VendorFirst bool
}

// format is a layout on the device.
func (d *Device) format(l graph.Layout) graph.Format { return graph.Format{Device: d.ID, Layout: l} }

// Group is a subgraph of static shapes as launches. It is immutable. Release it.
type Group struct {
	Plans        []*gpukernel.Plan
	Steps        []Step // in the order in which they are to run
	Requirements backend.Requirements
	slots        []place.Slot
	calls        []Call
}

// Release gives back what libraries do of the group.
func (g *Group) Release() { release(g.calls) }

// Step is one launch, or a call of a library.
type Step struct {
	Plan   int // whose kernel it is; -1 for a Call
	Launch *gpukernel.Launch
	Call   Call           // nil for a launch
	Args   []place.Memory // by parameter, nowhere for numbers; of a Call by CallA and so on
}

// Base is where a slot lies in a run: a block of the device's memory, and the bytes into it.
type Base struct {
	Handle uintptr
	Offset int
}

// OperandAlign is what kernels ask of the places of operands, in bytes.
const OperandAlign = 16

// NewBases returns memory for Bind.
func (g *Group) NewBases() []Base { return make([]Base, len(g.slots)) }

// Bind finds where slots lie in a run: an argument of a Step lies at the base of its slot, and its own offset beyond. It allocates
// nothing. The error, for an operand that kernels cannot read or write where it is, is a *backend.ContiguousError.
func (g *Group) Bind(on tensor.DeviceID, a *backend.RunArgs, bases []Base) error {
	for i := range g.slots {
		slot := &g.slots[i]
		var t *tensor.Tensor
		switch slot.Kind {
		case place.Input:
			t = a.Inputs[slot.Index]
		case place.Output:
			t = a.Outputs[slot.Index]
		case place.Const:
			t = a.Constants[slot.Index]
		case place.Buffer:
			t = a.Buffers[slot.Index]
		case place.Data:
		}
		bases[i] = Base{}
		if t == nil || t.Device != on {
			continue // of the host: no launch reads it
		}
		bases[i] = Base{t.Handle, t.Offset}
		if t.Offset%OperandAlign != 0 && slot.Kind != place.Const && slot.Kind != place.Buffer {
			return &backend.ContiguousError{Output: slot.Kind == place.Output, Operand: slot.Index,
				Problem: fmt.Sprintf("it lies %d bytes into its block, which has to be a multiple of %d", t.Offset, OperandAlign)}
		}
	}
	return nil
}
