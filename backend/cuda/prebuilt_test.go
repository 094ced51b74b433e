package cuda_test

import (
	"bytes"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
	"github.com/carve-dev/carve/internal/gpukernel/ptx"
)

// know has a driver take the texts that were compiled beforehand for what the host's compiler makes of their source.
func know(d *fakecuda.Driver, architecture int) error {
	texts := bytes.SplitAfter(ptx.All(architecture), []byte{0})
	return d.Know(texts[:len(texts)-1], gpukernel.Source(gpukernel.CUDA, gpukernel.Prebuilt()...), fmt.Sprintf("sm_%d", architecture))
}

var known = sync.OnceValue(func() error {
	d, err := shared()
	if err != nil {
		return err
	}
	return know(d, 80)
})

// withoutNVRTC returns the shared driver, which runs what was compiled beforehand, and the backend on it.
func withoutNVRTC() (*fakecuda.Driver, backend.Backend) {
	GinkgoHelper()
	fake := driver()
	Expect(known()).To(Succeed())
	b, err := cuda.Open(config(fake, "nvrtc", "off"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	return fake, b
}

var _ = Describe("without a compiler", func() {
	It("kernels that were compiled beforehand serve, and the backend says so", func() {
		_, b := withoutNVRTC()
		Expect(b.Info().Version).To(MatchRegexp(`^driver of CUDA \d+\.\d, no NVRTC: kernels compiled beforehand, `))
	})

	DescribeTable("it is unavailable where they do not serve", func(setting string, value int, says string) {
		fake := own("without-"+setting, fakecuda.Options{})
		fake.Set(setting, value)
		_, err := cuda.Open(config(fake, "nvrtc", "off"))
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(ContainSubstring(says)))
	},
		Entry("for want of a newer driver", "driver", 11050, "want a driver of CUDA 11.8 or later, found one of 11.5"),
		Entry("on an old processor", "capability", 70, "want compute capability 7.5 or later"),
	)

	It("random graphs agree with the reference, and nothing is compiled", func(ctx SpecContext) {
		fake, _ := withoutNVRTC()
		before := fake.CompilerCount("calls")
		ran := map[string]int{}
		for seed := range uint64(80) {
			c, err := backendtest.RandomChain(seed)
			if ops := backendtest.RandomOperators(); seed%2 == 1 {
				c, err = backendtest.RandomOperator(ops[seed/2%uint64(len(ops))], seed)
			}
			if err != nil {
				continue // the reference has something against it
			}
			fake.Set("seed", int(seed))
			b, err := cuda.Open(config(fake, "nvrtc", "off"))
			Expect(err).NotTo(HaveOccurred())
			o := carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}}, Placement: carve.Priority}
			Expect(c.Agree(ctx, o, ran)).To(Succeed(), "%v\n%v", c, fake.Report())
			Expect(b.Close()).To(Succeed())
		}
		Expect(len(ran)).To(BeNumerically(">", 10))
		Expect(fake.Count("kernels")).To(BeNumerically(">", 60))
		Expect(fake.Report()).To(BeEmpty())
		Expect(fake.CompilerCount("calls")).To(Equal(before))
	})

	It("a driver that refuses a text leaves nodes to others, and says why", func(ctx SpecContext) {
		fake := own("unknown-texts", fakecuda.Options{})
		b, err := cuda.Open(config(fake, "nvrtc", "off"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		m := carve.FromGraph(net())
		DeferCleanup(m.Close)
		p, err := carve.Compile(ctx, m, &carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}}, Placement: carve.Priority})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(fmt.Sprintf("%+v", r.Rejected)).To(ContainSubstring("cuModuleLoadDataEx"))
		agrees(ctx, p, 1)
	})

	It("older processors have texts of their own", func(ctx SpecContext) {
		fake := own("turing", fakecuda.Options{})
		fake.Set("capability", 75)
		Expect(know(fake, 75)).To(Succeed())
		b, err := cuda.Open(config(fake, "nvrtc", "off"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		for seed := range uint64(20) {
			if c, err := backendtest.RandomChain(seed); err == nil {
				o := carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}}, Placement: carve.Priority}
				Expect(c.Agree(ctx, o, map[string]int{})).To(Succeed(), "%v", c)
			}
		}
		Expect(fake.Count("kernels")).To(BeNumerically(">", 20))
		Expect(fake.Report()).To(BeEmpty())
	})
})
