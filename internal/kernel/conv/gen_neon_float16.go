//go:build ignore

package main

// What is different of a kernel of float16 for NEON, where FEAT_FP16 is. A vector is eight channels of results. Channels of the source of even and of
// odd number have sums of their own in float16, and behind chainTaps taps they are added to sums in float32, which are in tileCall.sums:
// that bounds how far sums lose their last bits, or grow beyond what float16 holds. Vectors: six elements of the source, of which
// instructions may take lanes of V0 to V15 alone, two of weights, and the sums.

// chainTaps is how many taps, of up to 16 channels each, are added up in float16.
const chainTaps = 8

// sum is the sum in float16 of vector v of pixel p, of even or odd channels of the source.
func (k *neonKernel) sum(p, v, odd int) int { return 8 + 4*p + 2*v + odd }

// chains emits the begin of a tile whose accumulators in float32 have been set: they are put aside.
func (k *neonKernel) chains() {
	for i := range k.pixels * neonVectors {
		k.fn.I("FMOVQ F%d, %d(R0)", i, offSums+16*i)
	}
	k.restart()
}

// restart clears the sums in float16.
func (k *neonKernel) restart() {
	for i := range 4 * k.pixels {
		k.fn.Clear(k.isa, k.isa.R(8+i))
	}
	k.fn.I("MOVD $%d, R25", chainTaps)
}

// add adds the sums in float16 to those in float32.
func (k *neonKernel) add() {
	fn := k.fn
	for p := range k.pixels {
		for v := range 2 {
			at, sum := offSums+16*(neonVectors*p+2*v), k.sum(p, v, 0)
			low, high, x, y := 4*v, 4*v+1, 4*v+2, 4*v+3
			fn.I("FMOVQ %d(R0), F%d", at, x)
			fn.I("FMOVQ %d(R0), F%d", at+16, y)
			fn.V("fadd.8h", sum, sum, k.sum(p, v, 1))
			fn.V("fcvtl.4s", low, sum)
			fn.V("fcvtl2.4s", high, sum)
			fn.V("fadd.4s", x, x, low)
			fn.V("fadd.4s", y, y, high)
			fn.I("FMOVQ F%d, %d(R0)", x, at)
			fn.I("FMOVQ F%d, %d(R0)", y, at+16)
		}
	}
}

// fold emits what follows chainTaps taps, and the jump to the next.
func (k *neonKernel) fold() {
	k.text("fold")
	k.add()
	k.restart()
	k.next()
}

// added emits the end of a tile's products: its accumulators are as those of other kernels.
func (k *neonKernel) added() {
	k.add()
	for i := range k.pixels * neonVectors {
		k.fn.I("FMOVQ %d(R0), F%d", offSums+16*i, i)
	}
}

// channelsFloat16 emits the loops of a tap over its words of two channels, four at a time while there are so many.
func (k *neonKernel) channelsFloat16(pixels []int) {
	fn := k.fn
	words := func(n int, load string) {
		fn.While("R6", 64*n, func() {
			for _, p := range pixels {
				fn.I("%s %d(%s), F%d", load, 4*n, k.pointer(p), p)
			}
			for c := range 2 * n {
				for v := range 2 {
					fn.I("FMOVQ %d(R5), F%d", 32*c+16*v, 6+v)
					for _, p := range pixels {
						fn.VLane("fmla.8h", k.sum(p, v, c%2), 6+v, p, c)
					}
				}
			}
			fn.I("ADD $%d, R5", 64*n)
		})
	}
	words(4, "FMOVQ.P")
	words(1, "FMOVS.P")
}
