package graph_test

import . "github.com/onsi/ginkgo/v2"

var _ = Describe("Simplify, of what does nothing,", func() {
	DescribeTable("removes what does nothing", simplifiesTo,
		Entry("Identity between others", 13, `
  input %x: f32[2]
  %a = Neg(%x) "a"
  %b = Identity(%a) "b"
  %y = Neg(%b) "y"
  output %y
`, `
  input %x: f32[2]
  %a: f32[2] = Neg(%x) "a"
  %y: f32[2] = Neg(%a) "y"
  output %y
`, "b:forwarded"),
		Entry("Identity of an input", 13, `
  input %x: f32[2]
  %y = Identity(%x) "y"
  output %y
`, `
  input %x: f32[2]
  output %x
`, "y:forwarded"),
		Entry("an output's name stays with an inner value", 13, `
  input %x: f32[2]
  %a = Neg(%x) "a"
  %y = Identity(%a) "b"
  output %y
`, `
  input %x: f32[2]
  %y: f32[2] = Neg(%x) "a"
  output %y
`, "b:forwarded"),
		Entry("many of them", 13, `
  input %x: f32[2,3]
  const %no = bool[]{false}
  const %ratio = f32[]{0.5}
  const %shape = i64[2]{2, 3}
  const %pads = i64[4]{0, 0, 0, 0}
  const %ones = i64[2]{1, 1}
  const %starts = i64[1]{0}
  const %ends = i64[1]{9}
  const %axes = i64[1]{1}
  %a = Neg(%x) "a"
  %b = Dropout(%a, %ratio, %no) "b"
  %c = Cast(%b; to=1) "c"
  %d = Transpose(%c; perm=[0, 1]) "d"
  %e = Reshape(%d, %shape) "e"
  %f = Pad(%e, %pads) "f"
  %g = Tile(%f, %ones) "g"
  %h = Expand(%g, %ones) "h"
  %i = Slice(%h, %starts, %ends, %axes) "i"
  %j = Concat(%i; axis=0) "j"
  %k = Sum(%j) "k"
  %l = Flatten(%k; axis=1) "l"
  output %l
`, `
  input %x: f32[2,3]
  %l: f32[2,3] = Neg(%x) "a"
  output %l
`, "b:forwarded c:forwarded d:forwarded e:forwarded f:forwarded g:forwarded h:forwarded i:forwarded j:forwarded k:forwarded l:forwarded"),
		Entry("neutral elements that are exact", 13, `
  input %x: f32[2]
  input %i: i64[2]
  const %minus = f32[]{-0}
  const %zero = f32[2]{0, 0}
  const %one = f32[1]{1}
  const %int = i64[]{0}
  %a = Add(%minus, %x) "a"
  %b = Sub(%a, %zero) "b"
  %c = Mul(%one, %b) "c"
  %d = Div(%c, %one) "d"
  %e = Pow(%d, %one) "e"
  %y = Neg(%e) "y"
  %f = Add(%i, %int) "f"
  %z = Neg(%f) "z"
  output %y, %z
`, `
  input %x: f32[2]
  input %i: i64[2]
  %y: f32[2] = Neg(%x) "y"
  %z: i64[2] = Neg(%i) "z"
  output %y, %z
`, "a:forwarded b:forwarded c:forwarded d:forwarded e:forwarded f:forwarded"),
		Entry("casts and pads of other forms", 10, `
  input %x: f32[2]
  input %u: u8[2]
  const %zero = u8[2]{0, 0}
  %a = Pad(%x; pads=[0, 0]) "a"
  %b = Pad(%a; pads=[0, 1]) "b"
  %c = Cast(%b; to=11) "c"
  %d = CastLike/15(%c, %c) "d"
  %e = CastLike/15(%d, %x) "e"
  %f = BitShift/11(%u, %zero; direction="LEFT") "f"
  %g = Cast(%f; to=1) "g"
  output %e, %g
`, `
  input %x: f32[2]
  input %u: u8[2]
  %b: f32[3] = Pad(%x; pads=[0, 1]) "b"
  %c: f64[3] = Cast(%b; to=11) "c"
  %e: f32[3] = CastLike/15(%c, %x) "e"
  %g: f32[2] = Cast(%u; to=1) "g"
  output %e, %g
`, "a:forwarded d:forwarded f:forwarded"),
		Entry("not those that are inexact or change the shape", 13, `
  input %x: f32[2]
  const %zero = f32[]{0}
  const %one = f32[1,1]{1}
  %a = Add(%x, %zero) "a"
  %b = Mul(%a, %one) "b"
  %c = Sub(%zero, %x) "c"
  output %b, %c
`, `
  input %x: f32[2]
  const %zero = f32[]{0}
  const %one = f32[1,1]{1}
  %a: f32[2] = Add(%x, %zero) "a"
  %b: f32[1,2] = Mul(%a, %one) "b"
  %c: f32[2] = Sub(%zero, %x) "c"
  output %b, %c
`, ""),
		Entry("Dropout in training that drops nothing", 13, `
  input %x: f32[2]
  const %t = bool[]{true}
  const %ratio = f32[]{0}
  %a = Neg(%x) "a"
  %b, %m = Dropout(%a, %ratio, %t) "b"
  output %b
`, `
  input %x: f32[2]
  %b: f32[2] = Neg(%x) "a"
  output %b
`, "b:forwarded"),
		Entry("nor Dropout in training, with its mask read, or a slice backwards", 13, `
  input %x: f32[2]
  input %t: bool[]
  const %starts = i64[1]{-1}
  const %ends = i64[1]{-9}
  const %axes = i64[1]{0}
  const %steps = i64[1]{-1}
  %a = Dropout(%x, _, %t) "a"
  %b, %m = Dropout(%a) "b"
  %c = Slice(%b, %starts, %ends, %axes, %steps) "c"
  %d = Transpose(%c) "d"
  output %d, %m
`, `
  input %x: f32[2]
  input %t: bool[]
  const %starts = i64[1]{-1}
  const %ends = i64[1]{-9}
  const %axes = i64[1]{0}
  %a: f32[2] = Dropout(%x, _, %t) "a"
  %b: f32[2], %m: bool[2] = Dropout(%a) "b"
  %d: f32[2] = Slice(%b, %starts, %ends, %axes, %starts) "c"
  output %d, %m
`, "d:forwarded"),
	)
	DescribeTable("merges views", simplifiesTo,
		Entry("transpositions", 13, `
  input %x: f32[2,3,4]
  %a = Transpose(%x; perm=[1, 2, 0]) "a"
  %b = Transpose(%a) "b"
  output %b
`, `
  input %x: f32[2,3,4]
  %b: f32[2,4,3] = Transpose(%x; perm=[0, 2, 1]) "b" from("a", "b")
  output %b
`, ""),
		Entry("reshapes that undo each other, whatever the symbols are, and where what lies between is read", 14, `
  input %x: f32[N,S,8,16]
  const %joined = i64[3]{0, 0, 128}
  const %split = i64[4]{0, 0, 8, 16}
  const %other = i64[4]{0, 0, 16, 8}
  %n = Neg(%x) "n"
  %a = Reshape(%n, %joined) "a"
  %b = Reshape(%a, %split) "b"
  %c = Reshape(%a, %other) "c"
  %y = Neg(%b) "y"
  output %a, %y, %c
`, `
  input %x: f32[N,S,8,16]
  const %joined = i64[3]{0, 0, 128}
  const %other = i64[4]{0, 0, 16, 8}
  %n: f32[N,S,8,16] = Neg(%x) "n"
  %a: f32[N,S,128] = Reshape(%n, %joined) "a"
  %c: f32[N,S,16,8] = Reshape(%a, %other) "c"
  %y: f32[N,S,8,16] = Neg(%n) "y"
  output %a, %y, %c
`, "b:forwarded"),
		Entry("transpositions that undo each other", 13, `
  input %x: f32[2,3,4]
  %n = Neg(%x) "n"
  %a = Transpose(%n; perm=[1, 2, 0]) "a"
  %b = Transpose(%a; perm=[2, 0, 1]) "b"
  %y = Neg(%b) "y"
  output %y
`, `
  input %x: f32[2,3,4]
  %n: f32[2,3,4] = Neg(%x) "n"
  %y: f32[2,3,4] = Neg(%n) "y"
  output %y
`, "a:forwarded b:forwarded"),
		Entry("reshapes", 13, `
  input %x: f32[N,3,4]
  const %s = i64[2]{-1, 12}
  const %t = i64[3]{4, -1, 3}
  %a = Reshape(%x, %s) "a"
  %b = Reshape(%a, %t) "b"
  output %b
`, `
  input %x: f32[N,3,4]
  const %t = i64[3]{4, -1, 3}
  %b: f32[4,N,3] = Reshape(%x, %t) "b" from("a", "b")
  output %b
`, ""),
		Entry("not a reshape whose 0 copies what lies between", 13, `
  input %x: f32[N,3,4]
  const %s = i64[2]{-1, 12}
  const %t = i64[2]{0, -1}
  %a = Reshape(%x, %s) "a"
  %b = Reshape(%a, %t) "b"
  output %b
`, `
  input %x: f32[N,3,4]
  const %s = i64[2]{-1, 12}
  %b: f32[N,12] = Reshape(%x, %s) "a"
  output %b
`, "b:forwarded"),
		Entry("reshapes around a transposition, of which the second divides what the first has merged", 13, `
  input %x: f32[2,3,4,5]
  const %s = i64[3]{6, 4, 5}
  const %t = i64[4]{2, 3, 5, 4}
  %a = Reshape(%x, %s) "a"
  %b = Transpose(%a; perm=[0, 2, 1]) "b"
  %c = Reshape(%b, %t) "c"
  output %c
`, `
  input %x: f32[2,3,4,5]
  %c: f32[2,3,5,4] = Transpose(%x; perm=[0, 1, 3, 2]) "b"
  output %c
`, "c:forwarded a:dead"),
		Entry("of which the second divides in another way, and adds a dim", 15, `
  input %x: f32[B,2,4,R,8]
  const %heads = i64[3]{1, 8, 8}
  const %rows = i64[1]{-1}
  const %eight = i64[1]{8}
  %d = Shape(%x; start=3, end=4) "d"
  %s = Concat(%rows, %d, %eight; axis=0) "s"
  %a = Reshape(%x, %s) "a"
  %b = Transpose(%a; perm=[0, 2, 1]) "b"
  %e = Shape(%x; start=0, end=1) "e"
  %t = Concat(%e, %heads, %rows; axis=0) "t"
  %c = Reshape(%b, %t) "c"
  output %c
`, `
  input %x: f32[B,2,4,R,8]
  dims $0 = i64 [B,1,8,R,8]
  %c: f32[B,1,8,8,R] = Transpose(%b; perm=[0, 1, 2, 4, 3]) "b"
  %b: f32[B,1,8,R,8] = Reshape(%x, $0; allowzero=1) "c" from("a", "c")
  output %c
`, "d:shape s:shape e:shape t:shape"),
		Entry("not around one whose dims the second merges", 13, `
  input %x: f32[2,3,4,5]
  const %s = i64[5]{2, 3, 2, 2, 5}
  const %t = i64[4]{2, 6, 2, 5}
  %a = Reshape(%x, %s) "a"
  %b = Transpose(%a; perm=[0, 3, 1, 2, 4]) "b"
  %c = Reshape(%b, %t) "c"
  output %c
`, `
  input %x: f32[2,3,4,5]
  const %s = i64[5]{2, 3, 2, 2, 5}
  const %t = i64[4]{2, 6, 2, 5}
  %a: f32[2,3,2,2,5] = Reshape(%x, %s) "a"
  %b: f32[2,2,3,2,5] = Transpose(%a; perm=[0, 3, 1, 2, 4]) "b"
  %c: f32[2,6,2,5] = Reshape(%b, %t) "c"
  output %c
`, ""),
		Entry("not what others read", 13, `
  input %x: f32[2,3,4]
  %a = Transpose(%x; perm=[1, 2, 0]) "a"
  %b = Transpose(%a) "b"
  output %b, %a
`, `
  input %x: f32[2,3,4]
  %a: f32[3,4,2] = Transpose(%x; perm=[1, 2, 0]) "a"
  %b: f32[2,4,3] = Transpose(%a) "b"
  output %b, %a
`, ""),
	)
})

