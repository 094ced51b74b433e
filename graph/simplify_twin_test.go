package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
)

var _ = Describe("Simplify, of twins, dead nodes and regions,", func() {
	DescribeTable("merges twins", simplifiesTo,
		Entry("a tree of them, and their constants", 13, `
  input %x: f32[2]
  const %one = f32[]{1}
  const %uno = f32[]{1}
  %a = Add(%x, %one) "a"
  %b = Add(%x, %uno) "b"
  %c = Neg(%a) "c"
  %d = Neg(%b) "d"
  %y = Mul(%c, %d) "y"
  output %y, %d
`, `
  input %x: f32[2]
  const %one = f32[]{1}
  %a: f32[2] = Add(%x, %one) "a" from("a", "b")
  %d: f32[2] = Neg(%a) "c" from("c", "d")
  %y: f32[2] = Mul(%d, %d) "y"
  output %y, %d
`, ""),
		Entry("with attributes of several kinds", 13, `
  input %x: f32[N,2]
  %s = Shape(%x) "s"
  %a = ConstantOfShape(%s; value=f32[1]{1}) "a"
  %b = ConstantOfShape(%s; value=f32[1]{1}) "b"
  %c = ConstantOfShape(%s; value=f32[1]{2}) "c"
  %f = LeakyRelu(%c; alpha=0.5) "f"
  %g = LeakyRelu(%c; alpha=0.25) "g"
  %h = ReduceMax(%f; axes=[0, 1]) "h"
  %i = ReduceMax(%f; axes=[0, 1]) "i"
  output %a, %b, %g, %h, %i
`, `
  input %x: f32[N,2]
  dims %s = i64 [N,2]
  %a: f32[N,2] = ConstantOfShape(%s; value=f32[1]{1}) "a" from("a", "b")
  %c: f32[N,2] = ConstantOfShape(%s; value=f32[1]{2}) "c"
  %f: f32[N,2] = LeakyRelu(%c; alpha=0.5) "f"
  %g: f32[N,2] = LeakyRelu(%c; alpha=0.25) "g"
  %h: f32[1,1] = ReduceMax(%f; axes=[0, 1]) "h" from("h", "i")
  output %a, %a, %g, %h, %h
`, "s:shape"),
		Entry("not where attributes, order, dtype or shape differ", 13, `
  input %x: f32[2,2]
  const %one = f32[]{1}
  const %double = f64[]{1}
  const %vector = f32[1]{1}
  %a = Softmax(%x; axis=0) "a"
  %b = Softmax(%x; axis=1) "b"
  %c = Sub(%a, %b) "c"
  %d = Sub(%b, %a) "d"
  %e = Sub(%c, %one) "e"
  %f = Sub(%d, %vector) "f"
  output %e, %f, %double
`, `
  input %x: f32[2,2]
  const %one = f32[]{1}
  const %double = f64[]{1}
  const %vector = f32[1]{1}
  %a: f32[2,2] = Softmax(%x; axis=0) "a"
  %b: f32[2,2] = Softmax(%x; axis=1) "b"
  %c: f32[2,2] = Sub(%a, %b) "c"
  %d: f32[2,2] = Sub(%b, %a) "d"
  %e: f32[2,2] = Sub(%c, %one) "e"
  %f: f32[2,2] = Sub(%d, %vector) "f"
  output %e, %f, %double
`, ""),
	)
	DescribeTable("removes the dead", simplifiesTo,
		Entry("a chain, its constants, and nodes with regions", 13, `
  input %x: f32[2]
  input %c: bool[]
  const %w = f32[]{1}
  %a = Add(%x, %w) "a"
  %b = Neg(%a) "b"
  %d = If(%c | %x) "d" {
    then_branch: graph {
      capture %x
      %t = Neg(%x) "d/t"
      output %t
    }
    else_branch: graph {
      capture %x
      %e = Abs(%x) "d/e"
      output %e
    }
  }
  %y = Neg(%x) "y"
  output %y
`, `
  input %x: f32[2]
  input %c: bool[]
  %y: f32[2] = Neg(%x) "y"
  output %y
`, "d:dead d/t:dead d/e:dead b:dead a:dead"),
	)
	DescribeTable("works in regions", simplifiesTo,
		Entry("an If whose condition folds gives way to its arm", 13, `
  input %x: f32[2]
  const %c = bool[]{true}
  %no = Not(%c) "no"
  %y = If(%no | %x) "if" {
    then_branch: graph {
      capture %x
      %t = Neg(%x) "if/t"
      output %t
    }
    else_branch: graph {
      capture %x
      %e = Abs(%x) "if/e"
      %f = Neg(%e) "if/f"
      output %f
    }
  }
  output %y
`, `
  input %x: f32[2]
  %e: f32[2] = Abs(%x) "if/e"
  %y: f32[2] = Neg(%e) "if/f"
  output %y
`, "no:constant if:forwarded if/t:dead"),
		Entry("so does one whose condition follows from open dims", 13, `
  input %x: f32[N,4]
  input %z: f32[N]
  const %i = i64[1]{0}
  %s = Shape(%x) "s"
  %n = Gather(%s, %i) "n"
  %m = Shape(%z) "m"
  %same = Equal(%n, %m) "same"
  %no = Not(%same) "no"
  %y = If(%no | %x) "if" {
    then_branch: graph {
      capture %x
      %t = Neg(%x) "if/t"
      output %t
    }
    else_branch: graph {
      capture %x
      %e = Abs(%x) "if/e"
      output %e
    }
  }
  output %y
`, `
  input %x: f32[N,4]
  input %z: f32[N]
  %y: f32[N,4] = Abs(%x) "if/e"
  output %y
`, "if:forwarded if/t:dead s:shape n:shape m:shape no:dead same:dead"),
		Entry("one whose condition compares dims that may be equal stays", 13, `
  input %x: f32[N,4]
  input %z: f32[M]
  const %i = i64[1]{0}
  %s = Shape(%x) "s"
  %n = Gather(%s, %i) "n"
  %m = Shape(%z) "m"
  %same = Equal(%n, %m) "same"
  %y = If(%same | %x) "if" {
    then_branch: graph {
      capture %x
      %t = Neg(%x) "if/t"
      output %t
    }
    else_branch: graph {
      capture %x
      %e = Abs(%x) "if/e"
      output %e
    }
  }
  output %y
`, `
  input %x: f32[N,4]
  input %z: f32[M]
  dims %n = i64 [N]
  dims %m = i64 [M]
  %same: bool[1] = Equal(%n, %m) "same"
  %y: f32[N,4] = If(%same | %x) "if" {
    then_branch: graph {
      capture %x: f32[N,4]
      %t: f32[N,4] = Neg(%x) "if/t"
      output %t
    }
    else_branch: graph {
      capture %x: f32[N,4]
      %e: f32[N,4] = Abs(%x) "if/e"
      output %e
    }
  }
  output %y
`, "s:shape n:shape m:shape"),
		Entry("captured constants are cloned in, unread and repeated captures dropped", 13, `
  input %x: f32[2]
  input %c: bool[]
  const %w = f32[]{2}
  %n = Neg(%w) "n"
  %u = Neg(%x) "u"
  %v = Neg(%x) "v"
  %y = If(%c | %x, %n, %u, %v, %c) "if" {
    then_branch: graph {
      capture %x
      capture %n
      capture %u
      capture %v
      capture %c
      %m = Neg(%n) "m"
      %s = Add(%u, %v) "s"
      %t = Mul(%s, %m) "t"
      output %t
    }
    else_branch: graph {
      capture %x
      capture %n
      capture %u
      capture %v
      capture %c
      output %u
    }
  }
  output %y
`, `
  input %x: f32[2]
  input %c: bool[]
  %u: f32[2] = Neg(%x) "u" from("u", "v")
  %y: f32[2] = If(%c | %u) "if" {
    then_branch: graph {
      capture %u: f32[2]
      const %m = f32[]{2}
      %s: f32[2] = Add(%u, %u) "s"
      %t: f32[2] = Mul(%s, %m) "t"
      output %t
    }
    else_branch: graph {
      capture %u: f32[2]
      output %u
    }
  }
  output %y
`, "n:constant m:constant"),
	)
})
