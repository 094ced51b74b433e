package onnx_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// text is the graph's text without what all models of these specs share.
func text(m *onnx.Model) string {
	s := strings.TrimSpace(m.Graph.String())
	s = strings.ReplaceAll(s, "\n  opset 21\n", "\n")
	return s
}

func want(lines ...string) string { return strings.Join(lines, "\n") }

var _ = Describe("Parse", func() {
	It("reads names, types, symbols, attributes and metadata", func() {
		m := parse(model(join(
			gname("g"),
			gnode(node("Concat", "cat", names("x", "w"), names("c"), intAttr("axis", 0))),
			gnode(node("LeakyRelu", "", names("c"), names("y"), floatAttr("alpha", 0.5))),
			initializer(vector("w", 1, 2)),
			input("x", f32("batch size")), output("y"),
			msg{}.sub(13, info("c", f32("any"))),
		), msg{}.str(2, "maker").str(3, "1.0").str(4, "dom").int(5, 7).str(6, "doc").sub(14, msg{}.str(1, "k").str(2, "v"))))
		Expect(text(m)).To(Equal(want(
			`graph "g" {`,
			`  meta "k" = "v"`,
			`  doc "doc"`,
			`  input %x: f32[batch_size]`,
			`  const %w = f32[2]{1, 2}`,
			`  %c: f32[?1] = Concat(%x, %w; axis=0) "cat"`,
			`  %y = LeakyRelu(%c; alpha=0.5) "y"`,
			`  output %y`,
			`}`)))
		Expect(m.Producer + m.ProducerVersion + m.Domain + m.Doc).To(Equal("maker1.0domdoc"))
		Expect(m.Version).To(Equal(int64(7)))
		Expect(m.Opsets).To(Equal(map[string]int{"": 21}))
		Expect(m.Outputs).To(Equal([]string{"y"}))
	})

	It("references weights and does not copy them", func() {
		b := relu(initializer(vector("w", 1, 2, 3)))
		for v := range parse(b).Graph.Constants() {
			at := &v.Const.Data[0]
			found := false
			for i := range b {
				found = found || &b[i] == at
			}
			Expect(found).To(BeTrue())
		}
	})

	It("sorts nodes that stand before what they need", func() {
		m := parse(model(join(
			gnode(node("Add", "last", names("a", "b"), names("y"))),
			gnode(node("Relu", "first", names("x"), names("a"))),
			gnode(node("Exp", "second", names("a"), names("b"))),
			input("x", f32(1)), output("y"))))
		var order []string
		for n := range m.Graph.Nodes() {
			order = append(order, n.Name)
		}
		Expect(order).To(Equal([]string{"first", "second", "last"}))
	})

	It("names nodes by their first result where their own name is not unique", func() {
		m := parse(model(join(
			gnode(node("Relu", "same", names("x"), names("a"))),
			gnode(node("Relu", "same", names("a"), names("b"))),
			gnode(node("Relu", "own", names("b"), names("c"))),
			gnode(node("Dropout", "", names("c"), names("", "mask"))),
			input("x", f32(1)), output("c"))))
		var labels []string
		for n := range m.Graph.Nodes() {
			labels = append(labels, n.Name)
		}
		Expect(labels).To(Equal([]string{"a", "b", "own", "mask"}))
	})

	It("keeps operators that nobody knows without a schema", func() {
		m := parse(model(join(
			gnode(call("com.example", node("Magic", "m", names("x"), names("a"), intAttr("n", 3)))),
			gnode(node("NoSuchOperator", "o", names("a"), names("y"))),
			input("x", f32(1)), output("y"))))
		for n := range m.Graph.Nodes() {
			Expect(n.Schema).To(BeNil(), n.Name)
			Expect(n.Op.Since).To(BeZero())
		}
	})

	It("takes a vendor's operator of one version without an import of its domain", func() {
		register := func(name string, since int) {
			graph.RegisterSchema(&graph.Schema{Domain: "test.vendor", Name: name, Since: since, Inputs: []graph.Param{{Name: "X", Type: "tensor(float)"}},
				Outputs: []graph.Param{{Name: "Y", Type: "tensor(float)"}}})
		}
		register("Alone", 1)
		register("Twice", 1)
		register("Twice", 2)
		of := func(op string) []byte {
			return model(join(gnode(call("test.vendor", node(op, "n", names("x"), names("y")))), input("x", f32(1)), output("y")))
		}
		m := parse(of("Alone"))
		Expect(m.Graph.Outputs[0].Producer.Op.Since).To(Equal(1))
		Expect(m.Graph.Opsets).To(HaveKeyWithValue("test.vendor", 1))
		_, err := onnx.Parse(context.Background(), of("Twice"), nil)
		Expect(err).To(MatchError(onnx.ErrUnsupportedOpset))
		Expect(err).To(MatchError(ContainSubstring("test.vendor")))
	})

	DescribeTable("refuses what contradicts itself, and names the place", func(b []byte, cause error, says ...string) {
		_, err := onnx.Parse(context.Background(), b, nil)
		Expect(err).To(MatchError(cause))
		for _, s := range says {
			Expect(err).To(MatchError(ContainSubstring(s)))
		}
		Expect(err.Error()).NotTo(ContainSubstring("\n"))
	},
		Entry("an operator newer than its operator set", model(join(gnode(node("RMSNormalization", "r", names("x", "x"), names("y"))),
			input("x", f32(1)), output("y"))), onnx.ErrUnsupportedOpset, "node r", "since version 23"),
		Entry("an operator of a domain without a version", model(join(gnode(msg{}.str(1, "x").str(2, "y").str(3, "b").str(4, "Binarizer").str(7, "ai.onnx.ml")),
			input("x", f32(1)), output("y"))), onnx.ErrUnsupportedOpset, "node b", "ai.onnx.ml"),
		Entry("two versions of a domain", model(join(input("x", f32(1)), output("x")), opset("", 20)), onnx.ErrDuplicate, "20", "21"),
		Entry("a negative ir_version", msg{}.int(1, -3).sub(8, msg{}.int(2, 21)).sub(7, join(input("x", f32(1)), output("x"))), onnx.ErrSyntax, "-3"),
		Entry("an op_type that is no UTF-8", model(join(gnode(node("Re\xfflu", "r", names("x"), names("y"))), input("x", f32(1)), output("y"))),
			onnx.ErrSyntax, "node r", "UTF-8"),
		Entry("an initializer of another shape than declared", model(join(initializer(vector("w", 1, 2)), input("x", f32(1)), input("w", f32(3)), output("x"))),
			onnx.ErrSyntax, "value w", "f32[2]", "f32[3]"),
		Entry("a name of two lines", model(join(gnode(node("Relu", "a\nb", names("nowhere\nat all"), names("y"))), input("x", f32(1)), output("y"))),
			onnx.ErrDangling, `a\nb`),
	)

	It("takes the type of an initializer from its data, whatever value_info says", func() {
		m, err := onnx.Parse(context.Background(), model(join(gnode(node("Identity", "i", names("w"), names("y"))), initializer(vector("w", 1, 2)),
			input("x", f32(1)), output("y"), msg{}.sub(13, info("w", f32(3))))), nil)
		Expect(err).NotTo(HaveOccurred())
		defer m.Close()
		Expect(m.Graph.Outputs[0].Producer.Inputs[0].Type.String()).To(Equal("f32[2]"))
	})

	It("reads sequence, optional and map types, unknown ranks and unknown dims", func() {
		seq := msg{}.sub(4, msg{}.sub(1, f32("N")))
		opt := msg{}.sub(9, msg{}.sub(1, seq))
		dict := msg{}.sub(5, msg{}.int(1, 8).sub(2, f32()))
		anyRank := msg{}.sub(1, msg{}.int(1, 7))
		sparse := msg{}.sub(8, msg{}.int(1, 1).sub(2, msg{}.sub(1, msg{}.int(1, 4))))
		m := parse(model(join(input("s", seq), input("o", opt), input("m", dict), input("r", anyRank),
			input("d", msg{}.sub(1, msg{}.int(1, 1).sub(2, msg{}.sub(1, msg{}).sub(1, msg{}.str(2, "?")).sub(1, msg{}.int(1, -1))))),
			input("t", sparse), output("s"))))
		var types []string
		for _, v := range m.Graph.Inputs {
			types = append(types, v.Type.String())
		}
		Expect(types).To(Equal([]string{"seq(f32[N])", "opt(seq(f32[N]))", "map(str,f32[])", "i64[*]", "f32[d_0,d_1,d_2]", "f32[4]"}))
		Expect(onnx.ValueKind(m.Graph.Inputs[1].Type)).To(Equal(tensor.KindOptional))
	})

	It("reads dims that are expressions of other inputs' dims", func() {
		m := parse(model(join(input("a", f32("past", "seq")), input("mask", f32("past + 2*seq", "past + other", "floordiv(seq,2)")), output("a"))))
		Expect(m.Graph.Inputs[1].Type.String()).To(Equal("f32[past+2*seq,past___other,floordiv(seq,2)]"))
	})

	It("reads every kind of attribute", func() {
		strs := msg{}.str(1, "strs").str(9, "a", "").int(20, 8)
		ints := msg{}.str(1, "ints").str(8, "\x01\x7f").int(20, 7)
		floats := msg{}.str(1, "floats").str(7, "\x00\x00\x80\x3f\x00\x00\x00\x40").int(20, 6)
		tensors := msg{}.str(1, "tensors").sub(10, vector("", 1), vector("", 2, 3)).int(20, 9)
		typ := msg{}.str(1, "type").sub(14, f32(2)).int(20, 13)
		sparse := msg{}.str(1, "sparse").sub(22, msg{}.sub(1, vector("", 5)).sub(2, indices(1)).int(3, 3)).int(20, 11)
		graphs := msg{}.str(1, "graphs").sub(11, join(gname("g0"), output("x")), join(gname("g1"), output("x"))).int(20, 10)
		untyped := msg{}.str(1, "untyped").int(3, 9)
		m := parse(model(join(gnode(call("d", node("Op", "n", names("x"), names("y"), strs, ints, floats, tensors, typ, sparse, graphs, untyped))),
			input("x", f32(1)), output("y"))))
		Expect(text(m)).To(Equal(want(
			`graph {`,
			`  input %x: f32[1]`,
			`  %y = d::Op(%x | %x; floats=[1.0, 2.0], ints=[1, 127], sparse=f32[3]{0, 5, 0}, strs=["a", ""], tensors=[f32[1]{1}, f32[2]{2, 3}], type=type(f32[2]), untyped=9) "n" {`,
			`    graphs/0: graph "g0" {`,
			`      capture %x: f32[1]`,
			`      output %x`,
			`    }`,
			`    graphs/1: graph "g1" {`,
			`      capture %x: f32[1]`,
			`      output %x`,
			`    }`,
			`  }`,
			`  output %y`,
			`}`)))
	})

	It("gives constants one form", func() {
		m := parse(model(join(
			gnode(node("Constant", "i", nil, names("i"), msg{}.str(1, "value_ints").int(8, 4, 5).int(20, 7))),
			gnode(node("Constant", "f", nil, names("f"), floatAttr("value_float", 2))),
			gnode(node("Constant", "s", nil, names("s"), msg{}.str(1, "value_string").str(4, "hi").int(20, 3))),
			gnode(node("Constant", "d", nil, names("d"), msg{}.str(1, "sparse_value").sub(22, msg{}.sub(1, vector("", 5)).sub(2, indices(0)).int(3, 2)).int(20, 11))),
			output("i", "f", "s", "d"))))
		Expect(text(m)).To(Equal(want(
			`graph {`,
			`  %i = Constant(; value=i64[2]{4, 5}) "i"`,
			`  %f = Constant(; value=f32[]{2}) "f"`,
			`  %s = Constant(; value=str[]{"hi"}) "s"`,
			`  %d = Constant(; value=f32[2]{5, 0}) "d"`,
			`  output %i, %f, %s, %d`,
			`}`)))
	})
})

