package gpugroup

// Waves finds which steps may run at the same time, for queues that keep no order: waits[i] is set where step i touches memory that a step
// since the last such one writes, or writes what one touches, so that all before it have to end first. It reports whether any two steps
// may run together. bases are those of Bind; buffers of different lifetimes may share memory, so that only they tell. It allocates
// nothing, and its time is that of comparing the operands of what runs together.
func (g *Group) Waves(bases []Base, waits []bool) (together bool) {
	first := 0 // of the wave
	for i := range g.Steps {
		waits[i] = false
		for j := first; j < i; j++ {
			if waits[i] = g.conflict(i, j, bases); waits[i] {
				first = i
				break
			}
		}
		together = together || i > 0 && !waits[i]
	}
	return together
}

// conflict reports whether one of two steps writes what the other one touches. What a library touches it does not say.
func (g *Group) conflict(i, j int, bases []Base) bool {
	a, b := &g.Steps[i], &g.Steps[j]
	if a.Call != nil || b.Call != nil {
		return true
	}
	for k, x := range a.Args {
		for l, y := range b.Args {
			if x.Slot < 0 || y.Slot < 0 || !a.Launch.Kernel.Params[k].Written && !b.Launch.Kernel.Params[l].Written {
				continue
			}
			p, q := bases[x.Slot], bases[y.Slot]
			if p.Handle == q.Handle && p.Offset+x.Off < q.Offset+y.Off+y.Size && q.Offset+y.Off < p.Offset+x.Off+x.Size {
				return true
			}
		}
	}
	return false
}
