package mkl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

// normals is the text of a tensor of normal numbers, such that products with fan summands keep the deviation.
func normals(seed uint64, fan int, dims ...int) string {
	rng := rand.New(rand.NewPCG(seed, 2))
	n, shape := 1, make([]string, len(dims))
	for i, d := range dims {
		n, shape[i] = n*d, fmt.Sprint(d)
	}
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(float32(rng.NormFloat64() * math.Sqrt(2/float64(fan))))
	}
	return fmt.Sprintf("f32[%s]{%s}", strings.Join(shape, ","), strings.Join(list, ", "))
}

// smallCNN is a convolutional network with a residual; features come before the classes.
var smallCNN = `
  input %x: f32[1,3,16,16]
  const %w1 = ` + normals(1, 27, 16, 3, 3, 3) + `
  const %b1 = ` + normals(2, 50, 16) + `
  const %w2 = ` + normals(3, 144, 16, 16, 3, 3) + `
  const %w3 = ` + normals(4, 144, 16, 16, 3, 3) + `
  const %w4 = ` + normals(5, 16, 32, 16, 1, 1) + `
  const %b4 = ` + normals(6, 50, 32) + `
  %c1 = Conv(%x, %w1, %b1; pads=[1,1,1,1])
  %r1 = Relu(%c1)
  %p1 = MaxPool(%r1; kernel_shape=[2,2], strides=[2,2])
  %c2 = Conv(%p1, %w2; pads=[1,1,1,1])
  %r2 = Relu(%c2)
  %c3 = Conv(%r2, %w3; pads=[1,1,1,1])
  %s3 = Add(%c3, %p1)
  %r3 = Relu(%s3)
  %c4 = Conv(%r3, %w4, %b4; strides=[2,2])
  %r4 = Relu(%c4)
  %f = Flatten(%r4)`

// smallMLP is a network of matrix products.
var smallMLP = `
  input %x: f32[1,64]
  const %w1 = ` + normals(1, 64, 64, 96) + `
  const %b1 = ` + normals(2, 50, 96) + `
  const %w2 = ` + normals(3, 96, 64, 96) + `
  const %b2 = ` + normals(4, 50, 64) + `
  %m1 = MatMul(%x, %w1)
  %a1 = Add(%m1, %b1)
  %r1 = Relu(%a1)
  %g2 = Gemm(%r1, %w2, %b2; transB=1)
  %f = Relu(%g2)`

const classes = 10

// classifier adds a product to features that knows random prototypes by theirs, and returns prototypes to make inputs of.
func classifier(ctx context.Context, features string) (*graph.Graph, []*tensor.Tensor) {
	GinkgoHelper()
	g := parse(features + "\n  output %f")
	p := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
	rng := rand.New(rand.NewPCG(7, 7))
	var prototypes []*tensor.Tensor
	var all [][]float32
	for range classes {
		dims, err := g.Inputs[0].Type.Shape.Eval(nil, nil)
		Expect(err).NotTo(HaveOccurred())
		t, err := tensor.New(tensor.Float32, dims...)
		Expect(err).NotTo(HaveOccurred())
		for i := range tensor.Of[float32](t) {
			tensor.Of[float32](t)[i] = float32(rng.NormFloat64())
		}
		out, err := p.Run(ctx, map[string]tensor.Value{"x": t})
		Expect(err).NotTo(HaveOccurred())
		prototypes = append(prototypes, t)
		all = append(all, tensor.Of[float32](out["f"].(*tensor.Tensor)))
	}
	n := len(all[0])
	list, bias := make([]string, n*classes), make([]string, classes)
	for c := range classes { // the nearest features win
		square := float32(0)
		for _, x := range all[c] {
			square += x * x
		}
		bias[c] = fmt.Sprint(-square / float32(2*n))
	}
	for i := range n {
		mean := float32(0)
		for c := range classes {
			mean += all[c][i] / classes
		}
		for c := range classes {
			list[i*classes+c] = fmt.Sprint((all[c][i] - mean) / float32(n))
		}
	}
	return parse(fmt.Sprintf("%s\n  const %%v = f32[%d,%d]{%s}\n  const %%b = f32[%d]{%s}\n  %%m = MatMul(%%f, %%v)\n  %%y = Add(%%m, %%b) \"y\"\n  output %%y",
		features, n, classes, strings.Join(list, ", "), classes, strings.Join(bias, ", "))), prototypes
}

