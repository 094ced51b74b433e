package octet_test

import (
	"errors"
	"fmt"
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
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_rounded.go", "gen_halves.go", "gen_bytes.go", "gen_bytesround.go", "gen_round.go", "gen_tiles.go", "gen_neon.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// guarded returns n floats with a page behind them, or in front, that faults.
func guarded(n int, side guard.Side) []float32 {
	GinkgoHelper()
	b, err := buffers.New(n, side, DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
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

// newProduct packs weights for kernels of rounded rows, which may read 4 bits, or for the zero ones, which do not.
func newProduct(r *rand.Rand, block int, kernels octet.Kernels, digits int) *product {
	p := &product{side: []guard.Side{guard.End, guard.Start}[r.IntN(2)], rows: 1 + r.IntN(20) + 40*r.IntN(2)*r.IntN(2), bits: []int{8, 8, 4, 2}[r.IntN(4)], matrices: 1 + r.IntN(3), perMatrix: 1 + r.IntN(50)}
	blocks := 1 + r.IntN(5)
	p.width = block * blocks
	p.k = p.width - r.IntN(min(block, 40))
	count := p.matrices * p.perMatrix
	p.q = make([]byte, count*p.width)
	column := (p.width*p.bits + 7) / 8
	src := make([]byte, count*column)
	ends := r.IntN(6) == 0
	for i := range p.q {
		if p.q[i] = byte(r.UintN(1 << p.bits)); ends { // the largest sums of pairs
			p.q[i] = byte(r.UintN(2) * (1<<p.bits - 1))
		}
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
	p.Weights = &octet.Weights{Bits: 8, Blocks: blocks, Block: block, Columns: p.perMatrix}
	if kernels.Narrow(p.bits, block, digits) && r.IntN(4) > 0 {
		p.Bits = 4
	}
	p.Pack(src, p.bits, p.scales, p.zeros, p.matrices)
	near := guarded(len(p.Scales), p.side)
	copy(near, p.Scales)
	p.Scales = near
	for _, list := range []*[]byte{&p.Bytes, &p.Zeros} {
		near := guardedBytes(len(*list), p.side)
		copy(near, *list)
		*list = near
	}
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

// check compares row i, for which x are floats or what they were rounded to. A float may have lost a part of the greatest in its block.
func (p *product) check(i int, y []float32, x func(j int) float64, lost float64) {
	GinkgoHelper()
	most := make([]float64, p.Blocks)
	for j := range p.k {
		most[j/p.Block] = max(most[j/p.Block], math.Abs(x(j)))
	}
	for c := range p.n {
		want, size := 0.0, 0.0
		for j := range p.k {
			q, s := p.weight(p.first+c, j)
			v := x(j) * float64(q) * float64(s)
			want += v
			size += math.Abs(v) + 1e5*lost*most[j/p.Block]*math.Abs(float64(q)*float64(s))
		}
		Expect(y[c]).To(BeNumerically("~", want, 1e-5*size+1e-6), "blocks of %d, k %d, row %d, column %d", p.Block, p.k, i, c)
	}
}

// block returns a random size of blocks.
func block(r *rand.Rand) int {
	if r.IntN(3) == 0 {
		return 1 + r.IntN(70)
	}
	return 16 << r.IntN(5)
}

var _ = It("products are those of the definition, for every instruction set, and the same bits for a row whatever stands beside it", func() {
	r := rand.New(rand.NewPCG(1, 2))
	for _, t := range isa.Targets() {
		kernels := octet.For(t)
		for range testshare.Of(60) {
			p := newProduct(r, block(r), octet.Kernels{}, octet.OneDigit)
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
				p.check(i, one, func(j int) float64 { return float64(p.x[i*p.k+j]) }, 0)
			}
		}
	}
})

var _ = It("columns are unpacked into panels of floats", func() {
	r := rand.New(rand.NewPCG(3, 4))
	for _, t := range isa.Targets() {
		for range testshare.Of(60) {
			p := newProduct(r, block(r), octet.Kernels{}, octet.OneDigit)
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

var _ = DescribeTable("rows that were rounded multiply as their integers do, and the same bits for a row whatever stands beside it", func(digits int) {
	r := rand.New(rand.NewPCG(5, uint64(digits)))
	kernels := octet.For(isa.Host())
	if !kernels.Rounds(&octet.Weights{Block: 16}, digits) {
		Skip("no kernels of this processor multiply rows of integers of so many digits")
	}
	for range testshare.Of(400) {
		p := newProduct(r, block(r), kernels, digits)
		switch r.IntN(7) {
		case 4:
			for i := range p.x { // the greatest integers
				p.x[i] = float32(math.Copysign(3, float64(p.x[i])))
			}
		case 0, 1:
			clear(p.x[:min(p.Block, p.k)])
		case 2:
			for i := range p.x {
				p.x[i] *= float32(math.Ldexp(1, r.IntN(40)-20))
			}
		case 3:
			for i := range p.x {
				p.x[i] = float32(math.Abs(float64(p.x[i])) + 5)
			}
		}
		size := p.RoundedBytes(digits)
		Expect(size % 4).To(BeZero())
		a := guardedBytes(p.rows*size, p.side)
		for i := range a {
			a[i] = 0xaa // what was there before
		}
		for i := range p.rows {
			row := a[i*size:][:size]
			kernels.Round(p.Weights, digits, row, p.x[i*p.k:][:p.k])
			plain := make([]byte, size)
			copy(plain, row)
			octet.For(isa.Target{Set: isa.Portable}).Round(p.Weights, digits, plain, p.x[i*p.k:][:p.k])
			Expect(row).To(Equal(plain), "blocks of %d, %d", p.Block, p.k)
		}
		y, one := guarded(p.rows*p.n, p.side), make([]float32, p.n)
		kernels.MultiplyRounded(y, p.n, a, digits, p.rows, p.Weights, p.matrix, p.first, p.n)
		for i := range p.rows {
			kernels.MultiplyRounded(one, p.n, a[i*size:], digits, 1, p.Weights, p.matrix, p.first, p.n)
			Expect(y[i*p.n:][:p.n]).To(Equal(one))
			x, lost := func(j int) float64 { return float64(p.x[i*p.k+j]) }, 0x1p-23
			if digits == octet.OneDigit {
				lost = 0
				rounded := oneDigit(p.x[i*p.k:][:p.k], p.Block)
				x = func(j int) float64 { return rounded[j] }
			}
			p.check(i, one, x, lost)
		}
	}
}, Entry("integers of one digit", octet.OneDigit), Entry("integers of three digits, which are the floats", octet.ThreeDigits))

var _ = It("tiles of AMX give the same bits as vectors", func() {
	host := isa.Host()
	if !host.Int8Tiles() {
		Skip("no tiles")
	}
	r := rand.New(rand.NewPCG(9, 10))
	tiles, vectors := octet.For(host), octet.For(host.WithoutTiles())
	for range testshare.Of(60) {
		p := newProduct(r, 128<<r.IntN(2), tiles, octet.OneDigit)
		rows, size := 32+r.IntN(300), p.RoundedBytes(octet.OneDigit)
		a, x := guardedBytes(rows*size, p.side), make([]float32, p.k)
		for i := range rows {
			for j := range x {
				x[j] = float32(r.NormFloat64())
			}
			tiles.Round(p.Weights, octet.OneDigit, a[i*size:], x)
		}
		y, want := guarded(rows*p.n, p.side), make([]float32, rows*p.n)
		tiles.MultiplyRounded(y, p.n, a, octet.OneDigit, rows, p.Weights, p.matrix, p.first, p.n)
		vectors.MultiplyRounded(want, p.n, a, octet.OneDigit, rows, p.Weights, p.matrix, p.first, p.n)
		Expect(y).To(Equal(want), "%d rows, blocks of %d, %d bits", rows, p.Block, p.Bits)
	}
})

var _ = It("rows are rounded to one digit alike by every instruction set, with what is infinite, no number, or next to nothing among them", func() {
	r := rand.New(rand.NewPCG(11, 12))
	odd := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-127, 0}
	for _, t := range isa.Targets() {
		for range testshare.Of(100) {
			w := &octet.Weights{Bits: []int{4, 8}[r.IntN(2)], Blocks: 1 + r.IntN(4), Block: 8 * (1 + r.IntN(20)), Columns: 1}
			side := []guard.Side{guard.End, guard.Start}[r.IntN(2)]
			x, size := guarded(w.Blocks*w.Block-r.IntN(w.Block), side), w.RoundedBytes(octet.OneDigit)
			for i := range x {
				if x[i] = r.Float32() - 0.5; r.IntN(20) == 0 {
					x[i] = odd[r.IntN(len(odd))]
				}
			}
			got, want := guardedBytes(size, side), make([]byte, size)
			octet.For(t).Round(w, octet.OneDigit, got, x)
			octet.For(isa.Target{Set: isa.Portable}).Round(w, octet.OneDigit, want, x)
			Expect(got).To(Equal(want), "%v: blocks of %d, %d floats", t.Set, w.Block, len(x))
		}
	}
})

// oneDigit returns what a row is when it is rounded to 8 bits.
func oneDigit(x []float32, block int) []float64 {
	out := make([]float64, len(x))
	for b := 0; b < len(x); b += block {
		part := x[b:min(b+block, len(x))]
		most := float32(0)
		for _, v := range part {
			most = max(most, float32(math.Abs(float64(v))))
		}
		scale, inverse := most/127, float32(0)
		if scale != 0 {
			inverse = 1 / scale
		}
		for j, v := range part {
			out[b+j] = math.RoundToEven(float64(v*inverse)) * float64(scale)
		}
	}
	return out
}

var _ = It("three digits are as near to the definition as sums of floats", func() {
	kernels := octet.For(isa.Host())
	if !kernels.Rounds(&octet.Weights{Block: 16}, octet.ThreeDigits) {
		Skip("no AVX-512 VNNI, by which rows of three digits are multiplied")
	}
	r := rand.New(rand.NewPCG(7, 8))
	for _, block := range []int{16, 32, 128} {
		const k, n = 2048, 512
		q, scales, x := make([]byte, n*k), make([]float32, n*k/block), make([]float32, k)
		for i := range q {
			q[i] = byte(r.UintN(256))
		}
		for i := range scales {
			scales[i] = r.Float32() + 0.5
		}
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		w := &octet.Weights{Bits: 8, Blocks: k / block, Block: block, Columns: n}
		w.Pack(q, 8, scales, []float32{128}, 1)
		a := make([]byte, w.RoundedBytes(octet.ThreeDigits))
		kernels.Round(w, octet.ThreeDigits, a, x)
		digits, floats := make([]float32, n), make([]float32, n)
		kernels.MultiplyRounded(digits, n, a, octet.ThreeDigits, 1, w, 0, 0, n)
		kernels.Multiply(floats, n, x, k, 1, w, 0, 0, n)
		var of [2]float64
		for c := range n {
			want := 0.0
			for j, v := range x {
				want += float64(v) * (float64(q[c*k+j]) - 128) * float64(scales[(c*k+j)/block])
			}
			of[0] += math.Pow(float64(digits[c])-want, 2)
			of[1] += math.Pow(float64(floats[c])-want, 2)
		}
		Expect(math.Sqrt(of[0])).To(BeNumerically("<", 1.2*math.Sqrt(of[1])), "blocks of %d", block)
	}
})

var _ = It("what is no number, or infinite, is in the results as in sums of floats", func() {
	kernels := octet.For(isa.Host())
	if !kernels.Rounds(&octet.Weights{Block: 16}, octet.ThreeDigits) {
		Skip("no AVX-512 VNNI, by which rows of three digits are multiplied")
	}
	const block = 32
	w := &octet.Weights{Bits: 8, Blocks: 2, Block: block, Columns: 16}
	q := make([]byte, 16*2*block)
	for i := range q {
		q[i] = byte(1 + i%7)
	}
	w.Pack(q, 8, []float32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, []float32{0}, 1)
	for _, v := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32, math.SmallestNonzeroFloat32} {
		x, a, y, want := make([]float32, 2*block), make([]byte, w.RoundedBytes(octet.ThreeDigits)), make([]float32, 16), make([]float32, 16)
		for i := range x {
			x[i] = float32(i)
		}
		x[40] = v
		kernels.Round(w, octet.ThreeDigits, a, x)
		kernels.MultiplyRounded(y, 16, a, octet.ThreeDigits, 1, w, 0, 0, 16)
		kernels.Multiply(want, 16, x, 2*block, 1, w, 0, 0, 16)
		for i := range y {
			switch size := math.Abs(float64(want[i])); {
			case math.IsNaN(size):
				Expect(math.IsNaN(float64(y[i]))).To(BeTrue())
			case math.IsInf(size, 0):
				Expect(y[i]).To(Equal(want[i]))
			default:
				Expect(y[i]).To(BeNumerically("~", want[i], 1e-6*size), "%v", v)
			}
		}
	}
})

func BenchmarkMultiply(b *testing.B) {
	kernels := octet.For(isa.Host())
	for _, bits := range []int{8, 4} {
		for _, block := range []int{16, 32, 128} {
			for _, rows := range []int{1, 4, 16, 32, 128} {
				benchmarkMultiply(b, kernels, bits, block, rows)
			}
		}
	}
}

func benchmarkMultiply(b *testing.B, kernels octet.Kernels, bits, block, rows int) {
	const n, k = 1024, 512
	if bits == 4 && !kernels.Narrow(bits, block, octet.ThreeDigits) {
		b.Skip("no AVX-512 VNNI, which reads weights of 4 bits")
	}
	w := &octet.Weights{Bits: bits, Blocks: k / block, Block: block, Columns: n}
	w.Pack(make([]byte, n*k*bits/8), bits, make([]float32, n*k/block), []float32{8}, 1)
	a, y := make([]float32, rows*k), make([]float32, rows*n)
	run := func(kind string, multiply func(c int)) {
		b.Run(fmt.Sprintf("%s/bits=%d/block=%d/rows=%d", kind, bits, block, rows), func(b *testing.B) {
			for b.Loop() {
				for c := 0; c < n; c += 32 {
					multiply(c)
				}
			}
			b.ReportMetric(float64(rows*n*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "products/ns")
		})
	}
	if bits == 8 {
		run("floats", func(c int) { kernels.Multiply(y[c:], n, a, k, rows, w, 0, c, 32) })
	}
	for _, digits := range []int{octet.OneDigit, octet.ThreeDigits} {
		if kernels.Rounds(w, digits) {
			near := make([]byte, rows*w.RoundedBytes(digits))
			run(fmt.Sprintf("digits=%d", digits), func(c int) { kernels.MultiplyRounded(y[c:], n, near, digits, rows, w, 0, c, 32) })
		}
	}
}

func BenchmarkUnpack(b *testing.B) {
	const n, k, block = 3072, 768, 32
	w := &octet.Weights{Bits: 8, Blocks: k / block, Block: block, Columns: n}
	w.Pack(make([]byte, n*k), 8, make([]float32, n*k/block), []float32{128}, 1)
	panel, kernels := make([]float32, k*octet.Panel), octet.For(isa.Host())
	for b.Loop() {
		for c := 0; c < n; c += octet.Panel {
			kernels.Unpack(panel, w, 0, c/octet.Panel, k)
		}
	}
	b.ReportMetric(float64(n*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "weights/ns")
}
