package onnx

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// minIRVersion is the oldest version of the format that is written: the one whose constants need not be inputs.
const minIRVersion = 4

// exporter turns a graph into messages.
type exporter struct {
	ctx      context.Context
	o        SaveOptions
	data     io.Writer   // external data, or nil
	offset   int64       // in data
	weights  *weightList // that large constants are references to, or nil
	opsets   map[string]int
	polls    int
	outputs  []string                  // names of the model's outputs
	defaults map[string]*tensor.Tensor // of the model's inputs
}

// layer is a graph that is written: the names of its values, and what the graphs around it offer by name.
type layer struct {
	parent *layer
	names  map[*graph.Value]string
	shared map[*tensor.Tensor]string // constants of this and outer graphs that inner ones may name
	label  string                    // before the names of its nodes, cut off when written
}

// model writes a ModelProto.
func (e *exporter) model(m *Model) (*rope, error) {
	e.opsets, e.defaults = map[string]int{}, m.Defaults
	for domain, v := range m.Graph.Opsets {
		e.opsets[domain] = v
	}
	g, err := e.graph(m.Graph, nil, "", nil)
	if err != nil {
		return nil, err
	}
	r := &rope{}
	r.int(1, max(m.IRVersion, minIRVersion))
	r.str(2, m.Producer)
	r.str(3, m.ProducerVersion)
	r.str(4, m.Domain)
	if m.Version != 0 {
		r.int(5, m.Version)
	}
	r.str(6, m.Graph.Doc)
	r.message(7, g)
	for _, domain := range slices.Sorted(maps.Keys(e.opsets)) {
		o := &rope{}
		o.str(1, domain)
		o.int(2, int64(e.opsets[domain]))
		r.message(8, o)
	}
	for _, key := range slices.Sorted(maps.Keys(m.Graph.Meta)) {
		o := &rope{}
		o.str(1, key)
		o.str(2, m.Graph.Meta[key])
		r.message(14, o)
	}
	if r.n > 1<<31-1 {
		return nil, fmt.Errorf("%w: message of %d bytes, limit %d; write the weights as external data", ErrTooLarge, r.n, 1<<31-1)
	}
	return r, nil
}

// graph writes a GraphProto. For a region, owner is the node that has it and label what its nodes' names begin with.
func (e *exporter) graph(g *graph.Graph, parent *layer, label string, owner *graph.Node) (*rope, error) {
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	ly := &layer{parent: parent, names: map[*graph.Value]string{}, label: label}
	own := e.name(g, ly, owner)
	r := &rope{}
	for _, n := range order {
		if e.polls++; e.polls&1023 == 0 && e.ctx.Err() != nil {
			return nil, e.ctx.Err()
		}
		msg, err := e.node(n, ly)
		if err != nil {
			return nil, at(err, n.Name, "")
		}
		r.message(1, msg)
	}
	extra, outs := e.aliases(g, ly, parent == nil)
	for _, msg := range extra {
		r.message(1, msg)
	}
	r.str(2, g.Name)
	for _, v := range own {
		if err := e.initializer(r, v, ly.names[v]); err != nil {
			return nil, at(err, "", v.Name)
		}
	}
	if parent == nil {
		if err := e.writeDefaults(r, g, ly); err != nil {
			return nil, err
		}
	}
	for _, v := range g.Inputs {
		r.message(11, valueInfoMessage(ly.names[v], v.Type))
	}
	for i, v := range g.Outputs {
		r.message(12, valueInfoMessage(outs[i], v.Type))
	}
	for _, n := range order {
		for _, v := range n.Outputs {
			if v != nil && v.Type.Kind != graph.KindUnknown && !v.IsOutput() {
				r.message(13, valueInfoMessage(ly.names[v], v.Type))
			}
		}
	}
	return r, nil
}

// name names the values of g: captures and constants of outer graphs as there, the rest as they are called, made unique.
// It returns the constants that g must write itself.
func (e *exporter) name(g *graph.Graph, ly *layer, owner *graph.Node) (own []*graph.Value) {
	taken := newNames()
	taken.taken[""] = true
	ly.shared = map[*tensor.Tensor]string{}
	for i, v := range g.Captures {
		ly.names[v] = ly.parent.names[owner.Captures[i]]
		taken.taken[ly.names[v]] = true
	}
	for v := range g.Constants() {
		if ly.parent != nil && v.Const != nil {
			if s, ok := ly.parent.shared[v.Const]; ok {
				ly.names[v] = s
				taken.taken[s] = true
				continue
			}
		}
		own = append(own, v)
	}
	give := func(v *graph.Value) {
		if _, ok := ly.names[v]; !ok && v != nil {
			s := v.Name
			if s == "" {
				s = fmt.Sprintf("v%d", v.ID)
				for p := ly.parent; p != nil; p = p.parent {
					s += "'" // no name of a graph around it
				}
			}
			ly.names[v] = taken.unique(s)
		}
	}
	for _, v := range g.Inputs {
		give(v)
	}
	if ly.parent == nil {
		for i, v := range g.Outputs { // outputs keep the names that users know; others make way
			if i >= len(e.outputs) || taken.taken[e.outputs[i]] {
				continue
			}
			if _, ok := ly.names[v]; !ok {
				ly.names[v] = e.outputs[i]
			}
			taken.unique(e.outputs[i])
		}
	}
	for _, v := range own {
		give(v)
	}
	for n := range g.Nodes() {
		for _, v := range n.Outputs {
			give(v)
		}
	}
	e.share(g, ly, taken)
	return own
}

