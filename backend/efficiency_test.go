package backend_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
)

var _ = Describe("efficiencies", func() {
	const text = "set avx2 launch=900 switch=20000 sync=1500 cache=1048576\nconv fixed=800 work=0.02 serial=0.1\nconv@gemm: fixed=2000 work=0.05\nother items=2.5\n"

	It("are read and written", func() {
		sets, err := backend.ParseEfficiencies("# of some machine\n\n" + text + "\nset portable # plain\nadd bytes=1\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(sets).To(HaveLen(2))
		e := sets["avx2"]
		Expect([]float64{e.Launch, e.Sync, e.Cache}).To(Equal([]float64{900, 1500, 1 << 20}))
		Expect(e.Laws["conv"].Work).To(Equal(0.02))
		Expect(e.Laws["conv"].Variants).To(HaveKeyWithValue("gemm:", backend.Law{Fixed: 2000, Work: 0.05}))
		Expect(e.Text("avx2")).To(Equal("set avx2 launch=900 switch=20000 sync=1500 cache=1.049e+06\nconv fixed=800 work=0.02 serial=0.1\nconv@gemm: fixed=2000 work=0.05\nother items=2.5\n"))
		again, err := backend.ParseEfficiencies(e.Text("avx2"))
		Expect(err).NotTo(HaveOccurred())
		Expect(again["avx2"].Text("avx2")).To(Equal(e.Text("avx2")))
	})

	It("answer for a class and a signature, and by the law of others where a class is missing", func() {
		sets, err := backend.ParseEfficiencies("set a\nconv work=1\nconv@jit: work=2\nconv@jit:avx5 work=3\n")
		Expect(err).NotTo(HaveOccurred())
		for signature, work := range map[string]float64{"": 1, "gemm:jit": 1, "jit:avx2": 2, "jit:avx512": 3} {
			l, ok := sets["a"].For("conv", signature)
			Expect(ok).To(BeTrue())
			Expect(l.Work).To(Equal(work), signature)
		}
		_, ok := sets["a"].For("pool", "")
		Expect(ok).To(BeFalse())
	})

	DescribeTable("faults name their line", func(text, what string) {
		_, err := backend.ParseEfficiencies(text)
		Expect(err).To(MatchError(backend.ErrEfficiency))
		Expect(err).To(MatchError(ContainSubstring(what)))
	},
		Entry(nil, "conv work=1", "line 1: a law before the first set"),
		Entry(nil, "set a\nset a", "line 2: set \"a\" comes twice"),
		Entry(nil, "set a\n\nconv works=1", "line 3: \"works=1\" sets nothing that is known"),
		Entry(nil, "set a\nconv work=-1", "\"work=-1\" is no number of at least 0"),
		Entry(nil, "set a\nconv work=NaN", "\"work=NaN\" is no number"),
		Entry(nil, "set a\nconv work=Inf", "\"work=Inf\" is no number"),
		Entry(nil, "set a launch=x", "\"launch=x\" is no number"),
		Entry(nil, "set a\nconv serial=1.5", "serial=1.5 is above 1"),
		Entry(nil, "set a\nconv work", "\"work\" sets nothing"),
		Entry(nil, "set a\n"+strings.Repeat("x", 1<<20), "too long"),
	)
})
