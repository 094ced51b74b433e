package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("report", func() {
	It("writes one page, and the same as JSON and DOT", func(ctx SpecContext) {
		model, out := save(ctx, branched()), filepath.Join(GinkgoT().TempDir(), "report.html")
		r := succeeds(ctx, "report", model, "-o", out, "--dim", "N=8", "--profile")
		Expect(r.stdout).To(BeEmpty())
		page, err := os.ReadFile(out)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(page)).To(And(HavePrefix("<!doctype html>"), ContainSubstring(`"run":{"nanoseconds":`), Not(ContainSubstring("http://")), Not(ContainSubstring("https://"))))
		var d struct {
			Version int
			Model   string
			Nodes   []struct {
				Kind, Name string
				Nodes      []string
			}
			Run *struct{}
		}
		Expect(json.Unmarshal([]byte(succeeds(ctx, "report", model, "--format", "json", "--dim", "N=8").stdout), &d)).To(Succeed())
		Expect(d.Version).To(Equal(1))
		Expect(d.Model).To(Equal("model.onnx"))
		Expect(d.Run).To(BeNil(), "no run was measured")
		var names []string
		for _, n := range d.Nodes {
			if n.Kind == "op" || n.Kind == "host" {
				names = append(names, n.Nodes...)
			}
		}
		Expect(names).To(ConsistOf("choose", "choose/then_branch/inner", "choose/else_branch/inner", "mul"))
		Expect(succeeds(ctx, "report", model, "--format", "dot", "--dim", "N=8").stdout).To(HavePrefix("digraph \"model.onnx\" {\n"))
		Expect(fails(ctx, "report", model, "--format", "pdf")).To(ContainSubstring("expected html, json or dot"))
		Expect(fails(ctx, "report", model, "-o", filepath.Join(out, "no", "folder"), "--dim", "N=8")).NotTo(BeEmpty())
	})
})
