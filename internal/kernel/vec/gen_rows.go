//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// rowKernels writes the functions of whole rows.
func rowKernels(f *asm.File, isa asm.ISA, suffix string) {
	softmax(f, isa, suffix, false)
	softmax(f, isa, suffix, true)
	softmaxColumns(f, isa, suffix)
	norm(f, isa, suffix, false)
	norm(f, isa, suffix, true)
	moments(f, isa, suffix)
	reductions(f, isa, suffix)
	f.Serve("softmax", isa, either("logarithm", "logSoftmax"+suffix, "softmax"+suffix, "(dst, src, mask, n, rows, 4*ldd, 4*lds, 4*ldm, fetched, scale)"))
	f.Serve("norm", isa, either("rms", "rmsNorm"+suffix, "layerNorm"+suffix, "(dst, src, gamma, beta, n, rows, 4*ldd, 4*lds, fetched, eps)"))
	f.Serve("moments", isa, "moments"+suffix+"(dst, src, n, rows, 4*lds, eps)")
	f.Serve("reduce", isa, "callReduce"+suffix+"(op, dst, src, n, rows, 4*lds)")
	f.Serve("reduceColumns", isa, "callReduceColumns"+suffix+"(op, dst, src, n, rows, 4*lds)")
}

// nextRow puts the distances to the next rows of src and dst into R12 and R13, on amd64, or zero where rows are longer than fetched. fetchRow has lines of
// those fetched into the second-level cache: processors fetch ahead in order, too little while there is much to
// compute, and not across the passes over a row.
func (c *ctx) nextRow() {
	if c.neon() {
		return
	}
	short := c.NewLabel("short")
	c.Load("lds", "R12")
	c.Load("ldd", "R13")
	c.Load("fetched", "CX")
	c.I("CMPQ CX, %s", c.Addr("n"))
	c.I("JGE %s", short)
	c.I("XORL R12, R12")
	c.I("XORL R13, R13")
	c.Label(short)
	c.farRow()
}

// leastFetched is how many elements behind those at hand what is fetched lies, at least. On an AMD Zen 3, with operands in the third-level cache, rows of 96
// elements take 0.6 to 0.8 of their time so, by that of 512; 256 and 1024 are no better, 2048 is worse. On an Intel Granite Rapids with AVX-512 softmax takes 0.75 to
// 0.9 of its time so, and normalisation 0.85 to 0.95.
const leastFetched = 512

// farRow makes the distance of rows that are fetched that of several short ones: what is computed of a single one takes less time than a line needs from the
// third-level cache.
func (c *ctx) farRow() {
	double, far := c.NewLabel("double"), c.NewLabel("far")
	c.Load("n", "CX")
	c.Label(double)
	c.I("CMPQ CX, $%d", leastFetched)
	c.I("JGE %s", far)
	for _, r := range []string{"CX", "R12", "R13"} {
		c.I("ADDQ %s, %[1]s", r)
	}
	c.I("JMP %s", double)
	c.Label(far)
}

// fetchRow has lines of src and dst fetched so many rows behind those at the pointers.
func (c *ctx) fetchRow(src, dst string, rows int) {
	c.I("PREFETCHT1 (%s)(R12*%d)", src, rows)
	c.I("PREFETCHT1 (%s)(R13*%d)", dst, rows)
}

// storeLast stores the vector of number u from a pointer on, which is the last use of both in a row: with AVX2 the tail, of CX elements, by moves of
// ever fewer, since a masked store takes 12 cycles on AMD's processors.
func (c *ctx) storeLast(x, pointer string, u int, tail bool) {
	if !tail || !c.narrow() {
		c.store(x, c.vector(pointer, u), tail)
		return
	}
	low := strings.Replace(x, "Y", "X", 1)
	part := func(elements int, moves ...string) {
		none := c.NewLabel("none")
		c.I("TESTQ $%d, CX", elements)
		c.I("JZ %s", none)
		for _, m := range moves {
			c.I("%s", m)
		}
		c.I("ADDQ $%d, %s", 4*elements, pointer)
		c.Label(none)
	}
	to := fmt.Sprintf("(%s)", pointer)
	part(4, "VMOVUPS "+low+", "+to, fmt.Sprintf("VEXTRACTF128 $1, %s, %s", x, low))
	part(2, "VMOVLPS "+low+", "+to, fmt.Sprintf("VMOVHLPS %s, %s, %s", low, low, low))
	part(1, "VMOVSS "+low+", "+to)
}

