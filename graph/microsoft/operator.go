package microsoft

import (
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// The domains of ONNX Runtime whose operators the package has.
const (
	Domain      = "com.microsoft"
	DomainNCHWc = "com.microsoft.nchwc"
)

// Causes of errors about nodes that satisfy their schema and still cannot be said in standard operators.
var (
	ErrUnsupported = errors.New("not supported")
	ErrAttribute   = errors.New("bad attribute")
	ErrShape       = errors.New("shape not known, or of the wrong rank")
)

// operator is an operator of one of the domains: its schema as graph.ParseSchema reads it, and either what standard operators it
// stands for, or how its results are typed and computed.
type operator struct {
	domain, name, schema string
	graphs               []graph.AttrSpec // attributes that are graphs
	expand               func(*op)        // sets op.out
	infer                func(*graph.Inference) error
	eval                 func(*call) error
	keep                 func(*graph.Node) bool // where both are there: whether a node stays what it is
}

// expansions are the operators that Expand replaces, by their schema; known are all.
var expansions, known = map[*graph.Schema]*operator{}, map[*graph.Schema]*operator{}

func init() {
	for _, list := range [][]operator{elementwiseOperators, productOperators, normOperators, movingOperators, attentionOperators, rotaryOperators,
		quantisedOperators, blockwiseOperators, blockedOperators, expertOperators, streamOperators, decodingOperators, searchOperators, ownOperators} {
		for i := range list {
			register(&list[i])
		}
	}
	for _, list := range [][]operator{oldOperators, experimentalOperators} {
		for i := range list {
			registerOld(&list[i])
		}
	}
}

func register(x *operator) {
	domain := x.domain
	if domain == "" {
		domain = Domain
	}
	s, err := graph.ParseSchema(domain, x.name, 1, x.schema)
	if err != nil {
		panic(err)
	}
	s.Attrs = append(s.Attrs, x.graphs...)
	x.bind(s)
}

// registerOld registers an operator of the default domain that ONNX has later, as an experiment or never.
func registerOld(x *operator) {
	s, err := graph.ParseSchema(Domain, x.name, 1, x.schema)
	if err != nil {
		panic(err)
	}
	s.Domain = ""
	x.bind(s)
}

func (x *operator) bind(s *graph.Schema) {
	known[s] = x
	s.Infer = x.infer
	if x.expand != nil {
		expansions[s] = x
	}
	if x.infer == nil {
		s.Infer = x.inferExpanded
	}
	if x.eval != nil {
		s.Evaluator = kernel(x.eval)
	}
	graph.RegisterSchema(s)
}

// Expand replaces all nodes of g, and of the graphs nested in it, that standard operators say by these. Types have to be inferred,
// and are so afterwards. Names of results and provenance stay. The error names the node; it wraps one of the package's errors, or
// is graph's. Nodes that need a rank or a size that only a run tells stay, and are expanded where it is known. Nodes of operators that have kernels of their own beside that stay where keep says so; nil keeps none.
func Expand(g *graph.Graph, keep func(n *graph.Node) bool) error {
	var list []*graph.Node
	for n := range g.Nodes() {
		if x := expansionOf(n); x != nil && x.graphs != nil {
			list = append(list, n)
		}
	}
	if len(list) > 0 { // their graphs become parts of this one, which is looked at then
		if err := expandAll(g, list); err != nil {
			return err
		}
		list = nil
	}
	for n := range g.Nodes() {
		for _, r := range n.Regions {
			if err := Expand(r.Graph, keep); err != nil {
				return err
			}
		}
		if x := expansionOf(n); x != nil && (x.keep == nil || !x.keep(n) && (keep == nil || !keep(n))) {
			list = append(list, n)
		}
	}
	return expandAll(g, list)
}

// expandAll replaces some nodes of g.
func expandAll(g *graph.Graph, list []*graph.Node) error {
	for _, n := range list {
		if err := expandNode(n); err != nil && !expansionOf(n).waits(err) {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	g.Compact()
	return g.Sort()
}

func expandNode(n *graph.Node) error {
	g := n.Graph()
	first := g.NodeIDs()
	o := &op{n: n, g: g, in: n.Inputs, out: make([]*graph.Value, len(n.Outputs))}
	if err := o.run(expansionOf(n).expand); err != nil {
		if expansionOf(n).waits(err) {
			for _, m := range slices.Backward(o.made) {
				g.Remove(m)
			}
		}
		return err
	}
	for i, old := range n.Outputs {
		if old == nil {
			continue
		}
		v := o.out[i]
		if v.Producer == nil || v.Producer.Graph() != g || v.Producer.ID < first || v.Name == old.Name {
			if err := o.run(func(o *op) { v = o.call("Identity", nil, v) }); err != nil {
				return err
			}
		}
		v.Name = old.Name
		if v.Type.Kind == graph.KindUnknown || v.Type.Shape == nil {
			v.Type = old.Type
		}
		g.ReplaceUses(old, v)
	}
	g.Remove(n)
	for _, m := range o.made { // what only results that nobody reads needed
		removeDead(g, m)
	}
	return nil
}

// removeDead removes a node, and what it alone read, where nobody reads its results.
func removeDead(g *graph.Graph, n *graph.Node) {
	if n.Graph() == nil {
		return
	}
	for _, v := range n.Outputs {
		if v != nil && (v.NumUses() > 0 || v.IsOutput()) {
			return
		}
	}
	operands := append([]*graph.Value{}, n.Inputs...)
	g.Remove(n)
	for _, v := range operands {
		if v != nil && v.Producer != nil && v.Producer.Graph() == g && isMade(v.Producer, n) {
			removeDead(g, v.Producer)
		}
	}
}

// isMade reports whether p was made for the same node as n: both have its provenance.
func isMade(p, n *graph.Node) bool {
	return len(p.Origins) == 1 && len(n.Origins) == 1 && p.Origins[0] == n.Origins[0]
}

// inferExpanded types the results of a node as those of the standard operators that it stands for, on a graph beside its own.
func (x *operator) inferExpanded(c *graph.Inference) error {
	g := graph.New("")
	o := &op{n: c.Node, g: g, in: make([]*graph.Value, c.NumInputs()), out: make([]*graph.Value, c.NumOutputs())}
	toInner, toOuter := map[string]graph.Dim{}, map[string]graph.Dim{}
	for i, v := range c.Node.Inputs {
		if v == nil {
			continue
		}
		if t := c.Node.Inputs[i].Const; t != nil {
			o.in[i] = g.AddConst(v.Name, t)
			continue
		}
		for _, d := range append(append([]graph.Dim{}, v.Type.Shape...), v.Dims...) {
			protect(d, toInner, toOuter)
		}
		t := v.Type
		t.Shape = substituted(t.Shape, toInner)
		o.in[i] = g.AddInput(v.Name, t)
		o.in[i].Dims = substituted(v.Dims, toInner)
	}
	if err := o.run(x.expand); err != nil {
		if !x.waits(err) {
			return err
		}
		for i := range o.out {
			if err := c.SetShape(i, nil); err != nil { // of the type that the schema says
				return err
			}
		}
		return nil
	}
	for i, v := range o.out {
		if v == nil {
			continue
		}
		t := v.Type
		for _, d := range append(append([]graph.Dim{}, t.Shape...), v.Dims...) {
			renew(c, d, toOuter)
		}
		t.Shape = substituted(t.Shape, toOuter)
		c.SetType(i, t)
		if v.Dims != nil {
			c.SetDims(i, substituted(v.Dims, toOuter))
		}
	}
	return nil
}

// protect gives the unbacked symbols of d, which count from 1 in each graph, names that no other graph makes.
func protect(d graph.Dim, toInner, toOuter map[string]graph.Dim) {
	names := map[string]bool{}
	d.Symbols(names)
	for name := range names {
		if name != "" && name[0] == '?' {
			inner := "outer" + name
			toInner[name], toOuter[inner] = graph.Sym(inner), graph.Sym(name)
		}
	}
}

// renew gives symbols that the inner graph made names of the outer one.
func renew(c *graph.Inference, d graph.Dim, toOuter map[string]graph.Dim) {
	names := map[string]bool{}
	d.Symbols(names)
	for name := range names {
		if _, known := toOuter[name]; !known && name != "" && name[0] == '?' {
			toOuter[name] = c.Fresh()
		}
	}
}

func substituted(s []graph.Dim, sub map[string]graph.Dim) []graph.Dim {
	if s == nil || len(sub) == 0 {
		return s
	}
	out := make([]graph.Dim, len(s))
	for i, d := range s {
		out[i] = d.Subst(sub)
	}
	return out
}

// fault carries an error out of an expansion.
type fault struct{ err error }

// run calls f and returns what made it fail, or which result it has not made.
func (o *op) run(f func(*op)) error {
	if err := o.try(f); err != nil {
		return err
	}
	for i, v := range o.n.Outputs {
		if v != nil && o.out[i] == nil {
			return fmt.Errorf("%v: %w: result %d", o.n, ErrUnsupported, i)
		}
	}
	return nil
}

// try calls f and returns what made it fail.
func (o *op) try(f func(*op)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			x, ok := r.(fault)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("%v: %w", o.n, x.err)
		}
	}()
	f(o)
	return nil
}

// Info is an operator of the package.
type Info struct {
	Op       graph.Op
	Standard bool // Expand replaces it; others have kernels of their own
}

// Operators returns all operators of the package, those of each domain in the order of their names.
func Operators() []Info {
	var out []Info
	for _, op := range graph.Operators() {
		for _, s := range graph.SchemaVersions(op.Domain, op.Name) {
			if _, ok := known[s]; ok {
				out = append(out, Info{Op: graph.Op{Domain: s.Domain, Name: s.Name, Since: s.Since}, Standard: expansions[s] != nil})
			}
		}
	}
	return out
}
