package tune_test

import (
	"math"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/measurements"
	"github.com/carve-dev/carve/internal/tune"
)

func choice() *tune.Choice {
	return &tune.Choice{Whole: "alone cuda:1", Times: map[string]float64{"abc": 1.0 / 3, "def": 7}, Points: []tune.Point{{Weight: 1,
		Runs: []tune.Run{{Whole: "alone cuda:1", Nanos: math.Pi, Noise: 0.5}, {Whole: `od"d`, Nanos: 1e18}}, At: graph.Bindings{"N": 8, "batch size": 1}}}}
}

var _ = Describe("A choice", func() {
	It("is read as it was written", func() {
		c := choice()
		Expect(tune.ParseChoice(c.Text())).To(Equal(c))
		again, err := tune.ParseChoice(c.Text())
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Text()).To(Equal(c.Text()))
	})

	It("is read as it was written of several points, and tells what is fastest over all", func() {
		run := func(a, b, c float64) []tune.Run {
			return []tune.Run{{Whole: "a", Nanos: a}, {Whole: "b", Nanos: b, Noise: b / 10}, {Whole: "c", Nanos: c}}
		}
		c := choice()
		c.Points = []tune.Point{
			{At: graph.Bindings{"N": 1}, Weight: 2, Runs: run(10, 16, 40)}, {At: graph.Bindings{"N": 9}, Weight: 0.25, Runs: run(400, 100, 40)[:2]},
		}
		Expect(tune.ParseChoice(c.Text())).To(Equal(c))
		overall := c.Overall()
		Expect(overall).To(HaveExactElements(And(HaveField("Whole", "b"), HaveField("Nanos", BeNumerically("~", 40, 1e-9)),
			HaveField("Noise", BeNumerically("~", 4, 1e-9))), HaveField("Whole", "a")), "c does not run at 9")
		Expect(c.Values("N")).To(Equal([]int64{1, 9}))
		Expect(c.SamePoints([]graph.Bindings{{"N": 1}, {"N": 9}})).To(BeTrue())
		Expect(c.SamePoints([]graph.Bindings{{"N": 1}})).To(BeFalse())
	})

	DescribeTable("holds for values that are nearer in ratio", func(low, high, last int) {
		Expect(tune.Between(int64(low), int64(high))).To(BeEquivalentTo(last))
	},
		Entry("of distant ones", 1, 9, 3), Entry("of neighbours", 4, 5, 4), Entry("of none and one", 0, 1, 0), Entry("rounded down", 8, 32, 16),
	)

	DescribeTable("is turned down", func(text string) {
		_, err := tune.ParseChoice(text)
		Expect(err).To(MatchError(measurements.ErrEntry))
	},
		Entry("empty", ""),
		Entry("without a whole", "time abc 3\n"),
		Entry("with another word", "whole \"x\"\nwhat \"x\"\n"),
		Entry("with no number", "whole \"x\"\ntime abc y\n"),
		Entry("with a time that is none", "whole \"x\"\ntime abc NaN\n"),
		Entry("with a negative time", "whole \"x\"\ntime abc -1\n"),
		Entry("with no name", "whole x\n"),
		Entry("with half a run", "whole \"x\"\nrun \"x\" 3\n"),
		Entry("with a point of no weight", "whole \"x\"\npoint \n"),
		Entry("with a point of a negative weight", "whole \"x\"\npoint -1\n"),
	)
})

// FuzzParseChoice reads any text: it is a choice that is written again and read the same, or an error.
func FuzzParseChoice(f *testing.F) {
	f.Add(choice().Text())
	f.Add("whole \"x\"\nat \"y\" -1\n")
	f.Add("whole \"x\"\nat \"y\" 1\npoint 2\nat \"y\" 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := tune.ParseChoice(text)
		if err != nil {
			return
		}
		again, err := tune.ParseChoice(c.Text())
		if err != nil || again.Text() != c.Text() {
			t.Fatalf("%q is written as %q: %v", text, c.Text(), err)
		}
	})
}
