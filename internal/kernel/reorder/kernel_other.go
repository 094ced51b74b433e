//go:build !amd64

package reorder

import "github.com/carve-dev/carve/internal/cpuid"

// tileSide returns the side of the tiles that transposeTiles takes.
func tileSide(cpuid.Level) int { return 16 }

func transposeTiles(_ cpuid.Level, dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, rows, cols, lanes, n int) {
	portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)
}

func copyLanes(_ cpuid.Level, dst *float32, dstStride int, src *float32, srcStride, lanes, stored, n int) {
	portableCopy(dst, dstStride, src, srcStride, lanes, stored, n)
}

func gatherLanes(_ cpuid.Level, dst, a, b *float32, m *mixture, keep, n int) {
	portableGather(dst, a, b, m, keep, n)
}
