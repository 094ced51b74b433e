package carve_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing/fstest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/mxnettest"
)

var _ = Describe("a model of Apache MXNet", func() {
	data := tensor.From([]float32{1, 2}, 1, 2)
	check := func(ctx SpecContext, m *carve.Model) {
		GinkgoHelper()
		p, err := carve.Compile(ctx, m, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Close()).To(Succeed()) // the Program keeps the weights
		defer func() { Expect(p.Close()).To(Succeed()) }()
		out, err := p.Run(ctx, map[string]tensor.Value{"data": data})
		Expect(err).NotTo(HaveOccurred())
		got := floatsOf(out["softmax_output"])
		sum := math.Exp(1) + math.Exp(2) + math.Exp(3)
		for i, x := range got {
			Expect(x).To(BeNumerically("~", math.Exp(float64(i+1))/sum, 1e-6))
		}
	}
	It("is opened by its symbol, or from a file system", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		path := filepath.Join(dir, "net-symbol.json")
		Expect(os.WriteFile(path, []byte(mxnettest.Perceptron), 0o600)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "net-0000.params"), mxnettest.PerceptronParams(), 0o600)).To(Succeed())
		m, err := carve.Open(ctx, path)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Source().Producer).To(Equal("Apache MXNet"))
		Expect(m.Source().ProducerVersion).To(Equal("1.9.1"))
		Expect(m.Source().FileBytes).To(Equal(int64(len(mxnettest.Perceptron) + len(mxnettest.PerceptronParams()))))
		check(ctx, m)
		files := fstest.MapFS{"net-symbol.json": {Data: []byte(mxnettest.Perceptron)}, "net-0000.params": {Data: mxnettest.PerceptronParams()}}
		m, err = carve.OpenFS(ctx, files, "net-symbol.json")
		Expect(err).NotTo(HaveOccurred())
		check(ctx, m)
	})
	It("is loaded with shapes of the caller's", func(ctx SpecContext) {
		s, err := mxnet.Parse(ctx, []byte(mxnettest.Perceptron), mxnettest.PerceptronParams(), &mxnet.Options{Shapes: map[string][]int{"data": {1, 2}}})
		Expect(err).NotTo(HaveOccurred())
		check(ctx, carve.FromMXNet(s))
		Expect(carve.FromMXNet(nil).Close()).To(Succeed())
	})
	It("is refused by an error of its package", func(ctx SpecContext) {
		path := filepath.Join(GinkgoT().TempDir(), "net-symbol.json")
		Expect(os.WriteFile(path, []byte(`{"nodes":[`), 0o600)).To(Succeed())
		_, err := carve.Open(ctx, path)
		var own *mxnet.Error
		Expect(errors.As(err, &own)).To(BeTrue())
		Expect(own.File).To(Equal(path))
		Expect(err).To(MatchError(mxnet.ErrTruncated))
	})
})