// narrow reports whether vectors are those of AVX2.
func (c *ctx) narrow() bool { return c.isa == asm.AVX2() }

// vector addresses the vector of number u from a pointer on.
func (c *ctx) vector(pointer string, u int) string {
	if u == 0 {
		return fmt.Sprintf("(%s)", pointer)
	}
	return fmt.Sprintf("%d(%s)", u*c.isa.Size(), pointer)
}

// into writes acc = acc op x, only in the lanes of the row where tail is set. t is scratch.
func (c *ctx) into(op, x, acc, t string, tail bool) {
	switch {
	case !tail:
		c.I("%s %s, %s, %s", op, x, acc, acc)
	case c.isa.Masks:
		c.I("%s %s, %s, %s, %s", op, x, acc, c.isa.Mask(), acc)
	default:
		c.I("%s %s, %s, %s", op, x, acc, t)
		c.I("VBLENDVPS %s, %s, %s, %s", c.isa.Mask(), t, acc, acc)
	}
}

// zeroTail zeroes the lanes of x behind the row.
func (c *ctx) zeroTail(x string) {
	if c.isa.Masks {
		c.I("VMOVAPS.Z %s, %s, %s", x, c.isa.Mask(), x)
		return
	}
	c.I("VANDPS %s, %s, %s", c.isa.Mask(), x, x)
}

// norm writes layer normalisation, or RMS normalisation.
func norm(f *asm.File, isa asm.ISA, suffix string, rms bool) {
	name, what := "layerNorm"+suffix, "(x-mean) / sqrt(var+eps) * gamma + beta"
	if rms {
		name, what = "rmsNorm"+suffix, "x / sqrt(mean(x*x)+eps) * gamma + beta"
	}
	registers := bodyRegisters
	if isa == asm.AVX2() {
		registers = normRegisters
	}
	kernelOf(f, isa, registers, name, name+" writes "+what+" for each row; beta, or both it and gamma, may be nil; strides in bytes; rows, n > 0.",
		args("dst", "src", "gamma", "beta", "n", "rows", "ldd", "lds", "fetched:int", "eps:float32"), func(c *ctx) {
			c.Load("dst", "DI")
			c.Load("src", "SI")
			c.Load("gamma", "R8")
			c.Load("beta", "R9")
			c.tailMask()
			c.preload("")
			c.nextRow()
			c.normAll("ldd", rms, func(rows []normRow) { c.scaled(rows, rms) })
		})
}

// moments writes the mean of rows, and the reciprocal of their deviation.
func moments(f *asm.File, isa asm.ISA, suffix string) {
	registers := bodyRegisters
	if isa == asm.AVX2() {
		registers = normRegisters
	}
	name := "moments" + suffix
	kernelOf(f, isa, registers, name, name+" writes mean and 1 / sqrt(var+eps) of each row; stride in bytes; rows, n > 0.",
		args("dst", "src", "n", "rows", "lds", "eps:float32"), func(c *ctx) {
			c.Load("dst", "DI")
			c.Load("src", "SI")
			c.tailMask()
			c.preload("")
			c.normAll("$8", false, func(rows []normRow) {
				for i, r := range rows {
					c.I("VMOVSS X%d, %d(DI)", r.mean, 8*i)
					c.I("VMOVSS X%d, %d(DI)", r.sums, 8*i+4)
				}
			})
		})
}

// normAll finds the moments of all rows, two at a time where that is faster, and has write use them. ldd is the distance of rows of the result.
func (c *ctx) normAll(ldd string, rms bool, write func(rows []normRow)) {
	if c.narrow() {
		c.normPairs(ldd, rms, write)
	}
	c.rows(map[string]string{"DI": ldd, "SI": "lds"}, func() {
		c.normRows([]normRow{{src: "AX", dst: "BX", x: 4, mean: 6, rstd: 7}}, rms, write)
	})
	c.Ret()
}

// normRow is one of the rows that are normalised together: pointers, the first of four registers of sums, and those of elements, the mean and the reciprocal of the
// deviation.
type normRow struct {
	src, dst            string
	sums, x, mean, rstd int
}

// Rows of up to pairedRow elements are normalised two at a time with AVX2: what waits for the sums of one row is computed beside that of the other, and both
// rows, what is written of them, gamma and beta stay in a first-level cache of 32 KiB. Rows of 49 to 768 elements take 0.65 to 0.85 of their time so on an AMD Zen 3.
// Rows of 4 KiB, which fall on each other's cache sets, take 0.92 of it, and 1.1 where there is no mean to be found.
const (
	pairedRow     = 1024
	pairedRMSRow  = 896
	normRegisters = 14
)

