package reorder

import "github.com/carve-dev/carve/internal/cpuid"

// tileSide returns the side of the tiles that transposeTiles takes.
func tileSide(level cpuid.Level) int {
	if level == cpuid.AVX2 {
		return 8
	}
	return 16
}

func transposeTiles(level cpuid.Level, dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, rows, cols, lanes, n int) {
	switch level {
	case cpuid.AVX512:
		transpose512(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)
	case cpuid.AVX2:
		transpose256(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)
	default:
		portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)
	}
}

func copyLanes(level cpuid.Level, dst *float32, dstStride int, src *float32, srcStride, lanes, stored, n int) {
	switch level {
	case cpuid.AVX512:
		copy512(dst, dstStride, src, srcStride, lanes, stored, n)
	case cpuid.AVX2:
		copy256(dst, dstStride, src, srcStride, lanes, stored, n)
	default:
		portableCopy(dst, dstStride, src, srcStride, lanes, stored, n)
	}
}

func gatherLanes(level cpuid.Level, dst, a, b *float32, m *mixture, keep, n int) {
	switch level {
	case cpuid.AVX512:
		gather512(dst, a, b, m, keep, n)
	case cpuid.AVX2:
		gather256(dst, a, b, m, keep, n)
	default:
		portableGather(dst, a, b, m, keep, n)
	}
}
