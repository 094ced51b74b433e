package reorder

import "github.com/carve-dev/carve/internal/kernel/isa"

// NewStreaming is New for a result of any size that is written past the caches where its shape allows it, and whether it is.
func NewStreaming(t isa.Target, s Spec) (*Plan, bool, error) {
	p, err := New(t, s)
	if err != nil {
		return nil, false, err
	}
	if p.to = p.traffic(t, 0); p.to == uncached {
		p.ragged = p.raggedStep()
	}
	return p, p.to == streamed || p.ragged > 0, nil
}

// TransposeStreaming is Transpose2D with stores past the caches, where the set has them.
func TransposeStreaming(t isa.Target, dst, src []float32, rows, cols, ldSrc, ldDst int) {
	to := uncached
	if streamsTiles(t.Set) {
		to = streamed
	}
	transpose(t.Set, to, dst, ldDst, src, ldSrc, rows, cols, 0)
	fence(t.Set)
}

// NewStreamingCast is NewCast for a result of any size that is written past the caches where its shape allows it, and whether it is.
func NewStreamingCast(t isa.Target, s Spec, from, to Element) (*Cast, bool, error) {
	c, err := NewCast(t, s, from, to)
	if err != nil {
		return nil, false, err
	}
	c.plan(0)
	return c, c.traffic == streamed, nil
}
