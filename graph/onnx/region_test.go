package onnx_test

import (
	"fmt"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
)

var _ = Describe("nested graphs", func() {
	It("receive outer values as captures, one to one, and share constants", func() {
		m := parse(model(join(
			gnode(node("Exp", "exp", names("x"), names("e"))),
			gnode(node("Constant", "k", nil, names("k"), msg{}.str(1, "value").sub(5, vector("", 7)).int(20, 4))),
			gnode(node("If", "if_1", names("c"), names("y"),
				graphAttr("then_branch", join(gname("then"),
					gnode(node("Add", "add_3", names("x", "w"), names("a"))),
					gnode(node("If", "", names("c"), names("to"),
						graphAttr("then_branch", join(gnode(node("Mul", "deep", names("e", "w"), names("m"))), output("m"))),
						graphAttr("else_branch", join(gnode(node("Relu", "", names("a"), names("r"))), output("r"))))),
					output("to"))),
				graphAttr("else_branch", join(gname("else"),
					gnode(node("Sub", "sub", names("e", "k"), names("eo"))), output("eo"))))),
			initializer(vector("w", 1, 2)), input("c", boolean()), input("x", f32(2)), output("y"))))
		Expect(text(m)).To(Equal(want(
			`graph {`,
			`  input %c: bool[]`,
			`  input %x: f32[2]`,
			`  const %w = f32[2]{1, 2}`,
			`  %e = Exp(%x) "exp"`,
			`  %k = Constant(; value=f32[1]{7}) "k"`,
			`  %y = If(%c | %x, %c, %e) "if_1" {`,
			`    then_branch: graph "then" {`,
			`      capture %x: f32[2]`,
			`      capture %c: bool[]`,
			`      capture %e`,
			`      const %w = f32[2]{1, 2}`,
			`      %a = Add(%x, %w) "if_1/then_branch/add_3"`,
			`      %to = If(%c | %e, %a) "if_1/then_branch/to" {`,
			`        then_branch: graph {`,
			`          capture %e`,
			`          capture %a`,
			`          const %w = f32[2]{1, 2}`,
			`          %m = Mul(%e, %w) "if_1/then_branch/to/then_branch/deep"`,
			`          output %m`,
			`        }`,
			`        else_branch: graph {`,
			`          capture %e`,
			`          capture %a`,
			`          %r = Relu(%a) "if_1/then_branch/to/else_branch/r"`,
			`          output %r`,
			`        }`,
			`      }`,
			`      output %to`,
			`    }`,
			`    else_branch: graph "else" {`,
			`      capture %x: f32[2]`,
			`      capture %c: bool[]`,
			`      capture %e`,
			`      const %k = f32[1]{7}`,
			`      %eo = Sub(%e, %k) "if_1/else_branch/sub"`,
			`      output %eo`,
			`    }`,
			`  }`,
			`  output %y`,
			`}`)))
		var outer, inner *graph.Value
		for v := range m.Graph.Constants() {
			outer = v
		}
		for n := range m.Graph.Nodes() {
			if r := n.Region("then_branch"); r != nil {
				for v := range r.Constants() {
					inner = v
				}
			}
		}
		Expect(inner.Const).To(BeIdenticalTo(outer.Const))
	})

	It("may hide names of outer graphs, and return outer values", func() {
		m := parse(model(join(
			gnode(node("Exp", "exp", names("x"), names("v"))),
			gnode(node("If", "i", names("c"), names("y", "z"),
				graphAttr("then_branch", join(gnode(node("Relu", "r", names("x"), names("v"))), output("v", "x"))),
				graphAttr("else_branch", output("v", "w")))),
			initializer(vector("w", 1)), input("c", boolean()), input("x", f32(1)), output("y", "z"))))
		Expect(text(m)).To(ContainSubstring(want(
			`  %y, %z = If(%c | %x, %v) "i" {`,
			`    then_branch: graph {`,
			`      capture %x: f32[1]`,
			`      capture %v_2`,
			`      %v = Relu(%x) "i/then_branch/r"`,
			`      output %v, %x`,
			`    }`,
			`    else_branch: graph {`,
			`      capture %x: f32[1]`,
			`      capture %v`,
			`      const %w = f32[1]{1}`,
			`      output %v, %w`,
			`    }`)))
	})

	It("keep inputs that have data of their own", func() {
		m := parse(model(join(
			gnode(node("Loop", "l", names("", "c", "x"), names("y"),
				graphAttr("body", join(input("i", f32()), input("cond", boolean()), input("s", f32(1)), initializer(vector("s", 9)),
					gnode(node("Identity", "", names("cond"), names("co"))), output("co", "s"))))),
			input("c", boolean()), input("x", f32(1)), output("y"))))
		for n := range m.Graph.Nodes() {
			Expect(n.Region("body").Inputs).To(HaveLen(3))
		}
	})
})

