package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/internal/kernel/isa"
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
	case isa.NEON, isa.Portable: // NEON has not been measured
	}
	return 1.5
}

// costOf models one run of a node: the greater of the time that its arithmetic and its memory take. It is zero, not known,
// where a dim is a symbol.
func costOf(t isa.Target, n *graph.Node) property.Cost {
	if place.IsView(n) {
		return property.Cost{}
	}
	w, err := flops.OfNode(n, nil)
	if err != nil {
		return property.Cost{}
	}
	c := property.Cost{FLOPs: w.FLOPs + w.Other, Bytes: w.Bytes}
	c.Nanoseconds = max(c.FLOPs/flopsPerNano(t.Set), c.Bytes/bytesPerNano) + launchNanos
	return c
}
