//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neonDot is dot for NEON. Every element has two vector accumulators, of which one takes four k and the other the next, so that its value does
// not depend on mr and nr; what is left of k goes to the first, four at a time and one by one.
//
// Registers: R0 params, R1 a, R2 b of this group, R3 bias, R4 res, R5 c, R6 groups left, R7 step from column to column, R8 k, R9 and R10
// places in rows, R11 to R14 in columns, R15 scratch, R16 flags. Vectors: the accumulators, then those of rows and of columns.
type neonDot struct {
	*asm.Func
	shape
	mr, nr int
}

func (d *neonDot) acc(r, j, half int) int { return 2*(r*d.nr+j) + half }
func (d *neonDot) a(r, half int) int      { return 2*d.mr*d.nr + 2*r + half }
func (d *neonDot) b(half int) int         { return 2*d.mr*(d.nr+1) + half }
func (d *neonDot) row(r int) string       { return fmt.Sprintf("R%d", 9+r) }
func (d *neonDot) column(j int) string    { return fmt.Sprintf("R%d", 11+j) }

func (d *neonDot) emit(f *asm.File, name string) {
	d.Func = f.Func(name, fmt.Sprintf("%s computes %d rows of n groups of %d columns; n > 0; see tileParams.", name, d.mr, d.nr),
		asm.Typed("p", "*tileParams"), asm.Ptr("a"), asm.Ptr("b"), asm.Ptr("bias"), asm.Ptr("res"), asm.Ptr("c"), asm.Int("n"))
	for i, arg := range []string{"p", "a", "b", "bias", "res", "c", "n"} {
		d.Load(arg, fmt.Sprintf("R%d", i))
	}
	d.I("MOVD %d(R0), R7", offBPanel)
	d.I("MOVWU %d(R0), R16", offFlags)
	d.Loop("R6", func() {
		d.I("MOVD %d(R0), R15", offLDA)
		d.I("MOVD R1, %s", d.row(0))
		for r := 1; r < d.mr; r++ {
			d.I("ADD R15, %s, %s", d.row(r-1), d.row(r))
		}
		d.I("MOVD R2, %s", d.column(0))
		for j := 1; j < d.nr; j++ {
			d.I("ADD R7, %s, %s", d.column(j-1), d.column(j))
		}
		for i := range 2 * d.mr * d.nr {
			d.Clear(d.ISA, d.R(i))
		}
		d.I("MOVD %d(R0), R8", offK)
		for _, k := range []int{8, 4, 1} {
			d.While("R8", k, func() { d.step(k) })
		}
		for r := range d.mr {
			d.reduce(r)
		}
		d.finish()
		for range d.nr {
			d.I("ADD R7, R2")
		}
		d.I("ADD $%d, R5", 4*d.nr)
		for _, p := range []string{"R3", "R4"} {
			skip := d.NewLabel("nil")
			d.I("CBZ %s, %s", p, skip)
			d.I("ADD $%d, %s", 4*d.nr, p)
			d.Label(skip)
		}
	})
	d.Ret()
}

// step multiplies 8, 4 or 1 elements of each row by those of each column.
func (d *neonDot) step(k int) {
	halves := max(k/4, 1)
	load := func(at string, x func(half int) int) {
		switch k {
		case 8:
			d.I("FLDPQ.P 32(%s), (F%d, F%d)", at, x(0), x(1))
		case 4:
			d.I("FMOVQ.P 16(%s), F%d", at, x(0))
		default:
			d.I("FMOVS.P 4(%s), F%d", at, x(0)) // and zeros
		}
	}
	for r := range d.mr {
		load(d.row(r), func(half int) int { return d.a(r, half) })
	}
	for j := range d.nr {
		load(d.column(j), d.b)
		for r := range d.mr {
			for half := range halves {
				d.V("fmla.4s", d.acc(r, j, half), d.b(half), d.a(r, half))
			}
		}
	}
}

// reduce sums the accumulators of row r into its first register, whose lanes are the nr columns (one column fills all lanes).
func (d *neonDot) reduce(r int) {
	x := func(j int) int { return d.acc(r, j%d.nr, 0) }
	for j := range d.nr {
		d.V("fadd.4s", x(j), x(j), d.acc(r, j, 1))
	}
	if d.nr == 4 {
		d.V("faddp.4s", x(2), x(2), x(3))
	}
	d.V("faddp.4s", x(0), x(0), x(1))
	d.V("faddp.4s", x(0), x(0), x(2))
}

// finish adds bias and residual, clips and stores.
func (d *neonDot) finish() {
	mov := map[int]string{1: "FMOVS", 4: "FMOVQ"}[d.nr]
	x, t := func(r int) int { return d.acc(r, 0, 0) }, d.a(0, 0)
	bias, res, clip := d.NewLabel("nobias"), d.NewLabel("nores"), d.NewLabel("noclip")
	d.I("CBZ R3, %s", bias)
	d.I("%s (R3), F%d", mov, t)
	for r := range d.mr {
		d.V("fadd.4s", x(r), x(r), t)
	}
	d.Label(bias)
	d.I("CBZ R4, %s", res)
	d.I("MOVD R4, R15")
	d.I("MOVD %d(R0), R8", offLDR)
	for r := range d.mr {
		d.I("%s (R15), F%d", mov, t)
		d.I("ADD R8, R15")
		d.V("fadd.4s", x(r), x(r), t)
	}
	d.Label(res)
	d.I("TBZ $%d, R16, %s", bit(flagClip), clip)
	for i, off := range []int{offLo, offHi} {
		d.I("ADD $%d, R0, R15", off)
		d.I("VLD1R (R15), [V%d.S4]", t)
		for r := range d.mr {
			d.V([]string{"fmax.4s", "fmin.4s"}[i], x(r), x(r), t)
		}
	}
	d.Label(clip)
	d.I("MOVD R5, R15")
	d.I("MOVD %d(R0), R8", offLDC)
	for r := range d.mr {
		d.I("%s F%d, (R15)", mov, x(r))
		d.I("ADD R8, R15")
	}
}

// neonPacks writes the copy of rows of B into panels.
func neonPacks(f *asm.File) {
	fn := f.Func("packPanels", "packPanels copies k rows of np full panels of 16 columns from src, whose rows are lds bytes apart,\n"+
		"to dst, whose panels are ldd bytes apart; k, np > 0.",
		asm.Ptr("dst"), asm.Ptr("src"), asm.Int("k"), asm.Int("np"), asm.Int("lds"), asm.Int("ldd"))
	for i, arg := range []string{"dst", "src", "k", "np", "lds", "ldd"} {
		fn.Load(arg, fmt.Sprintf("R%d", i))
	}
	fn.Loop("R2", func() {
		fn.I("MOVD R3, R6")
		fn.I("MOVD R1, R7")
		fn.I("MOVD R0, R8")
		fn.Loop("R6", func() {
			fn.I("FLDPQ.P 32(R7), (F0, F1)")
			fn.I("FLDPQ.P 32(R7), (F2, F3)")
			fn.I("FSTPQ (F0, F1), (R8)")
			fn.I("FSTPQ (F2, F3), 32(R8)")
			fn.I("ADD R5, R8")
		})
		fn.I("ADD R4, R1")
		fn.I("ADD $64, R0")
	})
	fn.Ret()
	f.Serve("copyPanels", asm.NEON(), "packPanels(dst, src, k, np, 4*lds, 4*ldd)")
}
