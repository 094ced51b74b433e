package graph

// transposed are values that lie transposed alike and are connected by nodes that a transposition may be taken behind.
type transposed struct {
	perm  []int64
	saved int64       // bytes that transpositions move, less those that they move where all of them are behind the nodes
	fewer int         // transpositions, less those that are left then
	into  *transposed // what it has become a part of, nil where it is whole
}

// whole returns what t is a part of.
func (t *transposed) whole() *transposed {
	for t.into != nil {
		if t.into.into != nil {
			t.into = t.into.into
		}
		t = t.into
	}
	return t
}

// sinkTogether takes transpositions behind connected nodes at once, where fewer are left and less is moved then. Values are found in one walk, by how
// they would be transposed: O(V+E).
func (s *simplifier) sinkTogether() error {
	order, err := s.order()
	if err != nil {
		return err
	}
	parts := map[*Value]*transposed{}
	var inside []*Node
	for _, n := range order {
		if n.graph == s.g && transposedBehind(n, parts) {
			inside = append(inside, n)
		}
	}
	for v, t := range parts {
		bytes, count := savedAt(v, t.perm, parts)
		t.whole().saved += bytes
		t.whole().fewer += count
	}
	for _, n := range inside {
		if t := parts[n.Outputs[0]].whole(); t.saved <= 0 || t.fewer <= 0 {
			continue
		}
		if p, ok := passableOf(n, transposition); ok {
			if err := s.sink(&p); err != nil {
				return err
			}
		}
	}
	return nil
}

// transposedBehind lists the result of n where n transposes, or may be passed by what its operands are transposed by, which it reports.
func transposedBehind(n *Node, parts map[*Value]*transposed) bool {
	of := func(v *Value) []int64 {
		if t := parts[v]; t != nil {
			return t.perm
		}
		return nil
	}
	if n.Is("Transpose") {
		if perm := transposition(n.Output(0)); perm != nil && !undoes(of(n.Inputs[0]), perm) {
			parts[n.Outputs[0]] = &transposed{perm: perm}
		}
		return false
	}
	p, ok := passableOf(n, of)
	if !ok {
		return false
	}
	t := &transposed{perm: p.perm}
	for _, v := range n.Inputs[:p.data] {
		if u := parts[v]; u != nil && u.whole() != t {
			u.whole().into = t
		}
	}
	parts[n.Outputs[0]] = t
	return true
}

// savedAt returns how many bytes less are moved, by how many transpositions less, where v is not transposed: by the node that transposes it, and those that undo that;
// others that read it would have it transposed behind.
func savedAt(v *Value, perm []int64, parts map[*Value]*transposed) (bytes int64, count int) {
	moved := movedBytes(v, perm)
	if v.Producer.Is("Transpose") {
		bytes, count = moved, 1
	}
	outside := v.output > 0
	for _, u := range v.uses {
		m := u.Node
		switch {
		case m.graph == v.Producer.graph && m.Is("Transpose") && undoes(perm, permutation(m)):
			bytes, count = bytes+moved, count+1
		case m.graph != v.Producer.graph || m.Is("Transpose") || m.Output(0) == nil || parts[m.Outputs[0]] == nil:
			outside = true
		}
	}
	if outside {
		bytes, count = bytes-moved, count-1
	}
	return bytes, count
}

// movedBytes returns how many bytes a permutation moves whose result is v, open dims counted as 1: none where it leaves the dims in
// order but for those of 1.
func movedBytes(v *Value, perm []int64) int64 {
	bytes, last, inOrder := int64(max(v.Type.DType.Size(), 1)), int64(-1), true
	for i, d := range v.Type.Shape {
		if d.Is(1) {
			continue
		}
		inOrder = inOrder && perm[i] > last
		last = perm[i]
		if n, ok := d.Const(); ok {
			bytes *= n
		}
	}
	if inOrder {
		return 0
	}
	return bytes
}
