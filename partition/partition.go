package partition

import (
	"context"
	"errors"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
)

// MaxRounds bounds how often a partition begins anew after nodes were banned from backends. Each time there is at least one
// ban more, so that it would come to an end anyway; a property that drops one node at a time takes long to get there.
const MaxRounds = 256

// ErrRounds is wrapped by the error of a partition that MaxRounds ended.
var ErrRounds = errors.New("groups are still turned down")

// Partition rewrites g so that its nodes are Subgraph nodes, one per group, Convert nodes between them, and the host
// scheduler's nodes. Types must have been inferred. Regions of the host scheduler's nodes are left alone: they are
// partitioned by themselves. It stops soon after ctx ends.
//
// It runs the stages one after another, and begins anew with the graph as it was where one of them bans nodes from a backend.
//
// The error is an *UnplacedError for a node that nobody runs; it wraps ErrSignature, ErrPlan or ErrRounds where a backend or
// property misbehaves, graph.ErrCycle where g has a cycle, and is ctx's where that ended. The graph is of no use after an
// error.
func Partition(ctx context.Context, g *graph.Graph, o *Options) (*Result, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Bans == nil {
		opts.Bans = NewBans(opts.Pins)
	}
	if g == nil {
		return nil, fmt.Errorf("graph %w", graph.ErrNil)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	var first *graph.Graph // as it was, where a stage that bans nodes can leave it changed
	for range MaxRounds {
		s := NewState(g, &opts, 0)
		if first == nil && s.edits() {
			var err error
			if first, err = g.Clone(); err != nil {
				return nil, err
			}
		}
		done, err := s.run(ctx)
		if err != nil {
			return nil, err
		}
		if done {
			return s.Result(), nil
		}
		if first == nil {
			forget(g)
			continue
		}
		again, err := first.Clone()
		if err != nil {
			return nil, err
		}
		g.TakeOver(again)
	}
	return nil, fmt.Errorf("%w after %d rounds", ErrRounds, MaxRounds)
}

// edits reports whether a stage that bans nodes can leave the graph changed, but for the backends and signatures of nodes:
// only properties and the claims of backends do that.
func (s *State) edits() bool {
	for i, b := range s.o.Backends {
		if _, claims := b.(backend.Claimer); claims || len(s.props[i]) > 0 {
			return true
		}
	}
	return false
}

// forget takes back what was chosen for the nodes of a graph.
func forget(g *graph.Graph) {
	for n := range g.Nodes() {
		n.Backend, n.SigName, n.Ports = "", "", nil
		for _, v := range n.Outputs {
			if v != nil {
				v.Format = graph.HostFormat
			}
		}
	}
}

// run runs the stages up to the first that bans nodes. It reports whether it ran all.
func (s *State) run(ctx context.Context) (bool, error) {
	for _, stage := range Stages() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		bans := s.barred.bans.Len()
		if err := stage.Run(s, ctx); err != nil {
			return false, err
		}
		if s.barred.bans.Len() > bans {
			return false, nil
		}
	}
	return true, nil
}