func indices(vs ...int64) msg {
	b, err := tensor.AppendProto(nil, "", tensor.From(vs))
	if err != nil {
		panic(err)
	}
	return b
}

var _ = DescribeTable("odd models that are legal", func(b []byte, check func(*onnx.Model)) {
	check(parse(b))
},
	Entry("empty graph", model(gname("g")), func(m *onnx.Model) { Expect(m.Graph.NumNodes()).To(BeZero()) }),
	Entry("an output that is an input, twice", model(join(input("x", f32(1)), output("x", "x"))), func(m *onnx.Model) {
		Expect(m.Graph.Outputs).To(Equal([]*graph.Value{m.Graph.Inputs[0], m.Graph.Inputs[0]}))
	}),
	Entry("an output that is an initializer", model(join(initializer(vector("w", 1)), output("w"))), func(m *onnx.Model) {
		Expect(m.Graph.Outputs[0].IsConst()).To(BeTrue())
	}),
	Entry("a value that is an output twice", relu(output("y")), func(m *onnx.Model) {
		Expect(m.Graph.Outputs[0]).To(BeIdenticalTo(m.Graph.Outputs[1]))
		Expect(m.Outputs).To(Equal([]string{"y", "y"}))
	}),
	Entry("an initializer that is an input", relu(initializer(vector("w", 1)), input("w", f32(1))), func(m *onnx.Model) {
		Expect(m.Graph.Inputs).To(HaveLen(1))
	}),
	Entry("a tensor of no elements, and a scalar", relu(initializer(vector("w")), initializer(msg{}.int(2, 1).str(8, "s").str(9, "\x00\x00\x80\x3f"))), func(m *onnx.Model) {
		var sizes []int
		for v := range m.Graph.Constants() {
			sizes = append(sizes, v.Const.Len())
		}
		Expect(sizes).To(Equal([]int{0, 1}))
	}),
	Entry("an output with a name like a path", model(join(input("x", f32(1)), gnode(node("Relu", "", names("x"), names("../../y"))), output("../../y"))), func(m *onnx.Model) {
		Expect(m.Outputs).To(Equal([]string{"../../y"}))
	}),
	Entry("a sparse initializer", relu(msg{}.sub(15, msg{}.sub(1, vector("sp", 5)).sub(2, indices(1)).int(3, 2))), func(m *onnx.Model) {
		for v := range m.Graph.Constants() {
			Expect(v.Name).To(Equal("sp"))
			Expect(tensor.Elements[float32](v.Const)).To(Equal([]float32{0, 5}))
		}
	}),
	Entry("a domain that is not imported", model(join(gnode(call("d", node("Op", "", names("x"), names("y")))), input("x", f32(1)), output("y"))), func(m *onnx.Model) {
		Expect(m.Graph.NumNodes()).To(Equal(1))
	}),
	Entry("the default domain under its long name", append(msg{}.int(1, 8).sub(8, msg{}.str(1, "ai.onnx").int(2, 17)),
		msg{}.sub(7, join(gnode(call("ai.onnx", node("Relu", "", names("x"), names("y")))), input("x", f32(1)), output("y")))...), func(m *onnx.Model) {
		for n := range m.Graph.Nodes() {
			Expect(n.Op).To(Equal(graph.Op{Name: "Relu", Since: 14}))
		}
	}),
)

