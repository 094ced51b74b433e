package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// assignment is what the claims stage decides for each node, by id.
type assignment struct {
	g        *graph.Graph
	o        *Options
	names    []string                      // of the backends
	props    [][]property.SubgraphProperty // of each backend: the user's, then its own
	backend  []int32                       // index into Options.Backends, hostScheduled or unassigned
	options  [][]graph.Signature
	reject   []Rejection
	borders  []border
	prepared []bool                // backends whose properties have seen the graph before selection
	told     map[told]bool         // reasons that properties gave
	banned   map[*graph.Node][]ban // backends that turned a node down when its group was finished
}

// border is a bounding claim that a backend made by itself.
type border struct {
	backend int32
	nodes   []*graph.Node
}

// ban keeps a node away from a backend.
type ban struct {
	backend int32
	why     *property.Reason
}

func newAssignment(g *graph.Graph, o *Options) *assignment {
	a := &assignment{g: g, o: o, banned: map[*graph.Node][]ban{}, told: map[told]bool{}}
	for _, b := range o.Backends {
		name := b.Info().Name
		a.names = append(a.names, name)
		a.props = append(a.props, slices.Concat(o.Properties[name], b.Properties()))
	}
	a.prepared = make([]bool, len(a.names))
	a.grow()
	return a
}

const (
	unassigned    = int32(-1)
	hostScheduled = int32(-2)
)

// ErrUnplaced is wrapped by errors about nodes that no backend takes.
var ErrUnplaced = errors.New("no backend runs the node")

// UnplacedError names the first node that no backend takes, with every backend's reason.
type UnplacedError struct {
	Node    string
	Op      string
	Reasons []Rejection
}

// Error lists the reasons.
func (e *UnplacedError) Error() string {
	s := fmt.Sprintf("node %q (%s): %v", e.Node, e.Op, ErrUnplaced)
	for i, r := range e.Reasons {
		if i == 4 {
			return s + "; …"
		}
		s += fmt.Sprintf("; %s: %v", r.Backend, r.Reason)
	}
	return s
}

// Unwrap returns ErrUnplaced.
func (e *UnplacedError) Unwrap() error { return ErrUnplaced }

// assign gives every node to a backend: backends in order of priority, each first fusing what its properties choose,
// then taking every single node that it supports. This is priority order; the place of assignment by measured cost is
// here, over the same claims.
func assign(ctx context.Context, g *graph.Graph, o *Options) (*assignment, error) {
	a := newAssignment(g, o)
	for i := range o.Backends {
		if err := a.claim(ctx, int32(i)); err != nil {
			return nil, err
		}
	}
	return a, a.complete()
}

// complete returns the error about the first node that nobody has.
func (a *assignment) complete() error {
	for n := range a.g.Nodes() {
		if a.backend[n.ID] == unassigned {
			return a.unplaced(n)
		}
	}
	return nil
}

// grow makes room for nodes that were added, and takes out those that are the host scheduler's.
func (a *assignment) grow() {
	first := len(a.backend)
	for len(a.backend) < a.g.NodeIDs() {
		a.backend = append(a.backend, unassigned)
		a.options = append(a.options, nil)
	}
	if first > 0 {
		return // what is added later is made of nodes that were looked at
	}
	for n := range a.g.Nodes() {
		if HostScheduled(n) {
			a.backend[n.ID] = hostScheduled
		}
	}
}

func (a *assignment) unplaced(n *graph.Node) error {
	e := &UnplacedError{Op: n.Op.String(), Node: n.Name}
	if p := n.Provenance(); len(p) > 0 {
		e.Node = p[0]
	}
	for _, r := range a.reject {
		if r.Node == e.Node {
			e.Reasons = append(e.Reasons, r)
		}
	}
	return e
}

// allowed returns why a node must not go to backend i, nil where it may.
func (a *assignment) allowed(n *graph.Node, i int32) *property.Reason {
	for _, b := range a.banned[n] {
		if b.backend == i {
			return b.why
		}
	}
	return a.o.allowed(n, a.names[i])
}

// claim runs backend i's turn.
func (a *assignment) claim(ctx context.Context, i int32) error {
	for _, p := range a.props[i] {
		if pre, ok := property.As[property.PrePartitioner](p); ok && !a.prepared[i] {
			if err := pre.PrePartition(a.g); err != nil {
				return fmt.Errorf("property %s: %w", p.Name(), err)
			}
			a.added()
		}
	}
	a.prepared[i] = true
	shut, err := a.admit(ctx, i)
	if err != nil {
		return err
	}
	free := func(n *graph.Node) bool {
		return n.ID < len(a.backend) && a.backend[n.ID] == unassigned && shut[n] == nil && a.allowed(n, i) == nil
	}
	if err := a.ownClaims(ctx, i, free); err != nil {
		return err
	}
	for _, p := range a.props[i] {
		if property.KindOf(p) != property.Atomic {
			continue // bounding claims take part in grouping
		}
		if err := a.sets(ctx, i, p, free, func(set []*graph.Node) (bool, error) { return a.fuse(i, p, set) }); err != nil {
			return err
		}
	}
	return a.singles(ctx, i, shut)
}

// sets drives a property and carries the first error of accept out. Reasons are recorded.
func (a *assignment) sets(ctx context.Context, i int32, p property.SubgraphProperty, free func(*graph.Node) bool,
	accept func(set []*graph.Node) (bool, error)) error {
	var fail error
	err := property.Sets(ctx, a.g, p, free, func(set []*graph.Node) bool {
		if fail != nil {
			return false
		}
		ok, err := accept(set)
		fail = err
		return ok
	}, func(n *graph.Node, why *property.Reason) { a.rejected(n, i, why) })
	if fail != nil {
		return fail
	}
	return err
}

