package partition

import (
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// Times knows what was measured. Nanoseconds of 0 mean that it does not know. It is asked by one goroutine at a time, about each
// node with each signature and backend, and about each conversion that may be chosen.
type Times interface {
	// Node returns the nanoseconds of a run of n, which is a set's Fused node where the candidate is a set, on a backend with a
	// signature that has no variables. modelled is what counts where it does not know; the node may be gone afterwards.
	Node(n *graph.Node, backend string, sig *graph.Signature, modelled float64) float64
	// Conversion returns the nanoseconds of one hop of a conversion of v.
	Conversion(v *graph.Value, hop *convert.Converter) float64
}

// lookUp notes the signatures of an offer, with their measured times. Of those that differ in their names, or in how constants lie, alone,
// which stand for ways to do the same, such as tiles of a kernel, the fastest counts that was measured.
func (b *placing) lookUp(o *offer, sigs []graph.Signature) {
	o.sigs = distinct(o.c.Node, sigs)
	if b.times == nil {
		return
	}
	o.times = make([]float64, len(o.sigs))
	for k := range o.sigs {
		kept := o.sigs[k]
		for i := range sigs {
			sig := &sigs[i]
			if !sameAtRun(o.c.Node, &kept, sig) {
				continue
			}
			ns := b.times.Node(o.c.Node, b.s.names[o.c.Backend], sig, o.c.Cost.Nanoseconds+sig.Extra)
			if ns > 0 && (o.times[k] == 0 || ns < o.times[k]) {
				o.sigs[k], o.times[k] = *sig, ns
			}
		}
	}
}

// time returns the nanoseconds of an alternative: measured, or else modelled. One that says nothing of its time counts what its nodes take at
// least by themselves on backends that do.
func (b *placing) time(v int32, a *alternative) float64 {
	if a.ns > 0 {
		return a.ns
	}
	ns := a.c.Cost.Nanoseconds
	switch {
	case ns > 0:
	case a.set < 0:
		ns = b.least[v]
	default:
		for _, w := range b.sets[a.set].vars {
			ns += b.least[w]
		}
	}
	return ns + a.sig.Extra
}

// hopOf is one hop of the conversion of a value.
type hopOf struct {
	v *graph.Value
	c *convert.Converter
}

// hopTime returns the nanoseconds of a hop: measured, or else modelled.
func (b *placing) hopTime(v *graph.Value, c *convert.Converter) float64 {
	ns := 0.0
	if b.times != nil {
		k := hopOf{v, c}
		known, ok := b.hopTimes[k]
		if !ok {
			if b.hopTimes == nil {
				b.hopTimes = map[hopOf]float64{}
			}
			known = b.times.Conversion(v, c)
			b.hopTimes[k] = known
		}
		ns = known
	}
	if ns > 0 {
		return ns
	}
	bytes := (b.chooser.physical(v, c.From) + b.chooser.physical(v, c.To)) / 2
	return c.Cost.Of(bytes)
}
