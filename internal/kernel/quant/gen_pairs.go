//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Offsets of the fields of pairsParams, in bytes.
const (
	offPairsQuads = 0
	offPairsLDA   = 8
	offPairsLDB   = 16
	offPairsLDC   = 24
	offPairsLDS   = 32
	offPairsTurns = 40
	offPairsSigns = 56
)

// Offsets of the fields of excess, and its size.
const (
	offExcessAt    = 0
	offExcessBytes = 4
	excessSize     = 8
)

// pairKinds are the kinds of operands of products in pairs, by their number: whether B is signed, and whether it is turned to be not.
var pairKinds = []struct {
	name           string
	signed, turned bool
}{{"Unsigned", false, false}, {"Signed", true, false}, {"Turned", false, true}}

// upperBits is a vector of the upper bits of bytes.
const upperBits = "upperBits"

// pairs writes the kernels that add products of bytes in pairs, for AVX2.
func pairs(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{{"Offsetof(pairsParams{}.quads)", offPairsQuads}, {"Offsetof(pairsParams{}.lda)", offPairsLDA}, {"Offsetof(pairsParams{}.ldb)", offPairsLDB},
		{"Offsetof(pairsParams{}.ldc)", offPairsLDC}, {"Offsetof(pairsParams{}.lds)", offPairsLDS}, {"Offsetof(pairsParams{}.turns)", offPairsTurns}, {"Offsetof(pairsParams{}.signs)", offPairsSigns},
		{"Offsetof(excess{}.at)", offExcessAt}, {"Offsetof(excess{}.bytes)", offExcessBytes}, {"Sizeof(excess{})", excessSize}} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.%s-%d]\n", c.name, c.off)
	}
	f.Go(src + ")\n")
	words := make([]uint32, 8)
	for i := range words {
		words[i] = 0x80808080
	}
	f.Data(upperBits, words...)
	var code, adds string
	for i := range pairKinds {
		for height := 1; height <= tileHeight; height++ {
			t := &paired{kind: i, height: height}
			code += fmt.Sprintf("case %d:\n%s(p, a, b, start, c, n, p.columns)\n", 8*i+height, t.emit(f))
		}
		adds += fmt.Sprintf("case %d:\n%s(p, list, ends, rows, b, c, n)\n", i, addExcess(f, i))
	}
	f.Serve("callPairs", asm.AVX2(), "switch 8*int(kind) + height {\n"+code+"}")
	f.Serve("addExcess", asm.AVX2(), "switch kind {\n"+adds+"}")
	f.Serve("lessenExcess", asm.AVX2(), fmt.Sprintf("if signed {\n%s(list, src, masks, ends, groups, rows)\n} else {\n%s(list, src, masks, ends, groups, rows)\n}", lessens(f, true), lessens(f, false)))
	f.Serve("findExcess", asm.AVX2(), fmt.Sprintf("if signed {\nreturn %s(masks, src, n)\n}\nreturn %s(masks, src, n)", findExcess(f, true), findExcess(f, false)))
}

// paired is a kernel being written: sums of height rows of bytes times a panel of B, n panels side by side. No two products of a pair
// together outgrow 16 bits; see pairs.go.
//
// Registers: AX b, BX the place in the rows, CX quads left, DI params, SI the distance of panels, R8 to R13 the rows of A; behind the last
// quad DX is where start points, R14 where c does, R15 where turns do and CX where columns do. Vectors 0 to 11 are sums, 12 and 13 quads of B, 14 one of A, 15
// words of one. Up to five rows leave vector 10 to products, and 11 to upper bits: memory is read less often.
type paired struct {
	*asm.Func
	kind, height int

	optional bool // columns may be nil, and add nothing then
}

func (t *paired) emit(f *asm.File) string {
	name := fmt.Sprintf("pairs%s_%d", pairKinds[t.kind].name, t.height)
	t.begin(f, name)
	wordsOfOne(t.Func)
	if t.height <= lowPairs {
		loadUpper(t.Func, t.kind, 11)
	}
	next := nextPanel(t.Func, asm.AVX2(), t.height)
	unrolled(t.Func, 2, t.quad, func(n int) {
		next(n)
		t.I("ADDQ $%d, BX", 4*n)
		t.I("ADDQ $%d, AX", 64*n)
	})
	t.end()
	return name
}

