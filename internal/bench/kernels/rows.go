package main

import (
	"fmt"
	"strings"
)

// alike is a task whose copies are an operator, or a few that are one unit, on operands of their own. In the texts $ stands for the number of
// the copy, and %y$ is its result.
func alike(name string, inputs, nodes []string) task {
	t := task{name: name, opset: 23, unit: true}
	for i := range copies {
		for _, x := range inputs {
			t.inputs = append(t.inputs, strings.ReplaceAll(x, "$", fmt.Sprint(i)))
		}
		for _, x := range nodes {
			t.nodes = append(t.nodes, strings.ReplaceAll(x, "$", fmt.Sprint(i)))
		}
		t.result = append(t.result, fmt.Sprintf("%%y%d", i))
	}
	return t
}

// ones is a constant vector of ones.
func ones(name string, n int) string {
	return fmt.Sprintf("const %%%s = f32[%d]{%s}", name, n, strings.TrimSuffix(strings.Repeat("1,", n), ","))
}

// overRows are operators that go over their operands a few times at most, where memory is the limit: normalisations, softmax, functions of elements and
// reductions; and attention as one unit.
func overRows() (list []task) {
	add := func(name string, inputs []string, nodes ...string) { list = append(list, alike(name, inputs, nodes)) }
	x := func(dims ...int) string {
		return fmt.Sprintf("%%x$: f32[%s]", strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", ","), "[]"))
	}
	for _, s := range [][2]int{{197, 768}, {3136, 96}, {2048, 1024}} {
		weights := []string{x(s[0], s[1]), fmt.Sprintf("%%wg$: f32[%d]", s[1]), fmt.Sprintf("%%wb$: f32[%d]", s[1])}
		add(fmt.Sprintf("LayerNorm %d×%d", s[0], s[1]), weights, "%y$ = LayerNormalization(%x$, %wg$, %wb$; axis=-1)")
		add(fmt.Sprintf("RMSNorm %d×%d", s[0], s[1]), weights[:2], "%y$ = RMSNormalization(%x$, %wg$; axis=-1)")
	}
	for _, s := range [][2]int{{64, 56}, {512, 7}, {32, 224}} {
		c := s[0]
		weights := []string{x(1, c, s[1], s[1]), fmt.Sprintf("%%wg$: f32[%d]", c), fmt.Sprintf("%%wb$: f32[%d]", c)}
		at := fmt.Sprintf("%d@%d", c, s[1])
		add("InstanceNorm "+at, weights, "%y$ = InstanceNormalization(%x$, %wg$, %wb$)")
		add("GroupNorm "+at, weights, "%y$ = GroupNormalization(%x$, %wg$, %wb$; num_groups=8)")
		list[len(list)-1].inputs = append(list[len(list)-1].inputs, ones("one", c))
		bn := alike("BatchNorm "+at, weights, []string{"%y$ = BatchNormalization(%x$, %wg$, %wb$, %wb$, %one)"})
		bn.inputs = append(bn.inputs, ones("one", c))
		list = append(list, bn)
	}
	for _, s := range [][2]int{{2364, 197}, {1536, 128}, {9408, 49}, {128, 1000}, {16, 32000}} {
		add(fmt.Sprintf("Softmax %d×%d", s[0], s[1]), []string{x(s[0], s[1])}, "%y$ = Softmax(%x$; axis=-1)")
	}
	add("LogSoftmax 128×1000", []string{x(128, 1000)}, "%y$ = LogSoftmax(%x$; axis=-1)")
	add("Softmax 21×4096, first axis", []string{x(1, 21, 64, 64)}, "%y$ = Softmax(%x$; axis=1)")
	add("Softmax 4×16×8400, inner axis", []string{x(1, 4, 16, 8400)}, "%y$ = Softmax(%x$; axis=2)")
	for _, op := range []string{"Gelu", "Erf", "Tanh", "Exp", "Sigmoid", "Relu", "Sqrt", "Softplus", "HardSwish"} {
		add(op+" 128×3072", []string{x(128, 3072)}, "%y$ = "+op+"(%x$)")
	}
	add("Gelu by Erf 128×3072", []string{x(128, 3072), "const %root$ = f32[]{1.4142135}", "const %single$ = f32[]{1}", "const %half$ = f32[]{0.5}"},
		"%a$ = Div(%x$, %root$)", "%b$ = Erf(%a$)", "%c$ = Add(%b$, %single$)", "%d$ = Mul(%x$, %c$)", "%y$ = Mul(%d$, %half$)")
	add("Silu 128×3072", []string{x(128, 3072)}, "%a$ = Sigmoid(%x$)", "%y$ = Mul(%x$, %a$)")
	add("Add 128×3072", []string{x(128, 3072), "%z$: f32[128,3072]"}, "%y$ = Add(%x$, %z$)")
	add("Add 2048×3072, row", []string{x(2048, 3072), "%z$: f32[3072]"}, "%y$ = Add(%x$, %z$)")
	for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"} {
		add(op+" 128×3072, last axis", []string{x(128, 3072), "const %axes$ = i64[1]{1}"}, "%y$ = "+op+"(%x$, %axes$; keepdims=0)")
		add(op+" 128×3072, first axis", []string{x(128, 3072), "const %axes$ = i64[1]{0}"}, "%y$ = "+op+"(%x$, %axes$; keepdims=0)")
	}
	add("ReduceMean 512×7×7, images", []string{x(8, 512, 7, 7), "const %axes$ = i64[2]{2,3}"}, "%y$ = ReduceMean(%x$, %axes$; keepdims=0)")
	for _, s := range [][3]int{{12, 128, 64}, {12, 197, 64}, {8, 1024, 64}, {3, 64, 32}} {
		t := alike(fmt.Sprintf("Attention %d of %d×%d", s[0], s[1], s[2]),
			[]string{x(1, s[0], s[1], s[2]), fmt.Sprintf("%%k$: f32[1,%d,%d,%d]", s[0], s[1], s[2]), fmt.Sprintf("%%v$: f32[1,%d,%d,%d]", s[0], s[1], s[2]), "const %by$ = f32[]{0.125}"},
			[]string{"%t$ = Transpose(%k$; perm=[0,1,3,2])", "%a$ = MatMul(%x$, %t$)", "%b$ = Mul(%a$, %by$)", "%p$ = Softmax(%b$; axis=-1)", "%y$ = MatMul(%p$, %v$)"})
		t.flops = 4 * copies * float64(s[0]*s[1]*s[1]*s[2])
		list = append(list, t)
	}
	return list
}
