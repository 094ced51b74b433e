package mkl

import (
	"errors"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Primitives are made in the run that finds shapes which none of the last few had. What that takes is measured
// (backend.Efficiency.Late). So a node whose shapes depend on data is taken only where much is done with it, and by cost one whose shapes
// change with lengths of the inputs has to save as much.

const (
	// lateShare is the part of the runs that find new shapes.
	lateShare = 0.25
	// lateSaves is the part of a node's time that the library saves at times, by which primitives are to be paid.
	lateSaves = 0.1
)

// latePrice is what a run pays for the primitives of a node whose shapes change from run to run, in nanoseconds, in the mean.
func (b *mkl) latePrice() float64 {
	if e := b.efficiency(); e != nil {
		return lateShare * e.Late
	}
	return 0
}

// lateFLOPs is what such a node has to do at least, with a size assumed for what is not known: what the library saves of a product of so
// many operations pays for its primitives.
func (b *mkl) lateFLOPs() float64 {
	e := b.efficiency()
	if e == nil {
		return math.Inf(1)
	}
	l, ok := e.For("product", "")
	if !ok || l.Work <= 0 {
		return math.Inf(1)
	}
	return b.latePrice() / (lateSaves * l.Work)
}

// depends reports whether shapes of a node depend on data.
func depends(n *graph.Node) bool {
	late := func(v *graph.Value) bool { return v != nil && !v.Type.Backed() }
	return slices.ContainsFunc(n.Inputs, late) || slices.ContainsFunc(n.Outputs, late)
}

// unworthy returns why a node whose shapes depend on data is left to others, nil where it is not.
func (b *mkl) unworthy(n *graph.Node) *property.Reason {
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
	at := graph.Bindings{}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v != nil {
				at.Assume(v.Type.Shape...)
			}
		}
	}
	if n.IsCarve(graph.OpFused) {
		for m := range n.Regions[0].Graph.Nodes() {
			for _, v := range m.Outputs {
				at.Assume(v.Type.Shape...)
			}
		}
	}
	work, err := flops.OfArithmetic(n, at)
	if err != nil && !errors.Is(err, graph.ErrUnbound) {
		return property.Because(property.ShapeReason, "%v", err)
	}
	if err != nil || work < b.lateFLOPs() {
		return property.Because(property.DynamicShape, "the shape of %v depends on data: a primitive for each shape takes longer than what it saves of %.0f operations",
			n.Outputs[0], work)
	}
	return nil
}

// settled reports whether the shapes of a node are known before runs, or the node is worth primitives for each that a run finds.
func (b *mkl) settled(n *graph.Node) bool { return !depends(n) || b.unworthy(n) == nil }

// fit is the reason why no primitive is made for a value of a node, nil where one may be.
func (b *mkl) fit(n *graph.Node) func(v *graph.Value) *property.Reason {
	if !depends(n) {
		return unfit
	}
	why := b.unworthy(n)
	return func(v *graph.Value) *property.Reason {
		if why != nil {
			return why
		}
		return empty(v)
	}
}

// changes reports whether shapes of a node change from run to run: they depend on data, or on an open dim that is more than 1 as a rule.
// That of a batch stays the same.
func changes(n *graph.Node) bool {
	open := map[string]bool{}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v == nil {
				continue
			}
			for _, d := range v.Type.Shape {
				d.Symbols(open)
			}
		}
	}
	for s := range open {
		if graph.AssumedSize(s) != 1 {
			return true
		}
	}
	return depends(n)
}

// priced adds what a run pays for primitives to the signatures of a node whose shapes change from run to run; a view has none.
func (b *mkl) priced(n *graph.Node, sigs []graph.Signature) []graph.Signature {
	if len(sigs) == 0 || place.IsView(n) || !changes(n) {
		return sigs
	}
	sigs = slices.Clone(sigs)
	for i := range sigs {
		sigs[i].Extra += b.latePrice()
	}
	return sigs
}