// begin emits what stands before the loop over quads: sums are 0.
func (t *paired) begin(f *asm.File, name string) {
	t.Func = f.Func(name, fmt.Sprintf("%s sums n tiles of %d rows, side by side; n > 0, columns = p.columns; see pairsParams.", name, t.height),
		asm.Typed("p", "*pairsParams"), asm.Typed("a", "*byte"), asm.Typed("b", "*byte"), asm.Typed("start", "*int32"), asm.Typed("c", "*int32"), asm.Int("n"), asm.Typed("columns", "*int32"))
	t.Load("p", "DI")
	t.I("MOVQ %d(DI), SI", offPairsLDB)
	t.Load("a", row(0))
	for r := range t.height - 1 {
		t.I("MOVQ %s, %s", row(r), row(r+1))
		t.I("ADDQ %d(DI), %s", offPairsLDA, row(r+1))
	}
	t.Label("tile")
	for i := range 2 * t.height {
		t.I("VPXOR Y%[1]d, Y%[1]d, Y%[1]d", i)
	}
	t.Load("b", "AX")
	t.I("XORQ BX, BX")
	t.I("MOVQ %d(DI), CX", offPairsQuads)
}

// end emits what stands behind it: sums are stored, and the next panel's follow.
func (t *paired) end() {
	turned := pairKinds[t.kind].turned
	t.Load("start", "DX")
	t.Load("c", "R14")
	if turned {
		t.I("MOVQ %d(DI), R15", offPairsTurns)
		t.Load("columns", "CX")
		if t.optional {
			t.I("VPXOR Y12, Y12, Y12")
			t.I("VPXOR Y13, Y13, Y13")
			t.I("TESTQ CX, CX")
			t.I("JZ none")
		}
		t.I("ADDQ $64, %s", t.Addr("columns"))
		for j := range 2 { // 128 times the sums
			t.I("VMOVDQU %d(CX), Y%d", 32*j, 12+j)
			t.I("VPSLLD $7, Y%[1]d, Y%[1]d", 12+j)
		}
		if t.optional {
			t.Label("none")
		}
	}
	for r := range t.height {
		if turned {
			t.I("VPBROADCASTD %d(R15), Y14", 4*r)
		}
		for j := range 2 {
			sum := fmt.Sprintf("Y%d", 2*r+j)
			if turned {
				t.I("VPADDD Y14, %[1]s, %[1]s", sum)
				t.I("VPADDD Y%d, %[2]s, %[2]s", 12+j, sum)
			}
			t.I("VPADDD %d(DX), %[2]s, %[2]s", 32*j, sum)
			t.I("VMOVDQU %s, %d(R14)", sum, 32*j)
		}
		t.I("ADDQ %d(DI), DX", offPairsLDS)
		t.I("ADDQ %d(DI), R14", offPairsLDC)
	}
	t.I("ADDQ SI, %s", t.Addr("b"))
	t.I("ADDQ $64, %s", t.Addr("start"))
	t.I("ADDQ $64, %s", t.Addr("c"))
	t.I("DECQ %s", t.Addr("n"))
	t.I("JNZ tile")
	t.Ret()
}

// lowPairs is the most rows of a tile of pairs that leaves two vectors.
const lowPairs = 5

// quad emits four k.
func (t *paired) quad(u int) {
	low := t.height <= lowPairs
	for j := range 2 {
		if low {
			loadHalf(t.Func, t.kind, 64*u+32*j, "AX", 12+j, 11)
		} else {
			loadHalf(t.Func, t.kind, 64*u+32*j, "AX", 12+j, -1)
		}
	}
	for r := range t.height {
		t.I("VPBROADCASTD %d(%s)(BX*1), Y14", 4*u, row(r))
		if low {
			multiplyBytes(t.Func, t.kind, 12, 14, 10)
			addWords(t.Func, 10, 2*r)
		} else {
			multiplyBytes(t.Func, t.kind, 12, 14, 14)
			addWords(t.Func, 14, 2*r)
			t.I("VPBROADCASTD %d(%s)(BX*1), Y14", 4*u, row(r))
		}
		multiplyBytes(t.Func, t.kind, 13, 14, 14)
		addWords(t.Func, 14, 2*r+1)
	}
}

