package partition

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Verify checks what is true after the stage that was run last, in O(V+E): whose the nodes are, from Assign on; that groups are
// of one backend and acyclic together, from Group on; that signatures are among those that were offered, from
// ChooseFormats to Negotiate, and fit the values' formats; that every operand has the format in which it is read, from
// InsertConversions on; that the graph is a sound partition with the groups of the Result, from ExtractGroups on. The error
// wraps ErrPlan. Where a stage has banned nodes the state has come to its end, and is not checked.
func (s *State) Verify() error {
	done := s.reached - 1
	if done >= stageExtract {
		return s.verifyExtracted()
	}
	if done < stageAssign || s.bansHit() {
		return nil
	}
	if err := s.verifyAssigned(done); err != nil {
		return err
	}
	if done >= stageGroup {
		if err := s.verifyGroups(); err != nil {
			return err
		}
	}
	if done >= stageFormats {
		if err := s.verifySignatures(done); err != nil {
			return err
		}
	}
	if done >= stageInsert {
		return verifyFormatsIn(s.g, s.groupAt)
	}
	return nil
}

// bansHit reports whether a node of the graph is where it must not be: the stages up to here have found that out.
func (s *State) bansHit() bool {
	for n := range s.g.Nodes() {
		if n.ID >= len(s.backend) {
			continue // a conversion
		}
		if b := s.backend[n.ID]; b >= 0 && s.bannedAt(n, b) {
			return true
		}
	}
	return false
}

func (s *State) bannedAt(n *graph.Node, b int32) bool {
	if !n.IsCarve(graph.OpFused) {
		return s.allowed(n, b) != nil
	}
	for m := range n.Regions[0].Graph.Nodes() {
		if s.allowed(m, b) != nil {
			return true
		}
	}
	return false
}

// verifyAssigned checks that each node is the host scheduler's, where it has to be, or that of the candidate that was taken.
func (s *State) verifyAssigned(done int) error {
	for n := range s.g.Nodes() {
		if n.IsCarve(graph.OpConvert) && done >= stageInsert {
			continue
		}
		c := s.table.taken(n)
		switch b := s.backend[n.ID]; {
		case b == hostScheduled:
			if c != nil || !HostScheduled(n) {
				return fmt.Errorf("%w: %v is not the host scheduler's to run", ErrPlan, n)
			}
		case b == unassigned:
			return fmt.Errorf("%w: %v is nobody's", ErrPlan, n)
		case c == nil || !c.Taken || c.Node != n || int32(c.Backend) != b || n.Backend != s.names[b]:
			return fmt.Errorf("%w: %v on %q is not what was chosen", ErrPlan, n, n.Backend)
		}
	}
	return nil
}

// verifyGroups checks the groups, and that no group depends on itself by way of others.
func (s *State) verifyGroups() error {
	// A unit is a group, or a node outside of all.
	units := len(s.groups)
	unit := make([]int, s.g.NodeIDs())
	for n := range s.g.Nodes() {
		k := s.groupAt(n)
		if k < 0 {
			unit[n.ID] = units
			units++
			continue
		}
		unit[n.ID] = int(k)
		if name := s.names[s.groups[k].backend]; n.Backend != name {
			return fmt.Errorf("%w: %v on %q is in group %d of %s", ErrPlan, n, n.Backend, k, name)
		}
	}
	needs := make([]int, units) // edges from other units
	next := make([][]int, units)
	for n := range s.g.Nodes() {
		for _, v := range n.Operands() {
			if v == nil || v.Producer == nil {
				continue
			}
			if from, to := unit[v.Producer.ID], unit[n.ID]; from != to {
				next[from] = append(next[from], to)
				needs[to]++
			}
		}
	}
	var ready []int
	for u, n := range needs {
		if n == 0 {
			ready = append(ready, u)
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		u := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, v := range next[u] {
			if needs[v]--; needs[v] == 0 {
				ready = append(ready, v)
			}
		}
	}
	if done < units {
		return fmt.Errorf("%w: %d groups and nodes depend on themselves", ErrPlan, units-done)
	}
	return nil
}

// verifySignatures checks the signatures of the nodes. Negotiation may change them.
func (s *State) verifySignatures(done int) error {
	for n := range s.g.Nodes() {
		c := s.table.taken(n)
		if c == nil {
			continue
		}
		if n.Ports == nil || len(n.Ports.Inputs) != len(n.Inputs) || len(n.Ports.Outputs) != len(n.Outputs) || len(n.Ports.Vars) > 0 {
			return fmt.Errorf("%w: %v has no signature that fits", ErrPlan, n)
		}
		if done < stageNegotiate && !slices.ContainsFunc(resolve(c.Signatures), func(x graph.Signature) bool {
			return slices.Equal(x.Inputs, n.Ports.Inputs) && slices.Equal(x.Outputs, n.Ports.Outputs)
		}) {
			return fmt.Errorf("%w: the signature of %v is not among those that %s offers", ErrPlan, n, n.Backend)
		}
		for i, v := range n.Outputs {
			if v != nil && v.Format != n.Ports.Outputs[i].Format {
				return fmt.Errorf("%w: %v gives %v in %v, which is %v", ErrPlan, n, v, n.Ports.Outputs[i].Format, v.Format)
			}
		}
	}
	return nil
}

// verifyExtracted checks the partitioned graph, and that the result has its groups.
func (s *State) verifyExtracted() error {
	if err := Verify(s.g); err != nil {
		return err
	}
	k := 0
	for n := range s.g.Nodes() {
		if !n.IsCarve(graph.OpSubgraph) {
			continue
		}
		if k == len(s.result.Groups) || s.result.Groups[k].Node != n || s.result.Groups[k].Body != n.Regions[0].Graph || s.result.Groups[k].Backend != n.Backend {
			return fmt.Errorf("%w: %v is not group %d of the result", ErrPlan, n, k)
		}
		k++
	}
	if k < len(s.result.Groups) {
		return fmt.Errorf("%w: the result has %d groups, the graph %d", ErrPlan, len(s.result.Groups), k)
	}
	return nil
}
