package opencl_test

import (
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/zootest"
)

var _ = Describe("the zoo on an OpenCL device", Label("zoo"), func() {
	for _, list := range [][]string{{"opencl"}, {"opencl", "cpu"}, {"mkl", "opencl", "cpu"}} {
		for name, whole := range map[string]bool{
			"squeezenet1_1": true, "mobilenet_v2": true, "bert_tiny": true, "resnet50": true, "gpt2_tiny": false, "shufflenet_v2_x1_0": true,
		} {
			It(fmt.Sprintf("agrees with the reference: %s, %v", name, list), func(ctx SpecContext) {
				b := open()
				ref, err := zootest.ReadReference(name)
				if errors.Is(err, zootest.ErrAbsent) {
					Skip(err.Error())
				}
				Expect(err).NotTo(HaveOccurred())
				path, err := zootest.Materialize(name)
				Expect(err).NotTo(HaveOccurred())
				m, err := carve.Open(ctx, path)
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(m.Close)
				feeds, err := ref.Feeds()
				Expect(err).NotTo(HaveOccurred())
				o := &carve.Options{Placement: carve.Priority, Verify: true}
				for _, x := range list {
					o.Backends = append(o.Backends, backend.Config{Name: x})
				}
				p, err := carve.Compile(ctx, m, o)
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(p.Close)
				for range 2 {
					begin := time.Now()
					out, err := p.Run(ctx, feeds)
					Expect(err).NotTo(HaveOccurred())
					ds, err := ref.Compare(out)
					Expect(err).NotTo(HaveOccurred())
					fmt.Fprintf(GinkgoWriter, "%s: %v, %v\n", name, ds, time.Since(begin))
				}
				r, err := p.Report(ctx, nil)
				Expect(err).NotTo(HaveOccurred())
				here, all := 0, 0
				for _, g := range r.Groups {
					all += len(g.Nodes)
					if g.Backend == b.Info().Name {
						here += len(g.Nodes)
					}
				}
				fmt.Fprintf(GinkgoWriter, "%s: %d of %d nodes in %d groups\n", name, here, all, len(r.Groups))
				if whole && list[0] == "opencl" {
					Expect(here).To(Equal(all))
				}
			})
		}
	}
})