// wordsOfOne loads words of one to vector 15.
func wordsOfOne(fn *asm.Func) {
	fn.I("VPCMPEQW Y15, Y15, Y15")
	fn.I("VPSRLW $15, Y15, Y15")
}

// loadUpper loads the upper bits of bytes to a vector where operands of a kind are turned.
func loadUpper(fn *asm.Func, kind, to int) {
	if pairKinds[kind].turned {
		fn.I("VMOVDQU %s, Y%d", asm.DataAt(upperBits, 0), to)
	}
}

// loadHalf loads half a quad of a panel of B to a vector, turned by the upper bits of a vector, or, where its number is negative, of memory.
func loadHalf(fn *asm.Func, kind, off int, at string, to, upper int) {
	switch {
	case !pairKinds[kind].turned:
		fn.I("VMOVDQU %d(%s), Y%d", off, at, to)
	case upper < 0:
		fn.I("VMOVDQU %d(%s), Y%d", off, at, to)
		fn.I("VPXOR %s, Y%[2]d, Y%[2]d", asm.DataAt(upperBits, 0), to)
	default:
		fn.I("VPXOR %d(%s), Y%d, Y%d", off, at, upper, to)
	}
}

// multiplyBytes multiplies vectors of B and A.
func multiplyBytes(fn *asm.Func, kind, b, a, to int) {
	if pairKinds[kind].signed {
		fn.I("VPMADDUBSW Y%d, Y%d, Y%d", b, a, to)
	} else {
		fn.I("VPMADDUBSW Y%d, Y%d, Y%d", a, b, to)
	}
}

// addWords adds words of a vector, which is overwritten, to sums. Vector 15 has words of one.
func addWords(fn *asm.Func, from, sum int) {
	fn.I("VPMADDWD Y15, Y%[1]d, Y%[1]d", from)
	fn.I("VPADDD Y%d, Y%[2]d, Y%[2]d", from, sum)
}

// addExcess writes the kernel that adds to rows what their pairs were lessened by, and returns its name: a panel is read for all rows before the next.
//
// Registers: DI params, R8 b, DX where rows of sums begin and R14 where one does, R9 panels left, SI the list, R10 ends of parts of it and R11 rows left, R12 the number of
// entries before, CX entries left, AX a quad.
func addExcess(f *asm.File, kind int) string {
	name := "excess" + pairKinds[kind].name
	fn := f.Func(name, name+" adds the products of what a list has, up to an end for each row, with n panels of B to so many rows of sums; n, rows > 0.",
		asm.Typed("p", "*pairsParams"), asm.Typed("list", "*excess"), asm.Typed("ends", "*int"), asm.Int("rows"), asm.Typed("b", "*byte"), asm.Typed("c", "*int32"), asm.Int("n"))
	fn.Load("p", "DI")
	fn.Load("b", "R8")
	fn.Load("c", "DX")
	fn.Load("n", "R9")
	wordsOfOne(fn)
	loadUpper(fn, kind, 11)
	fn.Loop("R9", func() {
		fn.Load("list", "SI")
		fn.Load("ends", "R10")
		fn.Load("rows", "R11")
		fn.I("MOVQ DX, R14")
		fn.I("XORQ R12, R12")
		fn.Loop("R11", func() {
			next := fn.NewLabel("next")
			fn.I("MOVQ (R10), CX")
			fn.I("SUBQ R12, CX")
			fn.I("JZ %s", next)
			fn.I("ADDQ CX, R12")
			fn.I("VMOVDQU (R14), Y0")
			fn.I("VMOVDQU 32(R14), Y1")
			fn.Loop("CX", func() {
				fn.I("MOVL %d(SI), AX", offExcessAt)
				fn.I("VPBROADCASTD %d(SI), Y14", offExcessBytes)
				fn.I("ADDQ R8, AX")
				for j := range 2 {
					if pairKinds[kind].signed {
						fn.I("VPMADDUBSW %d(AX), Y14, Y%d", 32*j, 12+j)
					} else {
						loadHalf(fn, kind, 32*j, "AX", 12+j, 11)
						multiplyBytes(fn, kind, 12+j, 14, 12+j)
					}
					addWords(fn, 12+j, j)
				}
				fn.I("ADDQ $%d, SI", excessSize)
			})
			fn.I("VMOVDQU Y0, (R14)")
			fn.I("VMOVDQU Y1, 32(R14)")
			fn.Label(next)
			fn.I("ADDQ $8, R10")
			fn.I("ADDQ %d(DI), R14", offPairsLDC)
		})
		fn.I("ADDQ $64, DX")
		fn.I("ADDQ %d(DI), R8", offPairsLDB)
	})
	fn.Ret()
	return name
}

