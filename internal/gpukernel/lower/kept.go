package lower

import (
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// A device may keep a tensor as elements of another type: float32 in 16 bits, where what reads it would round it to them, or what a Cast
// makes of a tensor in the place of the tensor. Such a layout is opaque, named by the type of its elements and by their order.

// KeptLayout returns the layout of tensors that are kept as elements of a type of floats, in the order of a described layout.
func KeptLayout(t gpukernel.Type, order graph.Layout) graph.Layout {
	l, err := graph.OpaqueLayout("gpu", "1", string(t)+"-"+order.String())
	if err != nil {
		panic(err) // neither part has what a name may not have
	}
	return l
}

// KeptOf returns what KeptLayout made a layout of; ok is false for others.
func KeptOf(l graph.Layout) (t gpukernel.Type, order graph.Layout, ok bool) {
	key, ok := strings.CutPrefix(l.String(), "gpu@1:")
	if !ok || !l.IsOpaque() {
		return "", l, false
	}
	name, tag, _ := strings.Cut(key, "-")
	order, err := graph.ParseLayout(tag)
	if t = gpukernel.Type(name); err != nil || !isFloat(t) {
		return "", l, false
	}
	return t, order, true
}
