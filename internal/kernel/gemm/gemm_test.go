package gemm_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/testshare"
)

var layouts = []gemm.Layout{gemm.Packed, gemm.Rows, gemm.Columns}

// onTargets runs body once per target of this machine.
func onTargets(body func(isa.Target)) {
	for _, t := range isa.Targets() {
		body(t)
	}
}

var _ = Describe("generated files", func() {
	It("are up to date", func() {
		err := asm.Verify(context.Background(), "gen.go", "gen_dot.go", "gen_loop.go", "gen_results.go", "gen_steps.go", "gen_neon.go", "gen_neon_dot.go", "gen_neon_float16.go")
		if errors.Is(err, exec.ErrNotFound) {
			Skip("no go command")
		}
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = Describe("Run", func() {
	It("computes every tile height and width, without touching what lies outside", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		onTargets(func(target isa.Target) {
			for _, layout := range layouts {
				for m := 1; m <= 17; m++ {
					for _, n := range []int{1, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 80, 97, 144} {
						s := gemm.Spec{M: m, N: n, K: rng.IntN(13), B: layout, Bias: rng.IntN(2) == 0, Residual: rng.IntN(2) == 0}
						if rng.IntN(2) == 0 {
							s.Clip, s.Lo, s.Hi = true, -0.5, float32(math.Inf(1))
						}
						newProduct(s, rng, guard.Side(rng.IntN(2))).check(target)
					}
				}
			}
		})
	})

	It("computes every K", func() {
		rng := rand.New(rand.NewPCG(3, 4))
		onTargets(func(target isa.Target) {
			for _, layout := range layouts {
				for _, k := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 1536, 1537, 2500, 4097} {
					for _, m := range []int{1, 7} {
						newProduct(gemm.Spec{M: m, N: 21, K: k, B: layout, Bias: true, Residual: true, Clip: true, Lo: -1, Hi: 2}, rng, guard.End).check(target)
					}
				}
			}
		})
	})

	It("honours strides and leaves the gaps between rows alone", func() {
		rng := rand.New(rand.NewPCG(5, 6))
		onTargets(func(target isa.Target) {
			for _, layout := range layouts {
				for _, n := range []int{5, 16, 70} {
					s := gemm.Spec{M: 11, N: n, K: 9, LDA: 13, LDC: n + 3, LDR: n + 1, B: layout, Bias: true, Residual: true}
					s.LDB = map[gemm.Layout]int{gemm.Packed: 0, gemm.Rows: n + 5, gemm.Columns: 12}[layout]
					newProduct(s, rng, guard.End).check(target)
				}
			}
		})
	})

	It("gives the same bits for every order and division of chunks", func() {
		rng := rand.New(rand.NewPCG(7, 8))
		for _, layout := range layouts {
			s := gemm.Spec{M: 90, N: 300, K: 1600, B: layout, Bias: true}
			p := newProduct(s, rng, guard.End)
			plan, err := gemm.NewPlan(isa.Host(), s)
			Expect(err).NotTo(HaveOccurred())
			Expect(plan.Chunks()).To(BeNumerically(">", 4))
			plan.Run(0, plan.Chunks(), p.args)
			Expect(p.verify(s.N)).To(Succeed())

			again := p.args
			again.C = make([]float32, s.M*s.N)
			var wg sync.WaitGroup
			for _, i := range rng.Perm(plan.Chunks()) {
				wg.Go(func() { plan.Run(i, i+1, again) })
			}
			wg.Wait()
			Expect(again.C).To(Equal(p.args.C))

			// Rows one by one: other kernels, the same bits.
			one := s
			one.M = 1
			row, err := gemm.NewPlan(isa.Host(), one)
			Expect(err).NotTo(HaveOccurred())
			for i := range s.M {
				x := gemm.Args{A: p.args.A[i*s.K:], B: p.args.B, Bias: p.args.Bias, C: make([]float32, s.N)}
				row.Run(0, row.Chunks(), x)
				Expect(x.C).To(Equal(p.args.C[i*s.N:][:s.N]), "%v row %d", layout, i)
			}
			p.free()
		}
	})

	It("gives the same bits with AVX2 and AVX-512", func() {
		if isa.Host().Set != isa.AVX512 {
			Skip("no AVX-512 here")
		}
		rng := rand.New(rand.NewPCG(9, 10))
		for _, layout := range []gemm.Layout{gemm.Packed, gemm.Rows} {
			s := gemm.Spec{M: 23, N: 75, K: 333, B: layout, Bias: true, Residual: true}
			p := newProduct(s, rng, guard.End)
			p.run(isa.Host())
			first := append([]float32(nil), p.args.C...)
			p.run(isa.Target{Set: isa.AVX2})
			Expect(p.args.C).To(Equal(first))
			p.free()
		}
	})

	It("gives the same bits with the vectors of every architecture, where they are summed up at once", func() {
		for _, target := range isa.Targets()[1:] {
			rng, sum := rand.New(rand.NewPCG(5, 6)), sha256.New()
			fill := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(rng.IntN(1<<20))/(1<<19) - 1
				}
				return x
			}
			for range 60 {
				s := gemm.Spec{M: 1 + rng.IntN(20), N: 1 + rng.IntN(100), K: 1 + rng.IntN(700), B: gemm.Layout(rng.IntN(2)), Bias: rng.IntN(2) == 0, Residual: true}
				if rng.IntN(2) == 0 {
					s.Clip, s.Lo, s.Hi = true, -0.5, 1
				}
				x := gemm.Args{A: fill(s.M * s.K), B: fill(gemm.PackedLen(s.K, s.N)), Bias: fill(s.N), Res: fill(s.M * s.N), C: make([]float32, s.M*s.N)}
				plan, err := gemm.NewPlan(target, s)
				Expect(err).NotTo(HaveOccurred())
				plan.Run(0, plan.Chunks(), x)
				Expect(binary.Write(sum, binary.LittleEndian, x.C)).To(Succeed())
			}
			Expect(fmt.Sprintf("%x", sum.Sum(nil)[:8])).To(Equal("2d98d3e00763b974"), "%v", target)
		}
	})

	It("gives the same bits for caches of any size, however rows and K are divided by them", func() {
		onTargets(func(target isa.Target) {
			rng, side := rand.New(rand.NewPCG(11, 12)), guard.End
			for _, layout := range []gemm.Layout{gemm.Packed, gemm.Rows} {
				s := gemm.Spec{M: 140, N: 115, K: 3100, B: layout, Bias: true, Residual: true}
				p := newProduct(s, rng, side)
				var first []float32
				for _, size := range []int{0, 2 << 20} {
					target.Caches[1].Bytes = size
					clear(p.args.C)
					plan, err := gemm.NewPlan(target, s)
					Expect(err).NotTo(HaveOccurred())
					for _, i := range rng.Perm(plan.Chunks()) {
						plan.Run(i, i+1, p.args)
					}
					alone := append([]float32(nil), p.args.C...)
					clear(p.args.C)
					middle := rng.IntN(plan.Chunks() + 1)
					plan.Run(middle, plan.Chunks(), p.args)
					plan.Run(0, middle, p.args)
					Expect(p.args.C).To(Equal(alone), "%v %d: chunks together", target, size)
					Expect(p.verify(s.N)).To(Succeed())
					if first == nil {
						first = append(first, p.args.C...)
					}
					Expect(p.args.C).To(Equal(first), "%v %d", target, size)
				}
				p.free()
				side = guard.Start
			}
		})
	})

	It("gives the same bits for any number of threads", func() {
		onTargets(func(target isa.Target) {
			rng := rand.New(rand.NewPCG(15, 16))
			for range 8 {
				s := gemm.Spec{M: 1 + rng.IntN(700), N: 33 + rng.IntN(300), K: 8 + rng.IntN(200), B: gemm.Layout(rng.IntN(2)), Bias: true, Residual: true}
				p := newProduct(s, rng, guard.End)
				p.run(target)
				first := append([]float32(nil), p.args.C...)
				s.Threads = 1 + rng.IntN(6)
				clear(p.args.C)
				plan, err := gemm.NewPlan(target, s)
				Expect(err).NotTo(HaveOccurred())
				for _, i := range rng.Perm(plan.Chunks()) {
					plan.Run(i, i+1, p.args)
				}
				Expect(p.args.C).To(Equal(first), "%v %+v", target, s)
				p.free()
			}
		})
	})

	It("has each of several threads compute rows of its own where B is small", func() {
		onTargets(func(target isa.Target) {
			s := gemm.Spec{M: 1024, N: 256, K: 64, Threads: 2}
			x := gemm.Args{A: make([]float32, s.M*s.K), B: make([]float32, gemm.PackedLen(s.K, s.N)), C: make([]float32, s.M*s.N)}
			for i := range x.C {
				x.C[i] = 1
			}
			plan, err := gemm.NewPlan(target, s)
			Expect(err).NotTo(HaveOccurred())
			plan.Run(0, plan.Chunks()/2, x)
			const tile = 16 // rows, at most, by which the first thread has more
			Expect(x.C[:s.M/2*s.N]).To(HaveEach(float32(0)), "%v", target)
			Expect(x.C[(s.M/2+tile)*s.N:]).To(HaveEach(float32(1)), "%v", target)
			large, err := gemm.NewPlan(target, gemm.Spec{M: 64, N: 256, K: 512, Threads: 2})
			Expect(err).NotTo(HaveOccurred())
			alone, err := gemm.NewPlan(target, gemm.Spec{M: 64, N: 256, K: 512})
			Expect(err).NotTo(HaveOccurred())
			Expect(large.Chunks()).To(Equal(alone.Chunks()), "B is larger than the rest")
		})
	})

	It("gives the same bits for chunks together and one by one, of any rows and K, and calls Post once for every element", func() {
		onTargets(func(target isa.Target) {
			rng := rand.New(rand.NewPCG(13, 14))
			for range 6 {
				s := gemm.Spec{M: 40 + rng.IntN(250), N: 65 + rng.IntN(120), K: 500 + rng.IntN(1600), B: gemm.Layout(rng.IntN(3)), Bias: true, Residual: true}
				seen := make([]float32, s.M*s.N)
				offset := 0
				s.Post = func(c []float32, ldc, rows, cols int) {
					first := offset - len(c)
					for r := range rows {
						for i := range cols {
							seen[first+r*ldc+i]++
						}
					}
				}
				side := []guard.Side{guard.End, guard.Start}[rng.IntN(2)]
				p := newProduct(s, rng, side)
				offset = len(p.args.C)
				plan, err := gemm.NewPlan(target, s)
				Expect(err).NotTo(HaveOccurred())
				plan.Run(0, plan.Chunks(), p.args)
				Expect(p.verify(s.N)).To(Succeed())
				together := append([]float32(nil), p.args.C...)
				for done := 0; done < plan.Chunks(); {
					n := 1 + rng.IntN(min(7, plan.Chunks()-done))
					plan.Run(done, done+n, p.args)
					done += n
				}
				Expect(p.args.C).To(Equal(together), "%v %+v", target, s)
				Expect(seen).To(HaveEach(float32(2)), "%v %+v", target, s)
				p.free()
			}
		})
	})

	It("reads a long B a few times only, and leaves chunks for many threads", func() {
		if isa.Host().Set == isa.Portable {
			Skip("portable Go has other groups")
		}
		target := isa.Host()
		target.Caches[1].Bytes = 1 << 20
		for _, s := range []gemm.Spec{{M: 300, K: 12544, N: 1024}, {M: 128, K: 3072, N: 768}, {M: 1024, K: 4096, N: 1024}} {
			plan, err := gemm.NewPlan(target, s)
			Expect(err).NotTo(HaveOccurred())
			Expect(plan.Chunks()).To(And(BeNumerically(">=", 24), BeNumerically("<=", s.N/64*s.M/32)), "%+v: 64 columns and 32 rows at least", s)
		}
	})

	It("has all of the next columns' panels fetched once, and where lines under way are few, a piece of one by about every tile", func() {
		onTargets(func(target isa.Target) {
			if target.Set != isa.AVX512 && target.Set != isa.AVX2 {
				return
			}
			for _, m := range []int{48, 90, 197, 784} {
				const k, n = 768, 960
				var counts []int
				for _, size := range []int{1 << 20, 2 << 20} {
					target.Caches[1].Bytes = size
					plan, err := gemm.NewPlan(target, gemm.Spec{M: m, K: k, N: n})
					Expect(err).NotTo(HaveOccurred())
					var list [][2]int
					for _, together := range []bool{true, false} {
						list = plan.Fetched(together)
						at := list[0][0]
						for _, piece := range list {
							Expect(piece[0]).To(Equal(at), "%v, %d rows, cache of %d, together: %v", target, m, size, together)
							at += piece[1]
						}
						Expect(list[0][0]).To(Equal(at-list[0][0]), "%v, %d rows, together: %v: as much as the first group", target, m, together)
					}
					counts = append(counts, len(list))
				}
				Expect(counts[1]).To(BeNumerically(">=", 2*counts[0]), "%v, %d rows", target, m)
			}
		})
	})

	It("has pieces of panels fetched with AVX2 whatever the second-level cache has, of groups that take a part of it", func() {
		rng := rand.New(rand.NewPCG(41, 42))
		onTargets(func(target isa.Target) {
			if target.Set != isa.AVX2 {
				return
			}
			for range testshare.Of(40) {
				size := 256 << (10 + rng.IntN(4))
				target.Caches[1].Bytes = size
				m, k := 13+rng.IntN(400), 513+rng.IntN(600) // of shorter sums tiles beside each other are computed together
				plan, err := gemm.NewPlan(target, gemm.Spec{M: m, K: k, N: 960})
				Expect(err).NotTo(HaveOccurred())
				for _, together := range []bool{true, false} {
					what := fmt.Sprintf("%d rows, k %d, cache of %d, together: %v", m, k, size, together)
					list := plan.Fetched(together)
					at := list[0][0]
					for _, piece := range list {
						Expect(piece[0]).To(Equal(at), what)
						Expect(2*piece[1]).To(BeNumerically("<=", 64*k), what)
						at += piece[1]
					}
					group := at - list[0][0]
					Expect(group).To(Equal(list[0][0]), what)
					Expect(group).To(BeNumerically("<=", max(64*k, size/8)), what)
				}
			}
		})
	})

	It("computes products by the parts of small second-level caches", func() {
		rng := rand.New(rand.NewPCG(43, 44))
		onTargets(func(target isa.Target) {
			for range testshare.Of(12) {
				target.Caches[1].Bytes = 128 << (10 + rng.IntN(3))
				s := gemm.Spec{M: 1 + rng.IntN(250), N: 1 + rng.IntN(200), K: 1 + rng.IntN(1500), Bias: rng.IntN(2) == 0, Residual: rng.IntN(2) == 0}
				newProduct(s, rng, guard.Side(rng.IntN(2))).check(target)
			}
		})
	})

	It("has few rows fetch ahead with AVX-512 where the second-level cache is small and vectors are whole", func() {
		onTargets(func(target isa.Target) {
			if target.Set != isa.AVX2 {
				return
			}
			for _, set := range []isa.Set{isa.AVX2, isa.AVX512} { // planned, not run
				for _, size := range []int{1 << 20, 2 << 20} {
					for _, split := range []cpuid.Features{0, cpuid.Split512} {
						target := isa.Target{Set: set, Features: target.Features&^cpuid.Split512 | split, Caches: target.Caches}
						target.Caches[1].Bytes = size
						plan, err := gemm.NewPlan(target, gemm.Spec{M: 2, K: 768, N: 960})
						Expect(err).NotTo(HaveOccurred())
						fetches := len(plan.Fetched(false)) > 0
						Expect(fetches).To(Equal(set == isa.AVX512 && size == 1<<20 && split == 0), "%v, %d bytes, %v", set, size, split)
					}
				}
			}
		})
	})

	It("has every line of the next panel fetched once, by a single row of tiles in several streams", func() {
		onTargets(func(target isa.Target) {
			if target.Set != isa.AVX2 {
				return
			}
			for m := 3; m <= 6; m++ {
				for _, half := range []bool{false, true} {
					streams := 4
					if half {
						streams = 2
					}
					target.Caches[2].Bytes = 4 << 20
					spec := gemm.Spec{M: m, K: 768, N: 960, Half: half}
					plan, err := gemm.NewPlan(target, spec)
					Expect(err).NotTo(HaveOccurred())
					at := plan.FetchedLines(streams)
					panel := 768 * 16 * streams
					for i, x := range at[:streams] {
						Expect(x).To(Equal(i*panel/streams), "%d rows, half %v", m, half)
					}
					slices.Sort(at)
					Expect(at).To(HaveLen(panel / 64))
					for i, x := range at {
						Expect(x).To(Equal(64*i), "%d rows, half %v", m, half)
					}
					target.Caches[2].Bytes = 32 << 20 // which holds a model of such weights
					plan, err = gemm.NewPlan(target, spec)
					Expect(err).NotTo(HaveOccurred())
					Expect(plan.FetchedLines(streams)[1]).NotTo(Equal(panel / streams))
				}
			}
		})
	})

	It("has all of the next columns' panels fetched once by few rows, too, where two tiles of them read each panel and the second-level cache is large", func() {
		onTargets(func(target isa.Target) {
			if target.Set != isa.AVX2 {
				return
			}
			target.Caches[1].Bytes = 2 << 20
			for _, m := range []int{7, 8, 9, 14} {
				plan, err := gemm.NewPlan(target, gemm.Spec{M: m, K: 768, N: 960})
				Expect(err).NotTo(HaveOccurred())
				list := plan.Fetched(false)
				Expect(list).To(HaveLen(8), "%d rows", m)
				at := list[0][0]
				for _, piece := range list {
					Expect(piece[0]).To(Equal(at), "%d rows", m)
					at += piece[1]
				}
				Expect(list[0][0]).To(Equal(at-list[0][0]), "%d rows: as much as the first group", m)
			}
		})
	})

	It("has all of the next columns' panels fetched once by rows of tiles, of groups that take a quarter of the second-level cache, and 16 panels, at most", func() {
		onTargets(func(target isa.Target) {
			if target.Set != isa.AVX2 {
				return
			}
			target.Caches[0].Bytes = 32 << 10
			for _, m := range []int{7, 48, 90, 3136} {
				for _, size := range []int{256 << 10, 1 << 20, 2 << 20} {
					for _, k := range []int{64, 192, 256} {
						target.Caches[1].Bytes = size
						plan, err := gemm.NewPlan(target, gemm.Spec{M: m, K: k, N: 960})
						Expect(err).NotTo(HaveOccurred())
						group := min(16, size/4/(64*k)) * 64 * k
						at := group
						for _, piece := range plan.Fetched(false) {
							Expect(piece[0]).To(Equal(at), "%d rows, k %d, cache of %d", m, k, size)
							at += piece[1]
						}
						Expect(at).To(Equal(2*group), "%d rows, k %d, cache of %d", m, k, size)
					}
				}
			}
		})
	})

	It("computes rows of tiles, by few and by many of a product", func() {
		rng := rand.New(rand.NewPCG(31, 32))
		onTargets(func(target isa.Target) {
			for _, m := range []int{7, 13, 300} {
				for _, n := range []int{16, 50, 64, 65, 127, 272, 341} {
					for _, k := range []int{5, 64, 250} {
						s := gemm.Spec{M: m, N: n, K: k, LDC: n + rng.IntN(3), Bias: rng.IntN(2) == 0, Residual: rng.IntN(2) == 0}
						newProduct(s, rng, guard.Side(rng.IntN(2))).check(target)
					}
				}
			}
			for _, m := range []int{7, 64} { // of few multiply-adds, whose results have long rows
				for _, n := range []int{1024, 1029, 4850} {
					for _, k := range []int{1, 3, 10, 24} {
						s := gemm.Spec{M: m, N: n, K: k, LDC: max(n, 3072) + rng.IntN(3), Bias: rng.IntN(2) == 0, Residual: rng.IntN(2) == 0}
						if rng.IntN(2) == 0 {
							s.B, s.LDB = gemm.Rows, n+rng.IntN(3)
						}
						newProduct(s, rng, guard.Side(rng.IntN(2))).check(target)
					}
				}
			}
		})
	})

	It("adds a residual that is C itself", func() {
		onTargets(func(target isa.Target) {
			c := []float32{10, 20, 30, 40, 50, 60}
			plan, err := gemm.NewPlan(target, gemm.Spec{M: 2, N: 3, K: 1, B: gemm.Rows, Residual: true})
			Expect(err).NotTo(HaveOccurred())
			plan.Run(0, plan.Chunks(), gemm.Args{A: []float32{1, 2}, B: []float32{1, 2, 3}, Res: c, C: c})
			Expect(c).To(Equal([]float32{11, 22, 33, 42, 54, 66}))
		})
	})

	It("adds a residual that is C itself where K is long enough to be cut", func() {
		onTargets(func(target isa.Target) {
			const m, n, k = 13, 40, 4099
			rng := rand.New(rand.NewPCG(1, 2))
			fill := func(n int) []float32 {
				out := make([]float32, n)
				for i := range out {
					out[i] = rng.Float32() - 0.5
				}
				return out
			}
			plan, err := gemm.NewPlan(target, gemm.Spec{M: m, N: n, K: k, B: gemm.Rows, Residual: true})
			Expect(err).NotTo(HaveOccurred())
			a, b, res := fill(m*k), fill(k*n), fill(m*n)
			apart, same := make([]float32, m*n), append([]float32(nil), res...)
			plan.Run(0, plan.Chunks(), gemm.Args{A: a, B: b, Res: res, C: apart})
			plan.Run(0, plan.Chunks(), gemm.Args{A: a, B: b, Res: same, C: same})
			Expect(same).To(Equal(apart))
		})
	})

	It("keeps NaN through the clip", func() {
		onTargets(func(target isa.Target) {
			for _, layout := range layouts {
				c := make([]float32, 1)
				plan, err := gemm.NewPlan(target, gemm.Spec{M: 1, N: 1, K: 1, B: layout, Clip: true, Lo: 0, Hi: 6})
				Expect(err).NotTo(HaveOccurred())
				plan.Run(0, plan.Chunks(), gemm.Args{A: []float32{float32(math.NaN())}, B: make([]float32, 16), C: c})
				Expect(math.IsNaN(float64(c[0]))).To(BeTrue(), "%v", layout)
			}
		})
	})

	It("calls Post once for every element, after it was written", func() {
		onTargets(func(target isa.Target) {
			for _, layout := range layouts {
				m, n, k := 37, 150, 8
				s := gemm.Spec{M: m, N: n, K: k, B: layout, LDC: 151, Post: func(c []float32, ldc, rows, cols int) {
					for i := range rows {
						for j := range cols {
							c[i*ldc+j] = -c[i*ldc+j]
						}
					}
				}}
				p := newProduct(s, rand.New(rand.NewPCG(11, 12)), guard.End)
				for i := range p.want {
					p.want[i] = -p.want[i]
				}
				p.check(target)
			}
		})
	})

	It("does nothing for an empty C and panics on a range outside of the plan or a short slice", func() {
		plan, err := gemm.NewPlan(isa.Host(), gemm.Spec{M: 0, N: 5, K: 3})
		Expect(err).NotTo(HaveOccurred())
		Expect(plan.Chunks()).To(BeZero())
		plan.Run(0, 0, gemm.Args{})
		plan, err = gemm.NewPlan(isa.Host(), gemm.Spec{M: 2, N: 2, K: 2, B: gemm.Rows})
		Expect(err).NotTo(HaveOccurred())
		four, three := make([]float32, 4), make([]float32, 3)
		Expect(func() { plan.Run(0, 2, gemm.Args{A: four, B: four, C: four}) }).To(Panic())
		for _, x := range []gemm.Args{{A: three, B: four, C: four}, {A: four, B: three, C: four}, {A: four, B: four, C: three}} {
			Expect(func() { plan.Run(0, 1, x) }).To(Panic())
		}
	})

	It("allocates nothing", func() {
		s := gemm.Spec{M: 40, N: 100, K: 60, Bias: true}
		p := newProduct(s, rand.New(rand.NewPCG(13, 14)), guard.End)
		plan, err := gemm.NewPlan(isa.Host(), s)
		Expect(err).NotTo(HaveOccurred())
		Expect(testingAllocs(func() { plan.Run(0, plan.Chunks(), p.args) })).To(BeZero())
		p.free()
	})
})

