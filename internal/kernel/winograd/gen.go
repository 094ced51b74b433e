//go:build ignore

// Command gen writes the transforms of package winograd.
package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/winograd/points"
)

func main() {
	transforms := func(sets ...asm.ISA) func(f *asm.File) { return func(f *asm.File) { generate(f, sets) } }
	asm.Main("winograd", asm.Table{Entries: entries},
		asm.Unit{Base: "transform", Arch: "amd64", Generate: transforms(asm.AVX512(), asm.AVX2())},
		asm.Unit{Base: "transform", Arch: "arm64", Generate: transforms(asm.NEON())})
}

// generate writes the transforms for some sets.
func generate(f *asm.File, sets []asm.ISA) {
	for _, isa := range sets {
		bits := 8 * isa.Size()
		for _, m := range []int{points.F2, points.F4} {
			t := transform{isa: isa, file: f, m: m, n: m + 2}
			t.input(fmt.Sprintf("input%dx%d", m, bits))
			t.output(fmt.Sprintf("output%dx%d", m, bits))
			t.filter(fmt.Sprintf("filter%dx%d", m, bits))
		}
		f.Serve("transformInput", isa, fmt.Sprintf("if m == F2 {\ninput2x%d(c)\n} else {\ninput4x%d(c)\n}", bits, bits))
		f.Serve("transformOutput", isa, fmt.Sprintf("if m == F2 {\noutput2x%d(c)\n} else {\noutput4x%d(c)\n}", bits, bits))
		f.Serve("transformFilter", isa, fmt.Sprintf("if m == F2 {\nfilter2x%d(dst, src, temp, point, n)\n} else {\nfilter4x%d(dst, src, temp, point, n)\n}", bits, bits))
		f.Serve("assembled", isa, "return true")
	}
	checkOffsets(f)
}

// entries are what plans call.
var entries = []asm.Entry{
	{Name: "transformInput", Doc: "transforms the source of a tile of F(m).", Params: "m int, c *inputCall", Portable: "genericInput(m, c)"},
	{Name: "transformOutput", Doc: "makes the results of a tile of F(m).", Params: "m int, c *outputCall", Portable: "genericOutput(m, c)"},
	{Name: "transformFilter", Doc: "transforms weights of n input channels to 16 output channels.", Params: "m int, dst, src, temp *float32, point, n int",
		Portable: "genericFilter(m, dst, src, point, n)"},
	{Name: "assembled", Doc: "reports whether transforms are assembly.", Result: "bool", Portable: "return false"},
}

// Offsets of the fields of inputCall and outputCall, in bytes.
const (
	inSrc, inDst, inTemp, inPlane, inPoint, inBlocks, inRows, inCols, inOff = 0, 8, 16, 24, 32, 40, 48, 56, 64

	outSrc, outDst, outRes, outBias, outTemp = 0, 8, 16, 24, 32
	outPoint, outPlane, outRow, outBlocks    = 40, 48, 56, 64
	outRows, outCols, outFlags, outLast      = 72, 80, 88, 96
	outLo, outHi, outMask                    = 104, 108, 112
)

// Flags of an outputCall.
const (
	flagMax = 1 << iota
	flagMin
	flagMask
)

// checkOffsets emits Go source that does not compile where the calls and this program disagree.
func checkOffsets(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets and flags that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		field string
		off   int
	}{
		{"inputCall{}.src", inSrc}, {"inputCall{}.dst", inDst}, {"inputCall{}.temp", inTemp}, {"inputCall{}.plane", inPlane},
		{"inputCall{}.point", inPoint}, {"inputCall{}.blocks", inBlocks}, {"inputCall{}.rows", inRows}, {"inputCall{}.cols", inCols},
		{"inputCall{}.off", inOff}, {"outputCall{}.src", outSrc}, {"outputCall{}.dst", outDst}, {"outputCall{}.res", outRes},
		{"outputCall{}.bias", outBias}, {"outputCall{}.temp", outTemp}, {"outputCall{}.point", outPoint},
		{"outputCall{}.plane", outPlane}, {"outputCall{}.row", outRow}, {"outputCall{}.blocks", outBlocks},
		{"outputCall{}.rows", outRows}, {"outputCall{}.cols", outCols}, {"outputCall{}.flags", outFlags},
		{"outputCall{}.last", outLast}, {"outputCall{}.lo", outLo}, {"outputCall{}.hi", outHi}, {"outputCall{}.mask", outMask},
	} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(%s)-%d]\n", c.field, c.off)
	}
	for _, c := range []struct {
		name  string
		value int
	}{{"flagMax", flagMax}, {"flagMin", flagMin}, {"flagMask", flagMask}} {
		src += fmt.Sprintf("_ = [1]byte{}[%s-%d]\n", c.name, c.value)
	}
	f.Go(src + ")\n")
}

