//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// kind is what a kernel does with a tap.
type kind int

const (
	dense   kind = iota // multiply broadcast source values by rows of 16 weights
	depth               // multiply source pixels by one row of 16 weights
	maxPool             // maximum
	sumPool             // sum, scaled per pixel at the end
	lanes               // multiply channels of source pixels, spread over the lanes of their group, by rows of 16 weights
	pairs               // as dense, of words of two channels in bfloat16
	float16             // as dense, of two channels in float16
)

// Offsets of the fields of tileCall, in its order; checkOffsets emits a compile-time check.
const (
	offSrc = 8 * iota
	offW
	offDst
	offRes
	offBias
	offTaps
	offScale
	offTiles
	offN
	offSrcCol
	offSrcGroup
	offDstCol
	offDstGroup
	offSrcBlk
	offWBlk
	offWOC
	offDstOC
	offFull
	offTail
	offFlags
	offLo
	offLeft
	offList
	offListTail
	offAt
	offStep
	offPass
	offAhead
	offAheadW
	offAheadEnd
	offRest
	offMask
)

// flagPoints, flagWidePoints, flagLine and flagPlanes are those of a tileCall, and tileSize the bytes of a tile.
const (
	flagPoints     = 64
	flagWidePoints = 128
	flagLine       = 256
	flagPlanes     = 512
	tileSize       = 64
	tileSingle     = 56 // of its fields
)

const (
	offHi         = offLo + 4
	offSums       = offMask + 64
	offAheadPairs = offSums + 6*64
)

// checkOffsets emits Go source that does not compile where tileCall and this program disagree.
func checkOffsets(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{
		{"src", offSrc}, {"w", offW}, {"dst", offDst}, {"res", offRes}, {"bias", offBias}, {"taps", offTaps}, {"scale", offScale},
		{"tiles", offTiles}, {"n", offN}, {"srcCol", offSrcCol}, {"srcGroup", offSrcGroup}, {"dstCol", offDstCol},
		{"dstGroup", offDstGroup}, {"srcBlk", offSrcBlk}, {"wBlk", offWBlk}, {"wOC", offWOC}, {"dstOC", offDstOC},
		{"full", offFull}, {"tail", offTail}, {"flags", offFlags}, {"lo", offLo}, {"hi", offHi}, {"left", offLeft},
		{"list", offList}, {"listTail", offListTail}, {"at", offAt}, {"step", offStep}, {"pass", offPass}, {"ahead", offAhead}, {"aheadW", offAheadW}, {"aheadEnd", offAheadEnd}, {"rest", offRest}, {"mask", offMask}, {"sums", offSums}, {"aheadPairs", offAheadPairs},
	} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(tileCall{}.%s)-%d]\n", c.name, c.off)
	}
	src += ")\n"
	f.Go(src)
}

// kernel is one body of the generated file. Register plan: the dispatcher keeps R14 the call, R12 the source and R13 the weights of the current channel block, CX
// the next tap; a body gets SI (source of pixel group A), DI (weights), R8, R9, R10
// (1, 3 and 5 times the bytes between pixels), R11 (dense: bytes of weights between output channel blocks; else the step).
type kernel struct {
	name   string
	kind   kind
	isa    asm.ISA
	pixels int    // of a tile
	group  int    // pixels of group A; group B has the rest
	blocks int    // output channel blocks of a tile
	passes bool   // a tile is computed twice, each time for the channels of one vector: so it has room for more pixels
	lower  bool   // of the last output channel block only the first half is computed, and the second is made zero
	only   string // Go condition, a parameter of kernelOf, on which it comes before others for such tiles
	fn     *asm.Func
	beside bool // what is emitted addresses pixels as they lie beside each other, from that of group A
	alone  bool // what is emitted addresses pixels from group A alone, beside which B is
}

// dense reports whether a result is a sum over blocks of channels.
func (k *kernel) dense() bool { return k.kind == dense || k.kind == pairs || k.kind == float16 }

// halves is how many vectors hold the channels of a block that are computed at a time.
func (k *kernel) halves() int {
	if k.passes {
		return 1
	}
	return 16 / k.isa.Lanes
}

// halvesOf is halves for output channel block q of the tile.
func (k *kernel) halvesOf(q int) int {
	if k.lower && q == k.blocks-1 {
		return k.halves() / 2
	}
	return k.halves()
}