// normPairs normalises two rows at a time, and returns where none is left.
func (c *ctx) normPairs(ldd string, rms bool, write func(rows []normRow)) {
	pairs, single := c.NewLabel("pairs"), c.NewLabel("single")
	longest := pairedRow
	if rms {
		longest = pairedRMSRow
	}
	c.I("CMPQ %s, $%d", c.Addr("n"), longest)
	c.I("JGT %s", single)
	c.Label(pairs)
	c.I("CMPQ %s, $2", c.Addr("rows"))
	c.I("JLT %s", single)
	c.normRows([]normRow{{src: "AX", dst: "BX", x: 8, mean: 10, rstd: 12}, {src: "DX", dst: "R14", sums: 4, x: 9, mean: 11, rstd: 13}}, rms, write)
	if !strings.HasPrefix(ldd, "$") {
		ldd = c.Addr(ldd)
	}
	for range 2 {
		c.I("ADDQ %s, DI", ldd)
		c.I("ADDQ %s, SI", c.Addr("lds"))
	}
	c.I("SUBQ $2, %s", c.Addr("rows"))
	c.I("JMP %s", pairs)
	c.Label(single)
	left := c.NewLabel("left")
	c.I("CMPQ %s, $0", c.Addr("rows"))
	c.I("JNE %s", left)
	c.Ret()
	c.Label(left)
}

// normRows finds the moments of rows that lie one behind the other, with mean and variance in two passes, four sums each, and has write use them.
func (c *ctx) normRows(rows []normRow, rms bool, write func(rows []normRow)) {
	pass := func(each func(r normRow, u int, tail bool)) {
		var ptrs []string
		for i, r := range rows {
			for u := range 4 {
				c.zero(c.isa.R(r.sums + u))
			}
			c.I("MOVQ SI, %s", r.src)
			if i > 0 {
				c.I("ADDQ %s, %s", c.Addr("lds"), r.src)
			}
			ptrs = append(ptrs, r.src)
		}
		c.rowUnrolled(ptrs, 4, func(u int, tail bool) {
			for _, r := range rows {
				c.load(c.vector(r.src, u), c.isa.R(r.x), tail)
				each(r, u, tail)
			}
		})
		for _, r := range rows {
			c.meanOfFour(r.sums)
		}
	}
	if !rms {
		pass(func(r normRow, u int, tail bool) {
			c.I("VADDPS %s, %s, %s", c.isa.R(r.x), c.isa.R(r.sums+u), c.isa.R(r.sums+u))
		})
		for _, r := range rows {
			c.I("VBROADCASTSS X%d, %s", r.sums, c.isa.R(r.mean))
		}
	}
	pass(func(r normRow, u int, tail bool) {
		x := c.isa.R(r.x)
		if !rms {
			c.I("VSUBPS %s, %s, %s", c.isa.R(r.mean), x, x)
			if tail {
				c.zeroTail(x)
			}
		}
		c.I("VFMADD231PS %s, %s, %s", x, x, c.isa.R(r.sums+u))
	})
	for _, r := range rows {
		c.I("VADDSS %s, X%d, X%[2]d", c.Addr("eps"), r.sums)
		c.I("VSQRTSS X%d, X%[1]d, X%[1]d", r.sums)
		c.I("VMOVAPS %s, %s", c.reg(1), c.isa.R(r.sums+1))
		c.I("VDIVSS X%d, X%d, X%[1]d", r.sums, r.sums+1)
		c.I("VBROADCASTSS X%d, %s", r.sums, c.isa.R(r.rstd))
	}
	write(rows)
}

// scaled writes rows from their moments, with what gamma and beta there are.
func (c *ctx) scaled(rows []normRow, rms bool) {
	gamma, beta, end := c.NewLabel("gamma"), c.NewLabel("beta"), c.NewLabel("normed")
	c.I("TESTQ R9, R9")
	c.I("JNZ %s", beta)
	c.I("TESTQ R8, R8")
	c.I("JNZ %s", gamma)
	c.normed(rows, rms, false, false)
	c.I("JMP %s", end)
	c.Label(gamma)
	c.normed(rows, rms, true, false)
	c.I("JMP %s", end)
	c.Label(beta)
	c.normed(rows, rms, true, true)
	c.Label(end)
}