var _ = Describe("functions", func() {
	It("are inlined under their caller's name, attributes by reference and by default", func() {
		m := parse(model(join(
			gnode(call("f", node("Scale", "s1", names("x"), names("a"), floatAttr("alpha", 0.5)))),
			gnode(call("f", node("Scale", "", names("a"), names("y")))),
			input("x", f32(2)), output("y")),
			opset("f", 1),
			function("Scale", names("in"), names("out"),
				fnode(node("LeakyRelu", "l", names("in"), names("mid"), refAttr("alpha", "alpha", 1))),
				fnode(node("Elu", "", names("mid"), names("out"), refAttr("alpha", "beta", 1))),
				msg{}.str(6, "alpha").sub(11, floatAttr("beta", 3)))))
		Expect(text(m)).To(Equal(want(
			`graph {`,
			`  opset "f" 1`,
			`  input %x: f32[2]`,
			`  %s1/mid = LeakyRelu(%x; alpha=0.5) "s1/l"`,
			`  %a = Elu(%s1/mid; alpha=3.0) "s1/out"`,
			`  %y/mid = LeakyRelu(%a) "y/l"`,
			`  %y = Elu(%y/mid; alpha=3.0) "y/out"`,
			`  output %y`,
			`}`)))
	})

	It("have what Gradient nodes name under the names that it has in the graph", func() {
		strs := func(name string, list ...string) msg { return msg{}.str(1, name).str(9, list...).int(20, 8) }
		gradient := call("ai.onnx.preview.training", node("Gradient", "g", names("p", "q"), names("r"), strs("xs", "p"), strs("zs", "q"), msg{}.str(1, "y").str(4, "m").int(20, 3)))
		m := parse(model(join(
			gnode(call("f", node("F", "n", names("x", "p"), names("y")))), input("x", f32(2)), input("p", f32(2)), output("y")),
			opset("f", 1), opset("ai.onnx.preview.training", 1),
			function("F", names("p", "q"), names("r"), msg{}.sub(9, msg{}.str(1, "ai.onnx.preview.training").int(2, 1)),
				fnode(node("Mul", "", names("p", "q"), names("m"))), fnode(gradient))))
		Expect(text(m)).To(ContainSubstring(`%y = ai.onnx.preview.training::Gradient(%x, %p; xs=["x"], y="n/m", zs=["p"]) "n/g"`))
	})

	It("call others, have branches, overloads, operator sets of their own, and omitted arguments", func() {
		m := parse(model(join(
			gnode(call("f", append(node("Outer", "o", names("c", "x"), names("y")), msg{}.str(8, "two")...))),
			input("c", boolean()), input("x", f32(2)), output("y")),
			opset("f", 1),
			function("Outer", names("a"), names("b"), fnode(node("Relu", "never", names("a"), names("b")))),
			function("Outer", names("cond", "v", "opt"), names("r"), msg{}.str(13, "two"),
				fnode(call("f", node("Inner", "in", names("v", "opt"), names("iv")))),
				fnode(node("If", "branch", names("cond"), names("r"),
					graphAttr("then_branch", join(gnode(call("f", node("Inner", "again", names("iv"), names("t")))), output("t"))),
					graphAttr("else_branch", output("v"))))),
			msg{}.sub(25, msg{}.str(1, "Inner").str(4, "p", "q").str(5, "s").str(10, "f").sub(9, msg{}.int(2, 12)).
				sub(7, node("Clip", "clip", names("p", "q"), names("s"))))))
		Expect(text(m)).To(Equal(want(
			`graph {`,
			`  opset "f" 1`,
			`  input %c: bool[]`,
			`  input %x: f32[2]`,
			`  %o/iv = Clip/12(%x, _) "o/in/clip"`,
			`  %y = If(%c | %o/iv, %x) "o/branch" {`,
			`    then_branch: graph {`,
			`      capture %o/iv`,
			`      capture %x: f32[2]`,
			`      %t = Clip/12(%o/iv, _) "o/branch/then_branch/again/clip"`,
			`      output %t`,
			`    }`,
			`    else_branch: graph {`,
			`      capture %o/iv`,
			`      capture %x: f32[2]`,
			`      output %x`,
			`    }`,
			`  }`,
			`  output %y`,
			`}`)))
	})

	It("take graphs as attributes, which see the caller's values", func() {
		m := parse(model(join(
			gnode(call("f", node("Choose", "ch", names("c"), names("y"),
				graphAttr("yes", join(gnode(node("Relu", "r", names("x"), names("o"))), output("o"))),
				graphAttr("no", output("x"))))),
			input("c", boolean()), input("x", f32(2)), output("y")),
			opset("f", 1),
			function("Choose", names("x"), names("b"), msg{}.str(6, "yes", "no"),
				fnode(node("If", "if", names("x"), names("b"), refAttr("then_branch", "yes", 5), refAttr("else_branch", "no", 5))))))
		Expect(text(m)).To(ContainSubstring(want(
			`  %y = If(%c | %x) "ch/if" {`,
			`    then_branch: graph {`,
			`      capture %x: f32[2]`,
			`      %o = Relu(%x) "ch/if/then_branch/r"`,
			`      output %o`)))
	})

	It("may hand an argument back, which keeps the output's name", func() {
		m := parse(model(join(gnode(call("f", node("Id", "id", names("x"), names("y")))), input("x", f32(2)), output("y")),
			opset("f", 1), function("Id", names("a"), names("a"))))
		Expect(text(m)).To(ContainSubstring(`%y: f32[2] = Identity(%x) "y"`))
	})

	DescribeTable("faults", func(b []byte, o *onnx.Options, cause error, node string) {
		err := fault(b, o)
		Expect(err).To(MatchError(cause))
		if node != "" {
			Expect(err.Node).To(Equal(node))
		}
	},
		Entry("calls itself", model(join(gnode(call("f", node("F", "a", names("x"), names("y")))), input("x", f32(1)), output("y")),
			function("F", names("p"), names("q"), fnode(call("f", node("F", "b", names("p"), names("q")))))), nil, onnx.ErrRecursion, "a/b"),
		Entry("call each other", model(join(gnode(call("f", node("F", "a", names("x"), names("y")))), input("x", f32(1)), output("y")),
			function("F", names("p"), names("q"), fnode(call("f", node("G", "b", names("p"), names("q"))))),
			function("G", names("p"), names("q"), fnode(call("f", node("F", "c", names("p"), names("q")))))), nil, onnx.ErrRecursion, "a/b/c"),
		Entry("too many arguments", model(join(gnode(call("f", node("F", "a", names("x", "x"), names("y")))), input("x", f32(1)), output("y")),
			function("F", names("p"), names("p"))), nil, onnx.ErrSyntax, "a"),
		Entry("does not define its result", model(join(gnode(call("f", node("F", "a", names("x"), names("y")))), input("x", f32(1)), output("y")),
			function("F", names("p"), names("q"))), nil, onnx.ErrDangling, "a"),
		Entry("sees no value of its caller", model(join(gnode(call("f", node("F", "a", names("x"), names("y")))), input("x", f32(1)), output("y")),
			function("F", names("p"), names("q"), fnode(node("Relu", "r", names("x"), names("q"))))), nil, onnx.ErrDangling, "a/r"),
		Entry("defined twice", model(gname("g"), function("F", names("p"), names("q")), function("F", names("p"), names("q"))), nil, onnx.ErrDuplicate, ""),
		Entry("multiply without end", bomb(40), nil, onnx.ErrTooLarge, ""),
		Entry("multiply beyond the limit", bomb(5), &onnx.Options{MaxInlined: 20}, onnx.ErrTooLarge, ""),
		Entry("name many values and are called often", crowd(50_000, 1000), nil, onnx.ErrTooLarge, ""),
		Entry("more nodes than allowed", bomb(5), &onnx.Options{MaxNodes: 20}, onnx.ErrTooLarge, ""),
	)
})

