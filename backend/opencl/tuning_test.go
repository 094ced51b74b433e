package opencl_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("tuning", func() {
	It("measures the tiles of a product, and a model is compiled with the fastest", func(ctx SpecContext) {
		open()
		g, err := graph.Parse("graph {\n  opset 24\n  input %x: f32[256,192]\n  %y = MatMul(%x, %x) \"m\"\n  output %y\n}")
		Expect(err).NotTo(HaveOccurred())
		r := rand.New(rand.NewPCG(1, 2))
		g.NodesByID()[0].SetOperand(1, g.AddConst("w", grouptest.Whole(r, 1, 192, 160)))
		m := carve.FromGraph(g)
		DeferCleanup(m.Close)
		o := &carve.Options{Backends: []backend.Config{{Name: "opencl"}, {Name: "reference"}}, Cache: GinkgoT().TempDir(), Verify: true,
			Pins: []property.Pin{{Node: "m", Backend: "opencl"}}} // where cpu is much faster by the model, it alone is measured
		t, err := carve.Tune(ctx, m, &carve.TuneOptions{Options: o, Time: 5 * time.Minute})
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Measured).To(BeNumerically(">", 3))

		tiles := map[string]bool{}
		signature := regexp.MustCompile(`signature "(product[^":]*?) opencl`)
		Expect(filepath.WalkDir(o.Cache, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if found := signature.FindSubmatch(text); found != nil {
				tiles[string(found[1])] = true
			}
			return err
		})).To(Succeed())
		Expect(tiles).To(HaveKey("product"))
		Expect(len(tiles)).To(BeNumerically(">", 2), "%v", tiles)

		o.Placement = carve.Measured
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		x := grouptest.Whole(r, 2, 256, 192)
		got, err := p.Run(ctx, map[string]tensor.Value{"x": x})
		Expect(err).NotTo(HaveOccurred())
		alone, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(alone.Close)
		want, err := alone.Run(ctx, map[string]tensor.Value{"x": x})
		Expect(err).NotTo(HaveOccurred())
		Expect(got["y"].(*tensor.Tensor).Bytes()).To(Equal(want["y"].(*tensor.Tensor).Bytes()))
	})
})
