package partition

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition/internal/choose"
)

// placing is one choice by cost: the candidates as a problem of package choose. Its variables are the nodes that backends run, in
// topological order, and its states are formats.
type placing struct {
	t        *Candidates
	s        *State
	launches []float64
	times    Times // nil for none
	hopTimes map[hopOf]float64

	offers  []offer
	nodes   []*graph.Node   // by variable
	number  []int32         // variable by node id, -1 for the host scheduler's
	alts    [][]alternative // by variable: those of backends by name, sets before single nodes
	offered [][]int         // by variable: the backends that would run it by itself, or in a set
	sets    []set
	least   []float64 // by variable: what its node takes by itself, by those who say

	problem choose.Problem
	formats []graph.Format
	state   map[graph.Format]int32
	chooser *formatChooser // knows sizes
	loop    carried
	values  []*graph.Value // by value of the problem
	classes map[class]int32
	class   []int32              // by value
	ways    []way                // by class, from and to
	asked   []*convert.Converter // hops of ways, by number
	costs   [][]int64            // by value and hop: what it costs, less than 0 for what nobody has asked for yet
	unit    float64              // of the problem's costs in a nanosecond
	low     int                  // bits for ties
}

// offer is a candidate, as it was when it was offered.
type offer struct {
	c       *Candidate
	sigs    []graph.Signature // without variables, no two alike
	times   []float64         // measured, by signature, 0 where not; nil for none
	inputs  map[graph.Use]int // of a set: port by reading node and slot
	outputs map[result]int    // of a set: port by producing node and place
}

// result is a result of a node.
type result struct {
	n  *graph.Node
	at int
}

// set is a candidate that is a set of nodes, with one of its signatures.
type set struct {
	offer *offer
	vars  []int32 // in their order
}

// alternative is what a variable may be.
type alternative struct {
	c   *Candidate
	o   *offer
	sig graph.Signature
	ns  float64 // measured, 0 where not
	set int32   // -1 for a single node
}

// class is what kind of tensor a value is, as far as converters care.
type class struct {
	dtype uint8
	rank  int
}

// way is the conversion from one format to another.
type way struct {
	known, ok bool
	hops      []int32 // their numbers
	ids       []int32
}

// offer notes a candidate.
func (b *placing) offer(c *Candidate) {
	o := offer{c: c}
	if c.Claim != nil {
		o.inputs, o.outputs = map[graph.Use]int{}, map[result]int{}
		body := c.Node.Regions[0].Graph
		for k, v := range body.Inputs {
			for _, u := range v.Uses() {
				o.inputs[u] = k
			}
		}
		for k, v := range body.Outputs {
			if v.Producer != nil {
				o.outputs[result{v.Producer, v.Index}] = k
			}
		}
	}
	b.lookUp(&o, resolve(c.Signatures))
	b.offers = append(b.offers, o)
}

// sameAtRun reports whether two signatures of a node, without variables, read and write the same formats at run time: those of constants,
// which are packed once, do not count.
func sameAtRun(n *graph.Node, a, b *graph.Signature) bool {
	for k, v := range n.Inputs {
		if v != nil && !v.IsConst() && !v.IsDims() && a.Inputs[k].Format != b.Inputs[k].Format {
			return false
		}
	}
	for k := range n.Outputs {
		if a.Outputs[k].Format != b.Outputs[k].Format {
			return false
		}
	}
	return true
}

// distinct returns the signatures that differ in what they read and write at run time, the cheapest of those that do not.
func distinct(n *graph.Node, sigs []graph.Signature) []graph.Signature {
	var out []graph.Signature
next:
	for i := range sigs {
		for k := range out {
			if sameAtRun(n, &out[k], &sigs[i]) {
				if sigs[i].Extra < out[k].Extra {
					out[k] = sigs[i]
				}
				continue next
			}
		}
		out = append(out, sigs[i])
	}
	return out
}

// variables makes the variables of what was offered. It reports false where a node has no alternative.
func (b *placing) variables() (bool, error) {
	order, err := b.s.g.Topo()
	if err != nil {
		return false, err
	}
	b.number = make([]int32, b.s.g.NodeIDs())
	for i := range b.number {
		b.number[i] = -1
	}
	for _, n := range order {
		if b.t.Free(n) {
			b.number[n.ID] = int32(len(b.nodes))
			b.nodes = append(b.nodes, n)
		}
	}
	b.alts, b.offered = make([][]alternative, len(b.nodes)), make([][]int, len(b.nodes))
	slices.SortStableFunc(b.offers, func(x, y offer) int {
		return cmp.Or(cmp.Compare(b.s.names[x.c.Backend], b.s.names[y.c.Backend]), -cmp.Compare(len(x.inputs), len(y.inputs)))
	})
	for i := range b.offers {
		b.alternatives(&b.offers[i])
	}
	for v := range b.alts {
		if len(b.alts[v]) == 0 {
			return false, nil
		}
	}
	b.leastTimes()
	return true, nil
}

