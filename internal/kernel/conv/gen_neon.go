//go:build ignore

package main

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// kernelsNEON are the tile kernels of arm64, of one output channel block each: its 16 channels are four vectors.
var kernelsNEON = []kernel{
	{name: "denseNEON", kind: dense, isa: asm.NEON(), pixels: 6, group: 3, blocks: 1},
	{name: "depthNEON", kind: depth, isa: asm.NEON(), pixels: 6, group: 3, blocks: 1},
	{name: "lanesNEON", kind: lanes, isa: asm.NEON(), pixels: 4, group: 2, blocks: 1},
	{name: "maxNEON", kind: maxPool, isa: asm.NEON(), pixels: 6, group: 3, blocks: 1},
	{name: "sumNEON", kind: sumPool, isa: asm.NEON(), pixels: 6, group: 3, blocks: 1},
}

// pairsNEON are those of words of two numbers. Of float16 the tile is that of tileCall.sums.
var pairsNEON = []kernel{
	{name: "pairsNEON", kind: pairs, isa: asm.NEON(), pixels: 6, group: 3, blocks: 1},
	{name: "float16NEON", kind: float16, isa: asm.NEON(), pixels: 6, group: 3, blocks: 1},
}

// neonVectors is how many vectors the 16 channels of a pixel are.
const neonVectors = 4

// neonKernel writes a kernel for NEON. Each pixel that a tap reaches has a pointer of its own. A dense kernel holds four channels of each
// pixel in a vector, and multiplies weights by one of its lanes.
//
// Registers: R0 the call, R1 the source and R2 the weights of the current channel block, R3 the next tap; of a body R4 (source of
// pixel group A), R5 (weights), R6 (bytes of weights that are left), R7 (bytes between pixels), R8 to R13 (pixels), R14 (bytes of a
// step); R15, R22 and R23 scratch; R19 and R20 the lists of taps of full and partial channel blocks, R21 the full ones that are
// left, R24 the tile, R25 of float16 the taps until sums are added to those in float32. Vectors: the accumulators pixel by pixel, then what bodies need.
type neonKernel struct {
	kernel
}

func (k *neonKernel) acc(p, v int) int      { return p*neonVectors + v }
func (k *neonKernel) free(i int) int        { return k.pixels*neonVectors + i }
func (k *neonKernel) pointer(p int) string  { return fmt.Sprintf("R%d", 8+p) }
func (k *neonKernel) label(s string) string { return k.name + "_" + s }

func (k *neonKernel) generate(f *asm.File) {
	k.fn = f.Func(k.name, k.name+" computes the tiles of a call.", asm.Typed("c", "*tileCall"))
	k.fn.Load("c", "R0")
	k.fn.I("MOVD %d(R0), R24", offTiles)
	k.fn.I("B %s_tile<>(SB)", k.name)
	k.start()
	k.end()
	k.finish()
	subsets := k.subsets()
	if k.kind == float16 {
		k.fold()
	}
	for i, s := range subsets {
		k.text(fmt.Sprintf("b%d", i))
		k.body(i, s)
	}
	k.table(f, len(subsets))
}

// next emits the jump to the body of the tap at R3.
func (k *neonKernel) next() {
	fn := k.fn
	fn.I("MOVD 24(R3), R22")
	fn.I("MOVD (R3), R4")
	fn.I("MOVD 8(R3), R5")
	fn.I("MOVD 16(R3), R6")
	fn.I("ADD R1, R4")
	fn.I("ADD R2, R5")
	fn.I("ADD $32, R3")
	fn.I("B (R22)")
}

