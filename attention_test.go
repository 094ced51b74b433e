package carve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// attentionStep is a random attention, with a cache or without, whose lengths are open, and what its inputs are.
type attentionStep struct {
	r                        *rand.Rand
	heads, share, size, to   int
	cached                   bool
	cache                    string // the type of what is cached
	zeros                    bool   // where no key is looked at, by the scores
	flat                     bool   // batch and heads are one dim
	inputs                   []func(batch, rows, past int) (string, *tensor.Tensor)
	declared, calls, outputs strings.Builder
}

// kinds are the types of caches and other operands.
var kinds = map[string]tensor.DType{"f32": tensor.Float32, "f16": tensor.Float16, "bf16": tensor.BFloat16}

func newAttentionStep(seed uint64) *attentionStep {
	r := rand.New(rand.NewPCG(seed, 77))
	a := &attentionStep{r: r, heads: 1 + r.IntN(3), share: 1 + r.IntN(3)*r.IntN(2), size: 1 + r.IntN(20), to: 1 + r.IntN(20), cached: r.IntN(4) > 0,
		cache: []string{"f32", "f32", "f16", "bf16"}[r.IntN(4)]}
	if a.flat = seed%5 == 4; a.flat {
		a.heads, a.share = 1, 1
	}
	q := a.operand("q", a.heads*a.share, a.size, "")
	k, v := a.operand("k", a.heads, a.size, "present_k"), a.operand("v", a.heads, a.to, "present_v")
	k, v = a.repeat(k, a.size), a.repeat(v, a.to)
	a.transposeKeys(k)
	a.call("s", "MatMul(%%%s, %%%s)", a.scaled(q), a.scaled("kt"))
	a.zeros = r.IntN(3) == 0
	s, p := a.terms("s"), "p"
	a.call("p", "Softmax(%%%s; axis=%d)", s, []int{-1, a.rank() - 1}[r.IntN(2)])
	if a.zeros {
		fmt.Fprint(&a.declared, "  const %zero = f32[]{0}\n")
		a.call("nan", "IsNaN(%%p)")
		a.call("p0", "Where(%%nan, %%zero, %%p)")
		p = "p0"
	} else if r.IntN(3) == 0 {
		fmt.Fprint(&a.declared, "  const %zero = f32[]{0}\n")
		a.input("unseen", "bool", a.dims([]string{"1", "batch"}[r.IntN(2)], []string{"1", fmt.Sprint(a.heads * a.share)}[r.IntN(2)], []string{"1", "rows"}[r.IntN(2)], "1")...)
		a.call("p0", "Where(%%unseen, %%zero, %%p)")
		p = "p0"
	}
	a.call("m", "MatMul(%%%s, %%%s)", p, v)
	out := "m"
	if r.IntN(3) > 0 {
		a.call("y", "Transpose(%%m; perm=%s)", a.turned())
		out = "y"
	}
	fmt.Fprintf(&a.outputs, "  output %%%s\n", out)
	return a
}

func (a *attentionStep) call(name, format string, args ...any) {
	fmt.Fprintf(&a.calls, "  %%%s = %s\n", name, fmt.Sprintf(format, args...))
}

// rank is that of scores.
func (a *attentionStep) rank() int {
	if a.flat {
		return 3
	}
	return 4
}

// turned is the permutation that exchanges rows with heads, or with the one dim of batch and heads.
func (a *attentionStep) turned() string {
	if a.flat {
		return "[1, 0, 2]"
	}
	return "[0, 2, 1, 3]"
}

// dims are those of [batch, heads, rows, size].
func (a *attentionStep) dims(batch, heads, rows, size string) []string {
	if a.flat {
		return []string{batch, rows, size}
	}
	return []string{batch, heads, rows, size}
}

