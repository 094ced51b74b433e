package tune_test

import (
	"math"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/measurements"
	"github.com/carve-dev/carve/internal/tune"
)

func choice() *tune.Choice {
	return &tune.Choice{Whole: "alone cuda:1", Runs: []tune.Run{{Whole: "alone cuda:1", Nanos: math.Pi, Noise: 0.5}, {Whole: `od"d`, Nanos: 1e18}},
		At: map[string]int64{"N": 8, "batch size": 1}, Times: map[string]float64{"abc": 1.0 / 3, "def": 7}}
}

var _ = Describe("A choice", func() {
	It("is read as it was written", func() {
		c := choice()
		Expect(tune.ParseChoice(c.Text())).To(Equal(c))
		again, err := tune.ParseChoice(c.Text())
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Text()).To(Equal(c.Text()))
	})

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
	)
})

// FuzzParseChoice reads any text: it is a choice that is written again and read the same, or an error.
func FuzzParseChoice(f *testing.F) {
	f.Add(choice().Text())
	f.Add("whole \"x\"\nat \"y\" -1\n")
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
