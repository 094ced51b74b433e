package mkl_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/testshare"
)

// randomly returns options for mkl in a layout of activations, with a number of threads and, mostly, with formats between
// operators that the seed chooses.
func randomly(lib string, seed uint64) carve.Options {
	GinkgoHelper()
	rng := rand.New(rand.NewPCG(seed, 9))
	c := mklWith(lib)
	if layout := []string{"", "", "NCHW16c", "NCHW8c", "NHWC", "row-major"}[rng.IntN(6)]; layout != "" {
		c.Options = map[string]string{"layout": layout}
		if lib != "" {
			c.Options["library"] = lib
		}
	}
	o := carve.Options{Placement: carve.Priority, Threads: 1 + rng.IntN(2), Backends: []backend.Config{c}}
	if rng.IntN(4) > 0 {
		b, err := mkl.Open(c)
		Expect(err).NotTo(HaveOccurred())
		o.Open = map[string]backend.Backend{"mkl": backendtest.Scramble(b, seed)}
	}
	return o
}

// firstNetwork is the seed of the first case of the specs that make 20,000.
var firstNetwork = flag.Int("first-network", 1000, "seed of the first of 20,000 networks on integers")

// checkQuantised runs so many cases of networks on integers, in the formats that the library likes best, and shows the first few that
// differ.
func checkQuantised(ctx context.Context, random func(seed uint64, zeros int) (*backendtest.Case, error), lib string, first, n int) {
	GinkgoHelper()
	var wrong []string
	for seed := 0; seed < n && len(wrong) < 5; seed++ {
		if c, err := random(uint64(first+seed), 2); err == nil {
			o := carve.Options{Placement: carve.Priority, Threads: 1 + seed%2, Backends: []backend.Config{mklWith(lib)}}
			if err := c.Agree(ctx, o, map[string]int{}); err != nil {
				wrong = append(wrong, fmt.Sprintf("%v\n%v", c, err))
			}
		}
	}
	Expect(wrong).To(BeEmpty(), "%s", strings.Join(wrong, "\n\n"))
}

// checkRandom runs so many cases of every operator, and of chains, and returns what mkl ran.
// After the chains there are more, until each of the patterns ran.
func checkRandom(ctx context.Context, lib string, first, operators, chains int, patterns ...string) {
	GinkgoHelper()
	ran := map[string]int{}
	check := func(c *backendtest.Case, err error) {
		if err == nil {
			o := randomly(lib, c.Seed)
			Expect(c.Agree(ctx, o, ran)).To(Succeed(), "%v\n%v", o.Backends[0].Options, c)
		}
	}
	for _, op := range backendtest.RandomOperators() {
		n := operators
		if op == "QuantizeLinear" || op == "DequantizeLinear" { // the library has a kernel for each kind of shape
			n *= 60
		}
		for seed := range n {
			check(backendtest.RandomOperator(op, uint64(first+seed)))
		}
	}
	absent := func(pattern string) bool { return ran[pattern] == 0 }
	for seed := 0; seed < chains || slices.ContainsFunc(patterns, absent); seed++ {
		Expect(seed).To(BeNumerically("<", 20*chains), "no chain has one of %v, but %v", patterns, ran)
		check(backendtest.RandomChain(uint64(first + seed)))
	}
}

var _ = Describe("random operators, and chains of them", func() {
	for _, lib := range libraries() {
		It(strings.TrimSpace("agree with the reference kernels, every fused pattern among them "+lib), func(ctx SpecContext) {
			b := open(lib)
			var patterns []string
			for _, name := range mkl.Operators() {
				pattern, ok := strings.CutPrefix(name, "pattern:")
				// Simplification makes a Swish of SiLU; without VNNI none of these chains has a sum on integers.
				if ok && pattern != fuse.SiluName && (pattern != "quantized-sum" || mkl.ExactProducts(b)) {
					patterns = append(patterns, pattern)
				}
			}
			checkRandom(ctx, lib, 0, 2, 300, patterns...)
		})

		It(strings.TrimSpace("agree with the reference kernels on few elements or none, of all ranks "+lib), func(ctx SpecContext) {
			open(lib)
			ran := map[string]int{}
			for _, op := range backendtest.RandomOperators() {
				for seed := range testshare.Of(10) { // even ones: the library's activations make numbers of NaN
					if c, err := backendtest.RandomCorner(op, uint64(2*seed)); err == nil {
						Expect(c.Agree(ctx, randomly(lib, c.Seed), ran)).To(Succeed(), "%v", c)
					}
				}
			}
		})

		It(strings.TrimSpace("agree with the reference kernels: thousands "+lib), Label("slow"), func(ctx SpecContext) {
			if !strings.Contains(GinkgoLabelFilter(), "slow") {
				Skip("takes minutes: -ginkgo.label-filter=slow")
			}
			open(lib)
			checkRandom(ctx, lib, 1000, 40, 6000)
		})

		It(strings.TrimSpace("of networks on integers are the reference's, bit for bit "+lib), func(ctx SpecContext) {
			open(lib)
			checkQuantised(ctx, backendtest.RandomQuantised, lib, 0, 200)
		})

		It(strings.TrimSpace("of networks in the forms that tools write are the reference's "+lib), func(ctx SpecContext) {
			open(lib)
			checkQuantised(ctx, backendtest.RandomForms, lib, 0, 200)
		})

		It(strings.TrimSpace("of networks with grouped windows of one tap, whose weights version 2 packs with wrong sums, are the reference's "+lib), func(ctx SpecContext) {
			open(lib)
			for _, seed := range []int{5628, 9620, 10501, 13277} {
				checkQuantised(ctx, backendtest.RandomQuantised, lib, seed, 1)
			}
		})

		It(strings.TrimSpace("of networks on integers are the reference's, bit for bit: 20,000 "+lib), Label("slow"), func(ctx SpecContext) {
			if !strings.Contains(GinkgoLabelFilter(), "slow") {
				Skip("takes minutes: -ginkgo.label-filter=slow")
			}
			open(lib)
			checkQuantised(ctx, backendtest.RandomQuantised, lib, *firstNetwork, 20000)
		})

		It(strings.TrimSpace("of networks in the forms that tools write are the reference's: 20,000 "+lib), Label("slow"), func(ctx SpecContext) {
			if !strings.Contains(GinkgoLabelFilter(), "slow") {
				Skip("takes minutes: -ginkgo.label-filter=slow")
			}
			open(lib)
			checkQuantised(ctx, backendtest.RandomForms, lib, *firstNetwork, 20000)
		})
	}

	It("include every operator that the backend has", func() {
		for _, name := range mkl.Operators() {
			if !strings.HasPrefix(name, "pattern:") {
				Expect(backendtest.RandomOperators()).To(ContainElement(name), "it has no generator")
			}
		}
	})
})
