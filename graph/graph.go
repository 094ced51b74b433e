package graph

import (
	"fmt"
	"iter"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// Op names an operator: its domain ("" is ai.onnx), name, and the version of the operator set since which this version of
// it exists (0 where no schema is known).
type Op struct {
	Domain string
	Name   string
	Since  int
}

// String returns "Conv" or "com.example.Conv", quoted where a line would not hold it.
func (o Op) String() string {
	if o.Domain == "" {
		return plain(o.Name)
	}
	return plain(o.Domain + "." + o.Name)
}

// CarveDomain is the domain of carve's own operators.
const CarveDomain = "carve"

// Carve's own operators.
const (
	OpConvert  = "Convert"  // one operand; the output's Format differs from the operand's
	OpFused    = "Fused"    // an atomic claim: attribute "pattern", one Region "body"; see also AttrStandsFor
	OpSubgraph = "Subgraph" // a group: attribute "backend", one Region "body"; see also AttrStandsFor
)

// Graph is a typed SSA graph. Its nodes are kept in a list; the order of the list is where ties are broken, and need not
// be topological (see Topo). A Graph that is the region of a node is isolated: it names no value of the outer graph, but
// receives outer values through Captures, one to one with its owner's Captures.
//
// A Graph is used by one goroutine while it is changed, and is safe for concurrent reads otherwise.
type Graph struct {
	Name     string
	Inputs   []*Value          // in the model's order; change through AddInput and the rewriting methods only
	Captures []*Value          // parameters that stand for the owner's Captures; empty for a top-level graph
	Outputs  []*Value          // may repeat, and may be inputs or constants; change through SetOutputs and SetOutput only
	Opsets   map[string]int    // operator set version per domain, for export and for new nodes
	Doc      string            // free text of the model
	Meta     map[string]string // model metadata, carried

	owner     *Node
	nodes     []*Node // holes are nil
	live      int
	values    int32 // next value id
	nodeIDs   int32 // next node id
	freshDims int32
	consts    []*Value // constants and dims values, in creation order; holes are nil
	// nextOutput has, for each output, one more than the next place of the same value, 0 where it is the last.
	nextOutput []int32
	order      *ranks // a topological numbering while Extract works, nil where there is none
	// sources tells of the constants of an extracted body which outer ones they were cloned from.
	sources []source
	members []int64 // the ranks that the nodes of an extracted body had, ascending; nil where others have them now
}

// source is a constant, and the one of an outer graph that it is a clone of.
type source struct{ own, outer *Value }

// Node is one operation. Fields are read freely; operands, results and regions change through methods only, which keep
// use lists right.
type Node struct {
	ID       int     // dense per graph, never reused
	Op       Op      // what it computes
	Name     string  // label; the model's name for nodes that come from a model
	Schema   *Schema // nil where the operator is unknown
	Attrs    Attrs   // sorted by name
	Inputs   []*Value
	Captures []*Value // outer values used by the regions, operands in every graph algorithm
	Outputs  []*Value // nil for an omitted optional output
	Regions  []Region
	Origins  []string // provenance: names of the model's nodes; nil means the node's own Name
	Backend  string   // name of the backend that owns the node, "" before assignment
	SigName  string   // name of the chosen signature, "" before assignment
	// Ports is the chosen signature, without variables, nil before assignment. Verifiers check operands' formats by it.
	Ports *Signature

	graph *Graph
	pos   int     // index in graph.nodes
	slots []int32 // position of operand k's Use in its value's list; Inputs, then Captures
}

// Region is a nested graph of a node under its attribute's name ("then_branch", "body").
type Region struct {
	Name  string
	Graph *Graph
}

// Value is an edge: a graph input, a capture, a constant, a dims value or the result of a node.
type Value struct {
	ID     int // dense per graph, never reused
	Name   string
	Type   Type
	Format Format
	Const  *tensor.Tensor // data of a constant, held by reference
	// Dims is the content of an integer tensor of rank 0 or 1 whose elements are known as expressions of symbols. A value
	// that has Dims but neither Producer nor Const is a dims value: evaluated when shapes are known, claimed by nobody.
	Dims     []Dim
	Producer *Node
	Index    int // which of the producer's outputs

	graph  *Graph
	kind   valueKind
	pos    int32 // index among the graph's constants
	output int32 // one more than its first place in Graph.Outputs, 0 where it is none
	uses   []Use
	first  [1]Use // storage of the only use that most values have
}

type valueKind uint8

const (
	kindResult valueKind = iota
	kindInput
	kindCapture
	kindConst
	kindDims
	kindRemoved
)

// Use is one operand of a node. Slot counts Inputs first, then Captures.
type Use struct {
	Node *Node
	Slot int
}

// New returns an empty graph.
func New(name string) *Graph { return &Graph{Name: name, Opsets: map[string]int{}} }

// Owner returns the node of which g is a region, or nil.
func (g *Graph) Owner() *Node { return g.owner }

// NumNodes returns the number of nodes.
func (g *Graph) NumNodes() int { return g.live }

// NodeIDs returns a bound on node ids: every ID is below it. Passes size their tables with it.
func (g *Graph) NodeIDs() int { return int(g.nodeIDs) }

// ValueIDs returns a bound on value ids.
func (g *Graph) ValueIDs() int { return int(g.values) }

// Nodes iterates over the nodes in list order. The current node may be removed during the iteration, and nodes that are
// added come last.
func (g *Graph) Nodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for i := 0; i < len(g.nodes); i++ {
			if n := g.nodes[i]; n != nil && !yield(n) {
				return
			}
		}
	}
}

