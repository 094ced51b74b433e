package gemm_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// doubles are the matrices of a product of float64 under test, each next to a forbidden page.
type doubles struct {
	spec gemm.Spec // with every stride
	args gemm.Doubles
	b    []float64 // as [K, N]
	bufs []*guard.Buffer
}

// buffer returns n guarded numbers.
func (p *doubles) buffer(n int, side guard.Side) []float64 {
	b, err := guard.New(2*n, side)
	Expect(err).NotTo(HaveOccurred())
	p.bufs = append(p.bufs, b)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(b.Data))), n)
}

// newDoubles fills matrices with random numbers; what lies between rows is NaN.
func newDoubles(s gemm.Spec, rng *rand.Rand, side guard.Side) *doubles {
	s.Double = true
	plan, err := gemm.NewPlan(isa.Target{}, s)
	Expect(err).NotTo(HaveOccurred())
	p := &doubles{spec: plan.Spec()}
	s = p.spec
	fill := func(rows, cols, ld int) []float64 {
		n := 0
		if rows > 0 && cols > 0 {
			n = (rows-1)*ld + cols
		}
		x := p.buffer(n, side)
		for i := range x {
			x[i] = math.NaN()
			if i%ld < cols {
				x[i] = rng.Float64()*2 - 1
			}
		}
		return x
	}
	p.args.A = fill(s.M, s.K, s.LDA)
	p.b = make([]float64, s.K*s.N)
	if s.B == gemm.Rows {
		p.args.B = fill(s.K, s.N, s.LDB)
		for k := range s.K {
			copy(p.b[k*s.N:][:s.N], p.args.B[k*s.LDB:])
		}
	} else {
		p.args.B = p.buffer((s.N+7)/8*8*s.K, side)
		for k := range s.K {
			for j := range s.N {
				x := rng.Float64()*2 - 1
				p.b[k*s.N+j], p.args.B[(j/8*s.K+k)*8+j%8] = x, x
			}
		}
	}
	if s.Bias {
		p.args.Bias = fill(1, s.N, s.N)
	}
	if s.Residual {
		p.args.Res = fill(s.M, s.N, s.LDR)
	}
	p.args.C = fill(s.M, s.N, s.LDC)
	return p
}

// check runs a plan for the target, and compares with sums in order.
func (p *doubles) check(target isa.Target) {
	GinkgoHelper()
	plan, err := gemm.NewPlan(target, p.spec)
	Expect(err).NotTo(HaveOccurred())
	plan.RunDouble(0, plan.Chunks(), p.args)
	s := p.spec
	for i := range s.M {
		for j := range s.N {
			sum, size := 0.0, 0.0
			add := func(v float64) { sum += v; size += math.Abs(v) }
			if s.Bias {
				add(p.args.Bias[j])
			}
			for k := range s.K {
				add(p.args.A[i*s.LDA+k] * p.b[k*s.N+j])
			}
			if s.Residual {
				add(p.args.Res[i*s.LDR+j])
			}
			got := p.args.C[i*s.LDC+j]
			Expect(math.Abs(got-sum) <= size*float64(s.K+2)*0x1p-53).To(BeTrue(), "%v %+v: C[%d, %d] = %v, not %v", target, s, i, j, got, sum)
		}
	}
	for i, x := range p.args.C {
		Expect(math.IsNaN(x)).To(Equal(i%s.LDC >= s.N), "%v %+v: element %d of C", target, s, i)
	}
	for _, b := range p.bufs {
		Expect(b.Check()).To(Succeed())
		Expect(b.Free()).To(Succeed())
	}
}

var _ = Describe("RunDouble", func() {
	It("computes every tile height and width, without touching what lies outside", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		onTargets(func(target isa.Target) {
			for _, layout := range layouts[:2] {
				for m := 1; m <= 17; m++ {
					for _, n := range []int{1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 72} {
						s := gemm.Spec{M: m, N: n, K: rng.IntN(13), B: layout, Bias: rng.IntN(2) == 0, Residual: rng.IntN(2) == 0}
						if rng.IntN(2) == 0 {
							s.LDA, s.LDC, s.LDR = s.K+rng.IntN(4), n+rng.IntN(4), n+rng.IntN(4)
							if layout == gemm.Rows {
								s.LDB = n + rng.IntN(4)
							}
						}
						newDoubles(s, rng, guard.Side(rng.IntN(2))).check(target)
					}
				}
			}
		})
	})

	It("computes every K", func() {
		rng := rand.New(rand.NewPCG(3, 4))
		onTargets(func(target isa.Target) {
			for _, layout := range layouts[:2] {
				for _, k := range []int{0, 1, 2, 3, 4, 5, 7, 8, 100, 1153, 1537, 2500, 4097} {
					for _, m := range []int{1, 7} {
						newDoubles(gemm.Spec{M: m, N: 21, K: k, B: layout, Bias: true, Residual: true}, rng, guard.End).check(target)
					}
				}
			}
		})
	})

	It("gives the same bits for every division, and with AVX2 and AVX-512", func() {
		rng := rand.New(rand.NewPCG(7, 8))
		for _, layout := range layouts[:2] {
			p := newDoubles(gemm.Spec{M: 90, N: 300, K: 1600, B: layout, Bias: true}, rng, guard.End)
			plan, err := gemm.NewPlan(isa.Host(), p.spec)
			Expect(err).NotTo(HaveOccurred())
			Expect(plan.Chunks()).To(BeNumerically(">", 4))
			plan.RunDouble(0, plan.Chunks(), p.args)
			again := p.args
			again.C = make([]float64, len(p.args.C))
			var wg sync.WaitGroup
			for _, i := range rng.Perm(plan.Chunks()) {
				wg.Go(func() { plan.RunDouble(i, i+1, again) })
			}
			wg.Wait()
			Expect(again.C).To(Equal(p.args.C))
			if isa.Host().Set == isa.AVX512 {
				narrow, err := gemm.NewPlan(isa.Target{Set: isa.AVX2}, p.spec)
				Expect(err).NotTo(HaveOccurred())
				clear(again.C)
				narrow.RunDouble(0, narrow.Chunks(), again)
				Expect(again.C).To(Equal(p.args.C))
			}
			p.check(isa.Host())
		}
	})

	It("is for plans of float64, and Run for others", func() {
		wide, err := gemm.NewPlan(isa.Host(), gemm.Spec{M: 1, N: 1, K: 1, B: gemm.Rows, Double: true})
		Expect(err).NotTo(HaveOccurred())
		plain, err := gemm.NewPlan(isa.Host(), gemm.Spec{M: 1, N: 1, K: 1, B: gemm.Rows})
		Expect(err).NotTo(HaveOccurred())
		x, y := []float32{2}, []float64{3}
		Expect(func() { wide.Run(0, 1, gemm.Args{A: x, B: x, C: x}) }).To(Panic())
		Expect(func() { plain.RunDouble(0, 1, gemm.Doubles{A: y, B: y, C: y}) }).To(Panic())
		Expect(func() { wide.RunDouble(0, 1, gemm.Doubles{A: y, B: y}) }).To(Panic())
	})
})
