package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("who runs what, by the command line", func() {
	// where returns the backends of the nodes of branched, by name.
	where := func(ctx SpecContext, args ...string) map[string]string {
		GinkgoHelper()
		var p partitionJSON
		out := succeeds(ctx, append([]string{"partition", save(ctx, branched()), "--json", "--dim", "N=8"}, args...)...).stdout
		Expect(json.Unmarshal([]byte(out), &p)).To(Succeed())
		at := map[string]string{}
		for _, g := range p.Groups {
			for _, n := range g.Nodes {
				at[n] = g.Backend
			}
		}
		return at
	}
	const inner = "choose/then_branch/inner"

	It("is bound by --pin, the first of several", func(ctx SpecContext) {
		Expect(where(ctx)).To(And(HaveKeyWithValue("mul", "cpu"), HaveKeyWithValue(inner, "cpu")))
		Expect(where(ctx, "--pin", "mul=reference")).To(And(HaveKeyWithValue("mul", "reference"), HaveKeyWithValue(inner, "cpu")))
		Expect(where(ctx, "--pin", "mul=reference", "--pin", "choose/**=reference", "--pin", "**=cpu")).
			To(And(HaveKeyWithValue("mul", "reference"), HaveKeyWithValue(inner, "reference")))
	})

	It("is kept away from a backend by --pin NODE=!BACKEND", func(ctx SpecContext) {
		Expect(where(ctx, "--pin", "mul=!cpu")).To(And(HaveKeyWithValue("mul", "reference"), HaveKeyWithValue(inner, "cpu")))
	})

	It("is said by a file, behind the flags", func(ctx SpecContext) {
		file := filepath.Join(GinkgoT().TempDir(), "config.json")
		Expect(os.WriteFile(file, []byte(`{"pins": [{"op": "Mul", "backend": "reference"}, {"op": "Neg", "backend": "reference"}]}`), 0o600)).To(Succeed())
		Expect(where(ctx, "--config", file)).To(And(HaveKeyWithValue("mul", "reference"), HaveKeyWithValue(inner, "reference")))
		Expect(where(ctx, "--config", file, "--pin", "mul=cpu")).To(And(HaveKeyWithValue("mul", "cpu"), HaveKeyWithValue(inner, "reference")))
	})

	It("is bounded by a property", func(ctx SpecContext) {
		file := filepath.Join(GinkgoT().TempDir(), "config.json")
		Expect(os.WriteFile(file, []byte(`{"properties": [{"backend": "cpu", "property": "op-list", "kind": "admitting", "options": {"ops": ["Neg", "Abs"]}}]}`), 0o600)).To(Succeed())
		only := And(HaveKeyWithValue("mul", "reference"), HaveKeyWithValue(inner, "cpu"))
		Expect(where(ctx, "--config", file)).To(only)
		why := succeeds(ctx, "partition", save(ctx, branched()), "--dim", "N=8", "--config", file, "--why", "mul").stdout
		Expect(why).To(MatchRegexp(`(?m)^  not on cpu: .*op-list`))
		plain := `cpu.op-list={"ops": ["Neg"]}`
		Expect(where(ctx, "--property", plain)).To(HaveKeyWithValue(inner, "cpu"))
	})

	DescribeTable("says what it does not understand", func(ctx SpecContext, want string, args ...string) {
		bad := filepath.Join(GinkgoT().TempDir(), "bad.json")
		Expect(os.WriteFile(bad, []byte("{\"pins\": [\n  {\"nodes\": 1}]}"), 0o600)).To(Succeed())
		for i, a := range args {
			if a == "BAD" {
				args[i] = bad
			}
		}
		Expect(fails(ctx, append([]string{"partition", save(ctx, branched())}, args...)...)).To(ContainSubstring(want))
	},
		Entry("a pin without a backend", "expected NODE=BACKEND", "--pin", "mul"),
		Entry("a pin without a node", "expected NODE=BACKEND", "--pin", "=cpu"),
		Entry("a pin to a backend that is not asked", `--backend does not name "gpu"`, "--pin", "mul=gpu"),
		Entry("no such file", "--config", "--config", "nowhere.json"),
		Entry("a field that there is not", "line 2, column", "--config", "BAD"),
		Entry("a property without a backend", "expected BACKEND.NAME", "--property", "op-list"),
		Entry("a property that nobody registered", `unknown property: "magic"`, "--property", "cpu.magic"),
		Entry("options that it does not take", "bad property option", "--property", `cpu.op-list={"magic": 1}`),
		Entry("a backend that is not in the list", "not among the backends", "--property", `gpu.op-list={"ops": ["Neg"]}`),
	)
})