// lessens writes the kernel that lessens pairs that add up to too much, and returns its name.
//
// Registers: DI list, SI bytes, R8 masks, R9 ends, DX rows left, CX groups left, R10 the place of a group in a panel of B, R11 what a quad is lessened by, R12 the number of entries,
// AX quads left and BX one. Vectors: 0 bytes, 1 sums of pairs, 2 what these are too large by and 3 too small, 4 the first ones of pairs, 5 and 6 what they are lessened by, 13 zeros, 14 the
// largest sum, 15 bytes of one.
func lessens(f *asm.File, signed bool) string {
	kind, most := "Unsigned", 256
	if signed {
		kind, most = "Signed", 128
	}
	name := "lessen" + kind
	fn := f.Func(name, name+" lessens the pairs that add up to too much in so many rows of groups of 32 bytes, and lists what by, with the end of each row's part of the list; rows, groups > 0.",
		asm.Typed("list", "*excess"), asm.Typed("src", "*byte"), asm.Typed("masks", "*uint32"), asm.Typed("ends", "*int"), asm.Int("groups"), asm.Int("rows"))
	fn.Frame(32)
	for _, x := range [][2]string{{"list", "DI"}, {"src", "SI"}, {"masks", "R8"}, {"ends", "R9"}, {"rows", "DX"}} {
		fn.Load(x[0], x[1])
	}
	fn.I("MOVL $%d, AX", most|most<<16)
	fn.I("VMOVD AX, X14")
	fn.I("VPBROADCASTD X14, Y14")
	fn.I("VPCMPEQB Y15, Y15, Y15")
	fn.I("VPABSB Y15, Y15")
	fn.I("VPXOR Y13, Y13, Y13")
	fn.I("XORQ R12, R12")
	fn.Loop("DX", func() {
		fn.Load("groups", "CX")
		fn.I("XORQ R10, R10")
		fn.Loop("CX", func() {
			next, quad := fn.NewLabel("next"), fn.NewLabel("quad")
			fn.I("CMPL (R8), $0")
			fn.I("JEQ %s", next)
			fn.I("VMOVDQU (SI), Y0")
			lessenPair(fn, signed)
			fn.I("VPSUBW Y5, Y2, Y6")
			fn.I("VPSLLW $8, Y6, Y6")
			fn.I("VPSLLW $8, Y5, Y5")
			fn.I("VPSRLW $8, Y5, Y5")
			fn.I("VPOR Y6, Y5, Y5")
			fn.I("VPSUBB Y5, Y0, Y0")
			fn.I("VMOVDQU Y0, (SI)")
			fn.I("VMOVDQU Y5, 0(SP)")
			fn.I("VPCMPEQD Y13, Y5, Y5")
			fn.I("VMOVMSKPS Y5, AX")
			fn.I("XORL $255, AX")
			fn.Label(quad)
			fn.I("BSFL AX, BX")
			fn.I("MOVL 0(SP)(BX*4), R11")
			fn.I("SHLL $6, BX")
			fn.I("ADDL R10, BX")
			fn.I("MOVL BX, %d(DI)", offExcessAt)
			fn.I("MOVL R11, %d(DI)", offExcessBytes)
			fn.I("ADDQ $%d, DI", excessSize)
			fn.I("INCQ R12")
			fn.I("LEAL -1(AX), BX")
			fn.I("ANDL BX, AX")
			fn.I("JNZ %s", quad)
			fn.Label(next)
			fn.I("ADDQ $4, R8")
			fn.I("ADDQ $32, SI")
			fn.I("ADDL $512, R10")
		})
		fn.I("MOVQ R12, (R9)")
		fn.I("ADDQ $8, R9")
	})
	fn.Ret()
	return name
}

