package cli_test

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("tune", func() {
	model := func(ctx SpecContext) string {
		GinkgoHelper()
		g := graph.New("g")
		g.Opsets[""] = 17
		x := g.AddInput("x", f32(64, 64))
		g.SetOutputs(add(g, "Exp", "b", "vb", []*graph.Value{add(g, "Softmax", "a", "va", []*graph.Value{x})}))
		return save(ctx, g)
	}

	It("finds the fastest choice, which other commands make", func(ctx SpecContext) {
		path, cache := model(ctx), GinkgoT().TempDir()
		flags := []string{"--backend", "reference,cpu", "--threads", "1", "--cache", cache}
		with := func(command string, more ...string) []string {
			return append(append([]string{command, path}, flags...), more...)
		}
		out := succeeds(ctx, with("tune", "--budget", "20s")...).stdout
		Expect(out).To(MatchRegexp(`^fastest: (measured|modelled|alone cpu|first cpu); \d+ candidates? measured, 0 known before, 0 modelled`))
		Expect(out).To(MatchRegexp(`(?m)^priority +[0-9.e+-]+ `))
		Expect(succeeds(ctx, with("tune")...).stdout).To(HavePrefix("known from the cache: "))
		var r struct {
			Choice string
			Known  bool
			Runs   []struct{ Choice string }
		}
		Expect(json.Unmarshal([]byte(succeeds(ctx, with("tune", "--json")...).stdout), &r)).To(Succeed())
		Expect(r.Known).To(BeTrue())
		Expect(r.Runs[0].Choice).To(Equal(r.Choice))
		planned := succeeds(ctx, with("partition", "--placement", "measured")...)
		Expect(planned.stderr).To(BeEmpty())
		out = planned.stdout
		Expect(out).To(ContainSubstring("chosen as tuning found fastest: " + r.Choice + "\n"))
		Expect(out).To(MatchRegexp(`(?m)^cpu +1 +2 `))
		Expect(succeeds(ctx, with("partition", "--placement", "measured", "--why", "a")...).stdout).To(MatchRegexp(`chosen \(modelled .+ by itself, measured .+\)`))
		Expect(succeeds(ctx, with("partition", "--placement", "priority")...).stdout).NotTo(ContainSubstring("tuning"))
		got := succeeds(ctx, append(with("partition", "--placement", "measured"), "--threads", "2")...)
		Expect(got.stdout).To(ContainSubstring("not tuned with these options"))
		Expect(got.stderr).To(ContainSubstring("not tuned with these options"))
	})

	It("turns down a negative budget", func(ctx SpecContext) {
		Expect(fails(ctx, "tune", model(ctx), "--budget", "-1s")).To(ContainSubstring("must not be negative"))
	})
})