// transform writes the functions of one tile and instruction set.
type transform struct {
	asm.Body
	isa  asm.ISA
	file *asm.File
	m, n int
	reg  map[float64]string // registers that hold constants, where there are enough
}

// Vector registers that bodies for NEON do not use: the last ones.
const (
	neonMemory  = 30
	neonScratch = 31
)

// begin starts a function.
func (t *transform) begin(name, doc string, args ...asm.Arg) {
	t.Body = t.isa.Body(t.file.Func(name, doc, args...), neonMemory, neonScratch)
}

// halves is how many vectors the 16 channels of a pixel are.
func (t *transform) halves() int { return 16 / t.isa.Lanes }

// firstConstant is the register from which constants are kept where there are 32: the code needs the first 16.
const firstConstant = 16

// constant returns the operand that holds c in all lanes.
func (t *transform) constant(c float64) string {
	if r, ok := t.reg[c]; ok {
		return r
	}
	words := make([]uint32, t.isa.Lanes)
	for i := range words {
		words[i] = math.Float32bits(float32(c))
	}
	at := t.file.Data(fmt.Sprintf("c%08x_%d", words[0], t.isa.Lanes), words...)
	return at
}

// keep loads constants into registers, if the set has registers for them.
func (t *transform) keep(list ...float64) {
	t.reg = map[float64]string{}
	if t.isa.Registers <= firstConstant {
		return
	}
	for _, c := range list {
		if _, ok := t.reg[c]; ok {
			continue
		}
		at := t.constant(c)
		r := t.isa.R(firstConstant + len(t.reg))
		t.I("VMOVUPS %s, %s", at, r)
		t.reg[c] = r
	}
}

// add emits acc += c·x.
func (t *transform) add(acc string, c float64, x string) {
	switch {
	case c == 1:
		t.I("VADDPS %s, %s, %s", x, acc, acc)
	case c == -1:
		t.I("VSUBPS %s, %s, %s", x, acc, acc)
	case c > 0:
		t.I("VFMADD231PS %s, %s, %s", t.constant(c), x, acc)
	default:
		t.I("VFNMADD231PS %s, %s, %s", t.constant(-c), x, acc)
	}
}

// poly emits y = Σ q[k]·x(k), whose last coefficient is one, from the last to the first.
func (t *transform) poly(y string, q []float64, x func(k int) string) {
	last := len(q) - 1
	t.I("VMOVAPS %s, %s", x(last), y)
	for k := last - 1; k >= 0; k-- {
		t.add(y, q[k], x(k))
	}
}

// line emits the transform of n source values along one axis.
func (t *transform) line(load, store func(i int) string) {
	d := t.isa.R
	for i := range t.n {
		t.I("VMOVUPS %s, %s", load(i), d(i))
	}
	y, o, y2 := t.isa.R(t.n), t.isa.R(t.n+1), t.isa.R(t.n+2)
	q := points.EvenPoly(t.m, -1)
	t.poly(y, q, func(k int) string { return d(2 * k) })
	t.I("VMOVUPS %s, %s", y, store(0))
	for i, p := range points.Pairs(t.m) {
		q := points.EvenPoly(t.m, i)
		t.poly(y, q, func(k int) string { return d(2*k + 2) })
		t.poly(o, q, func(k int) string { return d(2*k + 1) })
		t.I("VMOVAPS %s, %s", y, y2)
		t.add(y, p, o)
		t.add(y2, -p, o)
		t.I("VMOVUPS %s, %s", y, store(1+2*i))
		t.I("VMOVUPS %s, %s", y2, store(2+2*i))
	}
	t.poly(y, q, func(k int) string { return d(2*k + 1) })
	t.I("VMOVUPS %s, %s", y, store(t.n-1))
}

// inputConstants are those of line.
func (t *transform) inputConstants() []float64 {
	var list []float64
	for i := -1; i < len(points.Pairs(t.m)); i++ {
		for _, c := range points.EvenPoly(t.m, i) {
			list = append(list, math.Abs(c)) // add subtracts what is below zero
		}
	}
	return append(list, points.Pairs(t.m)...)
}

