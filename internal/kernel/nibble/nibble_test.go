package nibble_test

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
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_neon.go")
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

var _ = It("products are those of the definition, for every instruction set, and the same bits for a row whatever stands beside it", func() {
	r := rand.New(rand.NewPCG(1, 2))
	for _, t := range isa.Targets() {
		for range testshare.Of(60) {
			side := []guard.Side{guard.End, guard.Start}[r.IntN(2)]
			rows, n, first := 1+r.IntN(20), 1+r.IntN(7), r.IntN(3)
			w := &nibble.Weights{Blocks: 1 + r.IntN(4), Block: nibble.Group << r.IntN(3)}
			width, all := w.Width(), n+first
			k := width - r.IntN(nibble.Group)
			floats := guarded(all*width/8, side)
			w.Bytes = unsafe.Slice((*byte)(unsafe.Pointer(&floats[0])), all*width/2)
			for i := range w.Bytes {
				w.Bytes[i] = byte(r.UintN(256))
			}
			w.Scales, w.Zeros = guarded(all*w.Blocks, side), guarded([]int{1, all * w.Blocks}[r.IntN(2)], side)
			for _, list := range [][]float32{w.Scales, w.Zeros} {
				for i := range list {
					list[i] = float32(r.IntN(16)) / 4
				}
			}
			x, a, y := make([]float32, rows*k), guarded(rows*width, side), guarded(rows*n, side)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			for i := range rows {
				nibble.Spread(a[i*width:][:width], x[i*k:][:k])
			}
			nibble.For(t).Multiply(y, n, a, rows, w, first, n)
			one := make([]float32, n)
			for i := range rows {
				nibble.For(t).Multiply(one, n, a[i*width:][:width], 1, w, first, n)
				Expect(y[i*n:][:n]).To(Equal(one))
				for c := range n {
					want, size := 0.0, 0.0
					for j := range k {
						at := (first+c)*width + j
						q := w.Bytes[at/2] >> (at % 2 * 4) & 15
						z := w.Zeros[0]
						if len(w.Zeros) > 1 {
							z = w.Zeros[at/w.Block]
						}
						p := float64(x[i*k+j]) * (float64(q) - float64(z)) * float64(w.Scales[at/w.Block])
						want += p
						size += math.Abs(p)
					}
					Expect(y[i*n+c]).To(BeNumerically("~", want, 1e-5*size+1e-6), "%v %d %d", t.Set, i, c)
				}
			}
		}
	}
})

var _ = It("columns are unpacked into panels of floats", func() {
	r := rand.New(rand.NewPCG(3, 4))
	for _, t := range isa.Targets() {
		for range testshare.Of(60) {
			side := []guard.Side{guard.End, guard.Start}[r.IntN(2)]
			n, first := 1+r.IntN(nibble.Panel), r.IntN(3)
			w := &nibble.Weights{Blocks: 1 + r.IntN(4), Block: nibble.Group << r.IntN(3)}
			all, k := n+first, w.Width()-r.IntN(nibble.Group)
			floats := guarded(all*w.Width()/8, side)
			w.Bytes = unsafe.Slice((*byte)(unsafe.Pointer(&floats[0])), all*w.Width()/2)
			for i := range w.Bytes {
				w.Bytes[i] = byte(r.UintN(256))
			}
			w.Scales, w.Zeros = guarded(all*w.Blocks, side), guarded([]int{1, all * w.Blocks}[r.IntN(2)], side)
			for _, list := range [][]float32{w.Scales, w.Zeros} {
				for i := range list {
					list[i] = float32(r.NormFloat64())
				}
			}
			panel := guarded(k*nibble.Panel, side)
			nibble.For(t).Unpack(panel, w, first, n, k)
			for i, got := range panel {
				j, c, want := i/nibble.Panel, i%nibble.Panel, float32(0)
				if c < n {
					at := (first+c)*w.Width() + j
					z := w.Zeros[0]
					if len(w.Zeros) > 1 {
						z = w.Zeros[at/w.Block]
					}
					want = (float32(w.Bytes[at/2]>>(at%2*4)&15) - z) * w.Scales[at/w.Block]
				}
				Expect(got).To(Equal(want), "%v: k %d, column %d", t.Set, j, c)
			}
		}
	}
})

