package mkl_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// wide is a convolution for which Winograd's algorithm pays, for images of that shape.
func wide(shape string) *graph.Graph {
	return parse(`
  input %x: f32[` + shape + `]
  const %w = f32[64,64,3,3]{~}
  %y = Conv(%x, %w; pads=[1,1,1,1])
  output %y`)
}

// packs returns the conversions of constants in a program's report.
func packs(ctx context.Context, p *carve.Program) []carve.ConversionReport {
	GinkgoHelper()
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	var out []carve.ConversionReport
	for _, c := range r.Conversions {
		if c.Constant {
			out = append(out, c)
		}
	}
	return out
}

// panels is how the library wants matrices.
const panels = `AB|BA`

// batch returns an input for a batch of images.
func batch(n int) map[string]tensor.Value {
	GinkgoHelper()
	t, err := tensor.New(tensor.Float32, n, 64, 28, 28)
	Expect(err).NotTo(HaveOccurred())
	for i := range tensor.Of[float32](t) {
		tensor.Of[float32](t)[i] = float32(i*37%101)/50 - 1
	}
	return map[string]tensor.Value{"x": t}
}

var _ = Describe("weights", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("are formats of constants, there and back "+lib), func(ctx SpecContext, text, format string) {
			b := open(lib)
			if format == panels && !strings.Contains(b.Info().Processor, "AVX-512") {
				Skip("products of other processors may take matrices as they are")
			}
			g := parse(text)
			p := program(ctx, g, carve.Options{Verify: true, Backends: []backend.Config{{Name: "mkl", Options: options(lib)}}})
			expectAgreement(ctx, p, g)
			list := packs(ctx, p)
			Expect(list).To(HaveLen(1))
			Expect(list[0].To).To(MatchRegexp(format), list[0].To)
			Expect(p.Memory().PackedWeights).To(BeNumerically(">=", list[0].Bytes))
			difference, err := p.Check(ctx, feeds(g))
			Expect(err).NotTo(HaveOccurred())
			Expect(difference).To(BeNil())

			var n *graph.Node
			for n = range g.Nodes() {
				break
			}
			to := b.Supports(n).Signatures[0].Inputs[1].Format
			Expect(to.String()).To(MatchRegexp(format))
			w := n.Inputs[1].Const
			there := converted(ctx, b, w, graph.HostFormat, to)
			back := converted(ctx, b, there, to, graph.HostFormat)
			Expect(back.Data[:len(w.Bytes())]).To(Equal(w.Bytes()))
		},
			Entry("of a convolution", `
  input %x: f32[1,32,8,8]
  const %w = f32[32,32,1,1]{~}
  %y = Conv(%x, %w)
  output %y`, `ABcd`),
			Entry("of groups", `
  input %x: f32[1,64,9,9]
  const %w = f32[64,32,3,3]{~}
  %y = Conv(%x, %w; group=2)
  output %y`, `ABcd`),
			Entry("of groups of a transposed convolution", `
  input %x: f32[1,32,5,5]
  const %w = f32[32,16,3,3]{~}
  %y = ConvTranspose(%x, %w; group=2)
  output %y`, `mkl@\d\.\d+\.\d+:blocked-2-16-16-3-3-[0-9a-f]{16}`),
			Entry("of a product", `
  input %x: f32[3,40]
  const %w = f32[40,70]{~}
  %y = MatMul(%x, %w)
  output %y`, panels),
		)

		It(strings.TrimSpace("in the frequency domain have a name "+lib), func(ctx SpecContext) {
			b := open(lib)
			if !strings.HasPrefix(b.Info().Version, "oneDNN 2.") {
				Skip("only version 2 has Winograd's algorithm")
			}
			if !strings.Contains(b.Info().Processor, "AVX-512") {
				Skip("Winograd's algorithm needs AVX-512")
			}
			g := wide("1,64,28,28")
			for _, fail := range []string{"", "run"} {
				o := map[string]string{"fail": fail}
				if lib != "" {
					o["library"] = lib
				}
				p := program(ctx, g, carve.Options{Verify: true, Backends: []backend.Config{{Name: "mkl", Options: o}}})
				expectAgreement(ctx, p, g)
				Expect(packs(ctx, p)[0].To).To(MatchRegexp(`^host:mkl@2\.\d+\.\d+:winograd-64-64-3-3-[0-9a-f]{16}$`))
			}
		})

		It(strings.TrimSpace("that only concrete shapes decide are packed once for all of them "+lib), func(ctx SpecContext) {
			open(lib)
			g := wide("N,64,28,28")
			m := carve.FromGraph(g)
			defer m.Close()
			o := carve.Options{Placement: carve.Priority, Verify: true, Backends: []backend.Config{{Name: "mkl", Options: options(lib)}}}
			ref := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "reference"}}})
			p, err := carve.Compile(ctx, m, &o)
			Expect(err).NotTo(HaveOccurred())
			defer p.Close()
			held := map[string]bool{}
			for _, n := range []int{1, 3, 1, 2} {
				want, err := ref.Run(ctx, batch(n))
				Expect(err).NotTo(HaveOccurred())
				got, err := p.Run(ctx, batch(n))
				Expect(err).NotTo(HaveOccurred())
				a, b := tensor.Of[float32](got["y"].(*tensor.Tensor)), tensor.Of[float32](want["y"].(*tensor.Tensor))
				Expect(a).To(HaveLen(len(b)))
				for i := range b {
					Expect(a[i]).To(BeNumerically("~", b[i], 1e-4*max(1, b[i], -b[i])), "%d", i)
				}
				list := packs(ctx, p)
				Expect(list).To(HaveLen(1))
				held[fmt.Sprint(list[0])] = true
			}
			bytes := p.Memory().PackedWeights
			Expect(bytes).To(BeNumerically(">=", 64*64*3*3*4))
			Expect(bytes).To(BeNumerically("<", len(held)*64*64*6*7*4), "%v", held)

			q, err := carve.Compile(ctx, m, &o)
			Expect(err).NotTo(HaveOccurred())
			defer q.Close()
			_, err = q.Run(ctx, batch(3))
			Expect(err).NotTo(HaveOccurred())
			Expect(q.Memory().PackedWeights).To(Equal(bytes), "two programs share the model's weights")
		})

		It(strings.TrimSpace("of integers are packed once for all shapes "+lib), func(ctx SpecContext) {
			if !mkl.ExactProducts(open(lib)) {
				Skip("no VNNI: such weights are not multiplied as integers")
			}
			g := parse(`
  input %x: i8[N,32,9,9]
  const %s = f32[]{0.05}
  const %z = i8[]{3}
  const %o = i8[]{0}
  const %w = ` + integers("i8", -127, 127, 32, 32, 3, 3) + `
  const %t = ` + scales(32, 0.01) + `
  const %u = i8[32]{` + strings.TrimSuffix(strings.Repeat("0, ", 32), ", ") + `}
  %y = QLinearConv(%x, %s, %z, %w, %t, %u, %s, %o; pads=[1,1,1,1])
  output %y`)
			p := program(ctx, g, carve.Options{Verify: true, Backends: []backend.Config{mklWith(lib)}})
			var bytes int64
			names := map[string]bool{}
			for n := range 4 {
				t, err := tensor.New(tensor.Int8, n+1, 32, 9, 9)
				Expect(err).NotTo(HaveOccurred())
				_, err = p.Run(ctx, map[string]tensor.Value{"x": t})
				Expect(err).NotTo(HaveOccurred())
				for _, c := range packs(ctx, p) {
					names[c.To] = true
				}
				if n == 0 {
					bytes = p.Memory().PackedWeights
				}
			}
			Expect(names).NotTo(BeEmpty())
			Expect(bytes).To(BeNumerically(">=", 32*32*3*3))
			Expect(p.Memory().PackedWeights).To(Equal(int64(len(names))*bytes), "%v", names)
			Expect(len(names)).To(BeNumerically("<", 3), "%v", names)
		})

		It(strings.TrimSpace("turn tensors of other shapes and types down "+lib), func() {
			b := open(lib)
			g := parse(`
  input %x: f32[1,32,5,5]
  const %w = f32[32,16,3,3]{~}
  %y = ConvTranspose(%x, %w; group=2)
  output %y`)
			var n *graph.Node
			for n = range g.Nodes() {
				break
			}
			to := b.Supports(n).Signatures[0].Inputs[1].Format
			Expect(to.Layout.IsOpaque()).To(BeTrue())
			source := b.(convert.Source)
			for _, c := range source.ConvertersOf(to.Layout) {
				Expect(c.Supports(tensor.Float64, 4)).To(BeFalse())
				Expect(c.Supports(tensor.Float32, 3)).To(BeFalse())
				Expect(c.Supports(tensor.Float32, 4)).To(BeTrue())
				_, err := c.Plan(tensor.Float32, []int{32, 16, 3, 2})
				Expect(err).To(MatchError(tensor.ErrShape))
				_, err = c.Size(to, tensor.Int8, []int{32, 16, 3, 3})
				Expect(err).To(MatchError(tensor.ErrShape))
				move, err := c.Plan(tensor.Float32, []int{32, 16, 3, 3})
				Expect(err).NotTo(HaveOccurred())
				short := tensor.From(make([]float32, 4), 4)
				err = move(context.Background(), short, short, convert.Exec{})
				Expect(err).To(MatchError(tensor.ErrShape))
				Expect(err.Error()).To(MatchRegexp(`a source of \d+ bytes, and has 16, and a destination of \d+, and has 16`))
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				Expect(move(ended, short, short, convert.Exec{})).To(MatchError(context.Canceled))
			}
			other, err := graph.OpaqueLayout("mkl", "1", "unknown")
			Expect(err).NotTo(HaveOccurred())
			Expect(source.ConvertersOf(other)).To(BeEmpty())
		})
	}
})

// converted brings a tensor from one format to another along the registry's path.
func converted(ctx context.Context, b backend.Backend, t *tensor.Tensor, from, to graph.Format) *tensor.Tensor {
	GinkgoHelper()
	r, err := convert.NewRegistry(nil)
	Expect(err).NotTo(HaveOccurred())
	r.AddSource(b.(convert.Source))
	path, err := r.Path(from, to)
	Expect(err).NotTo(HaveOccurred())
	Expect(path).To(HaveLen(1))
	size, err := r.Size(to, t.DType, t.Shape)
	Expect(err).NotTo(HaveOccurred())
	move, err := path[0].Plan(t.DType, t.Shape)
	Expect(err).NotTo(HaveOccurred())
	out := &tensor.Tensor{DType: t.DType, Shape: t.Shape, Data: make([]byte, size)}
	Expect(move(ctx, out, t, convert.Exec{})).To(Succeed())
	return out
}