// vecs is how many vectors hold the results of a pixel.
func (k *kernel) vecs() (n int) {
	for q := range k.blocks {
		n += k.halvesOf(q)
	}
	return n
}

// acc is the accumulator of pixel p, vector v.
func (k *kernel) acc(p, v int) string { return k.isa.R(p*k.vecs() + v) }

// free is the i-th register behind the accumulators.
func (k *kernel) free(i int) string { return k.isa.R(k.pixels*k.vecs() + i) }

// pixel is the operand of pixel p at byte off, groups A and B starting at registers a and b.
func (k *kernel) pixel(p, off int, a, b string) string {
	switch {
	case k.beside && b == "":
		return fmt.Sprintf("%d(%s)", 64*p+off, a)
	case k.beside && p >= 4: // a is 128 bytes on and b behind it, so that offsets are of one byte
		return fmt.Sprintf("%d(%s)", 64*p+off-384, b)
	case k.beside:
		return fmt.Sprintf("%d(%s)", 64*p+off-128, a)
	}
	base := a
	if p >= k.group && !k.alone {
		base, p = b, p-k.group
	}
	index := []string{"", "(R8*1)", "(R8*2)", "(R9*1)", "(R8*4)", "(R10*1)", "(R9*2)"}[p]
	if off == 0 {
		return fmt.Sprintf("(%s)%s", base, index)
	}
	return fmt.Sprintf("%d(%s)%s", off, base, index)
}

// multiples emits R8, R9, R10 = 1, 3, 5 times the field at off.
func (k *kernel) multiples(off int) {
	k.fn.I("MOVQ %d(R14), R8", off)
	k.fn.I("LEAQ (R8)(R8*2), R9")
	k.fn.I("LEAQ (R8)(R8*4), R10")
}

// text starts a part of the kernel that other parts jump to. Parts have no frame, so that the return address is at the
// top of the stack in all of them.
func (k *kernel) text(part string) {
	k.fn.I("")
	k.fn.I("TEXT %s_%s<>(SB), NOSPLIT|NOFRAME, $0-0", k.name, part)
}

// next emits the jump to the body of the tap at CX.
func (k *kernel) next() {
	fn := k.fn
	fn.I("MOVQ 24(CX), AX")
	fn.I("MOVQ (CX), SI")
	fn.I("MOVQ 8(CX), DI")
	fn.I("ADDQ R12, SI")
	fn.I("ADDQ R13, DI")
	fn.I("ADDQ $32, CX")
	fn.I("JMP AX")
}

// groupB emits what a body that reads pixels of group B begins with.
func (k *kernel) groupB() {
	k.fn.I("MOVQ %d(R14), BX", offSrcGroup)
	k.fn.I("ADDQ SI, BX")
}

func (k *kernel) generate(f *asm.File) {
	doc := k.name + " computes the tiles of a call."
	k.fn = f.Func(k.name, doc, asm.Typed("c", "*tileCall"))
	k.fn.Load("c", "R14")
	k.fn.I("MOVQ %d(R14), AX", offTiles)
	k.fn.I("MOVQ AX, %d(R14)", offAt)
	if k.points() {
		k.fn.I("TESTQ $%d, %d(R14)", k.pointsFlag(), offFlags)
		k.fn.I("JEQ %s_begin", k.name)
		k.fn.I("JMP %s_point<>(SB)", k.name)
		k.fn.Label(k.name + "_begin")
	}
	if k.planes() {
		k.fn.I("TESTQ $%d, %d(R14)", flagPlanes, offFlags)
		k.fn.I("JEQ %s_general", k.name)
		k.fn.I("JMP %s_planar<>(SB)", k.name)
		k.fn.Label(k.name + "_general")
	}
	if k.alongs() {
		k.fn.I("TESTQ $%d, %d(R14)", flagLine, offFlags)
		k.fn.I("JEQ %s_begin", k.name)
		k.fn.I("JMP %s_along<>(SB)", k.name)
		k.fn.Label(k.name + "_begin")
	}
	k.fn.I("JMP %s_tile<>(SB)", k.name)
	k.start()
	if k.points() {
		k.point()
	}
	if k.lines() {
		k.line()
	}
	if k.planes() {
		k.planar()
	}
	if k.alongs() {
		k.along()
	}
	if k.dense() {
		k.end()
	}
	k.finish()
	subsets := k.subsets()
	for i, s := range subsets {
		k.text(fmt.Sprintf("b%d", i))
		k.body(i, s)
	}
	rows := k.rows()
	for i, r := range rows {
		k.text(fmt.Sprintf("r%d", i))
		if k.kind == dense {
			k.planarRow(i, r)
		} else {
			k.row(i, r)
		}
	}
	k.table(f, len(subsets), len(rows))
}

