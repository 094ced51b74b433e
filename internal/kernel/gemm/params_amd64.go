package gemm

import "unsafe"

// The offsets that the generator has written into the kernels. A field that moved makes an index out of range.
var (
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.bstep)-8]
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.bpanel)-16]
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.ldc)-24]
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.ldr)-32]
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.k)-40]
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.lo)-48]
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.hi)-52]
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.flags)-56]
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.mask)-60]
	_ = [1]struct{}{}[unsafe.Offsetof(tileParams{}.maskRow)-64]
)
