package partition

import (
	"context"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// formatChooser picks a signature for every node so that the modelled time of conversions is small. The objective is
//
//	Σ nodes Extra(signature) + Σ values Σ distinct wanted formats ≠ the value's own: cost(own → wanted)
//	+ Σ values padding(own)
//
// A conversion moves the bytes of both formats, their padding included: its cost is that of their mean. What a blocked
// layout pads is written by the producer of a value and read again, so that an image of 3 channels is not kept in blocks of
// 16 where nothing else is gained by it.
//
// A conversion counts once per (value, target), not once per edge. Constants cost nothing: they are converted when the
// model is compiled. The search is iterated conditional modes (Besag, On the statistical analysis of dirty pictures,
// Journal of the Royal Statistical Society B 48, 1986, doi:10.1111/j.2517-6161.1986.tb01412.x): sweeps over the nodes, forward and
// backward in topological order, each node taking its best signature given its neighbours', until nothing changes. It never
// makes the sum larger, and ends in a local minimum. Chains of layout-neutral nodes therefore move together, in the manner of the
// larger moves of graph cuts (Boykov, Veksler and Zabih, Fast approximate energy minimization via graph cuts, PAMI 23, 2001,
// doi:10.1109/34.969114): a node whose signature has a variable also tries its neighbours' format along the whole chain. The
// problem is that of Anderson and Gregg, Optimal DNN primitive selection with partitioned boolean quadratic programming, CGO
// 2018, doi:10.1145/3168805, but for counting a conversion once per value.
type formatChooser struct {
	s      *State
	order  []*graph.Node
	sigs   [][]graph.Signature // resolved candidates, by node id
	choice []int               // by node id
	sizes  []sizes             // estimated, by value id
	blocks map[layoutRank][]graph.Block
	loop   carried

	chain   []*graph.Node // moveChain's, used again
	inChain marks         // nodes
	seen    marks         // values
}

// marks is a set of ids that is emptied at once.
type marks struct {
	of  []uint32
	now uint32
}

// clear empties the set and makes room for so many ids.
func (m *marks) clear(ids int) {
	if len(m.of) < ids {
		m.of = make([]uint32, ids)
	}
	if m.now++; m.now == 0 { // after 2^32 times
		clear(m.of)
		m.now = 1
	}
}

// add reports whether the id was not in the set yet; it is now.
func (m *marks) add(id int) bool {
	if m.of[id] == m.now {
		return false
	}
	m.of[id] = m.now
	return true
}

// layoutRank is a layout as tensors of one rank have it.
type layoutRank struct {
	layout graph.Layout
	rank   int
}

// sizes are the estimated bytes of a value: without padding, and in the format that was asked for last.
type sizes struct {
	logical, physical int64
	format            graph.Format
}

// paddingCost is what a byte of padding costs, in nanoseconds. It is written once and read once, as a byte that is
// converted is.
const paddingCost = 0.058

// maxResolved bounds the candidates that one signature's variables expand to.
const maxResolved = 16

// ChooseFormats picks a signature for every node, of those that its candidate has, so that conversions cost little.
func (s *State) ChooseFormats(ctx context.Context) error {
	s.enter(stageFormats)
	c, err := chooseFormats(ctx, s, s.order)
	if err != nil {
		return err
	}
	c.apply()
	s.noteChosen()
	return nil
}

// noteChosen keeps what was decided: the table goes, and negotiation gives nodes other formats.
func (s *State) noteChosen() {
	s.result.chosen = make([]Chosen, 0, len(s.order))
	for _, n := range s.order {
		c := s.table.taken(n)
		if c == nil {
			continue
		}
		x := Chosen{Node: n, Signature: n.Ports, Nanoseconds: c.Cost.Nanoseconds}
		if c.Claim != nil {
			x.Property = c.Claim.Property.ID
		}
		s.result.chosen = append(s.result.chosen, x)
	}
}

func chooseFormats(ctx context.Context, s *State, order []*graph.Node) (*formatChooser, error) {
	c := &formatChooser{s: s, order: order, sigs: make([][]graph.Signature, s.g.NodeIDs()), choice: make([]int, s.g.NodeIDs()),
		sizes: make([]sizes, s.g.ValueIDs()), blocks: map[layoutRank][]graph.Block{}, loop: carriedIn(s)}
	alternatives := false
	for _, n := range order {
		if t := s.table.taken(n); t != nil {
			c.sigs[n.ID] = s.table.lists.resolve(t.Signatures)
		}
		alternatives = alternatives || len(c.sigs[n.ID]) > 1
		for _, v := range n.Outputs {
			if v != nil {
				c.estimate(v)
			}
		}
	}
	for _, v := range s.g.Inputs {
		c.estimate(v)
	}
	if !alternatives {
		return c, nil
	}
	if s.o.Isolated {
		c.isolate()
		return c, nil
	}
	c.forward()
	for sweep := 0; sweep < 8; sweep++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		changed := c.sweep(sweep%2 == 0)
		if !changed && sweep > 0 {
			break
		}
	}
	return c, nil
}

