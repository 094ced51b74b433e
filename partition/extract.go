package partition

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/carve-dev/carve/graph"
)

// ExtractGroups makes a Subgraph node of every group, and verifies the result.
func (s *State) ExtractGroups(ctx context.Context) error {
	s.enter(stageExtract)
	if err := s.extract(); err != nil {
		return err
	}
	if err := s.g.Sort(); err != nil {
		return err
	}
	s.g.Compact()
	s.result.sortGroups(s.g)
	if err := Verify(s.g); err != nil {
		return err
	}
	s.table, s.order, s.groupOf = nil, nil, nil // nobody asks for them any more, and they are large
	if s.o.Logger != nil {
		s.o.Logger.LogAttrs(ctx, slog.LevelDebug, "partitioned", slog.Int("groups", len(s.result.Groups)), slog.Int("packs", len(s.result.Packs)))
	}
	return nil
}

// extract makes the nodes.
func (s *State) extract() error {
	order, err := s.g.Topo()
	if err != nil {
		return err
	}
	members := make([][]*graph.Node, len(s.groups))
	for _, n := range order {
		if k := s.groupAt(n); k >= 0 {
			members[k] = append(members[k], n)
		}
	}
	for k, nodes := range members {
		if len(nodes) == 0 {
			continue
		}
		info := s.groups[k]
		name := s.names[info.backend]
		n, err := s.g.Extract(nodes, graph.NodeSpec{
			Op:    graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph},
			Name:  fmt.Sprintf("%s_%d", name, k),
			Attrs: []graph.Attr{graph.StringAttr("backend", name)},
		})
		if err != nil {
			return fmt.Errorf("group %d of %s: %w", k, name, err)
		}
		n.Backend = name
		if err := s.describeGroup(n, info); err != nil {
			return err
		}
		s.result.Groups = append(s.result.Groups, &Group{Backend: name, Node: n, Body: n.Regions[0].Graph, Dynamic: info.dynamic})
	}
	return nil
}

// Finish lets properties look at the partitioned graph, and edit it. What they leave is verified, and the groups that there
// are then are those of the result.
func (s *State) Finish(context.Context) error {
	s.enter(stageFinish)
	for _, ps := range s.props {
		for _, p := range ps {
			if p.PostPartition == nil {
				continue
			}
			err := p.PostPartition(s.g)
			if err == nil {
				err = s.Edited()
			}
			if err != nil {
				return fmt.Errorf("property %s: %w", p.ID, err)
			}
		}
	}
	return nil
}

// Edited takes note that others have edited the partitioned graph: it verifies the graph, and finds the groups again. The
// error wraps ErrPlan, or is a *graph.VerifyError.
func (s *State) Edited() error {
	if err := graph.Verify(s.g); err != nil {
		return err
	}
	if err := Verify(s.g); err != nil {
		return err
	}
	by := map[*graph.Node]*Group{}
	for _, gr := range s.result.Groups {
		by[gr.Node] = gr
	}
	s.result.Groups = s.result.Groups[:0]
	for n := range s.g.Nodes() {
		if !n.IsCarve(graph.OpSubgraph) {
			continue
		}
		gr := by[n]
		if gr == nil {
			gr = &Group{Node: n, Dynamic: unbacked(n)}
		}
		gr.Backend, gr.Body = n.Backend, n.Regions[0].Graph
		if !s.knows(gr.Backend) {
			return fmt.Errorf("%w: %v is on %q, which is none of the backends", ErrPlan, n, gr.Backend)
		}
		s.result.Groups = append(s.result.Groups, gr)
	}
	return nil
}

func (s *State) knows(backend string) bool {
	for _, name := range s.names {
		if name == backend {
			return true
		}
	}
	return false
}

// unbacked reports whether shapes of a group depend on data.
func unbacked(n *graph.Node) bool {
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v != nil && !v.Type.Backed() {
				return true
			}
		}
	}
	for m := range n.Regions[0].Graph.Nodes() {
		for _, v := range m.Outputs {
			if v != nil && !v.Type.Backed() {
				return true
			}
		}
	}
	return false
}

// sortGroups puts the groups into the order of the node list.
func (r *Result) sortGroups(g *graph.Graph) {
	by := map[*graph.Node]*Group{}
	for _, gr := range r.Groups {
		by[gr.Node] = gr
	}
	r.Groups = r.Groups[:0]
	for n := range g.Nodes() {
		if gr := by[n]; gr != nil {
			r.Groups = append(r.Groups, gr)
		}
	}
}
