package fakecuda_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
)

// planned is a plan with its buffers.
type planned struct {
	plan    *gpukernel.Plan
	buffers map[string][]byte
}

// plans returns one of every template for a device, and some of the renderer's.
func plans(d gpukernel.Device, r *rand.Rand) []planned {
	GinkgoHelper()
	const f32, f16, bf16 = gpukernel.F32, gpukernel.F16, gpukernel.BF16
	var list []planned
	keep := func(p *gpukernel.Plan, err error) func(map[string][]byte) {
		GinkgoHelper()
		Expect(err).NotTo(HaveOccurred())
		return func(b map[string][]byte) { list = append(list, planned{p, b}) }
	}
	name := func(kernel string) string { return fmt.Sprintf("k%d_%s", len(list), kernel) }
	finish := []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: f32}, {Op: gpukernel.AddMatrix, Operand: f32}, {Op: gpukernel.Gelu}}
	for _, x := range []struct {
		m, n, k   int
		t         gpukernel.Type
		precision gpukernel.Precision
	}{{33, 65, 67, f32, 0}, {70, 36, 512, f32, 0}, {65, 72, 40, f16, 0}, {33, 64, 24, bf16, 0}, {40, 72, 44, f32, gpukernel.TF32}} {
		if x.t != f32 && !d.Matrix {
			continue
		}
		m := func(stride int) gpukernel.Matrix { return gpukernel.Matrix{Type: x.t, Stride: stride} }
		s := gpukernel.ProductShape{M: x.m, N: x.n, K: x.k, Batch0: 1, Batch1: 1, A: m(x.k), B: m(x.n), C: gpukernel.Matrix{Type: f32, Stride: x.n},
			Precision: x.precision, Finish: finish}
		size := x.t.Size()
		keep(gpukernel.Product(name("product"), d, s))(map[string][]byte{"a": numbers(r, x.t, x.m*x.k*size), "b": numbers(r, x.t, x.k*x.n*size),
			"c": filled(x.m*x.n*4, 0xff), "operand0": floats(r, x.n), "operand1": floats(r, x.m*x.n)})
	}
	conv := gpukernel.ConvShape{N: 1, H: 9, W: 7, C: 5, Filters: 12, KernelH: 3, KernelW: 3, PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1,
		Type: f32, Result: f32}
	keep(gpukernel.Convolution(name("convolution"), d, conv))(map[string][]byte{"a": floats(r, 9*7*5), "b": floats(r, 9*5*12), "c": filled(9*7*12*4, 0xff)})
	conv.C, conv.Groups = 12, 12
	keep(gpukernel.Convolution(name("depthwise"), d, conv))(map[string][]byte{"a": floats(r, 9*7*12), "b": floats(r, 9*12), "c": filled(9*7*12*4, 0xff)})
	rows := func(depth int) gpukernel.Matrix {
		return gpukernel.Matrix{Type: f32, Stride: depth, Batch0: 0, Batch1: 0}
	}
	keep(gpukernel.Attention(name("attention"), d, gpukernel.AttentionShape{Batch: 1, Heads: 1, KVHeads: 1, Queries: 35, Keys: 67, Depth: 20, Width: 24,
		Q: rows(20), K: rows(20), V: rows(24), C: rows(24), Scale: 0.3, Causal: true}))(map[string][]byte{"q": floats(r, 35*20), "k": floats(r, 67*20),
		"v": floats(r, 67*24), "c": filled(35*24*4, 0xff)})
	for _, columns := range []int{7, 100, 3000} {
		p := &gpukernel.Program{}
		x := p.Input("x", f32, 5, columns)
		e := p.Scalar(f32, "exp_f32($0 - $1)", x, p.Reduce(gpukernel.ReduceMax, x, 1))
		p.Output(p.Scalar(f32, "$0 / $1", e, p.Reduce(gpukernel.ReduceSum, e, 1)), "y")
		keep(gpukernel.Render(name("softmax"), d, p))(map[string][]byte{"x": floats(r, 5*columns), "y": filled(5*columns*4, 0xff)})
	}
	p := &gpukernel.Program{}
	x := p.Input("x", f32, 6, 8)
	p.Output(p.Pad(p.Concat(0, p.Transpose(x, 1, 0), p.Scalar(f32, "tanh_f32($0)", p.Reshape(x, 8, 6))), p.Float(f32, 1), []int{1, 0}, []int{0, 2}), "y")
	keep(gpukernel.Render(name("moves"), d, p))(map[string][]byte{"x": floats(r, 48), "y": filled(17*8*4, 0xff)})
	return list
}

