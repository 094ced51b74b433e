package gpugroup

import (
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// Supports says how the device runs a node, or why not. Where shapes are open, what kernels there are is asked for assumed ones; a
// group without kernels for those of a run falls back then.
func (d *Device) Supports(n *graph.Node) backend.Support {
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v == nil {
				continue
			}
			if !v.Type.IsTensor() {
				return backend.No(property.DTypeReason, "%v is no tensor", v)
			}
			if v.Type.DType == tensor.Float64 && !(d.Kernels.Double && !d.Kernels.Prebuilt) {
				return backend.No(property.DTypeReason, "%v is of type float64, for which the device has no double precision, or no kernels", v)
			}
			if !v.Type.Backed() {
				return backend.No(property.DynamicShape, "the shape of %v depends on data: kernels are written for shapes", v)
			}
		}
	}
	if n.IsControl() || len(n.Regions) > 0 {
		return backend.No(property.HostScheduled, "control flow is the host's")
	}
	if shapes(n) {
		return backend.No(property.Unsupported, "small integers, which are mostly shapes, stay on the host")
	}
	if single(n, chainMost) && len(n.Inputs) > 1 {
		return backend.No(property.Unsupported, "single numbers that are on the host stay there")
	}
	if parts(n, chainMost) {
		return backend.No(property.Unsupported, "the host reads parts of %v, which it copies whole", n.Inputs[0])
	}
	one, err := assumed(n)
	if err != nil {
		return backend.No(property.ShapeReason, "%v", err)
	}
	if h, ok := heads[n.Op.Name]; ok && n.Op.Domain == "" {
		return d.supportsHead(h, n, one)
	}
	result, err := d.renders(one)
	if err != nil {
		return backend.No(property.Unsupported, "%v", why(err))
	}
	for _, v := range result.Inputs {
		if i := slices.Index(one.Inputs, v); i >= 0 && n.Inputs[i].IsDims() {
			return backend.No(property.Unsupported, "%v is a shape", n.Inputs[i])
		}
	}
	list := d.elementSignatures(n, one, result)
	if n.Is("Cast") {
		return d.castSupport(n, one, list[0])
	}
	return backend.Support{Signatures: list}
}

// shapes reports whether all results are vectors or scalars of integers.
func shapes(n *graph.Node) bool {
	for _, v := range n.Outputs {
		if v != nil && !isShape(v) {
			return false
		}
	}
	return true
}

// isShape reports whether a value may be a shape: a vector or a scalar of integers.
func isShape(v *graph.Value) bool { return v.Type.DType.IsInt() && len(v.Type.Shape) <= 1 }

// why returns the cause of an error about a node that is named already.
func why(err error) error {
	var e *lower.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// assumed returns the node in a graph of its own, of static shapes: those that it has, or assumptions.
func assumed(n *graph.Node) (one *graph.Node, err error) {
	defer guard(&err)
	g := graph.New("assumed")
	made := map[*graph.Value]*graph.Value{}
	in := make([]*graph.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if made[v] == nil {
			made[v] = operand(g, v)
		}
		in[i] = made[v]
	}
	spec := graph.NodeSpec{Op: n.Op, Name: n.Name, Attrs: n.Attrs, Inputs: in}
	for _, v := range n.Outputs {
		name := ""
		if v != nil {
			name = fmt.Sprintf("result%d", len(spec.Outputs))
		}
		spec.Outputs = append(spec.Outputs, name)
	}
	one = g.AddNode(spec)
	for i, v := range n.Outputs {
		if v != nil {
			one.Outputs[i].Type = graph.TensorType(v.Type.DType, graph.ShapeOf(operators.AssumedDims(v)...))
		}
	}
	return one, nil
}

// operand adds a value like v, of a static shape, to g.
func operand(g *graph.Graph, v *graph.Value) *graph.Value {
	if v.IsConst() && v.Const.Device.IsHost() {
		return g.AddConst(v.Name, v.Const)
	}
	x := g.AddInput(v.Name, graph.TensorType(v.Type.DType, graph.ShapeOf(operators.AssumedDims(v)...)))
	for _, d := range v.Dims {
		if n, err := d.Estimate(nil); err == nil {
			x.Dims = append(x.Dims, graph.D(int(n)))
		}
	}
	if len(x.Dims) != len(v.Dims) {
		x.Dims = nil
	}
	return x
}

// guard turns a panic about operands that do not fit, such as assumptions may be, into an error.
func guard(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", gpukernel.ErrUnsupported, r)
	}
}

// renders lowers a node of static shapes, and returns an error where no kernel is rendered for it.
func (d *Device) renders(one *graph.Node) (result *lower.Result, err error) {
	defer guard(&err)
	var outputs []*graph.Value
	for _, v := range one.Outputs {
		if v != nil {
			outputs = append(outputs, v)
		}
	}
	if result, err = lower.Nodes([]*graph.Node{one}, outputs); err != nil {
		return nil, err
	}
	_, err = gpukernel.Render("k", d.Kernels, result.Program)
	return result, err
}

// elementSignatures: what kernels read lies on the device, and so does what is computed and not read, which may have been computed
// there; what they are written by, constants and shapes, is on the host. Operands and results of one rank follow each other,
// row-major or with channels last.
func (d *Device) elementSignatures(n, one *graph.Node, result *lower.Result) []graph.Signature {
	s := graph.Signature{Name: "rendered"}
	here := d.format(graph.RowMajor)
	rank := len(n.Outputs[0].Type.Shape)
	last, ok := images(rank)
	ok = ok && follows(n)
	for _, v := range n.Outputs {
		ok = ok && (v == nil || len(v.Type.Shape) == rank && !lower.Narrow(v.Type.DType))
	}
	for _, v := range n.Inputs {
		ok = ok && (v == nil || !lower.Narrow(v.Type.DType))
	}
	read := map[*graph.Value]bool{}
	for _, v := range result.Inputs {
		read[v] = true
	}
	for _, v := range one.Inputs {
		switch {
		case v == nil || !read[v] && (v.IsConst() || v.IsDims() || isShape(v)):
			s.Inputs = append(s.Inputs, graph.Fixed(graph.HostFormat))
		case ok && read[v] && !v.IsConst() && len(v.Type.Shape) == rank:
			s.Inputs = append(s.Inputs, graph.Variable(0))
		default:
			s.Inputs = append(s.Inputs, graph.Fixed(here))
		}
	}
	for range n.Outputs {
		if ok {
			s.Outputs = append(s.Outputs, graph.Variable(0))
		} else {
			s.Outputs = append(s.Outputs, graph.Fixed(here))
		}
	}
	if ok {
		s.Vars = [][]graph.Format{{d.format(last), here}}
	}
	return []graph.Signature{s}
}

// follows reports whether a node's result may as well lie with its channels last: not where dims change their meaning.
func follows(n *graph.Node) bool {
	return !n.Is("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Gather", "Tile", "Expand")
}
