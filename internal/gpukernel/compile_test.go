package gpukernel_test

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
)

var compilerPath = flag.String("nvrtc", "", "path of libnvrtc; empty: the loader searches")

// showcase returns a plan of every template for a device, with every tile.
func showcase(d gpukernel.Device) []*gpukernel.Plan {
	const f32, f16, bf16 = gpukernel.F32, gpukernel.F16, gpukernel.BF16
	var plans []*gpukernel.Plan
	keep := func(p *gpukernel.Plan, err error) {
		GinkgoHelper()
		Expect(err).NotTo(HaveOccurred())
		plans = append(plans, p)
	}
	name := func(kernel string) string { return fmt.Sprintf("k%d_%s", len(plans), kernel) }
	finish := []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: f32}, {Op: gpukernel.AddMatrix, Operand: f32}, {Op: gpukernel.Gelu}}
	for _, c := range []productCase{
		{1000, 1024, 512, 1, 1, f32, f32, false, 0, finish, d}, {1000, 1023, 511, 1, 1, f32, f32, false, 0, nil, d},
		{1000, 1024, 512, 1, 1, f32, f32, true, 0, nil, d}, {1000, 1024, 512, 1, 1, f32, f32, false, gpukernel.TF32, finish, d},
		{1000, 1024, 512, 1, 1, bf16, bf16, false, 0, finish, d}, {1000, 1024, 512, 1, 1, f16, f32, true, 0, nil, d},
		{1000, 1024, 512, 1, 1, f32, f32, true, gpukernel.TF32, nil, d}, {1000, 1023, 511, 1, 1, f32, f32, false, gpukernel.TF32, nil, d},
		{1000, 1024, 512, 1, 1, f32, f32, false, gpukernel.RoundedF16, finish, d}, {1000, 1024, 512, 1, 1, f32, f32, true, gpukernel.RoundedBF16, nil, d},
		{1000, 1023, 511, 1, 1, f32, f32, false, gpukernel.RoundedBF16, finish, d},
	} {
		s := c.shape()
		tiles, err := gpukernel.Tiles(d, s)
		Expect(err).NotTo(HaveOccurred())
		for i, t := range tiles {
			s.Tile = t.Name()
			if strings.HasSuffix(t.String(), " k1") && (c.n%4 == 0 && !c.transposed || i < 6) {
				keep(gpukernel.Product(name("product"), d, s))
			}
		}
	}
	for _, c := range []gpukernel.ConvShape{
		{C: 64, KernelH: 3, KernelW: 3, PadTop: 1, PadLeft: 1, Type: f32, Result: f32},
		{C: 3, KernelH: 7, KernelW: 7, StrideH: 2, StrideW: 2, PadTop: 3, PadLeft: 3, Type: f32, Result: f32},
		{C: 64, KernelH: 3, KernelW: 3, PadTop: 1, PadLeft: 1, Type: f32, Result: f32, Depth: gpukernel.Depth{In: 8, Kernel: 3, Front: 1, Back: 1}},
		{C: 64, KernelH: 3, KernelW: 3, PadTop: 1, PadLeft: 1, Type: f16, Result: f16},
		{C: 3, KernelH: 7, KernelW: 7, StrideH: 2, StrideW: 2, PadTop: 3, PadLeft: 3, Type: bf16, Result: bf16},
		{C: 64, KernelH: 3, KernelW: 3, PadTop: 1, PadLeft: 1, Type: f32, Result: f32, Precision: gpukernel.TF32},
		{C: 64, KernelH: 3, KernelW: 3, PadTop: 1, PadLeft: 1, Type: f32, Result: f32, Precision: gpukernel.RoundedF16},
		{C: 3, KernelH: 7, KernelW: 7, StrideH: 2, StrideW: 2, PadTop: 3, PadLeft: 3, Type: f32, Result: f32, Precision: gpukernel.RoundedBF16},
	} {
		c.N, c.H, c.W, c.Filters, c.PadBottom, c.PadRight, c.Finish = 2, 56, 56, 64, c.PadTop, c.PadLeft, finish
		tiles, err := gpukernel.ConvTiles(d, c)
		Expect(err).NotTo(HaveOccurred())
		for i, t := range tiles {
			c.Tile = t.Name()
			if strings.HasSuffix(t.String(), " k1") && i < 8 {
				keep(gpukernel.Convolution(name("convolution"), d, c))
			}
		}
	}
	for _, t := range []gpukernel.Type{f32, bf16} {
		keep(gpukernel.Convolution(name("depthwise"), d, gpukernel.ConvShape{N: 2, H: 56, W: 56, C: 96, Filters: 96, Groups: 96, KernelH: 3,
			KernelW: 3, PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1, Type: t, Result: t, Finish: finish}))
		for _, kw := range []int{1, 3, 5, 7} {
			for _, step := range [][2]int{{1, 1}, {2, 1}, {1, 2}, {2, 2}} {
				keep(gpukernel.Convolution(name("depthwise"), d, gpukernel.ConvShape{N: 2, H: 56, W: 56, C: 96, Filters: 96, Groups: 96, KernelH: kw,
					KernelW: kw, StrideH: step[0], StrideW: step[0], DilationH: step[1], DilationW: step[1], PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1,
					Type: t, Result: t, Finish: finish[:1]}))
			}
		}
		for _, depth := range []int{64, 128} {
			c := attentionCase{2, 4, 4, 256, 256, depth, depth, t, true, true, d}
			keep(gpukernel.Attention(name("attention"), d, c.shape()))
		}
		for _, columns := range []int{768, 1000, 4096, 50257} {
			keep(gpukernel.Render(name("softmax"), d, softmaxProgram(t, 128, columns)))
		}
	}
	return plans
}