// input writes the transform of the source of a tile, channel block after channel block: columns into temp, rows from there.
func (t *transform) input(name string) {
	t.begin(name, fmt.Sprintf("%s transforms the source of a tile of F(%d); see inputCall.", name, t.m), asm.Typed("c", "*inputCall"))
	zeros := t.file.Data("zeros", make([]uint32, 16*points.MaxSide)...)
	rows := []string{"R8", "R9", "R10", "R11", "R12", "R13"}[:t.n]
	t.Load("c", "DI")
	t.I("MOVQ %d(DI), SI", inSrc)
	t.I("MOVQ %d(DI), DX", inDst)
	t.I("MOVQ %d(DI), CX", inTemp)
	t.I("MOVQ %d(DI), BX", inPoint)
	t.keep(t.inputConstants()...)
	t.Label("block")
	t.I("MOVQ %d(DI), AX", inRows)
	t.I("LEAQ %s, R14", zeros)
	for i, r := range rows {
		t.I("MOVQ %d(DI), %s", inOff+8*i, r)
		t.I("ADDQ SI, %s", r)
		t.I("BTQ $%d, AX", i)
		t.I("CMOVQCC R14, %s", r)
	}
	t.I("MOVQ %d(DI), AX", inCols)
	for j := range t.n {
		outside, next := t.NewLabel("outside"), t.NewLabel("column")
		if j < t.m { // of the tile beside this one, columns that it does not share with this one
			for _, r := range rows {
				t.I("PREFETCHT0 %d(%s)", 64*(t.n+j), r)
			}
		}
		at := func(i, h int) string { return fmt.Sprintf("%d(CX)", 64*(i*t.n+j)+t.isa.Size()*h) }
		t.I("BTQ $%d, AX", j)
		t.I("JCC %s", outside)
		for h := range t.halves() {
			t.line(func(i int) string { return fmt.Sprintf("%d(%s)", 64*j+t.isa.Size()*h, rows[i]) }, func(i int) string { return at(i, h) })
		}
		t.I("JMP %s", next)
		t.Label(outside)
		t.Clear(t.isa, t.isa.R(0))
		for i := range t.n {
			for h := range t.halves() {
				t.I("VMOVUPS %s, %s", t.isa.R(0), at(i, h))
			}
		}
		t.Label(next)
	}
	t.I("MOVQ DX, R8")
	t.I("LEAQ (BX)(BX*2), R10")
	t.I("LEAQ (BX)(BX*4), R11")
	t.I("MOVQ BX, R12")
	t.I("IMULQ $%d, R12", t.n)
	point := []string{"(R8)", "(R8)(BX*1)", "(R8)(BX*2)", "(R8)(R10*1)", "(R8)(BX*4)", "(R8)(R11*1)"}
	for i := range t.n {
		for h := range t.halves() {
			t.line(func(j int) string { return fmt.Sprintf("%d(CX)", 64*(i*t.n+j)+t.isa.Size()*h) },
				func(j int) string { return fmt.Sprintf("%d%s", t.isa.Size()*h, point[j]) })
		}
		t.I("ADDQ R12, R8")
	}
	t.I("ADDQ %d(DI), SI", inPlane)
	t.I("ADDQ $64, DX")
	t.I("DECQ %d(DI)", inBlocks)
	t.I("JNZ block")
	t.Ret()
}

// back emits the transform of n products along one axis to m results, in the registers that it returns.
func (t *transform) back(load func(i int) string) (out []string) {
	r := t.isa.R
	for i := range t.n {
		t.I("VMOVUPS %s, %s", load(i), r(i))
	}
	sum, diff := []string{}, []string{}
	for i := range points.Pairs(t.m) {
		s, d := r(t.n+2*i), r(t.n+2*i+1)
		t.I("VADDPS %s, %s, %s", r(2+2*i), r(1+2*i), s)
		t.I("VSUBPS %s, %s, %s", r(2+2*i), r(1+2*i), d)
		sum, diff = append(sum, s), append(diff, d)
	}
	for k := range t.m {
		x := sum
		if k%2 == 1 {
			x = diff
		}
		o := r(1 + k)
		ps := points.Pairs(t.m)
		switch k {
		case 0:
			o = r(0)
		case t.m - 1:
			o = r(t.n - 1)
		default:
			t.I("VMULPS %s, %s, %s", t.constant(math.Pow(ps[0], float64(k))), x[0], o)
			x, ps = x[1:], ps[1:]
		}
		for i, p := range ps {
			t.add(o, math.Pow(p, float64(k)), x[i])
		}
		out = append(out, o)
	}
	return out
}

