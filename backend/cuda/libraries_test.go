package cuda_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

// withLibraries are options by which cuBLASLt and cuDNN do all that they can.
func withLibraries(d *fakecuda.Driver, more ...string) []string {
	return append([]string{"libraries", "first", "cublas", d.CUBLAS, "cudnn", d.CUDNN}, more...)
}

// libraryCalls returns how often cuBLASLt and cuDNN were called to work.
func libraryCalls(d *fakecuda.Driver) (blas, dnn int) {
	return d.Count("cublasLtMatmul"), d.Count("cudnnConvolutionForward") + d.Count("cudnnConvolutionBiasActivationForward")
}

// fill stands for elements of a constant: integers from -3 to 3, times a number.
var fill = regexp.MustCompile(`f32\[([\d,]+)\] fill (\S+)`)

// weighted returns a graph whose weights are filled.
func weighted(text string) *graph.Graph {
	GinkgoHelper()
	r := rand.New(rand.NewPCG(7, 8))
	text = fill.ReplaceAllStringFunc(text, func(s string) string {
		m := fill.FindStringSubmatch(s)
		n, by := 1, 0.0
		for d := range strings.SplitSeq(m[1], ",") {
			var extent int
			_, err := fmt.Sscan(d, &extent)
			Expect(err).NotTo(HaveOccurred())
			n *= extent
		}
		_, err := fmt.Sscan(m[2], &by)
		Expect(err).NotTo(HaveOccurred())
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprint(by * float64(r.IntN(7)-3))
		}
		return "f32[" + m[1] + "]{" + strings.Join(list, ", ") + "}"
	})
	g, err := graph.Parse("graph {\n  opset 24\n" + text + "\n}")
	Expect(err).NotTo(HaveOccurred())
	return g
}