// Constants iterates over constants and dims values in the order in which they were made.
func (g *Graph) Constants() iter.Seq[*Value] {
	return func(yield func(*Value) bool) {
		for i := 0; i < len(g.consts); i++ {
			if v := g.consts[i]; v != nil && !yield(v) {
				return
			}
		}
	}
}

func (g *Graph) newValue(name string, t Type, kind valueKind) *Value {
	v := new(Value)
	g.define(v, name, t, kind)
	return v
}

// define makes v, which is a zero Value, one of g.
func (g *Graph) define(v *Value, name string, t Type, kind valueKind) {
	v.ID, v.Name, v.Type, v.graph, v.kind = int(g.values), name, t, g, kind
	v.uses = v.first[:0]
	g.values++
}

// AddInput adds a graph input.
func (g *Graph) AddInput(name string, t Type) *Value {
	v := g.newValue(name, t, kindInput)
	g.Inputs = append(g.Inputs, v)
	return v
}

// AddCapture adds a parameter for one more captured value. The owner must get a capture at the same index.
func (g *Graph) AddCapture(name string, t Type) *Value {
	v := g.newValue(name, t, kindCapture)
	g.Captures = append(g.Captures, v)
	return v
}

// AddConst adds a constant that refers to data. The tensor must not change afterwards.
func (g *Graph) AddConst(name string, data *tensor.Tensor) *Value {
	v := g.newValue(name, TypeOf(data), kindConst)
	v.Const = data
	v.Dims = constDims(data)
	v.pos = int32(len(g.consts))
	g.consts = append(g.consts, v)
	return v
}

// AddDims adds a dims value: an int64 vector, or a scalar where scalar is true, whose elements are expressions.
func (g *Graph) AddDims(name string, dims []Dim, scalar bool) *Value {
	t := TensorType(tensor.Int64, ShapeOf(len(dims)))
	if scalar {
		t.Shape = Shape{}
	}
	v := g.newValue(name, t, kindDims)
	v.Dims = dims
	v.pos = int32(len(g.consts))
	g.consts = append(g.consts, v)
	return v
}

// constDims returns the content of a small integer constant of rank 0 or 1 as dims, for shape inference.
func constDims(t *tensor.Tensor) []Dim {
	if len(t.Shape) > 1 || (len(t.Shape) == 1 && t.Shape[0] > 64) || t.DType != tensor.Int64 && t.DType != tensor.Int32 {
		return nil
	}
	var room [64]int64
	n := t.Len()
	if n < 0 || tensor.DecodeInts(room[:n], t) != nil {
		return nil
	}
	content := room[:n]
	out := make([]Dim, len(content))
	for i, x := range content {
		out[i].c = x
	}
	return out
}

// NodeSpec describes a node for AddNode.
type NodeSpec struct {
	Op       Op // Since 0: the schema is looked up for the graph's operator set
	Name     string
	Attrs    []Attr
	Inputs   []*Value // nil for an omitted optional input
	Captures []*Value
	Outputs  []string // names; "" for an omitted output unless there is only one
	Regions  []Region
	Origins  []string
}

