package carve_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// integers is a vector.
func integers(v ...int64) *tensor.Tensor { return tensor.From(v, len(v)) }

// reals is a vector.
func reals(v ...float32) *tensor.Tensor { return tensor.From(v, len(v)) }

// runText compiles a text of operator set 17 and runs it; the first error counts.
func runText(ctx context.Context, text string, feeds map[string]tensor.Value, o *carve.Options) error {
	GinkgoHelper()
	p, err := carve.Compile(ctx, textModel("graph {\n  opset 17\n"+text+"\n}"), o)
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = p.Run(ctx, feeds)
	return err
}

// suppression chooses among two boxes that lie apart.
const suppression = "  input %k: i64[K]\n  input %i: f32[I]\n  input %t: f32[T]\n  const %b = f32[1,2,4]{0, 0, 1, 1, 2, 2, 3, 3}\n  const %c = f32[1,1,2]{0.5, 0.25}\n" +
	"  %chosen = NonMaxSuppression(%b, %c, %k, %i, %t) \"bad\"\n  %y = Cast(%chosen; to=1)"

// operands are calls whose operands contradict each other, for data that only a run knows: the lines before, the call that
// makes %y of %x, which is f32[2,3] or what a Reshape by %s makes of it, and the data.
var operands = []struct {
	what  string
	call  string
	feeds map[string]tensor.Value
	node  string // that the error names
}{
	{"a Reshape with two -1", "  input %s: i64[2]\n  %y = Reshape(%x, %s) \"bad\"", map[string]tensor.Value{"s": integers(-1, -1)}, "bad"},
	{"a Reshape with -2", "  input %s: i64[2]\n  %y = Reshape(%x, %s) \"bad\"", map[string]tensor.Value{"s": integers(-2, -3)}, "bad"},
	{"a Reshape to more elements", "  input %s: i64[2]\n  %y = Reshape(%x, %s) \"bad\"", map[string]tensor.Value{"s": integers(7, 7)}, "bad"},
	{"a Reshape whose -1 does not divide", "  input %s: i64[2]\n  %y = Reshape(%x, %s) \"bad\"", map[string]tensor.Value{"s": integers(4, -1)}, "bad"},
	{"a Reshape that copies a dim that is not there", "  input %s: i64[3]\n  %y = Reshape(%x, %s) \"bad\"", map[string]tensor.Value{"s": integers(2, 3, 0)}, "bad"},
	{"a Reshape to dims that overflow", "  input %s: i64[3]\n  %y = Reshape(%x, %s) \"bad\"", map[string]tensor.Value{"s": integers(1<<62, 1<<62, 6)}, "bad"},
	{"the first of two Reshapes in a row", "  input %s: i64[2]\n  input %t: i64[1]\n  %a = Reshape(%x, %s) \"bad\"\n  %y = Reshape(%a, %t) \"good\"",
		map[string]tensor.Value{"s": integers(7, 7), "t": integers(6)}, "bad"},
	{"the first of two Reshapes in a row, the second to a constant shape", "  input %s: i64[2]\n  const %t = i64[1]{-1}\n  %a = Reshape(%x, %s) \"bad\"\n  %y = Reshape(%a, %t) \"good\"",
		map[string]tensor.Value{"s": integers(-1, -1)}, "bad"},
	{"the second of two Reshapes in a row", "  input %s: i64[2]\n  input %t: i64[1]\n  %a = Reshape(%x, %s) \"good\"\n  %y = Reshape(%a, %t) \"bad\"",
		map[string]tensor.Value{"s": integers(3, 2), "t": integers(7)}, "bad"},
	{"a Transpose with a negative axis", "  input %s: i64[K]\n  %a = Reshape(%x, %s) \"good\"\n  %y = Transpose(%a; perm=[-1,0]) \"bad\"",
		map[string]tensor.Value{"s": integers(3, 2)}, "bad"},
	{"a Transpose of another rank", "  input %s: i64[K]\n  %a = Reshape(%x, %s) \"good\"\n  %y = Transpose(%a; perm=[1,0,2]) \"bad\"",
		map[string]tensor.Value{"s": integers(3, 2)}, "bad"},
	{"a Transpose that names an axis twice", "  input %s: i64[K]\n  %a = Reshape(%x, %s) \"good\"\n  %y = Transpose(%a; perm=[1,1]) \"bad\"",
		map[string]tensor.Value{"s": integers(3, 2)}, "bad"},
	{"a Split into more than there is", "  input %s: i64[2]\n  %y, %z = Split(%x, %s; axis=1) \"bad\"", map[string]tensor.Value{"s": integers(2, 2)}, "bad"},
	{"a Split into less than there is", "  input %s: i64[2]\n  %y, %z = Split(%x, %s; axis=1) \"bad\"", map[string]tensor.Value{"s": integers(1, 1)}, "bad"},
	{"a Split into a negative part", "  input %s: i64[2]\n  %y, %z = Split(%x, %s; axis=1) \"bad\"", map[string]tensor.Value{"s": integers(5, -2)}, "bad"},
	{"a Split into more parts than results", "  input %s: i64[K]\n  %y, %z = Split(%x, %s; axis=1) \"bad\"", map[string]tensor.Value{"s": integers(1, 1, 1)}, "bad"},
	{"a Split along an axis that is not there", "  input %s: i64[K]\n  %a = Reshape(%x, %s) \"good\"\n  const %p = i64[2]{1, 2}\n  %y, %z = Split(%a, %p; axis=1) \"bad\"",
		map[string]tensor.Value{"s": integers(6)}, "bad"},
	{"a ScatterND with updates of another shape", "  input %i: i64[1,1]\n  input %u: f32[A,B]\n  %y = ScatterND(%x, %i, %u) \"bad\"",
		map[string]tensor.Value{"i": tensor.From([]int64{1}, 1, 1), "u": wave(2, 3)}, "bad"},
	{"a ScatterND with an index of too many axes", "  input %i: i64[1,K]\n  input %u: f32[A]\n  %y = ScatterND(%x, %i, %u) \"bad\"",
		map[string]tensor.Value{"i": tensor.From([]int64{0, 0, 0}, 1, 3), "u": wave(1)}, "bad"},
	{"a ScatterElements with updates of another shape", "  input %i: i64[1,3]\n  input %u: f32[A,B]\n  %y = ScatterElements(%x, %i, %u) \"bad\"",
		map[string]tensor.Value{"i": tensor.From([]int64{0, 0, 0}, 1, 3), "u": wave(2, 3)}, "bad"},
	{"a NonMaxSuppression of no number of boxes", suppression, map[string]tensor.Value{"k": integers(), "i": reals(0.5), "t": reals(0)}, "bad"},
	{"a NonMaxSuppression of two numbers of boxes", suppression, map[string]tensor.Value{"k": integers(1, 2), "i": reals(0.5), "t": reals(0)}, "bad"},
	{"a NonMaxSuppression of two parts of a union", suppression, map[string]tensor.Value{"k": integers(1), "i": reals(0.5, 0.25), "t": reals(0)}, "bad"},
	{"a NonMaxSuppression of no least score", suppression, map[string]tensor.Value{"k": integers(1), "i": reals(0.5), "t": reals()}, "bad"},
	{"a NonMaxSuppression of two least scores", suppression, map[string]tensor.Value{"k": integers(1), "i": reals(0.5), "t": reals(0, 1)}, "bad"},
}