// lessenPair emits what pairs of vector 0 are too much by, to vector 2, and what of it the first ones are lessened by, to 5: as much as they have.
func lessenPair(fn *asm.Func, signed bool) {
	if !signed {
		fn.I("VPMADDUBSW Y15, Y0, Y1")
		fn.I("VPSUBUSW Y14, Y1, Y2")
		fn.I("VPSLLW $8, Y0, Y4")
		fn.I("VPSRLW $8, Y4, Y4")
		fn.I("VPMINUW Y4, Y2, Y5")
		return
	}
	fn.I("VPMADDUBSW Y0, Y15, Y1")
	fn.I("VPSUBW Y14, Y1, Y2")
	fn.I("VPMAXSW Y13, Y2, Y2")
	fn.I("VPADDW Y14, Y1, Y3")
	fn.I("VPMINSW Y13, Y3, Y3")
	fn.I("VPSLLW $8, Y0, Y4")
	fn.I("VPSRAW $8, Y4, Y4")
	fn.I("VPMAXSW Y13, Y4, Y5")
	fn.I("VPMINSW Y2, Y5, Y5")
	fn.I("VPMINSW Y13, Y4, Y4")
	fn.I("VPMAXSW Y3, Y4, Y4")
	fn.I("VPADDW Y4, Y5, Y5")
	fn.I("VPADDW Y3, Y2, Y2")
}

// findExcess writes the kernel that finds pairs whose sum is too large, and returns its name.
func findExcess(f *asm.File, signed bool) string {
	kind, most := "Unsigned", 256
	if signed {
		kind, most = "Signed", 128
	}
	name := "find" + kind
	doc := fmt.Sprintf("%s writes for each of n groups of 32 bytes which pairs add up to more than %d: two bits each; n > 0. It returns the number of these bits.", name, most)
	return finder(f, name, doc, most, func(fn *asm.Func) {}, func(fn *asm.Func) {
		if signed {
			fn.I("VPMADDUBSW (SI), Y15, Y0")
			fn.I("VPABSW Y0, Y0")
		} else {
			fn.I("VMOVDQU (SI), Y0")
			fn.I("VPMADDUBSW Y15, Y0, Y0")
		}
	})
}

// finder writes a kernel that writes for each of n groups of 32 bytes at SI in which words of vector 0, as add makes them of the bytes, there is more than
// most, and returns how many bits that are. begin stands before the loop; vector 15 has bytes of one.
func finder(f *asm.File, name, doc string, most int, begin, add func(fn *asm.Func)) string {
	fn := f.Func(name, doc, asm.Typed("masks", "*uint32"), asm.Typed("src", "*byte"), asm.Int("n"))
	fn.Result("found", "int")
	fn.I("XORQ R8, R8")
	fn.Load("masks", "DI")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	fn.I("MOVL $%d, AX", most|most<<16)
	fn.I("VMOVD AX, X14")
	fn.I("VPBROADCASTD X14, Y14")
	fn.I("VPCMPEQB Y15, Y15, Y15")
	fn.I("VPABSB Y15, Y15")
	begin(fn)
	fn.Loop("CX", func() {
		add(fn)
		fn.I("VPCMPGTW Y14, Y0, Y0")
		fn.I("VPMOVMSKB Y0, AX")
		fn.I("MOVL AX, (DI)")
		fn.I("POPCNTL AX, AX")
		fn.I("ADDQ AX, R8")
		fn.I("ADDQ $32, SI")
		fn.I("ADDQ $4, DI")
	})
	fn.I("MOVQ R8, %s", fn.Addr("found"))
	fn.Ret()
	return name
}