// alternatives adds those of an offer.
func (b *placing) alternatives(o *offer) {
	var vars []int32
	for _, n := range o.c.Nodes() {
		if n.Graph() != b.s.g || n.ID >= len(b.number) || b.number[n.ID] < 0 {
			return // a property has changed it since
		}
		vars = append(vars, b.number[n.ID])
	}
	slices.Sort(vars)
	for _, v := range vars {
		if !slices.Contains(b.offered[v], o.c.Backend) {
			b.offered[v] = append(b.offered[v], o.c.Backend)
		}
	}
	for k := range o.sigs {
		id := int32(-1)
		if o.c.Claim != nil {
			id = int32(len(b.sets))
			b.sets = append(b.sets, set{o, vars})
		}
		ns := 0.0
		if o.times != nil {
			ns = o.times[k]
		}
		for _, v := range vars {
			b.alts[v] = append(b.alts[v], alternative{c: o.c, o: o, sig: o.sigs[k], ns: ns, set: id})
		}
	}
}

// pose makes the problem. ties says that its lowest bits prefer earlier backends.
func (b *placing) pose(ctx context.Context, ties bool) error {
	b.problem = choose.Problem{Vars: make([]choose.Var, len(b.nodes)), Hops: b.hops}
	b.chooser = &formatChooser{s: b.s, sizes: make([]sizes, b.s.g.ValueIDs()), blocks: map[layoutRank][]graph.Block{}}
	b.loop = carriedIn(b.s)
	b.state, b.formats, b.values = map[graph.Format]int32{}, nil, nil
	b.classes, b.class, b.ways, b.asked, b.costs = map[class]int32{}, nil, nil, nil, nil
	b.enter(graph.HostFormat)
	for v := range b.alts { // all formats have numbers before ways are kept by them
		for k := range b.alts[v] {
			for _, ports := range [][]graph.Port{b.alts[v][k].sig.Inputs, b.alts[v][k].sig.Outputs} {
				for _, p := range ports {
					b.enter(p.Format)
				}
			}
		}
	}
	b.enterControl()
	for _, vs := range [][]*graph.Value{b.s.g.Inputs, b.s.g.Captures} {
		for _, v := range vs {
			b.chooser.estimate(v)
		}
	}
	for n := range b.s.g.Nodes() {
		for _, v := range n.Outputs {
			if v != nil {
				b.chooser.estimate(v)
			}
		}
	}
	b.scale(ties)
	for i := range b.t.Backends() {
		ns := 0.0
		if i < len(b.launches) {
			ns = b.launches[i]
		}
		b.problem.Launch = append(b.problem.Launch, b.cost(ns))
	}
	for v := range b.nodes {
		if v%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		b.variable(int32(v), ties)
	}
	for _, vs := range [][]*graph.Value{b.s.g.Inputs, b.s.g.Captures} {
		for _, v := range vs {
			b.value(v)
		}
	}
	for n := range b.s.g.Nodes() {
		for _, v := range n.Outputs {
			if v != nil {
				b.value(v)
			}
		}
	}
	return nil
}

// enter gives a format a number.
func (b *placing) enter(f graph.Format) {
	if _, ok := b.state[f]; !ok {
		b.state[f] = int32(len(b.formats))
		b.formats = append(b.formats, f)
	}
}

// enterControl enters the formats in which control flow takes and makes values.
func (b *placing) enterControl() {
	for n := range b.s.g.Nodes() {
		if b.number[n.ID] >= 0 || !n.IsControl() {
			continue
		}
		for k := range n.NumOperands() {
			for _, f := range b.loop.wants(nil, graph.Use{Node: n, Slot: k}) {
				b.enter(f)
			}
		}
		for _, v := range n.Outputs {
			if v != nil {
				b.enter(b.loop.madeIn(v))
			}
		}
	}
}