// start emits the beginning of a tile: accumulators and the first tap.
func (k *kernel) start() {
	fn := k.fn
	k.text("tile")
	fn.I("MOVQ %d(R14), DX", offAt)
	fn.I("MOVQ %d(R14), R13", offW)
	fn.I("MOVQ %d(R14), R11", map[bool]int{true: offWOC, false: offStep}[k.dense()])
	fn.I("MOVQ %d(R14), R12", offSrc)
	fn.I("ADDQ 16(DX), R12")
	k.addPass("R13")
	if !k.dense() { // whose results depend on all channels of the source
		k.addPass("R12")
	}
	fn.I("TESTQ $1, %d(R14)", offFlags)
	fn.I("JNE %s_load", k.name)
	fn.I("MOVQ %d(R14), SI", offBias)
	k.addPass("SI")
	k.fromBias("SI")
	k.multiples(offDstCol)
	if k.kind == depth && k.passes { // whose second pass stores to lines that the first has written: fetching them is a twentieth of its instructions
		fn.I("CMPQ %d(R14), $0", offPass)
		fn.I("JNE %s_ready", k.name)
	}
	k.fetchResults()
	fn.Label(k.name + "_ready")
	k.multiples(offSrcCol)
	if k.dense() {
		k.lists()
	} else { // whose list is gone through once, and ends at the epilogue
		fn.I("MOVQ %d(R14), CX", offTaps)
		fn.I("ADDQ (DX), CX")
		k.next()
	}
	fn.Label(k.name + "_load")
	k.multiples(offDstCol)
	k.perPixel("acc", offDst, func(p, v, off int, at string) {
		fn.I("VMOVUPS %s, %s", at, k.acc(p, v))
	})
	fn.I("MOVQ %d(R14), DX", offAt)
	fn.I("JMP %s_ready", k.name)
}

// fromBias sets the accumulators to what lies at a register.
func (k *kernel) fromBias(at string) {
	for v := range k.vecs() {
		k.fn.I("VMOVUPS %d(%s), %s", v*k.isa.Lanes*4, at, k.acc(0, v))
	}
	for p := 1; p < k.pixels; p++ {
		for v := range k.vecs() {
			k.fn.I("VMOVAPS %s, %s", k.acc(0, v), k.acc(p, v))
		}
	}
}

// fetchResults has the lines fetched that results of a whole tile at DX are stored to, which may have to come from memory. Smaller tiles, of one
// pass, take less time than that may last, and have those of the tile behind them fetched.
func (k *kernel) fetchResults() {
	fn := k.fn
	tile := 0
	if k.isa == asm.AVX2() && !k.passes {
		tile = tileSize
	}
	fn.I("MOVQ %d(R14), SI", offDst)
	fn.I("ADDQ %d(DX), SI", tile+24)
	fn.I("MOVQ %d(R14), BX", offDstGroup)
	fn.I("ADDQ SI, BX")
	for q := range k.blocks {
		for p := range k.pixels {
			fn.I("PREFETCHT0 %s", k.pixel(p, 0, "SI", "BX"))
		}
		if q+1 < k.blocks {
			fn.I("ADDQ %d(R14), SI", offDstOC)
			fn.I("ADDQ %d(R14), BX", offDstOC)
		}
	}
}

// lists emits the jump to the first tap of the list for full channel blocks, or else of that for a partial one.
func (k *kernel) lists() {
	fn := k.fn
	fn.I("MOVQ %d(R14), SI", offTaps)
	fn.I("MOVQ SI, BX")
	fn.I("ADDQ (DX), SI")
	fn.I("ADDQ 8(DX), BX")
	fn.I("MOVQ SI, CX")
	fn.I("MOVQ SI, %d(R14)", offList)
	fn.I("MOVQ BX, %d(R14)", offListTail)
	fn.I("MOVQ %d(R14), AX", offFull)
	fn.I("MOVQ AX, %d(R14)", offLeft)
	fn.I("TESTQ AX, AX")
	fn.I("JEQ %s_onlytail", k.name)
	fn.I("CMPQ %d(R14), $0", offTail)
	fn.I("JNE %s_first", k.name)
	fn.I("MOVQ $0, %d(R14)", offListTail)
	fn.Label(k.name + "_first")
	k.next()
	fn.Label(k.name + "_onlytail")
	fn.I("MOVQ BX, CX")
	fn.I("MOVQ $0, %d(R14)", offListTail)
	k.next()
}

