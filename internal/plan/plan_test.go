package plan_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/plan"
)

const whole = `carve plan 1
fact "threads" "2"
fact "backend" "a, version 1"
fact "backend" "b, version 1"
ban "n" "a" "compile-groups" "compile-failed" "" "no room"
graph "main" 30 of 20
  group "a" "a_0"
    node "x" "Conv" as "direct" in "host:row-major" "-" out "host:NCHW16c" cost 20
    within "x" "host:NCHW16c" "host:row-major"
    fused "y" "tail" of "p" "q" as "" in "host:row-major" out "host:row-major" cost 10
  convert "y" "host:row-major" "dev:0:row-major"
  host "l" "Loop"
arena "host" 64 of 64 by "best-fit"
  buffer "x" 0 64 from 0 to 2
`

func write(p *plan.Plan) string {
	var b strings.Builder
	Expect(p.Write(&b)).To(Succeed())
	return b.String()
}

func parse(s string) *plan.Plan {
	GinkgoHelper()
	p, err := plan.Parse(s)
	Expect(err).NotTo(HaveOccurred())
	return p
}

var _ = Describe("the text of plans", func() {
	It("is read and written alike", func() {
		// as "" is what is left out
		Expect(write(parse(whole))).To(Equal(strings.Replace(whole, ` as "" in`, ` in`, 1)))
		Expect(write(parse(strings.ReplaceAll(whole, "\n", "\r\n\n")))).To(Equal(write(parse(whole))))
	})

	DescribeTable("errors name line and column", func(old, new string, line, col int, problem string) {
		_, err := plan.Parse(strings.Replace(whole, old, new, 1))
		var e *plan.ParseError
		Expect(errors.As(err, &e)).To(BeTrue(), "%v", err)
		Expect([]int{e.Line, e.Col}).To(Equal([]int{line, col}), e.Problem)
		Expect(e.Problem).To(ContainSubstring(problem))
	},
		Entry("another header", "carve plan", "carved plan", 1, 7, "expected carve plan"),
		Entry("another version", "plan 1", "plan 3", 1, 13, "version 3"),
		Entry("a word", "ban ", "banana ", 5, 1, "expected fact"),
		Entry("a missing word", "30 of 20", "30 at 20", 6, 17, "expected of"),
		Entry("a number", "30 of 20", "30 of NaN", 6, 20, "nanoseconds"),
		Entry("a negative number", "best-fit\"\n  buffer \"x\" 0", "best-fit\"\n  buffer \"x\" -1", 14, 14, "a number from 0"),
		Entry("something behind", `"2"`, `"2" 3`, 2, 20, "the end of the line"),
		Entry("names out of order", `"p" "q"`, `"q" "p"`, 10, 33, "sorted"),
		Entry("a number too large", "64 from", "99999999999999999999 from", 14, 16, "a number from 0"),
		Entry("a buffer that is too large", "0 64 from", "1 64 from", 14, 30, "outside of its arena"),
		Entry("a step behind arenas", "  buffer", "  host \"x\" \"y\"\n  buffer", 14, 3, "outside of a graph"),
	)
})