// resolve expands variables to fixed formats, best first. Where there are none, it returns the signatures themselves.
func resolve(sigs []graph.Signature) []graph.Signature {
	if !slices.ContainsFunc(sigs, func(s graph.Signature) bool { return len(s.Vars) > 0 }) {
		return sigs
	}
	var out []graph.Signature
	for _, s := range sigs {
		out = append(out, s.ResolveAll(maxResolved)...)
	}
	return out
}

// mostBytes bounds estimates.
const mostBytes = 1 << 50

func (c *formatChooser) estimate(v *graph.Value) {
	n := c.s.estimateBytes(v.Type)
	c.sizes[v.ID] = sizes{logical: n, physical: n}
}

func (s *State) estimateBytes(t graph.Type) int64 {
	if !t.IsTensor() || t.Shape == nil {
		return 4096
	}
	n := 1.0
	for _, d := range t.Shape {
		n *= float64(s.estimateDim(d))
	}
	return int64(min(n*float64(max(t.DType.Bits(), 8))/8, mostBytes))
}

// estimateDim returns a dim with Options.Sizes for its symbols, graph.AssumedSize for others, 1 where that is none.
func (s *State) estimateDim(d graph.Dim) int64 {
	if v, ok := d.Const(); ok {
		return v
	}
	if v, err := d.Estimate(s.o.Sizes); err == nil && v > 0 {
		return v
	}
	return 1
}

// blocksOf returns the blocks of a layout; none of an opaque one, nor of one for another rank.
func (c *formatChooser) blocksOf(l graph.Layout, rank int) []graph.Block {
	key := layoutRank{l, rank}
	b, ok := c.blocks[key]
	if !ok {
		if d, err := l.Describe(rank); err == nil {
			b = d.Blocks
		}
		c.blocks[key] = b
	}
	return b
}

// physical returns the estimated bytes of v in a format, padding included.
func (c *formatChooser) physical(v *graph.Value, f graph.Format) int64 {
	s := &c.sizes[v.ID]
	if f.Layout.IsRowMajor() || !v.Type.IsTensor() || v.Type.Shape == nil {
		return s.logical
	}
	if s.format == f {
		return s.physical
	}
	s.format, s.physical = f, s.logical
	for _, b := range c.blocksOf(f.Layout, len(v.Type.Shape)) {
		if n := c.s.estimateDim(v.Type.Shape[b.Dim]); n > 0 {
			blocks := (n + int64(b.Size) - 1) / int64(b.Size)
			s.physical = int64(min(float64(s.physical)*float64(blocks*int64(b.Size))/float64(n), mostBytes))
		}
	}
	return s.physical
}

// cost returns the modelled nanoseconds of converting v.
func (c *formatChooser) cost(v *graph.Value, from, to graph.Format) float64 {
	if from == to {
		return 0
	}
	if v.IsConst() || v.IsDims() {
		return 0
	}
	x := c.s.o.Registry.Cost(from, to, (c.physical(v, from)+c.physical(v, to))/2)
	if math.IsInf(x, 1) {
		return 1e18
	}
	return x
}