var _ = It("rows that were rounded multiply as their integers do, and the same bits for a row whatever stands beside it", func() {
	r := rand.New(rand.NewPCG(5, 6))
	kernels := nibble.For(isa.Host())
	if !kernels.Rounds(&nibble.Weights{Block: nibble.Group}) {
		Skip("no SDOT, by which rows of integers are multiplied: arm64 only")
	}
	for range testshare.Of(300) {
		side := []guard.Side{guard.End, guard.Start}[r.IntN(2)]
		rows, n, first := 1+r.IntN(14), 1+r.IntN(7), r.IntN(3)
		w := &nibble.Weights{Blocks: 1 + r.IntN(9), Block: nibble.Group << r.IntN(4)}
		width, all := w.Width(), n+first
		k := width - r.IntN(nibble.Group)
		floats := guarded(all*width/8, side)
		w.Bytes = unsafe.Slice((*byte)(unsafe.Pointer(&floats[0])), all*width/2)
		for i := range w.Bytes {
			w.Bytes[i] = byte(r.UintN(256))
		}
		w.Scales, w.Zeros = guarded(all*w.Blocks, side), guarded([]int{1, all * w.Blocks}[r.IntN(2)], side)
		for i := range w.Scales {
			w.Scales[i] = float32(1+r.IntN(16)) / 4
		}
		for i := range w.Zeros {
			w.Zeros[i] = float32(r.IntN(16))
		}
		x := guarded(rows*k, side)
		for i := range x {
			if x[i] = float32(r.NormFloat64()); r.IntN(4) == 0 {
				x[i] = 0
			}
		}
		if r.IntN(3) == 0 {
			clear(x[:min(w.Block, k)])
		}
		near := guarded(rows*w.RoundedBytes()/4, side)
		a := unsafe.Slice((*byte)(unsafe.Pointer(&near[0])), 4*len(near))
		for i := range rows {
			row := a[i*w.RoundedBytes():][:w.RoundedBytes()]
			for j := range row {
				row[j] = 0xaa // what was there before
			}
			w.Round(row, x[i*k:][:k])
		}
		y := guarded(rows*n, side)
		kernels.MultiplyRounded(y, n, a, rows, w, first, n)
		one := make([]float32, n)
		for i := range rows {
			kernels.MultiplyRounded(one, n, a[i*w.RoundedBytes():], 1, w, first, n)
			Expect(y[i*n:][:n]).To(Equal(one))
			for c := range n {
				want, size := 0.0, 0.0
				for b := range w.Blocks {
					part := x[i*k:][min(b*w.Block, k):min((b+1)*w.Block, k)]
					most := float32(0)
					for _, v := range part {
						most = max(most, float32(math.Abs(float64(v))))
					}
					scale, inverse := most/127, float32(0)
					if scale != 0 {
						inverse = 1 / scale
					}
					for j, v := range part {
						at := (first+c)*width + b*w.Block + j
						z := w.Zeros[0]
						if len(w.Zeros) > 1 {
							z = w.Zeros[at/w.Block]
						}
						q := math.RoundToEven(float64(v * inverse))
						p := q * float64(scale) * (float64(w.Bytes[at/2]>>(at%2*4)&15) - float64(z)) * float64(w.Scales[at/w.Block])
						want += p
						size += math.Abs(p)
					}
				}
				Expect(y[i*n+c]).To(BeNumerically("~", want, 1e-5*size+1e-6), "block %d, width %d, row %d, column %d", w.Block, width, i, c)
			}
		}
	}
})

func BenchmarkMultiply(b *testing.B) {
	const n, k = 3072, 768
	for _, rows := range []int{1, 4, 8, 64} {
		w := &nibble.Weights{Bytes: make([]byte, n*k/2), Scales: make([]float32, n*k/32), Zeros: []float32{8}, Blocks: k / 32, Block: 32}
		a, y := make([]float32, rows*k), make([]float32, rows*n)
		kernels := nibble.For(isa.Host())
		b.Run(map[int]string{1: "one", 4: "four", 8: "eight", 64: "many"}[rows], func(b *testing.B) {
			for b.Loop() {
				for c := 0; c < n; c += 32 {
					kernels.Multiply(y[c:], n, a, rows, w, c, 32)
				}
			}
			b.ReportMetric(2*float64(rows*n*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFlop/s")
		})
	}
}

func BenchmarkUnpack(b *testing.B) {
	const n, k = 3072, 768
	w := &nibble.Weights{Bytes: make([]byte, n*k/2), Scales: make([]float32, n*k/32), Zeros: []float32{8}, Blocks: k / 32, Block: 32}
	panel, kernels := make([]float32, k*nibble.Panel), nibble.For(isa.Host())
	for b.Loop() {
		for c := 0; c < n; c += nibble.Panel {
			kernels.Unpack(panel, w, c, nibble.Panel, k)
		}
	}
	b.ReportMetric(float64(n*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "weights/ns")
}
