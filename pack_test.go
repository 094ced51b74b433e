package carve_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// foldedNet has a convolution whose weights simplification changes, and a matrix that stays as it is.
func foldedNet() string {
	return strings.Join([]string{
		`graph "folded" {`,
		`  opset 17`,
		`  input %x: f32[1,16,8,8]`,
		`  ` + constant("w", 16, 16, 1, 1),
		`  ` + constant("scale", 16),
		`  ` + constant("shift", 16),
		`  ` + constant("mean", 16),
		`  const %var = f32[16]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}`,
		`  ` + constant("fc", 16, 7),
		`  %a = Conv(%x, %w) "conv"`,
		`  %b = BatchNormalization(%a, %scale, %shift, %mean, %var) "norm"`,
		`  %p = GlobalAveragePool(%b) "pool"`,
		`  %f = Flatten(%p; axis=1) "flat"`,
		`  %y = MatMul(%f, %fc) "fc"`,
		`  output %y`,
		`}`}, "\n")
}

// wideNet is a product with a matrix of 1.4 MB, which all threads pack together.
func wideNet() *carve.Model {
	GinkgoHelper()
	g, err := graph.Parse("graph \"wide\" {\n  opset 17\n  input %x: f32[N,600]\n}")
	Expect(err).NotTo(HaveOccurred())
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Inputs: []*graph.Value{g.Inputs[0], g.AddConst("w", wave(600, 601))}, Outputs: []string{"y"}, Name: "product"})
	g.SetOutputs(n.Outputs[0])
	m := carve.FromGraph(g)
	DeferCleanup(m.Close)
	return m
}

// settled returns the bytes beside Go's heap when clean-ups, which come behind a collection, have freed what earlier specs left.
func settled() int64 {
	GinkgoHelper()
	last, same := int64(-1), 0
	Eventually(func() int {
		runtime.GC()
		time.Sleep(time.Millisecond) // for clean-ups
		if now := offheap.Total().Anonymous; now == last {
			same++
		} else {
			last, same = now, 0
		}
		return same
	}).Should(BeNumerically(">=", 3))
	return last
}

var _ = Describe("packed constants", func() {
	onCPU := func() *carve.Options { return &carve.Options{Backends: []backend.Config{{Name: "cpu"}}} }

	It("are the model's, or the Program's where simplification made them", func(ctx SpecContext) {
		before := settled()
		g, err := graph.Parse(foldedNet())
		Expect(err).NotTo(HaveOccurred())
		m := carve.FromGraph(g)
		p, err := carve.Compile(ctx, m, onCPU())
		Expect(err).NotTo(HaveOccurred())
		first := p.Memory().PackedWeights
		Expect(first).To(BeNumerically(">=", 16*16*4+16*16*4), "the convolution's and the matrix")
		held := offheap.Total().Anonymous
		q, err := carve.Compile(ctx, m, onCPU())
		Expect(err).NotTo(HaveOccurred())
		Expect(q.Memory().PackedWeights).To(Equal(first))
		Expect(offheap.Total().Anonymous-held).To(BeNumerically("<", held-before), "the matrix is shared")
		Expect(q.Close()).To(Succeed())
		Expect(p.Close()).To(Succeed())
		Expect(p.Memory().PackedWeights).To(BeNumerically("<", first))
		Expect(m.Close()).To(Succeed())
		Expect(offheap.Total().Anonymous).To(BeNumerically("<=", before))
	})

	It("are packed once by compilations at the same time", func(ctx SpecContext) {
		m := wideNet()
		x := map[string]tensor.Value{"x": wave(2, 600)}
		results := make([]string, 4)
		sizes := make([]int64, len(results))
		var wg sync.WaitGroup
		for i := range results {
			wg.Add(1)
			go func() {
				defer GinkgoRecover()
				defer wg.Done()
				p, err := carve.Compile(ctx, m, onCPU())
				Expect(err).NotTo(HaveOccurred())
				out, err := p.Run(ctx, x)
				Expect(err).NotTo(HaveOccurred())
				results[i], sizes[i] = bits(out["y"]), p.Memory().PackedWeights
				Expect(p.Close()).To(Succeed())
			}()
		}
		wg.Wait()
		for i := range results {
			Expect(results[i]).To(Equal(results[0]))
			Expect(sizes[i]).To(Equal(sizes[0]))
		}
		p := compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
		out, err := p.Run(ctx, x)
		Expect(err).NotTo(HaveOccurred())
		want, got := tensor.Of[float32](out["y"].(*tensor.Tensor)), []byte(results[0])
		y := tensor.Tensor{DType: tensor.Float32, Shape: []int{2, 601}, Data: got}
		for i, v := range tensor.Of[float32](&y) {
			Expect(v).To(BeNumerically("~", want[i], 1e-4))
		}
	})

	It("leave nothing behind where the context ends", func(ctx SpecContext) {
		before := settled()
		m := wideNet()
		ending, cancel := context.WithCancel(ctx)
		o := onCPU()
		o.Observer = func(p carve.Progress) {
			if p.Pass == "pack-constants" {
				cancel()
			}
		}
		_, err := carve.Compile(ending, m, o)
		Expect(err).To(MatchError(context.Canceled))
		Expect(offheap.Total().Anonymous).To(BeNumerically("<=", before))
		p, err := carve.Compile(ctx, m, onCPU())
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Close()).To(Succeed())
	})

	It("need an open model", func(ctx SpecContext) {
		m := wideNet()
		Expect(m.Close()).To(Succeed())
		_, err := carve.Compile(ctx, m, onCPU())
		Expect(err).To(HaveOccurred())
	})
})
