//go:build ignore

// Command gen writes the kernels of package fewconv.
package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("fewconv", asm.Table{Entries: []asm.Entry{
		{Name: "sums", Doc: "computes the tiles of a call, of pixels(results) pixels each, or of one where wide is not set.",
			Params: "results int, wide bool, c *call", Portable: "genericSums(results, wide, c)"},
		{Name: "planarSums", Doc: "computes the tiles of a call, of planarPixels(results) pixels each.",
			Params: "results int, c *planarCall", Portable: "genericPlanarSums(results, c)"},
	}}, asm.Unit{Base: "sums", Arch: "amd64", Generate: func(f *asm.File) {
		f.Import("unsafe")
		checkOffsets(f, "call", fields)
		code := cases(func(results, pixels int) string {
			t := &tile{results: results, pixels: pixels}
			t.emit(f)
			return t.name
		})
		for _, v := range []asm.ISA{asm.AVX512(), asm.AVX2()} { // vectors of 256 bits in both: what counts is how soon the source comes
			f.Serve("sums", v, code)
		}
		servePlanar(f, asm.AVX2(), asm.AVX512(), asm.AVX2())
	}}, asm.Unit{Base: "sums", Arch: "arm64", Generate: func(f *asm.File) {
		f.Import("unsafe")
		checkOffsets(f, "call", fields)
		f.Serve("sums", asm.NEON(), cases(func(results, pixels int) string {
			t := &neonTile{results: results, pixels: pixels}
			t.emit(f)
			return t.name
		}))
		servePlanar(f, asm.NEON(), asm.NEON())
	}})
}

// wide is how many pixels a wide tile has, by its results.
var wide = [4]int{0, 4, 2, 2}

// cases has kernels of all tiles written, and returns code that calls them.
func cases(emit func(results, pixels int) string) string {
	code := "switch {\n"
	for r := 1; r < len(wide); r++ {
		code += fmt.Sprintf("case results == %d && wide:\n%s(c)\n", r, emit(r, wide[r]))
		code += fmt.Sprintf("case results == %d:\n%s(c)\n", r, emit(r, 1))
	}
	return code + "}\n"
}

// fields are those of a call, in their order, each of eight bytes.
var fields = []string{"src", "w", "dst", "tiles", "blocks", "rows", "taps", "srcBlock", "srcRow", "srcTap", "srcPixel", "srcTile", "wBlock", "wRow", "dstPlane", "srcAt", "dstAt"}

// off returns the offset of a field of a call.
func off(name string) int { return offset(fields, name) }

// offset returns that of one of fields.
func offset(fields []string, name string) int {
	for i, f := range fields {
		if f == name {
			return 8 * i
		}
	}
	panic("no field " + name)
}

// checkOffsets emits Go source that does not compile where a structure and this program disagree.
func checkOffsets(f *asm.File, structure string, fields []string) {
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, name := range fields {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(%s{}.%s)-%d]\n", structure, name, offset(fields, name))
	}
	f.Go(src + ")\n")
}

// tile is a kernel being written. Registers: R14 the call; R8 and R9 once and three times the distance of pixels; R10, SI and DX the source of a block, row and
// tap, R11, DI and R15 their weights, R12, R13 and CX how many are left. Vectors: two sums of 8 lanes for each pixel of each result; then weights, and pixels.
type tile struct {
	*asm.Func
	name            string
	results, pixels int
}

func (t *tile) sum(r, p, half int) string { return asm.Y(2*(r*t.pixels+p) + half) }

