//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// dots writes the kernels for B given column by column, [n][k], and a function per instruction set that selects one.
func dots(f *asm.File) {
	var words []uint32
	for range 16 {
		words = append(words, 0xffffffff)
	}
	f.Data("dotmask", append(words, make([]uint32, 16)...)...)
	dotTables(f, "amd64", func(s shape, mr, nr int, name string) { (&dot{shape: s, mr: mr, nr: nr}).emit(f, name) })
}

// dotTables has emit write the kernels of the sets of an architecture, and writes the functions that select one.
func dotTables(f *asm.File, arch string, emit func(s shape, mr, nr int, name string)) {
	for _, s := range on(arch) {
		var table strings.Builder
		fmt.Fprintf(&table, "// callDot%s runs the %v dot kernel of rows x cols elements on n groups of columns.\n", s.suffix, s.Set)
		fmt.Fprintf(&table, "func callDot%s(rows, cols int, p *tileParams, a, b, bias, res, c *float32, n int) {\n", s.suffix)
		fmt.Fprintf(&table, "\tswitch cols<<8 | rows {\n")
		for _, nr := range []int{1, 4} {
			for mr := 1; mr <= s.dotRows; mr++ {
				name := fmt.Sprintf("dot%s_%dx%d", s.suffix, mr, nr)
				emit(s, mr, nr, name)
				fmt.Fprintf(&table, "\tcase %d<<8 | %d:\n\t\t%s(p, a, b, bias, res, c, n)\n", nr, mr, name)
			}
		}
		table.WriteString("\t}\n}\n")
		f.Go(table.String())
		f.Serve("callDot", s.ISA, fmt.Sprintf("callDot%s(rows, cols, p, a, b, bias, res, c, n)", s.suffix))
	}
}

// dot is one dot kernel being written: C[mr][nr] = A[mr][k] . B[nr][k], repeated over n groups of nr columns. Every element
// has one vector accumulator, reduced as halves, quarters, then (0+1)+(2+3), so that its value does not depend on mr and nr.
//
// Registers: AX a, BX lda, CX 3*lda, R8 b, R9 step from column to column, R10 three times it, DX b of this group, DI k,
// R11 c, R12 bias, SI res, R13 params, R14 scratch, R15 address of the tail mask (AVX2).
type dot struct {
	*asm.Func
	shape
	mr, nr int
}

func (d *dot) acc(r, j int) string { return d.R(r*d.nr + j) }
func (d *dot) a(r int) string      { return d.R(d.mr*d.nr + r) }
func (d *dot) b() string           { return d.R(d.mr*d.nr + d.mr) }

// mask returns the mask of the tail, which it loads where the set has no mask registers: their place is behind b's.
func (d *dot) mask() string {
	if d.Masks {
		return d.Mask()
	}
	x := d.R(d.mr*d.nr + d.mr + 1)
	d.I("VMOVUPS (R15), %s", x)
	return x
}

func (d *dot) emit(f *asm.File, name string) {
	d.Func = f.Func(name, fmt.Sprintf("%s computes %d rows of n groups of %d columns; n > 0; see tileParams.", name, d.mr, d.nr),
		asm.Typed("p", "*tileParams"), asm.Ptr("a"), asm.Ptr("b"), asm.Ptr("bias"), asm.Ptr("res"), asm.Ptr("c"), asm.Int("n"))
	d.Load("p", "R13")
	d.Load("b", "DX")
	d.Load("bias", "R12")
	d.Load("res", "SI")
	d.Load("c", "R11")
	d.I("MOVQ %d(R13), R9", offBPanel)
	d.I("LEAQ (R9)(R9*2), R10")
	d.I("MOVQ %d(R13), BX", offLDA)
	d.I("LEAQ (BX)(BX*2), CX")
	d.loadMask(d.Func, "dotmask")
	d.Label("group")
	d.Load("a", "AX")
	d.I("MOVQ DX, R8")
	d.I("MOVQ %d(R13), DI", offK)
	for i := range d.mr * d.nr {
		d.Clear(d.ISA, d.R(i))
	}
	d.While("DI", d.Lanes, func() {
		d.step(false)
		d.I("ADDQ $%d, AX", d.Size())
		d.I("ADDQ $%d, R8", d.Size())
	})
	d.I("TESTQ DI, DI")
	d.I("JZ reduce")
	d.step(true)
	d.Label("reduce")
	for r := range d.mr {
		d.reduce(r)
	}
	d.finish()
	if d.nr == 4 {
		d.I("LEAQ (DX)(R9*4), DX")
	} else {
		d.I("ADDQ R9, DX")
	}
	d.I("ADDQ $%d, R11", 4*d.nr)
	for _, p := range []string{"R12", "SI"} {
		skip := d.NewLabel("nil")
		d.I("TESTQ %s, %s", p, p)
		d.I("JZ %s", skip)
		d.I("ADDQ $%d, %s", 4*d.nr, p)
		d.Label(skip)
	}
	d.I("DECQ %s", d.Addr("n"))
	d.I("JNZ group")
	d.Ret()
}

