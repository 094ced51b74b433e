package gemm

import (
	"errors"
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Layout is how B[K, N] is stored.
type Layout uint8

const (
	// Packed is [⌈N/16⌉][K][16]: panels of 16 columns, zero-padded, as PackB and PackBT write them. The fastest layout for
	// any M, and the one for constant weights. LDB is not used.
	Packed Layout = iota
	// Rows is [K, N] with row stride LDB: attention's P·V, or a B that is used too few times to be packed. As fast as Packed
	// up to some hundred rows of B; with LDB and K in the thousands, the strided lines of B displace each other in the
	// caches (84 against 95 % of peak at 256x4096x1024), and PackB pays from M = 64 or so.
	Rows
	// Columns is [N, K] with row stride LDB (B is given transposed) and is computed by dot products along K. Meant for
	// few rows (M ≤ 4 or so), for K far above 64, or for few columns (N < 4, where a panel of 16 would be mostly padding);
	// otherwise packing with PackBT first is faster.
	Columns
)

// String returns the name of the layout.
func (l Layout) String() string {
	switch l {
	case Packed:
		return "packed"
	case Rows:
		return "rows"
	case Columns:
		return "columns"
	}
	return fmt.Sprintf("layout(%d)", uint8(l))
}

// Spec describes one product. Strides are in elements.
type Spec struct {
	// M, N and K are the sizes; each may be 0. With K = 0, C is act(bias + residual).
	M, N, K int
	// LDA, LDC and LDR are the row strides of A, C and the residual; 0 means K, N and N. LDB is that of B as Layout
	// says; 0 means N for Rows and K for Columns.
	LDA, LDB, LDC, LDR int
	// B is the layout of B.
	B Layout
	// Bias says that Args.Bias[N] is added, Residual that Args.Res[M, N] is.
	Bias, Residual bool
	// Double says that matrices are float64 (Doubles, RunDouble): in panels of 8 columns where B is Packed. There is no Clip, no Post
	// and no B by Columns.
	Double bool
	// Pairs says that A and B are bfloat16 or float16, rounded as package pairs does: K and LDA count words of two numbers that are neighbours
	// along k, and B, which is Packed, has a word in the place of a float. Products are added up in float32; those of float16 by NEON in
	// float16 at first, up to 64 of them. Float32, the zero value, is no pair.
	Pairs pairs.Type
	// Half says that B, which is Packed, is float16: panels have half as many bytes. A and sums are float32.
	Half bool
	// Clip bounds the result: max(Lo, min(Hi, x)), NaN stays NaN. ReLU is Lo = 0, Hi = +Inf.
	Clip   bool
	Lo, Hi float32
	// Post, when not nil, is called after each finished block of C while that block is in the first- or second-level cache:
	// c[i*ldc+j] for i < rows, j < cols is the block. It runs on the caller's goroutines, concurrently for different
	// blocks, once for each element of C.
	Post func(c []float32, ldc, rows, cols int)
	// Threads is how many threads share the chunks, each a range of them, 0 for one: where B is small these are ranges of rows. Results do not depend on it.
	Threads int
}

// ErrSpec is wrapped by every error of this package.
var ErrSpec = errors.New("gemm: invalid product")

// SpecError says which field of a Spec is out of range. It wraps ErrSpec.
type SpecError struct {
	Field  string
	Value  int
	Reason string
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("%v: %s = %d: %s", ErrSpec, e.Field, e.Value, e.Reason)
}

// Unwrap returns ErrSpec.
func (e *SpecError) Unwrap() error { return ErrSpec }

// complete checks a Spec and fills in the strides that are 0.
func (s Spec) complete() (Spec, error) {
	for _, d := range []struct {
		name  string
		value int
	}{{"M", s.M}, {"N", s.N}, {"K", s.K}, {"LDA", s.LDA}, {"LDB", s.LDB}, {"LDC", s.LDC}, {"LDR", s.LDR}, {"Threads", s.Threads}} {
		if d.value < 0 {
			return s, &SpecError{d.name, d.value, "is negative"}
		}
		if d.value > math.MaxInt32 {
			return s, &SpecError{d.name, d.value, "exceeds 2^31-1"}
		}
	}
	if s.Double && (s.Clip || s.Post != nil || s.B == Columns) {
		return s, &SpecError{"Double", 1, "goes with neither Clip, Post nor Columns"}
	}
	if s.Pairs > pairs.Float16 {
		return s, &SpecError{"Pairs", int(s.Pairs), "is no type"}
	}
	if s.Pairs != pairs.Float32 && (s.Double || s.B != Packed) {
		return s, &SpecError{"Pairs", 1, "goes with neither Double nor a B that is not packed"}
	}
	if s.Half && (s.Double || s.Pairs != pairs.Float32 || s.B != Packed) {
		return s, &SpecError{"Half", 1, "goes with neither Double, Pairs nor a B that is not packed"}
	}
	rows, cols := s.K, s.N
	switch s.B {
	case Packed, Rows:
	case Columns:
		rows, cols = s.N, s.K
	default:
		return s, &SpecError{"B", int(s.B), "is no layout"}
	}
	for _, d := range []struct {
		name   string
		stride *int
		rows   int
		cols   int
	}{{"LDA", &s.LDA, s.M, s.K}, {"LDB", &s.LDB, rows, cols}, {"LDC", &s.LDC, s.M, s.N}, {"LDR", &s.LDR, s.M, s.N}} {
		if *d.stride == 0 {
			*d.stride = d.cols
		}
		if *d.stride < d.cols {
			return s, &SpecError{d.name, *d.stride, fmt.Sprintf("is below the row length %d", d.cols)}
		}
		if d.rows > 0 && *d.stride > math.MaxInt/8/d.rows {
			return s, &SpecError{d.name, *d.stride, fmt.Sprintf("times %d rows overflows", d.rows)}
		}
	}
	if s.Clip && !(s.Lo <= s.Hi) {
		return s, &SpecError{"Lo", int(clampInt(s.Lo)), "is not at most Hi"}
	}
	return s, nil
}

func clampInt(x float32) float32 {
	if x != x {
		return 0
	}
	return max(math.MinInt32, min(x, 1<<30))
}

// extent returns how many elements a matrix of rows x cols with stride ld reaches over.
func extent(rows, cols, ld int) int {
	if rows == 0 || cols == 0 {
		return 0
	}
	return (rows-1)*ld + cols
}