// scale chooses the unit of costs, a power of two of nanoseconds: the largest sum of costs stays below 1<<56, and a unit is no
// less than 1/256 ns.
func (b *placing) scale(ties bool) {
	total := 1.0
	for v := range b.alts {
		most := 0.0
		for k := range b.alts[v] {
			most = max(most, b.time(int32(v), &b.alts[v][k]))
		}
		total += most + 1e5
		for _, r := range b.nodes[v].Outputs {
			if r != nil {
				total += 4 * float64(b.chooser.sizes[r.ID].logical)
			}
		}
	}
	b.low = 0
	if ties {
		b.low = bits.Len(uint(len(b.nodes)*b.t.Backends() + 1))
	}
	b.unit = math.Exp2(min(8, math.Floor(56-float64(b.low)-math.Log2(total))))
}

// cost returns nanoseconds as a cost of the problem.
func (b *placing) cost(ns float64) int64 {
	if !(ns < 1e18/b.unit) {
		return choose.Hard
	}
	return min(int64(math.Round(max(ns, 0)*b.unit))<<b.low, choose.Hard)
}

// nanoseconds returns what a cost of the problem stands for.
func (b *placing) nanoseconds(cost int64) float64 {
	if cost >= choose.Hard {
		return math.Inf(1)
	}
	return float64(cost>>b.low) / b.unit
}

// leastTimes finds what nodes take at least by themselves: where no backend says, what it takes the host to copy their operands
// and results.
func (b *placing) leastTimes() {
	b.least = make([]float64, len(b.nodes))
	for v, n := range b.nodes {
		least := math.Inf(1)
		for k := range b.alts[v] {
			if a := &b.alts[v][k]; a.set < 0 && a.c.Cost.Nanoseconds > 0 {
				least = min(least, a.c.Cost.Nanoseconds)
			}
		}
		if math.IsInf(least, 1) {
			bytes := int64(0)
			for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
				for _, r := range vs {
					if r != nil {
						bytes += b.s.estimateBytes(r.Type)
					}
				}
			}
			least = convert.HostCost.Of(bytes)
		}
		b.least[v] = least
	}
}

// variable makes the variable of a node. The time of a set is that of its first node's.
func (b *placing) variable(v int32, ties bool) {
	n := b.nodes[v]
	x := choose.Var{Joins: choose.None, Alts: make([]choose.Alt, len(b.alts[v]))}
	for k := range b.alts[v] {
		a := &b.alts[v][k]
		ns := 0.0
		if a.set < 0 || b.sets[a.set].vars[0] == v {
			ns = b.time(v, a)
		}
		for i, r := range n.Outputs {
			if r == nil {
				continue
			}
			if f, ok := a.makes(n, i); ok {
				ns += paddingCost * float64(b.chooser.physical(r, f)-b.chooser.sizes[r.ID].logical)
				ns += b.back(a, r, f)
			}
		}
		c := b.cost(ns)
		if ties {
			c += int64(a.c.Backend)
		}
		x.Alts[k] = choose.Alt{Cost: c, Color: int32(a.c.Backend), Claim: a.set}
	}
	b.problem.Vars[v] = x
}

// back returns what it takes to convert result r of a node, made in format f, for the node itself, which reads it in the next
// iteration of a loop.
func (b *placing) back(a *alternative, r *graph.Value, f graph.Format) float64 {
	ns := 0.0
	for _, p := range b.loop.params[r] {
		for _, u := range p.Uses() {
			if u.Node != r.Producer {
				continue
			}
			if to, ok := a.reads(u); ok {
				ns += b.chooser.cost(r, f, to)
			}
		}
	}
	return ns
}

// makes returns the format in which an alternative makes a result of node n; false where it stays within a set.
func (a *alternative) makes(n *graph.Node, at int) (graph.Format, bool) {
	if a.set >= 0 {
		k, ok := a.o.outputs[result{n, at}]
		if !ok {
			return graph.Format{}, false
		}
		at = k
	}
	return a.sig.Outputs[at].Format, true
}

// reads returns the format in which an alternative reads an operand; false where that stays within a set.
func (a *alternative) reads(u graph.Use) (graph.Format, bool) {
	at := u.Slot
	if a.set >= 0 {
		k, ok := a.o.inputs[u]
		if !ok {
			return graph.Format{}, false
		}
		at = k
	}
	if at >= len(a.sig.Inputs) {
		return graph.HostFormat, true
	}
	return a.sig.Inputs[at].Format, true
}