// crowd is a model that calls a function, which gives that many values a type, that often: what names cost must not be
// multiplied by the calls.
func crowd(names, calls int) []byte {
	list := func(s string) []string { return []string{s} }
	var infos, nodes msg
	for i := range names {
		infos = infos.sub(12, msg{}.str(1, fmt.Sprint("t", i)))
	}
	for i := range calls {
		nodes = append(nodes, gnode(call("f", node("F", "", list(fmt.Sprint("v", i)), list(fmt.Sprint("v", i+1)))))...)
	}
	return model(join(nodes, input("v0", f32(1)), output(fmt.Sprint("v", calls))),
		opset("f", 1), function("F", list("p"), list("q"), fnode(node("Relu", "r", list("p"), list("q"))), infos))
}

// bomb is a model whose function of level n calls that of level n-1 twice.
func bomb(n int) []byte {
	level := func(i int) string { return string(rune('A'+i/26)) + string(rune('a'+i%26)) }
	parts := []msg{opset("f", 1), function(level(0), names("p"), names("q"), fnode(node("Relu", "r", names("p"), names("q"))))}
	for i := 1; i <= n; i++ {
		parts = append(parts, function(level(i), names("p"), names("q"),
			fnode(call("f", node(level(i-1), "l", names("p"), names("m")))), fnode(call("f", node(level(i-1), "r", names("m"), names("q"))))))
	}
	return model(join(gnode(call("f", node(level(n), "top", names("x"), names("y")))), input("x", f32(1)), output("y")), parts...)
}