// addPass emits the step from the channels of the first pass to those of this one, where there are passes.
func (k *kernel) addPass(registers ...string) {
	for _, r := range registers {
		if k.passes {
			k.fn.I("ADDQ %d(R14), %s", offPass, r)
		}
	}
}

// end emits the code behind the last tap of a list of a dense kernel.
func (k *kernel) end() {
	fn := k.fn
	k.text("end")
	k.fetch()
	fn.I("DECQ %d(R14)", offLeft)
	fn.I("JLE %s_last", k.name)
	fn.I("ADDQ %d(R14), R12", offSrcBlk)
	fn.I("ADDQ %d(R14), R13", offWBlk)
	fn.I("MOVQ %d(R14), CX", offList)
	k.next()
	fn.Label(k.name + "_last")
	fn.I("MOVQ %d(R14), CX", offListTail)
	fn.I("TESTQ CX, CX")
	fn.I("JEQ %s_finish", k.name)
	fn.I("MOVQ $0, %d(R14)", offListTail)
	fn.I("ADDQ %d(R14), R12", offSrcBlk)
	fn.I("ADDQ %d(R14), R13", offWBlk)
	k.next()
	fn.Label(k.name + "_finish")
	fn.I("JMP %s_fin<>(SB)", k.name)
}

// fetch has what is read later fetched into the second-level cache, as far as the call says so: the source of the pixels that come behind those
// of the call, and the weights of the output channel blocks behind these.
func (k *kernel) fetch() {
	k.fetchBehind(func(s string) string { return k.name + "_" + s }, "R12")
}

// fetchBehind does so behind a block of channels whose source lies at a register: for weights 16 lines of each output channel block, or with vectors of
// 256 bits as many as the call says, and behind the next block of channels the lines behind those.
func (k *kernel) fetchBehind(label func(string) string, src string) {
	fn := k.fn
	fn.I("MOVQ %d(R14), AX", offAhead)
	fn.I("TESTQ AX, AX")
	fn.I("JEQ %s", label("nosource"))
	fn.I("ADDQ %s, AX", src)
	if k.beside {
		fn.I("LEAQ 256(AX), R15")
	} else {
		fn.I("MOVQ %d(R14), R15", offSrcGroup)
		fn.I("ADDQ AX, R15")
	}
	for p := range k.pixels {
		fn.I("PREFETCHT1 %s", k.pixel(p, 0, "AX", "R15"))
	}
	fn.Label(label("nosource"))
	fn.I("MOVQ %d(R14), AX", offAheadW)
	fn.I("CMPQ AX, %d(R14)", offAheadEnd)
	fn.I("JGE %s", label("noweights"))
	if k.isa == asm.AVX2() {
		fn.I("MOVQ %d(R14), R15", offAheadPairs)
		fn.Label(label("fetch"))
		fn.I("PREFETCHT1 (AX)")
		fn.I("PREFETCHT1 64(AX)")
		fn.I("ADDQ $128, AX")
		fn.I("DECQ R15")
		fn.I("JNE %s", label("fetch"))
		fn.I("MOVQ AX, %d(R14)", offAheadW)
	} else {
		for line := range 16 * k.blocks {
			fn.I("PREFETCHT1 %d(AX)", 64*line)
		}
		fn.I("ADDQ $%d, %d(R14)", 64*16*k.blocks, offAheadW)
	}
	fn.Label(label("noweights"))
}

