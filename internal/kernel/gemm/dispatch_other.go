//go:build !amd64

package gemm

import "github.com/carve-dev/carve/internal/cpuid"

func callTile(_ cpuid.Level, rows, _ int, p *tileParams, a, b, bias, res, c *float32) {
	genericTile(rows, p, a, b, bias, res, c)
}

func callDot(_ cpuid.Level, _, cols int, p *tileParams, a, b, bias, res, c *float32, n int) {
	genericDot(cols, p, a, b, bias, res, c, n)
}

func copyPanels(dst, src *float32, k, np, lds, ldd int) { genericPanels(dst, src, k, np, lds, ldd) }

func fmaLoop(_ cpuid.Level, n int) int { return genericFMALoop(n) }