// input declares an input of float32, or of bool.
func (a *attentionStep) input(name, kind string, dims ...string) {
	fmt.Fprintf(&a.declared, "  input %%%s: %s[%s]\n", name, kind, strings.Join(dims, ","))
	a.inputs = append(a.inputs, func(batch, rows, past int) (string, *tensor.Tensor) {
		shape := make([]int, len(dims))
		for i, d := range dims {
			switch d {
			case "batch":
				shape[i] = batch
			case "rows":
				shape[i] = rows
			case "past":
				shape[i] = past
			case "past+rows":
				shape[i] = past + rows
			default:
				_, err := fmt.Sscan(d, &shape[i])
				Expect(err).NotTo(HaveOccurred())
			}
		}
		n := 1
		for _, d := range shape {
			n *= d
		}
		if kind == "bool" {
			t := tensor.From(make([]bool, n), shape...)
			for i := range t.Data {
				t.Data[i] = byte(a.r.IntN(4) / 3)
			}
			return name, t
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(a.r.NormFloat64())
		}
		t, err := tensor.Convert(tensor.From(x, shape...), kinds[kind], nil)
		Expect(err).NotTo(HaveOccurred())
		return name, t
	})
}

// operand declares queries, keys or values, by heads or with heads to be split, and what stands in front of them in a cache.
func (a *attentionStep) operand(name string, heads, size int, present string) string {
	h, n := fmt.Sprint(heads), fmt.Sprint(size)
	switch kind := a.r.IntN(3); {
	case kind == 0:
		a.input(name, "f32", a.dims("batch", h, "rows", n)...)
	case a.flat:
		a.input(name+"0", "f32", "rows", "batch", n)
		a.call(name, "Transpose(%%%s0; perm=[1, 0, 2])", name)
	case kind == 1:
		a.input(name+"0", "f32", "batch", "rows", h, n)
		a.call(name, "Transpose(%%%s0; perm=[0, 2, 1, 3])", name)
	default:
		a.input(name+"0", "f32", "batch", "rows", fmt.Sprint(heads*size))
		fmt.Fprintf(&a.declared, "  const %%%s_shape = i64[4]{0,0,%d,%d}\n", name, heads, size)
		a.call(name+"1", "Reshape(%%%s0, %%%s_shape)", name, name)
		a.call(name, "Transpose(%%%s1; perm=[0, 2, 1, 3])", name)
	}
	if present == "" || !a.cached {
		return name
	}
	a.input("past_"+name, a.cache, a.dims("batch", h, "past", n)...)
	now := name
	if a.cache != "f32" {
		now = name + "_narrow"
		a.call(now, "Cast(%%%s; to=%d)", name, kinds[a.cache])
	}
	a.call(present, "Concat(%%past_%s, %%%s; axis=%d)", name, now, a.rank()-2)
	fmt.Fprintf(&a.outputs, "  output %%%s\n", present)
	if a.cache != "f32" {
		a.call(present+"_wide", "Cast(%%%s; to=1)", present)
		return present + "_wide"
	}
	return present
}

// repeat has heads that share one of keys read it several times.
func (a *attentionStep) repeat(v string, size int) string {
	if a.share == 1 {
		return v
	}
	fmt.Fprintf(&a.declared, "  const %%%s_two = i64[1]{2}\n  const %%%s_share = i64[5]{1,1,%d,1,1}\n  const %%%s_joined = i64[4]{0,%d,-1,%d}\n", v, v, a.share, v, a.heads*a.share, size)
	a.call(v+"_5", "Unsqueeze(%%%s, %%%s_two)", v, v)
	a.call(v+"_wide", "Expand(%%%s_5, %%%s_share)", v, v)
	a.call(v+"_all", "Reshape(%%%s_wide, %%%s_joined)", v, v)
	return v + "_all"
}

