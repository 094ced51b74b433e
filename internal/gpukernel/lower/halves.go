package lower

import (
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// Tensors of float32 may be kept in 16 bits on a device, rounded to them: what reads them would round them itself. Such a layout is
// opaque, named by the type and by the order in which elements lie.

// HalfLayout returns the layout of float32 that is kept as elements of a type, F16 or BF16, in the order of a described layout.
func HalfLayout(t gpukernel.Type, order graph.Layout) graph.Layout {
	l, err := graph.OpaqueLayout("gpu", "1", string(t)+"-"+order.String())
	if err != nil {
		panic(err) // neither part has what a name may not have
	}
	return l
}

// HalfOf returns what HalfLayout made a layout of; ok is false for others.
func HalfOf(l graph.Layout) (t gpukernel.Type, order graph.Layout, ok bool) {
	key, ok := strings.CutPrefix(l.String(), "gpu@1:")
	if !ok || !l.IsOpaque() {
		return "", l, false
	}
	name, tag, _ := strings.Cut(key, "-")
	order, err := graph.ParseLayout(tag)
	if t = gpukernel.Type(name); err != nil || t != gpukernel.F16 && t != gpukernel.BF16 {
		return "", l, false
	}
	return t, order, true
}
