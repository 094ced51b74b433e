package dag

// Host is the colour of nodes that belong to no backend. Each is a group of its own.
const Host = int32(-1)

// Problem is what is to be grouped. Only Graph and Color are required; a nil list means that its feature is not used. Lists
// of nodes have Graph.Len() items, lists of edges Graph.Edges(). A Problem is read, never written.
type Problem struct {
	Graph *Graph
	// Color holds the backend of each node, 0 to 65535, or Host.
	Color []int32
	// Bound holds a number for each node, below Graph.Len(), or -1. Only nodes with equal numbers share a group. Overlapping
	// bounding claims are given as one number for each distinct set of claims.
	Bound []int32
	// Alone marks nodes that must be a whole group by themselves.
	Alone []bool
	// Cut marks edges whose ends never share a group.
	Cut []bool
	// Policy holds what is asked of the groups of each colour; missing ones are the zero Policy.
	Policy []Policy
}

// Policy is what is asked of the groups of one colour.
type Policy struct {
	// Disconnected lets groups consist of unconnected parts: fewest groups, longest lifetimes. By default groups are
	// connected.
	Disconnected bool
}

// Grouping is the result of Group. It is owned by the caller.
type Grouping struct {
	// Of holds the group of each node. Groups are numbered in a topological order of the quotient, which follows the order
	// of node numbers where dependencies allow.
	Of []int32
	// Color holds the colour of each group.
	Color []int32
	// Exhausted reports that the search budget ran out, so that groups may be smaller than they could be.
	Exhausted bool
}

// Len returns the number of groups.
func (r *Grouping) Len() int { return len(r.Color) }

// Colored returns the number of groups that are not the host's.
func (r *Grouping) Colored() int {
	n := 0
	for _, c := range r.Color {
		if c >= 0 {
			n++
		}
	}
	return n
}

// Members returns the nodes by group, ascending: those of group i are nodes[ptr[i]:ptr[i+1]].
func (r *Grouping) Members() (ptr, nodes []int32) {
	ptr, nodes = make([]int32, r.Len()+1), make([]int32, len(r.Of))
	bucket(r.Of, ptr, nodes)
	return ptr, nodes
}

// policy returns what is asked of colour c.
func (p *Problem) policy(c int32) Policy {
	if int(c) < len(p.Policy) {
		return p.Policy[c]
	}
	return Policy{}
}

// check validates lengths and ranges.
func (p *Problem) check(op string) error {
	if p.Graph == nil {
		return &Error{Op: op, What: "graph", Node: -1, Err: ErrSize}
	}
	n, e := p.Graph.Len(), p.Graph.Edges()
	for _, l := range []struct {
		what      string
		have, len int
		required  bool
	}{
		{"colours", len(p.Color), n, true}, {"bounds", len(p.Bound), n, false}, {"alone", len(p.Alone), n, false},
		{"cuts", len(p.Cut), e, false},
	} {
		if l.have != l.len && (l.required || l.have != 0) {
			return &Error{Op: op, What: l.what, Node: -1, Err: ErrSize}
		}
	}
	for _, l := range []struct {
		what   string
		list   []int32
		lo, hi int32
	}{
		{"colours", p.Color, -1, 1<<16 - 1}, {"bounds", p.Bound, -1, int32(n) - 1},
	} {
		for v, x := range l.list {
			if x < l.lo || x > l.hi {
				return &Error{Op: op, What: l.what, Node: int32(v), Err: ErrRange}
			}
		}
	}
	return nil
}

// colors returns the colours in use, ascending, which is the order of grouping: the first is the freest.
func (p *Problem) colors() []int32 {
	top := Host
	for _, c := range p.Color {
		top = max(top, c)
	}
	used := make([]bool, top+1)
	for _, c := range p.Color {
		if c >= 0 {
			used[c] = true
		}
	}
	var order []int32
	for c, some := range used {
		if some {
			order = append(order, int32(c))
		}
	}
	return order
}

// bucket sorts the items 0..len(of)-1 by their bucket, stably: those of bucket b are list[ptr[b]:ptr[b+1]]. ptr has one item
// more than there are buckets.
func bucket(of, ptr, list []int32) {
	clear(ptr)
	for _, b := range of {
		ptr[b]++
	}
	sum := int32(0)
	for b := range ptr {
		sum += ptr[b]
		ptr[b] = sum
	}
	for v := len(of) - 1; v >= 0; v-- {
		b := of[v]
		ptr[b]--
		list[ptr[b]] = int32(v)
	}
}