func (t *tile) emit(f *asm.File) {
	t.name = fmt.Sprintf("sums%dx%d", t.results, t.pixels)
	t.Func = f.Func(t.name, fmt.Sprintf("%s computes tiles of %d results of %d pixels; all counts are above zero.", t.name, t.results, t.pixels), asm.Typed("c", "*call"))
	t.Load("c", "R14")
	t.I("MOVQ %d(R14), R8", off("srcPixel"))
	t.I("LEAQ (R8)(R8*2), R9")
	for _, x := range [][2]string{{"src", "srcAt"}, {"dst", "dstAt"}} {
		t.I("MOVQ %d(R14), AX", off(x[0]))
		t.I("MOVQ AX, %d(R14)", off(x[1]))
	}
	again := t.NewLabel("tile")
	t.Label(again)
	for i := range 2 * t.results * t.pixels {
		t.Clear(asm.AVX2(), asm.Y(i))
	}
	t.I("MOVQ %d(R14), R10", off("srcAt"))
	t.I("MOVQ %d(R14), R11", off("w"))
	t.I("MOVQ %d(R14), R12", off("blocks"))
	t.Loop("R12", func() {
		t.I("MOVQ R10, SI")
		t.I("MOVQ R11, DI")
		t.I("MOVQ %d(R14), R13", off("rows"))
		t.Loop("R13", func() {
			t.I("MOVQ SI, DX")
			t.I("MOVQ DI, R15")
			t.I("MOVQ %d(R14), CX", off("taps"))
			t.Loop("CX", func() {
				t.tap()
				t.I("ADDQ %d(R14), DX", off("srcTap"))
				t.I("ADDQ $%d, R15", 64*t.results)
			})
			t.I("ADDQ %d(R14), SI", off("srcRow"))
			t.I("ADDQ %d(R14), DI", off("wRow"))
		})
		t.I("ADDQ %d(R14), R10", off("srcBlock"))
		t.I("ADDQ %d(R14), R11", off("wBlock"))
	})
	t.store()
	t.I("MOVQ %d(R14), AX", off("srcTile"))
	t.I("ADDQ AX, %d(R14)", off("srcAt"))
	t.I("ADDQ $%d, %d(R14)", 4*t.pixels, off("dstAt"))
	t.I("DECQ %d(R14)", off("tiles"))
	t.I("JNZ %s", again)
	t.Ret()
}

// tap adds the products of a tap.
func (t *tile) tap() {
	w := 2 * t.results * t.pixels
	at := func(p, half int) string {
		return fmt.Sprintf("%d(DX)%s", 32*half, []string{"", "(R8*1)", "(R8*2)", "(R9*1)"}[p])
	}
	for half := range 2 {
		if t.results == 1 {
			t.I("VMOVUPS %d(R15), %s", 32*half, asm.Y(w+half))
			for p := range t.pixels {
				t.I("VFMADD231PS %s, %s, %s", at(p, half), asm.Y(w+half), t.sum(0, p, half))
			}
			continue
		}
		for p := range t.pixels {
			t.I("VMOVUPS %s, %s", at(p, half), asm.Y(w+p))
		}
		for r := range t.results {
			if t.pixels == 1 {
				t.I("VFMADD231PS %d(R15), %s, %s", 64*r+32*half, asm.Y(w), t.sum(r, 0, half))
				continue
			}
			t.I("VMOVUPS %d(R15), %s", 64*r+32*half, asm.Y(w+t.pixels+r%2))
			for p := range t.pixels {
				t.I("VFMADD231PS %s, %s, %s", asm.Y(w+p), asm.Y(w+t.pixels+r%2), t.sum(r, p, half))
			}
		}
	}
}

// store adds up the sums and stores results: plane by plane, whose pixels lie beside each other.
func (t *tile) store() {
	n := t.results * t.pixels
	for i := range n {
		t.I("VADDPS %s, %s, %s", asm.Y(2*i+1), asm.Y(2*i), asm.Y(2*i))
	}
	t.I("MOVQ %d(R14), DI", off("dstAt"))
	for from := 0; from < n; from += 4 {
		in := func(i int) string { return asm.Y(2 * min(from+i, n-1)) }
		a, b := asm.Y(14), asm.Y(15) // of sums or weights that are not needed any more
		t.I("VHADDPS %s, %s, %s", in(1), in(0), a)
		t.I("VHADDPS %s, %s, %s", in(3), in(2), b)
		t.I("VHADDPS %s, %s, %s", b, a, a)
		t.I("VEXTRACTF128 $1, %s, %s", a, asm.X(15))
		t.I("VADDPS %s, %s, %s", asm.X(15), asm.X(14), asm.X(14))
		for i := 0; i < min(4, n-from); i += t.pixels {
			if from+i > 0 {
				t.I("ADDQ %d(R14), DI", off("dstPlane"))
			}
			switch {
			case t.pixels == 4:
				t.I("VMOVUPS %s, (DI)", asm.X(14))
			case t.pixels == 2 && i == 0:
				t.I("VMOVLPS %s, (DI)", asm.X(14))
			case t.pixels == 2:
				t.I("VMOVHPS %s, (DI)", asm.X(14))
			default:
				t.I("VEXTRACTPS $%d, %s, (DI)", i, asm.X(14))
			}
		}
	}
}
