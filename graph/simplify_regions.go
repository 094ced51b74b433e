package graph

// regions simplifies the graphs nested in s.g: constants that they capture are cloned in, repeated and unread captures
// dropped, and the table of passes is run on each.
func (s *simplifier) regions() error {
	g := s.g
	var owners []*Node
	for n := range g.Nodes() {
		if len(n.Regions) > 0 {
			owners = append(owners, n)
		}
	}
	for _, n := range owners {
		if err := s.captures(n); err != nil {
			return err
		}
		for _, r := range n.Regions {
			s.depth++
			err := s.graph(r.Graph)
			s.depth--
			if err != nil {
				return err
			}
		}
		s.enter(g)
		if err := s.captures(n); err != nil {
			return err
		}
	}
	return nil
}

// captures clones captured constants and dims values into the regions of n, merges captures of the same value, and drops
// those that no region reads.
func (s *simplifier) captures(n *Node) error {
	g, start := s.g, s.changes
	first := map[*Value]int{}
	for i, v := range n.Captures {
		if _, ok := first[v]; !ok {
			first[v] = i
		}
	}
	for i := len(n.Captures) - 1; i >= 0; i-- {
		v := n.Captures[i]
		read := false
		for _, r := range n.Regions {
			p := r.Graph.Captures[i]
			if len(p.uses) == 0 && p.output == 0 {
				continue
			}
			s.enter(r.Graph)
			switch {
			case v.kind == kindConst || v.kind == kindDims:
				s.replace(p, r.Graph.cloneConst(v))
			case first[v] < i:
				s.replace(p, r.Graph.Captures[first[v]])
			default:
				read = true
			}
		}
		s.enter(g)
		if !read {
			n.RemoveCapture(i)
			s.changes++
		}
	}
	return s.after("captures", start)
}