// start emits the beginning of a tile: accumulators and the first tap.
func (k *neonKernel) start() {
	fn := k.fn
	k.text("tile")
	fn.I("MOVD %d(R0), R2", offW)
	fn.I("MOVD %d(R0), R1", offSrc)
	fn.I("MOVD 16(R24), R22")
	fn.I("ADD R22, R1")
	fn.I("MOVD %d(R0), R22", offFlags)
	fn.I("TBNZ $0, R22, %s", k.label("load"))
	fn.I("MOVD %d(R0), R22", offBias)
	for v := range neonVectors {
		fn.I("FMOVQ %d(R22), F%d", 16*v, k.acc(0, v))
	}
	for p := 1; p < k.pixels; p++ {
		for v := range neonVectors {
			fn.I("VMOV V%d.B16, V%d.B16", k.acc(0, v), k.acc(p, v))
		}
	}
	fn.Label(k.label("ready"))
	if k.kind == float16 {
		k.chains()
	}
	fn.I("MOVD %d(R0), R7", offSrcCol)
	fn.I("MOVD %d(R0), R14", offStep)
	fn.I("MOVD %d(R0), R22", offTaps)
	fn.I("MOVD (R24), R19")
	fn.I("MOVD 8(R24), R20")
	fn.I("ADD R22, R19")
	fn.I("ADD R22, R20")
	fn.I("MOVD %d(R0), R21", offFull)
	fn.I("CBZ R21, %s", k.label("onlytail"))
	fn.I("MOVD R19, R3")
	fn.I("MOVD %d(R0), R22", offTail)
	fn.I("CBNZ R22, %s", k.label("first"))
	fn.I("MOVD $0, R20")
	fn.Label(k.label("first"))
	k.next()
	fn.Label(k.label("onlytail"))
	fn.I("MOVD R20, R3")
	fn.I("MOVD $0, R20")
	k.next()
	fn.Label(k.label("load"))
	k.perPixel("acc", offDst, func(p, v int, at string) { fn.I("FMOVQ %s, F%d", at, k.acc(p, v)) })
	fn.I("B %s", k.label("ready"))
}

// end emits the code behind the last tap of a list.
func (k *neonKernel) end() {
	fn := k.fn
	k.text("end")
	step := func() {
		fn.I("MOVD %d(R0), R22", offSrcBlk)
		fn.I("MOVD %d(R0), R23", offWBlk)
		fn.I("ADD R22, R1")
		fn.I("ADD R23, R2")
		k.next()
	}
	fn.I("SUBS $1, R21, R21")
	fn.I("BLE %s", k.label("last"))
	fn.I("MOVD R19, R3")
	step()
	fn.Label(k.label("last"))
	fn.I("CBZ R20, %s", k.label("finish"))
	fn.I("MOVD R20, R3")
	fn.I("MOVD $0, R20")
	step()
	fn.Label(k.label("finish"))
	fn.I("B %s_fin<>(SB)", k.name)
}

// perPixel emits op for each vector of each pixel of the tile that is in use, with the operand of that pixel in the tensor whose
// pointer is at offset base of the call. It uses R4, R7, R15, R22 and R23.
func (k *neonKernel) perPixel(tag string, base int, op func(p, v int, at string)) {
	fn := k.fn
	part, done := k.label(tag+"_part"), k.label(tag+"_done")
	fn.I("MOVD %d(R0), R4", base)
	fn.I("MOVD 24(R24), R22")
	fn.I("MOVD %d(R0), R15", offDstGroup)
	fn.I("MOVD %d(R0), R7", offDstCol)
	fn.I("ADD R22, R4")
	fn.I("ADD R4, R15")
	fn.I("MOVD 32(R24), R22")
	fn.I("MOVD 40(R24), R23")
	groups := func(check func(p int)) {
		for p := range k.pixels {
			at := "R4"
			if p >= k.group {
				at = "R15"
			}
			check(p)
			for v := range neonVectors {
				op(p, v, fmt.Sprintf("%d(%s)", 16*v, at))
			}
			if p != k.group-1 && p != k.pixels-1 {
				fn.I("ADD R7, %s", at)
			}
		}
	}
	fn.I("CMP $%d, R22", k.group)
	fn.I("BNE %s", part)
	fn.I("CMP $%d, R23", k.pixels-k.group)
	fn.I("BNE %s", part)
	groups(func(int) {})
	fn.I("B %s", done)
	fn.Label(part)
	second := k.label(tag + "_second")
	groups(func(p int) {
		if p < k.group {
			fn.I("CMP $%d, R22", p)
			fn.I("BLE %s", second)
			return
		}
		if p == k.group {
			fn.Label(second)
		}
		fn.I("CMP $%d, R23", p-k.group)
		fn.I("BLE %s", done)
	})
	fn.Label(done)
}

