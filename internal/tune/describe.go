package tune

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/measurements"
)

// smallBytes is the most bytes of a constant whose content is told: shapes, axes, limits, which decide what a kernel does. Of others
// the shape counts alone.
const smallBytes = 512

// describe fills a key with what is measured of a node: its operator, with the bodies of its regions, its attributes, and operands
// and results with these values of the symbols. It reports false where a shape is not known by that, or the node captures values.
func describe(n *graph.Node, at graph.Bindings, k *measurements.Key) bool {
	w := writer{at: at}
	w.op(n)
	for i := range n.Attrs {
		w.attr(&n.Attrs[i])
	}
	k.Operator = w.op1.String()
	k.Attributes = w.attrs.String()
	var shapes, types writer
	shapes.at, types.at = at, at
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			shapes.shape(v)
			types.kind(v)
		}
		shapes.s.WriteString("; ")
		types.s.WriteString("; ")
	}
	k.Shapes, k.Types = shapes.s.String(), types.s.String()
	return !w.bad && !shapes.bad && len(n.Captures) == 0
}

// Fingerprint returns a name for what a graph computes in which shapes, whatever its nodes and values are called, and whatever is in
// its large constants: graphs that differ in more have other names.
func Fingerprint(g *graph.Graph) string {
	w := writer{open: true}
	w.graph(g)
	k := measurements.Key{Operator: w.s.String()}
	return k.Digest()
}

// writer writes what is canonical of nodes and graphs.
type writer struct {
	at   graph.Bindings
	open bool // symbols stay what they are
	bad  bool // something is not known
	s    strings.Builder

	op1, attrs strings.Builder
}

// op writes a node's operator, and its regions.
func (w *writer) op(n *graph.Node) {
	inner := writer{at: w.at, open: true}
	inner.regions(n)
	fmt.Fprintf(&w.op1, "%s/%d%s", n.Op, n.Op.Since, inner.s.String())
}

func (w *writer) regions(n *graph.Node) {
	for _, r := range n.Regions {
		w.s.WriteString(" " + r.Name + " ")
		w.graph(r.Graph)
	}
}

// attr writes an attribute on a line.
func (w *writer) attr(a *graph.Attr) {
	s := &w.attrs
	s.WriteString(a.Name)
	s.WriteByte(' ')
	switch a.Kind {
	case graph.AttrInt:
		fmt.Fprint(s, a.Int)
	case graph.AttrFloat:
		fmt.Fprint(s, a.Float)
	case graph.AttrString:
		fmt.Fprintf(s, "%q", a.Str)
	case graph.AttrInts:
		fmt.Fprint(s, a.Ints)
	case graph.AttrFloats:
		fmt.Fprint(s, a.Floats)
	case graph.AttrStrings:
		fmt.Fprintf(s, "%q", a.Strs)
	case graph.AttrTensor, graph.AttrTensors:
		for _, t := range append(slices.Clone(a.Tensors), a.Tensor) {
			s.WriteString(content(t))
		}
	case graph.AttrType:
		s.WriteString(a.Type.String())
	case graph.AttrDims:
		s.WriteString(w.dims(a.Dims))
	case graph.AttrNone:
	}
	s.WriteByte('\n')
}

// content describes a constant.
func content(t *tensor.Tensor) string {
	if t == nil {
		return ""
	}
	s := fmt.Sprint("const ", t.DType.Name(), t.Shape)
	switch {
	case t.DType == tensor.String:
		if len(t.Strings) <= smallBytes/16 {
			s += fmt.Sprintf("%q", t.Strings)
		}
	case t.NumBytes() <= smallBytes:
		if c, err := t.Clone(); err == nil { // it may have strides
			s += hex.EncodeToString(c.Bytes())
		}
	}
	return s
}

// dims writes the values of dims.
func (w *writer) dims(list []graph.Dim) string {
	if w.open {
		return fmt.Sprint(list)
	}
	out := make([]int64, len(list))
	for i, d := range list {
		var err error
		if out[i], err = d.Eval(w.at); err != nil {
			w.bad = true
		}
	}
	return fmt.Sprint(out)
}

// shape writes the shape of an operand or result, and the content of a constant.
func (w *writer) shape(v *graph.Value) {
	switch {
	case v == nil:
		w.s.WriteString("-")
	case v.IsConst():
		w.s.WriteString(content(v.Const))
	case v.Dims != nil:
		w.s.WriteString("dims" + w.dims(v.Dims))
	case !v.Type.IsTensor() || !v.Type.Shape.Known():
		w.bad = true
		if w.open {
			w.s.WriteString(v.Type.String())
		}
	default:
		w.s.WriteString(w.dims(v.Type.Shape))
	}
	w.s.WriteByte(' ')
}

// kind writes the element type of an operand or result.
func (w *writer) kind(v *graph.Value) {
	if v == nil {
		w.s.WriteString("- ")
		return
	}
	w.s.WriteString(v.Type.DType.Name() + " ")
}

// graph writes a graph: its values have numbers in the order of their definitions.
func (w *writer) graph(g *graph.Graph) {
	number := make([]int, g.ValueIDs())
	count := 0
	define := func(v *graph.Value) {
		if v == nil {
			w.s.WriteString("- ")
			return
		}
		count++
		number[v.ID] = count
		fmt.Fprintf(&w.s, "%d:", count)
		w.kind(v)
		w.shape(v)
	}
	w.s.WriteString("{")
	for _, vs := range [][]*graph.Value{g.Inputs, g.Captures} {
		for _, v := range vs {
			define(v)
		}
		w.s.WriteString("\n")
	}
	for v := range g.Constants() {
		define(v)
	}
	use := func(vs []*graph.Value) {
		for _, v := range vs {
			if v == nil {
				w.s.WriteString("- ")
				continue
			}
			fmt.Fprintf(&w.s, "%d ", number[v.ID])
		}
	}
	nodes, err := g.Topo()
	w.bad = w.bad || err != nil
	for _, n := range nodes {
		line := writer{at: w.at, open: w.open}
		line.op(n)
		for i := range n.Attrs {
			line.attr(&n.Attrs[i])
		}
		w.s.WriteString("\n" + line.op1.String() + " " + line.attrs.String() + "(")
		use(n.Inputs)
		use(n.Captures)
		w.s.WriteString(") ")
		for _, v := range n.Outputs {
			define(v)
		}
	}
	w.s.WriteString("\n")
	use(g.Outputs)
	w.s.WriteString("}")
}
