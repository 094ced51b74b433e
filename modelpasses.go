package carve

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/gradient"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bundle"
	"github.com/carve-dev/carve/internal/constants"
	"github.com/carve-dev/carve/internal/plan"
	"github.com/carve-dev/carve/partition"
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
	if err := graph.Modernize(c.g); err != nil {
		return err
	}
	if err := microsoft.Expand(c.g, c.hasKernel); err != nil {
		return err
	}
	if err := gradient.Expand(c.g); err != nil {
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
	if c.open() {
		c.shapes = graph.NewShapeChecks(c.g) // simplification may remove the node that would fail
	}
	return nil
}

// hasKernel reports whether a backend on host memory, in front of which no other device stands, runs a node as it is, or as it is when it
// computes in float32.
func (c *compilation) hasKernel(n *graph.Node) bool {
	return c.onHost(n) || graph.TryWide(n, func() bool { return c.onHost(n) })
}

func (c *compilation) onHost(n *graph.Node) bool {
	for _, b := range c.backends {
		info, devices := b.Info(), b.Devices()
		if info.Oracle || len(devices) > 0 && !devices[0].ID().IsHost() {
			return false
		}
		if property.Allowed(c.o.Pins, n, info.Name) == nil && b.Supports(n).Reason == nil {
			return true
		}
	}
	return false
}

func (c *compilation) simplify() error {
	var arms []*graph.Graph
	r, err := graph.Simplify(c.ctx, c.g, &graph.SimplifyOptions{Evaluator: folding{c: c}, MaxFold: c.o.MaxFold, Rank: c.rank, Keep: c.keeps,
		Chosen: func(arm *graph.Graph) { arms = append(arms, graph.NewShapeChecks(arm).Graph()) }})
	if err != nil {
		return err
	}
	if c.shapes != nil && len(arms) > 0 {
		c.shapes = graph.NewShapeChecks(append(arms, c.shapes.Graph())...)
	}
	c.folded = r.Folded
	c.checkPins()
	return nil
}

// checkPins warns of pins that match no node of the model, as simplification leaves it, nor one in a region of a node.
func (c *compilation) checkPins() {
	if c.model.inner {
		return
	}
	for _, p := range c.o.Pins {
		if !matched(p, c.g) {
			c.o.Logger.Warn("a pin has no effect: it matches no node that is left to be run", "node", p.Node, "op", p.Op, "backend", p.Backend)
		}
	}
}

// matched reports whether a pin matches a node of the graph, or of one nested in it.
func matched(p partition.Pin, g *graph.Graph) bool {
	for n := range g.Nodes() {
		if p.Matches(n) || slices.ContainsFunc(n.Regions, func(r graph.Region) bool { return matched(p, r.Graph) }) {
			return true
		}
	}
	return false
}

// The passes over a graph that was carved when a bundle was written. What a bundle says is checked like what any file says: the
// graph is typed anew, it has to be a sound partition, backends are asked about every node, and constants have the bytes that
// their formats need.

// bundlePasses are run in the place of all others.
var bundlePasses = []pass{
	{name: "open-bundle", run: (*compilation).restore},
	{name: "lower-conversions", run: (*compilation).lower, check: checkHops},
	{name: "own-constants", run: (*compilation).ownConstants},
	{name: "compile-groups", run: (*compilation).compileGroups},
}

// restore takes the graph from the bundle.
func (c *compilation) restore() error {
	b := c.model.bundle
	if c.o.Plan != nil {
		return fmt.Errorf("%w: a bundle has a plan of its own", ErrInput)
	}
	facts, err := c.o.factsOf(c.model, c.backends)
	if err != nil {
		return err
	}
	held := plan.Plan{}
	for _, x := range b.notes.Facts {
		held.Facts = append(held.Facts, plan.Fact{Key: x[0], Value: x[1]})
	}
	if err := held.Misfit(facts, placementFact, turnsFact, measuredFact); err != nil {
		return err
	}
	if err := c.copyBundle(); err != nil {
		return err
	}
	if c.wrong, err = graph.InferModel(c.g); err != nil {
		return err
	}
	if len(c.wrong) > 0 {
		w := c.wrong[0]
		return b.f.Fault(carvedID, fmt.Sprintf("%v for value %s", w.Computed, w.Value), fmt.Errorf("%v", w.Declared))
	}
	c.typed = true
	var names []string
	for _, x := range c.backends {
		names = append(names, x.Info().Name)
	}
	c.results = map[*graph.Graph]*partition.Result{}
	if err := c.blocks(func(g *graph.Graph) (err error) {
		if c.results[g], err = partition.Restore(g, names); err != nil {
			return b.f.Fault(carvedID, "a sound partition", err)
		}
		return c.checkRestored(g)
	}); err != nil {
		return err
	}
	if !c.open() {
		return c.restoreGroups()
	}
	checks := []*graph.Graph{c.g} // of which groups must not read beside their operands, whatever the bundle says is asked
	if b.notes.Checks {
		g, err := bundle.ReadGraph(b.f, bundle.Checks, b.pool)
		if err != nil {
			return err
		}
		checks = append(checks, g)
	}
	c.shapes = graph.NewShapeChecks(checks...)
	return c.restoreGroups()
}

// open reports whether an input has a dim that is no number.
func (c *compilation) open() bool {
	return slices.ContainsFunc(c.g.Inputs, func(v *graph.Value) bool { _, static := v.Type.Shape.Static(); return !static })
}