// meanOfFour folds the sums in four registers into the first and divides by n.
func (c *ctx) meanOfFour(first int) {
	r := c.isa.R
	c.I("VADDPS %s, %s, %s", r(first+1), r(first), r(first))
	c.I("VADDPS %s, %s, %s", r(first+3), r(first+2), r(first+2))
	c.I("VADDPS %s, %s, %s", r(first+2), r(first), r(first))
	c.fold("VADDPS", first, first+1)
	c.Load("n", "CX")
	c.I("VXORPS X%d, X%[1]d, X%[1]d", first+1)
	c.I("VCVTSI2SSQ CX, X%d, X%[1]d", first+1)
	c.I("VDIVSS X%d, X%d, X%[2]d", first+1, first)
}

// normed writes rows from their means and the reciprocals of their deviations. Registers 0 and 1 are scratch.
func (c *ctx) normed(rows []normRow, rms, gamma, beta bool) {
	var ptrs []string
	for i, r := range rows {
		c.I("MOVQ SI, %s", r.src)
		c.I("MOVQ DI, %s", r.dst)
		if i > 0 {
			c.I("ADDQ %s, %s", c.Addr("lds"), r.src)
			c.I("ADDQ %s, %s", c.Addr("ldd"), r.dst)
		}
		ptrs = append(ptrs, r.src, r.dst)
	}
	if gamma {
		c.I("MOVQ R8, R10")
		ptrs = append(ptrs, "R10")
	}
	if beta {
		c.I("MOVQ R9, R11")
		ptrs = append(ptrs, "R11")
	}
	unroll := 1
	if c.narrow() {
		unroll = 2
	}
	c.rowUnrolled(ptrs, unroll, func(u int, tail bool) {
		for i, r := range rows {
			if u == 0 && !tail && !c.neon() {
				c.fetchRow(r.src, r.dst, len(rows))
			}
			x := c.isa.R(r.x)
			c.load(c.vector(r.src, u), x, tail)
			if !rms {
				c.I("VSUBPS %s, %s, %s", c.isa.R(r.mean), x, x)
			}
			c.I("VMULPS %s, %s, %s", c.isa.R(r.rstd), x, x)
			if i == 0 && gamma {
				c.load(c.vector("R10", u), c.r(0), tail)
			}
			if i == 0 && beta {
				c.load(c.vector("R11", u), c.r(1), tail)
			}
			switch {
			case beta:
				c.I("VFMADD213PS %s, %s, %s", c.r(1), c.r(0), x)
			case gamma:
				c.I("VMULPS %s, %s, %s", c.r(0), x, x)
			}
			c.storeLast(x, r.dst, u, tail)
		}
	})
}

// reduction is a way to combine elements; prepare maps each before.
type reduction struct {
	name, instruction string
	start             uint32
	prepare           func(c *ctx, x string)
}

// reductionOps are the reductions of rows and columns.
var reductionOps = []reduction{
	{"ReduceSum", "VADDPS", 0, func(c *ctx, x string) {}},
	{"ReduceMax", "VMAXPS", 0xff800000, func(c *ctx, x string) {}},
	{"ReduceMin", "VMINPS", 0x7f800000, func(c *ctx, x string) {}},
	{"ReduceSumSquares", "VADDPS", 0, func(c *ctx, x string) { c.I("VMULPS %s, %s, %s", x, x, x) }},
	{"ReduceSumAbs", "VADDPS", 0, func(c *ctx, x string) { c.op("VANDPS", c.bits(0x7fffffff), x, x) }},
}

// reductions writes reductions along rows (one result per row) and over rows (one result per column).
func reductions(f *asm.File, isa asm.ISA, suffix string) {
	var table strings.Builder
	fmt.Fprintf(&table, "// callReduce%s runs the kernel of op along rows. Strides are in bytes.\n", suffix)
	fmt.Fprintf(&table, "func callReduce%s(op ReduceOp, dst, src *float32, n, rows, lds int) {\n\tswitch op {\n", suffix)
	columns := strings.Builder{}
	fmt.Fprintf(&columns, "// callReduceColumns%s runs the kernel of op over rows. Strides are in bytes.\n", suffix)
	fmt.Fprintf(&columns, "func callReduceColumns%s(op ReduceOp, dst, src *float32, n, rows, lds int) {\n\tswitch op {\n", suffix)
	for _, op := range reductionOps {
		name := strings.ToLower(op.name[:1]) + op.name[1:] + suffix
		kernel(f, isa, name, name+" writes one number per row, combined in four interleaved chains of vectors; stride in bytes; rows, n > 0.",
			args("dst", "src", "n", "rows", "lds"), op.row)
		fmt.Fprintf(&table, "\tcase %s:\n\t\t%s(dst, src, n, rows, lds)\n", op.name, name)

		name = "columns" + op.name[len("Reduce"):] + suffix
		kernel(f, isa, name, name+" combines each of n columns of rows into the number at its place in dst, rows in order; stride in bytes; rows, n > 0.",
			args("dst", "src", "n", "rows", "lds"), op.columns)
		fmt.Fprintf(&columns, "\tcase %s:\n\t\t%s(dst, src, n, rows, lds)\n", op.name, name)
	}
	f.Go(table.String() + "\t}\n}\n\n" + columns.String() + "\t}\n}\n")
}

