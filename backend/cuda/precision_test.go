package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

// rounders round operands to a precision. In TF32 ties go away from zero, in the others to even numbers.
var rounders = map[string]func(float32) float32{
	"f32":  func(x float32) float32 { return x },
	"tf32": func(x float32) float32 { return math.Float32frombits((math.Float32bits(x) + 1<<12) &^ (1<<13 - 1)) },
	"f16":  func(x float32) float32 { return tensor.Float16ToFloat32(tensor.Float32ToFloat16(x)) },
	"bf16": func(x float32) float32 { return tensor.BFloat16ToFloat32(tensor.Float32ToBFloat16(x)) },
}

// fractions returns a tensor of numbers between -1 and 1.
func fractions(r *rand.Rand, shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(2*r.Float64() - 1)
	}
	return tensor.From(data, shape...)
}

var _ = DescribeTable("products round their operands as the option says, add in float32, and the report names it",
	func(ctx SpecContext, option string, capability int, effective string, m, n, k int, text string, shapeA, shapeB []int) {
		fake := driver()
		if capability != 80 {
			fake = own(fmt.Sprint("capability", capability), fakecuda.Options{})
			fake.Set("capability", capability)
		}
		g, err := graph.Parse("graph {\n  opset 24\n" + text + "\n}")
		Expect(err).NotTo(HaveOccurred())
		p, err := compile(ctx, fake, g, carve.Options{Strict: true, Poison: true}, "precision", option, "device", "0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		r := rand.New(rand.NewPCG(7, uint64(k)))
		a, b := fractions(r, shapeA...), fractions(r, shapeB...)
		out, err := p.Run(ctx, map[string]tensor.Value{"a": a, "b": b})
		Expect(err).NotTo(HaveOccurred())
		round := rounders[effective]
		got, av, bv := tensor.Of[float32](out["y"].(*tensor.Tensor)), tensor.Of[float32](a), tensor.Of[float32](b)
		Expect(got).To(HaveLen(m * n))
		for i := range m {
			for j := range n {
				want, exact := 0.0, 0.0
				for l := range k {
					var x, y float32
					switch {
					case strings.Contains(text, "Conv"): // rows are filters, columns pixels
						x, y = bv[i*k+l], av[l*n+j]
					case strings.Contains(text, "transB"):
						x, y = av[i*k+l], bv[j*k+l]
					default:
						x, y = av[i*k+l], bv[l*n+j]
					}
					want += float64(round(x)) * float64(round(y))
					exact += float64(x) * float64(y)
				}
				Expect(float64(got[i*n+j])).To(BeNumerically("~", want, 1e-5), "%d, %d: exact %g", i, j, exact)
			}
		}
		report, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		if effective == "f32" {
			effective = ""
		}
		Expect(report.Groups).NotTo(BeEmpty())
		for _, x := range report.Groups {
			Expect(x.Precision).To(Equal(effective))
		}
	},
	productEntry("float32 by default", "", 80, "f32"), productEntry("float32 by name", "f32", 80, "f32"),
	productEntry("TF32", "tf32", 80, "tf32"), productEntry("half precision", "f16", 90, "f16"), productEntry("bfloat16", "bf16", 86, "bf16"),
	productEntry("float32 where the device has no matrix instructions", "tf32", 75, "f32"),
	Entry("half precision, of a second operand that is transposed", "f16", 80, "f16", 19, 35, 66, `  input %a: f32[19,66]
  input %b: f32[35,66]
  %y = Gemm(%a, %b; transB=1)
  output %y`, []int{19, 66}, []int{35, 66}),
	Entry("bfloat16, in a convolution", "bf16", 80, "bf16", 24, 63, 20, `  input %a: f32[1,20,7,9]
  input %b: f32[24,20,1,1]
  %y = Conv(%a, %b)
  output %y`, []int{1, 20, 7, 9}, []int{24, 20, 1, 1}),
)

func productEntry(name, option string, capability int, effective string) TableEntry {
	return Entry(name, option, capability, effective, 33, 40, 130, `  input %a: f32[33,130]
  input %b: f32[130,40]
  %y = MatMul(%a, %b)
  output %y`, []int{33, 130}, []int{130, 40})
}

var _ = Describe("the option precision", func() {
	It("is one of four", func() {
		_, err := cuda.Open(config(driver(), "precision", "f8"))
		Expect(err).To(MatchError(backend.ErrOption))
	})

	It("is named by the backend where the device follows it", func() {
		fake := driver()
		b, err := cuda.Open(config(fake, "precision", "tf32"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		Expect(b.Info().Precision).To(Equal("tf32"))
		Expect(b.Info().Processor).To(HaveSuffix("products in tf32"))
	})
})