// perPixel emits op for each vector of each pixel of the tile that is in use, with the operand of that pixel in the
// tensor whose pointer is at offset base of the call. It uses SI, BX, DX (the tile), AX and DI.
func (k *kernel) perPixel(tag string, base int, op func(p, v, off int, at string)) {
	fn := k.fn
	label := func(s string) string { return fmt.Sprintf("%s_%s_%s", k.name, tag, s) }
	pixelOps := func(p, q int) {
		for h := range k.halvesOf(q) {
			op(p, q*k.halves()+h, h*32, k.pixel(p, h*32, "SI", "BX"))
		}
	}
	fn.I("MOVQ %d(R14), SI", base)
	fn.I("ADDQ 24(DX), SI")
	k.addPass("SI")
	fn.I("MOVQ %d(R14), BX", offDstGroup)
	fn.I("ADDQ SI, BX")
	fn.I("MOVQ 32(DX), AX")
	fn.I("MOVQ 40(DX), DI")
	fn.I("MOVQ AX, R15")
	fn.I("ADDQ DI, R15")
	fn.I("CMPQ R15, $%d", k.pixels)
	fn.I("JNE %s", label("part"))
	for q := range k.blocks {
		for p := range k.pixels {
			pixelOps(p, q)
		}
		if q+1 < k.blocks {
			fn.I("ADDQ %d(R14), SI", offDstOC)
			fn.I("ADDQ %d(R14), BX", offDstOC)
		}
	}
	fn.I("JMP %s", label("done"))
	fn.Label(label("part"))
	for q := range k.blocks {
		for p := range k.group {
			fn.I("CMPQ AX, $%d", p)
			fn.I("JLE %s", label(fmt.Sprintf("a%d", q)))
			pixelOps(p, q)
		}
		fn.Label(label(fmt.Sprintf("a%d", q)))
		for p := k.group; p < k.pixels; p++ {
			fn.I("CMPQ DI, $%d", p-k.group)
			fn.I("JLE %s", label(fmt.Sprintf("b%d", q)))
			pixelOps(p, q)
		}
		fn.Label(label(fmt.Sprintf("b%d", q)))
		if q+1 < k.blocks {
			fn.I("ADDQ %d(R14), SI", offDstOC)
			fn.I("ADDQ %d(R14), BX", offDstOC)
		}
	}
	fn.Label(label("done"))
}

// finish emits the epilogue of a tile: scale, residual, limits, mask, store; then the next tile or the return.
func (k *kernel) finish() {
	fn := k.fn
	k.text("fin")
	fn.I("MOVQ %d(R14), DX", offAt)
	if k.alongs() {
		k.alongResults()
	}
	if k.kind == sumPool {
		fn.I("MOVQ %d(R14), SI", offScale)
		fn.I("ADDQ 48(DX), SI")
		for p := range k.pixels {
			fn.I("VBROADCASTSS %d(SI), %s", 4*p, k.free(0))
			for v := range k.vecs() {
				fn.I("VMULPS %s, %s, %s", k.free(0), k.acc(p, v), k.acc(p, v))
			}
		}
	}
	k.multiples(offDstCol)
	fn.I("CMPQ %d(R14), $0", offRes)
	fn.I("JEQ %s_nores", k.name)
	k.perPixel("res", offRes, func(p, v, off int, at string) {
		fn.I("VADDPS %s, %s, %s", at, k.acc(p, v), k.acc(p, v))
	})
	fn.Label(k.name + "_nores")
	fn.I("MOVQ %d(R14), AX", offFlags)
	k.limits(k.pixels, func(s string) string { return k.name + "_" + s })
	fn.I("TESTQ $8, AX")
	fn.I("JEQ %s_nomask", k.name)
	fn.I("MOVQ R14, SI")
	k.addPass("SI")
	for h := range k.halvesOf(k.blocks - 1) {
		fn.I("VMOVUPS %d(SI), %s", offMask+h*32, k.free(0))
		for p := range k.pixels {
			a := k.acc(p, (k.blocks-1)*k.halves()+h)
			fn.I("VANDPS %s, %s, %s", k.free(0), a, a)
		}
	}
	fn.Label(k.name + "_nomask")
	if k.lower {
		fn.I("VXORPS %s, %s, %s", k.free(0), k.free(0), k.free(0))
	}
	k.perPixel("out", offDst, func(p, v, off int, at string) {
		fn.I("VMOVUPS %s, %s", k.acc(p, v), at)
		if k.lower && v == k.vecs()-1 {
			fn.I("VMOVUPS %s, %s", k.free(0), k.pixel(p, 32, "SI", "BX"))
		}
	})
	if k.passes {
		fn.I("MOVQ %d(R14), AX", offFlags)
		fn.I("TESTQ $16, AX")
		fn.I("JNE %s_half", k.name)
		fn.I("XORQ $%d, %d(R14)", k.isa.Size(), offPass)
		fn.I("JNE %s_again", k.name)
		fn.Label(k.name + "_next")
	}
	fn.I("ADDQ $64, %d(R14)", offAt)
	fn.I("DECQ %d(R14)", offN)
	fn.I("JLE %s_return", k.name)
	if k.passes {
		fn.Label(k.name + "_again")
	}
	for _, own := range []struct {
		has  bool
		flag int
		part string
	}{{k.points(), k.pointsFlag(), "point"}, {k.planes(), flagPlanes, "planar"}, {k.alongs(), flagLine, "along"}} {
		if !own.has {
			continue
		}
		other := fmt.Sprintf("%s_not%s", k.name, own.part)
		fn.I("TESTQ $%d, %d(R14)", own.flag, offFlags)
		fn.I("JEQ %s", other)
		fn.I("LEAQ %s_%s<>(SB), AX", k.name, own.part) // which the linker does not take for a call that never returns
		fn.I("JMP AX")
		fn.Label(other)
	}
	fn.I("JMP %s_tile<>(SB)", k.name)
	fn.Label(k.name + "_return")
	fn.Ret()
	if k.passes {
		k.half()
	}
}

