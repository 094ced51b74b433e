package exec

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// What a Loop or Scan carries from one iteration to the next has two buffers in the plan where its shape and format stay the
// same: the body writes one while it reads the other, and one of the two is the node's result. What it stacks is written to
// its place in the whole. Values that change their shape are handed on: see loosecarry.go.

// loopSpec says how step i of a Spec, a Loop or Scan, is run: where lies what goes into its body and comes out.
type loopSpec struct {
	scan    bool
	cond    int // slot of the body that says whether a Loop goes on, -1 for a Scan
	counted bool
	carried []carrySpec
	slices  []sliceSpec
	stacked []stackSpec
	homes   []home
	pools   [][]int // of carried values that share buffers: their numbers
	// scratch are buffers of the step, behind the arenas of its regions.
	scratch []scratch
}

// carrySpec is a value that is carried from iteration to iteration.
type carrySpec struct {
	operand int // of the step: its first value
	param   int // slot of the body
	result  int // slot of the body
	out     int // slot of the step's result, -1 for none
	fixed   bool
	from    source
	other   int // of kept ones: the carried value that becomes this one
	pool    int // where its buffers are, -1 for none
	buffers [2]int
}

// source says what a body's result is, for the next iteration.
type source uint8

const (
	made   source = iota // it is written to where it stays
	kept                 // a carried value, which stays where it is
	still                // it lies elsewhere for as long as the loop runs
	copied               // it is copied to where it stays
)

// sliceSpec is an input of a Scan that is read slice by slice.
type sliceSpec struct {
	operand, param int
	axis           int
	back           bool
	stage          int // index into scratch, -1 where slices are read in place
}

// stackSpec is what a body gives slice by slice.
type stackSpec struct {
	result int // slot of the body
	out    int // slot of the step's result, -1 for none
	axis   int
	back   bool
	fixed  bool  // of one shape in all iterations
	dims   []int // of a slice
	whole  bool  // slices are contiguous in the result
}

// home is where a result of the body is written, which has no place in the body's own plan.
type home struct {
	slot  int
	stack int // whose slice it is, -1 for none
	pool  int // of carried values, -1 for none
	stage int // index into scratch, for what has no other place at times; -1 for none

	carried bool // to the next iteration, which reads it there
}

// scratch is a buffer of a step of the host scheduler's.
type scratch struct {
	slot  int // of the body, whose values it takes
	bytes int64
	dims  []int
}

// loopPorts are the numbers of a Loop's or Scan's ports.
type loopPorts struct{ operands, params, results, carried, scans int }

// portsOfLoop returns what of a step is carried and what is scanned; ok is false where it is no Loop or Scan that is run so.
func portsOfLoop(st *Step) (p loopPorts, ok bool) {
	n := st.Node
	switch {
	case n.Is("Loop"):
		return loopPorts{operands: 2, params: 2, results: 1, carried: max(0, len(n.Inputs)-2)}, true
	case n.Is("Scan") && n.Op.Since >= 9:
		scans := int(n.Int("num_scan_inputs", 0))
		if scans < 1 || scans > len(n.Inputs) {
			return p, false
		}
		return loopPorts{carried: len(n.Inputs) - scans, scans: scans}, true
	}
	return p, false
}

// planLoop finds out how step i is run, once its body is specialised.
func (m *Machine) planLoop(s *Spec, i int) (*loopSpec, error) {
	st := &s.block.Steps[i]
	p, ok := portsOfLoop(st)
	if !ok {
		return nil, nil
	}
	inner := s.inner[i][0]
	b := inner.block
	if len(b.Inputs) != p.params+p.carried+p.scans || len(b.Outputs) < p.results+p.carried {
		return nil, nil // the run says what is wrong
	}
	l := &loopSpec{scan: p.results == 0, cond: -1}
	if !l.scan {
		l.cond = b.Outputs[0]
		l.counted = b.Outputs[0] == b.Inputs[1] || b.always(b.Outputs[0])
	}
	for k := range p.carried {
		c := carrySpec{operand: p.operands + k, param: b.Inputs[p.params+k], result: b.Outputs[p.results+k], out: st.result(k), pool: -1, buffers: [2]int{-1, -1}}
		c.fixed = inner.alike(c.param, c.result)
		l.carried = append(l.carried, c)
	}
	attrs := scanAttrs(st.Node)
	for k := range p.scans {
		c := sliceSpec{operand: p.carried + k, param: b.Inputs[p.carried+k], axis: at(attrs.inAxes, k), back: at(attrs.inDirs, k) != 0, stage: -1}
		l.slices = append(l.slices, c)
	}
	for k := range len(b.Outputs) - p.results - p.carried {
		c := stackSpec{result: b.Outputs[p.results+p.carried+k], out: st.result(p.carried + k)}
		if l.scan {
			c.axis, c.back = at(attrs.outAxes, k), at(attrs.outDirs, k) != 0
		}
		inner.planStack(&c)
		l.stacked = append(l.stacked, c)
	}
	if err := l.findSources(m, s, inner); err != nil {
		return nil, err
	}
	return l, l.stageSlices(m, s, i, inner)
}

