package graph

import (
	"io"
	"maps"
	"slices"
	"strings"
)

// PrintOptions are the settings of Print; nil means the defaults.
type PrintOptions struct {
	// MaxElements is the most elements of a tensor whose data are written out; longer tensors are elided to their size
	// and a checksum. 0 means 32, a negative number means no limit.
	MaxElements int
}

// Print writes the text form of g: see the package documentation. Nodes come in list order, one per line, so that the
// text tells where ties are broken; Parse reads it back, and prints the same. It streams, and costs O(size of the text).
// A graph that violates invariants is printed as far as possible.
func Print(w io.Writer, g *Graph, o *PrintOptions) error {
	if g == nil {
		return errNilGraph
	}
	p := printer{w: w, max: 32}
	if o != nil && o.MaxElements != 0 {
		p.max = o.MaxElements
	}
	p.graph(g, 0)
	p.buf = append(p.buf, '\n')
	p.flush()
	return p.err
}

// String returns the text form of g with the default options.
func (g *Graph) String() string {
	var sb strings.Builder
	_ = Print(&sb, g, nil) // a Builder takes everything
	return sb.String()
}

// printer appends to buf and writes it out in pieces.
type printer struct {
	w     io.Writer
	buf   []byte
	err   error
	max   int
	names valueNames
	since map[Op]int // by domain and name: the since-version that the graph's operator sets give
	depth int        // of the regions
}

const flushBytes = 64 << 10

func (p *printer) flush() {
	if p.err == nil {
		_, p.err = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
}

func (p *printer) str(s string) { p.buf = append(p.buf, s...) }

// line starts a line at the given depth.
func (p *printer) line(depth int) {
	if len(p.buf) >= flushBytes {
		p.flush()
	}
	p.buf = append(p.buf, '\n')
	for range depth {
		p.str("  ")
	}
}

// graph writes `graph "name" { … }`, its body one deeper than depth.
func (p *printer) graph(g *Graph, depth int) {
	p.str("graph")
	if g.Name != "" {
		p.buf = append(p.buf, ' ')
		p.buf = appendQuoted(p.buf, g.Name)
	}
	p.str(" {")
	if p.depth > MaxRegionDepth {
		p.str("}")
		return
	}
	outerNames, outerSince := p.names, p.since
	p.names, p.since = nameValues(g), map[Op]int{}
	p.depth++
	p.head(g, depth+1)
	for _, v := range g.Inputs {
		p.line(depth + 1)
		p.str("input ")
		p.definition(v)
	}
	for _, v := range g.Captures {
		p.line(depth + 1)
		p.str("capture ")
		p.definition(v)
	}
	for v := range g.Constants() {
		p.line(depth + 1)
		p.constant(v)
	}
	for n := range g.Nodes() {
		p.line(depth + 1)
		p.node(n, depth+1)
	}
	if len(g.Outputs) > 0 {
		p.line(depth + 1)
		p.str("output ")
		for i, v := range g.Outputs {
			p.comma(i)
			p.ref(v)
		}
	}
	p.line(depth)
	p.str("}")
	p.depth--
	p.names, p.since = outerNames, outerSince
}

// head writes what a graph has beside values and nodes.
func (p *printer) head(g *Graph, depth int) {
	for _, domain := range slices.Sorted(maps.Keys(g.Opsets)) {
		p.line(depth)
		p.str("opset ")
		if domain != "" {
			p.buf = appendQuoted(p.buf, domain)
			p.str(" ")
		}
		p.str(itoa(g.Opsets[domain]))
	}
	for _, key := range slices.Sorted(maps.Keys(g.Meta)) {
		p.line(depth)
		p.str("meta ")
		p.buf = appendQuoted(p.buf, key)
		p.str(" = ")
		p.buf = appendQuoted(p.buf, g.Meta[key])
	}
	if g.Doc != "" {
		p.line(depth)
		p.str("doc ")
		p.buf = appendQuoted(p.buf, g.Doc)
	}
}

func (p *printer) comma(i int) {
	if i > 0 {
		p.str(", ")
	}
}

// definition writes `%x: f32[N,3] @host:NCHW16c dims [N,3]`.
func (p *printer) definition(v *Value) {
	p.ref(v)
	if v.Type.Kind != KindUnknown {
		p.str(": ")
		p.buf = appendType(p.buf, v.Type)
	}
	p.format(v.Format, v.Type)
	if v.Dims != nil && v.kind != kindConst && v.kind != kindDims {
		p.str(" dims ")
		p.known(v)
	}
}

// format writes ` @host:NCHW16c`, nothing for the host format.
func (p *printer) format(f Format, t Type) {
	if f.Device.IsHost() && f.Layout.IsRowMajor() {
		return
	}
	p.str(" ")
	p.buf = appendFormat(p.buf, f, len(t.Shape))
}

// known writes the known integers of v: a list, or a single one for a scalar.
func (p *printer) known(v *Value) {
	if v.Type.Shape != nil && len(v.Type.Shape) == 0 && len(v.Dims) == 1 {
		p.buf = appendDim(p.buf, v.Dims[0])
		return
	}
	p.buf = appendDims(p.buf, v.Dims)
}

// constant writes `const %w = f32[2]{1, 2} @…` or `dims %s = [N, 3]`, the latter with i32 where it is one.
func (p *printer) constant(v *Value) {
	if v.Const != nil {
		p.str("const ")
		p.ref(v)
		p.str(" = ")
		p.buf = appendTensor(p.buf, v.Const, p.max)
		p.format(v.Format, v.Type)
		return
	}
	p.str("dims ")
	p.ref(v)
	p.str(" = ")
	p.str(v.Type.DType.String())
	p.str(" ")
	p.known(v)
	p.format(v.Format, v.Type)
}

// ref writes the name by which the text speaks of a value.
func (p *printer) ref(v *Value) {
	if v == nil {
		p.buf = append(p.buf, '_')
		return
	}
	p.buf = p.names.appendRef(p.buf, v)
}
