package carve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/testshare"
)

// stepping is the text of a random model of p rows that are there, one that is new, and a mask of t = p+1. Most of its nodes see neither p nor t.
func stepping(r *rand.Rand) string {
	var head, b strings.Builder
	mask := []string{"t", "p+1"}[r.IntN(2)]
	fmt.Fprintf(&head, "graph {\n  opset 17\n  input %%past: f32[p,4]\n  input %%new: f32[1,4]\n  input %%mask: f32[%s,1]\n", mask)
	head.WriteString("  " + constant("w", 4, 4) + "\n  " + constant("table", 200, 4) + "\n  const %zero = i64[]{0}\n  const %one = i64[]{1}\n  const %first = i64[1]{0}\n  const %wide = i64[2]{-1, 4}\n  const %flat = i64[1]{-1}\n  const %column = i64[2]{-1, 1}\n  const %single = i64[1]{1}\n")
	b.WriteString("  %rows0 = Concat(%past, %new; axis=0)\n  %shape = Shape(%rows0)\n  %count = Gather(%shape, %zero)\n  %counts = Unsqueeze(%count, %first)\n")
	b.WriteString("  %before = Shape(%past)\n  %some = Gather(%before, %zero)\n  %somes = Unsqueeze(%some, %first)\n")
	rows, lone := []string{"rows0"}, []string{"new"}
	any := func(list []string) string { return list[r.IntN(len(list))] }
	for i := range 4 + r.IntN(10) {
		v := fmt.Sprintf("v%d", i)
		switch r.IntN(10) {
		case 0:
			fmt.Fprintf(&b, "  %%%s = %s(%%%s)\n", v, []string{"Tanh", "Relu", "Neg"}[r.IntN(3)], any(rows))
			rows = append(rows, v)
		case 1:
			fmt.Fprintf(&b, "  %%%s = Add(%%%s, %%%s)\n", v, any(rows), any(append([]string{"mask"}, append(rows, lone...)...)))
			rows = append(rows, v)
		case 2: // attention
			fmt.Fprintf(&b, "  %%k%s = Transpose(%%%s; perm=[1, 0])\n  %%s%s = MatMul(%%%s, %%k%s)\n  %%p%s = Softmax(%%s%s; axis=1)\n  %%%s = MatMul(%%p%s, %%%s)\n", v, any(rows), v, any(lone), v, v, v, v, v, any(rows))
			lone = append(lone, v)
		case 3:
			fmt.Fprintf(&b, "  %%%s = ReduceMax(%%%s; axes=[0])\n", v, any(rows))
			lone = append(lone, v)
		case 4: // numbers that are read when it is planned, and rows of one less
			fmt.Fprintf(&b, "  %%c%s = Slice(%%%s, %%first, %%somes, %%first, %%single)\n  %%%s = Concat(%%%s, %%c%s; axis=0)\n", v, any(rows), v, any(lone), v)
			rows = append(rows, v)
		case 5: // numbers that are read when it runs
			fmt.Fprintf(&b, "  %%r%s = Range(%%zero, %%count, %%one)\n  %%f%s = Cast(%%r%s; to=1)\n  %%u%s = Reshape(%%f%s, %%column)\n  %%%s = Add(%%u%s, %%%s)\n", v, v, v, v, v, v, v, any(rows))
			rows = append(rows, v)
		case 6:
			fmt.Fprintf(&b, "  %%l%s = Reshape(%%%s, %%flat)\n  %%t%s = Sigmoid(%%l%s)\n  %%%s = Reshape(%%t%s, %%wide)\n", v, any(rows), v, v, v, v)
			rows = append(rows, v)
		case 7: // numbers that say where, and not how much
			fmt.Fprintf(&b, "  %%e%s = Slice(%%table, %%somes, %%counts, %%first, %%single)\n  %%%s = ReduceSum(%%e%s, %%first)\n", v, v, v)
			lone = append(lone, v)
		default:
			x := any(lone)
			for k := range 4 {
				fmt.Fprintf(&b, "  %%m%s_%d = MatMul(%%%s, %%w)\n  %%%s_%d = %s(%%m%s_%d)\n", v, k, x, v, k, []string{"Tanh", "Relu"}[k%2], v, k)
				x = fmt.Sprintf("%s_%d", v, k)
			}
			lone = append(lone, x)
		}
	}
	fmt.Fprintf(&b, "  %%left = Identity(%%rows0)\n  %%y = Add(%%%s, %%%s)\n  %%z = Tanh(%%%s)\n  output %%y, %%z, %%left\n}", rows[len(rows)-1], any(lone), lone[len(lone)-1])
	return head.String() + b.String()
}

// stepped are the inputs for p rows.
func stepped(seed uint64, p int) map[string]tensor.Value {
	r := rand.New(rand.NewPCG(seed, uint64(p)))
	some := func(shape ...int) *tensor.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = r.Float32()*2 - 1
		}
		return tensor.From(x, shape...)
	}
	return map[string]tensor.Value{"past": some(p, 4), "new": some(1, 4), "mask": some(p+1, 1)}
}

var _ = Describe("lengths that change from run to run", func() {
	It("give the bits of a program that has seen no other", func(ctx SpecContext) {
		compile := func(text string, o carve.Options) *carve.Program {
			g := parseGraph(text)
			m := carve.FromGraph(g)
			DeferCleanup(m.Close)
			o.Backends, o.Strict, o.Threads = []backend.Config{{Name: "cpu"}}, true, 1
			p, err := carve.Compile(ctx, m, &o)
			Expect(err).NotTo(HaveOccurred(), "%s", text)
			return p
		}
		for seed := range uint64(testshare.Of(30)) {
			r := rand.New(rand.NewPCG(seed, 15))
			text := stepping(r)
			many := compile(text, carve.Options{Verify: true, MaxSpecializations: 8})
			lengths := []int{9}
			for len(lengths) < 24 {
				last := lengths[len(lengths)-1]
				lengths = append(lengths, []int{last + 1, last + 1, last + 1, last, max(last-5, 0), last + 40, r.IntN(130)}[r.IntN(7)])
			}
			want := make([]map[string]tensor.Value, len(lengths))
			for i, p := range lengths {
				one := compile(text, carve.Options{})
				var err error
				want[i], err = one.Run(ctx, stepped(seed, p))
				Expect(err).NotTo(HaveOccurred(), "%s of %d", text, p)
				Expect(one.Close()).To(Succeed())
			}
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					defer GinkgoRecover()
					for i, p := range lengths {
						got, err := many.Run(context.WithoutCancel(ctx), stepped(seed, p))
						Expect(err).NotTo(HaveOccurred(), "%s of %d", text, p)
						for name, w := range want[i] {
							Expect(got[name].(*tensor.Tensor).Bytes()).To(Equal(w.(*tensor.Tensor).Bytes()), "%s of %d in\n%s", name, p, text)
						}
					}
				})
			}
			wg.Wait()
			Expect(many.Close()).To(Succeed())
		}
	})
})
