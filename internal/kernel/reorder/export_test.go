package reorder

import "github.com/carve-dev/carve/internal/cpuid"

// NewStreaming is New for a result of any size that is written past the caches where its shape allows it, and whether it is.
func NewStreaming(s Spec) (*Plan, bool, error) {
	p, err := New(s)
	if err != nil {
		return nil, false, err
	}
	p.to = p.traffic(0)
	return p, p.to == streamed, nil
}

// TransposeStreaming is Transpose2D with stores past the caches, where the level has them.
func TransposeStreaming(dst, src []float32, rows, cols, ldSrc, ldDst int) {
	level := cpuid.Best()
	to := uncached
	if streamsTiles(level) {
		to = streamed
	}
	transpose(level, to, dst, ldDst, src, ldSrc, rows, cols, 0)
	fence()
}
