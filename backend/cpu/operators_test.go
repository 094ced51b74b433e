package cpu_test

import (
	"flag"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/internal/fuse"
)

// checkCase runs a case of package backendtest in a random way.
func checkCase(c *backendtest.Case) {
	GinkgoHelper()
	m := newModel(c.Seed)
	m.g, m.feeds, m.known, m.judge = c.Graph, c.Feeds, c.Values, c.Compare
	w := (&randomGraph{model: m}).randomWay()
	if !m.chance(4) {
		w.formats = c.Seed + 1
	}
	Expect(m.run(w)).To(Succeed(), "%v\n%v", w, c)
}

// checkRandom runs so many cases of every operator, and of chains.
func checkRandom(first, operators, chains int) {
	GinkgoHelper()
	for _, op := range backendtest.RandomOperators() {
		for seed := range operators {
			if c, err := backendtest.RandomOperator(op, uint64(first+seed)); err == nil {
				checkCase(c)
			}
		}
	}
	for seed := range chains {
		if c, err := backendtest.RandomChain(uint64(first + seed)); err == nil {
			checkCase(c)
		}
	}
}

// firstNetwork is the seed of the first case of the specs that make 20,000.
var firstNetwork = flag.Int("first-network", 1000, "seed of the first of 20,000 networks on integers")

// checkQuantised runs so many cases of networks on integers.
func checkQuantised(random func(seed uint64, zeros int) (*backendtest.Case, error), first, n int) {
	GinkgoHelper()
	ran := 0
	for seed := range n {
		if c, err := random(uint64(first+seed), 1); err == nil {
			checkCase(c)
			ran++
		}
	}
	Expect(ran).To(BeNumerically(">", n*9/10), "the reference refuses the others")
}

// taken reports whether there are random cases of an operator that a backend supports.
func taken(b backend.Backend, op string) bool {
	for seed := range uint64(60) {
		if c, err := backendtest.RandomOperator(op, seed); err == nil && c.TakenBy(b) {
			return true
		}
	}
	return false
}

var _ = Describe("random operators, and chains of them", func() {
	It("agree with the reference kernels", func() { checkRandom(0, max(4/seedShare, 1), 200/seedShare) })

	It("on integers agree with the reference kernels", func() {
		for _, op := range []string{"Abs", "Neg", "Sign", "Relu", "Clip", "Max", "Min", "Pow", "Equal", "Greater", "Less", "LessOrEqual", "GreaterOrEqual", "Where", "Cast",
			"ArgMax", "ArgMin", "CumSum", "MatMul", "Gemm", "PRelu", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL1", "ReduceSumSquare", "ReduceLogSumExp"} {
			ran := 0
			for seed := uint64(300); seed < 300+uint64(120/seedShare); seed++ {
				c, err := backendtest.RandomOperator(op, seed)
				if err != nil || !slices.ContainsFunc(slices.Collect(c.Graph.Nodes()), func(n *graph.Node) bool {
					return n.Is(op) && (op == "ReduceLogSumExp" || slices.ContainsFunc(n.Inputs, func(v *graph.Value) bool { return v != nil && v.Type.DType.IsInt() }))
				}) {
					continue
				}
				checkCase(c)
				ran++
			}
			Expect(ran).To(BeNumerically(">", 5/seedShare), op)
		}
	})

	It("of classical models agree with the reference kernels", func() {
		for _, op := range backendtest.RandomOperators() {
			for seed := uint64(100); strings.HasPrefix(op, "ai.onnx.ml:") && seed < 100+uint64(50/seedShare); seed++ {
				if c, err := backendtest.RandomOperator(op, seed); err == nil {
					checkCase(c)
				}
			}
		}
	})

	It("of ONNX Runtime's own domain agree with the reference kernels", func() {
		for _, op := range backendtest.RandomOperators() {
			if !strings.HasPrefix(op, microsoft.Domain+":") {
				continue
			}
			ran := 0
			for seed := range uint64(50 / seedShare) {
				if c, err := backendtest.RandomOperator(op, 100+seed); err == nil {
					checkCase(c)
					ran++
				}
			}
			Expect(ran).To(BeNumerically(">", 40/seedShare), "%s: the reference refuses the others", op)
		}
	})

	It("agree with the reference kernels: thousands", Label("slow"), func() {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes minutes: -ginkgo.label-filter=slow")
		}
		checkRandom(1000, 60, 6000)
	})

	It("of networks on integers are the reference's, bit for bit", func() { checkQuantised(backendtest.RandomQuantised, 0, 300/seedShare) })

	It("of networks in the forms that tools write are the reference's", func() { checkQuantised(backendtest.RandomForms, 0, 300/seedShare) })

	It("of networks on integers are the reference's, bit for bit: 20,000", Label("slow"), func() {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes minutes: -ginkgo.label-filter=slow")
		}
		checkQuantised(backendtest.RandomQuantised, *firstNetwork, 20000)
	})

	It("of networks in the forms that tools write are the reference's: 20,000", Label("slow"), func() {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes minutes: -ginkgo.label-filter=slow")
		}
		checkQuantised(backendtest.RandomForms, *firstNetwork, 20000)
	})

	It("include every operator that the backend has", func() {
		b, err := cpu.Open(backend.Config{Name: "cpu"})
		Expect(err).NotTo(HaveOccurred())
		for _, name := range cpu.Operators() {
			if !strings.HasPrefix(name, "pattern:") {
				Expect(taken(b, name)).To(BeTrue(), "no random case of %s is supported", name)
			}
		}
	})

	It("include every fused pattern that the backend has", func(ctx SpecContext) {
		var patterns []string
		for _, name := range cpu.Operators() {
			pattern, ok := strings.CutPrefix(name, "pattern:")
			// Simplification makes a Swish of the first, the second has open lengths, and the last is of half precision, which has specs of its own.
			if ok && pattern != fuse.SiluName && pattern != "attention" && pattern != "half-rows" {
				patterns = append(patterns, pattern)
			}
		}
		ran := map[string]int{}
		absent := func(pattern string) bool { return ran[pattern] == 0 }
		for seed := uint64(0); slices.ContainsFunc(patterns, absent); seed++ {
			Expect(seed).To(BeNumerically("<", 5000), "no chain has one of %v, but %v", patterns, ran)
			if c, err := backendtest.RandomChain(seed); err == nil {
				Expect(c.Agree(ctx, carve.Options{Backends: []backend.Config{{Name: "cpu"}}}, ran)).To(Succeed(), "%v", c)
			}
		}
	})
})
