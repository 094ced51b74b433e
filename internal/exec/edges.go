package exec

import (
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Inputs and outputs of a run that are no plain tensors of the host are bound to the values of the block that have their
// format: a Convert from the host's row-major format to a device's has one, as its result, where the caller's tensor is on that
// device already, and need not run then. Readers that can take the caller's storage as it lies get it; for the others it is
// copied, to where the value lies in the plan, by the Convert that would have made the value. Results are written to the
// caller's storage by whoever makes them in its format, if it can write there, and copied otherwise.

// edges is how the operands of a run are bound. It is reused from run to run.
type edges struct {
	f       *frame
	on      bool       // in this run; otherwise all operands are plain
	in, out []*given   // per input and output of the block; nil for plain ones
	at      []*given   // per slot: the caller's storage that stands for the slot's own
	reads   [][]*given // per step and operand: the input that it reads as it lies
	need    []bool     // per slot: somebody reads its own storage
	fill    []fill     // per step, of conversions
	made    []int      // per slot: the step that makes it, -1 for none
	// Host memory, kept from run to run: compact copies of inputs, and outputs that are copied later.
	stages, outStages []*tensor.Tensor
}

// given is an operand of the caller's in a run.
type given struct {
	Operand
	name   string
	tensor tensor.Tensor // what groups get
	output bool
	slot   int    // of the block's input or output
	at     int    // the slot that it stands for, -1 for none
	staged bool   // of inputs: the own storage of slot is filled
	over   bool   // the host has waited for Ready
	told   []bool // per lane: it waits for Ready
	after  bool   // of outputs: copied from slot when the run is over
	apart  bool   // of outputs: it overlaps an input that has to stay as it is until the end
	last   int    // of outputs: the conversion that reads slot at on the way to the output, -1 for none
}

// fill says what a conversion does in a run.
type fill struct {
	skip bool   // nobody needs its result
	src  *given // the input that it reads as it lies
	from *given // the input that its result is made of, in its place
	to   *given // the output that its operand is copied to
}

// edge returns the frame's edges, with nothing bound.
func (f *frame) edge() *edges {
	e, b := f.edges, f.s.block
	if e == nil {
		e = &edges{f: f,
			in: make([]*given, len(b.Inputs)), out: make([]*given, len(b.Outputs)),
			at: make([]*given, len(b.Slots)), need: make([]bool, len(b.Slots)), fill: make([]fill, len(b.Steps)), reads: make([][]*given, len(b.Steps)), made: make([]int, len(b.Slots)),
			stages: make([]*tensor.Tensor, len(b.Inputs)), outStages: make([]*tensor.Tensor, len(b.Outputs))}
		for s := range e.made {
			e.made[s] = -1
		}
		for i := range b.Steps {
			for _, s := range b.Steps[i].out {
				if s >= 0 {
					e.made[s] = i
				}
			}
		}
		f.edges = e
	}
	if !e.on {
		clear(e.in)
		clear(e.out)
		e.unbind()
		e.on = true
	}
	return e
}

// unbind forgets what bind has found.
func (e *edges) unbind() {
	clear(e.at)
	clear(e.need)
	clear(e.fill)
	for _, list := range e.reads {
		clear(list)
	}
}

// add notes an operand that is not plain.
func (e *edges) add(o *Operand, name string, slot int, output bool) *given {
	g := &given{Operand: *o, name: name, tensor: *o.Tensor, output: output, slot: slot, at: -1, last: -1}
	g.tensor.Device = g.tensor.Device.Canonical()
	if g.IsCompact() {
		g.tensor.Strides = nil
	}
	return g
}

// bind finds what stands for what, before each attempt of a run: a group that fell back since then takes less.
func (e *edges) bind() error {
	e.release()
	e.unbind()
	b := e.f.s.block
	for i, slot := range b.Inputs {
		if g := e.in[i]; g != nil {
			g.at, g.staged, g.over, g.told = -1, false, false, make([]bool, len(b.lanes))
			e.bindInput(g, slot)
		}
	}
	for j := range b.Outputs {
		if g := e.out[j]; g != nil {
			g.at, g.last, g.after, g.over, g.told = -1, -1, false, false, make([]bool, len(b.lanes))
			e.bindOutput(g)
		}
	}
	e.findReads()
	e.findNeeds()
	e.findFills()
	return e.point()
}

// conversion reports whether step i is a conversion of known shape.
func (e *edges) conversion(i int) bool {
	return i >= 0 && e.f.s.block.Steps[i].Kind == StepConvert && e.f.s.moves[i] != nil
}

// format returns that of a slot.
func (e *edges) format(slot int) graph.Format {
	f := e.f.s.block.Slots[slot].Value.Format
	f.Device = f.Device.Canonical()
	return f
}

// bindInput looks for the value in an input's format: the input itself, or what conversions make of it.
func (e *edges) bindInput(g *given, slot int) {
	if e.format(slot) == g.format() {
		e.at[slot], g.at = g, slot
		return
	}
	from := []int{slot}
	for i := range e.f.s.block.Steps {
		st := &e.f.s.block.Steps[i]
		if !e.conversion(i) || !slices.Contains(from, st.in[0]) {
			continue
		}
		if out := st.out[0]; e.format(out) == g.format() {
			e.at[out], g.at = g, out
			return
		}
		from = append(from, st.out[0])
	}
}

// bindOutput looks for the value in an output's format, against the direction of conversions.
func (e *edges) bindOutput(g *given) {
	b := e.f.s.block
	if g.apart {
		g.after = true
		return
	}
	s := g.slot
	for {
		if b.Slots[s].Kind == SlotPlanned && e.format(s) == g.format() {
			if e.at[s] == nil && e.writable(s, g) {
				e.at[s], g.at = g, s
			} else {
				e.copyOut(g)
			}
			return
		}
		p := e.made[s]
		if !e.conversion(p) {
			break
		}
		g.last, s = p, b.Steps[p].in[0]
	}
	g.last = -1 // it passes through no such format
	if p := e.made[g.slot]; e.conversion(p) {
		g.last = p
	}
	e.copyOut(g)
}

// copyOut has an output copied: by the conversion that reads the value, or after the run.
func (e *edges) copyOut(g *given) {
	if g.last >= 0 && e.fill[g.last].to == nil {
		e.fill[g.last].to = g
		return
	}
	g.after = true
}

// writable reports whether the maker of a slot can write an output's storage, and the slot's readers can read it there. With
// strides nobody may read it, but for the conversions on the way to the output.
func (e *edges) writable(slot int, g *given) bool {
	b := e.f.s.block
	p := e.made[slot]
	if !e.conversion(p) && !e.takes(p, slices.Index(b.Steps[p].out, slot), g, true) {
		return false
	}
	if g.IsCompact() {
		for i := range b.Steps {
			for k, s := range b.Steps[i].in {
				if s == slot && b.Steps[i].Kind == StepGroup && !e.takes(i, k, g, false) {
					return false
				}
			}
		}
		return true
	}
	if e.conversion(p) || b.Slots[g.slot].direct < 0 || e.readers(g.slot) > 0 {
		return false
	}
	for s := g.slot; s != slot; {
		if s = b.Steps[e.made[s]].in[0]; e.readers(s) > 1 {
			return false
		}
	}
	return true
}

// readers counts the steps that read a slot.
func (e *edges) readers(slot int) int {
	n := 0
	for i := range e.f.s.block.Steps {
		if slices.Contains(e.f.s.block.Steps[i].in, slot) {
			n++
		}
	}
	return n
}

// takes reports whether operand k of step i, or result k, may be storage of the caller's, in the slot's format, as it lies.
func (e *edges) takes(i, k int, g *given, result bool) bool {
	f := e.f
	st, t := &f.s.block.Steps[i], &g.tensor
	if st.Kind != StepGroup || k < 0 {
		return false
	}
	inst := f.s.inst[i]
	if isStandIn(inst) {
		return true
	}
	if inst == nil { // it is made when the operands are there
		return t.IsCompact() && alignedTo(t, 1)
	}
	ports := f.s.reqs[i].Inputs
	if result {
		ports = f.s.reqs[i].Outputs
	}
	var use backend.PortUse
	if k < len(ports) {
		use = ports[k]
	}
	if st.state.refused(result, k) {
		use.Strided, use.Align = false, tensor.Alignment
	}
	return (use.Strided || t.IsCompact()) && alignedTo(t, min(use.Align, tensor.Alignment))
}

// findNeeds marks the slots whose own storage is read by others than conversions.
func (e *edges) findNeeds() {
	b := e.f.s.block
	for j, slot := range b.Outputs {
		switch g := e.out[j]; {
		case g == nil:
			e.need[slot] = e.need[slot] || e.f.session.wanted[j]
		case g.after:
			e.need[slot] = true
		case g.at >= 0:
			e.need[g.at] = true
		}
	}
	for i := range b.Steps {
		if e.conversion(i) {
			continue
		}
		for k, slot := range b.Steps[i].in {
			if slot >= 0 && e.inPlace(i, k) == nil {
				e.need[slot] = true
			}
		}
	}
}

// inPlace returns the input that operand k of step i reads as it lies; nil for none.
func (e *edges) inPlace(i, k int) *given {
	if e.reads[i] == nil {
		return nil
	}
	return e.reads[i][k]
}

// findReads notes what reads inputs as they lie. It stays so for the attempt, whatever other sessions learn of groups.
func (e *edges) findReads() {
	for i := range e.f.s.block.Steps {
		st := &e.f.s.block.Steps[i]
		for k, slot := range st.in {
			if st.Kind != StepGroup || slot < 0 {
				continue
			}
			if g := e.at[slot]; g != nil && !g.output && e.takes(i, k, g, false) {
				if e.reads[i] == nil {
					e.reads[i] = make([]*given, len(st.in))
				}
				e.reads[i][k] = g
			}
		}
	}
}

// findFills says what conversions do, the last one first: what they read is needed by then.
func (e *edges) findFills() {
	b := e.f.s.block
	for i := len(b.Steps) - 1; i >= 0; i-- {
		if !e.conversion(i) {
			continue
		}
		in, out, x := b.Steps[i].in[0], b.Steps[i].out[0], &e.fill[i]
		if x.to != nil {
			e.need[in] = true
		}
		switch here := e.at[out]; {
		case !e.need[out]:
			x.skip = true
		case here != nil && !here.output:
			x.from = here
		case e.at[in] != nil && !e.at[in].output && e.at[in].IsCompact():
			x.src = e.at[in]
		case !e.need[in] && e.oneHop(in, out):
			x.from = e.root(in)
		default:
			e.need[in] = true
		}
	}
}

// root returns the operand of an input's slot; nil where that is plain, or another value's.
func (e *edges) root(slot int) *given {
	if i := slices.Index(e.f.s.block.Inputs, slot); i >= 0 {
		return e.in[i]
	}
	return nil
}

// oneHop reports whether a single conversion makes slot out of the input as the caller has it.
func (e *edges) oneHop(in, out int) bool {
	g, to := e.root(in), e.format(out)
	if g == nil {
		return false
	}
	if !g.IsCompact() {
		return g.Device.IsHost() && to.Device.IsHost() && !to.Layout.IsOpaque()
	}
	hops, err := e.f.session.m.env.Transfer.Registry.PathOf(g.format(), to, g.DType, len(g.Shape))
	return err == nil && len(hops) == 1
}

// point lets groups read and write the caller's storage.
func (e *edges) point() error {
	f := e.f
	for i := range f.s.block.Steps {
		if st := &f.s.block.Steps[i]; st.Kind == StepGroup {
			for k, g := range e.reads[i] {
				if g != nil {
					f.patch(f.args[i].Inputs, k, &g.tensor)
				}
			}
		}
	}
	for j, g := range e.out {
		if g == nil {
			continue
		}
		if g.at >= 0 {
			t := &f.tensors[g.at]
			t.Data, t.Handle, t.Offset, t.Strides = g.tensor.Data, g.tensor.Handle, g.tensor.Offset, g.tensor.Strides
		}
		if p := e.made[g.slot]; g.at != g.slot && f.s.block.Slots[g.slot].direct >= 0 && !(e.conversion(p) && e.fill[p].skip) {
			if err := e.outStage(j); err != nil {
				return err
			}
		}
	}
	return nil
}

// outStage gives the slot of output j, which no plan has room for, storage on the host.
func (e *edges) outStage(j int) error {
	t := &e.f.tensors[e.out[j].slot]
	if e.outStages[j] == nil {
		n, err := tensor.New(t.DType, t.Shape...)
		if err != nil {
			return err
		}
		e.outStages[j] = n
	}
	t.Data, t.Offset = e.outStages[j].Data, 0
	return nil
}

// patched is an operand of a group that has been changed for a run.
type patched struct {
	list []*tensor.Tensor
	k    int
	old  *tensor.Tensor
}

// patch changes an operand of a group until release.
func (f *frame) patch(list []*tensor.Tensor, k int, t *tensor.Tensor) {
	f.patches = append(f.patches, patched{list, k, list[k]})
	list[k] = t
}

// release has groups read and write the frame's own storage again. Nothing of the run is under way.
func (e *edges) release() {
	f := e.f
	f.unpatch()
	for _, g := range e.out {
		if g != nil && g.at >= 0 {
			e.ownPlace(g.at)
		}
	}
}

// unpatch undoes patches, and frees what they were made for.
func (f *frame) unpatch() {
	for i := len(f.patches) - 1; i >= 0; i-- {
		p := &f.patches[i]
		p.list[p.k] = p.old
	}
	clear(f.patches)
	f.patches = f.patches[:0]
	for _, m := range f.extra {
		f.session.release(f.session.m.env.Transfer.Devices[m.Device.Canonical()], m)
	}
	f.extra = f.extra[:0]
}

// ownPlace points a slot that stood for an output at its own storage: of direct ones, none.
func (e *edges) ownPlace(slot int) {
	f := e.f
	t := &f.tensors[slot]
	t.Strides, t.Data, t.Handle, t.Offset = nil, nil, 0, 0
	if f.s.block.Slots[slot].direct < 0 {
		f.place(t, f.s.plan.Values[slot], f.s.sizes[slot])
	}
}

// detach ends a run: the caller's operands are not kept.
func (f *frame) detach() {
	f.unpatch()
	e := f.edges
	if e == nil || !e.on {
		return
	}
	e.release()
	e.unbind()
	clear(e.in)
	clear(e.out)
	e.on = false
}
