package gpukernel

import (
	"fmt"
	"math"
	"strings"
	"sync"
)

// prebuiltKernels are those that take shapes as arguments, for devices without a compiler.
type prebuiltKernels struct {
	elements, rows *Kernel // the interpreter
	products       map[productVariant]*Kernel
	combine        *Kernel
	depthwise      map[int]*Kernel // by channels of an item
	attention      map[attentionVariant]*Kernel
	all            []*Kernel
}

// productVariant is what of a product is compiled in.
type productVariant struct {
	tile                       int // among prebuiltTiles
	windows, transposed, whole bool
}

// prebuiltTiles are the tiles of products that are compiled beforehand. Their local memory is what every device has.
func prebuiltTiles() []Tile {
	return []Tile{
		{bm: 128, bn: 128, bk: 8, tm: 8, tn: 8, threads: 256, stages: 4, blocks: 1, efficiency: 0.75},
		{bm: 64, bn: 64, bk: 16, tm: 4, tn: 8, threads: 128, stages: 3, blocks: 3, efficiency: 0.55},
	}
}

// Prebuilt returns the kernels of a Device that has none but them: their shapes are arguments, so that they can be compiled
// beforehand. Products, convolutions as products or of single channels, and attention are for float32; everything that Render writes
// is a program for an interpreter. They are the same ones each time, in the same order.
func Prebuilt() []*Kernel { return prebuilt().all }

var prebuilt = sync.OnceValue(func() *prebuiltKernels {
	p := &prebuiltKernels{products: map[productVariant]*Kernel{}, depthwise: map[int]*Kernel{}, attention: map[attentionVariant]*Kernel{}}
	keep := func(k *Kernel) *Kernel {
		p.all = append(p.all, k)
		return k
	}
	p.elements, p.rows = keep(interpreter("interpret_elements", false)), keep(interpreter("interpret_rows", true))
	for i := range prebuiltTiles() {
		for v := range 8 {
			variant := productVariant{i, v&1 != 0, v&2 != 0, v&4 != 0}
			if !variant.windows || !variant.transposed {
				p.products[variant] = keep(variant.kernel())
			}
		}
	}
	p.combine = keep(prebuiltCombine())
	for _, across := range []int{1, 4} {
		p.depthwise[across] = keep(prebuiltDepthwise(across))
	}
	for _, v := range attentionVariants() {
		p.attention[v] = keep(v.kernel())
	}
	return p
})

// argument is a number that a kernel takes, instead of a macro of that name in capitals.
type argument struct {
	name string
	wide bool
}

func arguments(wide bool, names string) []argument {
	var list []argument
	for _, n := range strings.Fields(names) {
		list = append(list, argument{n, wide})
	}
	return list
}

func (k *Kernel) take(list []argument) {
	for _, a := range list {
		t := I32
		if a.wide {
			t = I64
		}
		k.Params = append(k.Params, Param{Name: "the_" + a.name, Type: t, Scalar: true})
		k.Defines = append(k.Defines, Define{strings.ToUpper(a.name), "the_" + a.name})
	}
}

var (
	productNumbers = append(arguments(false, "lda ldb ldc depth columns batch1 splits"), arguments(true, "a_batch0 a_batch1 b_batch0 b_batch1 c_batch0 c_batch1")...)
	combineNumbers = append(arguments(false, "ldc columns batch1 splits"), arguments(true, "c_batch0 c_batch1")...)
	windowNumbers  = arguments(false, "in_h in_w in_stride channels out_h out_w kernel_w stride_h stride_w dilation_h dilation_w pad_h pad_w")
	depthNumbers   = arguments(false, "kernel_h out_stride filters")
)

