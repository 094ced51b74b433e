package graph_test

import . "github.com/onsi/ginkgo/v2"

const mergedKeys = `
  input %q: f32[B,4,R,8]
  input %k: f32[B,4,T,8]
  input %slopes: f32[B,4,T]
  const %heads = i64[1]{4}
  const %one = i64[1]{1}
  const %size = i64[1]{8}
  const %rest = i64[1]{-1}
  const %half = f32[]{0.5}
  %b = Shape(%q; start=0, end=1) "b"
  %r = Shape(%q; start=2, end=3) "r"
  %all = Mul(%b, %heads) "all"
  %s = Concat(%all, %rest, %size; axis=0) "s"
  %t = Concat(%all, %one, %rest; axis=0) "t"
  %u = Concat(%b, %heads, %r, %rest; axis=0) "u"
  %mq = Reshape(%q, %s) "mq"
  %mk = Reshape(%k, %s) "mk"
  %bias = Reshape(%slopes, %t) "bias"
  %kt = Transpose(%mk; perm=[0, 2, 1]) "kt"
`

var _ = DescribeTable("Simplify takes batches apart that were merged for products,", simplifiesTo,
	Entry("of scores with a factor and a bias", 17, mergedKeys+`
  %p = MatMul(%mq, %kt) "p"
  %h = Mul(%p, %half) "h"
  %a = Add(%h, %bias) "a"
  %y = Reshape(%a, %u) "y"
  output %y
`, `
  input %q: f32[B,4,R,8]
  input %k: f32[B,4,T,8]
  input %slopes: f32[B,4,T]
  const %half = f32[]{0.5}
  dims $0 = i64 [B,4,1,T]
  %kt: f32[B,4,8,T] = Transpose(%k; perm=[0, 1, 3, 2]) "kt"
  %p: f32[B,4,R,T] = MatMul(%q, %kt) "p"
  %h: f32[B,4,R,T] = Mul(%p, %half) "h"
  %y: f32[B,4,R,T] = Add(%h, $1) "a"
  $1: f32[B,4,1,T] = Reshape(%slopes, $0; allowzero=1) from("bias")
  output %y
`, "b:shape r:shape all:shape s:shape t:shape u:shape y:forwarded mk:dead mq:dead"),
	Entry("of scores, softmax of rank 3 and what they weigh", 17, mergedKeys+`
  %p = MatMul(%mq, %kt) "p"
  %e = Softmax(%p; axis=2) "e"
  %m = MatMul(%e, %mk) "m"
  %y = Reshape(%m, %u) "y"
  output %y
`, `
  input %q: f32[B,4,R,8]
  input %k: f32[B,4,T,8]
  input %slopes: f32[B,4,T]
  %kt: f32[B,4,8,T] = Transpose(%k; perm=[0, 1, 3, 2]) "kt"
  %p: f32[B,4,R,T] = MatMul(%q, %kt) "p"
  %e: f32[B,4,R,T] = Softmax(%p; axis=-1) "e"
  %y: f32[B,4,R,8] = MatMul(%e, %k) "m"
  output %y
`, "b:shape r:shape all:shape s:shape t:shape u:shape y:forwarded bias:dead mk:dead mq:dead"),
	Entry("not where the product is read elsewhere", 17, mergedKeys+`
  %p = MatMul(%mq, %kt) "p"
  %h = Neg(%p) "h"
  %y = Reshape(%p, %u) "y"
  output %y
  output %h
`, `
  input %q: f32[B,4,R,8]
  input %k: f32[B,4,T,8]
  input %slopes: f32[B,4,T]
  dims %s = i64 [4*B,-1,8]
  dims %u = i64 [B,4,R,-1]
  %mq: f32[4*B,R,8] = Reshape(%q, %s) "mq"
  %mk: f32[4*B,T,8] = Reshape(%k, %s) "mk"
  %kt: f32[4*B,8,T] = Transpose(%mk; perm=[0, 2, 1]) "kt"
  %p: f32[4*B,R,T] = MatMul(%mq, %kt) "p"
  %h: f32[4*B,R,T] = Neg(%p) "h"
  %y: f32[B,4,R,T] = Reshape(%p, %u) "y"
  output %y, %h
`, "b:shape r:shape all:shape s:shape t:shape u:shape bias:dead"),
	Entry("not where an operand was never divided", 17, mergedKeys+`
  %n = Neg(%kt) "n"
  %p = MatMul(%bias, %n) "p"
  %y = Reshape(%p, %u) "y"
  output %y
`, `
  input %q: f32[B,4,R,8]
  input %k: f32[B,4,T,8]
  input %slopes: f32[B,4,T]
  dims %s = i64 [4*B,-1,8]
  dims %t = i64 [4*B,1,-1]
  dims %u = i64 [B,4,R,-1]
  %mk: f32[4*B,T,8] = Reshape(%k, %s) "mk"
  %bias: f32[4*B,1,T] = Reshape(%slopes, %t) "bias"
  %kt: f32[4*B,8,T] = Transpose(%mk; perm=[0, 2, 1]) "kt"
  %n: f32[4*B,8,T] = Neg(%kt) "n"
  %p: f32[4*B,1,T] = MatMul(%bias, %n) "p"
  %y: f32[B,4,R,floordiv(4*B*T,4*B*R)] = Reshape(%p, %u) "y"
  output %y
`, "b:shape r:shape all:shape s:shape t:shape u:shape mq:dead"),
	Entry("not where a transposition moves them", 17, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[4]{2, 3, 6, 6}
  %a = Reshape(%q, %s) "a"
  %b = Transpose(%a; perm=[1, 0, 2]) "b"
  %p = MatMul(%a, %b) "p"
  %y = Reshape(%p, %t) "y"
  output %y
`, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[4]{2, 3, 6, 6}
  %a: f32[6,6,6] = Reshape(%q, %s) "a"
  %b: f32[6,6,6] = Transpose(%a; perm=[1, 0, 2]) "b"
  %p: f32[6,6,6] = MatMul(%a, %b) "p"
  %y: f32[2,3,6,6] = Reshape(%p, %t) "y"
  output %y
`, ""),
	Entry("not behind a softmax of other dims", 17, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[4]{2, 3, 6, 6}
  %a = Reshape(%q, %s) "a"
  %b = MatMul(%a, %a) "b"
  %p = Softmax(%b; axis=1) "p"
  %y = Reshape(%p, %t) "y"
  output %y
`, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[4]{2, 3, 6, 6}
  %a: f32[6,6,6] = Reshape(%q, %s) "a"
  %b: f32[6,6,6] = MatMul(%a, %a) "b"
  %p: f32[6,6,6] = Softmax(%b; axis=1) "p"
  %y: f32[2,3,6,6] = Reshape(%p, %t) "y"
  output %y
`, ""),
	Entry("not where there is no product", 17, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[4]{2, 3, 6, 6}
  %a = Reshape(%q, %s) "a"
  %p = Neg(%a) "p"
  %y = Reshape(%p, %t) "y"
  output %y
`, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[4]{2, 3, 6, 6}
  %a: f32[6,6,6] = Reshape(%q, %s) "a"
  %p: f32[6,6,6] = Neg(%a) "p"
  %y: f32[2,3,6,6] = Reshape(%p, %t) "y"
  output %y
`, ""),
	Entry("nor gives dims of one behind the product away", 17, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[5]{2, 3, 6, 6, 1}
  %a = Reshape(%q, %s) "a"
  %p = MatMul(%a, %a) "p"
  %y = Reshape(%p, %t) "y"
  %z = Add(%y, %y) "z"
  output %z
`, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[5]{2, 3, 6, 6, 1}
  %a: f32[6,6,6] = Reshape(%q, %s) "a"
  %p: f32[6,6,6] = MatMul(%a, %a) "p"
  %y: f32[2,3,6,6,1] = Reshape(%p, %t) "y"
  %z: f32[2,3,6,6,1] = Add(%y, %y) "z"
  output %z
`, ""),
	Entry("nor divides dims of what is no batch", 17, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[4]{6, 6, 2, 3}
  %a = Reshape(%q, %s) "a"
  %p = MatMul(%a, %a) "p"
  %y = Reshape(%p, %t) "y"
  output %y
`, `
  input %q: f32[2,3,6,6]
  const %s = i64[3]{6, 6, 6}
  const %t = i64[4]{6, 6, 2, 3}
  %a: f32[6,6,6] = Reshape(%q, %s) "a"
  %p: f32[6,6,6] = MatMul(%a, %a) "p"
  %y: f32[6,6,2,3] = Reshape(%p, %t) "y"
  output %y
`, ""),
)
