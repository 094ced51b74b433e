package gpugroup_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
)

var _ = Describe("What the device leaves to the host", func() {
	d := &gpugroup.Device{ID: tensor.DeviceID{Type: 77}, Kernels: gpukernel.Generic(8, 32<<10)}
	onDevice := func(source string) (names []string) {
		GinkgoHelper()
		g, err := graph.Parse("graph \"g\" {\n  opset 17\n" + source + "}\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		order, err := g.Topo()
		Expect(err).NotTo(HaveOccurred())
		for _, n := range order {
			if len(d.Supports(n).Signatures) > 0 {
				names = append(names, n.Name)
			}
		}
		return names
	}

	DescribeTable("is as few copies as can be", func(source string, want ...string) {
		Expect(onDevice(source)).To(Equal(want))
	},
		Entry("where the host reads each column of a table for itself", `  input %x: f32[900,3]
  const %0 = i64[]{0}
  const %1 = i64[]{1}
  const %2 = i64[]{2}
  const %t = f32[]{0.5}
  %s: f32[900,3] = Softmax(%x) "s"
  %a: f32[900] = Gather(%s, %0; axis=1) "a"
  %b: f32[900] = Gather(%s, %1; axis=1) "b"
  %c: f32[900] = Gather(%s, %2; axis=1) "c"
  %at: bool[900] = Greater(%a, %t) "at"
  %bt: bool[900] = Greater(%b, %t) "bt"
  %ct: bool[900] = Greater(%c, %t) "ct"
  %an: i64[1,N] = NonZero(%at) "an"
  %bn: i64[1,M] = NonZero(%bt) "bn"
  %cn: i64[1,K] = NonZero(%ct) "cn"
  output %an
  output %bn
  output %cn
`, "s"),
		Entry("but not where what it reads is less", `  input %x: f32[900,30]
  const %0 = i64[]{0}
  const %1 = i64[]{1}
  const %t = f32[]{0.5}
  %s: f32[900,30] = Softmax(%x) "s"
  %a: f32[900] = Gather(%s, %0; axis=1) "a"
  %b: f32[900] = Gather(%s, %1; axis=1) "b"
  %c: f32[900] = Gather(%s, %1; axis=1) "c"
  %at: bool[900] = Greater(%a, %t) "at"
  %bt: bool[900] = Greater(%b, %t) "bt"
  %ct: bool[900] = Greater(%c, %t) "ct"
  %an: i64[1,N] = NonZero(%at) "an"
  %bn: i64[1,M] = NonZero(%bt) "bn"
  %cn: i64[1,K] = NonZero(%ct) "cn"
  output %an
  output %bn
  output %cn
`, "s", "a", "b", "c", "at", "bt", "ct"),
		Entry("for single numbers that are on the host", `  input %x: f32[4]
  input %n: f32[]
  input %m: f32[]
  %q: f32[] = Div(%n, %m) "q"
  %r: f32[] = Add(%q, %m) "r"
  %y: f32[4] = Mul(%x, %r) "y"
  output %y
`, "y"),
		Entry("but not for those that the device computes", `  input %x: f32[4]
  %a: f32[] = ReduceMax(%x; keepdims=0) "a"
  %b: f32[] = ReduceMin(%x; keepdims=0) "b"
  %r: f32[] = Sub(%a, %b) "r"
  %y: f32[4] = Mul(%x, %r) "y"
  output %y
`, "a", "b", "r", "y"),
	)
})
