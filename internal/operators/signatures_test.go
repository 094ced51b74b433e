package operators_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
)

var _ = DescribeTable("a BatchNormalization is a scale and a shift", func(opset int, dtype, shape, call, why string) {
	g, err := graph.Parse(fmt.Sprintf("graph {\n  opset %d\n  input %%x: %s%s\n  input %%v: %s[3]\n  const %%c = %s[3]{1, 2, 3}\n  %%y%s\n  output %%y\n}",
		opset, dtype, shape, dtype, dtype, call))
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	got := operators.NoScale(g.Outputs[0].Producer)
	if why == "" {
		Expect(got).NotTo(HaveOccurred())
		return
	}
	Expect(got).To(HaveField("Detail", ContainSubstring(why)))
},
	Entry("of constants", 17, "f32", "[N,3,4,4]", " = BatchNormalization(%x, %c, %c, %c, %c)", ""),
	Entry("not in double precision", 17, "f64", "[N,3,4,4]", " = BatchNormalization(%x, %c, %c, %c, %c)", "float32"),
	Entry("not while training", 17, "f32", "[N,3,4,4]", ", %m, %s = BatchNormalization(%x, %c, %c, %c, %c; training_mode=1)", "inference"),
	Entry("not by element", 7, "f32", "[N,3,1,1]", " = BatchNormalization/7(%x, %c, %c, %c, %c; spatial=0)", "by channel"),
	Entry("not of a run's statistics", 17, "f32", "[N,3,4,4]", " = BatchNormalization(%x, %c, %c, %v, %c)", "not constant"),
	Entry("not with statistics as results", 7, "f32", "[N,3,4,4]", ", %m, %s, %a, %b = BatchNormalization/7(%x, %c, %c, %c, %c)\n  output %m", "as outputs"),
)
