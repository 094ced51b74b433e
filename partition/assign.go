package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Prepare lets properties look at the graph, and edit it, before anything is chosen: backends in the order of priority.
func (s *State) Prepare(context.Context) error {
	s.enter(stagePrepare)
	for i := range s.names {
		for _, p := range s.props[i] {
			if p.PrePartition == nil {
				continue
			}
			if err := p.PrePartition(s.g); err != nil {
				return fmt.Errorf("property %s: %w", p.ID, err)
			}
			s.added()
		}
	}
	return nil
}

// Assign gives every node to a backend: the Chooser of the options decides who runs what, over the candidates that the
// backends and their properties name. The error is an *UnplacedError where that leaves a node to nobody.
func (s *State) Assign(ctx context.Context) error {
	s.enter(stageAssign)
	var c Chooser = Priority{}
	if s.o.Chooser != nil {
		c = s.o.Chooser
	}
	if err := c.Choose(ctx, s.table); err != nil {
		return err
	}
	s.result.Rejected = s.reject
	if s.giveUpWhole() {
		return nil
	}
	return s.complete()
}

// ErrUnplaced is wrapped by errors about nodes that no backend takes.
var ErrUnplaced = errors.New("no backend runs the node")

// UnplacedError names the first node that no backend takes, with every backend's reason.
type UnplacedError struct {
	Node    string
	Op      string
	Reasons []Rejection // in the order in which backends were asked
	More    int         // further nodes that no backend takes
}

// Error lists the reasons, beginning with the backend that was asked last: it is the one of last resort, whose kernels are
// the most general.
func (e *UnplacedError) Error() string {
	s := fmt.Sprintf("node %q (%s): %v", e.Node, e.Op, ErrUnplaced)
	shown := 0
	for i, r := range slices.Backward(e.Reasons) {
		if i < len(e.Reasons)-1 && e.Reasons[i+1].Backend == r.Backend {
			continue // what a property said before the backend itself
		}
		if shown++; shown > 4 {
			s += "; …"
			break
		}
		s += fmt.Sprintf("; %s: %v", r.Backend, r.Reason)
	}
	switch {
	case e.More == 1:
		s += "; nor does one run another node"
	case e.More > 1:
		s += fmt.Sprintf("; nor does one run %d other nodes", e.More)
	}
	return s
}

// Unwrap returns ErrUnplaced.
func (e *UnplacedError) Unwrap() error { return ErrUnplaced }

// complete returns the error about the first node that nobody has.
func (s *State) complete() error {
	var first *graph.Node
	more := -1
	for n := range s.g.Nodes() {
		if s.backend[n.ID] == unassigned {
			if first == nil {
				first = n
			}
			more++
		}
	}
	if first == nil {
		return nil
	}
	e := s.unplaced(first)
	e.More = more
	return e
}

func (s *State) unplaced(n *graph.Node) *UnplacedError {
	e := &UnplacedError{Op: n.Op.String(), Node: n.Label()}
	for _, r := range s.reject {
		if r.Node == e.Node {
			e.Reasons = append(e.Reasons, r)
		}
	}
	return e
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
