package octet_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os/exec"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/octet"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_rounded.go", "gen_neon.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command")
	}
	Expect(err).NotTo(HaveOccurred())
})

// guarded returns n floats with a page behind them, or in front, that faults.
func guarded(n int, side guard.Side) []float32 {
	GinkgoHelper()
	b, err := guard.New(n, side)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(b.Check()).To(Succeed())
		Expect(b.Free()).To(Succeed())
	})
	return b.Data[:n:n]
}

// guardedBytes is guarded for a number of bytes that is one of floats.
func guardedBytes(n int, side guard.Side) []byte {
	f := guarded(n/4, side)
	return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), n)
}

// product is a random product: weights as they lie in a model, and packed into guarded memory.
type product struct {
	*octet.Weights
	side                             guard.Side
	rows, matrix, first, n, k        int
	q                                []byte // [matrices·columns][blocks·block]
	scales, zeros                    []float32
	x                                []float32 // [rows][k]
	bits, matrices, perMatrix, width int
}

func newProduct(r *rand.Rand, block int) *product {
	p := &product{side: []guard.Side{guard.End, guard.Start}[r.IntN(2)], rows: 1 + r.IntN(20), bits: []int{8, 8, 4, 2}[r.IntN(4)], matrices: 1 + r.IntN(3), perMatrix: 1 + r.IntN(50)}
	blocks := 1 + r.IntN(5)
	p.width = block * blocks
	p.k = p.width - r.IntN(min(block, 40))
	count := p.matrices * p.perMatrix
	p.q = make([]byte, count*p.width)
	column := (p.width*p.bits + 7) / 8
	src := make([]byte, count*column)
	for i := range p.q {
		p.q[i] = byte(r.UintN(1 << p.bits))
		at := i/p.width*column*8 + i%p.width*p.bits
		src[at/8] |= p.q[i] << (at % 8)
	}
	p.scales, p.zeros = make([]float32, count*blocks), make([]float32, []int{1, count * blocks}[r.IntN(2)])
	for i := range p.scales {
		p.scales[i] = float32(r.NormFloat64())
	}
	for i := range p.zeros {
		p.zeros[i] = float32(r.IntN(1 << p.bits))
	}
	p.Weights = octet.Pack(src, p.bits, p.scales, p.zeros, p.matrices, p.perMatrix, block, blocks)
	for _, list := range []*[]float32{&p.Scales, &p.Zeros} {
		near := guarded(len(*list), p.side)
		copy(near, *list)
		*list = near
	}
	near := guardedBytes(len(p.Bytes), p.side)
	copy(near, p.Bytes)
	p.Bytes = near
	p.matrix, p.first = r.IntN(p.matrices), r.IntN((p.perMatrix+octet.Panel-1)/octet.Panel)*octet.Panel
	p.n = 1 + r.IntN(p.perMatrix-p.first)
	p.x = guarded(p.rows*p.k, p.side)
	for i := range p.x {
		if p.x[i] = float32(r.NormFloat64()); r.IntN(8) == 0 {
			p.x[i] = 0
		}
	}
	return p
}

// weight returns weight j of a column less its zero point, and its scale.
func (p *product) weight(c, j int) (q, scale float32) {
	at := (p.matrix*p.perMatrix+c)*p.width + j
	return float32(p.q[at]) - p.zeros[min(at/p.Block, len(p.zeros)-1)], p.scales[at/p.Block]
}

// check compares row i, for which x are floats or what they were rounded to.
func (p *product) check(i int, y []float32, x func(j int) float64) {
	GinkgoHelper()
	for c := range p.n {
		want, size := 0.0, 0.0
		for j := range p.k {
			q, s := p.weight(p.first+c, j)
			v := x(j) * float64(q) * float64(s)
			want += v
			size += math.Abs(v)
		}
		Expect(y[c]).To(BeNumerically("~", want, 1e-5*size+1e-6), "blocks of %d, k %d, row %d, column %d", p.Block, p.k, i, c)
	}
}

// block returns a random size of blocks.
func block(r *rand.Rand) int {
	if r.IntN(3) == 0 {
		return 1 + r.IntN(70)
	}
	return 16 << r.IntN(4)
}

var _ = It("products are those of the definition, for every instruction set, and the same bits for a row whatever stands beside it", func() {
	r := rand.New(rand.NewPCG(1, 2))
	for _, t := range isa.Targets() {
		kernels := octet.For(t)
		for range 60 {
			p := newProduct(r, block(r))
			a, lda := p.x, p.k
			if !p.Even(p.k) {
				lda = p.Width()
				a = guarded(p.rows*lda, p.side)
				for i := range p.rows {
					p.Spread(a[i*lda:][:lda], p.x[i*p.k:][:p.k])
				}
			}
			y, one := guarded(p.rows*p.n, p.side), make([]float32, p.n)
			kernels.Multiply(y, p.n, a, lda, p.rows, p.Weights, p.matrix, p.first, p.n)
			for i := range p.rows {
				kernels.Multiply(one, p.n, a[i*lda:], lda, 1, p.Weights, p.matrix, p.first, p.n)
				Expect(y[i*p.n:][:p.n]).To(Equal(one))
				p.check(i, one, func(j int) float64 { return float64(p.x[i*p.k+j]) })
			}
		}
	}
})