// share fills ly.shared: the graph's constants, and those of outer graphs whose names it does not use otherwise.
func (e *exporter) share(g *graph.Graph, ly *layer, taken *names) {
	if ly.parent != nil {
		for t, s := range ly.parent.shared {
			if !taken.taken[s] {
				ly.shared[t] = s
			}
		}
	}
	for v := range g.Constants() {
		if v.Const != nil {
			ly.shared[v.Const] = ly.names[v]
		}
	}
	for n := range g.Nodes() {
		if t := n.TensorAttr("value"); t != nil && n.Is("Constant") && n.Output(0) != nil {
			if _, ok := ly.shared[t]; !ok {
				ly.shared[t] = ly.names[n.Outputs[0]]
			}
		}
	}
}

// aliases returns the names of g's outputs. Where an output of the model bears another name than its value, as after
// passes that moved it, an Identity gives it that name.
func (e *exporter) aliases(g *graph.Graph, ly *layer, top bool) (extra []*rope, outs []string) {
	given := map[string]string{} // names of outputs that an Identity makes
	used := map[string]bool{}
	for _, s := range ly.names {
		used[s] = true
	}
	for i, v := range g.Outputs {
		s := ly.names[v]
		if top && i < len(e.outputs) && e.outputs[i] != s && e.outputs[i] != "" {
			want := e.outputs[i]
			if from, ok := given[want]; ok && from == s {
				s = want
			} else if !used[want] {
				n := &rope{}
				n.always(1, s)
				n.always(2, want)
				n.str(4, "Identity")
				extra = append(extra, n)
				used[want], given[want], s = true, s, want
				if _, ok := e.opsets[""]; !ok {
					e.opsets[""] = newestOpset
				}
			}
		}
		outs = append(outs, s)
	}
	return extra, outs
}

// writeDefaults writes the data of inputs that have some: initializers of the inputs' names.
func (e *exporter) writeDefaults(r *rope, g *graph.Graph, ly *layer) error {
	for _, v := range g.Inputs {
		if t := e.defaults[v.Name]; t != nil {
			if err := e.tensor(r, t, ly.names[v]); err != nil {
				return at(err, "", v.Name)
			}
		}
	}
	return nil
}

// initializer writes a constant.
func (e *exporter) initializer(r *rope, v *graph.Value, name string) error {
	t := v.Const
	if t == nil {
		var err error
		if t, err = dimsTensor(v); err != nil {
			return err
		}
	}
	return e.tensor(r, t, name)
}

// tensor writes an initializer, into external data where that is asked for and worth it.
func (e *exporter) tensor(r *rope, t *tensor.Tensor, name string) error {
	if e.weights != nil && t.NumBytes() >= e.o.MinExternal && t.DType != tensor.String {
		x, err := e.weights.add(t, name)
		if err != nil {
			return err
		}
		r.bytes(5, tensor.AppendExternalProto(nil, x))
		return nil
	}
	if e.data != nil && t.NumBytes() >= e.o.MinExternal && t.DType != tensor.String {
		return e.external(r, t, name)
	}
	return tensorMessage(r, 5, name, t)
}

// dimsTensor returns the content of a dims value whose elements are numbers.
func dimsTensor(v *graph.Value) (*tensor.Tensor, error) {
	nums, ok := graph.Shape(v.Dims).Static()
	if !ok && len(v.Dims) > 0 {
		return nil, fmt.Errorf("%w: dims %v of symbols", ErrUnsupported, v.Dims)
	}
	ints := make([]int64, len(v.Dims))
	for i, n := range nums {
		ints[i] = int64(n)
	}
	shape := []int{len(ints)}
	if len(v.Type.Shape) == 0 {
		shape = []int{}
	}
	t, err := tensor.New(v.Type.DType, shape...)
	if err != nil {
		return nil, err
	}
	return t, tensor.EncodeInts(t, ints)
}

