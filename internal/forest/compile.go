package forest

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/internal/kernel/trees"
)

// flat is a node of a compiled forest: where x ≤ split the walk goes on at yes, elsewhere at no. A leaf leads to itself on
// both ways; its split is its vote where a forest has one target and one vote a leaf.
type flat[T float32 | float64] struct {
	split   T
	feature int32 // with nanYes: NaN goes to yes
	yes, no int32
}

const nanYes = math.MinInt32

// Trees is a compiled forest for rows of T. It is immutable.
type Trees[T float32 | float64] struct {
	nodes    []flat[T]
	roots    []int32
	targets  int
	features int
	single   bool     // one target, one vote a leaf, which stands in its split
	votesAt  []uint32 // where a node's votes begin, for all nodes and one more; nil where single
	votes    []Vote
	visits   float64 // that a row takes, about
	packed   *packed // for kernels, nil where there are none; nodes are nil then
}

// maxNodes bounds compiled forests.
const maxNodes = 1 << 30

// compiler lays out nodes in the order in which walks that take the branch yes reach them.
type compiler[T float32 | float64] struct {
	f  *Forest
	t  *Trees[T]
	at []int32 // where a node was laid out, -1 for those that are not yet
	to []*[]Vote
	// parents counts the ways to a node, roots included.
	parents []int32
	// pending are nodes that have a place in the layout, and ways to nodes that may have none.
	pending []unlinked[T]
}

// unlinked is a node that has its entries in the layout, which are not filled.
type unlinked[T float32 | float64] struct {
	node   int
	ways   []int // the nodes that it leads to, without those that are known to have places
	search *search[T]
}

// Compile lays the forest out for rows of T: float32 rows are compared with float32 splits, so that a forest that is Wide has to
// be compiled for float64. The error is an *Error: a forest that is too large for numbers of 32 bits, or infinite weights, which
// Begin could not tell from targets without votes. A forest for float32 is laid out for kernels where these are fast.
func Compile[T float32 | float64](f *Forest, k trees.Kernels) (*Trees[T], error) {
	c := &compiler[T]{f: f, t: &Trees[T]{targets: f.Targets, features: f.Features, single: f.Targets == 1}, at: make([]int32, len(f.Nodes)), parents: parents(f)}
	total := len(f.Nodes)
	for i := range f.Nodes {
		c.at[i] = -1
		n := &f.Nodes[i]
		total += 2 * (len(n.Members) + 1)
		c.t.single = c.t.single && (n.Mode != Leaf || len(n.Votes) == 1)
		for _, v := range n.Votes {
			if math.IsInf(v.Weight, 0) {
				return nil, failf("leaf_weights", "%v", v.Weight)
			}
		}
	}
	if total > maxNodes {
		return nil, failf("nodes_modes", "%d nodes", total)
	}
	for _, root := range f.Roots {
		c.t.roots = append(c.t.roots, c.layOut(root))
	}
	if !c.t.single {
		c.t.votesAt = append(c.t.votesAt, 0)
		for _, v := range c.to {
			if v != nil {
				c.t.votes = append(c.t.votes, *v...)
			}
			c.t.votesAt = append(c.t.votesAt, uint32(len(c.t.votes)))
		}
	}
	c.t.visits = visits(f)
	if single, ok := any(c.t).(*Trees[float32]); ok && k.Fast() {
		if single.packed = pack(single, k); single.packed != nil {
			single.nodes, single.votes, single.votesAt = nil, nil, nil
		}
	}
	return c.t, nil
}

// visits estimates the nodes that a row visits: for each tree the binary logarithm of its leaves and one more.
func visits(f *Forest) float64 {
	if len(f.Roots) == 0 {
		return 0
	}
	return float64(len(f.Roots)) * (1 + math.Log2(1+float64(len(f.Nodes))/2/float64(len(f.Roots))))
}

// layOut lays out what can be reached from a node, and returns the node's place.
func (c *compiler[T]) layOut(root int) int32 {
	if c.at[root] >= 0 {
		return c.at[root]
	}
	c.begin(root)
	for len(c.pending) > 0 {
		// Children come first into the layout; the node's own entries are complete when all have a place.
		p := &c.pending[len(c.pending)-1]
		for len(p.ways) > 0 && c.at[p.ways[0]] >= 0 {
			p.ways = p.ways[1:]
		}
		if len(p.ways) > 0 {
			c.begin(p.ways[0])
			continue
		}
		if at := c.at[p.node]; p.search != nil {
			p.search.lay(c.t.nodes, at, c.at)
		} else {
			n := &c.f.Nodes[p.node]
			c.t.nodes[at].order(n, c.at[n.Yes], c.at[n.No])
		}
		c.pending = c.pending[:len(c.pending)-1]
	}
	return c.at[root]
}

// parents counts the ways to each node.
func parents(f *Forest) []int32 {
	ways := make([]int32, len(f.Nodes))
	for _, root := range f.Roots {
		ways[root]++
	}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Mode != Leaf {
			ways[n.Yes]++
			ways[n.No]++
		}
	}
	return ways
}

// begin gives a node its entries in the layout.
func (c *compiler[T]) begin(i int) {
	n := &c.f.Nodes[i]
	at, entries := int32(len(c.t.nodes)), 1
	c.at[i] = at
	p := unlinked[T]{node: i}
	if _, ok := n.equality(); ok {
		s := searchOf[T](c.f.Nodes, i, c.parents)
		entries, p.search, p.ways = s.entries(), &s, append(slices.Clone(s.way), s.nan)
	} else if n.Mode != Leaf {
		p.ways = []int{n.Yes, n.No}
	}
	for range entries {
		c.t.nodes = append(c.t.nodes, flat[T]{yes: at, no: at})
		c.to = append(c.to, nil)
	}
	if n.Mode != Leaf {
		c.pending = append(c.pending, p)
		return
	}
	c.to[at] = &n.Votes
	if c.t.single {
		c.t.nodes[at].split = T(n.Votes[0].Weight)
	}
}

// order fills the entry of a node that compares for order and whose branches have their places: x < s is x ≤ the number before s.
func (e *flat[T]) order(n *Node, yes, no int32) {
	s := T(n.Split)
	never := s != s // as a comparison of order with NaN is
	switch n.Mode {
	case LEQ:
		e.set(n.Feature, s, yes, no, n.Missing)
	case LT:
		e.set(n.Feature, before(s), yes, no, n.Missing)
	case GTE, GT:
		if n.Mode == GTE {
			s = before(s)
		}
		if never {
			s = T(math.Inf(1))
		}
		e.set(n.Feature, s, no, yes, !n.Missing)
	case EQ, NEQ, Member, Leaf: // are none
	}
}

func (e *flat[T]) set(feature int, split T, yes, no int32, nan bool) {
	e.feature, e.split, e.yes, e.no = int32(feature), split, yes, no
	if nan {
		e.feature |= nanYes
	}
}

// before returns the largest number below s, NaN for -Inf and NaN.
func before[T float32 | float64](s T) T {
	switch s := any(s).(type) {
	case float32:
		if math.IsInf(float64(s), -1) {
			return T(math.NaN())
		}
		return T(math.Nextafter32(s, float32(math.Inf(-1))))
	case float64:
		if math.IsInf(s, -1) {
			return T(math.NaN())
		}
		return T(math.Nextafter(s, math.Inf(-1)))
	}
	return s
}