var _ = Describe("inputs with data", func() {
	b := relu(initializer(vector("w", 1)), input("w", f32(1)))

	It("are constants, and listed", func() {
		m, err := onnx.Parse(context.Background(), b, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Graph.Inputs).To(HaveLen(1))
		Expect(m.Overridable).To(Equal([]string{"w"}))
		Expect(m.Defaults).To(BeEmpty())
	})

	It("stay inputs with a default where that is asked for", func() {
		m, err := onnx.Parse(context.Background(), b, &onnx.Options{Override: []string{"w"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Graph.Inputs).To(HaveLen(2))
		Expect(m.Overridable).To(Equal([]string{"w"}))
		Expect(m.Defaults).To(HaveLen(1))
		Expect(m.Defaults["w"].Shape).To(Equal([]int{1}))

		path := filepath.Join(GinkgoT().TempDir(), "again.onnx")
		Expect(onnx.Save(context.Background(), path, m, nil)).To(Succeed())
		again, err := onnx.Load(context.Background(), path, &onnx.Options{Override: []string{"w"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Graph.String()).To(Equal(m.Graph.String()))
		Expect(again.Defaults["w"].Bytes()).To(Equal(m.Defaults["w"].Bytes()))
		Expect(again.Close()).To(Succeed())
	})

	It("are constants in old models, whose constants all had to be inputs", func() {
		old := append([]byte{}, b...)
		old[1] = 3
		m, err := onnx.Parse(context.Background(), old, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Graph.Inputs).To(HaveLen(1))
		Expect(m.Overridable).To(BeEmpty())
		_, err = onnx.Parse(context.Background(), old, &onnx.Options{Override: []string{"w"}})
		Expect(err).To(MatchError(onnx.ErrOverride))
	})

	It("are the only ones to override", func() {
		_, err := onnx.Parse(context.Background(), b, &onnx.Options{Override: []string{"x"}})
		Expect(err).To(MatchError(onnx.ErrOverride))
		var own *onnx.Error
		Expect(errors.As(err, &own)).To(BeTrue())
		Expect(own.Value).To(Equal("x"))
	})
})

var _ = DescribeTable("faults", func(b []byte, cause error, node, value string) {
	err := fault(b, nil)
	Expect(err).To(MatchError(cause))
	Expect(err.Node).To(Equal(node))
	Expect(err.Value).To(Equal(value))
},
	Entry("empty file", []byte{}, onnx.ErrTruncated, "", ""),
	Entry("no graph", []byte(msg{}.int(1, 8)), onnx.ErrSyntax, "", ""),
	Entry("text", []byte("not a model at all"), onnx.ErrSyntax, "", ""),
	Entry("cut in the graph", relu()[:20], onnx.ErrTruncated, "", ""),
	Entry("cycle", model(join(gnode(node("Add", "a", names("x", "q"), names("p"))), gnode(node("Relu", "b", names("p"), names("q"))),
		input("x", f32(1)), output("q"))), onnx.ErrCycle, "a", "p"),
	Entry("a node that reads its own result", model(join(gnode(node("Relu", "a", names("p"), names("p"))), output("p"))), onnx.ErrCycle, "a", "p"),
	Entry("dangling input", relu(gnode(node("Relu", "b", names("ghost"), names("z")))), onnx.ErrDangling, "b", "ghost"),
	Entry("dangling output", relu(output("ghost")), onnx.ErrDangling, "", "ghost"),
	Entry("two producers", relu(gnode(node("Exp", "e", names("x"), names("y")))), onnx.ErrDuplicate, "e", "y"),
	Entry("a result with an input's name", relu(gnode(node("Exp", "e", names("y"), names("x")))), onnx.ErrDuplicate, "e", "x"),
	Entry("a result with an initializer's name", relu(initializer(vector("w", 1)), gnode(node("Exp", "e", names("x"), names("w")))), onnx.ErrDuplicate, "e", "w"),
	Entry("an input twice", relu(input("x", f32(1))), onnx.ErrDuplicate, "", "x"),
	Entry("an initializer twice", relu(initializer(vector("w", 1)), initializer(vector("w", 1))), onnx.ErrDuplicate, "", "w"),
	Entry("an attribute twice", relu(gnode(node("Concat", "c", names("x"), names("z"), intAttr("axis", 1), intAttr("axis", 2)))), onnx.ErrDuplicate, "c", "axis"),
	Entry("an attribute without a name", relu(gnode(node("Concat", "c", names("x"), names("z"), intAttr("", 1)))), onnx.ErrSyntax, "c", ""),
	Entry("an attribute of no type", relu(gnode(node("Concat", "c", names("x"), names("z"), msg{}.str(1, "axis").int(20, 77)))), onnx.ErrSyntax, "c", "axis"),
	Entry("a reference to an attribute outside of functions", relu(gnode(node("Concat", "c", names("x"), names("z"), refAttr("axis", "a", 2)))), onnx.ErrSyntax, "c", "axis"),
	Entry("a node without an operator", relu(gnode(node("", "n", names("x"), names("z")))), onnx.ErrSyntax, "n", ""),
	Entry("a newer operator set", []byte(msg{}.int(1, 10).sub(7, gname("g")).sub(8, msg{}.int(2, 999))), onnx.ErrUnsupportedOpset, "", ""),
	Entry("operator set 0", []byte(msg{}.int(1, 10).sub(7, gname("g")).sub(8, msg{}.int(2, 0))), onnx.ErrUnsupportedOpset, "", ""),
	Entry("no operator set", []byte(msg{}.int(1, 10).sub(7, join(gnode(node("Relu", "r", names("x"), names("y"))), input("x", f32(1))))), onnx.ErrUnsupportedOpset, "r", ""),
	Entry("an initializer of the wrong size", relu(initializer(msg{}.int(1, 5).int(2, 1).str(8, "w").str(9, "1234"))), tensor.ErrShape, "", "w"),
	Entry("an initializer of 2^40 elements", relu(initializer(msg{}.int(1, 1<<40).int(2, 1).str(8, "w"))), tensor.ErrShape, "", "w"),
	Entry("a sparse initializer of 2^40 elements", relu(msg{}.sub(15, msg{}.sub(1, vector("w", 1)).sub(2, indices(1)).int(3, 1<<40))), onnx.ErrTooLarge, "", "w"),
	Entry("an initializer without a name", relu(initializer(vector("", 1))), onnx.ErrSyntax, "", ""),
	Entry("an unknown data type of an input", model(input("x", msg{}.sub(1, msg{}.int(1, 99)))), tensor.ErrDType, "", "x"),
	Entry("external data with no place for it", relu(initializer(external("w.bin"))), onnx.ErrExternalData, "", "w"),
	Entry("graphs nested too deep", relu(gnode(nestedIf(80))), onnx.ErrDepth, "i", "then_branch"),
	Entry("types nested too deep", model(input("x", nestedType(60))), onnx.ErrDepth, "", "x"),
	Entry("a fault in a branch names the branch's node", relu(input("c", boolean()), gnode(node("If", "i", names("c"), names("z"),
		graphAttr("then_branch", join(gnode(node("Relu", "t", names("ghost"), names("o"))), output("o")))))), onnx.ErrDangling, "i/then_branch/t", "ghost"),
)

func external(location string, more ...msg) msg {
	x := msg{}.int(1, 2).int(2, 1).str(8, "w").sub(13, msg{}.str(1, "location").str(2, location)).int(14, 1)
	return append(x, join(more...)...)
}

func nestedIf(n int) msg {
	m := node("If", "i", names("c"), names("z"))
	for range n {
		m = node("If", "i", names("c"), names("z"), graphAttr("then_branch", gnode(m)))
	}
	return m
}

func nestedType(n int) msg {
	t := f32(1)
	for range n {
		t = msg{}.sub(4, msg{}.sub(1, t))
	}
	return t
}

var _ = Describe("damaged models", func() {
	whole := model(join(gname("g"),
		gnode(node("If", "if", names("c"), names("i"),
			graphAttr("then_branch", join(gnode(node("Add", "t", names("x", "w"), names("to"))), output("to"))),
			graphAttr("else_branch", join(gnode(node("Relu", "e", names("x"), names("eo"))), output("eo"))))),
		gnode(call("f", node("F", "call", names("i"), names("y"), floatAttr("alpha", 1)))),
		initializer(vector("w", 1, 2, 3)), input("c", boolean()), input("x", f32("N", 3)), output("y")),
		opset("f", 1), function("F", names("a"), names("b"), fnode(node("LeakyRelu", "l", names("a"), names("b"), refAttr("alpha", "alpha", 1))), msg{}.str(6, "alpha")))

	try := func(b []byte) {
		m, err := onnx.Parse(context.Background(), b, nil)
		if err == nil {
			_ = m.Graph.String() // whatever is read can be walked
			return
		}
		var own *onnx.Error
		if !errors.As(err, &own) {
			Fail(fmt.Sprintf("untyped error %v", err))
		}
	}

	It("cut anywhere, give a typed error or a model", func() {
		parse(whole)
		for i := range whole {
			try(whole[:i])
		}
	})

	It("with any bit flipped, give a typed error or a model", func() {
		for i := range 8 * len(whole) {
			b := append([]byte{}, whole...)
			b[i/8] ^= 1 << (i % 8)
			try(b)
		}
	})

	It("with bytes at random, give a typed error or a model", func() {
		r := rand.New(rand.NewPCG(1, 2))
		for range 5000 {
			b := append([]byte{}, whole...)
			for range 1 + r.IntN(4) {
				b[r.IntN(len(b))] = byte(r.Uint32())
			}
			try(b)
		}
	})
})

var _ = Describe("memory", func() {
	It("follows the file's size, not what it claims", func() {
		for _, b := range [][]byte{
			relu(initializer(msg{}.int(1, 1<<40).int(2, 1).str(8, "w"))),
			relu(initializer(msg{}.int(1, 1<<40).int(2, 8).str(8, "w"))),
			relu(msg{}.sub(15, msg{}.sub(1, vector("w", 1)).sub(2, indices(1)).int(3, 1<<40))),
			relu(gnode(nestedIf(80))),
			model(input("x", nestedType(1000))),
			relu(gnode(node("Relu", "n", make([]string, 1000), names("z")))),
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = onnx.Parse(context.Background(), b, nil) // whether it is right does not matter here
			runtime.ReadMemStats(&after)
			Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 1<<20))
		}
	})
})

var _ = Describe("operator sets", func() {
	It("are read up to the newest that the schemas know", func() {
		newest := 0
		for _, op := range graph.Operators() {
			if op.Domain == "" {
				newest = max(newest, op.Since)
			}
		}
		for v := int64(1); v <= int64(newest); v++ {
			parse(msg{}.int(1, 10).sub(7, gname("g")).sub(8, msg{}.int(2, v)))
		}
		Expect(fault(msg{}.int(1, 10).sub(7, gname("g")).sub(8, msg{}.int(2, int64(newest)+1)), nil)).To(MatchError(onnx.ErrUnsupportedOpset))
	})
})

var _ = Describe("the context", func() {
	It("stops reading", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var nodes []msg
		for i := range 3000 {
			nodes = append(nodes, gnode(node("Relu", "", names("x"), names(fmt.Sprint("y", i)))))
		}
		_, err := onnx.Parse(ctx, model(join(append(nodes, input("x", f32(1)))...)), nil)
		Expect(err).To(MatchError(context.Canceled))
	})
})
