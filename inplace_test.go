package carve_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// cached is a step of decoding: a cache grows by rows, and attention reads all of it.
const cached = `graph {
  opset 18
  input %q: f32[batch,3,rows,8]
  input %k: f32[batch,3,rows,8]
  input %v: f32[batch,3,rows,8]
  input %past_k: f32[batch,3,past,8]
  input %past_v: f32[batch,3,past,8]
  %present_k = Concat(%past_k, %k; axis=2)
  %present_v = Concat(%past_v, %v; axis=2)
  %t = Transpose(%present_k; perm=[0, 1, 3, 2])
  %s = MatMul(%q, %t)
  %p = Softmax(%s; axis=-1)
  %y = MatMul(%p, %present_v)
  output %y
  output %present_k
  output %present_v
}`

// pairs are the caches of cached.
var pairs = map[string]string{"past_k": "present_k", "past_v": "present_v"}

// cachedHalf is cached with caches of half precision.
var cachedHalf = strings.NewReplacer("past_k: f32", "past_k: f16", "past_v: f32", "past_v: f16",
	"Concat(%past_k, %k; axis=2)", "Concat(%past_k, %now_k; axis=2)\n  %wide_k = Cast(%present_k; to=1)",
	"Concat(%past_v, %v; axis=2)", "Concat(%past_v, %now_v; axis=2)\n  %wide_v = Cast(%present_v; to=1)",
	"  %present_k =", "  %now_k = Cast(%k; to=10)\n  %now_v = Cast(%v; to=10)\n  %present_k =",
	"Transpose(%present_k;", "Transpose(%wide_k;", "MatMul(%p, %present_v)", "MatMul(%p, %wide_v)").Replace(cached)

// decode runs steps of rows, with the caches in tensors of most rows, and compares each with the reference kernels on compact tensors.
func decode(ctx context.Context, text string, o *carve.Options, batch, most int, steps ...int) {
	GinkgoHelper()
	m := carve.FromGraph(graphOf(text))
	defer m.Close()
	plain, err := carve.Compile(ctx, m, &carve.Options{Backends: onReference})
	Expect(err).NotTo(HaveOccurred())
	defer plain.Close()
	p, err := carve.Compile(ctx, m, o)
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	cache := func(rows int) *tensor.Tensor {
		return must(tensor.Convert(wave(batch, 3, rows, 8), p.Inputs()[3].Type.DType, nil))
	}
	room := []*tensor.Tensor{cache(most), cache(most)}
	past := 0
	feeds := map[string]tensor.Value{"past_k": cache(0), "past_v": cache(0)}
	for _, rows := range steps {
		for i, name := range []string{"q", "k", "v"} {
			x := wave(batch, 3, rows, 8)
			for j, s := 0, tensor.Of[float32](x); j < len(s); j++ {
				s[j] += float32(i*past) / 8
			}
			feeds[name] = x
		}
		want, err := plain.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		part := func(i, n int) *tensor.Tensor { return must(room[i].Slice(2, 0, n)) }
		y := wave(batch, 3, rows, 8)
		in := []*tensor.Tensor{feeds["q"].(*tensor.Tensor), feeds["k"].(*tensor.Tensor), feeds["v"].(*tensor.Tensor), part(0, past), part(1, past)}
		behind := must(must(room[0].Slice(2, past+rows, most)).Clone())
		Expect(p.RunInto(ctx, in, []*tensor.Tensor{y, part(0, past+rows), part(1, past+rows)})).To(Succeed())
		past += rows
		got := map[string]tensor.Value{"y": y, "present_k": must(part(0, past).Clone()), "present_v": must(part(1, past).Clone())}
		Expect(apart(got, want)).To(BeEmpty(), "%d rows, %d in the cache", rows, past)
		Expect(must(must(room[0].Slice(2, past, most)).Clone()).Data).To(Equal(behind.Data), "what is behind the cache stays as it is")
		feeds["past_k"], feeds["past_v"] = want["present_k"], want["present_v"]
	}
}

func compileCached(ctx context.Context, o *carve.Options) *carve.Program {
	GinkgoHelper()
	m := carve.FromGraph(graphOf(cached))
	DeferCleanup(m.Close)
	p := mustCompile(ctx, m, o)
	DeferCleanup(p.Close)
	return p
}

