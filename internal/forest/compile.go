package forest

import (
	"math"

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
	// pending are nodes whose place in the layout is taken by their parents but that are not laid out.
	pending []int
}

// Compile lays the forest out for rows of T: float32 rows are compared with float32 splits, so that a forest that is Wide has to
// be compiled for float64. The error is an *Error: a forest that is too large for numbers of 32 bits, or infinite weights, which
// Begin could not tell from targets without votes. A forest for float32 is laid out for kernels where these are fast.
func Compile[T float32 | float64](f *Forest, k trees.Kernels) (*Trees[T], error) {
	c := &compiler[T]{f: f, t: &Trees[T]{targets: f.Targets, features: f.Features, single: f.Targets == 1}, at: make([]int32, len(f.Nodes))}
	total := len(f.Nodes)
	for i := range f.Nodes {
		c.at[i] = -1
		n := &f.Nodes[i]
		total += 2 * len(n.Members)
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
		i := c.pending[len(c.pending)-1]
		n := &c.f.Nodes[i]
		// Children come first into the layout; the node's own entries are complete when both have a place.
		if n.Mode != Leaf {
			if c.at[n.Yes] < 0 {
				c.begin(n.Yes)
				continue
			}
			if c.at[n.No] < 0 {
				c.begin(n.No)
				continue
			}
			c.link(n, c.at[i], c.at[n.Yes], c.at[n.No])
		}
		c.pending = c.pending[:len(c.pending)-1]
	}
	return c.at[root]
}

// begin gives a node its entries in the layout.
func (c *compiler[T]) begin(i int) {
	n := &c.f.Nodes[i]
	at := int32(len(c.t.nodes))
	c.at[i] = at
	for range entries(n) {
		c.t.nodes = append(c.t.nodes, flat[T]{yes: at, no: at})
		c.to = append(c.to, nil)
	}
	if n.Mode == Leaf {
		c.to[at] = &n.Votes
		if c.t.single {
			c.t.nodes[at].split = T(n.Votes[0].Weight)
		}
	}
	c.pending = append(c.pending, i)
}

// entries returns how many nodes of the layout a node takes.
func entries(n *Node) int {
	switch n.Mode {
	case EQ, NEQ:
		return 2
	case Member:
		return max(2*len(n.Members), 1)
	case LEQ, LT, GTE, GT, Leaf:
	}
	return 1
}

// link fills the entries of a node whose branches have their places. Each comparison of a number that is not NaN is one or two
// of x ≤ split: x < s is x ≤ the number before s, and x = s is x ≤ s without x ≤ the number before s.
func (c *compiler[T]) link(n *Node, at, yes, no int32) {
	s, e := T(n.Split), &c.t.nodes[at]
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
	case EQ:
		c.equal(n, at, s, yes, no)
	case NEQ: // which is true for NaN
		e.set(n.Feature, s, at+1, yes, false)
		c.t.nodes[at+1].set(n.Feature, before(s), yes, no, false)
	case Member:
		if len(n.Members) == 0 {
			e.set(n.Feature, T(math.Inf(1)), no, yes, !n.Missing)
			return
		}
		for k, m := range n.Members {
			next := no
			if k+1 < len(n.Members) {
				next = at + int32(2*k+2)
			}
			c.equal(n, at+int32(2*k), T(m), yes, next)
		}
	case Leaf: // leads to itself
	}
}

// equal fills the two entries of x = s at a place; NaN goes to yes where it is to count as a member.
func (c *compiler[T]) equal(n *Node, at int32, s T, yes, no int32) {
	c.t.nodes[at].set(n.Feature, s, at+1, no, n.Missing)
	c.t.nodes[at+1].set(n.Feature, before(s), no, yes, false)
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