// softmaxProgram is Softmax over rows.
func softmaxProgram(t gpukernel.Type, rows, columns int) *gpukernel.Program {
	p := &gpukernel.Program{}
	x := p.Input("x", t, rows, columns)
	e := p.Scalar(t, "exp_f32($0 - $1)", x, p.Reduce(gpukernel.ReduceMax, x, 1))
	p.Output(p.Scalar(t, "$0 / $1", e, p.Reduce(gpukernel.ReduceSum, e, 1)), "y")
	return p
}

var _ = Describe("Machine code", Label("nvrtc"), func() {
	for _, capability := range []int{75, 80, 86, 89, 90} {
		It(fmt.Sprintf("of every kernel fits capability %d, without spills", capability), func() {
			lib, err := nvrtc.Open(*compilerPath)
			if err != nil {
				Skip(err.Error())
			}
			d := gpukernel.NVIDIA(capability, 132)
			var lines, spills []string
			var mu sync.Mutex
			var wg sync.WaitGroup
			room := make(chan struct{}, runtime.NumCPU())
			for _, k := range slices.Concat(fibre.Kernels(showcase(d)...), gpukernel.Prebuilt()) {
				wg.Go(func() {
					defer GinkgoRecover()
					room <- struct{}{}
					defer func() { <-room }()
					_, log, err := lib.Compile(gpukernel.Source(gpukernel.CUDA, k), fmt.Sprintf("sm_%d", capability))
					Expect(err).NotTo(HaveOccurred(), k.Name)
					all := nvrtc.ParseResources(log)
					Expect(all).To(HaveLen(1), log)
					r := all[0]
					mu.Lock()
					defer mu.Unlock()
					lines = append(lines, fmt.Sprintf("%-20s %3d threads %3d registers %6d bytes of local memory %s", k.Name, k.Threads, r.Registers, k.Arena+r.Shared, tileOf(k)))
					if r.SpillStores+r.SpillLoads > 0 {
						spills = append(spills, fmt.Sprintf("%s %s: %d bytes", k.Name, tileOf(k), r.SpillStores+r.SpillLoads))
					}
					Expect(r.Registers*k.Threads*max(k.Blocks, 1)).To(BeNumerically("<=", 65536), k.Name)
					Expect(k.Arena).To(BeNumerically("<=", d.Local), k.Name)
				})
			}
			wg.Wait()
			Expect(spills).To(BeEmpty())
			slices.Sort(lines)
			AddReportEntry(fmt.Sprintf("capability %d", capability), strings.Join(lines, "\n"))
		})
	}
})

// tileOf names the tile of a product's kernel, and its types.
func tileOf(k *gpukernel.Kernel) string {
	var parts []string
	for _, n := range []string{"A_T", "A_VECTOR", "B_TRANSPOSED", "BM", "BN", "BK", "STAGES"} {
		for _, d := range k.Defines {
			if d.Name == n {
				parts = append(parts, n+"="+d.Value)
			}
		}
	}
	return strings.Join(parts, " ")
}

// softmax computes Softmax over rows in float64.
func softmax(x []float64, rows, columns int) []float64 {
	y := make([]float64, len(x))
	for r := range rows {
		sum := 0.0
		for i := range columns {
			y[r*columns+i] = math.Exp(x[r*columns+i])
			sum += y[r*columns+i]
		}
		for i := range columns {
			y[r*columns+i] /= sum
		}
	}
	return y
}
