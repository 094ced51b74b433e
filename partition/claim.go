package partition

import (
	"context"
	"errors"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// assignment is what the claims stage decides for each node, by id.
type assignment struct {
	g       *graph.Graph
	o       *Options
	backend []int32 // index into Options.Backends, hostScheduled or unassigned
	options [][]graph.Signature
	reject  []Rejection
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
	a := &assignment{g: g, o: o}
	a.grow()
	for n := range g.Nodes() {
		if HostScheduled(n) {
			a.backend[n.ID] = hostScheduled
		}
	}
	for i, b := range o.Backends {
		if err := a.claim(ctx, int32(i), b); err != nil {
			return nil, err
		}
	}
	for n := range g.Nodes() {
		if a.backend[n.ID] == unassigned {
			return nil, a.unplaced(n)
		}
	}
	return a, nil
}

// grow makes room for nodes that fusion added.
func (a *assignment) grow() {
	for len(a.backend) < a.g.NodeIDs() {
		a.backend = append(a.backend, unassigned)
		a.options = append(a.options, nil)
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

// claim runs backend i's turn.
func (a *assignment) claim(ctx context.Context, i int32, b backend.Backend) error {
	name := b.Info().Name
	free := func(n *graph.Node) bool {
		return n.ID < len(a.backend) && a.backend[n.ID] == unassigned && a.o.allowed(n, name) == nil
	}
	for _, p := range propertiesOf(a.o, b) {
		if pre, ok := p.(property.PrePartitioner); ok {
			if err := pre.PrePartition(a.g); err != nil {
				return fmt.Errorf("property %s: %w", p.Name(), err)
			}
		}
		if k, ok := p.(property.Kinded); ok && k.Kind() != property.Atomic {
			continue // bounding claims take part in grouping
		}
		var fail error
		accept := func(set []*graph.Node) bool {
			ok, err := a.fuse(i, b, p, set)
			if err != nil && fail == nil {
				fail = err
			}
			return ok
		}
		declined := func(n *graph.Node, why *property.Reason) {
			why.Property = p.Name()
			a.rejected(n, name, why)
		}
		if err := property.Sets(ctx, a.g, p, free, accept, declined); err != nil {
			return err
		}
		if fail != nil {
			return fail
		}
	}
	for n := range a.g.Nodes() {
		if a.backend[n.ID] != unassigned {
			continue
		}
		if n.ID%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if why := a.o.allowed(n, name); why != nil {
			a.rejected(n, name, why)
			continue
		}
		s := b.Supports(n)
		if s.Reason == nil {
			if err := checkSignatures(n, s.Signatures); err != nil {
				return fmt.Errorf("backend %s, node %v: %w", name, n, err)
			}
			a.backend[n.ID], a.options[n.ID] = i, s.Signatures
			n.Backend = name
			continue
		}
		a.rejected(n, name, s.Reason)
	}
	return nil
}

func (a *assignment) rejected(n *graph.Node, backend string, why *property.Reason) {
	for _, name := range n.Provenance() {
		a.reject = append(a.reject, Rejection{Node: name, Backend: backend, Reason: why})
	}
}

// fuse contracts an atomic claim into one node where the backend supports that, and undoes it otherwise.
func (a *assignment) fuse(i int32, b backend.Backend, p property.SubgraphProperty, set []*graph.Node) (bool, error) {
	name := b.Info().Name
	if adj, ok := p.(property.Adjuster); ok {
		if err := adj.Adjust(set); err != nil {
			return false, fmt.Errorf("property %s: %w", p.Name(), err)
		}
		return true, nil
	}
	n, err := a.g.Fuse(set, graph.NodeSpec{
		Op:    graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused},
		Name:  set[len(set)-1].Name,
		Attrs: []graph.Attr{graph.StringAttr("pattern", p.Name())},
	})
	if err != nil {
		return false, fmt.Errorf("property %s: %w", p.Name(), err)
	}
	a.grow()
	undo := func(why *property.Reason) (bool, error) {
		if why.Property == "" {
			why.Property = p.Name()
		}
		a.rejected(n, name, why)
		_, err := a.g.Inline(n)
		a.grow()
		return false, err
	}
	if rev, ok := p.(property.Reviewer); ok {
		keep, why := rev.Review(n.Regions[0].Graph)
		if len(keep) != len(set) {
			if why == nil {
				why = property.Because(property.Veto, "the property kept %d of %d nodes", len(keep), len(set))
			}
			return undo(why)
		}
	}
	if c, ok := p.(property.NodeCreator); ok {
		spec, err := c.CreateSubgraphNode(n.Regions[0].Graph)
		if err != nil {
			return undo(property.Because(property.Veto, "%v", err))
		}
		if spec != nil {
			n.Attrs = n.Attrs.With(graph.StringAttr("pattern", p.Name()))
			for _, at := range spec.Attrs {
				n.Attrs = n.Attrs.With(at)
			}
			if spec.Name != "" {
				n.Name = spec.Name
			}
		}
	}
	var sigs []graph.Signature
	if s, ok := p.(property.Signer); ok {
		sigs = s.Signatures(n)
	} else {
		s := b.Supports(n)
		if s.Reason != nil {
			return undo(s.Reason)
		}
		sigs = s.Signatures
	}
	if err := checkSignatures(n, sigs); err != nil {
		return false, fmt.Errorf("backend %s, property %s: %w", name, p.Name(), err)
	}
	a.backend[n.ID], a.options[n.ID] = i, sigs
	n.Backend = name
	return true, nil
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
