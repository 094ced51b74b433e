package forest

import (
	"math"
	"math/bits"

	"github.com/carve-dev/carve/internal/kernel/trees"
)

// packed is a forest for the kernels of package trees: leaves hold their vote's weight, where each has one, and all those of a tree are for
// the tree's target, else which votes they have.
type packed struct {
	kernels trees.Kernels
	forest  trees.Forest
	targets []int32 // of each tree, nil where leaves have lists of votes
	lists   voteLists
	table   *voteTable // of the lists, for sums; nil where most lists lack most targets
	near    int        // trees whose nodes stay in the nearest cache
}

// packer lays out nodes in pairs, level by level, so that the first nodes of a tree share a cache line.
type packer struct {
	nodes []flat[float32]
	out   trees.Forest
	at    []int32 // where a node was laid out first, -1 for those that are not yet
	pair  []int32 // where the two nodes lie that a node leads to, -1 for those that are not laid out
	queue []slot
	leaf  func(i int32) (held uint32, ok bool)
}

// slot is a place of a node in the layout that is still to be filled: one for every way to the node.
type slot struct{ node, at int32 }

// pack returns the compiled forest in the layout of kernels, nil where these do not have the place for its ways.
func pack(t *Trees[float32], k trees.Kernels) *packed {
	if len(t.roots) == 0 {
		return nil
	}
	p := &packer{nodes: t.nodes, at: make([]int32, len(t.nodes)), pair: make([]int32, len(t.nodes))}
	p.out.Bits = max(bits.Len(uint(max(t.features, 1)-1)), 5)
	for i := range p.at {
		p.at[i], p.pair[i] = -1, -1
	}
	lists := voteLists{number: map[string]uint32{}, begin: []uint32{0}}
	p.leaf = func(i int32) (uint32, bool) { return lists.hold(t.votes[t.votesAt[i]:t.votesAt[i+1]]) }
	targets := t.treeTargets()
	if targets != nil {
		p.leaf = func(i int32) (uint32, bool) { return math.Float32bits(float32(t.weightOf(i))), true }
	}
	for _, root := range t.roots {
		if !p.tree(root) {
			return nil
		}
	}
	last := p.out.Roots[len(p.out.Roots)-1]
	for range trees.Walks {
		p.out.Roots = append(p.out.Roots, last)
	}
	const cache = 24 << 10 // bytes
	near := max(1, cache/8*len(t.roots)/len(p.out.Nodes))
	p.out.Nodes = append(p.out.Nodes, make([]uint64, trees.Ahead)...)
	lists.number = nil
	return &packed{kernels: k, forest: p.out, targets: targets, lists: lists, table: lists.table(t.targets), near: near}
}

// weightOf returns the weight of a leaf's only vote.
func (t *Trees[T]) weightOf(leaf int32) float64 {
	if t.single {
		return float64(t.nodes[leaf].split)
	}
	return t.votes[t.votesAt[leaf]].Weight
}

// treeTargets returns the target of each tree, nil where leaves have several votes, or leaves of a tree votes for several targets.
func (t *Trees[T]) treeTargets() []int32 {
	out := make([]int32, len(t.roots))
	if t.single {
		return out
	}
	seen, todo := make([]int32, len(t.nodes)), []int32{} // by which tree, counted from 1
	for k, root := range t.roots {
		out[k] = -1
		for todo = append(todo, root); len(todo) > 0; {
			i := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if seen[i] != 0 {
				if seen[i] != int32(k+1) {
					return nil // of several trees
				}
				continue
			}
			seen[i] = int32(k + 1)
			if n := t.nodes[i]; n.yes != i || n.no != i {
				todo = append(todo, n.yes, n.no)
				continue
			}
			votes := t.votes[t.votesAt[i]:t.votesAt[i+1]]
			if len(votes) != 1 || out[k] >= 0 && int(out[k]) != votes[0].Target {
				return nil
			}
			out[k] = int32(votes[0].Target)
		}
	}
	return out
}

// tree lays out what can be reached from a root, and reports whether ways are short enough.
func (p *packer) tree(root int32) bool {
	if p.at[root] >= 0 {
		p.out.Roots = append(p.out.Roots, p.at[root])
		return true
	}
	const line = 8 // nodes of a cache line
	for len(p.out.Nodes)%line != 0 {
		p.out.Nodes = append(p.out.Nodes, trees.Leaf(0))
	}
	p.out.Roots = append(p.out.Roots, int32(len(p.out.Nodes)))
	p.place(root)
	for ; len(p.queue) > 0; p.queue = p.queue[1:] {
		i, at := p.queue[0].node, p.queue[0].at
		n := &p.nodes[i]
		if n.yes == i && n.no == i {
			held, ok := p.leaf(i)
			if !ok {
				return false
			}
			p.out.Nodes[at] = trees.Leaf(held)
			continue
		}
		if p.pair[i] < 0 {
			if len(p.out.Nodes) > maxNodes {
				return false
			}
			p.pair[i] = int32(len(p.out.Nodes))
			p.place(n.yes)
			p.place(n.no)
		}
		node, ok := p.out.Branch(int(at), int(p.pair[i]), int(n.feature&^nanYes), n.split, n.feature < 0)
		if !ok {
			return false
		}
		p.out.Nodes[at] = node
	}
	p.queue = p.queue[:0]
	return true
}