// format returns the format in which v is produced, given the choices.
func (c *formatChooser) format(v *graph.Value) graph.Format {
	v = c.loop.of(v)
	if p := v.Producer; p != nil {
		if s := c.sigs[p.ID]; s != nil {
			return s[c.choice[p.ID]].Outputs[v.Index].Format
		}
		return c.loop.madeIn(v)
	}
	return graph.HostFormat
}

// wanted returns the format that an operand is read in, given the choices.
func (c *formatChooser) wanted(u graph.Use) graph.Format {
	s := c.sigs[u.Node.ID]
	if s == nil {
		return c.loop.readIn(u)
	}
	if u.Slot >= len(u.Node.Inputs) {
		return graph.HostFormat
	}
	return s[c.choice[u.Node.ID]].Inputs[u.Slot].Format
}

// valueCost returns the cost of v's padding and of all its conversions.
func (c *formatChooser) valueCost(v *graph.Value) float64 {
	v = c.loop.of(v)
	from, share := c.format(v), c.loop.share(v)
	var seen [8]graph.Format
	n, sum := 0, paddingCost*float64(c.physical(v, from)-c.sizes[v.ID].logical)
	add := func(f graph.Format) {
		if f == from {
			return
		}
		for _, s := range seen[:n] {
			if s == f {
				return
			}
		}
		if n < len(seen) {
			seen[n] = f
			n++
		}
		sum += share * c.cost(v, from, f)
	}
	uses := v.Uses()
	if len(uses) > 256 { // a value with very many readers: a sample decides
		uses = uses[:256]
	}
	for _, u := range uses {
		if c.sigs[u.Node.ID] == nil {
			for _, f := range c.loop.wants(nil, u) {
				add(f)
			}
			continue
		}
		add(c.wanted(u))
	}
	for _, p := range c.loop.params[v] {
		for _, u := range p.Uses() {
			add(c.wanted(u))
		}
	}
	if c.loop.leaves(v) {
		add(graph.HostFormat)
	}
	return sum
}

// around returns the cost that depends on node n's choice.
func (c *formatChooser) around(n *graph.Node) float64 {
	sum := c.sigs[n.ID][c.choice[n.ID]].Extra
	for k, v := range n.Inputs {
		if v == nil || v.IsConst() || v.IsDims() {
			continue
		}
		again := false
		for _, w := range n.Inputs[:k] {
			again = again || w == v
		}
		if !again {
			sum += c.valueCost(v)
		}
	}
	for _, v := range n.Outputs {
		if v != nil {
			sum += c.valueCost(v)
		}
	}
	return sum
}

// forward makes the first choice: each node takes the signature with the cheapest operands.
func (c *formatChooser) forward() {
	for _, n := range c.order {
		sigs := c.sigs[n.ID]
		if len(sigs) < 2 {
			continue
		}
		best, at := math.Inf(1), 0
		for i, s := range sigs {
			cost := s.Extra
			for k, v := range n.Inputs {
				if v != nil {
					cost += c.cost(v, c.format(v), s.Inputs[k].Format)
				}
			}
			if cost < best {
				best, at = cost, i
			}
		}
		c.choice[n.ID] = at
	}
}

// sweep lets every node reconsider; it reports whether one changed.
func (c *formatChooser) sweep(backward bool) bool {
	changed := false
	for i := range c.order {
		n := c.order[i]
		if backward {
			n = c.order[len(c.order)-1-i]
		}
		if len(c.sigs[n.ID]) < 2 {
			continue
		}
		if c.improve(n) || c.improveChain(n) {
			changed = true
		}
	}
	return changed
}

func (c *formatChooser) improve(n *graph.Node) bool {
	was := c.choice[n.ID]
	best, at := c.around(n), was
	for i := range c.sigs[n.ID] {
		if i == was {
			continue
		}
		c.choice[n.ID] = i
		if x := c.around(n); x < best-1e-6 {
			best, at = x, i
		}
	}
	c.choice[n.ID] = at
	return at != was
}