// noisy is a prototype with noise of that deviation.
func noisy(t *tensor.Tensor, deviation float64, rng *rand.Rand) map[string]tensor.Value {
	c, err := t.Clone()
	Expect(err).NotTo(HaveOccurred())
	for i := range tensor.Of[float32](c) {
		tensor.Of[float32](c)[i] += float32(rng.NormFloat64() * deviation)
	}
	return map[string]tensor.Value{"x": c}
}

// largest returns the index of the largest element of y.
func largest(out map[string]tensor.Value) int {
	y := tensor.Of[float32](out["y"].(*tensor.Tensor))
	best := 0
	for i := range y {
		if y[i] > y[best] {
			best = i
		}
	}
	return best
}

var _ = Describe("models of integers", func() {
	models := []struct{ name, features string }{{"a convolutional network with a residual", smallCNN}, {"a network of matrix products", smallMLP}}
	lists := [][]backend.Config{{{Name: "cpu"}}}
	for _, lib := range libraries() {
		lists = append(lists, []backend.Config{mklWith(lib)}, []backend.Config{mklWith(lib), {Name: "cpu"}})
	}
	for _, model := range models {
		for _, backends := range lists {
			name := ""
			for _, c := range backends {
				name += " " + c.Name + " " + c.Options["library"]
			}
			It("find the same classes as the reference: "+model.name+" on"+name, func(ctx SpecContext) {
				exact := false
				if c := backends[0]; c.Name == "mkl" {
					exact = mkl.ExactProducts(open(c.Options["library"]))
				}
				g, prototypes := classifier(ctx, model.features)
				rng := rand.New(rand.NewPCG(3, 3))
				var runs []map[string]tensor.Value
				for _, t := range prototypes {
					runs = append(runs, noisy(t, 0.4, rng))
				}
				q, err := quantizedModel(ctx, g, runs, backend.Config{Name: "cpu"})
				Expect(err).NotTo(HaveOccurred())
				p := program(ctx, q, carve.Options{Verify: true, Backends: backends})
				ref := program(ctx, q, carve.Options{Backends: []backend.Config{{Name: "reference"}}})
				right := 0
				for i := range 60 {
					in := noisy(prototypes[i%classes], 0.5, rng)
					want, err := ref.Run(ctx, in)
					Expect(err).NotTo(HaveOccurred())
					got, err := p.Run(ctx, in)
					Expect(err).NotTo(HaveOccurred())
					Expect(largest(got)).To(Equal(largest(want)), "input %d: %v, was %v", i, got["y"], want["y"])
					if largest(got) == i%classes {
						right++
					}
				}
				difference, err := p.Check(ctx, runs[0])
				Expect(err).NotTo(HaveOccurred())
				Expect(difference).To(BeNil())
				Expect(right).To(BeNumerically(">", 50), "what the network was made for")
				if exact {
					Expect(opsOf(ctx, p)).NotTo(ContainElement(Or(Equal("Conv"), Equal("MatMul"), Equal("Gemm"), Equal("conv-sum-activation"))))
				}
			})
		}
	}
})

// block is a residual block of ResNet's third stage, behind a convolution.
func block() string {
	return `
  input %x: f32[1,256,14,14]
  const %w0 = ` + normals(1, 256, 1024, 256, 1, 1) + `
  const %w1 = ` + normals(2, 1024, 256, 1024, 1, 1) + `
  const %w2 = ` + normals(3, 2304, 256, 256, 3, 3) + `
  const %w3 = ` + normals(4, 512, 1024, 256, 1, 1) + `
  %c0 = Conv(%x, %w0)
  %r0 = Relu(%c0)
  %c1 = Conv(%r0, %w1)
  %r1 = Relu(%c1)
  %c2 = Conv(%r1, %w2; pads=[1,1,1,1])
  %r2 = Relu(%c2)
  %c3 = Conv(%r2, %w3)
  %s = Add(%c3, %r0)
  %r3 = Relu(%s)
  %c4 = Conv(%r3, %w1)
  %y = Relu(%c4) "y"
  output %y`
}

// BenchmarkInt8 is the latency of models in float32 and in integers of eight bits, in turns, and their ratio.
func BenchmarkInt8(b *testing.B) {
	RegisterTestingT(b)
	ctx := context.Background()
	for _, lib := range libraries() {
		m, err := mkl.Open(mklWith(lib))
		if err != nil {
			b.Skip(err)
		}
		version := strings.Replace(m.Info().Version, " ", "-", 1)
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/residual-block/threads=%d", version, threads), func(b *testing.B) {
				g := parse(block())
				compareInt8(ctx, b, g, feeds(g), threads, mklWith(lib))
			})
			for _, name := range quantizedZoo {
				b.Run(fmt.Sprintf("%s/%s/threads=%d", version, name, threads), func(b *testing.B) {
					m, in, err := zooModel(ctx, name)
					if errors.Is(err, zootest.ErrAbsent) {
						b.Skip(err)
					}
					Expect(err).NotTo(HaveOccurred())
					defer m.Close()
					compareInt8(ctx, b, m.Graph(), in, threads, mklWith(lib))
				})
			}
		}
	}
}

