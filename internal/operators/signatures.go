package operators

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/property"
)

// RowMajor is the one signature with every port row-major.
func RowMajor(n *graph.Node) []graph.Signature {
	return []graph.Signature{graph.UniformSignature("row-major", n, graph.HostFormat)}
}

// Follow has the first few inputs and all outputs in one format, f or row-major, and the other inputs row-major.
func Follow(n *graph.Node, follow int, f graph.Format) []graph.Signature {
	s := graph.Signature{Name: "neutral", Vars: [][]graph.Format{{f, graph.HostFormat}}}
	for i := range n.Inputs {
		if i < follow {
			s.Inputs = append(s.Inputs, graph.Variable(0))
		} else {
			s.Inputs = append(s.Inputs, graph.Fixed(graph.HostFormat))
		}
	}
	for range n.Outputs {
		s.Outputs = append(s.Outputs, graph.Variable(0))
	}
	return []graph.Signature{s}
}

// IsFloat32 reports whether every present value is a float32 tensor.
func IsFloat32(vs ...*graph.Value) bool {
	for _, v := range vs {
		if v != nil && v.Type.DType != tensor.Float32 {
			return false
		}
	}
	return true
}

// NotFloat32 is the reason to turn down a node for v.
func NotFloat32(v *graph.Value) *property.Reason {
	return property.Because(property.DTypeReason, "float32 only, %v is %v", v, v.Type.DType)
}

// NotSingle returns why an operand, which may be missing, is not known to be one element; nil where it is.
func NotSingle(v *graph.Value) *property.Reason {
	if v == nil {
		return nil
	}
	for _, d := range v.Type.Shape {
		if n, ok := d.Const(); !ok || n != 1 {
			return property.Because(property.ShapeReason, "%v is %v, not one element", v, v.Type)
		}
	}
	return nil
}

// NoScale says why a BatchNormalization is more than a float32 scale and shift for each channel, known when it is compiled; nil
// where it is just that.
func NoScale(n *graph.Node) *property.Reason {
	if why := NoInference(n); why != nil {
		return why
	}
	for _, v := range n.Inputs[1:] {
		if !fuse.IsConst(v) {
			return property.Because(property.Unsupported, "statistics %v are not constant", v)
		}
	}
	return nil
}

// NoInference says why a BatchNormalization is more than a float32 scale and shift for each channel; nil where it is just that.
func NoInference(n *graph.Node) *property.Reason {
	if slices.Contains(n.Inputs, nil) || !IsFloat32(n.Inputs...) || n.Int("training_mode", 0) != 0 || n.Int("is_test", 1) == 0 || n.Int("spatial", 1) == 0 {
		return property.Because(property.Unsupported, "float32 inference by channel only")
	}
	for _, o := range n.Outputs[1:] {
		if o != nil && (o.NumUses() > 0 || o.IsOutput()) {
			return property.Because(property.Unsupported, "statistics as outputs")
		}
	}
	if rank := len(n.Inputs[0].Type.Shape); rank < 2 {
		return property.Because(property.ShapeReason, "rank %d", rank)
	}
	return nil
}

// ConstDim returns a dim that is a number. ok is false where v is absent or has no such axis, too.
func ConstDim(v *graph.Value, axis int) (n int, ok bool) {
	if v == nil || axis < 0 || axis >= len(v.Type.Shape) {
		return 0, false
	}
	k, ok := v.Type.Shape[axis].Const()
	return int(k), ok
}

// AssumedDims returns the dims of a value, with assumptions where they are symbols.
func AssumedDims(v *graph.Value) []int {
	out := make([]int, len(v.Type.Shape))
	for i, d := range v.Type.Shape {
		out[i] = graph.AssumedDim
		_, static := d.Const()
		if n, err := d.Estimate(nil); err == nil && (n > 0 || static) {
			out[i] = int(n)
		}
	}
	return out
}