// finish emits the epilogue of a tile: scale, residual, limits, mask, store; then the next tile or the return.
func (k *neonKernel) finish() {
	fn := k.fn
	k.text("fin")
	all := func(op func(p, v int)) {
		for p := range k.pixels {
			for v := range neonVectors {
				op(p, v)
			}
		}
	}
	if k.kind == float16 {
		k.added()
	}
	x := k.free(0)
	if k.kind == sumPool {
		fn.I("MOVD %d(R0), R22", offScale)
		fn.I("MOVD 48(R24), R23")
		fn.I("ADD R23, R22")
		for p := range k.pixels {
			fn.I("FMOVS %d(R22), F%d", 4*p, x)
			for v := range neonVectors {
				fn.VLane("fmul.4s", k.acc(p, v), k.acc(p, v), x, 0)
			}
		}
	}
	fn.I("MOVD %d(R0), R22", offRes)
	fn.I("CBZ R22, %s", k.label("nores"))
	k.perPixel("res", offRes, func(p, v int, at string) {
		y := k.free(v % 4)
		fn.I("FMOVQ %s, F%d", at, y)
		fn.V("fadd.4s", k.acc(p, v), k.acc(p, v), y)
	})
	fn.Label(k.label("nores"))
	fn.I("MOVD %d(R0), R23", offFlags)
	for _, l := range []struct {
		bit, off int
		op       string
	}{{1, offLo, "fmax.4s"}, {2, offHi, "fmin.4s"}} {
		label := k.label(fmt.Sprint("nolimit", l.bit))
		fn.I("TBZ $%d, R23, %s", l.bit, label)
		fn.I("ADD $%d, R0, R22", l.off)
		fn.I("VLD1R (R22), [V%d.S4]", x)
		all(func(p, v int) { fn.V(l.op, k.acc(p, v), k.acc(p, v), x) })
		fn.Label(label)
	}
	fn.I("TBZ $3, R23, %s", k.label("nomask"))
	fn.I("ADD $%d, R0, R22", offMask)
	for v := range neonVectors {
		fn.I("FMOVQ %d(R22), F%d", 16*v, k.free(v))
	}
	all(func(p, v int) { fn.I("VAND V%d.B16, V%d.B16, V%d.B16", k.free(v), k.acc(p, v), k.acc(p, v)) })
	fn.Label(k.label("nomask"))
	k.perPixel("out", offDst, func(p, v int, at string) { fn.I("FMOVQ F%d, %s", k.acc(p, v), at) })
	fn.I("ADD $64, R24")
	fn.I("MOVD %d(R0), R22", offN)
	fn.I("SUBS $1, R22, R22")
	fn.I("MOVD R22, %d(R0)", offN)
	fn.I("BLE %s", k.label("return"))
	fn.I("B %s_tile<>(SB)", k.name)
	fn.Label(k.label("return"))
	fn.Ret()
}

// pointers emits the addresses of the pixels of a set.
func (k *neonKernel) pointers(set []span) {
	fn := k.fn
	if set[len(set)-1].hi > k.group {
		fn.I("MOVD %d(R0), R15", offSrcGroup)
		fn.I("ADD R4, R15")
	}
	for _, s := range set {
		for p := s.lo; p < s.hi; p++ {
			base, at := "R4", p
			if p >= k.group {
				base, at = "R15", p-k.group
			}
			switch {
			case at == 0:
				fn.I("MOVD %s, %s", base, k.pointer(p))
			case p > s.lo:
				fn.I("ADD R7, %s, %s", k.pointer(p-1), k.pointer(p))
			default:
				fn.I("MOVD $%d, R22", at)
				fn.I("MADD R22, %s, R7, %s", base, k.pointer(p))
			}
		}
	}
}

// body emits the code of a tap that reaches the pixels of set.
func (k *neonKernel) body(i int, set []span) {
	fn := k.fn
	var pixels []int
	for _, s := range set {
		for p := s.lo; p < s.hi; p++ {
			pixels = append(pixels, p)
		}
	}
	k.pointers(set)
	switch k.kind {
	case dense, pairs:
		k.channels(pixels)
	case float16:
		k.channelsFloat16(pixels)
		fn.I("SUBS $1, R25, R25")
		fn.I("BEQ %s", k.label(fmt.Sprint("f", i)))
	case lanes:
		k.spread(i, pixels)
	case depth, maxPool, sumPool:
		k.steps(i, func() {
			n := 0
			if k.kind == depth {
				for v := range neonVectors {
					fn.I("FMOVQ %d(R5), F%d", 16*v, k.free(v))
				}
				n = neonVectors
			}
			for _, p := range pixels {
				for v := range neonVectors {
					x := k.free(n + v)
					fn.I("FMOVQ %d(%s), F%d", 16*v, k.pointer(p), x)
					switch k.kind {
					case depth:
						fn.I("VFMLA V%d.S4, V%d.S4, V%d.S4", x, k.free(v), k.acc(p, v))
					case maxPool:
						fn.V("fmax.4s", k.acc(p, v), k.acc(p, v), x)
					case sumPool:
						fn.V("fadd.4s", k.acc(p, v), k.acc(p, v), x)
					case dense, lanes, pairs, float16:
					}
				}
				fn.I("ADD R14, %s", k.pointer(p))
			}
		})
	}
	k.next()
	if k.kind == float16 {
		fn.Label(k.label(fmt.Sprint("f", i)))
		fn.I("B %s_fold<>(SB)", k.name)
	}
}

