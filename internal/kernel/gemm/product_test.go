package gemm_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// product is one multiplication under test: guarded matrices and the values that C must have.
type product struct {
	spec gemm.Spec
	args gemm.Args
	b    []float32 // as [K, N]
	bufs []*guard.Buffer
	c    *guard.Buffer
	want []float64 // [M, N]
	tol  []float64
}

// newProduct fills the matrices with random values from rng, each in memory that ends at a forbidden page.
func newProduct(s gemm.Spec, rng *rand.Rand, side guard.Side) *product {
	p := &product{spec: s}
	m, n, k := s.M, s.N, s.K
	or := func(ld, def int) int {
		if ld == 0 {
			return def
		}
		return ld
	}
	extent := func(rows, cols, ld int) int {
		if rows == 0 || cols == 0 {
			return 0
		}
		return (rows-1)*ld + cols
	}
	buffer := func(size int) *guard.Buffer {
		b, err := guard.New(size, side)
		Expect(err).NotTo(HaveOccurred())
		p.bufs = append(p.bufs, b)
		return b
	}
	fill := func(rows, cols, ld int) []float32 {
		b := buffer(extent(rows, cols, ld))
		for r := range rows {
			for c := range cols {
				b.Data[r*ld+c] = rng.Float32()*2 - 1
			}
		}
		return b.Data
	}
	lda, ldc, ldr := or(s.LDA, k), or(s.LDC, n), or(s.LDR, n)
	p.args.A = fill(m, k, lda)
	p.b = make([]float32, k*n)
	for i := range p.b {
		p.b[i] = rng.Float32()*2 - 1
	}
	switch s.B {
	case gemm.Packed:
		b := buffer(gemm.PackedLen(k, n))
		gemm.PackB(isa.Target{}, b.Data, p.b, k, n, n)
		p.args.B = b.Data
	case gemm.Rows:
		ld := or(s.LDB, n)
		b := buffer(extent(k, n, ld))
		for r := range k {
			copy(b.Data[r*ld:][:n], p.b[r*n:])
		}
		p.args.B = b.Data
	case gemm.Columns:
		ld := or(s.LDB, k)
		b := buffer(extent(n, k, ld))
		for c := range n {
			for r := range k {
				b.Data[c*ld+r] = p.b[r*n+c]
			}
		}
		p.args.B = b.Data
	}
	if s.Bias {
		p.args.Bias = fill(1, n, n)
	}
	if s.Residual {
		p.args.Res = fill(m, n, ldr)
	}
	p.c = buffer(extent(m, n, ldc))
	p.args.C = p.c.Data
	p.expect(lda, ldr)
	return p
}

// expect computes C and how far each element may be off.
func (p *product) expect(lda, ldr int) {
	s := &p.spec
	p.want, p.tol = make([]float64, s.M*s.N), make([]float64, s.M*s.N)
	for i := range s.M {
		for j := range s.N {
			sum, size := 0.0, 0.0
			add := func(v float64) { sum += v; size += math.Abs(v) }
			for l := range s.K {
				add(float64(p.args.A[i*lda+l]) * float64(p.b[l*s.N+j]))
			}
			if s.Bias {
				add(float64(p.args.Bias[j]))
			}
			if s.Residual {
				add(float64(p.args.Res[i*ldr+j]))
			}
			if s.Clip {
				sum = max(float64(s.Lo), min(float64(s.Hi), sum))
			}
			p.want[i*s.N+j], p.tol[i*s.N+j] = sum, size*float64(s.K+2)*0x1p-24+1e-30
		}
	}
}

// check runs the whole plan and compares C; it frees the matrices.
func (p *product) check(target isa.Target) {
	plan, err := gemm.NewPlan(target, p.spec)
	Expect(err).NotTo(HaveOccurred())
	plan.Run(0, plan.Chunks(), p.args)
	Expect(p.verify(plan.Spec().LDC)).To(Succeed(), "%v %+v", plan.Target(), p.spec)
	p.free()
}

func (p *product) verify(ldc int) error {
	n := p.spec.N
	for i := range p.spec.M {
		for j := range n {
			got := float64(p.args.C[i*ldc+j])
			if d := math.Abs(got - p.want[i*n+j]); !(d <= p.tol[i*n+j]) {
				return fmt.Errorf("C[%d, %d] = %v, not %v (tolerance %v)", i, j, got, p.want[i*n+j], p.tol[i*n+j])
			}
		}
	}
	for _, b := range p.bufs {
		if err := b.Check(); err != nil {
			return err
		}
	}
	return p.c.CheckGaps(n, max(1, ldc))
}

func (p *product) free() {
	for _, b := range p.bufs {
		Expect(b.Free()).To(Succeed())
	}
}