// added takes note of nodes that a property added.
func (a *assignment) added() {
	first := len(a.backend)
	a.grow()
	for n := range a.g.Nodes() {
		if n.ID >= first && HostScheduled(n) {
			a.backend[n.ID] = hostScheduled
		}
	}
}

// admit returns the nodes that backend i may not take because one of its admitting properties did not choose them.
func (a *assignment) admit(ctx context.Context, i int32) (map[*graph.Node]*property.Reason, error) {
	var shut map[*graph.Node]*property.Reason
	for _, p := range a.props[i] {
		if property.KindOf(p) != property.Admitting {
			continue
		}
		free := func(n *graph.Node) bool {
			return a.backend[n.ID] == unassigned && shut[n] == nil && a.allowed(n, i) == nil
		}
		in := make([]bool, a.g.NodeIDs())
		why := map[*graph.Node]*property.Reason{}
		err := property.Sets(ctx, a.g, p, func(n *graph.Node) bool { return !in[n.ID] && free(n) }, func(set []*graph.Node) bool {
			for _, n := range set {
				in[n.ID] = true
			}
			return true
		}, func(n *graph.Node, r *property.Reason) { why[n] = r })
		if err != nil {
			return nil, err
		}
		if shut == nil {
			shut = map[*graph.Node]*property.Reason{}
		}
		for n := range a.g.Nodes() {
			if in[n.ID] || !free(n) {
				continue
			}
			r := why[n]
			if r == nil {
				r = property.Because(property.NotSelected, "it is in none of its sets")
				r.Property = p.Name()
			}
			shut[n] = r
		}
	}
	return shut, nil
}

// ownClaims takes what backend i claims by means of its own. Sets that are not convex are divided.
func (a *assignment) ownClaims(ctx context.Context, i int32, free func(*graph.Node) bool) error {
	c, ok := a.o.Backends[i].(backend.Claimer)
	if !ok {
		return nil
	}
	claims, err := c.Claims(ctx, a.g)
	if err != nil {
		return fmt.Errorf("backend %s: %w", a.names[i], err)
	}
	for _, cl := range claims {
		var nodes []*graph.Node
		for _, n := range cl.Nodes {
			if n != nil && n.Graph() == a.g && free(n) && !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
		if len(nodes) == 0 {
			continue
		}
		if cl.Kind == property.Bounding {
			a.borders = append(a.borders, border{i, nodes})
			continue
		}
		parts, err := a.g.ConvexParts(nodes)
		if err != nil {
			return err
		}
		for _, part := range parts {
			if _, err := a.fuse(i, ownClaim(cl.Name), part); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownClaim stands for the property of a claim that a backend made by itself.
type ownClaim string

// Name implements property.SubgraphProperty.
func (c ownClaim) Name() string { return string(c) }

// NewSelector implements property.SubgraphProperty; it is not asked.
func (c ownClaim) NewSelector(*graph.Graph) property.Selector { return nil }

// singles gives backend i every node that it supports and nobody has.
func (a *assignment) singles(ctx context.Context, i int32, shut map[*graph.Node]*property.Reason) error {
	a.grow()
	b, name := a.o.Backends[i], a.names[i]
	for n := range a.g.Nodes() {
		if a.backend[n.ID] != unassigned {
			continue
		}
		if n.ID%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		why := shut[n]
		if why == nil {
			why = a.allowed(n, i)
		}
		if why != nil {
			a.rejected(n, i, why)
			continue
		}
		s := b.Supports(n)
		if s.Reason != nil {
			a.rejected(n, i, s.Reason)
			continue
		}
		if err := checkSignatures(n, s.Signatures); err != nil {
			return fmt.Errorf("backend %s, node %v: %w", name, n, err)
		}
		a.backend[n.ID], a.options[n.ID] = i, s.Signatures
		n.Backend = name
	}
	return nil
}

// rejected records a reason for every node of the model that n stands for. A property may give the same reason for a node
// from several seeds; it is recorded once.
func (a *assignment) rejected(n *graph.Node, i int32, why *property.Reason) {
	for _, name := range n.Provenance() {
		if why.Property != "" {
			k := told{name, i, *why}
			if a.told[k] {
				continue
			}
			a.told[k] = true
		}
		a.reject = append(a.reject, Rejection{Node: name, Backend: a.names[i], Reason: why})
	}
}

// told is what a property gave as its reason.
type told struct {
	node    string
	backend int32
	why     property.Reason
}

// ErrSignature is wrapped by errors about signatures that do not fit their node.
var ErrSignature = errors.New("bad signature")

func checkSignatures(n *graph.Node, sigs []graph.Signature) error {
	if len(sigs) == 0 {
		return fmt.Errorf("%w: none for %v", ErrSignature, n)
	}
	for _, s := range sigs {
		if len(s.Inputs) != len(n.Inputs) || len(s.Outputs) != len(n.Outputs) {
			return fmt.Errorf("%w: %q has %d inputs and %d outputs for %v with %d and %d",
				ErrSignature, s.Name, len(s.Inputs), len(s.Outputs), n, len(n.Inputs), len(n.Outputs))
		}
		for _, ports := range [][]graph.Port{s.Inputs, s.Outputs} {
			for _, p := range ports {
				if p.Var < 0 || p.Var > len(s.Vars) || (p.Var > 0 && len(s.Vars[p.Var-1]) == 0) {
					return fmt.Errorf("%w: %q has a port with variable %d of %d", ErrSignature, s.Name, p.Var, len(s.Vars))
				}
			}
		}
	}
	return nil
}
