package carve_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

const listed = `graph {
  opset 17
  input %%x: f32[N]
  input %%m: i64[]
  const %%c = bool[]{true}
  const %%zero = i64[]{0}
  const %%last = i64[]{-1}
  %%start = SequenceConstruct(%%x) "make"
  %%a, %%b, %%d, %%s = Loop(%%m, %%c, %%start, %%start, %%start | %%x, %%zero, %%last) "lists" {
    body: graph {
      input %%i: i64[]
      input %%k: bool[]
      input %%a0: seq(f32[?])
      input %%b0: seq(f32[?])
      input %%d0: seq(f32[?])
      capture %%x: f32[N]
      capture %%zero: i64[]
      capture %%last: i64[]
      %%f = Cast(%%i; to=1)
      %%t = Add(%%x, %%f)
%s      %%l = Identity(%%k)
      output %%l, %%%s, %%%s, %%%s, %%%s
    }
  }
  output %%a, %%b, %%d, %%s
}`

// playLists writes a loop that works on three lists, which begin with x, in a random way. It returns what the lists are after so many iterations,
// and what the loop stacks.
func playLists(seed uint64, trips int, x []float32) (text string, want [3][][]float32, stacked [][]float32) {
	rng := rand.New(rand.NewPCG(seed, 29))
	type list struct {
		name string
		is   func(lists [3][][]float32, it int) [][]float32
	}
	var body strings.Builder
	lists := make([]list, 3)
	for k := range lists {
		lists[k] = list{fmt.Sprintf("%c0", "abd"[k]), func(l [3][][]float32, _ int) [][]float32 { return l[k] }}
	}
	added := func(it int) []float32 {
		t := slices.Clone(x)
		for i := range t {
			t[i] += float32(it)
		}
		return t
	}
	for k := range 1 + rng.IntN(5) {
		from, name := lists[rng.IntN(len(lists))], fmt.Sprint("s", k)
		to := list{name: name}
		switch rng.IntN(4) {
		case 0:
			fmt.Fprintf(&body, "      %%%s = SequenceInsert(%%%s, %%t, %%zero)\n", name, from.name)
			to.is = func(l [3][][]float32, it int) [][]float32 { return append([][]float32{added(it)}, from.is(l, it)...) }
		case 1:
			fmt.Fprintf(&body, "      %%%s = SequenceErase(%%%s, %%zero)\n      %%%sm = SequenceInsert(%%%s, %%t)\n", name, from.name, name, name)
			to.name += "m"
			to.is = func(l [3][][]float32, it int) [][]float32 {
				return append(slices.Clone(from.is(l, it)[1:]), added(it))
			}
		default:
			fmt.Fprintf(&body, "      %%%s = SequenceInsert(%%%s, %%t)\n", name, from.name)
			to.is = func(l [3][][]float32, it int) [][]float32 { return append(slices.Clone(from.is(l, it)), added(it)) }
		}
		lists = append(lists, to)
	}
	out := [3]list{}
	for k := range out {
		out[k] = lists[rng.IntN(len(lists))]
	}
	at, of := rng.IntN(2), lists[rng.IntN(len(lists))] // of one item from either end
	place := []string{"zero", "last"}[at]
	fmt.Fprintf(&body, "      %%n = SequenceLength(%%%s)\n", of.name)
	fmt.Fprintf(&body, "      %%item = SequenceAt(%%%s, %%%s)\n      %%sum = Add(%%item, %%item)\n      %%fn = Cast(%%n; to=1)\n      %%twice = Add(%%sum, %%fn)\n", of.name, place)
	text = fmt.Sprintf(listed, body.String(), out[0].name, out[1].name, out[2].name, "twice")
	state := [3][][]float32{{x}, {x}, {x}}
	for it := range trips {
		l := of.is(state, it)
		item := slices.Clone(l[[]int{0, len(l) - 1}[at]])
		for i := range item {
			item[i] = 2*item[i] + float32(len(l))
		}
		stacked = append(stacked, item)
		state = [3][][]float32{out[0].is(state, it), out[1].is(state, it), out[2].is(state, it)}
	}
	return text, state, stacked
}

var _ = Describe("lists in loops", func() {
	It("are what is inserted, erased and read, wherever else they are carried to", func(ctx SpecContext) {
		rng := rand.New(rand.NewPCG(31, 37))
		for seed := range uint64(60) {
			trips, x := rng.IntN(12), make([]float32, 1+rng.IntN(70))
			for i := range x {
				x[i] = float32(i) / 2
			}
			text, want, stacked := playLists(seed, trips, x)
			for _, name := range []string{"cpu", "reference"} {
				p := compile(ctx, textModel(text), &carve.Options{Backends: []backend.Config{{Name: name}}})
				var out map[string]tensor.Value
				for range 2 { // the second run is in a frame that has run
					var err error
					out, err = p.Run(ctx, map[string]tensor.Value{"x": tensor.From(x), "m": tensor.Scalar(int64(trips))})
					Expect(err).NotTo(HaveOccurred(), text)
				}
				for k := range want {
					items := out[string("abd"[k])].(*tensor.Sequence).Items
					Expect(items).To(HaveLen(len(want[k])), "seed %d, %s, list %d of\n%s", seed, name, k, text)
					for i, item := range items {
						Expect(tensor.Of[float32](item.(*tensor.Tensor))).To(Equal(want[k][i]), "seed %d, %s, list %d, item %d of\n%s", seed, name, k, i, text)
					}
				}
				Expect(tensor.Of[float32](out["s"].(*tensor.Tensor))).To(BeComparableTo(slices.Concat(stacked...), cmpopts.EquateEmpty()), "seed %d, %s:\n%s", seed, name, text)
			}
		}
	})
})