// transposeKeys transposes keys, with batch and heads as they are or merged meanwhile. Keys of one number are only reshaped then.
func (a *attentionStep) transposeKeys(k string) {
	if a.flat {
		a.call("kt", "Transpose(%%%s; perm=[0, 2, 1])", k)
		return
	}
	if a.size == 1 || a.r.IntN(2) == 0 {
		a.call("kt", "Transpose(%%%s; perm=[0, 1, 3, 2])", k)
		return
	}
	fmt.Fprintf(&a.declared, "  const %%k_any = i64[1]{-1}\n  const %%k_heads = i64[3]{%d,%d,-1}\n", a.heads*a.share, a.size)
	a.call("k_rows", "Shape(%%%s; start=2)", k)
	a.call("k_merged", "Concat(%%k_any, %%k_rows; axis=0)")
	a.call("k_3", "Reshape(%%%s, %%k_merged)", k)
	a.call("k_3t", "Transpose(%%k_3; perm=[0, 2, 1])")
	a.call("k_batch", "Shape(%%%s; end=1)", k)
	a.call("k_divided", "Concat(%%k_batch, %%k_heads; axis=0)")
	a.call("kt", "Reshape(%%k_3t, %%k_divided)")
}

// scaled multiplies queries or keys by a factor, or not.
func (a *attentionStep) scaled(v string) string {
	kind := a.r.IntN(4)
	if kind < 2 {
		return v
	}
	fmt.Fprintf(&a.declared, "  const %%%s_factor = f32[]{%g}\n", v, 0.5+a.r.Float64())
	a.call(v+"_scaled", []string{"Mul(%%%s, %%%s_factor)", "Div(%%%s, %%%s_factor)"}[kind-2], v, v)
	return v + "_scaled"
}

// terms changes scores in random ways.
func (a *attentionStep) terms(s string) string {
	keys := "rows"
	if a.cached {
		keys = "past+rows"
	}
	for i := range a.r.IntN(4) {
		next := fmt.Sprintf("s%d", i)
		number := fmt.Sprintf("number%d", i)
		value := fmt.Sprint(0.5 + a.r.Float64())
		kind := a.r.IntN(6)
		if a.zeros && (kind == 2 || kind == 3) {
			value = "-inf"
		}
		fmt.Fprintf(&a.declared, "  const %%%s = f32[]{%s}\n", number, value)
		shape := a.dims([]string{"1", "batch"}[a.r.IntN(2)], []string{"1", fmt.Sprint(a.heads * a.share)}[a.r.IntN(2)],
			[]string{"1", "rows"}[a.r.IntN(2)], []string{keys, keys, "1"}[a.r.IntN(3)])
		by := fmt.Sprintf("by%d", i)
		switch kind {
		case 0:
			a.call(next, "Mul(%%%s, %%%s)", number, s)
		case 1:
			a.call(next, "Div(%%%s, %%%s)", s, number)
		case 2:
			a.input(by, "bool", shape...)
			a.call(next, "Where(%%%s, %%%s, %%%s)", by, number, s)
		case 3:
			a.input(by, "bool", shape...)
			a.call(next, "Where(%%%s, %%%s, %%%s)", by, s, number)
		case 4:
			a.input(by, "f32", shape...)
			a.call(next, "Add(%%%s, %%%s)", s, by)
		default:
			a.input(by, "f32", shape...)
			a.call(next, "Add(%%%s, %%%s)", by, s)
		}
		s = next
	}
	return s
}

func (a *attentionStep) String() string {
	return "graph {\n  opset 18\n" + a.declared.String() + a.calls.String() + a.outputs.String() + "}"
}

func (a *attentionStep) feeds(batch, rows, past int) map[string]tensor.Value {
	out := map[string]tensor.Value{}
	for _, in := range a.inputs {
		name, t := in(batch, rows, past)
		out[name] = t
	}
	return out
}

