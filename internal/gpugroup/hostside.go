package gpugroup

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
)

// Nodes that the device could run, but that cost more copies there than they save.

const (
	// partsLeast is the least number of readers of a value for which the host copies it once, and not what each of them makes of it.
	partsLeast = 3
	// chainMost is the most nodes in a row that are looked at.
	chainMost = 8
)

// light are operators that do little with what they read.
var light = map[string]bool{
	"Gather": true, "Slice": true, "Split": true, "Squeeze": true, "Unsqueeze": true, "Reshape": true, "Flatten": true, "Transpose": true,
	"Identity": true, "Cast": true, "Greater": true, "GreaterOrEqual": true, "Less": true, "LessOrEqual": true, "Equal": true, "Not": true,
	"And": true, "Or": true,
}

// hostOnly reports whether a node is the host's whatever kernels there are.
func hostOnly(n *graph.Node) bool {
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v != nil && (!v.Type.IsTensor() || !v.Type.Backed()) {
				return true
			}
		}
	}
	return n.IsControl() || len(n.Regions) > 0 || shapes(n)
}

// forHost reports whether a light node is read by nodes of the host alone, or by such nodes as itself.
func forHost(n *graph.Node, depth int) bool {
	if n.Op.Domain != "" || !light[n.Op.Name] || depth == 0 {
		return false
	}
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		if v.IsOutput() || v.NumUses() == 0 || !readByHost(v, depth-1) {
			return false
		}
	}
	return true
}

// readByHost reports whether all readers of a value are of the host, or forHost.
func readByHost(v *graph.Value, depth int) bool {
	for _, c := range v.Consumers() {
		if !hostOnly(c) && !forHost(c, depth) {
			return false
		}
	}
	return true
}

// parts reports whether a node, with others like it, hands a value to the host in parts: which then copies the value. A detector
// that looks at the scores of each class for itself is such a case.
func parts(n *graph.Node, depth int) bool {
	if depth == 0 || !forHost(n, chainMost) {
		return false
	}
	v := n.Input(0)
	if v == nil || v.IsConst() {
		return false
	}
	if readers := v.Consumers(); len(readers) >= partsLeast && readByHost(v, chainMost) {
		total := 0
		for _, c := range readers {
			for _, y := range c.Outputs {
				if y != nil && y.Type.IsTensor() && y.Type.Backed() {
					total += size(y)
				}
			}
		}
		return size(v) <= 2*total
	}
	return v.Producer != nil && parts(v.Producer, depth-1)
}

// size is the number of elements that a value has, or is assumed to have.
func size(v *graph.Value) int {
	n := 1
	for _, d := range operators.AssumedDims(v) {
		n *= max(d, 0)
	}
	return n
}

// single reports whether a node makes single numbers of single numbers that are on the host.
func single(n *graph.Node, depth int) bool {
	if depth == 0 || len(n.Inputs) == 0 {
		return false
	}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v != nil && (!v.Type.IsTensor() || len(v.Type.Shape) > 1 || !v.Type.Backed() || size(v) != 1) {
				return false
			}
		}
	}
	for _, v := range n.Inputs {
		if v != nil && !v.IsConst() && !v.IsDims() && v.Producer != nil && !hostOnly(v.Producer) && !single(v.Producer, depth-1) {
			return false
		}
	}
	return true
}
