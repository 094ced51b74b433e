package gemm

import "github.com/carve-dev/carve/internal/cpuid"

// callTile runs the tile kernel of a level. Direct calls, rather than a table of functions, keep the compiler's knowledge
// that the pointers do not escape.
func callTile(l cpuid.Level, rows, panels int, p *tileParams, a, b, bias, res, c *float32) {
	switch l {
	case cpuid.AVX512:
		call512(rows, panels, p, a, b, bias, res, c)
	case cpuid.AVX2:
		call2(rows, panels, p, a, b, bias, res, c)
	default:
		genericTile(rows, p, a, b, bias, res, c)
	}
}

// callDot runs the dot kernel of a level on n groups of cols columns.
func callDot(l cpuid.Level, rows, cols int, p *tileParams, a, b, bias, res, c *float32, n int) {
	switch l {
	case cpuid.AVX512:
		callDot512(rows, cols, p, a, b, bias, res, c, n)
	case cpuid.AVX2:
		callDot2(rows, cols, p, a, b, bias, res, c, n)
	default:
		genericDot(cols, p, a, b, bias, res, c, n)
	}
}

// copyPanels copies k rows of np full panels; strides in elements.
func copyPanels(dst, src *float32, k, np, lds, ldd int) {
	if cpuid.Best() == cpuid.Generic {
		genericPanels(dst, src, k, np, lds, ldd)
		return
	}
	packPanels(dst, src, k, np, 4*lds, 4*ldd)
}

// fmaLoop runs n rounds of the multiply-add loop of a level and returns the operations done.
func fmaLoop(l cpuid.Level, n int) int {
	switch l {
	case cpuid.AVX512:
		peak512(n)
		return n * 24 * 16 * 2
	case cpuid.AVX2:
		peak2(n)
		return n * 12 * 8 * 2
	}
	return genericFMALoop(n)
}