var _ = It("columns are unpacked into panels of floats", func() {
	r := rand.New(rand.NewPCG(3, 4))
	for _, t := range isa.Targets() {
		for range 60 {
			p := newProduct(r, block(r))
			panel := guarded(p.k*octet.Panel, p.side)
			octet.For(t).Unpack(panel, p.Weights, p.matrix, p.first/octet.Panel, p.k)
			for i, got := range panel {
				j, c, want := i/octet.Panel, p.first+i%octet.Panel, float32(0)
				if c < p.perMatrix {
					q, s := p.weight(c, j)
					want = q * s
				}
				Expect(got).To(Equal(want), "%v: k %d, column %d", t.Set, j, c)
			}
		}
	}
})

var _ = It("rows that were rounded multiply as their integers do, and the same bits for a row whatever stands beside it", func() {
	r := rand.New(rand.NewPCG(5, 6))
	kernels := octet.For(isa.Host())
	if !kernels.Rounds(&octet.Weights{Block: 16}) {
		Skip("nothing multiplies bytes here")
	}
	for range 300 {
		p := newProduct(r, block(r))
		if r.IntN(3) == 0 {
			clear(p.x[:min(p.Block, p.k)])
		}
		size := (p.RoundedBytes() + 3) / 4 * 4
		Expect(size).To(Equal(p.RoundedBytes()))
		a := guardedBytes(p.rows*size, p.side)
		for i := range a {
			a[i] = 0xaa // what was there before
		}
		for i := range p.rows {
			row := a[i*size:][:size]
			kernels.Round(p.Weights, row, p.x[i*p.k:][:p.k])
			plain := make([]byte, size)
			copy(plain, row)
			octet.For(isa.Target{Set: isa.Portable}).Round(p.Weights, plain, p.x[i*p.k:][:p.k])
			Expect(row).To(Equal(plain), "blocks of %d, %d", p.Block, p.k)
		}
		y, one := guarded(p.rows*p.n, p.side), make([]float32, p.n)
		kernels.MultiplyRounded(y, p.n, a, p.rows, p.Weights, p.matrix, p.first, p.n)
		for i := range p.rows {
			kernels.MultiplyRounded(one, p.n, a[i*size:], 1, p.Weights, p.matrix, p.first, p.n)
			Expect(y[i*p.n:][:p.n]).To(Equal(one))
			rounded := make([]float64, p.k)
			for b := 0; b < p.k; b += p.Block {
				part := p.x[i*p.k:][b:min(b+p.Block, p.k)]
				most := float32(0)
				for _, v := range part {
					most = max(most, float32(math.Abs(float64(v))))
				}
				scale, inverse := most/127, float32(0)
				if scale != 0 {
					inverse = 1 / scale
				}
				for j, v := range part {
					rounded[b+j] = math.RoundToEven(float64(v*inverse)) * float64(scale)
				}
			}
			p.check(i, one, func(j int) float64 { return rounded[j] })
		}
	}
})

func BenchmarkMultiply(b *testing.B) {
	const n, k, block = 3072, 768, 32
	w := octet.Pack(make([]byte, n*k), 8, make([]float32, n*k/block), []float32{128}, 1, n, block, k/block)
	kernels := octet.For(isa.Host())
	for _, rows := range []int{1, 4, 128} {
		name := map[int]string{1: "one", 4: "four", 128: "many"}[rows]
		a, y := make([]float32, rows*k), make([]float32, rows*n)
		run := func(kind string, multiply func(c int)) {
			b.Run(kind+"/"+name, func(b *testing.B) {
				for b.Loop() {
					for c := 0; c < n; c += 32 {
						multiply(c)
					}
				}
				b.ReportMetric(2*float64(rows*n*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFlop/s")
			})
		}
		run("floats", func(c int) { kernels.Multiply(y[c:], n, a, k, rows, w, 0, c, 32) })
		if kernels.Rounds(w) {
			near := make([]byte, rows*w.RoundedBytes())
			run("rounded", func(c int) { kernels.MultiplyRounded(y[c:], n, near, rows, w, 0, c, 32) })
		}
	}
}

func BenchmarkUnpack(b *testing.B) {
	const n, k, block = 3072, 768, 32
	w := octet.Pack(make([]byte, n*k), 8, make([]float32, n*k/block), []float32{128}, 1, n, block, k/block)
	panel, kernels := make([]float32, k*octet.Panel), octet.For(isa.Host())
	for b.Loop() {
		for c := 0; c < n; c += octet.Panel {
			kernels.Unpack(panel, w, 0, c/octet.Panel, k)
		}
	}
	b.ReportMetric(float64(n*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "weights/ns")
}
