package dag

// Host is the colour of nodes that belong to no backend. Each is a group of its own.
const Host = int32(-1)

// Problem is what is to be grouped. Only Graph and Color are required; a nil list means that its feature is not used. Lists
// of nodes have Graph.Len() items, lists of edges Graph.Edges(). A Problem is read, never written.
type Problem struct {
	Graph *Graph
	// Color holds the backend of each node, 0 to 65535, or Host.
	Color []int32
	// Unit holds the atomic unit of each node, below Graph.Len(), or -1. The nodes of a unit share a group. A unit that
	// cannot be contracted without a cycle, or whose nodes differ in colour or bound, is split and reported.
	Unit []int32
	// Bound holds a number for each node, below Graph.Len(), or -1. Only nodes with equal numbers share a group. Overlapping
	// bounding claims are given as one number for each distinct set of claims.
	Bound []int32
	// Alone marks nodes whose unit, or who by themselves, must be a whole group.
	Alone []bool
	// Cut marks edges whose ends never share a group, unless one unit holds both.
	Cut []bool
	// Benefit is what it brings to have an edge inside a group, in any unit; nil means that all edges bring the same. Edges
	// are contracted by falling benefit, and only if the sum over the parallel ones is positive.
	Benefit []float32
	// Size is what each node counts towards MaxSize, nil for 1.
	Size []int32
	// Policy holds what is asked of the groups of each colour; missing ones are the zero Policy.
	Policy []Policy
	// Order lists the colours in the order in which they are grouped, the first being the freest; nil means ascending.
	// Colours that are missing follow, ascending.
	Order []int32
	// Accept is asked once for every finished group, given its colour and nodes, ascending. Nodes of a group that it turns
	// down go to the host; the others of that colour may then be merged further and are asked for again if they are. The
	// slice is valid during the call only.
	Accept func(color int32, nodes []int32) bool
}

// Policy is what is asked of the groups of one colour.
type Policy struct {
	// Disconnected lets groups consist of unconnected parts: fewest groups, longest lifetimes. By default groups are
	// connected (edges and common units connect).
	Disconnected bool
	// MaxSize bounds the size of a group; 0 means no bound. A single unit may be larger.
	MaxSize int64
}

// Grouping is the result of Group. It is owned by the caller.
type Grouping struct {
	// Of holds the group of each node. Groups are numbered in a topological order of the quotient, which follows the order
	// of node numbers where dependencies allow.
	Of []int32
	// Color holds the colour of each group.
	Color []int32
	// Split lists the units that had to be split, ascending.
	Split []int32
	// Rejected lists the nodes that Accept sent to the host, ascending.
	Rejected []int32
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
		{"colours", len(p.Color), n, true}, {"units", len(p.Unit), n, false}, {"bounds", len(p.Bound), n, false},
		{"alone", len(p.Alone), n, false}, {"cuts", len(p.Cut), e, false}, {"benefits", len(p.Benefit), e, false},
		{"sizes", len(p.Size), n, false},
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
		{"colours", p.Color, -1, 1<<16 - 1}, {"units", p.Unit, -1, int32(n) - 1}, {"bounds", p.Bound, -1, int32(n) - 1},
		{"sizes", p.Size, 0, 1<<31 - 1},
	} {
		for v, x := range l.list {
			if x < l.lo || x > l.hi {
				return &Error{Op: op, What: l.what, Node: int32(v), Err: ErrRange}
			}
		}
	}
	return nil
}

// colors returns the colours in use, in the order of grouping.
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
	take := func(c int32) {
		if c >= 0 && int(c) < len(used) && used[c] {
			used[c] = false
			order = append(order, c)
		}
	}
	for _, c := range p.Order {
		take(c)
	}
	for c := range used {
		take(int32(c))
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