// finishes gives a kernel what FINISH of any.h needs.
func (k *Kernel) finishes() {
	k.Params = append(k.Params, Param{Name: "operand0", Type: F32}, Param{Name: "operand1", Type: F32})
	for _, n := range []string{"adds", "scale", "low", "high", "columns_per_group", "residual_stride"} {
		k.Params = append(k.Params, Param{Name: n, Type: I32, Scalar: true})
	}
	for _, n := range []string{"residual_batch0", "residual_batch1"} {
		k.Params = append(k.Params, Param{Name: n, Type: I64, Scalar: true})
	}
	k.Defines = append(k.Defines, Define{"RESIDUAL(m, n)", "((i64)batch0 * residual_batch0 + (i64)batch1 * residual_batch1 + (i64)(m) * residual_stride + (n))"},
		Define{"column_base", "(batch1 * columns_per_group)"})
	k.Files = append([]string{"any.h"}, k.Files...)
}

func (v productVariant) name() string {
	t := prebuiltTiles()[v.tile]
	name := fmt.Sprintf("product_%dx%d", t.bm, t.bn)
	for _, part := range []struct {
		in   bool
		name string
	}{{v.windows, "_windows"}, {v.transposed, "_transposed"}, {v.whole, "_whole"}} {
		if part.in {
			name += part.name
		}
	}
	return name
}

func (v productVariant) kernel() *Kernel {
	t := prebuiltTiles()[v.tile]
	k := &Kernel{Name: v.name(), Threads: t.threads, Blocks: t.blocks, Waits: true, Body: source("product_body.h")}
	k.Params = []Param{{Name: "a", Type: F32}, {Name: "b", Type: F32}, {Name: "c", Type: F32, Written: true}, {Name: "rows", Type: I32, Scalar: true}}
	k.take(productNumbers)
	left, aVector, bVector := "dense.h", 1, 1
	if v.whole {
		aVector = 4
		if !v.transposed {
			bVector = 4
		}
	}
	if v.windows {
		left = "convolution.h"
		k.take(windowNumbers)
	}
	k.Files = []string{"place.h", left, "product.h"}
	k.finishes()
	k.Defines = append(k.Defines, def("A_T", F32), def("B_T", F32), def("C_T", F32), def("B_TRANSPOSED", flag(v.transposed)), def("BM", t.bm), def("BN", t.bn),
		def("BK", t.bk), def("STAGES", t.stages), def("STRIP", 8), def("TM", t.tm), def("TN", t.tn), def("A_VECTOR", aVector), def("B_VECTOR", bVector),
		def("C_VECTOR", aVector), def("REAL", F32))
	k.Arena = t.stages * 4 * (t.bm*(t.bk+4) + t.bk*(t.bn+4))
	return k
}

func prebuiltCombine() *Kernel {
	k := &Kernel{Name: "product_combine", Threads: 256, Body: source("combine_body.h")}
	k.Params = []Param{{Name: "partial", Type: F32}, {Name: "c", Type: F32, Written: true}, {Name: "rows", Type: I32, Scalar: true}}
	k.take(combineNumbers)
	k.finishes()
	k.Defines = append(k.Defines, def("C_T", F32), def("REAL", F32))
	return k
}

func prebuiltDepthwise(across int) *Kernel {
	k := &Kernel{Name: fmt.Sprintf("depthwise_%d", across), Threads: 128, Blocks: 4, Files: []string{"across.h"}, Body: source("depthwise_body.h")}
	k.Params = []Param{{Name: "a", Type: F32}, {Name: "b", Type: F32}, {Name: "c", Type: F32, Written: true}, {Name: "items", Type: I32, Scalar: true}}
	k.take(windowNumbers)
	k.take(depthNumbers)
	k.finishes()
	k.Defines = append(k.Defines, def("A_T", F32), def("C_T", F32), def("ACROSS", across), def("WIDE", 4), def("batch0", 0), def("batch1", 0))
	return k
}

// values are the arguments of numbers, in the order of their names.
func values(list ...int) []Arg {
	args := make([]Arg, len(list))
	for i, v := range list {
		args[i] = value(v)
	}
	return args
}

// matrixOfResult is how a result and the operands of its steps lie: in one piece, batch times rows of columns.
type matrixOfResult struct {
	batch, rows, columns int
	inOnePiece           bool
}

