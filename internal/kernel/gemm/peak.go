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
		flops := MultiplyAdds(t, rounds)
		if d := time.Since(begin); d > 0 {
			best = max(best, float64(flops)/float64(d.Nanoseconds()))
		}
	}
	return best
}

// MultiplyAdds runs so many rounds of the loop that Peak measures, and returns the floating-point operations done: for a benchmark that measures it by
// turns with what it is compared with, by the same clock.
func MultiplyAdds(t isa.Target, rounds int) int { return fmaLoop(t.Set, rounds) }

// genericFMALoop is the loop in Go: 6 independent sums, as many as two units with three cycles of latency need. Their products are all
// different, since the compiler takes equal sums for one; with three factors all of them stay in the registers of amd64.
func genericFMALoop(n int) int {
	x, y, z := fmaSeed[0], fmaSeed[1], fmaSeed[2]
	var s0, s1, s2, s3, s4, s5 float32
	for range n {
		s0 += x * x
		s1 += x * y
		s2 += x * z
		s3 += y * y
		s4 += y * z
		s5 += z * z
	}
	if s0+s1+s2+s3+s4+s5 != 0 {
		return 0
	}
	return n * 6 * 2
}

// fmaSeed holds zeros, which the compiler does not know.
var fmaSeed [3]float32