var _ = Describe("a cache in one place", func() {
	DescribeTable("grows where it is", func(ctx SpecContext, batch int, o *carve.Options) {
		o.InPlace = pairs
		decode(ctx, cached, o, batch, 40, 5, 1, 1, 1, 1, 1, 1, 7, 1, 1)
		decode(ctx, cachedHalf, o, batch, 40, 5, 1, 1, 1, 1, 1, 1, 7, 1, 1)
	},
		Entry("on cpu", 2, &carve.Options{Verify: true}),
		Entry("on cpu, of a batch of one", 1, &carve.Options{Poison: true}),
		Entry("on portable kernels", 2, &carve.Options{Backends: []backend.Config{{Name: "cpu", Options: map[string]string{"isa": "portable"}}}}),
		Entry("with bounds", 2, &carve.Options{Bounds: map[string]int{"past": 64, "rows": 8, "batch": 2}}),
		Entry("on the reference kernels, at the end of the run", 2, &carve.Options{Backends: onReference}),
		Entry("where every operator is a group of its own", 2, &carve.Options{Isolated: true}),
	)

	It("is not written but for what is behind it", func(ctx SpecContext) {
		p := compileCached(ctx, &carve.Options{InPlace: pairs})
		room := wave(1, 3, 9, 8)
		other := wave(1, 3, 9, 8)
		x, y := wave(1, 3, 1, 8), wave(1, 3, 1, 8)
		in := []*tensor.Tensor{x, x, x, must(room.Slice(2, 0, 8)), must(other.Slice(2, 0, 8))}
		before := slices.Clone(room.Data)
		out := []*tensor.Tensor{y, must(room.Slice(2, 0, 9)), must(other.Slice(2, 0, 9))}
		Expect(p.RunInto(ctx, in, out)).To(Succeed())
		for h := range 3 {
			Expect(room.Data[4*8*9*h : 4*8*(9*h+8)]).To(Equal(before[4*8*9*h : 4*8*(9*h+8)]))
			Expect(room.Data[4*8*(9*h+8) : 4*8*9*(h+1)]).To(Equal(x.Data[4*8*h : 4*8*(h+1)]))
		}
	})

	It("is turned down where it lies otherwise, or is not paired", func(ctx SpecContext) {
		room, x, y := wave(1, 3, 20, 8), wave(1, 3, 1, 8), wave(1, 3, 1, 8)
		run := func(o *carve.Options, past, present *tensor.Tensor) error {
			p := compileCached(ctx, o)
			return p.RunInto(ctx, []*tensor.Tensor{x, x, x, past, wave(1, 3, 4, 8)}, []*tensor.Tensor{y, present, wave(1, 3, 5, 8)})
		}
		part := func(lo, hi int) *tensor.Tensor { return must(room.Slice(2, lo, hi)) }
		Expect(run(&carve.Options{InPlace: pairs}, part(0, 4), part(0, 5))).To(Succeed())
		Expect(run(nil, part(0, 4), part(0, 5))).To(MatchError(ContainSubstring(`bad output "present_k": overlaps input past_k`)))
		Expect(run(&carve.Options{InPlace: pairs}, part(1, 5), part(0, 5))).To(MatchError(carve.ErrOutput))
		compact := *room
		compact.Shape = []int{1, 3, 4, 8}
		Expect(run(&carve.Options{InPlace: pairs}, &compact, part(0, 5))).To(MatchError(carve.ErrOutput))
	})

	DescribeTable("is checked when the model is compiled", func(ctx SpecContext, pairs map[string]string, kind error, words string) {
		m := carve.FromGraph(graphOf(cached))
		defer m.Close()
		_, err := carve.Compile(ctx, m, &carve.Options{InPlace: pairs})
		Expect(err).To(MatchError(kind))
		Expect(err).To(MatchError(ContainSubstring(words)), fmt.Sprint(err))
	},
		Entry("an unknown input", map[string]string{"passed": "present_k"}, carve.ErrInput, `"passed": the model has no such input`),
		Entry("an unknown output", map[string]string{"past_k": "presents"}, carve.ErrOutput, `"presents": the model has no such output`),
		Entry("an output in two places", map[string]string{"past_k": "present_k", "past_v": "present_k"}, carve.ErrOutput, "in the place of two inputs"),
	)

	It("has dims that differ in one axis at most", func(ctx SpecContext) {
		m := carve.FromGraph(graphOf("graph {\n  opset 18\n  input %x: f32[a,b]\n  %y = Transpose(%x)\n  output %y\n}"))
		DeferCleanup(m.Close)
		_, err := carve.Compile(ctx, m, &carve.Options{InPlace: map[string]string{"x": "y"}})
		Expect(err).To(MatchError(ContainSubstring(`bad output "y": cannot lie in the place of x`)))
	})
})