// finishArgs returns the arguments for FINISH of any.h, and how many steps it stands for.
func finishArgs(steps []Step, residual Matrix, columnsPerGroup int) (args []Arg, done int) {
	scale, low, high := float32(1), float32(math.Inf(-1)), float32(math.Inf(1))
	adds := 0
	operands := []Arg{buffer("c"), buffer("c")} // which is not read
	rank := map[FinishOp]int{Scale: 1, AddColumn: 2, AddMatrix: 3, Relu: 4, Clip: 4}
	last := 0
	for i, s := range steps {
		r := rank[s.Op]
		if r <= last || s.reads() && s.Operand != F32 {
			break
		}
		switch s.Op {
		case Scale:
			scale = s.Alpha
		case AddColumn, AddMatrix:
			adds |= r - 1
			operands[r-2] = buffer(operandName(i))
		case Relu:
			low = 0
		default:
			low, high = s.Alpha, s.Beta
		}
		last, done = r, i+1
	}
	bits := func(f float32) int { return int(int32(math.Float32bits(f))) }
	return append(operands, values(adds, bits(scale), bits(low), bits(high), columnsPerGroup, residual.Stride, residual.Batch0, residual.Batch1)...), done
}

// finishLater appends what applies steps to a result that is in memory.
func finishLater(plan *Plan, name string, d Device, steps []Step, done int, r matrixOfResult) (*Plan, error) {
	if done == len(steps) {
		return plan, nil
	}
	if !r.inOnePiece {
		return nil, unsupported("a result with gaps, finished by steps behind its kernel")
	}
	p := &Program{}
	shape := []int{r.batch, r.rows, r.columns}
	v := p.Input("c", F32, shape...)
	for i, s := range steps[done:] {
		with := func(op string, shape ...int) {
			v = p.Scalar(F32, op, v, p.Input(operandName(done+i), s.Operand, shape...))
		}
		switch s.Op {
		case AddColumn:
			with("$0 + $1", r.columns)
		case AddMatrix:
			with("$0 + $1", shape...)
		default:
			v = p.Scalar(F32, strings.Replace(s.expression("", ""), "v", "$0", 1), v)
		}
	}
	p.Output(v, "c")
	later, err := Render(name+"_finish", d, p)
	if err != nil {
		return nil, err
	}
	plan.Launches, plan.Scratch = append(plan.Launches, later.Launches...), append(plan.Scratch, later.Scratch...)
	return plan, nil
}

// result says how the product's result lies.
func (s *ProductShape) lies() matrixOfResult {
	alike := s.Residual.Stride == s.C.Stride && s.Residual.Batch0 == s.C.Batch0 && s.Residual.Batch1 == s.C.Batch1
	batches := s.Batch0 * s.Batch1
	switch {
	case s.columnsPerGroup1 > 0: // groups are beside each other
		return matrixOfResult{1, s.M, s.N * batches, alike && s.Batch0 == 1 && s.C.Stride == s.N*batches && (batches == 1 || s.C.Batch1 == s.N)}
	case batches == 1:
		return matrixOfResult{1, s.M, s.N, alike && s.C.Stride == s.N}
	}
	piece := s.C.Stride == s.N && (s.Batch1 == 1 || s.C.Batch1 == s.M*s.N) && (s.Batch0 == 1 || s.C.Batch0 == s.Batch1*s.M*s.N)
	return matrixOfResult{batches, s.M, s.N, alike && piece}
}

