package gemm

// tileParams is what a kernel reads beside its pointers. Strides are in bytes. The generator knows the offsets of the
// fields (off… in gen.go), and emits what checks them.
type tileParams struct {
	lda     int // from row to row of A
	bstep   int // from one k to the next in B (64 in panels, the row stride in Rows); unused by dot kernels
	bpanel  int // from one panel of 64 bytes of columns to the next in B; dot kernels: from column to column
	ldc     int // from row to row of C
	ldr     int // from row to row of the residual
	k       int // products per element
	lo, hi  float32
	flags   uint32
	mask    uint32 // 32-bit lanes in use of the last panel (dot kernels: of the last vector of k), from bit 0
	maskRow int    // byte offset of the same mask in a table of 16 ones and 16 zeros
	masked  int    // of the last k, whose last panel of B is masked; NEON masks those of all with flagTailB
	ahead   int    // bytes from what a k has fetched to what the next one has
	apart   int    // bytes between the four lines that a round of four k has fetched, see fetchInRounds
	round   int    // bytes from what a round has fetched to what the next one has
}

// chainWords is how many words of two float16 NEON multiplies before their sums are added to those in float32.
const chainWords = 64

const (
	flagAccumulate = 1 << iota // start from C instead of bias
	flagClip                   // bound the result by lo and hi
	flagTailC                  // the last panel of C is masked
	flagTailB                  // the last panel of B is ragged too: B is not padded
	flagBelow                  // what is to be fetched are rows of A: those below each tile of a call, and not what is given for the first one alone
	flagAcross                 // tiles of a call lie beside each other
)

// fetchInRounds sets what a round of four k has fetched by AVX2's tiles of one panel: lines that follow each other; or one of each of
// so many parts of what the tile has fetched, 4 of panels of float32 and 2 of float16, which a processor follows as streams, with more lines under
// way than of one. Where a single tile reads each panel, and does little else than wait for it, this takes 0.75 of the time on an AMD Zen 2 with
// panels in memory; of more tiles there is no gain.
func (p *tileParams) fetchInRounds(streams int) {
	p.apart, p.round = p.ahead, 4*p.ahead
	if streams > 1 {
		p.apart, p.round = p.k*p.ahead/4, 4*p.ahead/streams
	}
}

// setMask makes n (1 to 16) lanes of 32 bits the ones in use.
func (p *tileParams) setMask(n int) {
	p.mask = 1<<n - 1
	p.maskRow = 64 - 4*n
}
