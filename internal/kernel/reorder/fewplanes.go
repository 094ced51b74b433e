package reorder

import "github.com/carve-dev/carve/internal/kernel/isa"

// crowded reports whether planes that lie so many floats apart begin in one set of the first-level cache, of 64 sets of usually 8 lines: 16
// of them, as tiles have, drive each other out.
func crowded(apart int) bool { return 4*apart%(64*64) == 0 }

// Pixels of all planes that are moved before the next ones: few where planes are read, since the lines that hold pixels' other channels stay in
// the cache, and more where they are written, in runs of lines. Measured inside the second-level cache of a Zen 4.
const (
	crowdedReads  = 64
	crowdedWrites = 256
)

// spreads reports whether there are kernels for n pixels of so many planes: whole groups of 16 and of 8.
func spreads(set isa.Set, planes, n int) bool {
	return hasFewPlanes(set) && planes > 0 && planes%8 == 0 && n > 0 && n%16 == 0
}

// fromCrowded transposes planes, ldSrc floats apart, to n pixels that lie ldDst floats apart, eight planes at a time. It reports whether it
// could.
func fromCrowded(set isa.Set, dst []float32, ldDst int, src []float32, ldSrc, planes, n int) bool {
	if !spreads(set, planes, n) {
		return false
	}
	_, _ = dst[(n-1)*ldDst+planes-1], src[(planes-1)*ldSrc+n-1]
	for px := 0; px < n; px += crowdedReads {
		for c := 0; c < planes; c += 8 {
			planesToRows(set, &dst[px*ldDst+c], 4*ldDst, &src[c*ldSrc+px], 4*ldSrc, min(crowdedReads, n-px)/16)
		}
	}
	return true
}

// toCrowded is fromCrowded from pixels to planes.
func toCrowded(set isa.Set, dst []float32, ldDst int, src []float32, ldSrc, planes, n int) bool {
	if !spreads(set, planes, n) {
		return false
	}
	_, _ = dst[(planes-1)*ldDst+n-1], src[(n-1)*ldSrc+planes-1]
	for px := 0; px < n; px += crowdedWrites {
		for c := 0; c < planes; c += 8 {
			rowsToPlanes(set, &dst[c*ldDst+px], 4*ldDst, &src[px*ldSrc+c], 4*ldSrc, min(crowdedWrites, n-px)/16)
		}
	}
	return true
}