// place gives a node the next place, its only one or one more.
func (p *packer) place(i int32) {
	at := int32(len(p.out.Nodes))
	if p.at[i] < 0 {
		p.at[i] = at
	}
	p.queue = append(p.queue, slot{i, at})
	p.out.Nodes = append(p.out.Nodes, 0)
}

const (
	// treesAtOnce is how many trees are walked with a row before their votes are counted.
	treesAtOnce = 64
	// targetsAtOnce is for how many targets kernels count.
	targetsAtOnce = 16
	// widest bounds how far apart rows lie that are walked side by side: their places are numbers of 32 bits.
	widest = 1 << 25
)

// addPacked is Add by kernels. Rows are walked side by side where that is less work than trees of each of them, some trees with all rows
// before the next ones.
func (t *Trees[T]) addPacked(scores []float64, rows []float32, n, pitch int, a Aggregate, lo, hi int) {
	var offsets [trees.Walks]int32
	whole := n / trees.Walks * trees.Walks
	if pitch > widest {
		whole = 0
	} else if (n-whole)*((hi-lo+trees.Walks-1)/trees.Walks) >= hi-lo {
		whole = n
	}
	for r := whole; r < n; r++ {
		t.acrossPacked(scores[r*t.targets:][:t.targets], rows[r*pitch:], a, lo, hi)
	}
	for n = whole; n > 0 && lo < hi; lo += t.packed.near {
		for r := 0; r < n; r += trees.Walks {
			count := min(trees.Walks, n-r)
			for i := range offsets {
				offsets[i] = int32(min(i, count-1) * pitch)
			}
			t.block(scores[r*t.targets:][:count*t.targets], rows[r*pitch:], &offsets, a, lo, min(lo+t.packed.near, hi))
		}
	}
}

// acrossPacked walks trees with one row.
func (t *Trees[T]) acrossPacked(scores []float64, row []float32, a Aggregate, lo, hi int) {
	var held [treesAtOnce]uint32
	p := t.packed
	for ; lo < hi; lo += treesAtOnce {
		n := min(treesAtOnce, hi-lo)
		p.kernels.Row(held[:], &p.forest, lo, lo+n, row)
		switch {
		case p.table != nil && a <= Sum:
			p.table.add(scores, held[:], n, 1)
		case p.targets == nil:
			for _, leaf := range held[:n] {
				p.lists.vote(scores, leaf, a)
			}
		case len(scores) == 1 && a <= Sum:
			s := scores[0]
			for _, w := range held[:n] {
				s += float64(math.Float32frombits(w))
			}
			scores[0] = s
		case a <= Sum:
			for i, target := range p.targets[lo : lo+n] {
				scores[target] += float64(math.Float32frombits(held[i]))
			}
		default:
			for i, target := range p.targets[lo : lo+n] {
				scores[target] = a.with(scores[target], float64(math.Float32frombits(held[i])))
			}
		}
	}
}

// block walks trees with trees.Walks rows at most.
func (t *Trees[T]) block(scores []float64, rows []float32, offsets *[trees.Walks]int32, a Aggregate, lo, hi int) {
	p := t.packed
	switch {
	case p.targets == nil || a > Sum || t.targets > targetsAtOnce:
		t.count(scores, rows, offsets, a, lo, hi)
	case len(scores) == trees.Walks && t.targets == 1:
		p.kernels.Sum(scores, p.targets, &p.forest, lo, hi, rows, offsets)
	default:
		t.sum(scores, rows, offsets, lo, hi)
	}
}

// sum has kernels add the votes to scores that are brought in their order.
func (t *Trees[T]) sum(scores []float64, rows []float32, offsets *[trees.Walks]int32, lo, hi int) {
	n, p := len(scores)/t.targets, t.packed
	var sums [targetsAtOnce * trees.Walks]float64
	for i := range n {
		for k, s := range scores[i*t.targets:][:t.targets] {
			sums[k*trees.Walks+i] = s
		}
	}
	p.kernels.Sum(sums[:t.targets*trees.Walks], p.targets, &p.forest, lo, hi, rows, offsets)
	for i := range n {
		for k := range t.targets {
			scores[i*t.targets+k] = sums[k*trees.Walks+i]
		}
	}
}

// count adds the votes of leaves that kernels have found.
func (t *Trees[T]) count(scores []float64, rows []float32, offsets *[trees.Walks]int32, a Aggregate, lo, hi int) {
	const together = 8 // trees
	var held [together * trees.Walks]uint32
	n, p := len(scores)/t.targets, t.packed
	for ; lo < hi; lo += together {
		count := min(together, hi-lo)
		p.kernels.Leaves(held[:], &p.forest, lo, lo+count, rows, offsets)
		if p.table != nil && a <= Sum {
			for r := range n {
				p.table.add(scores[r*t.targets:][:t.targets], held[r:], count, trees.Walks)
			}
			continue
		}
		for k := range count {
			for r, leaf := range held[k*trees.Walks:][:n] {
				row := scores[r*t.targets:][:t.targets]
				if p.targets != nil {
					target := p.targets[lo+k]
					row[target] = a.with(row[target], float64(math.Float32frombits(leaf)))
					continue
				}
				p.lists.vote(row, leaf, a)
			}
		}
	}
}
