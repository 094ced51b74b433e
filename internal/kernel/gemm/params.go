package gemm

import "unsafe"

// tileParams is what a kernel reads beside its pointers. Strides are in bytes. The generator knows the offsets of the
// fields (off… in gen.go); the declarations below keep both in step.
type tileParams struct {
	lda     int // from row to row of A
	bstep   int // from one k to the next in B (64 in panels, the row stride in Rows); unused by dot kernels
	bpanel  int // from one panel of 16 columns to the next in B; dot kernels: from column to column
	ldc     int // from row to row of C
	ldr     int // from row to row of the residual
	k       int // products per element
	lo, hi  float32
	flags   uint32
	mask    uint32 // lanes in use of the last panel (dot kernels: of the last vector of k), from bit 0
	maskRow int    // byte offset of the same mask in a table of 16 ones and 16 zeros
}

const (
	flagAccumulate = 1 << iota // start from C instead of bias
	flagClip                   // bound the result by lo and hi
	flagTailC                  // the last panel of C is masked
	flagTailB                  // the last panel of B is masked too: B is not padded
)

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

// setMask makes n (1 to 16) lanes the ones in use.
func (p *tileParams) setMask(n int) {
	p.mask = 1<<n - 1
	p.maskRow = 64 - 4*n
}
