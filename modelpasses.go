package carve

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// The passes over the model's graph.

// pinDims gives symbols and inputs the values that Options.Dims and Options.Shapes name.
func (c *compilation) pinDims() error {
	sub := map[string]graph.Dim{}
	for name, n := range c.o.Dims {
		if n < 0 {
			return fmt.Errorf("%w: dim %s is %d", graph.ErrDimValue, name, n)
		}
		sub[name] = graph.D(n)
	}
	known := map[string]bool{}
	for _, v := range c.g.Inputs {
		for _, d := range v.Type.Shape {
			d.Symbols(known)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.o.Dims)) {
		if !known[name] {
			return &InputError{Name: name, Problem: "no input has a dim of that name", kind: ErrInput}
		}
	}
	if err := c.checkBounds(known); err != nil {
		return err
	}
	inputs := map[string]int{}
	for i, v := range c.g.Inputs {
		inputs[v.Name] = i
	}
	for _, name := range slices.Sorted(maps.Keys(c.o.Shapes)) {
		i, ok := inputs[name]
		if !ok {
			return &InputError{Name: name, Problem: "the model has no such input", kind: ErrInput}
		}
		t, shape := c.g.Inputs[i].Type, c.o.Shapes[name]
		if t.Shape.Known() && len(t.Shape) != len(shape) {
			return &InputError{Name: name, Problem: "wrong rank", Expected: t.Shape.String(), Found: fmt.Sprint(shape), kind: ErrInput}
		}
		for k, n := range shape {
			if n < 0 {
				return &InputError{Name: name, Problem: "negative dim", Found: fmt.Sprint(shape), kind: ErrInput}
			}
			if !t.Shape.Known() {
				continue
			}
			d := t.Shape[k].Subst(sub)
			if s, ok := d.Symbol(); ok {
				sub[s] = graph.D(n)
			} else if v, ok := d.Const(); ok && v != int64(n) {
				return &InputError{Name: name, Problem: "wrong shape", Expected: t.Shape.String(), Found: fmt.Sprint(shape), kind: ErrInput}
			}
		}
		if !t.Shape.Known() {
			c.g.Inputs[i].Type.Shape = graph.ShapeOf(shape...)
		}
	}
	for _, v := range c.g.Inputs {
		if v.Type.Shape == nil {
			continue
		}
		shape := slices.Clone(v.Type.Shape)
		for k := range shape {
			shape[k] = shape[k].Subst(sub)
		}
		v.Type.Shape = shape
	}
	return nil
}

// checkBounds validates Options.Bounds against the model's inputs.
func (c *compilation) checkBounds(known map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(c.o.Bounds)) {
		if !known[name] {
			return &InputError{Name: name, Problem: "no input has a dim of that name", kind: ErrInput}
		}
		n := c.o.Bounds[name]
		if n < 0 {
			return fmt.Errorf("%w: bound of dim %s is %d", graph.ErrDimValue, name, n)
		}
		if d, pinned := c.o.Dims[name]; pinned && d > n {
			return &InputError{Name: name, Problem: "dim is larger than its bound", Expected: fmt.Sprint(n), Found: fmt.Sprint(d), kind: ErrInput}
		}
	}
	return nil
}

// nameNodes gives nodes without a name that of their first result, or of their operator, with a number where it is taken;
// in regions behind owner and attribute, as in models from files. Reports, errors and fallbacks speak of nodes by name.
func (c *compilation) nameNodes() error {
	if !nameless(c.g) {
		return nil
	}
	n := naming{taken: map[string]bool{}}
	n.collect(c.g)
	n.graph(c.g, "")
	return nil
}

// nameless reports whether a node of the graph, or of one nested in it, has no name.
func nameless(g *graph.Graph) bool {
	for n := range g.Nodes() {
		if n.Name == "" && n.Origins == nil {
			return true
		}
		for _, r := range n.Regions {
			if nameless(r.Graph) {
				return true
			}
		}
	}
	return false
}

type naming struct{ taken map[string]bool }

// collect takes the names that are there.
func (t *naming) collect(g *graph.Graph) {
	for n := range g.Nodes() {
		for _, name := range n.Provenance() {
			t.taken[name] = true
		}
		for _, r := range n.Regions {
			t.collect(r.Graph)
		}
	}
}

func (t *naming) graph(g *graph.Graph, scope string) {
	for n := range g.Nodes() {
		if n.Name == "" && n.Origins == nil {
			n.Name = t.unique(scope + labelOf(n))
		}
		for _, r := range n.Regions {
			t.graph(r.Graph, scope+n.Name+"/"+r.Name+"/")
		}
	}
}

func labelOf(n *graph.Node) string {
	for _, v := range n.Outputs {
		if v != nil && v.Name != "" {
			return v.Name
		}
	}
	return n.Op.Name
}

// unique returns s, or s with the first number behind it that makes it new, and takes it.
func (t *naming) unique(s string) string {
	name := s
	for i := 2; t.taken[name]; i++ {
		name = s + "_" + strconv.Itoa(i)
	}
	t.taken[name] = true
	return name
}

// mostDeclared is how many contradicted declarations are logged one by one.
const mostDeclared = 16

// infer finds the types of all results, and warns of what the model declares otherwise.
func (c *compilation) infer() error {
	if libraries := c.opened.libraries; len(libraries) > 0 {
		c.g.BindSchemas(func(domain, name string, version int) *graph.Schema {
			return backend.SchemaOf(libraries, domain, name, version)
		})
	}
	wrong, err := graph.InferModel(c.g)
	if err != nil {
		return err
	}
	for _, w := range wrong[:min(len(wrong), mostDeclared)] {
		c.o.Logger.WarnContext(c.ctx, "declared type is wrong: the computed one counts", "value", w.Value, "declared", w.Declared.String(),
			"computed", w.Computed.String())
	}
	if more := len(wrong) - mostDeclared; more > 0 {
		c.o.Logger.WarnContext(c.ctx, "more declared types are wrong", "count", more)
	}
	c.wrong, c.typed = wrong, true
	if slices.ContainsFunc(c.g.Inputs, func(v *graph.Value) bool { _, static := v.Type.Shape.Static(); return !static }) {
		c.shapes = graph.NewShapeChecks(c.g) // simplification may remove the node that would fail
	}
	return nil
}

func (c *compilation) simplify() error {
	r, err := graph.Simplify(c.ctx, c.g, &graph.SimplifyOptions{Evaluator: kernels{}, MaxFold: c.o.MaxFold, Rank: c.rank})
	if err != nil {
		return err
	}
	c.folded = r.Folded
	return nil
}

// rank returns the place, in the list, of the first backend that may have a node and takes it as it stands.
func (c *compilation) rank(n *graph.Node) int {
	for i, b := range c.backends {
		if property.Allowed(c.o.Pins, n, b.Info().Name) == nil && b.Supports(n).Reason == nil {
			return i
		}
	}
	return len(c.backends)
}
