package cli_test

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("bench", func() {
	It("prints JSON with all keys", func(ctx SpecContext) {
		path := save(ctx, affine())
		r := succeeds(ctx, "bench", path, "--json", "--time", "100ms", "--dim", "N=64", "--threads", "1")
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

	It("gives a cache that grows in the place of what it was", func(ctx SpecContext) {
		g := newGraph()
		past, now := g.AddInput("past", f32(2, 3, "past", 4)), g.AddInput("now", f32(2, 3, 1, 4))
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Concat"}, Name: "join", Inputs: []*graph.Value{past, now}, Outputs: []string{"present"},
			Attrs: []graph.Attr{graph.IntAttr("axis", 2)}})
		g.SetOutputs(n.Outputs[0])
		path := save(ctx, g)
		for _, more := range [][]string{{"--open", "past"}, nil} {
			args := append([]string{"bench", path, "--time", "0", "--dim", "past=7", "--in-place", "past=present"}, more...)
			Expect(succeeds(ctx, args...).stdout).To(ContainSubstring("runs"))
		}
		Expect(fails(ctx, "bench", path, "--in-place", "past")).To(ContainSubstring("expected INPUT=OUTPUT"))
		Expect(fails(ctx, "bench", path, "--in-place", "past=now")).To(ContainSubstring(`"now"`))
		Expect(fails(ctx, "bench", path, "--in-place", "past=present", "--in-place", "past=present")).To(ContainSubstring("twice"))
	})

	It("has callers ask at one time, of the program and of a Batcher", func(ctx SpecContext) {
		const path = "../../examples/quickstart/digits.onnx"
		r := succeeds(ctx, "bench", path, "--json", "--time", "300ms", "--batcher", "--concurrency", "4", "--max-batch", "8", "--hint", "throughput")
		var b struct {
			Serving []struct {
				Runner            string
				Callers, Requests int
				PerSecond         float64 `json:"requests_per_second"`
				P50               float64 `json:"p50_ms"`
				P99               float64 `json:"p99_ms"`
				PerRun            float64 `json:"requests_per_run"`
				Off               string
			}
		}
		Expect(json.Unmarshal([]byte(r.stdout), &b)).To(Succeed())
		Expect(b.Serving).To(HaveLen(2))
		for i, name := range []string{"program", "batcher"} {
			s := b.Serving[i]
			Expect(s.Runner).To(Equal(name))
			Expect(s.Callers).To(Equal(4))
			Expect(s.Requests).To(BeNumerically(">", 0))
			Expect(s.PerSecond).To(BeNumerically(">", 0))
			Expect(s.P50).To(BeNumerically("<=", s.P99))
			Expect(s.Off).To(BeEmpty())
		}
		Expect(b.Serving[1].PerRun).To(BeNumerically(">=", 1))
		fails(ctx, "bench", path, "--concurrency", "-1")
		fails(ctx, "bench", path, "--hint", "fast")
		fails(ctx, "bench", path, "--time", "-1s")
	})
})
