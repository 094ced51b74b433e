package gpukernel

import (
	"cmp"
	"fmt"
)

// Precision is how the products of float32 operands are computed, or what type half operands have.
type Precision uint8

// Exact multiplies in float32. The others round float32 operands where the device has matrix instructions, and are Exact where it
// has none, unless its kernels follow those of 16 bits all the same (Device.Narrow): to the 19 bits of TF32, or to the 16 of F16, in
// which what is beyond 65504 is infinite, or BF16; sums are in float32.
// Operands that are of F16 and BF16 use matrix instructions, where the device has them, with any: their products are exact in float32.
const (
	Exact Precision = iota
	TF32
	RoundedF16
	RoundedBF16
)

// Half returns the type of 16 bits that operands are rounded to, "" for none.
func (p Precision) Half() Type {
	switch p {
	case RoundedF16:
		return F16
	case RoundedBF16:
		return BF16
	case Exact, TF32:
	}
	return ""
}

// ParsePrecision returns the Precision of a name, Exact for "".
func ParsePrecision(name string) (Precision, error) {
	for _, p := range []Precision{Exact, TF32, RoundedF16, RoundedBF16} {
		if p.String() == name || name == "" {
			return p, nil
		}
	}
	return 0, fmt.Errorf("precision: %q, expected f32, tf32, f16 or bf16", name)
}

// String names the type that operands are rounded to.
func (p Precision) String() string { return []string{"f32", "tf32", "f16", "bf16"}[p] }

// Matrix is how an operand of a product lies in memory: rows of elements, Stride elements apart, matrices of a batch of two
// dimensions Batch0 and Batch1 elements apart (0: all the same).
type Matrix struct {
	Type           Type
	Stride         int
	Batch0, Batch1 int
}

// ProductShape is C = finish(A × B) of matrices A [M, K] and B [K, N], or [N, K] where TransposedB. The result's buffer is "c",
// operands' "a" and "b", those of step i of Finish "operand"i. M is an argument of the launch, everything else is compiled in.
type ProductShape struct {
	M, N, K          int
	Batch0, Batch1   int // sizes of the batch, 0 for 1
	A, B, C          Matrix
	TransposedB      bool
	Precision        Precision
	Finish           []Step
	Residual         Matrix // strides of the operands of AddMatrix; the zero value: those of C
	Tile             string // by its name among Tiles; any other stands for the first of these
	left             *window
	narrow           bool // operands lie in local memory in the 16 bits of Precision, which is the type of those that are not of float32
	columnsPerGroup1 int  // AddColumn advances by so many columns per index of Batch1
}

// Product returns the plan of a matrix product, whose precision is the device's where the shape's is Exact. The name, an identifier,
// begins the names of its kernels. The error wraps ErrUnsupported.
func Product(name string, d Device, s ProductShape) (*Plan, error) {
	if err := s.check(d); err != nil {
		return nil, err
	}
	if d.Prebuilt {
		return s.prebuilt(name, d)
	}
	list := s.tiles(d)
	if len(list) == 0 {
		return nil, unsupported("product in %d bytes of local memory", d.Local)
	}
	t := s.tile(list)
	if t.direct {
		return s.direct(name, d, t), nil
	}
	return s.plan(name, t), nil
}

// Rest returns the plan of what is left of Finish when something else than a kernel of this package has made the product, and done the
// first steps: they change the result, "c", where it lies. The error wraps ErrUnsupported.
func (s ProductShape) Rest(name string, d Device, done int) (*Plan, error) {
	if err := s.check(d); err != nil {
		return nil, err
	}
	return finishLater(&Plan{}, name, d, s.Finish, done, s.lies())
}

func (s *ProductShape) check(d Device) error {
	s.Precision = cmp.Or(s.Precision, d.Precision)
	s.Batch0, s.Batch1 = max(s.Batch0, 1), max(s.Batch1, 1)
	if s.M < 1 || s.N < 1 || s.K < 1 {
		return unsupported("product of %d×%d×%d", s.M, s.N, s.K)
	}
	s.narrow = s.narrows(d)
	if s.A.Type != s.B.Type && !s.narrow || !s.A.Type.isFloat() || !s.C.Type.isFloat() || (s.A.Type == F64) != (s.C.Type == F64) {
		return unsupported("product of %s and %s to %s", s.A.Type, s.B.Type, s.C.Type)
	}
	if s.A.Type == F64 {
		if err := d.checkDouble(); err != nil {
			return err
		}
	}
	if s.Batch0 > 1<<12 || s.Batch1 > 1<<12 || s.Batch0*s.Batch1 > 1<<12 || max(s.M, s.N, s.K) > 1<<30 || s.M > 1<<30/s.N || s.K > 1<<30/s.N {
		return unsupported("product of %d×%d×%d, %d times", s.M, s.N, s.K, s.Batch0*s.Batch1)
	}
	if s.Residual == (Matrix{}) {
		s.Residual = s.C
	}
	return nil
}