// limits emits what holds n pixels back, by the flags in AX.
func (k *kernel) limits(n int, label func(string) string) {
	fn := k.fn
	for _, l := range []struct {
		bit, off int
		op       string
	}{{2, offLo, "VMAXPS"}, {4, offHi, "VMINPS"}} {
		fn.I("TESTQ $%d, AX", l.bit)
		fn.I("JEQ %s", label("no"+l.op))
		fn.I("VBROADCASTSS %d(R14), %s", l.off, k.free(0))
		for p := range n {
			for v := range k.vecs() {
				// The accumulator is the operand that VMAXPS returns where one is NaN.
				fn.I("%s %s, %s, %s", l.op, k.acc(p, v), k.free(0), k.acc(p, v))
			}
		}
		fn.Label(label("no" + l.op))
	}
}

// half emits what a tile of one pass ends with: zeros in the channels of the other, where that is asked for.
func (k *kernel) half() {
	fn := k.fn
	fn.Label(k.name + "_half")
	fn.I("TESTQ $32, AX")
	fn.I("JEQ %s_next", k.name)
	fn.I("XORQ $%d, %d(R14)", k.isa.Size(), offPass)
	fn.I("VXORPS %s, %s, %s", k.free(0), k.free(0), k.free(0))
	k.perPixel("zero", offDst, func(_, _, _ int, at string) {
		fn.I("VMOVUPS %s, %s", k.free(0), at)
	})
	fn.I("XORQ $%d, %d(R14)", k.isa.Size(), offPass)
	fn.I("JMP %s_next", k.name)
}

// laneTable is the name of the tables that say from which lane the lanes of a pixel take the i-th channel of their group: for
// groups of two channels, then of four, then of eight, a row of 16 for each i. Vectors of 256 bits do without.
const laneTable = "lanes"

func laneTables(f *asm.File) {
	var words []uint32
	for n := uint32(2); n <= 8; n *= 2 {
		for i := range n {
			for l := range uint32(16) {
				words = append(words, l&^(n-1)+i)
			}
		}
	}
	f.Data(laneTable, words...)
}

// table emits the addresses of the bodies, of the end of the list and of the bodies of rows, and the function that returns
// the table.
func (k *kernel) table(f *asm.File, n, rows int) {
	fn := k.fn
	fn.I("")
	entry := func(i int, part string) { fn.I("DATA %s_bodies<>+%d(SB)/8, $%s_%s<>(SB)", k.name, 8*i, k.name, part) }
	for i := range n {
		entry(i, fmt.Sprintf("b%d", i))
	}
	if k.dense() {
		entry(n, "end")
	} else {
		entry(n, "fin")
	}
	for i := range rows {
		entry(n+1+i, fmt.Sprintf("r%d", i))
	}
	fn.I("GLOBL %s_bodies<>(SB), RODATA|NOPTR, $%d", k.name, 8*(n+1+rows))
	get := f.Func(k.name+"Bodies", fmt.Sprintf("%sBodies returns the addresses of the %d tap bodies of %s, the end of the list, and %d bodies of rows.", k.name, n, k.name, rows))
	get.Result("table", fmt.Sprintf("*[%d]uintptr", n+1+rows))
	get.I("LEAQ %s_bodies<>(SB), AX", k.name)
	get.I("MOVQ AX, %s", get.Addr("table"))
	get.Ret()
}