// AddNode appends a node. Types of its outputs are unknown until inference. Operands must belong to g and regions to no
// other node; it panics otherwise, which is a programmer's error.
func (g *Graph) AddNode(s NodeSpec) *Node {
	n := newNode(len(s.Inputs), len(s.Outputs))
	n.ID, n.Op, n.Name, n.Regions, n.Origins, n.graph, n.pos = int(g.nodeIDs), s.Op, s.Name, s.Regions, s.Origins, g, len(g.nodes)
	g.nodeIDs++
	g.live++
	g.nodes = append(g.nodes, n)
	for _, a := range s.Attrs {
		n.Attrs = append(n.Attrs, a)
	}
	if len(n.Attrs) > 1 {
		slices.SortStableFunc(n.Attrs, func(a, b Attr) int {
			switch {
			case a.Name < b.Name:
				return -1
			case a.Name > b.Name:
				return 1
			}
			return 0
		})
	}
	if n.Schema = standsFor(n.Op, n.Attrs); n.Schema == nil {
		if n.Schema = LookupSchema(s.Op.Domain, s.Op.Name, versionFor(g, s.Op)); n.Schema != nil {
			n.Op.Since = n.Schema.Since
		}
	}
	n.Inputs = append(n.Inputs, s.Inputs...)
	n.Captures = slices.Clone(s.Captures)
	for range len(n.Inputs) + len(n.Captures) {
		n.slots = append(n.slots, 0)
	}
	for k := range n.slots {
		if v := n.Operand(k); v != nil {
			v.addUse(n, k)
		}
	}
	for range s.Outputs {
		n.Outputs = append(n.Outputs, nil)
	}
	for i, name := range s.Outputs {
		if name == "" && len(s.Outputs) > 1 {
			continue
		}
		n.newOutput(i, name)
	}
	for _, r := range n.Regions {
		if r.Graph.owner != nil {
			panic("graph: region has an owner already")
		}
		r.Graph.owner = n
	}
	return n
}

// newNode returns a node with room for inputs and outputs. Small nodes, which are nearly all, have it in one allocation.
func newNode(inputs, outputs int) *Node {
	if inputs > 3 || outputs > 1 {
		return &Node{Inputs: make([]*Value, 0, inputs), Outputs: make([]*Value, 0, outputs), slots: make([]int32, 0, inputs)}
	}
	var small struct {
		n     Node
		in    [3]*Value
		out   [1]*Value
		slots [3]int32
	}
	p := &small
	p.n.Inputs, p.n.Outputs, p.n.slots = p.in[:0], p.out[:0], p.slots[:0]
	return &p.n
}

func versionFor(g *Graph, op Op) int {
	if op.Since > 0 {
		return op.Since
	}
	for h := g; h != nil; {
		if v, ok := h.Opsets[op.Domain]; ok {
			return v
		}
		if h.owner == nil {
			break
		}
		h = h.owner.graph
	}
	return 1 << 30 // the newest
}

func (n *Node) newOutput(i int, name string) *Value {
	v := n.graph.newValue(name, Type{}, kindResult)
	v.Producer, v.Index = n, i
	n.Outputs[i] = v
	return v
}

// AddRegion gives n one more region.
func (n *Node) AddRegion(name string, r *Graph) {
	if r.owner != nil {
		panic("graph: region has an owner already")
	}
	r.owner = n
	n.Regions = append(n.Regions, Region{name, r})
}

// Graph returns the graph that holds n.
func (n *Node) Graph() *Graph { return n.graph }

// Is reports whether n is an operator of the default domain with one of these names.
func (n *Node) Is(names ...string) bool {
	return n.Op.Domain == "" && slices.Contains(names, n.Op.Name)
}

// IsCarve reports whether n is carve's own operator of that name.
func (n *Node) IsCarve(name string) bool { return name != "" && n.carveName() == name }

// NumOperands returns the number of inputs and captures, omitted ones included.
func (n *Node) NumOperands() int { return len(n.slots) }

// Operand returns input or capture k, nil where it is omitted.
func (n *Node) Operand(k int) *Value {
	if k < len(n.Inputs) {
		return n.Inputs[k]
	}
	return n.Captures[k-len(n.Inputs)]
}

// Operands iterates over the inputs and captures that are not omitted, with their slots.
func (n *Node) Operands() iter.Seq2[int, *Value] {
	return func(yield func(int, *Value) bool) {
		for k := range n.slots {
			if v := n.Operand(k); v != nil && !yield(k, v) {
				return
			}
		}
	}
}

// Input returns input i, nil where it is omitted or past the end.
func (n *Node) Input(i int) *Value {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return nil
}

// Output returns output i, nil where it is omitted or past the end.
func (n *Node) Output(i int) *Value {
	if i < len(n.Outputs) {
		return n.Outputs[i]
	}
	return nil
}

// Region returns the region of that name, or nil.
func (n *Node) Region(name string) *Graph {
	for _, r := range n.Regions {
		if r.Name == name {
			return r.Graph
		}
	}
	return nil
}