// narrows reports whether operands lie in local memory in the 16 bits of the precision: those of float32, and those of its type.
func (s *ProductShape) narrows(d Device) bool {
	half := s.Precision.Half()
	fits := func(t Type) bool { return t == F32 || t == half }
	return d.Narrow && !d.Matrix && !d.Prebuilt && half != "" && fits(s.A.Type) && fits(s.B.Type)
}

// real returns the type of sums.
func (s *ProductShape) real() Type {
	if s.A.Type == F64 {
		return F64
	}
	return F32
}

// matrixKind tells whether the product runs on matrix instructions.
func (s *ProductShape) matrixKind(d Device) bool {
	return d.Matrix && (s.A.Type.isHalf() || s.A.Type == F32 && s.Precision != Exact)
}

// vector returns how many elements of an operand one copy takes: 16 bytes where every row begins at a multiple of that, and
// the extent along the row is one; else a single element.
func vector(m Matrix, extent int, extra ...int) int {
	n := 16 / m.Type.Size()
	for _, v := range append(extra, m.Stride, m.Batch0, m.Batch1, extent) {
		if v%n != 0 {
			return 1
		}
	}
	return n
}

// vectors returns how many elements a copy takes of the operands, and of a result c.
func (s *ProductShape) vectors(result Matrix) (a, b, c int) {
	along := s.N
	if s.TransposedB {
		along = s.K
	}
	depth := s.K
	if s.left != nil {
		depth = s.left.channels
	}
	return vector(s.A, depth), vector(s.B, along), vector(result, s.N, s.columnsPerGroup1)
}

func (s *ProductShape) plan(name string, t Tile) *Plan {
	k := s.kernel(name, t)
	tiles := ceilDiv(s.M, t.bm) * ceilDiv(s.N, t.bn)
	grid := [3]int{tiles, 1, s.Batch0 * s.Batch1 * t.splits}
	if t.splits == 1 {
		_, _, operands := finish(s.Finish, "", s.real())
		args := append([]Arg{buffer("a"), buffer("b"), buffer("c"), value(s.M)}, operands...)
		return &Plan{Launches: []Launch{{k, grid, args}}}
	}
	c, args := s.combine(name+"_combine", t.splits)
	partial := Scratch{"partial", int64(s.real().Size()) * int64(s.M) * int64(s.N) * int64(grid[2])}
	return &Plan{
		Launches: []Launch{
			{k, grid, []Arg{buffer("a"), buffer("b"), buffer("partial"), value(s.M)}},
			{c, [3]int{ceilDiv(s.M*s.N, c.Threads), 1, s.Batch0 * s.Batch1}, args},
		},
		Scratch: []Scratch{partial},
	}
}

// result returns the defines of where the product goes, finished or not, and the parameters that finishing needs.
func (s *ProductShape) result(steps []Step, c Matrix) ([]Define, []Param, []Arg) {
	residual := fmt.Sprintf("(i64)batch0 * %d + (i64)batch1 * %d + (i64)(m) * %d + (n)",
		s.Residual.Batch0, s.Residual.Batch1, s.Residual.Stride)
	f, params, args := finish(steps, residual, s.real())
	return []Define{
		def("C_T", c.Type), def("LDC", c.Stride), def("C_BATCH0", c.Batch0), def("C_BATCH1", c.Batch1),
		def("BATCH1", s.Batch1), def("COLUMNS", s.N), def("column_base", fmt.Sprintf("batch1 * %d", s.columnsPerGroup1)), f,
	}, params, args
}

