package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/internal/zootest"
)

// hardware opens the backend on the devices that are here, with options NAME, VALUE …, until the end of the spec, which is skipped where there is none.
func hardware(options ...string) backend.Backend {
	GinkgoHelper()
	all := map[string]string{"cache": "off"}
	if *compilerPath != "" {
		all["nvrtc"] = *compilerPath
	}
	for i := 0; i < len(options); i += 2 {
		all[options[i]] = options[i+1]
	}
	b, err := cuda.Open(backend.Config{Name: "cuda", Options: all})
	if errors.Is(err, backend.ErrUnavailable) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	return b
}

// agreesOn runs a model of the zoo on a device, three times one behind another and then on four goroutines, and compares all results with the stored ones.
func agreesOn(ctx context.Context, b backend.Backend, name string) {
	GinkgoHelper()
	begin := time.Now()
	ref, feeds, p := compileZoo(ctx, b, name)
	compiled := time.Since(begin)
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	here, all := 0, 0
	for _, g := range r.Groups {
		all += len(g.Nodes)
		if g.Backend == "cuda" {
			here += len(g.Nodes)
		}
	}
	run := func() error {
		out, err := p.Run(ctx, feeds)
		if err != nil {
			return err
		}
		_, err = ref.Compare(out)
		return err
	}
	var took time.Duration
	for range 3 { // one by one, captured, and as a graph
		begin = time.Now()
		Expect(run()).To(Succeed())
		took = time.Since(begin)
	}
	fmt.Fprintf(GinkgoWriter, "%s: %d of %d nodes, opened and compiled in %v, run in %v\n", name, here, all, compiled, took)
	Expect(here).To(BeNumerically(">", 0))
	var wg sync.WaitGroup
	failed := make([]error, 4)
	for i := range failed {
		wg.Go(func() { failed[i] = errors.Join(run(), run()) })
	}
	wg.Wait()
	Expect(errors.Join(failed...)).To(Succeed())
}

// On a device: go test ./backend/cuda -ginkgo.label-filter=hardware.
var _ = Describe("a device", Label("hardware"), func() {
	names, err := zootest.Names()
	if err != nil {
		names = nil // there are none without the shared folder
	}
	for _, name := range names {
		It("agrees with the reference outputs on "+name, func(ctx SpecContext) { agreesOn(ctx, hardware(), name) })
		It("agrees with the reference outputs on "+name+", without libraries", func(ctx SpecContext) { agreesOn(ctx, hardware("libraries", "off"), name) })
	}
	for _, name := range []string{"bert_tiny", "gpt2_tiny", "squeezenet1_1", "mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0", "resnet50", "bert_base", "unet"} {
		It("agrees with the reference outputs on "+name+", without a compiler", func(ctx SpecContext) { agreesOn(ctx, hardware("nvrtc", "off"), name) })
		It("agrees with the reference outputs on "+name+", with libraries wherever they can", func(ctx SpecContext) { agreesOn(ctx, hardware("libraries", "first"), name) })
	}
	It("agrees with the reference on random graphs", func(ctx SpecContext) {
		b := hardware()
		ran, made := map[string]int{}, 0
		var wrong []error
		for seed := range uint64(600) {
			c, err := backendtest.RandomChain(seed)
			if ops := backendtest.RandomOperators(); seed%2 == 1 {
				c, err = backendtest.RandomOperator(ops[seed/2%uint64(len(ops))], seed)
			}
			if err != nil {
				continue // the reference has something against it
			}
			made++
			o := carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}}, Placement: carve.Priority,
				Streams: int(seed % 3)}
			if err := c.Agree(ctx, o, ran); err != nil {
				wrong = append(wrong, fmt.Errorf("%w\n%v", err, c))
			}
		}
		fmt.Fprintf(GinkgoWriter, "%d graphs; on the device: %v\n", made, slices.Sorted(maps.Keys(ran)))
		Expect(errors.Join(wrong...)).To(Succeed())
		Expect(len(ran)).To(BeNumerically(">", 30))
	})
})
