package graph_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Operator schemas", func() {
	It("has all operators of ONNX and carve's own", func() {
		ops := graph.Operators()
		count := map[string]int{}
		for _, op := range ops {
			count[op.Domain]++
			versions := graph.SchemaVersions(op.Domain, op.Name)
			Expect(versions).NotTo(BeEmpty(), op.String())
			for i, s := range versions {
				Expect(s.Name).To(Equal(op.Name))
				Expect(s.Since).To(BeNumerically(">", 0))
				if !strings.HasPrefix(op.Domain, "test.") {
					Expect(s.Infer).NotTo(BeNil(), op.String())
				}
				if i > 0 {
					Expect(s.Since).To(BeNumerically(">", versions[i-1].Since), op.String())
				}
				for _, p := range append(append([]graph.Param{}, s.Inputs...), s.Outputs...) {
					Expect(p.Name).NotTo(BeEmpty(), op.String())
					if len(p.Type) > 3 && p.Type[len(p.Type)-1] == ')' {
						continue
					}
					Expect(p.Type == "any" || len(s.Types[p.Type]) > 0).To(BeTrue(), "%v %s:%s", op, p.Name, p.Type)
				}
			}
		}
		Expect(count[""]).To(Equal(203 + 9)) // with what were experiments, which graph/microsoft registers
		Expect(count["ai.onnx.ml"]).To(Equal(19))
		Expect(count[graph.CarveDomain]).To(Equal(3))
	})
	DescribeTable("finds the form of an operator set",
		func(domain, name string, version, since int) {
			s := graph.LookupSchema(domain, name, version)
			if since == 0 {
				Expect(s).To(BeNil())
				return
			}
			Expect(s).NotTo(BeNil())
			Expect(s.Since).To(Equal(since))
		},
		Entry("exact", "", "Add", 13, 13),
		Entry("between", "", "Add", 12, 7),
		Entry("newest", "", "Add", 1<<30, 14),
		Entry("alias of the domain", "ai.onnx", "Conv", 15, 11),
		Entry("before its first form", "", "Acos", 6, 0),
		Entry("unknown name", "", "NoSuch", 20, 0),
		Entry("unknown domain", "com.example", "Add", 20, 0),
		Entry("machine learning", "ai.onnx.ml", "LabelEncoder", 3, 2),
		Entry("carve's", "carve", "Fused", 1, 1),
	)
	It("reads ports, attributes and types", func() {
		conv := graph.LookupSchema("", "Conv", 22)
		Expect(conv.Inputs).To(Equal([]graph.Param{{Name: "X", Type: "T"}, {Name: "W", Type: "T"}, {Name: "B", Type: "T", Optional: true}}))
		Expect(conv.Types["T"]).To(Equal([]string{"tensor(bfloat16)", "tensor(double)", "tensor(float)", "tensor(float16)"}))
		attrs := map[string]graph.AttrSpec{}
		for _, a := range conv.Attrs {
			attrs[a.Name] = a
		}
		Expect(attrs["group"].Default.Int).To(Equal(int64(1)))
		Expect(attrs["auto_pad"].Default.Str).To(Equal("NOTSET"))
		Expect(attrs["pads"].Kind).To(Equal(graph.AttrInts))
		loop := graph.LookupSchema("", "Loop", 16)
		Expect(loop.Inputs[2]).To(Equal(graph.Param{Name: "v_initial", Type: "V", Optional: true, Variadic: true, Hetero: true}))
		Expect(loop.Attrs).To(Equal([]graph.AttrSpec{{Name: "body", Required: true}}))
		Expect(graph.LookupSchema("", "Upsample", 10).Deprecated).To(BeTrue())
		Expect(graph.LookupSchema("", "RandomNormal", 22).Random).To(BeTrue())
		Expect(graph.LookupSchema("", "Abs", 22).Random).To(BeFalse())
	})
	DescribeTable("takes bfloat16 where a later version of the operator does, and no other type that it has not", func(op string, version int, dt tensor.DType, want bool) {
		Expect(graph.LookupSchema("", op, version).Admits(0, dt)).To(Equal(want))
	},
		Entry("its own type", "Conv", 11, tensor.Float16, true),
		Entry("bfloat16, which version 22 has", "Conv", 11, tensor.BFloat16, true),
		Entry("bfloat16, which version 22 has", "GlobalAveragePool", 1, tensor.BFloat16, true),
		Entry("bfloat16, which no version has", "StringNormalizer", 10, tensor.BFloat16, false),
		Entry("integers, which no version has", "Conv", 11, tensor.Int32, false),
		Entry("integers, which a later version has", "Clip", 11, tensor.Int32, false),
	)
	It("serves registered operators beside its own", func() {
		graph.RegisterSchema(&graph.Schema{Domain: "test.registry", Name: "Add", Since: 3})
		Expect(graph.LookupSchema("test.registry", "Add", 2)).To(BeNil())
		Expect(graph.LookupSchema("test.registry", "Add", 4).Since).To(Equal(3))
		Expect(func() { graph.RegisterSchema(&graph.Schema{Name: "Add", Since: 13}) }).To(PanicWith(ContainSubstring("registered twice")))
		Expect(func() { graph.RegisterSchema(nil) }).To(Panic())
	})
})