// numbers returns bytes of floats of a type between -1 and 1.
func numbers(r *rand.Rand, t gpukernel.Type, n int) []byte {
	if t == gpukernel.F32 {
		return floats(r, n/4)
	}
	b := make([]byte, n)
	for i := 0; i < n; i += 2 {
		b[i], b[i+1] = byte(r.IntN(256)), byte(0x30+r.IntN(12)|r.IntN(2)<<7) // exponents below 0 in both formats
	}
	return b
}

var _ = Describe("Kernels", func() {
	for _, capability := range []int{75, 80, 90} {
		It(fmt.Sprintf("of every template give, on capability %d, what the fibre build gives, to the bit", capability), func(ctx SpecContext) {
			g := newGPU(driver())
			g.Set("capability", capability)
			list := plans(gpukernel.NVIDIA(capability, 4), rand.New(rand.NewPCG(1, uint64(capability))))
			var all []*gpukernel.Plan
			for _, p := range list {
				all = append(all, p.plan)
			}
			other, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.Address, fibre.Kernels(all...)...)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(other.Close)
			for i, p := range list {
				want := map[string][]byte{}
				for name, b := range p.buffers {
					want[name] = bytes.Clone(b)
				}
				Expect(other.Run(p.plan, want)).To(Succeed())
				g.Set("seed", i+1)
				g.run(p.plan, fmt.Sprintf("sm_%d", capability), p.buffers)
				for name := range maps.Keys(want) {
					Expect(bytes.Equal(p.buffers[name], want[name])).To(BeTrue(), "%s: %s", p.plan.Launches[0].Kernel.Name, name)
				}
			}
		})
	}

	It("of CUDA's own words run too", func() {
		g := newGPU(driver())
		f := g.function(`extern "C" __global__ void __launch_bounds__(64) turn(const float *x, float *y, int n) {
	int i = blockIdx.x * 64 + threadIdx.x;
	__syncthreads();
	if (i < n) y[i] = x[n - 1 - i];
}`, "turn", "sm_80")
		x, y, s := g.alloc(400), g.alloc(400), g.stream()
		in, out := make([]byte, 400), make([]byte, 400)
		for i := range in {
			in[i] = byte(i / 4)
		}
		g.ok("cuMemcpyHtoDAsync_v2", x, g.at(in), 400, s)
		Expect(g.launch(f, 2, 64, 0, s, g.params(x, y, 100))).To(BeZero())
		g.ok("cuMemcpyDtoHAsync_v2", g.at(out), y, 400, s)
		for i := range out {
			Expect(out[i]).To(Equal(byte(99 - i/4)))
		}
	})

	It("that do not compile say why, and what compiled once is found again", func() {
		g := newGPU(driver())
		_, _, err := g.nvrtc.Compile("extern \"C\" __global__ void f() { nonsense; }", "sm_80")
		Expect(err).To(MatchError(ContainSubstring("nonsense")))
		_, _, err = g.nvrtc.Compile("", "sm_30")
		Expect(err).To(HaveOccurred())
		compiled, found := g.CompilerCount("compiled"), g.CompilerCount("found")
		for range 2 {
			_, _, err = g.nvrtc.Compile(`extern "C" __global__ void only_here(float *x) { x[0] = 1; }`, "sm_80")
			Expect(err).NotTo(HaveOccurred())
		}
		Expect([]int{g.CompilerCount("compiled") - compiled, g.CompilerCount("found") - found, g.CompilerCount("live")}).To(Equal([]int{1, 1, 0}))
		Expect(g.Sources()).To(ContainElement(ContainSubstring("only_here")))
		g.SetCompiler("fail_at", 2)
		_, _, err = g.nvrtc.Compile(`extern "C" __global__ void f(float *x) { x[0] = 1; }`, "sm_80")
		Expect(err).NotTo(HaveOccurred())
		_, _, err = g.nvrtc.Compile(`extern "C" __global__ void f(float *x) { x[0] = 1; }`, "sm_80")
		Expect(err).To(MatchError(ContainSubstring("injected")))
	})

	It("with matrix instructions do not compile for capability 7.5", func() {
		g := newGPU(driver())
		s := gpukernel.ProductShape{M: 64, N: 64, K: 64, Batch0: 1, Batch1: 1, A: gpukernel.Matrix{Type: gpukernel.F16, Stride: 64},
			B: gpukernel.Matrix{Type: gpukernel.F16, Stride: 64}, C: gpukernel.Matrix{Type: gpukernel.F32, Stride: 64}}
		plan, err := gpukernel.Product("product", gpukernel.NVIDIA(80, 4), s)
		Expect(err).NotTo(HaveOccurred())
		source := gpukernel.Source(gpukernel.CUDA, fibre.Kernels(plan)...)
		_, _, err = g.nvrtc.Compile(source, "sm_80")
		Expect(err).NotTo(HaveOccurred())
		_, _, err = g.nvrtc.Compile(source, "sm_75")
		Expect(err).To(MatchError(ContainSubstring("mma_f16")))
	})
})