var _ = DescribeTable("a cache whose head's size the model does not tell", func(ctx SpecContext, o *carve.Options) {
	m := carve.FromGraph(graphOf(strings.ReplaceAll(cached, "past,8]", "past,size]")))
	DeferCleanup(m.Close)
	o.InPlace = pairs
	p := mustCompile(ctx, m, o)
	DeferCleanup(p.Close)
	room, x, y := []*tensor.Tensor{wave(1, 3, 20, 8), wave(1, 3, 20, 8)}, wave(1, 3, 1, 8), wave(1, 3, 1, 8)
	part := func(i, rows int) *tensor.Tensor { return must(room[i].Slice(2, 0, rows)) }
	for past := range 3 {
		Expect(p.RunInto(ctx, []*tensor.Tensor{x, x, x, part(0, past), part(1, past)}, []*tensor.Tensor{y, part(0, past+1), part(1, past+1)})).To(Succeed())
		Expect(must(must(room[1].Slice(2, past, past+1)).Clone()).Data).To(Equal(x.Data))
	}
},
	Entry("on cpu", &carve.Options{}),
	Entry("on the reference kernels", &carve.Options{Backends: onReference}),
)

// grouped is a step of decoding by GroupQueryAttention, in which mask has a column for each token so far. The length of the caches is
// their operands', where that is not less.
const grouped = `graph {
  opset 18
  opset "com.microsoft" 1
  input %%q: f32[batch,rows,16]
  input %%k: f32[batch,rows,8]
  input %%v: f32[batch,rows,8]
  input %%past_k: f32[batch,1,%[1]s,8]
  input %%past_v: f32[batch,1,%[1]s,8]
  input %%lengths: i32[batch]
  input %%mask: bool[batch,total]
  const %%at = i64[1]{1}
  %%dims = Shape(%%mask)
  %%n = Gather(%%dims, %%at)
  %%total = Cast(%%n; to=6)
  %%y, %%present_k, %%present_v = com.microsoft::GroupQueryAttention(%%q, %%k, %%v, %%past_k, %%past_v, %%lengths, %%total; num_heads=2, kv_num_heads=1)
  output %%y
  output %%present_k
  output %%present_v
}`

var _ = DescribeTable("a cache of GroupQueryAttention in one place", func(ctx SpecContext, rows string, room int, o *carve.Options) {
	const batch = 2
	m := carve.FromGraph(graphOf(fmt.Sprintf(grouped, rows)))
	defer m.Close()
	plain := mustCompile(ctx, m, &carve.Options{Backends: onReference})
	defer plain.Close()
	o.InPlace = pairs
	p := mustCompile(ctx, m, o)
	defer p.Close()
	cache := []*tensor.Tensor{wave(batch, 1, room, 8), wave(batch, 1, room, 8)}
	past := 0
	for step, n := range []int{4, 1, 1, 1, 1} {
		part := func(i, rows int) *tensor.Tensor {
			if room == 12 { // all of the cache is an operand and a result
				rows = room
			}
			return must(cache[i].Slice(2, 0, rows))
		}
		lengths := []int32{int32(past + n - 1), int32(past + n - 1)}
		if past > 0 && room == 12 {
			lengths[1]-- // the other row is a token behind
		}
		q := wave(batch, n, 16)
		in := []*tensor.Tensor{q, wave(batch, n, 8), wave(batch, n, 8), part(0, past), part(1, past), tensor.From(lengths, batch), tensor.From(make([]bool, batch*(past+n)), batch, past+n)}
		feeds := map[string]tensor.Value{}
		for i, name := range []string{"q", "k", "v", "past_k", "past_v", "lengths", "mask"} {
			feeds[name] = must(in[i].Clone())
		}
		want, err := plain.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		y := wave(batch, n, 16)
		Expect(p.RunInto(ctx, in, []*tensor.Tensor{y, part(0, past+n), part(1, past+n)})).To(Succeed())
		past += n
		got := map[string]tensor.Value{"y": y, "present_k": must(part(0, past).Clone()), "present_v": must(part(1, past).Clone())}
		Expect(apart(got, want)).To(BeEmpty(), "step %d", step)
	}
},
	Entry("grows", "past", 10, &carve.Options{Verify: true, Strict: true}),
	Entry("has room for all", "12", 12, &carve.Options{Verify: true, Strict: true}),
	Entry("has room for all, of any length", "past", 12, &carve.Options{Poison: true, Strict: true}),
	Entry("has room for all, on the reference kernels", "12", 12, &carve.Options{Backends: onReference}),
)
