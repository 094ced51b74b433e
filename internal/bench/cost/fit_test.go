package main

import (
	"math"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/cost"
)

func TestCost(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/bench/cost")
}

// made are samples of a law for some amounts of work, on one thread and on two.
func made(class, signature string, l backend.Law, sync float64) (list []sample) {
	e := &backend.Efficiency{Sync: sync, Cache: 1e6, Laws: map[string]backend.Law{class: l}}
	for i, ops := range []float64{1e3, 1e4, 3e5, 1e6, 2e7, 5e8} {
		w := cost.Work{Class: class, Work: ops, Bytes: ops / float64(i+2), Rows: 3 + ops/1e4/float64(7-i), Items: ops / 50}
		for threads := 1; threads <= 2; threads++ {
			list = append(list, sample{Task: signature + class + string(rune('a'+i)), Signature: signature, Threads: threads, Work: w,
				Nanos: cost.Nanoseconds(e, &w, signature, threads)})
		}
	}
	return list
}

var _ = Describe("A fit", func() {
	DescribeTable("finds a law that gives what was measured", func(class string, l backend.Law) {
		list := made(class, "", l, 0)
		e := fit(list, 0, 1e6)
		Expect(deviations(e, list)[""].worst).To(BeNumerically("<", 1.1), "%+v", e.Laws[class])
	},
		Entry(nil, "conv", backend.Law{Fixed: 500, Work: 0.02, Serial: 1}),
		Entry(nil, "conv", backend.Law{Fixed: 500, Work: 0.02, Bytes: 0.1, Serial: 0.3}),
		Entry(nil, "add", backend.Law{Fixed: 90, Items: 5, Serial: 0.5}),
		Entry(nil, "add", backend.Law{Fixed: 90, Bytes: 0.05, Far: 0.1, Serial: 1}),
	)

	It("has laws for signatures that differ", func() {
		fast, slow := made("conv", "jit:avx2", backend.Law{Fixed: 100, Work: 0.01}, 0), made("conv", "gemm:jit", backend.Law{Fixed: 900, Work: 0.05}, 0)
		e := fit(append(fast, slow...), 0, 1e6)
		Expect(e.Laws["conv"].Variants).To(HaveLen(2))
		Expect(e.Laws["conv"].Variants["jit:"].Work).To(BeNumerically("~", 0.01, 0.001))
		Expect(e.Laws["conv"].Variants["gemm:"].Work).To(BeNumerically("~", 0.05, 0.005))
	})

	It("takes what a small node costs from others of its class where a signature has large ones alone", func() {
		law := backend.Law{Fixed: 200, Bytes: 0.05}
		large := made("add", "neutral", law, 0)[4:]
		for i := range large {
			large[i].Nanos += 3000 // which nothing small says it has not
		}
		e := fit(append(made("add", "row-major", law, 0), large...), 0, 1e6)
		Expect(e.Laws["add"].Variants).To(HaveKey("neutral"))
		Expect(e.Laws["add"].Variants["neutral"].Fixed).To(BeNumerically("<", 250))
	})

	It("finds what threads cost, and how much of a node they do not share", func() {
		e := fit(made("conv", "", backend.Law{Fixed: 500, Work: 0.02, Serial: 0.3}, 2000), 0, 1e6)
		Expect(e.Sync).To(Equal(2000.0))
		Expect(e.Laws["conv"].Serial).To(BeNumerically("~", 0.3, 0.06))
	})

	It("takes the launch of a group off, and does not count it twice", func() {
		list := made("add", "", backend.Law{Fixed: 400, Items: 1, Serial: 1}, 0)
		e := fit(list, 300, 1e6)
		Expect(deviations(e, list)[""].worst).To(BeNumerically("<", 1.1))
	})
})

var _ = Describe("A table's file", func() {
	It("keeps the sections of others", func() {
		text := replaceSection("", "avx2", "# Measured: a.\nset avx2 launch=1\nconv work=1\n")
		text = replaceSection(text, "neon", "# Derived from avx2, not measured: b.\nset neon launch=2\n")
		text = replaceSection(text, "avx2", "# Measured: c.\nset avx2 launch=3\n")
		Expect(text).To(Equal(fileHead + "\n# Measured: c.\nset avx2 launch=3\n\n# Derived from avx2, not measured: b.\nset neon launch=2\n"))
		Expect(isMeasured(text, "avx2")).To(BeTrue())
		Expect(isMeasured(text, "neon")).To(BeFalse())
		Expect(isMeasured(text, "avx512")).To(BeFalse())
	})

	It("has sections for wider and narrower vectors that are derived", func() {
		e := scaled(&backend.Efficiency{Laws: map[string]backend.Law{"conv": {Fixed: 5, Work: 1, Variants: map[string]backend.Law{"jit:": {Work: 2, Bytes: 3}}}}}, 0.5, 1, 1)
		Expect(e.Laws["conv"]).To(Equal(backend.Law{Fixed: 5, Work: 0.5, Variants: map[string]backend.Law{"jit:": {Work: 1, Bytes: 3}}}))
	})
})

var _ = It("rank correlation is of orders alone, and equal numbers share their rank", func() {
	nodes := func(pairs ...float64) (list []node) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, node{modelled: pairs[i], measured: pairs[i+1]})
		}
		return list
	}
	Expect(rankCorrelation(nodes(1, 10, 2, 100, 3, 101))).To(BeNumerically("~", 1, 1e-12))
	Expect(rankCorrelation(nodes(1, 10, 2, 9, 3, 1))).To(BeNumerically("~", -1, 1e-12))
	Expect(rankCorrelation(nodes(1, 1, 1, 2, 2, 3))).To(BeNumerically("~", math.Sqrt(3)/2, 1e-12))
})

var _ = It("every task is a graph whose node has a class", func() {
	seen := map[string]bool{}
	for _, t := range tasks() {
		g, err := t.graph()
		Expect(err).NotTo(HaveOccurred())
		for n := range g.Nodes() {
			if n.Name == measured {
				seen[cost.Measure(n).Class] = true
			}
		}
	}
	Expect(len(seen)).To(BeNumerically(">", 40))
})

var _ = Describe("The tasks", func() {
	It("have several of each class on integers that a graph's node tells", func() {
		counts := map[string]int{}
		for _, t := range integers() {
			g, err := t.graph()
			Expect(err).NotTo(HaveOccurred(), "%v", t)
			for n := range g.Nodes() {
				if n.Name == measured {
					counts[cost.Measure(n).Class]++
				}
			}
		}
		for _, class := range []string{"conv-int", "conv-int-odd", "conv-int-few", "conv-int-point", "conv-int-depthwise", "conv-int-grouped", "product-int", "product-int-thin"} {
			Expect(counts[class]).To(BeNumerically(">=", 4), class)
		}
	})
})