func (s *ProductShape) kernel(name string, t Tile) *Kernel {
	steps, c := s.Finish, s.C
	if t.splits > 1 {
		steps, c = nil, Matrix{Type: s.real(), Stride: s.N}
	}
	defines, operands, _ := s.result(steps, c)
	params := append([]Param{{Name: "a", Type: s.A.Type}, {Name: "b", Type: s.B.Type}, {Name: "c", Type: c.Type, Written: true},
		{Name: "rows", Type: I32, Scalar: true}}, operands...)
	k := &Kernel{Name: name, Params: params, Threads: t.threads, Blocks: t.blocks, Waits: true, Double: s.A.Type == F64}
	aVector, bVector, cVector := s.vectors(c)
	left := "dense.h"
	if s.left != nil {
		left = "convolution.h"
		defines = append(defines, s.left.defines()...)
	}
	k.Defines = append(defines,
		def("A_T", s.A.Type), def("B_T", s.B.Type), def("LDA", s.A.Stride), def("LDB", s.B.Stride), def("DEPTH", s.K),
		def("A_BATCH0", s.A.Batch0), def("A_BATCH1", s.A.Batch1), def("B_BATCH0", s.B.Batch0), def("B_BATCH1", s.B.Batch1),
		def("B_TRANSPOSED", flag(s.TransposedB)), def("BM", t.bm), def("BN", t.bn), def("BK", t.bk),
		def("STAGES", t.stages), def("SPLITS", t.splits), def("STRIP", 8))
	if t.matrix {
		s.matrixKernel(k, t, left, aVector, bVector, cVector)
	} else {
		s.plainKernel(k, t, left, aVector, bVector, cVector)
	}
	return k
}

func (s *ProductShape) plainKernel(k *Kernel, t Tile, left string, aVector, bVector, cVector int) {
	aVector, bVector = s.plainVector(s.A, aVector), s.plainVector(s.B, bVector)
	if s.TransposedB {
		bVector = 1
	}
	if cVector != 4 {
		cVector = 1
	}
	k.Defines = append(k.Defines, def("REAL", s.real()), def("TM", t.tm), def("TN", t.tn), def("A_VECTOR", aVector), def("B_VECTOR", bVector), def("C_VECTOR", cVector))
	k.Files = []string{"place.h", left, "product.h"}
	k.Body = source("product_body.h")
	size := s.real().Size()
	if s.narrow {
		k.Defines = append(k.Defines, def("NARROW", s.Precision))
		size = 2
	}
	k.Arena = t.stages * size * (t.bm*(t.bk+4) + t.bk*(t.bn+4))
}

// plainVector returns how many elements a kernel without matrix instructions copies at once, where 16 bytes of them lie so that they may be.
func (s *ProductShape) plainVector(m Matrix, vector int) int {
	if vector == 1 || m.Type != F32 && !s.narrow {
		return 1
	}
	return 4
}

func (s *ProductShape) matrixKernel(k *Kernel, t Tile, left string, aVector, bVector, cVector int) {
	rounded, size := string(s.A.Type), 2
	if s.A.Type == F32 {
		rounded, size = s.Precision.String(), 4
	}
	store := "STORE(C_T, c, at, v0); STORE(C_T, c, (at) + 1, v1);"
	if cVector > 1 {
		switch k.Params[2].Type {
		case F32:
			store = "u32x2 pair; pair.x = bits_of_f32(v0); pair.y = bits_of_f32(v1); *(u32x2 *)(c + (at)) = pair;"
		case F16:
			store = "*(u32 *)(c + (at)) = (u32)f16_of_f32(v0) | (u32)f16_of_f32(v1) << 16;"
		case BF16:
			store = "*(u32 *)(c + (at)) = (u32)bf16_of_f32(v0) | (u32)bf16_of_f32(v1) << 16;"
		}
	}
	k.Defines = append(k.Defines, def("WM", t.tm), def("WN", t.tn), def("A_VECTOR", aVector), def("B_VECTOR", bVector),
		def("WIDE", flag(size == 4)), def("TF32", flag(rounded == "tf32")), def("PAIR", "pair_"+rounded), def("MULTIPLY", "mma_"+rounded), Define{"STORE_PAIR(at, v0, v1)", "{ " + store + " }"})
	k.Files = []string{"place.h", left, "matrix.h"}
	k.Body = source("matrix_body.h")
	pitch := 16 / size
	right := t.bk * (t.bn + 8)
	if s.TransposedB {
		right = t.bn * (t.bk + pitch)
	}
	k.Arena = t.stages * size * (t.bm*(t.bk+pitch) + right)
}

// combine returns the kernel that adds what the splits of the depth wrote, and its arguments.
func (s *ProductShape) combine(name string, splits int) (*Kernel, []Arg) {
	defines, operands, args := s.result(s.Finish, s.C)
	k := &Kernel{
		Name:    name,
		Params:  append([]Param{{Name: "partial", Type: s.real()}, {Name: "c", Type: s.C.Type, Written: true}, {Name: "rows", Type: I32, Scalar: true}}, operands...),
		Defines: append(defines, def("SPLITS", splits), def("REAL", s.real())),
		Body:    source("combine_body.h"),
		Threads: 256,
		Double:  s.A.Type == F64,
	}
	return k, append([]Arg{buffer("partial"), buffer("c"), value(s.M)}, args...)
}