var carvedID = bundle.ID{Kind: bundle.KindGraph, Number: bundle.Carved}

// copyBundle copies all constants out of the mapped file where that is asked for.
func (c *compilation) copyBundle() error {
	b := c.model.bundle
	if !c.o.CopyWeights || len(b.pool.Data()) == 0 {
		return nil
	}
	mem, err := c.packer.Own.Copy(c.devices[tensor.DeviceID{}], b.pool.Data())
	if err != nil {
		return err
	}
	c.o.CopyWeights = false // it is done
	c.g, err = bundle.ReadGraph(b.f, bundle.Carved, b.pool.With(mem))
	return err
}

// checkRestored asks backends about the nodes of groups, and compares constants with their formats.
func (c *compilation) checkRestored(g *graph.Graph) error {
	fault := func(err error) error { return c.model.bundle.f.Fault(carvedID, "nodes that backends run", err) }
	check := func(g *graph.Graph) error {
		for v := range g.Constants() {
			if !v.IsConst() || v.Const.DType == tensor.String {
				continue
			}
			need, err := c.registry.Size(v.Format, v.Const.DType, v.Const.Shape)
			if err == nil && (need > int64(len(v.Const.Data)) || !v.Format.Device.IsHost()) {
				err = fmt.Errorf("constant %v of %d bytes, which needs %d in %v", v, len(v.Const.Data), need, v.Format)
			}
			if err != nil {
				return fault(err)
			}
		}
		return nil
	}
	if err := check(g); err != nil {
		return err
	}
	for _, gr := range c.results[g].Groups {
		if err := check(gr.Body); err != nil {
			return err
		}
		i := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Name == gr.Backend })
		for n := range gr.Body.Nodes() {
			if n.IsCarve(graph.OpConvert) {
				continue
			}
			if why := c.runs(c.backends[i], n); why != nil {
				return fault(fmt.Errorf("node %v on %s: %w", n, gr.Backend, why))
			}
		}
	}
	return nil
}

// runs returns why a backend does not run a node with the formats that it has, nil where it does. Formats that groups negotiate
// are the backend's to look at.
func (c *compilation) runs(b backend.Backend, n *graph.Node) error {
	sigs := []graph.Signature(nil)
	for _, p := range slices.Concat(c.o.Properties[b.Info().Name], b.Properties()) {
		if r := property.RuleOf(p); r.Signatures != nil && n.IsCarve(graph.OpFused) && n.Str("pattern", "") == r.ID {
			sigs = r.Signatures(n)
		}
	}
	if sigs == nil {
		can := b.Supports(n)
		if can.Reason != nil {
			return can.Reason
		}
		sigs = can.Signatures
	}
	if _, ok := b.(backend.Negotiator); ok {
		return nil
	}
	if n.Ports == nil || !slices.ContainsFunc(sigs, func(s graph.Signature) bool { return s.Name == n.SigName && s.Admits(n.Ports) }) {
		return errors.New("it has no such signature")
	}
	return nil
}

// restoreGroups finds what executables saved, and constants in formats that instances want.
func (c *compilation) restoreGroups() error {
	b, at := c.model.bundle, bundle.ID{Kind: bundle.KindNotes}
	c.saved, c.forms = map[*graph.Node]savedGroup{}, map[constants.Key]device.Memory{}
	if len(b.notes.Saved) == 0 && len(b.notes.Forms) == 0 {
		return nil
	}
	groups := map[[2]int]*graph.Node{}
	block := 0
	_ = c.blocks(func(g *graph.Graph) error {
		i := 0
		for n := range g.Nodes() {
			if n.IsCarve(graph.OpSubgraph) {
				groups[[2]int{block, i}] = n
			}
			i++
		}
		block++
		return nil
	})
	for _, x := range b.notes.Saved {
		bytes, err := b.f.Section(bundle.ID{Kind: bundle.KindSaved, Number: x.Number}, true)
		if err != nil {
			return err
		}
		n := groups[[2]int{x.Block, x.Group}]
		if n == nil {
			return b.f.Fault(at, "a group", fmt.Errorf("node %d of block %d", x.Group, x.Block))
		}
		c.saved[n] = savedGroup{x.Fingerprint, bytes}
	}
	for _, x := range b.notes.Forms {
		if err := c.restoreForm(groups[[2]int{x.Block, x.Group}], &x); err != nil {
			return b.f.Fault(at, "a constant in another format", err)
		}
	}
	return nil
}

// restoreForm takes a constant in a format that an instance wants.
func (c *compilation) restoreForm(group *graph.Node, x *bundle.Form) error {
	f, err := graph.ParseFormat(x.Format)
	if err != nil {
		return err
	}
	i := 0
	if group != nil {
		for v := range group.Regions[0].Graph.Constants() {
			if i++; i-1 != x.Index || !v.IsConst() {
				continue
			}
			bytes, err := c.model.bundle.pool.Get(x.Constant)
			if err != nil {
				return err
			}
			need, err := c.registry.Size(f, v.Const.DType, v.Const.Shape)
			if err != nil {
				return err
			}
			if need > int64(len(bytes)) || !f.Device.IsHost() {
				return fmt.Errorf("%d bytes of constant %v, which needs %d in %v", len(bytes), v, need, f)
			}
			c.forms[constants.Key{Constant: v.Const, Format: f}] = device.Memory{Data: bytes, Size: int64(len(bytes))}
			return nil
		}
	}
	return fmt.Errorf("%w: it is of no constant", convert.ErrConverter)
}
