package amx_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"sync"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/amx"
	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_finish.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command to run the generator with")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// guarded returns room for words with a page behind them, or in front, that faults.
func guarded(r *rand.Rand, n int) []float32 {
	GinkgoHelper()
	b, err := buffers.New(n, []guard.Side{guard.End, guard.Start}[r.IntN(2)], DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
	return b.Data
}

// problem is a product of random operands.
type problem struct {
	amx.Product
	rows  [2]int
	pairs []amx.Pair
	b     unsafe.Pointer
	sums  []float32
}

// at returns the address of an element, which may be one behind the last.
func at(x []float32, i int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(x)), 4*i)
}

// words fills with random integers of 8 bits, or pairs of bfloat16, of which some are special.
func words(r *rand.Rand, kind amx.Kind, x []float32) {
	special := []uint32{0, 0x8000, 0x0001, 0x8040, 0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0x3f80, 0x0080}
	specials := r.IntN(4) == 0
	for i := range x {
		w := r.Uint32()
		if kind == amx.BFloat16 {
			half := func() uint32 {
				if specials && r.IntN(6) == 0 {
					return special[r.IntN(len(special))]
				}
				return math.Float32bits(float32(r.NormFloat64())) >> 16
			}
			w = half() | half()<<16
		}
		x[i] = math.Float32frombits(w)
	}
}

func random(r *rand.Rand, kind amx.Kind) *problem {
	p := &problem{Product: amx.Product{Kind: kind, Panels: 1 + r.IntN(5), Words: 1 + r.IntN(70)}}
	segments := 1
	if r.IntN(2) == 0 {
		segments, p.Words = 1+r.IntN(8), 1+r.IntN(24)
	}
	k := segments * p.Words
	lda := p.Words + r.IntN(40)
	reach := 0
	for range segments {
		p.Segments = append(p.Segments, 4*reach)
		reach += p.Words + r.IntN(3)
	}
	reach = p.Segments[segments-1]/4 + p.Words
	p.LDA, p.LDB, p.LDC = 4*lda, 64*k+64*r.IntN(3), 64*p.Panels+4*r.IntN(9)
	p.rows, p.pairs = [2]int{1 + r.IntN(16), r.IntN(17)}, make([]amx.Pair, 1+r.IntN(3))
	b := guarded(r, (p.Panels-1)*p.LDB/4+16*k)
	words(r, kind, b)
	p.b = at(b, 0)
	start := guarded(r, 16*p.Panels)
	for i := range start {
		start[i] = float32(r.NormFloat64())
	}
	total := (p.rows[0] + p.rows[1]) * len(p.pairs)
	p.sums = guarded(r, (total-1)*p.LDC/4+16*p.Panels)
	row := 0
	for i := range p.pairs {
		for t, n := range p.rows {
			if n == 0 {
				continue
			}
			a := guarded(r, (n-1)*lda+reach)
			words(r, kind, a)
			p.pairs[i].A[t], p.pairs[i].Start[t], p.pairs[i].C[t] = at(a, 0), at(start, 0), at(p.sums, row*p.LDC/4)
			row += n
		}
	}
	return p
}

// run runs a function that writes the sums, and returns their bits; what is no sum has to stay.
func (p *problem) run(fn func(first, second int, pairs []amx.Pair, b unsafe.Pointer)) []uint32 {
	const untouched = 0x12345678
	for i := range p.sums {
		p.sums[i] = math.Float32frombits(untouched)
	}
	fn(p.rows[0], p.rows[1], p.pairs, p.b)
	var list []uint32
	for i, s := range p.sums {
		x := math.Float32bits(s)
		if i%(p.LDC/4) >= 16*p.Panels {
			ExpectWithOffset(1, x).To(BeEquivalentTo(untouched), "element %d, between rows, was overwritten", i)
			continue
		}
		if p.Kind == amx.BFloat16 && s != s {
			x = 0x7fc00000
		}
		list = append(list, x)
	}
	return list
}

var kinds = []amx.Kind{amx.SignedUnsigned, amx.UnsignedSigned, amx.BFloat16}

// skipWithout skips where the processor has no tiles of a kind.
func skipWithout(kind amx.Kind) {
	if t := isa.Host(); !t.Int8Tiles() || kind == amx.BFloat16 && !t.BFloat16Tiles() {
		Skip("no AMX here")
	}
}

var _ = Describe("Run", func() {
	for _, kind := range kinds {
		It(fmt.Sprintf("multiplies as portable Go does, bit for bit, kind %d", kind), func() {
			skipWithout(kind)
			r := rand.New(rand.NewPCG(uint64(kind), 7))
			for range 300 {
				p := random(r, kind)
				Expect(p.run(p.Run)).To(Equal(p.run(p.Portable)), "%+v, rows %d", p.Product, p.rows)
			}
		})
	}

	It("is correct on many goroutines at once, which are preempted", func() {
		skipWithout(amx.UnsignedSigned)
		r := rand.New(rand.NewPCG(1, 7))
		var list []*problem
		var want [][]uint32
		for range 8 {
			p := random(r, amx.UnsignedSigned)
			list, want = append(list, p), append(want, p.run(p.Portable))
		}
		var group sync.WaitGroup
		for i, p := range list {
			group.Go(func() {
				defer GinkgoRecover()
				for range 2000 {
					p.Run(p.rows[0], p.rows[1], p.pairs, p.b)
				}
				Expect(p.run(p.Run)).To(Equal(want[i]))
			})
		}
		group.Wait()
	})
})

// Measures 32 rows by so many panels and bytes of k. MAC/s counts products of integers of 8 bits, twice those of bfloat16.
func BenchmarkRun(b *testing.B) {
	if !isa.Host().Int8Tiles() {
		b.Skip("no AMX here")
	}
	for _, s := range []struct{ bytes, panels int }{{64, 4}, {576, 4}, {768, 4}, {768, 48}, {3072, 48}} {
		b.Run(fmt.Sprintf("k=%d/panels=%d", s.bytes, s.panels), func(b *testing.B) {
			a, m, c, start := make([]float32, 32*s.bytes/4), make([]float32, s.panels*16*s.bytes/4), make([]float32, 32*16*s.panels), make([]float32, 16*s.panels)
			r := rand.New(rand.NewPCG(1, 2)) // zeros take less time
			words(r, amx.UnsignedSigned, a)
			words(r, amx.UnsignedSigned, m)
			p := amx.Product{Kind: amx.UnsignedSigned, LDA: s.bytes, LDC: 64 * s.panels, Segments: []int{0}, Words: s.bytes / 4, Panels: s.panels, LDB: 16 * s.bytes}
			pairs := []amx.Pair{{A: [2]unsafe.Pointer{at(a, 0), at(a, 16*s.bytes/4)}, Start: [2]unsafe.Pointer{at(start, 0), at(start, 0)},
				C: [2]unsafe.Pointer{at(c, 0), at(c, 16*16*s.panels)}}}
			for b.Loop() {
				p.Run(16, 16, pairs, at(m, 0))
			}
			b.ReportMetric(float64(b.N)*32*16*float64(s.panels*s.bytes)/b.Elapsed().Seconds()/1e9, "GMAC/s")
		})
	}
}
