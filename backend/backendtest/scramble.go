package backendtest

import (
	"context"
	"math/rand/v2"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// Scramble returns b with one way to run each node: one of its signatures, and for each of its variables one of the formats
// that it may take, chosen by the seed. Formats between operators are then such as no search for the best would choose, and
// all that a backend offers has to be right.
func Scramble(b backend.Backend, seed uint64) backend.Backend { return scrambled{b, seed} }

type scrambled struct {
	backend.Backend
	seed uint64
}

// Supports implements backend.Backend.
func (s scrambled) Supports(n *graph.Node) backend.Support {
	all := s.Backend.Supports(n)
	if all.Reason != nil || len(all.Signatures) == 0 {
		return all
	}
	name := n.Op.Name
	for _, origin := range n.Provenance() {
		name += " " + origin
	}
	r := rand.New(rand.NewPCG(s.seed, hash(name)))
	sig := all.Signatures[r.IntN(len(all.Signatures))]
	chosen := make([]graph.Format, len(sig.Vars))
	for i, list := range sig.Vars {
		chosen[i] = list[r.IntN(len(list))]
	}
	fixed := func(ports []graph.Port) []graph.Port {
		out := make([]graph.Port, len(ports))
		for i, p := range ports {
			if out[i] = p; p.Var > 0 {
				out[i] = graph.Fixed(chosen[p.Var-1])
			}
		}
		return out
	}
	sig.Inputs, sig.Outputs, sig.Vars = fixed(sig.Inputs), fixed(sig.Outputs), nil
	all.Signatures = []graph.Signature{sig}
	return all
}

// ConvertersOf implements convert.Source where the backend below does.
func (s scrambled) ConvertersOf(l graph.Layout) []convert.Converter {
	if b, ok := s.Backend.(convert.Source); ok {
		return b.ConvertersOf(l)
	}
	return nil
}

// Negotiate implements backend.Negotiator where the backend below does.
func (s scrambled) Negotiate(ctx context.Context, sub *graph.Graph) (map[*graph.Value]graph.Format, error) {
	if b, ok := s.Backend.(backend.Negotiator); ok {
		return b.Negotiate(ctx, sub)
	}
	return nil, nil
}
