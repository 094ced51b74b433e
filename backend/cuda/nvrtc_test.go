package cuda_test

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
	"github.com/carve-dev/carve/internal/zootest"
)

var compilerPath = flag.String("nvrtc", "", "path of NVIDIA's libnvrtc; empty: the loader searches")

// bounds finds how a kernel is launched: its items, and the groups that shall fit on a processor together.
var bounds = regexp.MustCompile(`(?m)^KERNEL(?:_BLOCKS)?\((\d+)(?:, (\d+))?\) (\w+)\(`)

// written returns the texts that the backend writes on a device of a capability for models of the zoo, as far as they are at hand,
// and for random graphs.
func written(ctx SpecContext, capability int) []string {
	GinkgoHelper()
	fake := own(fmt.Sprintf("nvrtc%d", capability), fakecuda.Options{})
	fake.Set("capability", capability)
	fake.Set("processors", 132)
	fake.Set("memory", 8<<30)
	b, err := cuda.Open(config(fake))
	Expect(err).NotTo(HaveOccurred())
	defer b.Close()
	compile := func(m *carve.Model, dims map[string]int) {
		GinkgoHelper()
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{Open: map[string]backend.Backend{"cuda": b},
			Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}}, Placement: carve.Priority, Dims: dims})
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Close()).To(Succeed())
	}
	for seed := range uint64(60) {
		if c, err := backendtest.RandomChain(seed); err == nil {
			compile(carve.FromGraph(c.Graph), nil)
		}
	}
	g, err := grouptest.Doubles()
	Expect(err).NotTo(HaveOccurred())
	compile(carve.FromGraph(g), nil)
	for _, name := range []string{"bert_tiny", "gpt2_tiny", "resnet50", "mobilenet_v2", "efficientnet_b0", "unet", "shufflenet_v2_x1_0"} {
		ref, err := zootest.ReadReference(name)
		if errors.Is(err, zootest.ErrAbsent) {
			continue
		}
		Expect(err).NotTo(HaveOccurred())
		path, err := zootest.Materialize(name)
		Expect(err).NotTo(HaveOccurred())
		m, err := carve.Open(ctx, path)
		Expect(err).NotTo(HaveOccurred())
		compile(m, ref.Bind())
	}
	list, err := fake.Sources()
	Expect(err).NotTo(HaveOccurred())
	return list
}

var _ = Describe("the kernels of models", Label("nvrtc"), func() {
	for _, capability := range []int{75, 80, 86, 89, 90} {
		It(fmt.Sprintf("are compiled by NVRTC for capability %d, without spills", capability), func(ctx SpecContext) {
			lib, err := nvrtc.Open(*compilerPath)
			if err != nil {
				Skip(err.Error())
			}
			d := gpukernel.NVIDIA(capability, 132)
			list := written(ctx, capability)
			var mu sync.Mutex
			var kernels, registers, most int
			var wrong []string
			var wg sync.WaitGroup
			room := make(chan struct{}, runtime.NumCPU())
			for _, source := range list {
				wg.Go(func() {
					defer GinkgoRecover()
					room <- struct{}{}
					defer func() { <-room }()
					_, log, err := lib.Compile(source, fmt.Sprintf("sm_%d", capability))
					Expect(err).NotTo(HaveOccurred(), "%.2000s", source[len(gpukernel.Source(gpukernel.CUDA)):])
					threads := map[string]int{}
					for _, m := range bounds.FindAllStringSubmatch(source, -1) {
						items, _ := strconv.Atoi(m[1])
						groups, _ := strconv.Atoi(m[2])
						threads[m[3]] = items * max(groups, 1)
					}
					all := nvrtc.ParseResources(log)
					Expect(all).To(HaveLen(len(threads)), log)
					mu.Lock()
					defer mu.Unlock()
					for _, r := range all {
						kernels++
						registers, most = max(registers, r.Registers), max(most, r.Shared)
						if r.SpillLoads+r.SpillStores > 0 || r.Registers*threads[r.Kernel] > 65536 || r.Shared > d.Local {
							wrong = append(wrong, fmt.Sprintf("%s: %+v", r.Kernel, r))
						}
					}
				})
			}
			wg.Wait()
			AddReportEntry(fmt.Sprintf("capability %d", capability), fmt.Sprintf("%d kernels of %d programs, at most %d registers", kernels, len(list), registers))
			Expect(kernels).To(BeNumerically(">", 50))
			Expect(strings.Join(wrong, "\n")).To(BeEmpty())
		})
	}
})
