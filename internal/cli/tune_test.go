package cli_test

import (
	"encoding/json"
	"path/filepath"

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

	It("measures the values of a dim that stays open, and says for which each holds", func(ctx SpecContext) {
		g := graph.New("g")
		g.Opsets[""] = 17
		x := g.AddInput("x", f32("batch", 64))
		g.SetOutputs(add(g, "Exp", "b", "vb", []*graph.Value{add(g, "Softmax", "a", "va", []*graph.Value{x})}))
		path, cache := save(ctx, g), GinkgoT().TempDir()
		with := func(command string, more ...string) []string {
			return append([]string{command, path, "--backend", "reference,cpu", "--threads", "1", "--cache", cache}, more...)
		}
		out := succeeds(ctx, with("tune", "--open", "batch=1,16,64")...).stdout
		Expect(out).To(MatchRegexp(`(?m)^fastest at batch = 16: .+ ms$`))
		Expect(out).To(ContainSubstring("measured at batch = 1, for 1 to 4; batch = 16, for 5 to 32; batch = 64, for 33 and more\n"))
		Expect(succeeds(ctx, with("tune", "--open", "batch=1,16,64")...).stdout).To(HavePrefix("known from the cache: "))
		planned := succeeds(ctx, with("partition", "--placement", "measured", "--open", "batch", "--dim", "batch=7")...)
		Expect(planned.stdout).To(ContainSubstring("batch = 16, for 5 to 32"))
		plan := filepath.Join(GinkgoT().TempDir(), "plan")
		saving := append([]string{"plan", "save"}, with("", "--placement", "measured", "--open", "batch", "-o", plan)[1:]...)
		succeeds(ctx, saving...)
		Expect(succeeds(ctx, "plan", "show", plan).stdout).To(ContainSubstring("batch = 64, for 33 and more"))
		Expect(succeeds(ctx, with("partition", "--placement", "measured", "--dim", "batch=7")...).stdout).To(ContainSubstring("not tuned with these options"))
		for _, flag := range []string{"batch", "batch=", "batch=-1", "batch=x", "other=1"} {
			Expect(fails(ctx, with("tune", "--open", flag)...)).To(ContainSubstring("--open "+flag), flag)
		}
		Expect(fails(ctx, with("run", "--open", "batch=1")...)).To(ContainSubstring("--open batch=1"))
	})

	It("turns down a negative budget", func(ctx SpecContext) {
		Expect(fails(ctx, "tune", model(ctx), "--budget", "-1s")).To(ContainSubstring("must not be negative"))
	})
})