func checkAttention(ctx context.Context, seed uint64, lengths int) {
	GinkgoHelper()
	a := newAttentionStep(seed)
	m := carve.FromGraph(graphOf(a.String()))
	defer m.Close()
	var programs []*carve.Program
	set := map[string]string{}
	if seed%3 == 0 {
		set["isa"] = "portable"
	}
	for _, o := range []*carve.Options{{Backends: onReference}, {Backends: []backend.Config{{Name: "cpu", Options: set}}, Verify: true, Poison: true, Threads: 1 + int(seed%2)}} {
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred(), "seed %d\n%v", seed, a)
		defer p.Close()
		programs = append(programs, p)
	}
	batch, rows, past := 1+a.r.IntN(2), 1, a.r.IntN(4)
	for i := range lengths {
		switch a.r.IntN(8) {
		case 0:
			batch, rows, past = 1+a.r.IntN(3), []int{1, 2, 9, 70}[a.r.IntN(4)], a.r.IntN(90)
		default:
			rows, past = 1, past+rows
		}
		if !a.cached {
			past = 0
			rows = 1 + i
		}
		feeds := a.feeds(batch, rows, past)
		want, err := programs[0].Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred(), "seed %d\n%v", seed, a)
		got, err := programs[1].Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred(), "seed %d\n%v", seed, a)
		Expect(apart(got, want)).To(BeEmpty(), "seed %d: batch %d, rows %d, past %d\n%v", seed, batch, rows, past, a)
	}
	report, err := programs[1].Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(report.Groups).To(ContainElement(HaveField("Ops", ContainElement("attention"))), "seed %d\n%v", seed, a)
}

// checkFixedAttention is checkAttention for lengths that are known when the model is compiled, in every instruction set.
func checkFixedAttention(ctx context.Context, seed uint64) {
	GinkgoHelper()
	a := newAttentionStep(seed)
	batch, rows, past := 1+a.r.IntN(2), []int{1, 7, 9, 17, 49, 64, 70, 130}[a.r.IntN(8)], 0
	dims := map[string]int{"batch": batch, "rows": rows}
	if a.cached {
		past = a.r.IntN(40)
		dims["past"] = past
	}
	m := carve.FromGraph(graphOf(a.String()))
	defer m.Close()
	feeds := a.feeds(batch, rows, past)
	run := func(b []backend.Config, threads int) map[string]tensor.Value {
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: b, Dims: dims, Verify: true, Poison: true, Threads: threads})
		Expect(err).NotTo(HaveOccurred(), "seed %d\n%v", seed, a)
		defer p.Close()
		got, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred(), "seed %d\n%v", seed, a)
		if b[0].Name == "cpu" {
			report, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(report.Groups).To(ContainElement(HaveField("Ops", ContainElement("attention"))), "seed %d\n%v", seed, a)
		}
		return got
	}
	want := run(onReference, 1)
	for _, t := range isa.Targets() {
		on := []backend.Config{{Name: "cpu", Options: map[string]string{"isa": t.String()}}}
		one, two := run(on, 1), run(on, 2)
		Expect(apart(one, want)).To(BeEmpty(), "seed %d, %v: batch %d, rows %d, past %d\n%v", seed, t, batch, rows, past, a)
		Expect(two).To(Equal(one))
	}
}

var _ = Describe("attention of known lengths", func() {
	It("is one node, which gives what its operators give, for any number of threads", func(ctx SpecContext) {
		for seed := range uint64(40) {
			checkFixedAttention(ctx, 7000+seed)
		}
	})
})

// maskedElsewhere is attention whose mask has a length of its own.
const maskedElsewhere = `graph {
  opset 18
  input %q: f32[batch,2,rows,8]
  input %k: f32[batch,2,keys,8]
  input %mask: f32[batch,1,rows,total]
  %t = Transpose(%k; perm=[0, 1, 3, 2])
  %s = MatMul(%q, %t)
  %m = Add(%s, %mask)
  %p = Softmax(%m; axis=-1)
  %y = MatMul(%p, %k)
  output %y
}`