// value adds a value that is made and read at run time.
func (b *placing) value(v *graph.Value) {
	if v.IsConst() || v.IsDims() || v.NumUses() == 0 && !v.IsOutput() || b.loop.made[v] != nil {
		return
	}
	x := choose.Value{Maker: choose.None, Made: []int32{0}}
	if p := v.Producer; p != nil && b.number[p.ID] >= 0 {
		x.Maker = b.number[p.ID]
		x.Made = make([]int32, len(b.alts[x.Maker]))
		for k := range x.Made {
			x.Made[k] = choose.None
			if f, ok := b.alts[x.Maker][k].makes(p, v.Index); ok {
				x.Made[k] = b.state[f]
			}
		}
	} else if p != nil {
		x.Made[0] = b.state[b.loop.madeIn(v)]
	}
	if b.loop.leaves(v) {
		x.Fixed = []int32{0}
	}
	id := int32(len(b.problem.Values))
	b.values = append(b.values, v)
	uses := v.Uses()
	for _, p := range b.loop.params[v] {
		uses = append(uses[:len(uses):len(uses)], p.Uses()...)
	}
	for k, u := range uses {
		w := b.number[u.Node.ID]
		if w < 0 { // the host scheduler's
			for _, f := range b.loop.wants(nil, u) {
				if s := b.state[f]; !slices.Contains(x.Fixed, s) {
					x.Fixed = append(x.Fixed, s)
				}
			}
			continue
		}
		if w == x.Maker { // in the next iteration of a loop: see back
			continue
		}
		use := choose.Use{Var: w, Wants: make([]int32, len(b.alts[w]))}
		for k := range use.Wants {
			use.Wants[k] = choose.None
			if f, ok := b.alts[w][k].reads(u); ok {
				use.Wants[k] = b.state[f]
			}
		}
		x.Uses = append(x.Uses, use)
		if j := b.problem.Vars[w].Joins; x.Maker >= 0 && k < v.NumUses() && (j < 0 || b.first(u, j)) {
			b.problem.Vars[w].Joins = id
		}
	}
	slices.SortStableFunc(x.Uses, func(a, c choose.Use) int { return cmp.Compare(a.Var, c.Var) })
	kind := class{uint8(v.Type.DType), -1}
	if v.Type.Shape.Known() {
		kind.rank = len(v.Type.Shape)
	}
	if _, ok := b.classes[kind]; !ok {
		b.classes[kind] = int32(len(b.classes))
		b.ways = append(b.ways, make([]way, len(b.formats)*len(b.formats))...)
	}
	b.class, b.costs = append(b.class, b.classes[kind]), append(b.costs, nil)
	b.problem.Values = append(b.problem.Values, x)
}

// first reports whether a use stands before the operand that a node joins so far.
func (b *placing) first(u graph.Use, joins int32) bool {
	return u.Slot < slices.Index(u.Node.Inputs, b.values[joins])
}

// hops is the problem's Hops.
func (b *placing) hops(list []choose.Hop, value int, from, to int32) ([]choose.Hop, bool) {
	if from < 0 || to < 0 {
		return list, false
	}
	v, n := b.values[value], int32(len(b.formats))
	w := &b.ways[(b.class[value]*n+from)*n+to]
	if !w.known {
		b.find(w, v, b.formats[from], b.formats[to])
	}
	for k, hop := range w.hops {
		list = append(list, choose.Hop{ID: w.ids[k], Cost: b.hopCost(value, hop)})
	}
	return list, w.ok
}

// hopCost returns the cost of a hop, which is found once for each value.
func (b *placing) hopCost(value int, hop int32) int64 {
	list := b.costs[value]
	for len(list) <= int(hop) {
		if cap(list) == 0 {
			list = make([]int64, 0, len(b.asked))
		}
		list = append(list, -1)
	}
	b.costs[value] = list
	if list[hop] < 0 {
		v := b.values[value]
		list[hop] = b.cost(b.loop.share(v) * b.hopTime(v, b.asked[hop]))
	}
	return list[hop]
}

// find looks for the way that a value like v takes from one format to another.
func (b *placing) find(w *way, v *graph.Value, from, to graph.Format) {
	w.known = true
	rank := -1
	if v.Type.Shape.Known() {
		rank = len(v.Type.Shape)
	}
	hops, err := b.s.o.Registry.PathOf(from, to, v.Type.DType, rank)
	if err != nil {
		return
	}
	w.ok = true
	for _, c := range hops {
		at := slices.Index(b.asked, c)
		if at < 0 {
			at = len(b.asked)
			b.asked = append(b.asked, c)
		}
		w.hops, w.ids = append(w.hops, int32(at)), append(w.ids, b.hop(c))
	}
}

// hop returns the id of a hop: of its two formats, of which those that are only stops on a way have numbers behind the others.
func (b *placing) hop(c *convert.Converter) int32 {
	at := func(f graph.Format) int32 {
		i, ok := b.state[f]
		if !ok {
			i = int32(len(b.state))
			b.state[f] = i
		}
		return i
	}
	return at(c.From)<<16 | at(c.To)
}