// prebuilt returns the plan of a product by the kernels that were compiled beforehand.
func (s *ProductShape) prebuilt(name string, d Device) (*Plan, error) {
	if s.A.Type != F32 || s.C.Type != F32 {
		return nil, unsupported("product of %s to %s by a kernel that was compiled beforehand", s.A.Type, s.C.Type)
	}
	t, tile := s.prebuiltTile(d)
	c, steps := s.C, s.Finish
	if t.splits > 1 {
		c, steps = Matrix{Type: F32, Stride: s.N}, nil
	}
	a, b, along := s.vectors(c)
	variant := productVariant{tile: tile, windows: s.left != nil, transposed: s.TransposedB, whole: a == 4 && (b == 4 || s.TransposedB) && along == 4}
	grid := [3]int{ceilDiv(s.M, t.bm) * ceilDiv(s.N, t.bn), 1, s.Batch0 * s.Batch1 * t.splits}
	args := []Arg{buffer("a"), buffer("b"), buffer("c"), value(s.M)}
	args = append(args, values(s.A.Stride, s.B.Stride, c.Stride, s.K, s.N, s.Batch1, t.splits, s.A.Batch0, s.A.Batch1, s.B.Batch0, s.B.Batch1, c.Batch0, c.Batch1)...)
	if s.left != nil {
		args = append(args, s.left.numbers()...)
	}
	finish, done := finishArgs(steps, s.Residual, s.columnsPerGroup1)
	k := prebuilt().products[variant]
	if t.splits == 1 {
		return finishLater(&Plan{Launches: []Launch{{k, grid, append(args, finish...)}}}, name, d, s.Finish, done, s.lies())
	}
	for _, in := range [][]Arg{args, finish} {
		for i := range in {
			if in[i].Buffer == "c" {
				in[i].Buffer = "partial"
			}
		}
	}
	last, done := finishArgs(s.Finish, s.Residual, s.columnsPerGroup1)
	combined := append([]Arg{buffer("partial"), buffer("c"), value(s.M)}, values(s.C.Stride, s.N, s.Batch1, t.splits, s.C.Batch0, s.C.Batch1)...)
	plan := &Plan{
		Launches: []Launch{
			{k, grid, append(args, finish...)},
			{prebuilt().combine, [3]int{ceilDiv(s.M*s.N, 256), 1, s.Batch0 * s.Batch1}, append(combined, last...)},
		},
		Scratch: []Scratch{{"partial", 4 * int64(s.M) * int64(s.N) * int64(grid[2])}},
	}
	return finishLater(plan, name, d, s.Finish, done, s.lies())
}

// prebuiltTile chooses a tile, by the model of Tiles, and in how many parts the depth is split.
func (s *ProductShape) prebuiltTile(d Device) (best Tile, index int) {
	least := math.Inf(1)
	for i, t := range prebuiltTiles() {
		for t.splits = 1; t.splits <= 16 && (t.splits == 1 || ceilDiv(s.K, t.bk) >= 4*t.splits); t.splits *= 2 {
			if s.Batch0*s.Batch1*t.splits > 65535 {
				break
			}
			if c := s.cost(d, t); c < least {
				best, index, least = t, i, c
			}
		}
	}
	return best, index
}

// numbers are the arguments for windowNumbers.
func (w *window) numbers() []Arg {
	return values(w.inH, w.inW, w.stride, w.channels, w.outH, w.outW, w.kernelW, w.strideH, w.strideW, w.dilH, w.dilW, w.padH, w.padW)
}

// prebuiltDepthwise is depthwise by a kernel that was compiled beforehand.
func (s *ConvShape) prebuiltDepthwise(name string, d Device, win window, across, items int) (*Plan, error) {
	if s.Type != F32 || s.Result != F32 {
		return nil, unsupported("convolution of %s to %s by a kernel that was compiled beforehand", s.Type, s.Result)
	}
	k := prebuilt().depthwise[across]
	args := append([]Arg{buffer("a"), buffer("b"), buffer("c"), value(items)}, win.numbers()...)
	args = append(args, values(s.KernelH, s.ResultStride, s.Filters)...)
	finish, done := finishArgs(s.Finish, Matrix{Stride: s.Filters}, 0)
	plan := &Plan{Launches: []Launch{{k, [3]int{ceilDiv(items, k.Threads), 1, 1}, append(args, finish...)}}}
	return finishLater(plan, name, d, s.Finish, done, matrixOfResult{1, s.N * win.outH * win.outW, s.Filters, s.ResultStride == s.Filters})
}