// steps emits a loop over the rows of 16 weights of a tap.
func (k *neonKernel) steps(i int, step func()) {
	fn := k.fn
	label := k.label(fmt.Sprint("l", i))
	fn.Label(label)
	step()
	fn.I("ADD $64, R5")
	fn.I("SUBS $64, R6, R6")
	fn.I("BNE %s", label)
}

// channels emits the loops of a dense tap over its channels, four at a time while there are so many.
func (k *neonKernel) channels(pixels []int) {
	fn := k.fn
	source := func(p int) int { return k.free(p) }
	weights := func(i int) int { return k.free(k.pixels + i%2) }
	channel := func(lane int) {
		for v := range neonVectors {
			fn.I("FMOVQ %d(R5), F%d", 64*lane+16*v, weights(v))
			for _, p := range pixels {
				fn.VLane(map[kind]string{dense: "fmla.4s", pairs: "bfdot.4s"}[k.kind], k.acc(p, v), weights(v), source(p), lane)
			}
		}
	}
	fn.While("R6", 4*64, func() {
		for _, p := range pixels {
			fn.I("FMOVQ.P 16(%s), F%d", k.pointer(p), source(p))
		}
		for lane := range 4 {
			channel(lane)
		}
		fn.I("ADD $256, R5")
	})
	fn.While("R6", 64, func() {
		for _, p := range pixels {
			fn.I("FMOVS.P 4(%s), F%d", k.pointer(p), source(p))
		}
		channel(0)
		fn.I("ADD $64, R5")
	})
}

// spread emits the loop of a tap of groups of channels: from each half of a pixel, two vectors, a table says which of its channels the
// lanes of a vector take.
func (k *neonKernel) spread(i int, pixels []int) {
	fn := k.fn
	index, w, x := k.free(0), k.free(neonVectors), k.free(2*neonVectors)
	fn.I("MOVD $%s, R22", asm.DataAt(neonLaneTable, 0))
	fn.I("ADD R14, R22")
	k.steps(i, func() {
		for v := range neonVectors {
			fn.I("FMOVQ %d(R22), F%d", 16*v, index+v)
			fn.I("FMOVQ %d(R5), F%d", 16*v, w+v)
		}
		for _, p := range pixels {
			for half := range 2 {
				fn.I("FLDPQ %d(%s), (F%d, F%d)", 32*half, k.pointer(p), x, x+1)
				for v := 2 * half; v < 2*half+2; v++ {
					fn.I("VTBL V%d.B16, [V%d.B16, V%d.B16], V%d.B16", index+v, x, x+1, x+2+v%2)
					fn.I("VFMLA V%d.S4, V%d.S4, V%d.S4", w+v, x+2+v%2, k.acc(p, v))
				}
			}
		}
		fn.I("ADD $64, R22")
	})
}

// neonLaneTable is the name of the table that laneTable is for other sets, in numbers of bytes in a half of a pixel.
const neonLaneTable = "lanes"

func neonLaneTables(f *asm.File) {
	var words []uint32
	for n := uint32(2); n <= 8; n *= 2 {
		for i := range n {
			for l := range uint32(16) {
				words = append(words, 0x03020100+(l&^(n-1)+i)%8*4*0x01010101)
			}
		}
	}
	f.Data(neonLaneTable, words...)
}

// table emits the addresses of the bodies and of the end of the list, and the function that returns the table.
func (k *neonKernel) table(f *asm.File, n int) {
	fn := k.fn
	fn.I("")
	for i := range n {
		fn.I("DATA %s_bodies<>+%d(SB)/8, $%s_b%d<>(SB)", k.name, 8*i, k.name, i)
	}
	fn.I("DATA %s_bodies<>+%d(SB)/8, $%s_end<>(SB)", k.name, 8*n, k.name)
	fn.I("GLOBL %s_bodies<>(SB), RODATA|NOPTR, $%d", k.name, 8*(n+1))
	get := f.Func(k.name+"Bodies", fmt.Sprintf("%sBodies returns the addresses of the %d tap bodies of %s, and the end of the list.", k.name, n, k.name))
	get.Result("table", fmt.Sprintf("*[%d]uintptr", n+1))
	get.I("MOVD $%s_bodies<>(SB), R0", k.name)
	get.I("MOVD R0, %s", get.Addr("table"))
	get.Ret()
}

