package cli_test

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("bench", func() {
	It("prints JSON with all keys", func(ctx SpecContext) {
		path := save(ctx, affine())
		r := succeeds(ctx, "bench", path, "--json", "--dim", "N=64", "--threads", "1")
		var b map[string]any
		Expect(json.Unmarshal([]byte(r.stdout), &b)).To(Succeed())
		for _, k := range []string{"model", "backend", "threads", "dims", "compile_ms", "median_ms", "p10_ms", "p90_ms", "peak_rss_bytes",
			"arena_bytes", "lower_bound_bytes", "gflop", "gflops"} {
			Expect(b).To(HaveKey(k))
		}
		Expect(b["model"]).To(Equal(path))
		Expect(b["backend"]).To(Equal("cpu"))
		Expect(b["threads"]).To(BeEquivalentTo(1))
		Expect(b["runs"]).To(BeNumerically(">=", 20))
		Expect(b["gflop"]).To(BeNumerically("~", 2*64*3*2/1e9, 1e-15))
		Expect(b["median_ms"]).To(BeNumerically(">", 0))
		Expect(b["p10_ms"]).To(BeNumerically("<=", b["median_ms"]))
		Expect(b["median_ms"]).To(BeNumerically("<=", b["p90_ms"]))
		Expect(b["dims"]).To(HaveKeyWithValue("N", BeEquivalentTo(64)))
	})
})
