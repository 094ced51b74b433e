package partition

import (
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/cost"
	"github.com/carve-dev/carve/property"
)

// price completes what backend i says of the cost of n with one of these signatures: where it names no time, that is modelled
// by what the backend achieves. The cost is that of the best signature, and others say what they cost beyond it. What nobody
// knows stays zero. The list that it returns may be a copy.
func (s *State) price(i int32, n *graph.Node, said property.Cost, sigs []graph.Signature) (property.Cost, []graph.Signature) {
	return priced(s.efficiency[i], n, said, sigs, s.o)
}

// priced is price for a backend that achieves e, nil for one that does not say.
func priced(e *backend.Efficiency, n *graph.Node, said property.Cost, sigs []graph.Signature, o *Options) (property.Cost, []graph.Signature) {
	if said.Nanoseconds > 0 || len(sigs) == 0 || e == nil {
		return said, sigs
	}
	w := cost.MeasureAt(n, o.Sizes)
	said.FLOPs, said.Bytes = w.FLOPs, w.Bytes
	times := make([]float64, len(sigs))
	for k := range sigs {
		times[k] = cost.Nanoseconds(e, &w, sigs[k].Name, o.Threads)
	}
	said.Nanoseconds = slices.Min(times)
	if slices.Max(times) == said.Nanoseconds {
		return said, sigs
	}
	sigs = slices.Clone(sigs)
	for k := range sigs {
		sigs[k].Extra += times[k] - said.Nanoseconds
	}
	return said, sigs
}

// Launches returns what it costs to begin a group of each backend on that many threads, beside its nodes, in nanoseconds: 0 where
// that is not known.
func Launches(backends []backend.Backend, threads int) []float64 {
	list := make([]float64, len(backends))
	for i, b := range backends {
		if e := b.Info().Efficiency; e != nil {
			list[i] = e.Launch
			if threads > 1 {
				list[i] += e.Switch
			}
		}
	}
	return list
}
