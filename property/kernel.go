package property

import (
	"context"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// KernelProvider is implemented by a user's property that brings the kernel of the nodes that it fuses. The backend to
// which the property is attached runs it as one sub-step among its own, if it can call it on its memory; one that does not
// know KernelProvider turns the fused nodes down when it compiles them. The property is a Signer too, which says in which
// formats the kernel reads and writes: the backend knows nothing of the fused node.
type KernelProvider interface {
	// Kernel prepares a fused node once its symbols have values. fused.Regions[0] holds the nodes that it stands for; its
	// inputs are the body's. An error refuses: the group that holds the node then falls back for these shapes.
	Kernel(fused *graph.Node, b graph.Bindings) (Kernel, error)
}

// Kernel runs a fused node for concrete shapes. It is immutable, and safe for concurrent use by sessions.
type Kernel struct {
	// Run computes the outputs. It runs on one goroutine and spreads work with a.Workers; results must not depend on how.
	// It polls ctx at least every 20 ms, keeps no tensor, and should not allocate. An error, or a panic, makes the group
	// fall back for this run.
	Run func(ctx context.Context, a *KernelArgs) error
	// Workspace is the size in bytes of KernelArgs.Workspace.
	Workspace int64
}

// KernelArgs are the arguments of one call.
type KernelArgs struct {
	// Inputs and Outputs have logical shapes and storage in the formats of the signature; nil stands for an omitted one.
	// Constants that the fused nodes read are inputs. No output shares storage with an input. Padding lanes of a blocked
	// output have to be written as zeros.
	Inputs, Outputs []*tensor.Tensor
	Workspace       []byte
	Workers         *device.Workers // nil means serial
	Stream          device.Stream   // where the backend's memory is a device's; nil on the host
	// Local is the kernel's own state for the session whose arguments these are: nil at first, then whatever it stored.
	Local any
}
