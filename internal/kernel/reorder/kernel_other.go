//go:build !amd64

package reorder

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/cpuid"
)

// tileSide returns the side of the tiles that transposeTiles takes.
func tileSide(cpuid.Level) int { return 16 }

func transposeTiles(_ cpuid.Level, dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, rows, cols, lanes, n int) {
	portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)
}

func copyLanes(_ cpuid.Level, dst *float32, dstStride int, src *float32, srcStride, lanes, stored, n int) {
	portableCopy(dst, dstStride, src, srcStride, lanes, stored, n)
}

func tiles(_ cpuid.Level, _ traffic, dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, _, n int) {
	portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, 16, 16, 16, n)
}

func weaveLanes(cpuid.Level) int { return 0 }

func join(cpuid.Level, traffic, int, *float32, *float32, int, int) {}
func part(cpuid.Level, traffic, int, *float32, int, *float32, int) {}

func streamsTiles(cpuid.Level) bool { return false }
func streamsRows(cpuid.Level) bool  { return false }
func fence()                        {}

func copyRows(_ cpuid.Level, _ traffic, dst *float32, dstStride, dstBlock int, src *float32, srcStride, srcBlock, blocks, n int) {
	portableRows(dst, dstStride, dstBlock, src, srcStride, srcBlock, blocks, n)
}

func gatherLanes(_ cpuid.Level, dst, a, b *float32, m *mixture, keep, n int) {
	portableGather(dst, a, b, m, keep, n)
}

func castRows(_ cpuid.Level, k castKind, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lanes, n int) {
	portableCast(k, dst, dstStride, src, srcStride, lanes, n)
}
