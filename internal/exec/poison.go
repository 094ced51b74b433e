package exec

// The poisoning test mode, Options.Poison: an arena, and a result of Run, is full of NaN when a run begins, and each buffer is filled with NaN
// again when its lifetime ends, at the sub-step after which the plan gives its memory to others. A kernel that reads what
// is not its own any more, or that counts on memory it has not written, shows in the outputs.

// poison is what a frame needs to fill its buffers: what ends at each sub-step, and how far the run is.
type poison struct {
	ends [][][]byte // per sub-step
	all  []byte     // the frame's part of the arena
	now  int64
}

// newPoison lists the host buffers of the frame's plan. Other devices' memory is out of reach.
func newPoison(s *Spec, host []byte) *poison {
	p := &poison{ends: make([][][]byte, s.plan.Start[len(s.plan.Start)-1])}
	for _, a := range s.plan.Arenas {
		if !a.Device.IsHost() {
			continue
		}
		p.all = host[:a.Height]
		for _, b := range a.Placed {
			if b.Upper <= int64(len(p.ends)) { // others live to the end
				p.ends[b.Upper-1] = append(p.ends[b.Upper-1], host[b.Offset:b.Offset+b.Bytes])
			}
		}
	}
	return p
}

// begin fills the arena.
func (p *poison) begin() {
	p.now = 0
	fillNaN(p.all)
}

// until fills what ends before sub-step t.
func (p *poison) until(t int64) {
	for ; p.now < t; p.now++ {
		for _, b := range p.ends[p.now] {
			fillNaN(b)
		}
	}
}

// poisonSteps makes step i fill what ends at each of its sub-steps. A late group is one sub-step of the plan, whatever it
// turns out to do. A group on a device touches no memory of the host's: what ends while it runs is filled when it has ended, and
// it runs as it does otherwise, since watched step by step it would be no graph of a driver's.
func (f *frame) poisonSteps(i int) {
	a := f.args[i]
	if a == nil || f.s.isLate(i) || f.queued(i) {
		return
	}
	start, trace := f.s.plan.Start[i], f.trace(i)
	a.Trace = func(sub int) {
		if trace != nil {
			trace(sub)
		}
		f.poison.until(min(start+int64(sub)+1, f.s.plan.Start[i+1]))
	}
}

// trace returns the profiler's hook of step i, nil where there is none.
func (f *frame) trace(i int) func(int) {
	if f.session.profile == nil {
		return nil
	}
	return f.args[i].Trace
}

// fillNaN sets all bits: a NaN in every floating-point type, -1 in integers.
func fillNaN(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}
