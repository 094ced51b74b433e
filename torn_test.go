package carve_test

import (
	"strings"
	"unicode"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = DescribeTable("names and strings of a model that would tear a line are quoted in errors", func(ctx SpecContext, opset, text, named string, feeds map[string]tensor.Value) {
	for _, list := range []*carve.Options{nil, {Backends: onReference}} {
		p, err := carve.Compile(ctx, textModel("graph {\n  opset "+opset+text+"\n}"), list)
		if err == nil {
			_, err = p.Run(ctx, feeds)
			p.Close()
		}
		Expect(err).To(HaveOccurred())
		torn := strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) })
		Expect(torn).To(Equal(-1), "%q", err.Error())
		Expect(err.Error()).To(ContainSubstring(named))
	}
},
	Entry("an operator", "17", `
  input %x: f32[2]
  %y = "Foo\nBar"(%x) "n\nm"
  output %y`, `"Foo\nBar"`, nil),
	Entry("a domain", "17\n  opset \"do\\nmain\" 1", `
  input %x: f32[2]
  %y = "do\nmain"::Foo(%x) "n\nm"
  output %y`, `"do\nmain.Foo"`, nil),
	Entry("an attribute", "17", `
  input %x: f32[1,1,4,4]
  %y = MaxPool(%x; kernel_shape=[2,2], auto_pad="a\nb") "n\nm"
  output %y`, `"a\nb"`, nil),
	Entry("a symbol", "17", `
  input %x: f32["N\nM"]
  %y = Exp(%x) "n\nm"
  output %y`, `N\nM`, map[string]tensor.Value{"x": wave(2, 2)}),
	Entry("an input that is missing", "17", `
  input %"x\ny": f32[2]
  %y = Exp(%"x\ny") "n\nm"
  output %y`, `"x\ny"`, nil),
	Entry("an input that is unknown", "17", `
  input %x: f32[2]
  %y = Exp(%x) "n\nm"
  output %y`, `"a\nb"`, map[string]tensor.Value{"x": wave(2), "a\nb": wave(2)}),
	Entry("a node that fails in a run", "17", `
  input %x: f32[2]
  input %i: i64[1]
  %"y\nz" = Gather(%x, %i) "n\nm"
  %z = Exp(%"y\nz")
  output %z`, `"n\nm"`, map[string]tensor.Value{"x": wave(2), "i": integers(5)}),
	Entry("a node whose operands contradict each other in a run", "17", `
  input %x: f32[2]
  input %"s\nt": i64[1]
  %y = Reshape(%x, %"s\nt") "n\nm"
  output %y`, `"n\nm"`, map[string]tensor.Value{"x": wave(2), "s\nt": integers(5)}),
)