// tensorMessage appends a TensorProto that refers to the tensor's storage.
func tensorMessage(r *rope, num int, name string, t *tensor.Tensor) error {
	head, payload, err := tensor.AppendProtoHead(nil, name, t)
	if err != nil {
		return err
	}
	r.head(fieldNumber(num), len(head)+len(payload))
	r.add(head)
	r.refer(payload)
	return nil
}

// dataAlignment is where tensors start in external data, in bytes: enough for every vector unit and for a cache line.
const dataAlignment = 64

// external writes the elements of a constant to the file of external data.
func (e *exporter) external(r *rope, t *tensor.Tensor, name string) error {
	if !t.IsCompact() {
		c, err := t.Clone()
		if err != nil {
			return err
		}
		t = c
	}
	if err := t.Check(); err != nil {
		return err
	}
	if !t.Device.IsHost() {
		return tensor.ErrNotHost
	}
	if pad := -e.offset & (dataAlignment - 1); pad > 0 {
		n, err := e.data.Write(make([]byte, pad))
		e.offset += int64(n)
		if err != nil {
			return err
		}
	}
	x := tensor.External{Name: name, DType: t.DType, Shape: t.Shape, Location: e.o.External, Offset: e.offset, Length: int64(t.NumBytes())}
	n, err := e.data.Write(t.Bytes())
	e.offset += int64(n)
	if err != nil {
		return err
	}
	r.bytes(5, tensor.AppendExternalProto(nil, x))
	return nil
}

// node writes a NodeProto.
func (e *exporter) node(n *graph.Node, ly *layer) (*rope, error) {
	if err := e.version(n); err != nil {
		return nil, err
	}
	r := &rope{}
	for _, v := range n.Inputs {
		r.always(1, ly.names[v]) // "" for an omitted one
	}
	first := ""
	for _, v := range n.Outputs {
		s := ""
		if v != nil {
			s = ly.names[v]
		}
		r.always(2, s)
		if first == "" {
			first = s
		}
	}
	if name := strings.TrimPrefix(n.Name, ly.label); name != first {
		r.str(3, name)
	}
	r.str(4, n.Op.Name)
	for i := range n.Attrs {
		a, err := attrMessage(&n.Attrs[i])
		if err != nil {
			return nil, at(err, n.Name, n.Attrs[i].Name)
		}
		r.message(5, a)
	}
	if err := e.regions(r, n, ly); err != nil {
		return nil, err
	}
	r.str(7, n.Op.Domain)
	return r, nil
}

// version checks that the operator set of the model gives n's version of its operator, and adds a domain that is missing.
func (e *exporter) version(n *graph.Node) error {
	if n.IsCarve(graph.OpConvert) {
		return fmt.Errorf("%w: conversions of layout", ErrUnsupported)
	}
	v, ok := e.opsets[n.Op.Domain]
	if !ok {
		v = max(n.Op.Since, 1)
		if n.Op.Domain == "" {
			v = newestOpset
		}
		e.opsets[n.Op.Domain] = v
	}
	if n.Schema == nil || n.Op.Domain != graph.CarveDomain && n.Schema.Domain == graph.CarveDomain {
		return nil
	}
	s := graph.LookupSchema(n.Op.Domain, n.Op.Name, v)
	if s == nil && n.Schema.Evaluator != nil { // its schema is none of the registry's
		return nil
	}
	if s == nil || s.Since != n.Op.Since {
		return fmt.Errorf("%w: %v since %d in a model of version %d", ErrUnsupportedOpset, n.Op, n.Op.Since, v)
	}
	return nil
}

// regions writes the graphs of a node as attributes. Regions "name/0", "name/1" … are one attribute that lists graphs.
func (e *exporter) regions(r *rope, n *graph.Node, ly *layer) error {
	for i := 0; i < len(n.Regions); {
		name, list := listName(n.Regions[i].Name)
		a := &rope{}
		a.str(1, name)
		kind, num := attrGraph, 6
		if list {
			kind, num = attrGraphs, 11
		}
		for first := true; i < len(n.Regions); first = false {
			region := n.Regions[i]
			if next, isList := listName(region.Name); !first && (!list || !isList || next != name) {
				break
			}
			g, err := e.graph(region.Graph, ly, n.Name+"/"+region.Name+"/", n)
			if err != nil {
				return err
			}
			a.message(fieldNumber(num), g)
			i++
		}
		a.int(20, int64(kind))
		r.message(5, a)
	}
	return nil
}

// listName splits the name of a region that is one of a list.
func listName(s string) (name string, list bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return s, false
	}
	return s[:i], true
}
