package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// opset of the measured graphs.
const opset = 17

// graph makes the graph of a task. Inputs whose names begin with w become constants: of what the text gives, or filled.
func (t task) graph() (*graph.Graph, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "graph {\n  opset %d\n", opset)
	for _, in := range strings.Split(t.inputs, ";") {
		name, typ, _ := strings.Cut(strings.TrimSpace(in), ":")
		if typ = strings.TrimSpace(typ); strings.Contains(typ, "{") {
			fmt.Fprintf(&text, "  const %s = %s\n", name, typ)
		} else {
			fmt.Fprintf(&text, "  input %s: %s\n", name, typ)
		}
	}
	results := "%r"
	switch op, _, _ := strings.Cut(t.call, "("); op {
	case "DynamicQuantizeLinear":
		results = "%r, %rs, %rz"
	case "TopK":
		results = "%r, %ri"
	}
	call := t.call
	if t.image {
		call = t.before(&text)
	} else {
		call = results + " = " + call
	}
	fmt.Fprintf(&text, "  %s \"%s\"\n  output %s\n}\n", call, measured, results)
	g, err := graph.Parse(text.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	var inputs []*graph.Value
	for _, v := range g.Inputs {
		if !strings.HasPrefix(v.Name, "w") {
			inputs = append(inputs, v)
			continue
		}
		dims, _ := v.Type.Shape.Static()
		data, err := filled(v.Type.DType, dims)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
		g.ReplaceUses(v, g.AddConst(v.Name, data))
	}
	g.Inputs = inputs
	return g, t.behind(g)
}

// measured is the name of the node that counts.
const measured = "it"

// before writes convolutions in front of the operands that are images, and returns the statements from the operator on.
func (t task) before(text *strings.Builder) string {
	call := t.call
	for _, v := range []string{"%x", "%y"} {
		_, typ, ok := strings.Cut(t.inputs, v+": "+t.element()+"[1,")
		if !ok {
			continue
		}
		channels, _, _ := strings.Cut(typ, ",")
		front, weights := "Conv(%[1]s, %%w%[2]s)", "f32"
		if t.quantised() {
			front, weights = "QLinearConv(%[1]s, %%ws, %%wz, %%w%[2]s, %%ws, %%wu, %%ws, %%wz)", "i8"
		}
		fmt.Fprintf(text, "  input %%w%[2]s: %[3]s[%[4]s,%[4]s,1,1]\n  %%i%[2]s = "+front+" \"before %[2]s\"\n", v, v[1:], weights, channels)
		call = strings.ReplaceAll(call, v, "%i"+v[1:])
	}
	if first, rest, several := strings.Cut(call, "\n"); several {
		return "%ia = " + first + "\n" + rest
	}
	return "%r = " + call
}

// quantised reports whether an operator's operand is of integers of eight bits.
func (t task) quantised() bool { return strings.HasPrefix(t.inputs, "%x: u8") }

// element is the type of elements of a task's operand.
func (t task) element() string {
	if t.quantised() {
		return "u8"
	}
	return "f32"
}

// behind puts a node behind the first result, a convolution or a reduction, so that the result lies where results within a
// model lie: the memory of an output is new in every run.
func (t task) behind(g *graph.Graph) error {
	if err := graph.InferGraph(g); err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	r := g.Outputs[0]
	spec := graph.NodeSpec{Op: graph.Op{Name: "ReduceMax"}, Name: "behind", Inputs: []*graph.Value{r}, Outputs: []string{"out"},
		Attrs: []graph.Attr{graph.IntAttr("keepdims", 0)}}
	switch {
	case t.image:
		dims, _ := r.Type.Shape.Static()
		spec.Op.Name, spec.Attrs = "Conv", nil
		element := tensor.Float32
		if t.quantised() {
			spec.Op.Name, element = "QLinearConv", tensor.Int8
		}
		w, err := filled(element, []int{16, dims[1], 1, 1})
		if err != nil {
			return err
		}
		weights := g.AddConst("wr", w)
		if spec.Inputs = append(spec.Inputs, weights); t.quantised() {
			s, z, u := g.AddConst("ss", tensor.Scalar(float32(0.02))), g.AddConst("sz", tensor.Scalar(uint8(128))), g.AddConst("su", tensor.Scalar(int8(0)))
			spec.Inputs = []*graph.Value{r, s, z, weights, s, u, s, z}
		}
	case r.Type.DType == tensor.Bool:
		return nil // has no reduction
	}
	g.SetOutput(0, g.AddNode(spec).Outputs[0])
	return graph.InferGraph(g)
}

// String names a task.
func (t task) String() string { return strings.ReplaceAll(t.call, "\n", "; ") + " of " + t.inputs }

// feeds are values for the inputs of a graph, whose open dims are 1.
func feeds(g *graph.Graph) (map[string]tensor.Value, error) {
	m := map[string]tensor.Value{}
	for _, v := range g.Inputs {
		dims := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			dims[i] = 1
			if n, ok := d.Const(); ok {
				dims[i] = int(n)
			}
		}
		t, err := filled(v.Type.DType, dims)
		if err != nil {
			return nil, err
		}
		m[v.Name] = t
	}
	return m, nil
}

// filled returns a tensor of numbers that are the same each time: floats between -1 and 1, integers from 0 to 7.
func filled(dt tensor.DType, dims []int) (*tensor.Tensor, error) {
	t, err := tensor.New(dt, dims...)
	if err != nil {
		return nil, err
	}
	x := uint32(12345)
	le, size := binary.LittleEndian, dt.Size()
	for at := 0; at+size <= len(t.Data); at += size {
		x = x*1664525 + 1013904223
		f := float32(x>>8)/(1<<23) - 1
		switch d := t.Data[at:]; dt {
		case tensor.Float32:
			le.PutUint32(d, math.Float32bits(f))
		case tensor.Float64:
			le.PutUint64(d, math.Float64bits(float64(f)))
		case tensor.Float16:
			le.PutUint16(d, uint16(0x3800|x>>22)) // 0.5 to 1
		case tensor.Bool:
			d[0] = byte(x >> 31)
		default:
			d[0] = byte(x >> 29)
		}
	}
	return t, nil
}