// quantizedZoo are models of the zoo that specs quantise.
var quantizedZoo = []string{"mobilenet_v2", "resnet50"}

// zooModel opens a model of the zoo, with the inputs of its reference.
func zooModel(ctx context.Context, name string) (*carve.Model, map[string]tensor.Value, error) {
	ref, err := zootest.ReadReference(name)
	if err != nil {
		return nil, nil, err
	}
	in, err := ref.Feeds()
	if err != nil {
		return nil, nil, err
	}
	path, err := zootest.Materialize(name)
	if err != nil {
		return nil, nil, err
	}
	m, err := carve.Open(ctx, path)
	return m, in, err
}

// compareInt8 runs a float model and its quantised form in turns.
func compareInt8(ctx context.Context, b *testing.B, g *graph.Graph, in map[string]tensor.Value, threads int, backends ...backend.Config) {
	q, err := quantizedModel(ctx, g, []map[string]tensor.Value{in}, backends...)
	Expect(err).NotTo(HaveOccurred())
	var programs []*carve.Program
	for _, g := range []*graph.Graph{g, q} {
		p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Placement: carve.Priority, Threads: threads, Backends: backends})
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		for range 3 {
			_, err = p.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
		}
		programs = append(programs, p)
	}
	var spent [2][]float64
	for b.Loop() {
		for i, p := range programs {
			start := time.Now()
			if _, err := p.Run(ctx, in); err != nil {
				b.Fatal(err)
			}
			spent[i] = append(spent[i], float64(time.Since(start).Microseconds()))
		}
	}
	slices.Sort(spent[0])
	slices.Sort(spent[1])
	floats, integers := spent[0][len(spent[0])/2], spent[1][len(spent[1])/2]
	b.ReportMetric(floats, "f32-µs")
	b.ReportMetric(integers, "int8-µs")
	b.ReportMetric(floats/integers, "speed-up")
}

// distance is the square of the distance between two tensors.
func distance(a, b tensor.Value) float64 {
	sum := 0.0
	x, y := tensor.Of[float32](a.(*tensor.Tensor)), tensor.Of[float32](b.(*tensor.Tensor))
	for i := range x {
		sum += float64(x[i]-y[i]) * float64(x[i]-y[i])
	}
	return sum
}

// Weights of the zoo are random, so that one value that is rounded to the other side at the beginning moves many at the end,
// and the largest outputs lie close together.
var _ = Describe("the zoo on integers", func() {
	for _, lib := range libraries() {
		for _, name := range quantizedZoo {
			It(strings.TrimSpace("is nearer to the same model on cpu than that is to the model in floats: "+name+" "+lib), Label("zoo"), func(ctx SpecContext) {
				if !strings.Contains(GinkgoLabelFilter(), "zoo") {
					Skip("seconds each; ask for it with -ginkgo.label-filter=zoo")
				}
				b := open(lib)
				m, in, err := zooModel(ctx, name)
				if errors.Is(err, zootest.ErrAbsent) {
					Skip(err.Error())
				}
				Expect(err).NotTo(HaveOccurred())
				defer m.Close()
				q, err := quantizedModel(ctx, m.Graph(), []map[string]tensor.Value{in}, backend.Config{Name: "cpu"})
				Expect(err).NotTo(HaveOccurred())
				p := program(ctx, q, carve.Options{Backends: []backend.Config{mklWith(lib)}})
				got, err := p.Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				want, err := program(ctx, q, carve.Options{Backends: []backend.Config{{Name: "cpu"}}}).Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				floats, err := program(ctx, m.Graph(), carve.Options{Backends: []backend.Config{{Name: "cpu"}}}).Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				for k := range want {
					Expect(distance(got[k], want[k])).To(BeNumerically("<", distance(floats[k], want[k])), k)
				}
				if mkl.ExactProducts(b) {
					r, err := p.Report(ctx, nil)
					Expect(err).NotTo(HaveOccurred())
					Expect(r.Groups).To(HaveLen(1))
					Expect(opsOf(ctx, p)).NotTo(ContainElement(Or(Equal("Conv"), Equal("Gemm"), Equal("DequantizeLinear"), Equal("conv-sum-activation"))))
				}
			})
		}
	}
})
