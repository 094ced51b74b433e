package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

// compileZoo compiles a model of the zoo for a device, and what that leaves for cpu, until the end of the spec, which is skipped where there is no zoo.
func compileZoo(ctx context.Context, b backend.Backend, name string) (*zootest.Reference, map[string]tensor.Value, *carve.Program) {
	GinkgoHelper()
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
	p, err := carve.Compile(ctx, m, &carve.Options{Open: map[string]backend.Backend{"cuda": b},
		Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}}, Placement: carve.Priority, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	return ref, feeds, p
}

// The kernels run on the host, a work item at a time: these are the models for which that takes seconds.
var _ = DescribeTable("the zoo over the fake driver", Label("zoo"), func(ctx SpecContext, name string, whole bool, options ...string) {
	fake := driver()
	fake.Set("memory", 4<<30)
	Expect(known()).To(Succeed())
	b, err := cuda.Open(config(fake, options...))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	ref, feeds, p := compileZoo(ctx, b, name)
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	here, groups, all, reorders := 0, 0, 0, 0
	for _, g := range r.Groups {
		all += len(g.Nodes)
		if g.Backend == "cuda" {
			groups++
			here += len(g.Nodes)
		}
	}
	for _, c := range r.Conversions { // by a kernel beside the copy
		if !c.Constant && (strings.HasSuffix(c.Via, "-reorder") || strings.HasSuffix(c.Via, "-cast")) {
			reorders++
		}
	}
	fmt.Fprintf(GinkgoWriter, "%s: %d of %d nodes, in %d groups of %d\n", name, here, all, groups, len(r.Groups))
	for i := range 3 { // one by one, captured, and as graphs alone
		begin, graphs, launches, up, down := time.Now(), fake.Count("cuGraphLaunch"), fake.Count("cuLaunchKernel"), fake.Count("cuMemcpyHtoDAsync_v2"), fake.Count("cuMemcpyDtoHAsync_v2")
		fake.Set("seed", i+1)
		out, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		ds, err := ref.Compare(out)
		Expect(err).NotTo(HaveOccurred())
		graphs, launches = fake.Count("cuGraphLaunch")-graphs, fake.Count("cuLaunchKernel")-launches
		up, down = fake.Count("cuMemcpyHtoDAsync_v2")-up, fake.Count("cuMemcpyDtoHAsync_v2")-down
		fmt.Fprintf(GinkgoWriter, "%v: %d launches, %d of graphs, %d copies to the device and %d from it, %v\n", ds, launches, graphs, up, down, time.Since(begin))
		if whole && i == 2 {
			Expect([]int{here, groups}).To(Equal([]int{all, 1}))
			Expect([]int{launches, graphs, up, down}).To(Equal([]int{reorders, 1, len(ref.Inputs), len(ref.Outputs)}))
		}
	}
	Expect(fake.Report()).To(BeEmpty())
},
	Entry("bert_tiny", "bert_tiny", true),
	Entry("gpt2_tiny", "gpt2_tiny", true),
	Entry("squeezenet1_1", "squeezenet1_1", true),
	Entry("mobilenet_v2", "mobilenet_v2", true),
	Entry("shufflenet_v2_x1_0", "shufflenet_v2_x1_0", true),
	Entry("efficientnet_b0", "efficientnet_b0", true),
	Entry("resnet50", "resnet50", true),
	Entry("bert_base", "bert_base", true),
	Entry("bert_tiny, without a compiler", "bert_tiny", true, "nvrtc", "off"),
	Entry("gpt2_tiny, without a compiler", "gpt2_tiny", true, "nvrtc", "off"),
	Entry("squeezenet1_1, without a compiler", "squeezenet1_1", true, "nvrtc", "off"),
	Entry("mobilenet_v2, without a compiler", "mobilenet_v2", true, "nvrtc", "off"),
	Entry("shufflenet_v2_x1_0, without a compiler", "shufflenet_v2_x1_0", true, "nvrtc", "off"),
	Entry("efficientnet_b0, without a compiler", "efficientnet_b0", true, "nvrtc", "off"),
	Entry("resnet50, without a compiler", "resnet50", true, "nvrtc", "off"),
	Entry("bert_base, without a compiler", "bert_base", true, "nvrtc", "off"),
	Entry("lstm_tagger", "lstm_tagger", false),
	Entry("ssdlite320_mobilenet_v3_large", "ssdlite320_mobilenet_v3_large", false),
)