// chainLimit bounds the nodes that change together.
const chainLimit = 64

// improveChain tries to move n and the layout-neutral nodes connected with it to another format of their outputs all at
// once, which single moves cannot do where each of them alone would only shift a conversion.
func (c *formatChooser) improveChain(n *graph.Node) bool {
	cur := c.sigs[n.ID][c.choice[n.ID]]
	if len(cur.Outputs) == 0 {
		return false
	}
	sigs := c.sigs[n.ID]
	for i := range sigs {
		f := sigs[i].Outputs[0].Format
		if f == cur.Outputs[0].Format || slices.ContainsFunc(sigs[:i], func(s graph.Signature) bool { return s.Outputs[0].Format == f }) {
			continue // it was tried
		}
		if c.moveChain(n, f) {
			return true
		}
	}
	return false
}

// uniformIn returns the candidate of n with every activation port in format f, -1 where there is none.
func (c *formatChooser) uniformIn(n *graph.Node, f graph.Format) int {
next:
	for i, s := range c.sigs[n.ID] {
		for _, p := range s.Outputs {
			if p.Format != f {
				continue next
			}
		}
		for k, p := range s.Inputs {
			if v := n.Inputs[k]; v != nil && !v.IsConst() && !v.IsDims() && p.Format != f {
				continue next
			}
		}
		return i
	}
	return -1
}

func (c *formatChooser) moveChain(start *graph.Node, f graph.Format) bool {
	if c.uniformIn(start, f) < 0 {
		return false
	}
	chain := append(c.chain[:0], start)
	c.inChain.clear(len(c.sigs))
	c.inChain.add(start.ID)
	visit := func(m *graph.Node) {
		if m == nil || len(chain) >= chainLimit || len(c.sigs[m.ID]) < 2 {
			return
		}
		if i := c.uniformIn(m, f); i >= 0 && i != c.choice[m.ID] && c.inChain.add(m.ID) {
			chain = append(chain, m)
		}
	}
	defer func() { c.chain = chain }()
	for i := 0; i < len(chain); i++ {
		for _, v := range chain[i].Inputs {
			if v != nil {
				visit(v.Producer)
			}
		}
		for _, v := range chain[i].Outputs {
			if v != nil && v.NumUses() <= chainLimit {
				for _, u := range v.Uses() {
					visit(u.Node)
				}
			}
		}
	}
	if len(chain) < 2 {
		return false
	}
	before := c.chainCost(chain)
	var old [chainLimit]int
	for i, m := range chain {
		old[i] = c.choice[m.ID]
		c.choice[m.ID] = c.uniformIn(m, f)
	}
	if c.chainCost(chain) < before-1e-6 {
		return true
	}
	for i, m := range chain {
		c.choice[m.ID] = old[i]
	}
	return false
}

func (c *formatChooser) chainCost(chain []*graph.Node) float64 {
	c.seen.clear(len(c.sizes))
	sum := 0.0
	for _, m := range chain {
		sum += c.sigs[m.ID][c.choice[m.ID]].Extra
		for _, vs := range [][]*graph.Value{m.Inputs, m.Outputs} {
			for _, v := range vs {
				if v != nil && !v.IsConst() && !v.IsDims() && c.seen.add(v.ID) {
					sum += c.valueCost(v)
				}
			}
		}
	}
	return sum
}

// apply writes the choices into the graph: signatures on nodes, formats on values.
func (c *formatChooser) apply() {
	for _, n := range c.order {
		s := c.sigs[n.ID]
		if s == nil {
			continue
		}
		sig := &s[c.choice[n.ID]]
		if len(s) > 1 && !c.s.table.lists.keeps(s) { // the others are not kept alive
			one := *sig
			sig = &one
		}
		n.SigName, n.Ports = sig.Name, sig
		for i, v := range n.Outputs {
			if v != nil {
				v.Format = sig.Outputs[i].Format
			}
		}
	}
}
