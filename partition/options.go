package partition

import (
	"log/slog"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// Options are the settings of a partition. Backends and Registry are required.
type Options struct {
	// Backends in order of priority: an earlier one wins a node that several support.
	Backends []backend.Backend
	// Properties are the user's own, by backend name; they come before the backend's.
	Properties map[string][]property.SubgraphProperty
	// Disabled names properties that are left out, by backend name: the user's or the backend's own.
	Disabled map[string][]string
	// Pins bind or exclude nodes; the first that matches a node counts (see property.Pin).
	Pins []Pin
	// Registry answers for the cost of conversions.
	Registry *convert.Registry
	// Disconnected allows groups of several unconnected parts, which makes their number minimal. By default groups are
	// connected.
	Disconnected bool
	// Isolated makes each node, what is fused being one, a group of its own that takes its operands row-major on the host,
	// gives its results so, and converts by itself: what a partition is compared with.
	Isolated bool
	// Whole puts all nodes that are not the host scheduler's into one group of each backend, also where some have shapes that depend on data or operands of
	// unknown rank and others have not.
	Whole bool
	// MinNodes gives groups of fewer nodes to backends further down the list, if these take them; 0 keeps all. What a fused
	// node stands for counts.
	MinNodes int
	// Bans is the table of what backends may not have, which the partition adds to. nil means one of its own, that begins
	// with Pins; a table that is given has the pins already.
	Bans *Bans
	// Threads is how many workers runs have, for the modelled times of nodes; 0 counts as 1.
	Threads int
	// Sizes are values of symbols for estimates of times and bytes; those that are missing count as graph.AssumedSize.
	Sizes graph.Bindings
	// Chooser decides who runs what; nil means Priority.
	Chooser Chooser
	// Blocks returns the partition of a graph inside of this one's control flow, nil for one that has none. Where those of inner graphs are
	// chosen first, a choice by cost counts conversions around control flow by the formats in it; nil means that formats there are
	// row-major.
	Blocks func(g *graph.Graph) *State
	// Logger receives what was decided; nil discards it.
	Logger *slog.Logger
}

// rules returns the properties of a backend that are not switched off: the user's, then its own.
func (o *Options) rules(b backend.Backend) []*property.Rule {
	name := b.Info().Name
	var list []*property.Rule
	for _, p := range slices.Concat(o.Properties[name], b.Properties()) {
		if !slices.Contains(o.Disabled[name], p.Name()) {
			list = append(list, blamed(p))
		}
	}
	return list
}

// Pin binds nodes to a backend, or keeps them away from it.
type Pin = property.Pin

// HostBackend is the name under which the host scheduler's nodes are reported.
const HostBackend = "host"

// HostScheduled reports whether the host scheduler runs n itself: control flow that no backend has claimed (ClaimWhole), and whatever
// touches sequences, optionals or maps.
func HostScheduled(n *graph.Node) bool {
	if n == nil {
		return false
	}
	if n.Op.Domain == "" {
		switch n.Op.Name {
		case "If", "Loop", "Scan", "SequenceMap":
			if n.Backend == "" { // no backend has claimed it whole
				return true
			}
		}
	}
	return carriesOthers(n)
}

// carriesOthers reports whether n reads or makes what is no tensor.
func carriesOthers(n *graph.Node) bool {
	carried := func(v *graph.Value) bool {
		return v != nil && v.Type.Kind != graph.KindTensor && v.Type.Kind != graph.KindUnknown
	}
	for _, v := range n.Operands() {
		if carried(v) {
			return true
		}
	}
	for _, v := range n.Outputs {
		if carried(v) {
			return true
		}
	}
	return false
}
