package gpugroup

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
)

// A device that rounds operands of products to 16 bits may as well have them in 16 bits: results are the same to the bit. Weights are
// kept so once, and what comes from the host is cast while it is copied and reordered. What the device computes stays in float32, as
// others than products may read it.

// withHalves returns the signatures of a product or convolution, those of weights in 16 bits in their place where there are kernels
// for that, and beside them those of other operands in 16 bits.
func (d *Device) withHalves(n *graph.Node, list []graph.Signature) []graph.Signature {
	half := d.half()
	if half == "" || n.Inputs[0].Type.DType != tensor.Float32 || n.Int("transA", 0) != 0 || len(list) == 0 || list[0].Name == depthwise {
		return list
	}
	kept := func(s graph.Signature, i int) graph.Signature {
		s.Inputs = slices.Clone(s.Inputs)
		s.Inputs[i] = graph.Fixed(d.format(lower.KeptLayout(half, s.Inputs[i].Format.Layout)))
		return s
	}
	mixed := !d.Kernels.Matrix
	constant := fuse.IsConst(n.Inputs[1])
	packed := !n.Is("Conv") || !list[0].Inputs[1].Format.Layout.IsRowMajor() // weights of others are brought into order in each run
	var out []graph.Signature
	for _, s := range list {
		switch {
		case mixed && constant && packed:
			s = kept(s, 1)
			out = append(out, s, kept(s, 0))
		case packed:
			out = append(out, s, kept(kept(s, 0), 1))
		default:
			out = append(out, s)
		}
	}
	return out
}

// keptAs returns the element type in which an operand of float32, or float64, lies on the device.
func keptAs(v *graph.Value) gpukernel.Type {
	if v.Type.DType == tensor.Float64 {
		return gpukernel.F64
	}
	if t, _, ok := lower.KeptOf(v.Format.Layout); ok {
		return t
	}
	return gpukernel.F32
}

// orderOf returns the order in which the elements of a value lie.
func orderOf(v *graph.Value) graph.Layout {
	_, order, _ := lower.KeptOf(v.Format.Layout)
	return order
}
