package conv

import "github.com/carve-dev/carve/internal/cpuid"

// splitsVectors says that the processor computes 512-bit vectors in two halves (AMD Zen 4). A tile of one output channel
// block has a broadcast per multiply-add, which takes such a processor longer than the multiply-add; with vectors of 256
// bits there are two multiply-adds per broadcast.
var splitsVectors = func() bool {
	vendor, model := signature()
	const authenticAMD = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24
	return vendor == authenticAMD && model>>8&15+model>>20&255 == 0x19
}()

// kernelOf returns the kernel for tiles of that many output channel blocks, and the code of its tap bodies.
func kernelOf(level cpuid.Level, k kind, blocks int) (kernelID, []uintptr) {
	if level == cpuid.AVX512 {
		switch k {
		case kindDense:
			switch blocks {
			case 1:
				if splitsVectors {
					return idDense256, dense256q1Bodies()[:]
				}
				return idDense512q1, dense512q1Bodies()[:]
			case 2:
				return idDense512q2, dense512q2Bodies()[:]
			}
			return idDense512q3, dense512q3Bodies()[:]
		case kindDepth:
			return idDepth512, depth512Bodies()[:]
		case kindMax:
			return idMax512, max512Bodies()[:]
		}
		return idSum512, sum512Bodies()[:]
	}
	if level == cpuid.AVX2 {
		switch k {
		case kindDense:
			return idDense256, dense256q1Bodies()[:]
		case kindDepth:
			return idDepth256, depth256Bodies()[:]
		case kindMax:
			return idMax256, max256Bodies()[:]
		}
		return idSum256, sum256Bodies()[:]
	}
	return portableKernel(k)
}

// Kernels in assembly.
const (
	idDense512q1 = firstAssembly + iota
	idDense512q2
	idDense512q3
	idDepth512
	idMax512
	idSum512
	idDense256
	idDepth256
	idMax256
	idSum256
)

// runKernel is a switch and not a table, so that the call does not escape.
func runKernel(id kernelID, c *tileCall) {
	switch id {
	case idDense512q1:
		dense512q1(c)
	case idDense512q2:
		dense512q2(c)
	case idDense512q3:
		dense512q3(c)
	case idDepth512:
		depth512(c)
	case idMax512:
		max512(c)
	case idSum512:
		sum512(c)
	case idDense256:
		dense256q1(c)
	case idDepth256:
		depth256(c)
	case idMax256:
		max256(c)
	case idSum256:
		sum256(c)
	default:
		runPortable(id, c)
	}
}

// reducePixels reduces n pixels of a channel block to their maximum or sum, times scale.
func reducePixels(level cpuid.Level, maximum bool, dst, src *float32, n int, scale float32) {
	switch {
	case level == cpuid.AVX512 && maximum:
		maxPixels512(dst, src, scale, n)
	case level == cpuid.AVX512:
		sumPixels512(dst, src, scale, n)
	case level == cpuid.AVX2 && maximum:
		maxPixels256(dst, src, scale, n)
	case level == cpuid.AVX2:
		sumPixels256(dst, src, scale, n)
	default:
		portableReduce(maximum, dst, src, n, scale)
	}
}

// linearRow interpolates a row between two rows.
func linearRow(level cpuid.Level, dst, a, b *float32, at *int32, wx *float32, wy float32, n int) {
	switch level {
	case cpuid.AVX512:
		linearRow512(dst, a, b, at, wx, wy, n)
	case cpuid.AVX2:
		linearRow256(dst, a, b, at, wx, wy, n)
	default:
		portableLinear(dst, a, b, at, wx, wy, n)
	}
}