var _ = Describe("Simplify, of what exporters write around the operands they mean,", func() {
	DescribeTable("reads these", simplifiesTo,
		Entry("where all is scattered over, in order", 18, `
  input %x: f32[2,2,3]
  input %u: f32[2,2,3]
  const %i = i64[2,2,2]{0, 0, 0, 1, 1, 0, 1, 1}
  %s = ScatterND(%x, %i, %u) "s"
  %y = Relu(%s) "y"
  output %y
`, `
  input %x: f32[2,2,3]
  input %u: f32[2,2,3]
  %y: f32[2,2,3] = Relu(%u) "y"
  output %y
`, "s:forwarded"),
		Entry("but not where a part is, or in another order, or added", 18, `
  input %x: f32[3,2]
  input %u: f32[2,2]
  input %v: f32[3,2]
  const %i = i64[2,1]{1, 2}
  const %j = i64[3,1]{2, 1, 0}
  const %k = i64[3,1]{0, 1, 2}
  %a = ScatterND(%x, %i, %u) "a"
  %b = ScatterND(%x, %j, %v) "b"
  %c = ScatterND(%x, %k, %v; reduction="add") "c"
  output %a
  output %b
  output %c
`, `
  input %x: f32[3,2]
  input %u: f32[2,2]
  input %v: f32[3,2]
  const %i = i64[2,1]{1, 2}
  const %j = i64[3,1]{2, 1, 0}
  const %k = i64[3,1]{0, 1, 2}
  %a: f32[3,2] = ScatterND(%x, %i, %u) "a"
  %b: f32[3,2] = ScatterND(%x, %j, %v) "b"
  %c: f32[3,2] = ScatterND(%x, %k, %v; reduction="add") "c"
  output %a, %b, %c
`, ""),
		Entry("where one is repeated that is broadcast anyway, unless it is what others are broadcast to", 18, `
  input %x: f32[N,4]
  const %shape = i64[2]{1, 4}
  const %axes = i64[1]{-1}
  %n = ReduceSum(%x, %axes) "n"
  %e = Expand(%n, %shape) "e"
  %y = Div(%x, %e) "y"
  %z = Add(%e, %e) "z"
  %p = PRelu(%e, %x) "p"
  output %y
  output %z
  output %p
`, `
  input %x: f32[N,4]
  const %shape = i64[2]{1, 4}
  const %axes = i64[1]{-1}
  %n: f32[N,1] = ReduceSum(%x, %axes) "n"
  %e: f32[N,4] = Expand(%n, %shape) "e"
  %y: f32[N,4] = Div(%x, %n) "y"
  %z: f32[N,4] = Add(%e, %e) "z"
  %p: f32[N,4] = PRelu(%e, %x) "p"
  output %y, %z, %p
`, ""),
	)
})