// Provenance returns the names of the model's nodes that n comes from.
func (n *Node) Provenance() []string {
	if n.Origins != nil {
		return n.Origins
	}
	if n.Name == "" {
		return nil
	}
	return []string{n.Name}
}

// Label names n for people: by the first of the model's nodes that it comes from; a node that the compiler added and named
// by its own name, and otherwise by the nearest node that reads it or that it reads.
func (n *Node) Label() string {
	if p := n.ModelNodes(); len(p) > 0 {
		return p[0]
	}
	return n.Name
}

// ModelNodes returns the provenance of n. Where it has none, since the compiler added it, it is that of the nearest node
// that reads its results, or else of the nearest that it reads from; nil where there is none. O(V+E) then.
func (n *Node) ModelNodes() []string {
	readers := func(n *Node) (out []*Node) {
		for _, v := range n.Outputs {
			if v != nil {
				for _, u := range v.Uses() {
					out = append(out, u.Node)
				}
			}
		}
		return out
	}
	makers := func(n *Node) (out []*Node) {
		for _, v := range n.Inputs {
			if v != nil && v.Producer != nil {
				out = append(out, v.Producer)
			}
		}
		return out
	}
	if p := n.nearest(readers); p != nil {
		return p
	}
	return n.nearest(makers)
}

// nearest returns the first provenance that a search breadth first from n finds.
func (n *Node) nearest(next func(*Node) []*Node) []string {
	seen := map[*Node]bool{n: true}
	for queue := []*Node{n}; len(queue) > 0; queue = queue[1:] {
		if p := queue[0].Provenance(); len(p) > 0 {
			return p
		}
		for _, m := range next(queue[0]) {
			if m != nil && !seen[m] {
				seen[m] = true
				queue = append(queue, m)
			}
		}
	}
	return nil
}

// Absorb adds the provenance of other to n's, without repetition.
func (n *Node) Absorb(other *Node) {
	own := n.Provenance()
	out := slices.Clone(own)
	for _, s := range other.Provenance() {
		if !slices.Contains(own, s) {
			out = append(out, s)
		}
	}
	n.Origins = out
}

// String returns operator and label, such as `Conv "conv1"`.
func (n *Node) String() string { return fmt.Sprintf("%s %q", n.Op, n.Name) }

// Graph returns the graph that holds v.
func (v *Value) Graph() *Graph { return v.graph }

// IsInput reports whether v is a graph input.
func (v *Value) IsInput() bool { return v.kind == kindInput }

// IsCapture reports whether v is a region's parameter for a captured value.
func (v *Value) IsCapture() bool { return v.kind == kindCapture }

// IsConst reports whether v is a constant with data.
func (v *Value) IsConst() bool { return v.kind == kindConst }

// IsDims reports whether v is a dims value.
func (v *Value) IsDims() bool { return v.kind == kindDims }

// IsOutput reports whether v is an output of its graph.
func (v *Value) IsOutput() bool { return v.output > 0 }

// Uses returns the operands that read v. The slice is shared and changes with the graph; its order is not meaningful.
func (v *Value) Uses() []Use { return v.uses }

// NumUses returns the number of operands that read v; graph outputs do not count.
func (v *Value) NumUses() int { return len(v.uses) }

// HasOneUse reports whether exactly one operand reads v and v is no output.
func (v *Value) HasOneUse() bool { return len(v.uses) == 1 && v.output == 0 }

// Consumers returns the distinct nodes that read v, by id.
func (v *Value) Consumers() []*Node {
	out := make([]*Node, 0, len(v.uses))
	for _, u := range v.uses {
		out = append(out, u.Node)
	}
	slices.SortFunc(out, func(a, b *Node) int { return a.ID - b.ID })
	return slices.Compact(out)
}

// String returns the value's name, or %id.
func (v *Value) String() string {
	if v.Name != "" {
		return plain(v.Name)
	}
	return fmt.Sprintf("%%%d", v.ID)
}

func (v *Value) addUse(n *Node, slot int) {
	if v.graph != n.graph {
		panic(fmt.Sprintf("graph: operand %v of %v belongs to another graph", v, n))
	}
	if v.graph.order != nil {
		v.graph.edge(v, n)
	}
	n.slots[slot] = int32(len(v.uses))
	v.uses = append(v.uses, Use{n, slot})
}

func (v *Value) removeUse(n *Node, slot int) {
	i := n.slots[slot]
	last := v.uses[len(v.uses)-1]
	v.uses[i] = last
	last.Node.slots[last.Slot] = i
	v.uses[len(v.uses)-1] = Use{}
	v.uses = v.uses[:len(v.uses)-1]
}