func (p *product) run(target isa.Target) {
	plan, err := gemm.NewPlan(target, p.spec)
	Expect(err).NotTo(HaveOccurred())
	plan.Run(0, plan.Chunks(), p.args)
}

var _ = DescribeTable("NewPlan refuses", func(s gemm.Spec, field string) {
	_, err := gemm.NewPlan(isa.Host(), s)
	Expect(err).To(MatchError(gemm.ErrSpec))
	var se *gemm.SpecError
	Expect(errors.As(err, &se)).To(BeTrue())
	Expect(se.Field).To(Equal(field))
	Expect(se.Error()).To(ContainSubstring(field))
},
	Entry("negative M", gemm.Spec{M: -1, N: 1, K: 1}, "M"),
	Entry("huge N", gemm.Spec{M: 1, N: math.MaxInt, K: 1}, "N"),
	Entry("short LDA", gemm.Spec{M: 1, N: 1, K: 3, LDA: 2}, "LDA"),
	Entry("short LDB of rows", gemm.Spec{M: 1, N: 4, K: 3, LDB: 3, B: gemm.Rows}, "LDB"),
	Entry("short LDB of columns", gemm.Spec{M: 1, N: 3, K: 4, LDB: 3, B: gemm.Columns}, "LDB"),
	Entry("short LDC", gemm.Spec{M: 1, N: 4, K: 3, LDC: 3}, "LDC"),
	Entry("unknown layout", gemm.Spec{M: 1, N: 1, K: 1, B: 7}, "B"),
	Entry("a clip of float64", gemm.Spec{M: 1, N: 1, K: 1, Double: true, Clip: true}, "Double"),
	Entry("float64 by columns", gemm.Spec{M: 1, N: 1, K: 1, Double: true, B: gemm.Columns}, "Double"),
	Entry("bfloat16 in rows", gemm.Spec{M: 1, N: 1, K: 1, Pairs: pairs.BFloat16, B: gemm.Rows}, "Pairs"),
	Entry("bfloat16 of float64", gemm.Spec{M: 1, N: 1, K: 1, Pairs: pairs.Float16, Double: true}, "Pairs"),
	Entry("pairs of no type", gemm.Spec{M: 1, N: 1, K: 1, Pairs: pairs.Float16 + 1}, "Pairs"),
	Entry("float16 in rows", gemm.Spec{M: 1, N: 1, K: 1, Half: true, B: gemm.Rows}, "Half"),
	Entry("empty clip range", gemm.Spec{M: 1, N: 1, K: 1, Clip: true, Lo: 1, Hi: 0}, "Lo"),
)
