package graph

// removeDead removes nodes whose results nobody reads, together with what only they read, and unread constants. Nodes
// without any result stay: whatever they are there for, it is no result.
func (s *simplifier) removeDead() error {
	order, err := s.order()
	if err != nil {
		return err
	}
	for i := len(order) - 1; i >= 0; i-- {
		n := order[i]
		if n.graph != s.g || !isDead(n) {
			continue
		}
		s.vanish(n, FoldedDead)
		s.g.Remove(n)
	}
	for v := range s.g.Constants() {
		if len(v.uses) == 0 && v.output == 0 {
			s.g.RemoveConst(v)
			s.changes++
		}
	}
	return nil
}

func isDead(n *Node) bool {
	for _, v := range n.Outputs {
		if v != nil && (len(v.uses) > 0 || v.output > 0) {
			return false
		}
	}
	return len(n.Outputs) > 0
}