// result returns the slot of result k of a step, -1 for none.
func (st *Step) result(k int) int {
	if k < len(st.out) {
		return st.out[k]
	}
	return -1
}

// always reports whether a slot is a constant that is true.
func (b *Block) always(slot int) bool {
	v := b.Slots[slot].Value
	if b.Slots[slot].Kind != SlotConst {
		return false
	}
	ok, err := truth(v.Const)
	return err == nil && ok
}

// settled reports whether a slot holds a tensor of known shape that lies in memory that can be planned.
func (s *Spec) settled(slot int) bool {
	sl := &s.block.Slots[slot]
	t := &sl.Value.Type
	return s.dims[slot] != nil && sl.Kind != SlotDynamic && t.IsTensor() && t.DType.Valid() && t.DType != tensor.String
}

// alike reports whether two slots hold tensors of one shape, dtype and format.
func (s *Spec) alike(a, b int) bool {
	x, y := s.block.Slots[a].Value, s.block.Slots[b].Value
	return s.settled(a) && s.settled(b) && x.Type.DType == y.Type.DType && sameFormat(x.Format, y.Format) && slices.Equal(s.dims[a], s.dims[b])
}

func sameFormat(a, b graph.Format) bool {
	a.Device, b.Device = a.Device.Canonical(), b.Device.Canonical()
	return a == b
}