// generateNEON writes the kernels of arm64.
func generateNEON(f *asm.File) {
	neonLaneTables(f)
	for _, k := range kernelsNEON {
		(&neonKernel{k}).generate(f)
	}
	checkOffsets(f)
	serve(f, asm.NEON(), slices.Concat(kernelsNEON, pairsNEON))
	neonReduce(f, "sum", "fadd.4s")
	neonReduce(f, "max", "fmax.4s")
	neonLinear(f)
	f.Serve("reducePixels", asm.NEON(), "if maximum {\nmaxPixels128(dst, src, scale, n)\n} else {\nsumPixels128(dst, src, scale, n)\n}")
	f.Serve("linearRow", asm.NEON(), "linearRow128(dst, a, b, at, wx, wy, n)")
}

// neonReduce writes the reduction of a channel block: a chain of operations for each of four pixels in turn, joined at the end.
func neonReduce(f *asm.File, name, op string) {
	const chains = 4
	fnName := name + "Pixels128"
	fn := f.Func(fnName, fnName+" reduces n pixels of 16 channels, at least 1, to one, times scale.",
		asm.Ptr("dst"), asm.Ptr("src"), asm.Float("scale"), asm.Int("n"))
	acc := func(c, v int) int { return c*neonVectors + v }
	const x, scale = chains * neonVectors, chains*neonVectors + neonVectors
	fn.Load("dst", "R0")
	fn.Load("src", "R1")
	fn.Load("n", "R2")
	for c := range chains {
		for v := range neonVectors {
			if name == "max" {
				fn.I("FMOVQ %d(R1), F%d", 16*v, acc(c, v))
			} else {
				fn.Clear(asm.NEON(), fmt.Sprint("V", acc(c, v)))
			}
		}
	}
	pixel := func(c int) {
		for v := range neonVectors {
			fn.I("FMOVQ.P 16(R1), F%d", x+v)
			fn.V(op, acc(c, v), acc(c, v), x+v)
		}
	}
	fn.While("R2", chains, func() {
		for c := range chains {
			pixel(c)
		}
	})
	fn.While("R2", 1, func() { pixel(0) })
	for n := chains / 2; n > 0; n /= 2 {
		for c := range n {
			for v := range neonVectors {
				fn.V(op, acc(c, v), acc(c, v), acc(c+n, v))
			}
		}
	}
	fn.I("FMOVS %s, F%d", fn.Addr("scale"), scale)
	for v := range neonVectors {
		fn.VLane("fmul.4s", acc(0, v), acc(0, v), scale, 0)
		fn.I("FMOVQ F%d, %d(R0)", acc(0, v), 16*v)
	}
	fn.Ret()
}

// neonLinear writes the interpolation of a row between two rows.
func neonLinear(f *asm.File) {
	fn := f.Func("linearRow128", `linearRow128 computes n pixels of 16 channels. Pixel i lies between the pixels at bytes at[2i] and at[2i+1] of rows a and b,
with weight wx[i] of the second; row b has weight wy. n is at least 1.`,
		asm.Ptr("dst"), asm.Ptr("a"), asm.Ptr("b"), asm.Typed("at", "*int32"), asm.Ptr("wx"), asm.Float("wy"), asm.Int("n"))
	const wx, wy = 30, 31
	for i, name := range []string{"dst", "a", "b", "at", "wx", "n"} {
		fn.Load(name, fmt.Sprintf("R%d", i))
	}
	fn.I("FMOVS %s, F%d", fn.Addr("wy"), wy)
	fn.Loop("R5", func() {
		fn.I("MOVW.P 4(R3), R6")
		fn.I("MOVW.P 4(R3), R7")
		fn.I("FMOVS.P 4(R4), F%d", wx)
		fn.I("ADD R6, R1, R8")
		fn.I("ADD R7, R1, R9")
		fn.I("ADD R6, R2, R10")
		fn.I("ADD R7, R2, R11")
		for v := range neonVectors {
			r := func(i int) int { return 4*v + i }
			for i := range 4 {
				fn.I("FMOVQ %d(R%d), F%d", 16*v, 8+i, r(i))
			}
			fn.V("fsub.4s", r(1), r(1), r(0))
			fn.V("fsub.4s", r(3), r(3), r(2))
			fn.VLane("fmla.4s", r(0), r(1), wx, 0)
			fn.VLane("fmla.4s", r(2), r(3), wx, 0)
			fn.V("fsub.4s", r(2), r(2), r(0))
			fn.VLane("fmla.4s", r(0), r(2), wy, 0)
			fn.I("FMOVQ.P F%d, 16(R0)", r(0))
		}
	})
	fn.Ret()
}
