package cli_test

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("eval", func() {
	x := tensor.From([]float32{1, 2, 3, 4, 50, 6}, 2, 3)

	It("runs one operator", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		r := succeeds(ctx, "eval", "Transpose", "--attr", "perm=[1,0]", "--input", writeNPY(x), "--output", dir)
		Expect(r.stdout).To(MatchRegexp(`\Aresult 0  float32\[3,2\]  min 1  max 50  mean 11  std 17.5119  `))
		Expect(r.stderr).To(MatchRegexp(`\Arun took [^\n]+\n\z`))
		y, err := tensor.ReadNPYFile(filepath.Join(dir, "result_0.npy"))
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Elements[float32](y)).To(Equal([]float32{1, 4, 2, 50, 3, 6}))
		Expect(succeeds(ctx, "eval", "Clip", "--input", writeNPY(x), "--input", "-", "--input", writeNPY(tensor.From([]float32{2})), "--backend", "reference").stdout).To(
			ContainSubstring("max 2"))
		Expect(succeeds(ctx, "eval", "LeakyRelu", "--attr", "alpha=0.5", "--input", writeNPY(tensor.From([]float32{-2}, 1))).stdout).To(ContainSubstring("min -1"))
	})

	It("says what is wrong", func(ctx SpecContext) {
		Expect(fails(ctx, "eval", "Nope")).To(ContainSubstring(`"Nope"`))
		Expect(fails(ctx, "eval", "Relu", "--input", "missing.npy")).To(ContainSubstring("--input missing.npy"))
		Expect(fails(ctx, "eval", "Relu", "--attr", "axis", "--input", writeNPY(x))).To(ContainSubstring("--attr axis"))
		Expect(fails(ctx, "eval", "Relu", "--attr", "axis=1", "--input", writeNPY(x))).To(ContainSubstring("axis"))
		Expect(fails(ctx, "eval", "Softmax", "--attr", "axis=x")).To(And(ContainSubstring("expected NAME=VALUE"), Not(ContainSubstring("column"))))
		Expect(fails(ctx, "eval", "Relu")).To(ContainSubstring("--input FILE, once for each"))
	})
})