// planStack finds out how slices of the body's result lie in the whole.
func (s *Spec) planStack(c *stackSpec) {
	if !s.settled(c.result) || s.block.Slots[c.result].Value.Format != graph.HostFormat || s.block.Slots[c.result].Value.Type.DType.Size() == 0 {
		return
	}
	c.dims = s.dims[c.result]
	if c.axis < 0 {
		c.axis += len(c.dims) + 1
	}
	if c.axis < 0 || c.axis > len(c.dims) {
		return // the run says what is wrong
	}
	c.fixed, c.whole = true, product(c.dims[:c.axis]) == 1
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// findSources says where each result of the body goes, and gives carried values buffers.
func (l *loopSpec) findSources(m *Machine, s *Spec, inner *Spec) error {
	b := inner.block
	pools := newUnion(len(l.carried))
	homes := map[int]int{} // by slot of the body
	homeOf := func(slot int) *home {
		k, ok := homes[slot]
		if !ok {
			k = len(l.homes)
			homes[slot] = k
			l.homes = append(l.homes, home{slot: slot, stack: -1, pool: -1, stage: -1})
		}
		return &l.homes[k]
	}
	for k := range l.stacked {
		c := &l.stacked[k]
		if b.Slots[c.result].direct < 0 {
			continue
		}
		if h := homeOf(c.result); c.fixed && c.whole && c.out >= 0 && h.stack < 0 {
			h.stack = k
		}
	}
	needs := make([]bool, len(l.carried)) // buffers
	for k := range l.carried {
		c := &l.carried[k]
		sl := &b.Slots[c.result]
		if !c.fixed {
			if sl.direct >= 0 {
				homeOf(c.result)
			}
			continue
		}
		c.from = still
		switch {
		case sl.direct >= 0:
			c.from = made
			h := homeOf(c.result)
			if h.carried = true; h.pool < 0 {
				h.pool = k
			}
			pools.join(k, h.pool)
			needs[k] = h.stack < 0 || inner.strictest(c.result) > 1 || inner.strictest(c.param) > 1 // else it stays in the whole
		case sl.Kind == SlotInput && slices.Contains(b.Inputs, c.result):
			c.from = copied
			j := slices.IndexFunc(l.carried, func(o carrySpec) bool { return o.param == c.result })
			if j >= 0 && l.carried[j].fixed {
				c.from, c.other = kept, j
			}
			if needs[k] = j != k; needs[k] && j >= 0 {
				pools.join(k, j)
			}
		}
	}
	for k := range l.carried { // what moves from a place with buffers to one without goes back there some time
		needs[k] = needs[k] || l.carried[k].fixed && l.carried[k].from == kept && needs[l.carried[k].other]
	}
	return l.makePools(m, s, inner, pools, needs)
}

// makePools gives the carried values that need them buffers.
func (l *loopSpec) makePools(m *Machine, s, inner *Spec, pools union, needs []bool) error {
	index, members := map[int]int{}, map[int]int{}
	for k := range l.carried {
		if needs[k] {
			members[pools.find(k)]++
		}
	}
	for k := range l.carried {
		if !needs[k] {
			continue
		}
		root := pools.find(k)
		if _, ok := index[root]; !ok {
			index[root] = len(l.pools)
			l.pools = append(l.pools, nil)
		}
		c := &l.carried[k]
		c.pool = index[root]
		l.pools[c.pool] = append(l.pools[c.pool], k)
		count := 1
		if c.out < 0 || s.block.Slots[c.out].Kind != SlotPlanned || s.block.Slots[c.out].direct >= 0 || members[root] > 1 {
			count = 2 // the result may lie where the body cannot write it, or where it would write another value
		}
		for i := range count {
			at, err := l.addScratch(m, inner, c.param)
			if err != nil {
				return err
			}
			c.buffers[i] = at
		}
	}
	for i := range l.homes {
		h := &l.homes[i]
		if h.pool >= 0 {
			h.pool = l.carried[h.pool].pool
		}
		if h.pool >= 0 || h.stack >= 0 && inner.strictest(h.slot) <= 1 || !inner.settled(h.slot) {
			continue
		}
		at, err := l.addScratch(m, inner, h.slot)
		if err != nil {
			return err
		}
		h.stage = at
	}
	return nil
}

// addScratch plans a buffer for values of a slot of the body.
func (l *loopSpec) addScratch(m *Machine, inner *Spec, slot int) (int, error) {
	v := inner.block.Slots[slot].Value
	n, err := m.env.Transfer.Registry.Size(v.Format, v.Type.DType, inner.dims[slot])
	if err == nil {
		err = m.fits(v.Format.Device, n)
	}
	if err != nil {
		return 0, valueError(v, err)
	}
	l.scratch = append(l.scratch, scratch{slot: slot, bytes: n, dims: inner.dims[slot]})
	return len(l.scratch) - 1, nil
}

// stageSlices plans room for slices that are not read in place.
func (l *loopSpec) stageSlices(m *Machine, s *Spec, i int, inner *Spec) error {
	for k := range l.slices {
		c := &l.slices[k]
		whole := s.dims[s.block.Steps[i].in[c.operand]]
		if !inner.settled(c.param) || whole == nil {
			continue
		}
		axis := c.axis
		if axis < 0 {
			axis += len(whole)
		}
		if axis < 0 || axis >= len(whole) || product(whole[:axis]) == 1 && inner.strictest(c.param) <= 1 {
			continue
		}
		var err error
		if c.stage, err = l.addScratch(m, inner, c.param); err != nil {
			return err
		}
	}
	return nil
}

// strictest returns the largest alignment that somebody asks for who reads a slot, or makes it.
func (s *Spec) strictest(slot int) int64 {
	var most int64
	for i := range s.block.Steps {
		st := &s.block.Steps[i]
		if st.Kind != StepGroup || s.inst[i] == nil {
			continue
		}
		for _, result := range []bool{false, true} {
			list, ports := st.in, s.reqs[i].Inputs
			if result {
				list, ports = st.out, s.reqs[i].Outputs
			}
			for k, x := range list {
				if x != slot {
					continue
				}
				if k < len(ports) {
					most = max(most, min(ports[k].Align, tensor.Alignment))
				}
				if st.state.refused(result, k) {
					most = tensor.Alignment
				}
			}
		}
	}
	return most
}

// union is a union-find of small numbers.
type union []int

func newUnion(n int) union {
	u := make(union, n)
	for i := range u {
		u[i] = i
	}
	return u
}

func (u union) find(i int) int {
	for u[i] != i {
		i = u[i]
	}
	return i
}

func (u union) join(a, b int) {
	a, b = u.find(a), u.find(b)
	u[max(a, b)] = min(a, b)
}