var _ = DescribeTable("libraries do products and convolutions with what follows, and agree with the reference",
	func(ctx SpecContext, text string, calls [2]int, shape ...int) {
		g := weighted(text)
		fake := driver()
		p, err := compile(ctx, fake, g, carve.Options{Poison: true, Strict: true}, withLibraries(fake)...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		for i := range 3 { // one by one, captured, and as a graph
			d, err := p.Check(ctx, map[string]tensor.Value{"x": whole(rand.New(rand.NewPCG(5, uint64(i))), 3, shape...)})
			Expect(err).NotTo(HaveOccurred())
			Expect(d).To(BeNil())
		}
		report, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		var used []string
		for _, x := range report.Groups {
			Expect(x.Backend).To(Equal("cuda"))
			used = append(used, x.Libraries...)
		}
		blas, dnn := libraryCalls(fake)
		Expect([2]bool{blas > 0, dnn > 0}).To(Equal([2]bool{calls[0] > 0, calls[1] > 0}))
		Expect(slices.Contains(used, "cuBLASLt")).To(Equal(calls[0] > 0))
		Expect(slices.Contains(used, "cuDNN")).To(Equal(calls[1] > 0))
	},
	Entry("a product", `  input %x: f32[5,40]
  const %w = f32[40,7] fill 1
  %y = MatMul(%x, %w)
  output %y`, [2]int{1, 0}, 5, 40),
	Entry("a product of two activations, in batches", `  input %x: f32[2,3,6,6]
  %y = MatMul(%x, %x)
  output %y`, [2]int{1, 0}, 2, 3, 6, 6),
	Entry("a bias, a residual and ReLU", `  input %x: f32[6,6]
  const %w = f32[6,6] fill 1
  const %b = f32[6] fill 1
  %m = MatMul(%x, %w)
  %a = Add(%m, %b)
  %r = Add(%a, %x)
  %y = Relu(%r)
  output %y`, [2]int{1, 0}, 6, 6),
	Entry("GELU by tanh", `  input %x: f32[6,33]
  const %w = f32[33,9] fill 0.125
  const %b = f32[9] fill 1
  %m = MatMul(%x, %w)
  %a = Add(%m, %b)
  %y = Gelu(%a; approximate="tanh")
  output %y`, [2]int{1, 0}, 6, 33),
	Entry("GELU by erf, which the library has not", `  input %x: f32[6,33]
  const %w = f32[33,9] fill 0.125
  const %b = f32[9] fill 1
  %m = MatMul(%x, %w)
  %a = Add(%m, %b)
  %y = Gelu(%a)
  output %y`, [2]int{1, 0}, 6, 33),
	Entry("a Gemm with a factor, and weights the other way", `  input %x: f32[4,5]
  const %w = f32[3,5] fill 1
  const %c = f32[3] fill 1
  %y = Gemm(%x, %w, %c; transB=1, alpha=0.5)
  output %y`, [2]int{1, 0}, 4, 5),
	Entry("a Gemm of transposed activations", `  input %x: f32[5,5]
  %y = Gemm(%x, %x; transA=1, transB=1)
  output %y`, [2]int{1, 0}, 5, 5),
	Entry("a convolution", `  input %x: f32[2,3,7,8]
  const %w = f32[5,3,3,3] fill 1
  %y = Conv(%x, %w; pads=[1,1,1,1], strides=[2,1])
  output %y`, [2]int{0, 1}, 2, 3, 7, 8),
	Entry("a convolution with bias, residual and ReLU", `  input %x: f32[2,4,7,8]
  const %w = f32[4,4,3,3] fill 1
  const %b = f32[4] fill 1
  %c = Conv(%x, %w, %b; pads=[1,1,1,1])
  %a = Add(%c, %x)
  %y = Relu(%a)
  output %y`, [2]int{0, 1}, 2, 4, 7, 8),
	Entry("a convolution with bias and Clip, which the library has not", `  input %x: f32[1,4,7,8]
  const %w = f32[6,4,1,1] fill 1
  const %b = f32[6] fill 1
  const %low = f32[]{0}
  const %high = f32[]{6}
  %c = Conv(%x, %w, %b)
  %y = Clip(%c, %low, %high)
  output %y`, [2]int{0, 1}, 1, 4, 7, 8),
	Entry("groups and dilation", `  input %x: f32[1,6,9,8]
  const %w = f32[4,3,3,2] fill 1
  %y = Conv(%x, %w; group=2, dilations=[2,1], pads=[2,0,2,0])
  output %y`, [2]int{0, 1}, 1, 6, 9, 8),
	Entry("one dim", `  input %x: f32[2,3,9]
  const %w = f32[4,3,3] fill 1
  %y = Conv(%x, %w; pads=[1,1])
  output %y`, [2]int{0, 1}, 2, 3, 9),
	Entry("volumes", `  input %x: f32[1,2,4,5,3]
  const %w = f32[3,2,2,3,1] fill 1
  const %b = f32[3] fill 1
  %c = Conv(%x, %w, %b; pads=[1,1,0,1,1,0])
  %y = Relu(%c)
  output %y`, [2]int{0, 1}, 1, 2, 4, 5, 3),
	Entry("padding that differs, which is our kernel's", `  input %x: f32[1,3,6,6]
  const %w = f32[4,3,3,3] fill 1
  %y = Conv(%x, %w; pads=[0,0,1,1])
  output %y`, [2]int{0, 0}, 1, 3, 6, 6),
)

var _ = Describe("libraries", func() {
	It("agree on random graphs, leave nothing behind, and are misused nowhere", func(ctx SpecContext) {
		fake := driver()
		ran := map[string]int{}
		for seed := range uint64(120) {
			c, err := backendtest.RandomChain(seed)
			if seed%2 == 1 {
				c, err = backendtest.RandomOperator([]string{"MatMul", "Gemm", "Conv"}[seed/2%3], seed)
			}
			if err != nil {
				continue // the reference has something against it
			}
			fake.Set("seed", int(seed))
			fake.Set("early", int(seed%5*25))
			b, err := cuda.Open(config(fake, withLibraries(fake)...))
			Expect(err).NotTo(HaveOccurred())
			o := carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}}, Placement: carve.Priority,
				Streams: int(seed % 3)}
			Expect(c.Agree(ctx, o, ran)).To(Succeed(), "%v\n%v", c, fake.Report())
			Expect(b.Close()).To(Succeed())
			Eventually(fake.Live).Should(BeEmpty(), "%v", c)
			Expect(fake.Report()).To(BeEmpty(), "%v", c)
		}
		blas, dnn := libraryCalls(fake)
		fmt.Fprintf(GinkgoWriter, "%d products, %d convolutions; on the device: %v\n", blas, dnn, slices.Sorted(maps.Keys(ran)))
		Expect(min(blas, dnn)).To(BeNumerically(">", 30))
	})

	It("are a part of a run's one graph", func(ctx SpecContext) {
		fake := driver()
		p, err := compile(ctx, fake, net(), carve.Options{Strict: true}, withLibraries(fake)...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		agrees(ctx, p, 0)
		agrees(ctx, p, 1)
		blas, dnn := libraryCalls(fake)
		Expect([]int{blas, dnn}).To(Equal([]int{2, 2}), "to run, and to capture")
		for i := 2; i < 5; i++ {
			graphs := fake.Count("cuGraphLaunch")
			agrees(ctx, p, i)
			Expect(fake.Count("cuGraphLaunch") - graphs).To(Equal(1))
		}
		again, more := libraryCalls(fake)
		Expect([]int{again, more}).To(Equal([]int{2, 2}))
	})

	It("that fail at any call are told or made up for, and leave nothing behind", func(ctx SpecContext) {
		fake := driver()
		fake.Set("fail_every", 0)
		Expect(all(ctx, fake, withLibraries(fake)...)).To(Succeed())
		blas, dnn := libraryCalls(fake)
		Expect(min(blas, dnn)).To(BeNumerically(">", 0))
		told, libraries := 0, 0
		for n, calls := 1, fake.Count(""); n <= calls; n++ {
			fake.Reset()
			fake.Set("fail_at", n)
			err := all(ctx, fake, withLibraries(fake)...)
			fake.Set("fail_at", 0)
			if err != nil {
				told++
				var e *cuda.Error
				if errors.Is(err, cuda.ErrLibrary) {
					libraries++
				} else {
					Expect(errors.As(err, &e)).To(BeTrue(), "call %d: %v", n, err)
				}
			}
			Eventually(fake.Live).Should(BeEmpty(), "call %d: %v", n, err)
			Expect(fake.Report()).To(BeEmpty(), "call %d: %v", n, err)
		}
		fmt.Fprintf(GinkgoWriter, "%d failures reach the caller, %d of libraries\n", told, libraries)
		Expect(libraries).To(BeNumerically(">", 0))
	})

	It("run without a compiler of kernels as well", func(ctx SpecContext) {
		fake, _ := withoutNVRTC()
		p, err := compile(ctx, fake, net(), carve.Options{Strict: true}, withLibraries(fake, "nvrtc", "off")...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		agrees(ctx, p, 0)
		blas, dnn := libraryCalls(fake)
		Expect([]int{blas, dnn}).To(Equal([]int{1, 1}))
	})

	It("leave to kernels what they have no algorithm for, in runs of other shapes too", func(ctx SpecContext) {
		fake := driver()
		g := weighted(`  input %x: f32[N,3,6,6]
  const %w = f32[4,3,3,3] fill 1
  const %v = f32[6,5] fill 1
  %c = Conv(%x, %w; pads=[1,1,1,1])
  %y = MatMul(%c, %v)
  output %y`)
		p, err := compile(ctx, fake, g, carve.Options{Strict: true}, withLibraries(fake)...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		for n, none := range []int{0, 1, 0} {
			fake.Set("no_algorithms", none)
			blas, dnn := libraryCalls(fake)
			d, err := p.Check(ctx, map[string]tensor.Value{"x": whole(rand.New(rand.NewPCG(5, uint64(n))), 3, n+1, 3, 6, 6)})
			Expect(err).NotTo(HaveOccurred())
			Expect(d).To(BeNil())
			more, also := libraryCalls(fake)
			Expect([]int{more - blas, also - dnn}).To(Equal([]int{1 - none, 1 - none}))
		}
	})

	DescribeTable("round operands as the option precision says",
		func(ctx SpecContext, option string, x grouptest.Product, blas, dnn int) {
			fake := driver()
			g, err := x.Graph()
			Expect(err).NotTo(HaveOccurred())
			p, err := compile(ctx, fake, g, carve.Options{Strict: true, Poison: true}, withLibraries(fake, "precision", option)...)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(p.Close)
			Expect(x.Compare(ctx, p, option)).To(Succeed())
			gotBLAS, gotDNN := libraryCalls(fake)
			Expect([]bool{gotBLAS > 0, gotDNN > 0}).To(Equal([]bool{blas > 0, dnn > 0}))
		},
		Entry("float32, in a product", "f32", grouptest.MatMul, 1, 0),
		Entry("TF32, in a product", "tf32", grouptest.MatMul, 1, 0),
		Entry("half precision, in a product", "f16", grouptest.MatMul, 1, 0),
		Entry("bfloat16, in a product", "bf16", grouptest.MatMul, 1, 0),
		Entry("TF32, in a convolution by weights that are computed, which is our kernel's", "tf32", grouptest.Conv, 0, 0),
	)

	DescribeTable("are taken by the model where they are worth their pass over the result", func(ctx SpecContext, rows, width int, libraries ...string) {
		fake := own(fmt.Sprint("model", rows), fakecuda.Options{})
		g := weighted(fmt.Sprintf("  input %%x: f32[%[1]d,%[2]d]\n  const %%w = f32[%[2]d,%[2]d] fill 1\n  %%y = MatMul(%%x, %%w)\n  output %%y", rows, width))
		p, err := compile(ctx, fake, g, carve.Options{}, "libraries", "model", "cublas", fake.CUBLAS, "cudnn", fake.CUDNN)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(1))
		Expect(strings.Join(r.Groups[0].Libraries, " ")).To(Equal(strings.Join(libraries, " ")))
	},
		Entry("large products", 2048, 512, "cuBLASLt"),
		Entry("not small ones", 4, 16),
	)

	DescribeTable("that are not there, or forbidden, or of another version, are not used, and the backend says why",
		func(set func(*fakecuda.Driver), says [2]string, options ...string) {
			fake := own(fmt.Sprintf("why%x", fmt.Sprint(says, options)), fakecuda.Options{})
			fake.Set("blas_version", 120304)
			set(fake)
			options = slices.Clone(options)
			for i := range options {
				options[i] = strings.NewReplacer("BLAS", fake.CUBLAS, "DNN", fake.CUDNN).Replace(options[i])
			}
			b, err := cuda.Open(config(fake, append([]string{"libraries", ""}, options...)...))
			if says[1] == "unavailable" {
				Expect(err).To(MatchError(backend.ErrUnavailable))
				Expect(err).To(MatchError(ContainSubstring(says[0])))
				Eventually(fake.Live).Should(BeEmpty())
				return
			}
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(b.Close)
			list := b.Info().Components
			Expect(list).To(HaveLen(3))
			Expect(list[0].Version).To(Equal("12.9"))
			for i, want := range says {
				c := list[1+i]
				if v, ok := strings.CutPrefix(want, "uses "); ok {
					Expect([]string{c.Version, c.Unused}).To(Equal([]string{v, ""}))
					Expect(b.Info().Version).To(ContainSubstring(c.Name + " " + v))
				} else {
					Expect(c.Unused).To(ContainSubstring(want))
					Expect(b.Info().Version).NotTo(ContainSubstring(c.Name))
				}
			}
		},
		Entry("used", func(*fakecuda.Driver) {}, [2]string{"uses 12.3.4", "uses 9.28.0"}, "cublas", "BLAS", "cudnn", "DNN"),
		Entry("not found", func(*fakecuda.Driver) {}, [2]string{"libcublasLt.so.12: cannot be opened", "libcudnn.so.9: cannot be opened"}),
		Entry("forbidden one by one", func(*fakecuda.Driver) {}, [2]string{"an option forbids it", "uses 9.28.0"}, "cublas", "off", "cudnn", "DNN"),
		Entry("forbidden together", func(*fakecuda.Driver) {}, [2]string{"an option forbids it", "an option forbids it"}, "cublas", "BLAS", "cudnn", "DNN", "libraries", "off"),
		Entry("named, and old", func(d *fakecuda.Driver) { d.Set("blas_version", 110900) }, [2]string{"is cuBLASLt 11.9.0, and one of 12.0 or later is needed", "unavailable"}, "cublas", "BLAS"),
		Entry("named, and of another kind", func(d *fakecuda.Driver) { d.Set("dnn_version", 8907) }, [2]string{"is cuDNN 8.9.7, and one of version 9 is needed", "unavailable"}, "cudnn", "DNN"),
		Entry("named, and another library", func(*fakecuda.Driver) {}, [2]string{"cublasLtGetVersion: symbol is missing", "unavailable"}, "cublas", "libc.so.6"),
		Entry("named, without a handle", func(d *fakecuda.Driver) {
			d.FailIn("cudnnCreate")
			d.Set("fail_every", 1)
		}, [2]string{"cudnnCreate", "unavailable"}, "cudnn", "DNN"),
	)

	It("turn wrong options down", func() {
		_, err := cuda.Open(config(driver(), "libraries", "some"))
		Expect(err).To(MatchError(backend.ErrOption))
	})

	It("are lost with the device", func(ctx SpecContext) {
		fake := own("lost by a library", fakecuda.Options{})
		p, err := compile(ctx, fake, net(), carve.Options{}, withLibraries(fake)...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		agrees(ctx, p, 0)
		fake.Set("fault_at", 2)
		_, err = p.Run(ctx, input(1))
		Expect(err).To(MatchError(cuda.ErrLost))
	})
})