var _ = Describe("operands that contradict each other, which only a run knows", func() {
	readers := map[string]string{
		"an output":                     "  output %y",
		"read by an operator":           "  %e = Exp(%y)\n  output %e",
		"asked for its shape alone":     "  %n = Shape(%y)\n  output %n",
		"asked for its size alone":      "  %n = Size(%y)\n  output %n",
		"asked for its shape and moved": "  %n = Shape(%y)\n  %m = ReduceProd(%n; keepdims=0)\n  output %m",
	}
	for name, list := range map[string][]backend.Config{"by default": nil, "on cpu": {{Name: "cpu"}}, "on reference": onReference} {
		It("are errors that name the node, "+name, func(ctx SpecContext) {
			var wrong []string
			for _, c := range operands {
				feeds := map[string]tensor.Value{"x": wave(2, 3)}
				for k, v := range c.feeds {
					feeds[k] = v
				}
				for how, tail := range readers {
					err := runText(ctx, "  input %x: f32[2,3]\n"+c.call+"\n"+tail, feeds, &carve.Options{Backends: list})
					switch {
					case err == nil:
						wrong = append(wrong, c.what+", "+how)
					case !strings.Contains(err.Error(), `"`+c.node+`"`) || strings.Contains(err.Error(), "panic") || strings.Contains(err.Error(), "internal error"):
						wrong = append(wrong, c.what+", "+how+": "+err.Error())
					}
				}
			}
			Expect(wrong).To(BeEmpty(), strings.Join(wrong, "\n"))
		})
	}
})

var _ = Describe("a node whose first result is omitted", func() {
	It("is no part of what is fused behind others", func(ctx SpecContext) {
		m := textModel(`graph {
  opset 14
  input %x: f32[3,2,4]
  input %w: f32[1,5,6]
  input %r: f32[1,5,5]
  const %k = f32[4,6]{-3, 1, 2, 0, 1, 4, 2, -2, 1, 3, 0, 1, 1, 1, -1, 2, 0, 3, 2, 2, 1, 0, -4, 1}
  %p = MatMul(%x, %k)
  _, %h = RNN(%p, %w, %r; hidden_size=5)
  output %h
}`)
		feeds := map[string]tensor.Value{"x": wave(3, 2, 4), "w": wave(1, 5, 6), "r": wave(1, 5, 5)}
		got, err := compile(ctx, m, &carve.Options{Verify: true}).Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		near(got["h"], referenceOutputs(ctx, m, feeds)["h"])
	})
})

var _ = Describe("a node whose result nobody needs", func() {
	// The Gather is removed, or only its shape is asked for, which no index decides.
	const gather = "  input %x: f32[2,3]\n  input %i: i64[1]\n  %y = Gather(%x, %i) \"bad\"\n"

	It("is not run: data that are wrong for it are no error", func(ctx SpecContext) {
		feeds := map[string]tensor.Value{"x": wave(2, 3), "i": integers(7)}
		for _, o := range []*carve.Options{nil, {Backends: onReference}} {
			Expect(runText(ctx, gather+"  %z = Exp(%x)\n  output %z", feeds, o)).To(Succeed())
			Expect(runText(ctx, gather+"  %z = Shape(%y)\n  output %z", feeds, o)).To(Succeed())
			Expect(runText(ctx, gather+"  %z = Exp(%y)\n  output %z", feeds, o)).To(MatchError(backend.ErrRange))
		}
	})

	It("is an error where the model contradicts itself", func(ctx SpecContext) {
		for _, o := range []*carve.Options{nil, {Backends: onReference}} {
			err := runText(ctx, "  input %x: f32[2,3]\n  const %s = i64[2]{-1, -1}\n  %y = Reshape(%x, %s) \"bad\"\n  %z = Exp(%x)\n  output %z",
				map[string]tensor.Value{"x": wave(2, 3)}, o)
			Expect(err).To(MatchError(ContainSubstring(`"bad"`)))
		}
	})
})