var _ = Describe("attention of open lengths", func() {
	It("is one node where a run alone tells that the mask is as long as the keys, and an error where it is not", func(ctx SpecContext) {
		m := carve.FromGraph(graphOf(maskedElsewhere))
		defer m.Close()
		p := mustCompile(ctx, m, &carve.Options{Verify: true})
		defer p.Close()
		plain := mustCompile(ctx, m, &carve.Options{Backends: onReference})
		defer plain.Close()
		report, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(report.Groups).To(ContainElement(HaveField("Ops", ContainElement("attention"))))
		for _, x := range []struct{ rows, keys, total int }{{1, 7, 7}, {3, 7, 1}, {1, 7, 5}, {2, 1, 4}, {1, 1, 1}, {3, 9, 9}} {
			feeds := map[string]tensor.Value{"q": wave(2, 2, x.rows, 8), "k": wave(2, 2, x.keys, 8), "mask": wave(2, 1, x.rows, x.total)}
			got, err := p.Run(ctx, feeds)
			if x.total != x.keys && x.total != 1 {
				Expect(err).To(HaveOccurred(), "%+v", x)
				continue
			}
			Expect(err).NotTo(HaveOccurred(), "%+v", x)
			want, err := plain.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			Expect(apart(got, want)).To(BeEmpty(), "%+v", x)
		}
	})

	It("is one node, which gives what its operators give, whatever the lengths were before", func(ctx SpecContext) {
		for seed := range uint64(60) {
			checkAttention(ctx, seed, 12)
		}
	})

	It("is one node: many", Label("soak"), func(ctx SpecContext) {
		for seed := range uint64(3000) {
			checkAttention(ctx, 100+seed, 20)
		}
	})
})

// shorterMask is the standard's attention behind a cache, whose mask has a length of its own.
const shorterMask = `graph {
  opset 24
  input %%q: f32[batch,4,rows,8]
  input %%k: f32[batch,2,rows,8]
  input %%past: f32[batch,2,past,8]
  input %%mask: %s[batch,1,rows,total]
  %%y, %%a, %%b = Attention(%%q, %%k, %%k, %%mask, %%past, %%past) "node"
  output %%y
}`

var _ = DescribeTable("the standard's Attention with a mask of a length of its own is one node of cpu, which hides what the mask has not", func(ctx SpecContext, kind string) {
	g := graphOf(fmt.Sprintf(shorterMask, kind))
	var node *graph.Node
	for n := range g.Nodes() {
		node = n
	}
	m := carve.FromGraph(graphOf(fmt.Sprintf(shorterMask, kind)))
	defer m.Close()
	p := mustCompile(ctx, m, &carve.Options{Verify: true})
	defer p.Close()
	report, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(report.Groups).To(ContainElement(HaveField("Ops", ContainElement("attention"))))
	Expect(report.Groups).NotTo(ContainElement(HaveField("Backend", "reference")))
	r := rand.New(rand.NewPCG(3, 4))
	for _, x := range []struct{ rows, past, total int }{{1, 7, 8}, {3, 4, 7}, {1, 7, 5}, {2, 1, 1}, {1, 0, 1}, {3, 9, 4}, {3, 9, 13}, {2, 0, 3}} {
		mask := wave(2, 1, x.rows, x.total)
		if kind == "bool" {
			mask = tensor.From(make([]bool, mask.Len()), mask.Shape...)
			for i := range mask.Data {
				mask.Data[i] = byte(r.IntN(2))
			}
		}
		feeds := map[string]tensor.Value{"q": wave(2, 4, x.rows, 8), "k": wave(2, 2, x.rows, 8), "past": wave(2, 2, x.past, 8), "mask": mask}
		got, err := p.Run(ctx, feeds)
		if x.total > x.rows+x.past {
			Expect(err).To(MatchError(ContainSubstring("node")), "%+v", x)
			continue
		}
		Expect(err).NotTo(HaveOccurred(), "%+v", x)
		want, err := reference.Evaluate(ctx, node, []tensor.Value{feeds["q"], feeds["k"], feeds["k"], mask, feeds["past"], feeds["past"]})
		Expect(err).NotTo(HaveOccurred(), "%+v", x)
		Expect(apart(got, map[string]tensor.Value{"y": want[0]})).To(BeEmpty(), "%+v", x)
	}
}, Entry("of floats", "f32"), Entry("of what is seen", "bool"))
