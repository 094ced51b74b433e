package partition

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// Explain returns Rejected and, behind that, why nodes are not on the backends that were not asked for them: those further down
// the list than the one that has the node, and all where the host scheduler has it. So there is a reason for every node of the
// partitioned graph and every backend that does not run it. It costs time and memory for nodes times backends, which is why
// the partition does not do it by itself.
func (r *Result) Explain() []Rejection {
	if r.graph == nil { // Partition did not make it
		return slices.Clone(r.Rejected)
	}
	e := explanation{list: slices.Clone(r.Rejected), known: map[[2]string]bool{}, after: make([]*property.Reason, len(r.names))}
	for _, x := range r.Rejected {
		e.known[[2]string{x.Node, x.Backend}] = true
	}
	for _, gr := range r.Groups {
		e.each(gr.Body, func(name string) { e.known[[2]string{name, gr.Backend}] = true })
	}
	for i, name := range r.names {
		e.after[i] = property.Because(property.Priority, "%s comes before it in the list, and has the node", name)
		if r.placement != nil {
			e.after[i] = property.Because(property.Dearer, "it costs less on %s", name)
		}
	}
	for _, x := range r.lost {
		e.add(x.Node, x.Backend, x.Reason)
	}
	host := property.Because(property.HostScheduled, "the host scheduler runs control flow, sequences, optionals and maps")
	for n := range r.graph.Nodes() {
		if n.IsCarve(graph.OpConvert) {
			continue
		}
		i := slices.Index(r.names, n.Backend)
		why, first := host, 0
		if i >= 0 {
			why, first = e.after[i], i+1
			if r.placement != nil {
				first = 0
			}
		}
		e.node(n, func(name string) {
			for _, b := range r.names[first:] {
				e.add(name, b, why)
			}
		})
	}
	return e.list
}

// explanation is one call of Explain.
type explanation struct {
	list  []Rejection
	known map[[2]string]bool // nodes and backends that there is a reason for, or that have the node
	after []*property.Reason // for backends further down than each
}

func (e *explanation) add(name, backend string, why *property.Reason) {
	k := [2]string{name, backend}
	if !e.known[k] {
		e.known[k] = true
		e.list = append(e.list, Rejection{Node: name, Backend: backend, Reason: why})
	}
}

// node calls fn for every node of the model that runs with n. Regions that the host scheduler runs are partitioned by
// themselves, and tell for themselves.
func (e *explanation) node(n *graph.Node, fn func(name string)) {
	if !n.IsCarve(graph.OpSubgraph) && !n.IsCarve(graph.OpFused) {
		for _, name := range n.Provenance() {
			fn(name)
		}
	}
	if HostScheduled(n) {
		return
	}
	for _, r := range n.Regions {
		e.each(r.Graph, fn)
	}
}

func (e *explanation) each(g *graph.Graph, fn func(name string)) {
	for n := range g.Nodes() {
		if !n.IsCarve(graph.OpConvert) {
			e.node(n, fn)
		}
	}
}
