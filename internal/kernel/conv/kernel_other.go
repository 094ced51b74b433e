//go:build !amd64

package conv

import "github.com/carve-dev/carve/internal/cpuid"

const splitsVectors = false

func kernelOf(_ cpuid.Level, k kind, _ int) (kernelID, []uintptr) { return portableKernel(k) }

func runKernel(id kernelID, c *tileCall) { runPortable(id, c) }

func reducePixels(_ cpuid.Level, maximum bool, dst, src *float32, n int, scale float32) {
	portableReduce(maximum, dst, src, n, scale)
}

func linearRow(_ cpuid.Level, dst, a, b *float32, at *int32, wx *float32, wy float32, n int) {
	portableLinear(dst, a, b, at, wx, wy, n)
}
