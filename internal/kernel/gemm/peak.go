package gemm

import (
	"time"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Peak measures the multiply-add rate of this core with a target's vectors, in floating-point operations per nanosecond (GFLOP/s): the
// best of repeated runs of a loop that touches registers only, within about the given time. Rates of kernels are quoted
// as shares of it, since clocks differ and drift. Benchmarks call it before and after what they measure.
func Peak(t isa.Target, within time.Duration) float64 {
	const rounds = 200_000
	best := 0.0
	for start := time.Now(); time.Since(start) < within || best == 0; {
		begin := time.Now()
		flops := fmaLoop(t.Set, rounds)
		if d := time.Since(begin); d > 0 {
			best = max(best, float64(flops)/float64(d.Nanoseconds()))
		}
	}
	return best
}

// genericFMALoop is the loop in Go: 8 independent sums.
func genericFMALoop(n int) int {
	x, y := fmaSeed[0], fmaSeed[1]
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for range n {
		s0 += x * y
		s1 += x * y
		s2 += x * y
		s3 += x * y
		s4 += x * y
		s5 += x * y
		s6 += x * y
		s7 += x * y
	}
	if s0+s1+s2+s3+s4+s5+s6+s7 != 0 {
		return 0
	}
	return n * 8 * 2
}

// fmaSeed holds zeros, which the compiler does not know.
var fmaSeed [2]float32
