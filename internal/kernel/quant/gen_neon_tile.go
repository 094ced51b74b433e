//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neonTiles writes the kernels of products for NEON: those of processors with SDOT and UDOT, which multiply operands of one signedness, and
// those of processors with USDOT and SUDOT besides.
func neonTiles(f *asm.File) {
	const params = "p *tileParams, a *byte, rows *int, b *byte, start, c *int32, n int"
	for _, mixed := range []bool{false, true} {
		family := neonFamily(mixed)
		table(f, "callTile"+family, "p, a, rows, b, start, c, n", params, []int{1}, func(height, _ int, signed bool) string {
			return (&neonTile{height: height, signed: signed, mixed: mixed}).emit(f)
		})
	}
	const with = "(signed, height, width, p, a, rows, b, start, c, n)"
	f.Serve("callTile", asm.NEON(), "if by == mixed {\ncallTileMixed"+with+"\n} else {\ncallTileDot"+with+"\n}")
	neonStarts(f)
	neonTaps(f)
	checkOffsets(f)
}

func neonFamily(mixed bool) string {
	if mixed {
		return "Mixed"
	}
	return "Dot"
}

// neonTile is a kernel for NEON being written: sums of height rows of A times a panel of B, n tiles one below the other. A vector has four
// columns of four k, or sixteen k of a row, of which an instruction takes four as a lane. Where instructions want one signedness the upper
// bits of A are turned around; what that takes off or adds the sums begin with (neonStarts).
//
// Registers: R0 params, R1 b, R2 segments, R3 those left, R4 quads left, R5 element of the segment, R6 rows, R7 to R12 their addresses, R13
// to R17 and R19 the same in the segment, R20 c, R21 tiles left, R22 scratch, R23 a. Vectors: the sums row by row, then elements of A,
// then columns of B; the last one has the upper bits.
type neonTile struct {
	*asm.Func
	height        int
	signed, mixed bool
}

const panelVectors = 4 // of the 16 columns of a panel

func (t *neonTile) sum(r, j int) int { return panelVectors*r + j }
func (t *neonTile) a(r int) int      { return panelVectors*t.height + r }

func (t *neonTile) b(j int) int {
	first, last := t.a(t.height), 31
	if !t.mixed {
		last--
	}
	return first + j%(last+1-first)
}

func (t *neonTile) row(r int) string { return fmt.Sprintf("R%d", 7+r) }

func (t *neonTile) at(r int) string { return []string{"R13", "R14", "R15", "R16", "R17", "R19"}[r] }

func (t *neonTile) emit(f *asm.File) string {
	name := kernelName(neonFamily(t.mixed), t.height, 1, t.signed)
	t.Func = f.Func(name, fmt.Sprintf("%s sums n tiles of %d rows; n > 0; see tileParams.", name, t.height),
		pointer("p", "tileParams"), pointer("a", "byte"), pointer("rows", "int"), pointer("b", "byte"), pointer("start", "int32"),
		pointer("c", "int32"), asm.Int("n"))
	for _, x := range [][2]string{{"p", "R0"}, {"a", "R23"}, {"rows", "R6"}, {"c", "R20"}, {"n", "R21"}} {
		t.Load(x[0], x[1])
	}
	if !t.mixed {
		t.I("VMOVI $128, V31.B16")
	}
	t.Loop("R21", func() {
		for r := range t.height {
			t.I("MOVD.P 8(R6), %s", t.row(r))
			t.I("ADD R23, %s", t.row(r))
		}
		t.Load("start", "R22")
		for j := range panelVectors {
			t.I("FMOVQ %d(R22), F%d", 16*j, t.sum(0, j))
			for r := 1; r < t.height; r++ {
				t.I("VMOV V%d.B16, V%d.B16", t.sum(0, j), t.sum(r, j))
			}
		}
		t.Load("b", "R1")
		t.I("MOVD %d(R0), R2", offSegments)
		t.I("MOVD %d(R0), R3", offCount)
		t.Loop("R3", t.segment)
		t.I("MOVD %d(R0), R22", offLDC)
		for r := range t.height {
			for j := range panelVectors {
				t.I("FMOVQ F%d, %d(R20)", t.sum(r, j), 16*j)
			}
			t.I("ADD R22, R20")
		}
	})
	t.Ret()
	return name
}

// segment emits the loop over the quads of a segment, four at a time, and its remainder.
func (t *neonTile) segment() {
	t.I("MOVD.P 8(R2), R5")
	t.I("MOVD %d(R0), R4", offQuads)
	for r := range t.height {
		t.I("ADD R5, %s, %s", t.row(r), t.at(r))
	}
	for _, quads := range []int{4, 1} {
		t.While("R4", quads, func() {
			for r := range t.height {
				t.I("%s %d(%s), F%d", map[int]string{4: "FMOVQ.P", 1: "FMOVS.P"}[quads], 4*quads, t.at(r), t.a(r))
				if !t.mixed {
					t.V("eor.16b", t.a(r), t.a(r), 31)
				}
			}
			for u := range quads {
				t.quad(u)
			}
			t.I("ADD $%d, R1", 64*quads)
		})
	}
}