// nan reports whether the instruction loses a NaN, which the kernels have to keep.
func (op reduction) nan() bool { return op.instruction != "VADDPS" }

// row writes the kernel of a reduction along rows.
func (op reduction) row(c *ctx) {
	c.Load("dst", "DI")
	c.Load("src", "SI")
	c.tailMask()
	c.preload("")
	x, bad := c.r(4), c.r(6)
	c.rows(map[string]string{"DI": "$4", "SI": "lds"}, func() {
		for i := range 4 {
			c.set(c.bits(op.start), c.r(i))
		}
		if op.nan() {
			c.zero(bad)
		}
		c.I("MOVQ SI, AX")
		c.rowUnrolled([]string{"AX"}, 4, func(u int, tail bool) {
			c.load(fmt.Sprintf("%d(AX)", u*c.isa.Size()), x, tail)
			if op.nan() {
				c.collectNaN(x, bad, c.r(5))
			}
			op.prepare(c, x)
			c.into(op.instruction, x, c.r(u), c.r(5), tail)
		})
		c.I("%s %s, %s, %s", op.instruction, c.r(1), c.r(0), c.r(0))
		c.I("%s %s, %s, %s", op.instruction, c.r(3), c.r(2), c.r(2))
		c.I("%s %s, %s, %s", op.instruction, c.r(2), c.r(0), c.r(0))
		c.fold(op.instruction, 0, 1)
		if op.nan() {
			// bad is all ones, a NaN, in the lanes that met one.
			c.fold("VORPS", 6, 1)
			c.I("VORPS X6, X0, X0")
		}
		c.I("VMOVSS X0, (DI)")
	})
	c.Ret()
}

// columns writes the kernel of a reduction over rows.
func (op reduction) columns(c *ctx) {
	c.Load("dst", "DI")
	c.Load("src", "SI")
	c.Load("lds", "R8")
	c.tailMask()
	c.preload("")
	const wide = 4
	column := func(count int, tail bool) {
		off := func(p string, u int) string { return fmt.Sprintf("%d(%s)", u*c.isa.Size(), p) }
		for u := range count {
			c.load(off("DI", u), c.r(u), tail)
		}
		c.I("MOVQ SI, AX")
		c.Load("rows", "DX")
		c.Loop("DX", func() {
			for u := range count {
				x := c.r(4)
				c.load(off("AX", u), x, tail)
				op.prepare(c, x)
				if op.nan() {
					// A NaN in x is what the instruction returns; one in the result so far must stay.
					c.I("VMOVUPS %s, %s", c.r(u), c.r(5))
					c.I("%s %s, %s, %s", op.instruction, x, c.r(u), c.r(u))
					c.selectIf(cmpUnord, c.r(5), c.r(5), c.r(5), c.r(u), c.r(6))
				} else {
					c.I("%s %s, %s, %s", op.instruction, x, c.r(u), c.r(u))
				}
			}
			c.I("ADDQ R8, AX")
		})
		for u := range count {
			c.store(c.r(u), off("DI", u), tail)
		}
	}
	c.Load("n", "CX")
	for _, count := range []int{wide, 1} {
		c.While("CX", count*c.isa.Lanes, func() {
			column(count, false)
			c.I("ADDQ $%d, DI", count*c.isa.Size())
			c.I("ADDQ $%d, SI", count*c.isa.Size())
		})
	}
	c.I("TESTQ CX, CX")
	c.I("JZ end")
	column(1, true)
	c.Label("end")
	c.Ret()
}

// collectNaN sets all bits of the lanes of bad where x is NaN.
func (c *ctx) collectNaN(x, bad, t string) {
	if c.isa.Masks {
		c.I("VCMPPS $3, %s, %s, K2", x, x)
		c.I("VPTERNLOGD $0xff, %s, %s, K2, %s", bad, bad, bad)
		return
	}
	c.I("VCMPPS $3, %s, %s, %s", x, x, t)
	c.I("VORPS %s, %s, %s", t, bad, bad)
}