// output writes the transform of the products of a tile, channel block after channel block: columns into temp, rows from
// there.
func (t *transform) output(name string) {
	t.begin(name, fmt.Sprintf("%s makes the results of a tile of F(%d); see outputCall.", name, t.m), asm.Typed("c", "*outputCall"))
	t.Load("c", "DI")
	t.I("MOVQ %d(DI), SI", outSrc)
	t.I("MOVQ %d(DI), DX", outDst)
	t.I("MOVQ %d(DI), R12", outRes)
	t.I("MOVQ %d(DI), R13", outBias)
	t.I("MOVQ %d(DI), CX", outTemp)
	t.I("MOVQ %d(DI), BX", outPoint)
	t.I("MOVQ %d(DI), R15", outBlocks)
	var list []float64
	for k := range t.m {
		for _, p := range points.Pairs(t.m) {
			list = append(list, math.Pow(p, float64(k)))
		}
	}
	t.keep(list...)
	t.Label("block")
	t.I("MOVQ SI, R8")
	t.I("MOVQ BX, R9")
	t.I("IMULQ $%d, R9", t.n)
	t.I("LEAQ (R9)(R9*2), R10")
	t.I("LEAQ (R9)(R9*4), R11")
	point := []string{"(R8)", "(R8)(R9*1)", "(R8)(R9*2)", "(R8)(R10*1)", "(R8)(R9*4)", "(R8)(R11*1)"}
	t.I("MOVQ DX, R14")
	for j := range t.n {
		if j < t.m { // results of the tile beside this one
			for c := range t.m {
				t.I("PREFETCHT0 %d(R14)", 64*(t.m+c))
			}
			t.I("ADDQ %d(DI), R14", outRow)
		}
		for h := range t.halves() {
			out := t.back(func(i int) string { return fmt.Sprintf("%d%s", t.isa.Size()*h, point[i]) })
			for r, o := range out {
				t.I("VMOVUPS %s, %d(CX)", o, 64*(r*t.n+j)+t.isa.Size()*h)
			}
		}
		t.I("ADDQ BX, R8")
	}
	t.I("MOVQ %d(DI), AX", outFlags)
	t.I("CMPQ R15, $1")
	t.I("CMOVQEQ %d(DI), AX", outLast)
	t.I("MOVQ DX, R8")
	t.I("MOVQ %d(DI), R9", outCols)
	t.I("MOVQ R12, R10")
	for r := range t.m {
		if r > 0 {
			t.I("CMPQ %d(DI), $%d", outRows, r)
			t.I("JLE done")
			t.I("ADDQ %d(DI), R8", outRow)
			t.I("ADDQ %d(DI), R10", outRow)
		}
		for h := range t.halves() {
			t.row(r, h)
		}
	}
	t.Label("done")
	t.I("ADDQ $64, SI")
	t.I("ADDQ $64, R13")
	t.I("ADDQ %d(DI), DX", outPlane)
	skip := t.NewLabel("plain")
	t.I("TESTQ R12, R12")
	t.I("JZ %s", skip)
	t.I("ADDQ %d(DI), R12", outPlane)
	t.Label(skip)
	t.I("DECQ R15")
	t.I("JNZ block")
	t.Ret()
}

