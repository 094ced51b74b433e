package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Constants of the cost model: rates of one thread on server processors of the last years, as the kernels reach them. They
// are built in, so that plans do not depend on a clock.
const (
	bytesPerNano = 12.0  // of memory that is read or written once
	launchNanos  = 150.0 // of a step of its own
)

// flopsPerNano is the rate of convolutions and matrix products on one thread.
func flopsPerNano(s isa.Set) float64 {
	switch s {
	case isa.AVX512:
		return 90
	case isa.AVX2:
		return 50
	}
	return 1.5
}

// costOf models one run of a node: the greater of the time that its arithmetic and its memory take. It is zero, not known,
// where a dim is a symbol.
func costOf(t isa.Target, n *graph.Node) property.Cost {
	if place.IsView(n) {
		return property.Cost{}
	}
	var c property.Cost
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v == nil {
				continue
			}
			elements, ok := staticElements(v)
			if !ok {
				return property.Cost{}
			}
			c.Bytes += elements * float64(v.Type.DType.Size())
		}
	}
	c.FLOPs = flopsOf(n)
	c.Nanoseconds = max(c.FLOPs/flopsPerNano(t.Set), c.Bytes/bytesPerNano) + launchNanos
	return c
}

// staticElements returns the number of elements of a value whose dims are all numbers.
func staticElements(v *graph.Value) (float64, bool) {
	n := 1.0
	for _, d := range v.Type.Shape {
		k, ok := d.Const()
		if !ok {
			return 0, false
		}
		n *= float64(k)
	}
	return n, true
}

// flopsOf returns the floating-point operations of a node of static shapes, a multiply-add counting twice. A fused node does
// what its body does. Whatever is no convolution, product or recurrence counts one per element of its results.
func flopsOf(n *graph.Node) float64 {
	if n.IsCarve(graph.OpFused) {
		sum := 0.0
		for m := range n.Regions[0].Graph.Nodes() {
			sum += flopsOf(m)
		}
		return sum
	}
	size := func(v *graph.Value) float64 {
		if v == nil {
			return 0
		}
		k, _ := staticElements(v)
		return k
	}
	dim := func(v *graph.Value, axis int) float64 {
		k, _ := operators.ConstDim(v, axis)
		return float64(k)
	}
	switch {
	case n.Is("Conv"): // every result reads one filter
		return 2 * size(n.Outputs[0]) * size(n.Inputs[1]) / max(dim(n.Inputs[1], 0), 1)
	case n.Is("ConvTranspose"): // every element is spread by one filter
		return 2 * size(n.Inputs[0]) * size(n.Inputs[1]) / max(dim(n.Inputs[1], 0), 1)
	case n.Is("MatMul"):
		return 2 * size(n.Outputs[0]) * dim(n.Inputs[0], len(n.Inputs[0].Type.Shape)-1)
	case n.Is("Gemm"):
		return 2 * size(n.Outputs[0]) * size(n.Inputs[0]) / max(dim(n.Outputs[0], 0), 1)
	case n.Is("LSTM", "GRU", "RNN"): // every weight, once for each element of sequence and batch
		return 2 * dim(n.Inputs[0], 0) * dim(n.Inputs[0], 1) * (size(n.Inputs[1]) + size(n.Inputs[2]))
	}
	sum := 0.0
	for _, v := range n.Outputs {
		sum += size(v)
	}
	return sum
}
