package mkl_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// picked is a model that convolves the images whose first element is above 0: how many there are depends on data.
const picked = `
  input %x: f32[N,50176]
  const %zero = f32[]{0}
  const %first = i64[]{0}
  const %shape = i64[4]{-1, 64, 28, 28}
  const %w = f32[64,64,3,3]{~}
  const %s = f32[64,8]{~}
  %col = Gather(%x, %first; axis=1)
  %m = Greater(%col, %zero)
  %i = NonZero(%m)
  %j = Gather(%i, %first; axis=0)
  %rows = Gather(%x, %j; axis=0)
  %images = Reshape(%rows, %shape)
  %conv = Conv(%images, %w; pads=[1, 1, 1, 1])
  %relu = Relu(%conv)
  %pool = GlobalAveragePool(%relu)
  %flat = Flatten(%pool; axis=1)
  %small = MatMul(%flat, %s)
  output %small`

var _ = Describe("groups whose shapes depend on data", func() {
	for _, library := range libraries() {
		It("are taken where they do much, and specialised for the shapes that runs find "+library, func(ctx SpecContext) {
			open(library)
			g := parse(picked)
			for _, placement := range []carve.Placement{carve.Priority, carve.Modelled} {
				own := parse(picked)
				p := program(ctx, own, carve.Options{Verify: true, Placement: placement, Threads: 1,
					Backends: []backend.Config{{Name: "mkl", Options: options(library)}, {Name: "cpu"}}})
				r, err := p.Report(ctx, nil)
				Expect(err).NotTo(HaveOccurred())
				on := map[string]string{}
				for _, x := range r.Groups {
					for _, n := range x.Nodes {
						on[n] = x.Backend
					}
				}
				if placement == carve.Priority {
					Expect(on).To(HaveKeyWithValue("conv", "mkl"))
				}
				Expect(on).To(HaveKeyWithValue("small", "cpu"))
				m := carve.FromGraph(g)
				want, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "reference"}}, Strict: true})
				Expect(err).NotTo(HaveOccurred())
				for _, rows := range []string{"10", "11", "10", "01", "1", "00"} {
					x, err := tensor.New(tensor.Float32, len(rows), 50176)
					Expect(err).NotTo(HaveOccurred())
					for i := range tensor.Of[float32](x) {
						tensor.Of[float32](x)[i] = float32(i*37%101)/50 - 1
					}
					for i, c := range strings.Split(rows, "") {
						tensor.Of[float32](x)[i*50176] = map[string]float32{"0": -1, "1": 1}[c]
					}
					feeds := map[string]tensor.Value{"x": x}
					a, err := p.Run(ctx, feeds)
					Expect(err).NotTo(HaveOccurred())
					b, err := want.Run(ctx, feeds)
					Expect(err).NotTo(HaveOccurred())
					got, expected := a["small"].(*tensor.Tensor), b["small"].(*tensor.Tensor)
					Expect(got.Shape).To(Equal(expected.Shape))
					for i, y := range tensor.Of[float32](expected) {
						Expect(tensor.Of[float32](got)[i]).To(BeNumerically("~", y, 1e-3*(1+max(y, -y))))
					}
				}
				r, err = p.Report(ctx, nil)
				Expect(err).NotTo(HaveOccurred())
				for _, x := range r.Rejected {
					if len(x.Node) > 0 && x.Backend == "mkl" && x.Node == "conv" {
						Expect(x.Reason).NotTo(ContainSubstring("specialize"), "%v", x)
					}
				}
				Expect(want.Close()).To(Succeed())
				Expect(m.Close()).To(Succeed())
			}
		})

		It("are priced by the primitives that lengths need, but not by those of a batch, and views not at all "+library, func() {
			b := open(library)
			extra := func(dim, op string) float64 {
				g := parse("\n  input %x: f32[" + dim + ",64]\n  const %w = f32[64,64]{~}\n  const %to = i64[2]{-1, 32}\n  %y = " + op + "\n  output %y")
				for n := range g.Nodes() {
					s := b.Supports(n)
					Expect(s.Signatures).NotTo(BeEmpty(), "%v", s.Reason)
					return s.Signatures[0].Extra
				}
				return 0
			}
			const product, view = "MatMul(%x, %w)", "Reshape(%x, %to)"
			Expect(extra("batch", product)).To(Equal(extra("4", product)))
			Expect(extra("length", product)).To(BeNumerically(">", extra("4", product)+1000))
			Expect(extra("length", view)).To(Equal(extra("4", view)))
		})
	}
})
