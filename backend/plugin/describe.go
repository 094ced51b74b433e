package plugin

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/graph/tensor/dlpack"
)

// description is a graph as a plugin sees it, in a page.
type description struct {
	w      *writer
	l      *Library
	at     *cGraph
	values []*graph.Value          // by index
	index  map[*graph.Value]uint32 // of values
	nodes  []*graph.Node           // in the order of the graph's nodes
	// symbols are the dims that are open, by number minus one: names, and expressions of names as a whole.
	symbols   []graph.Dim
	number    map[string]uint32
	constants []*graph.Value
}

// describe writes nodes, in topological order, and the values that they touch. Values that none of them makes are inputs or
// constants; what others than they read, or is an output of the graph, is an output.
func (l *Library) describe(w *writer, nodes []*graph.Node) *description {
	d := &description{w: w, l: l, index: map[*graph.Value]uint32{}, number: map[string]uint32{}, nodes: nodes}
	made := map[*graph.Node]bool{}
	for _, n := range nodes {
		made[n] = true
	}
	var inputs, outputs []uint32
	for _, n := range nodes {
		for _, v := range n.Operands() {
			if v == nil || d.has(v) {
				continue
			}
			i := d.add(v)
			switch {
			case v.IsConst() || v.IsDims():
				d.constants = append(d.constants, v)
			case v.Producer == nil || !made[v.Producer]:
				inputs = append(inputs, i)
			}
		}
		for _, v := range n.Outputs {
			if v != nil && !d.has(v) {
				d.add(v)
			}
		}
	}
	for _, n := range nodes {
		for _, v := range n.Outputs {
			if v != nil && (v.IsOutput() || slices.ContainsFunc(v.Uses(), func(u graph.Use) bool { return !made[u.Node] })) {
				outputs = append(outputs, d.index[v])
			}
		}
	}
	d.write(inputs, outputs)
	return d
}

// describeGroup writes a group's graph, with its own inputs, outputs and constants in order.
func (l *Library) describeGroup(w *writer, g *graph.Graph) (*description, error) {
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	d := &description{w: w, l: l, index: map[*graph.Value]uint32{}, number: map[string]uint32{}, nodes: order}
	var inputs, outputs []uint32
	for _, v := range g.Inputs {
		inputs = append(inputs, d.add(v))
	}
	for v := range g.Constants() {
		d.add(v)
		d.constants = append(d.constants, v)
	}
	for _, n := range order {
		for _, v := range n.Outputs {
			if v != nil {
				d.add(v)
			}
		}
	}
	for _, v := range g.Outputs {
		if !d.has(v) {
			return nil, fmt.Errorf("%w: output %v is no value of the group", ErrPlugin, v)
		}
		outputs = append(outputs, d.index[v])
	}
	d.write(inputs, outputs)
	return d, nil
}

func (d *description) has(v *graph.Value) bool {
	_, ok := d.index[v]
	return ok
}

func (d *description) add(v *graph.Value) uint32 {
	i := uint32(len(d.values))
	d.values = append(d.values, v)
	d.index[v] = i
	return i
}

// write puts everything that was added into the page.
func (d *description) write(inputs, outputs []uint32) {
	w := d.w
	d.at = one[cGraph](w)
	nodes := make([]uintptr, len(d.nodes))
	for i, n := range d.nodes {
		nodes[i] = address(d.node(n))
	}
	values := make([]uintptr, len(d.values))
	for i, v := range d.values {
		values[i] = address(d.value(v))
	}
	constants := make([]uint32, len(d.constants))
	for i, v := range d.constants {
		constants[i] = d.index[v]
	}
	*d.at = cGraph{size: uint32(unsafe.Sizeof(*d.at)), nNodes: uint32(len(nodes)), nodes: list(w, nodes), values: list(w, values),
		nValues: uint32(len(values)), nInputs: uint32(len(inputs)), inputs: list(w, inputs), outputs: list(w, outputs),
		nOutputs: uint32(len(outputs)), nConstants: uint32(len(constants)), constants: list(w, constants)}
}

// value writes what is known of a value.
func (d *description) value(v *graph.Value) *cValue {
	w := d.w
	c := one[cValue](w)
	*c = cValue{size: uint32(unsafe.Sizeof(*c)), ndim: -1, name: w.text(v.Name), format: d.l.format(w, v.Format)}
	if !v.Type.IsTensor() {
		return c
	}
	c.typ = int32(v.Type.DType)
	if v.Type.Shape.Known() {
		dims, symbols, open := make([]int64, len(v.Type.Shape)), make([]uint32, len(v.Type.Shape)), false
		for i, dim := range v.Type.Shape {
			n, ok := dim.Const()
			if !ok {
				n, symbols[i], open = -1, d.symbol(dim), true
			}
			dims[i] = n
		}
		c.ndim, c.dims = int32(len(dims)), list(w, dims)
		if open {
			c.symbols = list(w, symbols)
		}
	}
	if v.IsConst() && v.Const != nil {
		c.constant = address(d.l.tensor(w, v.Const))
	}
	return c
}

// symbol returns the number of an open dim.
func (d *description) symbol(dim graph.Dim) uint32 {
	s := dim.String()
	if n := d.number[s]; n > 0 {
		return n
	}
	d.symbols = append(d.symbols, dim)
	d.number[s] = uint32(len(d.symbols))
	return d.number[s]
}