// quad emits four k, those of lane u of the elements of A.
func (t *neonTile) quad(u int) {
	op := map[[2]bool]string{{true, true}: "sudot.4s", {true, false}: "usdot.4s", {false, true}: "sdot.4s", {false, false}: "udot.4s"}[[2]bool{t.mixed, t.signed}]
	for j := range panelVectors {
		t.I("FMOVQ %d(R1), F%d", 64*u+16*j, t.b(j))
		for r := range t.height {
			t.VLane(op, t.sum(r, j), t.b(j), t.a(r), u)
		}
	}
}

// neonStarts writes the kernels of what sums begin with where the upper bits of A are turned around: A is then 128 less than it was where B
// is signed, and 128 more where it is not.
func neonStarts(f *asm.File) {
	for _, k := range kinds {
		signed := k.name == "Signed"
		name := "starts" + k.name
		fn := f.Func(name, name+" writes start and 128 times the sums of a panel's columns, of so many quads; quads > 0.",
			pointer("dst", "int32"), pointer("start", "int32"), pointer("b", "byte"), asm.Int("quads"))
		for i, arg := range []string{"dst", "start", "b", "quads"} {
			fn.Load(arg, fmt.Sprintf("R%d", i))
		}
		fn.I("VMOVI $1, V8.B16")
		for j := range panelVectors {
			fn.Clear(asm.NEON(), fmt.Sprint("V", j))
		}
		fn.Loop("R3", func() {
			for j := range panelVectors {
				fn.I("FMOVQ.P 16(R2), F%d", 4+j)
				fn.V(map[bool]string{true: "sdot.4s", false: "udot.4s"}[signed], j, 4+j, 8)
			}
		})
		for j := range panelVectors {
			fn.VShift("shl.4s", j, j, 7)
			fn.I("FMOVQ.P 16(R1), F%d", 4+j)
			fn.V(map[bool]string{true: "add.4s", false: "sub.4s"}[signed], j, 4+j, j)
			fn.I("FMOVQ.P F%d, 16(R0)", j)
		}
		fn.Ret()
	}
	f.Serve("starts", asm.NEON(), "if signed {\nstartsSigned(dst, start, b, quads)\n} else {\nstartsUnsigned(dst, start, b, quads)\n}")
}

// neonTaps writes the kernels of depthwise convolutions: weights of a pair of taps are put in the order of channels once for two pixels,
// which are widened and multiplied.
//
// Registers: R0 params, R1 a, R2 rows, R3 w, R4 start, R5 c, R6 pixels left, R7 offsets of taps, R8 pairs left, R9 and R10 the pixels,
// R11 and R12 offsets of two taps, R13 scratch. Vectors: four sums for each pixel, then weights from 8 on, then scratch.
func neonTaps(f *asm.File) {
	for _, k := range kinds {
		name := "taps" + k.name + "NEON"
		fn := f.Func(name, name+" sums taps of n pixels of 16 channels; n > 0; see tileParams.",
			pointer("p", "tileParams"), pointer("a", "byte"), pointer("rows", "int"), pointer("w", "int16"), pointer("start", "int32"),
			pointer("c", "int32"), asm.Int("n"))
		for i, arg := range []string{"p", "a", "rows", "w", "start", "c", "n"} {
			fn.Load(arg, fmt.Sprintf("R%d", i))
		}
		extend := map[string]string{"Signed": "sxtl", "Unsigned": "uxtl"}[k.name]
		fn.While("R6", 2, func() { neonPixels(fn, 2, extend) })
		fn.While("R6", 1, func() { neonPixels(fn, 1, extend) })
		fn.Ret()
	}
	const with = "(p, a, rows, w, start, c, n)"
	f.Serve("callTaps", asm.NEON(), "if signed {\ntapsSignedNEON"+with+"\n} else {\ntapsUnsignedNEON"+with+"\n}")
}

func neonPixels(fn *asm.Func, pixels int, extend string) {
	for i := range pixels {
		fn.I("MOVD.P 8(R2), R%d", 9+i)
		fn.I("ADD R1, R%d", 9+i)
		for j := range panelVectors {
			fn.I("FMOVQ %d(R4), F%d", 16*j, 4*i+j)
		}
	}
	fn.Load("w", "R3")
	fn.I("MOVD %d(R0), R7", offSegments)
	fn.I("MOVD %d(R0), R8", offCount)
	fn.While("R8", 1, func() {
		fn.I("LDP.P 16(R7), (R11, R12)")
		for j := range panelVectors {
			fn.I("FMOVQ.P 16(R3), F%d", 12+j)
		}
		for half := range 2 { // channels from 8·half on, of the first tap and of the second
			fn.V("uzp1.8h", 8+half, 12+half, 14+half)
			fn.V("uzp2.8h", 10+half, 12+half, 14+half)
		}
		for i := range pixels {
			for tap := range 2 {
				fn.I("ADD R%d, R%d, R13", 11+tap, 9+i)
				fn.I("FMOVQ (R13), F16")
				fn.V(extend+".8h", 17, 16)
				fn.V(extend+"2.8h", 18, 16)
				for half := range 2 {
					fn.V("smlal.4s", 4*i+2*half, 17+half, 8+2*tap+half)
					fn.V("smlal2.4s", 4*i+2*half+1, 17+half, 8+2*tap+half)
				}
			}
		}
	})
	fn.I("MOVD %d(R0), R13", offLDC)
	for i := range pixels {
		for j := range panelVectors {
			fn.I("FMOVQ F%d, %d(R5)", 4*i+j, 16*j)
		}
		fn.I("ADD R13, R5")
	}
}
