package mkl

import (
	"errors"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Where shapes depend on data, primitives are made in the run that finds shapes which none of the last few had. That takes the
// library 0.1 to 0.4 ms each, so that it is worth it only where much is done with them.

const (
	// lateFLOPs is what a node with shapes that depend on data has to do at least, with a size assumed for what is not known: some
	// 2 ms on a core, of which the tenth that the library saves at times makes a primitive.
	lateFLOPs = 1e8
	// lateNanos is what a run pays for primitives of such a node, in which one of four finds new shapes.
	lateNanos = 60000
)

// depends reports whether shapes of a node depend on data.
func depends(n *graph.Node) bool {
	late := func(v *graph.Value) bool { return v != nil && !v.Type.Backed() }
	return slices.ContainsFunc(n.Inputs, late) || slices.ContainsFunc(n.Outputs, late)
}

// unworthy returns why a node whose shapes depend on data is left to others, nil where it is not.
func unworthy(n *graph.Node) *property.Reason {
	if v := place.Unfounded(n); v != nil {
		return property.Because(property.DynamicShape, "the shape of %v depends on data", v)
	}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v != nil && !v.Type.Shape.Known() {
				return property.Because(property.DynamicShape, "the rank of %v depends on data", v)
			}
		}
	}
	if !n.Is("Conv", "ConvTranspose", "Gemm", "MatMul") && !n.IsCarve(graph.OpFused) {
		return property.Because(property.DynamicShape, "the shape of %v depends on data: a primitive for each shape takes longer than %v", n.Outputs[0], n.Op)
	}
	b := graph.Bindings{}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v != nil {
				b.Assume(v.Type.Shape...)
			}
		}
	}
	if n.IsCarve(graph.OpFused) {
		for m := range n.Regions[0].Graph.Nodes() {
			for _, v := range m.Outputs {
				b.Assume(v.Type.Shape...)
			}
		}
	}
	work, err := flops.OfArithmetic(n, b)
	if err != nil && !errors.Is(err, graph.ErrUnbound) {
		return property.Because(property.ShapeReason, "%v", err)
	}
	if err != nil || work < lateFLOPs {
		return property.Because(property.DynamicShape, "the shape of %v depends on data: a primitive for each shape takes longer than what it saves of %.0f operations",
			n.Outputs[0], work)
	}
	return nil
}

// settled reports whether the shapes of a node are known before runs, or the node is worth primitives for each that a run finds.
func settled(n *graph.Node) bool { return !depends(n) || unworthy(n) == nil }

// fit is the reason why no primitive is made for a value of a node, nil where one may be.
func fit(n *graph.Node) func(v *graph.Value) *property.Reason {
	if !depends(n) {
		return unfit
	}
	why := unworthy(n)
	return func(v *graph.Value) *property.Reason {
		if why != nil {
			return why
		}
		return empty(v)
	}
}

// priced adds what a run pays for primitives to the signatures of a node whose shapes depend on data.
func priced(n *graph.Node, sigs []graph.Signature) []graph.Signature {
	if !depends(n) {
		return sigs
	}
	sigs = slices.Clone(sigs)
	for i := range sigs {
		sigs[i].Extra += lateNanos
	}
	return sigs
}