// node writes a node with its attributes, and the body of a fused one.
func (d *description) node(n *graph.Node) *cNode {
	w := d.w
	c := one[cNode](w)
	ports := func(vs []*graph.Value) []uint32 {
		out := make([]uint32, len(vs))
		for i, v := range vs {
			out[i] = noValue
			if v != nil {
				out[i] = d.index[v]
			}
		}
		return out
	}
	var attrs []uintptr
	add := func(a *graph.Attr) {
		if x := d.attr(a); x != nil {
			attrs = append(attrs, address(x))
		}
	}
	for i := range n.Attrs {
		add(&n.Attrs[i])
	}
	op := n.Op
	if schema := graph.LookupSchema(op.Domain, op.Name, op.Since); schema != nil {
		for i := range schema.Attrs {
			if s := &schema.Attrs[i]; s.Default != nil && s.Kind != graph.AttrStrings && n.Attrs.Lookup(s.Name) == nil {
				add(s.Default)
			}
		}
	}
	*c = cNode{size: uint32(unsafe.Sizeof(*c)), since: int32(op.Since), domain: w.text(op.Domain), op: w.text(op.Name), name: w.text(n.Name),
		inputs: list(w, ports(n.Inputs)), nInputs: uint32(len(n.Inputs)), outputs: list(w, ports(n.Outputs)), nOutputs: uint32(len(n.Outputs)),
		attrs: list(w, attrs), nAttrs: uint64(len(attrs))}
	if n.IsCarve("Fused") && len(n.Regions) > 0 {
		if body, err := d.l.describeGroup(w, n.Regions[0].Graph); err == nil {
			c.body = address(body.at)
		} else if w.err == nil {
			w.err = err
		}
	}
	return c
}

// attr writes an attribute, nil for one of a kind that the interface lacks.
func (d *description) attr(a *graph.Attr) *cAttr {
	w := d.w
	c := cAttr{size: uint32(unsafe.Sizeof(cAttr{})), name: w.text(a.Name)}
	switch a.Kind {
	case graph.AttrFloat:
		c.typ, c.f = 1, float64(a.Float)
	case graph.AttrInt:
		c.typ, c.i = 2, a.Int
	case graph.AttrString:
		c.typ, c.s = 3, w.text(a.Str)
	case graph.AttrTensor:
		if a.Tensor == nil || a.Tensor.DType == tensor.String {
			return nil
		}
		c.typ, c.tensor = 4, address(d.l.tensor(w, a.Tensor))
	case graph.AttrFloats:
		c.typ, c.floats, c.n = 6, list(w, a.Floats), uint64(len(a.Floats))
	case graph.AttrInts:
		c.typ, c.ints, c.n = 7, list(w, a.Ints), uint64(len(a.Ints))
	case graph.AttrStrings:
		texts := make([]cStr, len(a.Strs))
		for i, s := range a.Strs {
			texts[i] = w.text(s)
		}
		c.typ, c.strings, c.n = 8, list(w, texts), uint64(len(texts))
	case graph.AttrNone, graph.AttrTensors, graph.AttrType, graph.AttrDims:
		return nil
	}
	out := one[cAttr](w)
	*out = c
	return out
}

// format writes a format, 0 for row-major on the host.
func (l *Library) format(w *writer, f graph.Format) uintptr {
	if f == graph.HostFormat {
		return 0
	}
	c := one[cFormat](w)
	*c = cFormat{size: uint32(unsafe.Sizeof(*c)), layout: w.text(layoutText(f.Layout))}
	c.deviceType, c.deviceID = l.outside(f.Device)
	return address(c)
}

// layoutText is the layout as the interface writes it.
func layoutText(l graph.Layout) string {
	if l.IsRowMajor() {
		return ""
	}
	return l.String()
}

// readFormat reads a format of the plugin's; an address of 0 is row-major on the host.
func (p *processor) readFormat(from side, at uintptr) (graph.Format, error) {
	if at == 0 {
		return graph.HostFormat, nil
	}
	c, err := view[cFormat](from, at, "format")
	if err != nil {
		return graph.Format{}, err
	}
	layout, err := graph.ParseLayout(from.text(c.layout))
	if err != nil {
		return graph.Format{}, fmt.Errorf("%w: %w", ErrPlugin, err)
	}
	id, err := p.deviceOf(c.deviceType, c.deviceID)
	return graph.Format{Device: id.Canonical(), Layout: layout}, err
}

// tensor writes a constant that lies on the host. Its storage stays where it is.
func (l *Library) tensor(w *writer, t *tensor.Tensor) *cTensor {
	c := one[cTensor](w)
	_ = l.head(w, c, t.DType, t.Shape)
	c.flags, c.deviceType = tensorReadOnly, int32(tensor.Host)
	if t.Strides != nil {
		strides := make([]int64, len(t.Strides))
		for i, s := range t.Strides {
			strides[i] = int64(s)
		}
		c.strides = list(w, strides)
	}
	if t.Device.IsHost() && len(t.Data) > 0 {
		c.data = w.constant(t.Data)
	} else {
		c.data = t.Handle
		if p := l.opened(t.Device); p != nil && w.proc != nil {
			w.save(t)
			c.data = uintptr(w.placeOf(p, t.Handle, int64(t.Offset), int64(t.NumBytes())))
		}
		c.deviceType, c.deviceID = l.outside(t.Device)
	}
	c.byteOffset, c.bytes = uint64(t.Offset), int64(t.NumBytes())
	return c
}

// head writes what does not change of a tensor: its type and shape. It returns where the shape lies, and behind it room for as
// many strides.
func (l *Library) head(w *writer, c *cTensor, dt tensor.DType, shape []int) []int64 {
	dims := many[int64](w, 2*len(shape))
	put(dims, shape)
	*c = cTensor{size: uint32(unsafe.Sizeof(*c)), ndim: int32(len(shape)), typ: int32(dt)}
	if t, ok := dlpack.TypeOf(dt); ok {
		c.dtypeCode, c.dtypeBits, c.dtypeLanes = t.Code, t.Bits, t.Lanes
	}
	if len(shape) > 0 {
		c.shape = address(&dims[0])
	}
	return dims
}
