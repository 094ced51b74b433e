package memplan_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan"
)

// tightCapacity is the capacity of MiniMalloc's published instances.
const tightCapacity = 1 << 20

var _ = Describe("published instances", func() {
	fit := func(ctx SpecContext, bufs []memplan.Buffer, capacity int64) {
		GinkgoHelper()
		plan, err := memplan.Pack(ctx, bufs, &memplan.Options{Capacity: capacity})
		Expect(err).NotTo(HaveOccurred())
		Expect(memplan.Verify(bufs, plan.Offsets, capacity)).To(Succeed())
	}

	It("fits the tight ones, shuffled and scaled as well", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(1, 9))
		for _, path := range benchmarks(Skip, "*.1048576.csv") {
			bufs, err := readFile(path)
			Expect(err).NotTo(HaveOccurred())
			fit(ctx, bufs, tightCapacity)
			for i := range bufs {
				bufs[i].Size *= 37
				bufs[i].Lower, bufs[i].Upper = 3*bufs[i].Lower-5, 3*bufs[i].Upper-5
			}
			r.Shuffle(len(bufs), func(i, j int) { bufs[i], bufs[j] = bufs[j], bufs[i] })
			fit(ctx, bufs, 37*tightCapacity)
		}
	})

	DescribeTable("large ones come close to the bound", func(ctx SpecContext, name string, above float64) {
		bufs, err := readFile(benchmarks(Skip, name)[0])
		Expect(err).NotTo(HaveOccurred())
		plan, err := memplan.Pack(ctx, bufs, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(memplan.Verify(bufs, plan.Offsets, plan.Height)).To(Succeed())
		Expect(float64(plan.Height)).To(BeNumerically("<=", float64(memplan.LowerBound(bufs))*(1+above)))
	},
		Entry(nil, "somas_resnet50.csv", 0.0005),
		Entry(nil, "iopddl_G_1.csv", 0.0005),
		Entry(nil, "iopddl_S_1.csv", 0.01),
		Entry(nil, "input.12.csv", 0.0),
	)
})

// BenchmarkPublished prints the time to fit each of MiniMalloc's instances,
// and with order=shuffled the mean over random orders of its buffers.
func BenchmarkPublished(b *testing.B) {
	skip := func(reason string, _ ...int) { b.Skip(reason) }
	for _, path := range benchmarks(skip, "*.1048576.csv") {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		for _, order := range []string{"given", "shuffled"} {
			b.Run("instance="+name+"/order="+order, func(b *testing.B) {
				bufs, err := readFile(path)
				if err != nil {
					b.Fatal(err)
				}
				bufs = slices.Clone(bufs)
				r := rand.New(rand.NewPCG(1, 1))
				var nodes int64
				for b.Loop() {
					if order == "shuffled" {
						r.Shuffle(len(bufs), func(i, j int) { bufs[i], bufs[j] = bufs[j], bufs[i] })
					}
					plan, err := memplan.Pack(b.Context(), bufs, &memplan.Options{Capacity: tightCapacity})
					if err != nil {
						b.Fatal(err)
					}
					if err := memplan.Verify(bufs, plan.Offsets, tightCapacity); err != nil {
						b.Fatal(err)
					}
					nodes += plan.Nodes
				}
				b.ReportMetric(float64(nodes)/float64(b.N), "steps/op")
			})
		}
	}
}