// row emits one row of results.
func (t *transform) row(r, h int) {
	out := t.back(func(j int) string { return fmt.Sprintf("%d(CX)", 64*(r*t.n+j)+t.isa.Size()*h) })
	x := t.isa.R(15)
	t.I("VMOVUPS %d(R13), %s", t.isa.Size()*h, x)
	for _, o := range out {
		t.I("VADDPS %s, %s, %s", x, o, o)
	}
	each := func(label string, op func(c int, o string)) {
		for c, o := range out {
			if c > 0 {
				t.I("CMPQ R9, $%d", c)
				t.I("JLE %s", label)
			}
			op(c, o)
		}
		t.Label(label)
	}
	none := t.NewLabel("residual")
	t.I("TESTQ R12, R12")
	t.I("JZ %s", none)
	each(none, func(c int, o string) { t.I("VADDPS %d(R10), %s, %s", 64*c+t.isa.Size()*h, o, o) })
	for _, l := range []struct {
		bit, off int
		op       string
	}{{flagMax, outLo, "VMAXPS"}, {flagMin, outHi, "VMINPS"}} {
		label := t.NewLabel("limit")
		t.I("TESTQ $%d, AX", l.bit)
		t.I("JEQ %s", label)
		t.I("VBROADCASTSS %d(DI), %s", l.off, x)
		for _, o := range out {
			// The result is the operand that VMAXPS returns where one is NaN.
			t.I("%s %s, %s, %s", l.op, o, x, o)
		}
		t.Label(label)
	}
	label := t.NewLabel("mask")
	t.I("TESTQ $%d, AX", flagMask)
	t.I("JEQ %s", label)
	t.I("VMOVUPS %d(DI), %s", outMask+t.isa.Size()*h, x)
	for _, o := range out {
		t.I("VANDPS %s, %s, %s", x, o, o)
	}
	t.Label(label)
	each(t.NewLabel("stored"), func(c int, o string) { t.I("VMOVUPS %s, %d(R8)", o, 64*c+t.isa.Size()*h) })
}

// spread emits the transform of the three taps along one axis.
func (t *transform) spread(load, store func(i int) string) {
	r := t.isa.R
	for i := range 3 {
		t.I("VMOVUPS %s, %s", load(i), r(i))
	}
	t.I("VMOVUPS %s, %s", r(2), store(t.n-1))
	e, o := r(3), r(4)
	t.I("VMULPS %s, %s, %s", t.constant(1/points.Scale(t.m, 0)), r(0), e)
	t.I("VMOVUPS %s, %s", e, store(0))
	for i, p := range points.Pairs(t.m) {
		t.I("VMOVAPS %s, %s", r(0), e)
		t.add(e, p*p, r(2))
		t.I("VMOVAPS %s, %s", e, o)
		t.add(e, p, r(1))
		t.add(o, -p, r(1))
		for k, y := range []string{e, o} {
			t.I("VMULPS %s, %s, %s", t.constant(1/points.Scale(t.m, 1+2*i)), y, y)
			t.I("VMOVUPS %s, %s", y, store(1+2*i+k))
		}
	}
}

// filter writes the transform of weights, channel after channel: columns of taps into temp, rows from there.
func (t *transform) filter(name string) {
	t.begin(name, fmt.Sprintf("%s transforms weights for F(%d) of n input channels, at least 1, to 16 output channels: from src[n][tap][16], to dst[n][16] of\n"+
		"each point; points are that many bytes apart. temp has room for %d numbers.", name, t.m, 48*t.n),
		asm.Ptr("dst"), asm.Ptr("src"), asm.Ptr("temp"), asm.Int("point"), asm.Int("n"))
	t.Load("dst", "DI")
	t.Load("src", "SI")
	t.Load("temp", "CX")
	t.Load("point", "BX")
	t.Load("n", "DX")
	t.I("LEAQ (BX)(BX*2), R10")
	t.I("LEAQ (BX)(BX*4), R11")
	t.I("MOVQ BX, R12")
	t.I("IMULQ $%d, R12", t.n)
	point := []string{"(R8)", "(R8)(BX*1)", "(R8)(BX*2)", "(R8)(R10*1)", "(R8)(BX*4)", "(R8)(R11*1)"}
	var list []float64
	for i, p := range points.Pairs(t.m) {
		list = append(list, p, p*p, 1/points.Scale(t.m, 0), 1/points.Scale(t.m, 1+2*i))
	}
	t.keep(list...)
	t.Loop("DX", func() {
		for x := range 3 {
			for h := range t.halves() {
				t.spread(func(y int) string { return fmt.Sprintf("%d(SI)", 64*(3*y+x)+t.isa.Size()*h) },
					func(i int) string { return fmt.Sprintf("%d(CX)", 64*(3*i+x)+t.isa.Size()*h) })
			}
		}
		t.I("MOVQ DI, R8")
		for i := range t.n {
			for h := range t.halves() {
				t.spread(func(x int) string { return fmt.Sprintf("%d(CX)", 64*(3*i+x)+t.isa.Size()*h) },
					func(j int) string { return fmt.Sprintf("%d%s", t.isa.Size()*h, point[j]) })
			}
			t.I("ADDQ R12, R8")
		}
		t.I("ADDQ $%d, SI", 9*64)
		t.I("ADDQ $64, DI")
	})
	t.Ret()
}