var _ = Describe("Diff", func() {
	DescribeTable("names what changed, and nothing else", func(old, new string, want ...string) {
		a, b := parse(whole), parse(strings.Replace(whole, old, new, 1))
		Expect(plan.Diff(a, a)).To(BeEmpty())
		var got []string
		for _, d := range plan.Diff(a, b) {
			got = append(got, d.String())
		}
		Expect(got).To(Equal(want))
	},
		Entry("a fact", `"2"`, `"3"`, `identity: threads: 2 → 3`),
		Entry("a fact less", "fact \"backend\" \"b, version 1\"\n", "", `identity: backend #2: b, version 1 → (nothing)`),
		Entry("a ban", `"no room"`, `"no time"`, `placement: ban of node "n" from a: compile-failed by compile-groups: no room → compile-failed by compile-groups: no time`),
		Entry("a backend", `group "a"`, `group "b"`,
			`placement: graph "main", node "x": a Conv → b Conv`,
			`placement: graph "main", node "y" of p, q: a tail → b tail`,
			`formats: graph "main", value "x" to host:row-major: from host:NCHW16c within a group of a → from host:NCHW16c within a group of b`,
			`groups: graph "main", group of "x": 2 on a → 2 on b`),
		Entry("a format", `out "host:NCHW16c"`, `out "host:NCHW8c"`,
			`formats: graph "main", node "x": "direct" in host:row-major, - out host:NCHW16c → "direct" in host:row-major, - out host:NCHW8c`),
		Entry("a cost", `cost 10`, `cost 11`, `cost: graph "main", node "y" of p, q: 10 ns → 11 ns`),
		Entry("a group more", `    fused`, "  group \"a\" \"a_1\"\n    fused",
			`groups: graph "main", group of "x": 2 on a → 1 on a`, `groups: graph "main", group of "y": (nothing) → 1 on a`),
		Entry("memory", `"x" 0 64 from 0 to 2`, `"x" 0 64 from 0 to 1`, `memory: arena "host", buffer "x": 64 bytes at 0 from 0 to 2 → 64 bytes at 0 from 0 to 1`),
	)

	It("order is told by the first step that differs", func() {
		a := parse("carve plan 1\ngraph \"\"\ngroup \"a\" \"g\"\nnode \"x\" \"Neg\"\nnode \"y\" \"Neg\"\nnode \"z\" \"Neg\"\n")
		b := parse("carve plan 1\ngraph \"\"\ngroup \"a\" \"g\"\nnode \"x\" \"Neg\"\nnode \"z\" \"Neg\"\nnode \"y\" \"Neg\"\n")
		Expect(plan.Diff(a, b)).To(HaveLen(1))
		Expect(plan.Diff(a, b)[0].String()).To(Equal("order: step 1: y → z"))
		Expect(plan.Fits(a, b)).To(BeEmpty())
	})
})

var _ = Describe("Misfit", func() {
	facts := []plan.Fact{{Key: "threads", Value: "2"}, {Key: "backend", Value: "a, version 1"}, {Key: "backend", Value: "b, version 1"}}
	DescribeTable("names the first difference", func(change func(f []plan.Fact) []plan.Fact, want string) {
		err := parse(whole).Misfit(change(append([]plan.Fact(nil), facts...)))
		Expect(err).To(MatchError(plan.ErrMisfit))
		Expect(err).To(MatchError(ContainSubstring(want)))
	},
		Entry("a value", func(f []plan.Fact) []plan.Fact { f[2].Value = "b, version 2"; return f }, "backend: the plan has b, version 1, here is b, version 2"),
		Entry("one less", func(f []plan.Fact) []plan.Fact { return f[:2] }, "backend: the plan has b, version 1, here is nothing"),
		Entry("one more", func(f []plan.Fact) []plan.Fact { return append(f, plan.Fact{Key: "pin", Value: "x"}) }, "pin: the plan has nothing, here is x"),
	)
	It("is nil where all is alike", func() { Expect(parse(whole).Misfit(facts)).To(Succeed()) })
})

// FuzzParse reads any text: a plan that is written is read again as the same, and has no difference from itself.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("carve plan 1\n")
	f.Add(strings.Replace(whole, `"x"`, `"\u1234\xff"`, 1))
	f.Fuzz(func(t *testing.T, s string) {
		p, err := plan.Parse(s)
		if err != nil {
			return
		}
		var b strings.Builder
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		q, err := plan.Parse(b.String())
		if err != nil {
			t.Fatalf("%v in %q", err, b.String())
		}
		if d := plan.Diff(p, q); len(d) > 0 {
			t.Fatal(d)
		}
		p.Parts()
	})
}