// step multiplies one vector of each row by one of each column.
func (d *dot) step(tail bool) {
	mask := ""
	if tail {
		mask = d.mask()
	}
	load := func(addr, x string) { d.LoadVector(d.ISA, addr, x, mask) }
	for r := range d.mr {
		load([]string{"(AX)", "(AX)(BX*1)", "(AX)(BX*2)", "(AX)(CX*1)"}[r], d.a(r))
	}
	for j := range d.nr {
		addr := []string{"(R8)", "(R8)(R9*1)", "(R8)(R9*2)", "(R8)(R10*1)"}[j]
		if d.mr == 1 && !tail {
			d.I("VFMADD231PS %s, %s, %s", addr, d.a(0), d.acc(0, j))
			continue
		}
		load(addr, d.b())
		for r := range d.mr {
			d.I("VFMADD231PS %s, %s, %s", d.b(), d.a(r), d.acc(r, j))
		}
	}
}

// reduce sums the accumulators of row r into one 128-bit register, that of its first: its lanes are the nr columns (one
// column fills all lanes).
func (d *dot) reduce(r int) {
	n := func(j int) int { return r*d.nr + j }
	t := d.mr*d.nr + d.mr
	for j := range d.nr {
		if d.Lanes > 8 {
			d.I("VEXTRACTF64X4 $1, Z%d, Y%d", n(j), t)
			d.I("VADDPS Y%d, Y%d, Y%d", t, n(j), n(j))
		}
		if n(j) < 16 && t < 16 {
			d.I("VEXTRACTF128 $1, Y%d, X%d", n(j), t)
		} else {
			d.I("VEXTRACTF32X4 $1, Y%d, X%d", n(j), t)
		}
		d.I("VADDPS X%d, X%d, X%d", t, n(j), n(j))
	}
	if d.nr == 1 {
		d.I("VHADDPS X%d, X%d, X%d", n(0), n(0), n(0))
		d.I("VHADDPS X%d, X%d, X%d", n(0), n(0), n(0))
		return
	}
	d.I("VHADDPS X%d, X%d, X%d", n(1), n(0), n(0))
	d.I("VHADDPS X%d, X%d, X%d", n(3), n(2), n(2))
	d.I("VHADDPS X%d, X%d, X%d", n(2), n(0), n(0))
}

// finish adds bias and residual, clips and stores.
func (d *dot) finish() {
	mov, add, maxi, mini := "VMOVUPS", "VADDPS", "VMAXPS", "VMINPS"
	if d.nr == 1 {
		mov, add, maxi, mini = "VMOVSS", "VADDSS", "VMAXSS", "VMINSS"
	}
	t := d.mr*d.nr + d.mr
	x := func(r int) string { return asm.X(r * d.nr) }
	d.I("TESTQ R12, R12")
	d.I("JZ nobias")
	d.I("%s (R12), X%d", mov, t)
	for r := range d.mr {
		d.I("%s X%d, %s, %s", add, t, x(r), x(r))
	}
	d.Label("nobias")
	d.I("TESTQ SI, SI")
	d.I("JZ nores")
	d.I("MOVQ SI, R14")
	for r := range d.mr {
		d.I("%s (R14), %s, %s", add, x(r), x(r))
		if r < d.mr-1 {
			d.I("ADDQ %d(R13), R14", offLDR)
		}
	}
	d.Label("nores")
	d.I("TESTL $%d, %d(R13)", flagClip, offFlags)
	d.I("JZ noclip")
	lo, hi := asm.X(t), asm.X(t+1)
	d.I("VBROADCASTSS %d(R13), %s", offLo, lo)
	d.I("VBROADCASTSS %d(R13), %s", offHi, hi)
	for r := range d.mr {
		d.I("%s %s, %s, %s", maxi, x(r), lo, x(r))
		d.I("%s %s, %s, %s", mini, x(r), hi, x(r))
	}
	d.Label("noclip")
	d.I("MOVQ R11, R14")
	for r := range d.mr {
		d.I("%s %s, (R14)", mov, x(r))
		if r < d.mr-1 {
			d.I("ADDQ %d(R13), R14", offLDC)
		}
	}
}
