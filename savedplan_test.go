package carve_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
)

// save compiles and returns the text of the plan, with what was computed for ones.
func save(ctx SpecContext, m *carve.Model, o *carve.Options) (text string) {
	GinkgoHelper()
	p, err := carve.Compile(ctx, m, o)
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	var b bytes.Buffer
	Expect(p.SavePlan(ctx, &b, nil)).To(Succeed())
	return b.String()
}

func parsed(text string) *carve.Plan {
	GinkgoHelper()
	p, err := carve.ParsePlan(text)
	Expect(err).NotTo(HaveOccurred())
	Expect(p.String()).To(Equal(text))
	return p
}

var _ = Describe("plans that are kept", func() {
	ways := []TableEntry{
		Entry("by priority", carve.Options{Verify: true}),
		Entry("by cost", carve.Options{Placement: carve.Modelled, Verify: true}),
		Entry("for the reference alone", carve.Options{Backends: []backend.Config{{Name: "reference"}}}),
		Entry("each operator by itself", carve.Options{Isolated: true}),
		Entry("in the model's order", carve.Options{KeepOrder: true, Threads: 3}),
	}
	DescribeTable("a plan that is applied gives itself", func(ctx SpecContext, o carve.Options) {
		for _, src := range []string{branches(), looped()} {
			m := carve.FromGraph(graphOf(src))
			defer m.Close()
			text := save(ctx, m, &o)
			Expect(save(ctx, m, &o)).To(Equal(text))
			o.Plan = parsed(text)
			Expect(save(ctx, m, &o)).To(Equal(text))
			o.Plan = nil
		}
	}, ways)

	It("is turned down with the difference named, and made anew where that is asked", func(ctx SpecContext) {
		m := carve.FromGraph(graphOf(branches()))
		defer m.Close()
		text := save(ctx, m, &carve.Options{Threads: 2})
		p := parsed(text)
		_, err := carve.Compile(ctx, m, &carve.Options{Threads: 1, Plan: p})
		Expect(err).To(MatchError(carve.ErrPlanMisfit))
		Expect(err).To(MatchError(ContainSubstring("threads: the plan has 2, here is 1")))
		again := save(ctx, m, &carve.Options{Threads: 1, Plan: p, Recompute: true})
		Expect(p.Diff(parsed(again))).To(Equal([]string{"identity: threads: 2 → 1"}))

		other := carve.FromGraph(graphOf(strings.Replace(branches(), `Exp(%x)`, `Tanh(%x)`, 1)))
		defer other.Close()
		_, err = carve.Compile(ctx, other, &carve.Options{Threads: 2, Plan: p})
		Expect(err).To(MatchError(ContainSubstring("model: the plan has sha256:")))
	})

	It("can be edited: placement follows, and what nobody offers is named", func(ctx SpecContext) {
		m := carve.FromGraph(graphOf(branches()))
		defer m.Close()
		by := &carve.Options{Backends: []backend.Config{{Name: "reference"}}}
		text := save(ctx, m, by)
		Expect(text).To(ContainSubstring(`node "m" "Mul"`))
		moved := strings.Replace(text, `node "m" "Mul"`, `node "m" "Div"`, 1)
		by.Plan = parsed(moved)
		_, err := carve.Compile(ctx, m, by)
		Expect(err).To(MatchError(ContainSubstring(`node "m": the plan has Div`)))

		lines := strings.Split(text, "\n")
		for i, l := range lines {
			if strings.Contains(l, `node "m"`) {
				lines[i] = "  group \"reference\" \"second\"\n" + l
			}
		}
		by.Plan = parsed(strings.Join(lines, "\n"))
		program, err := carve.Compile(ctx, m, by)
		Expect(err).NotTo(HaveOccurred())
		defer program.Close()
		r, err := program.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(2))
	})

	DescribeTable("text that is no plan", func(text, problem string) {
		_, err := carve.ParsePlan(text)
		Expect(err).To(MatchError(carve.ErrPlanSyntax))
		Expect(err).To(MatchError(ContainSubstring(problem)))
	},
		Entry("nothing", "", "line 1, column 1: expected carve plan 1"),
		Entry("another version", "carve plan 2\n", "version 2"),
		Entry("a node without a group", "carve plan 1\ngraph \"g\"\n  node \"a\" \"Add\"\n", "line 3, column 3: a node outside of a group"),
		Entry("a name that does not end", "carve plan 1\nfact \"a\n", "line 2, column 6: expected a quoted name"),
		Entry("a buffer beyond its arena", "carve plan 1\narena \"host\" 8 of 8 by \"x\"\n buffer \"a\" 4 8 from 0 to 1\n", "outside of its arena"),
	)

	It("places memory as it says where that is sound, and plans it anew where not", func(ctx SpecContext) {
		m := carve.FromGraph(graphOf(branches()))
		defer m.Close()
		o := carve.Options{Verify: true}
		text := save(ctx, m, &o)
		arena := regexp.MustCompile(`arena "host" (\d+) of`)
		bytes, err := strconv.Atoi(arena.FindStringSubmatch(text)[1])
		Expect(err).NotTo(HaveOccurred())
		shifted := arena.ReplaceAllString(text, fmt.Sprintf(`arena "host" %d of`, bytes+4096))
		buffer := regexp.MustCompile(`(buffer "[^"]*") (\d+) `)
		shifted = buffer.ReplaceAllStringFunc(shifted, func(line string) string {
			parts := buffer.FindStringSubmatch(line)
			n, err := strconv.Atoi(parts[2])
			Expect(err).NotTo(HaveOccurred())
			return fmt.Sprintf("%s %d ", parts[1], n+4096)
		})
		Expect(shifted).NotTo(Equal(text))
		o.Plan = parsed(shifted)
		Expect(save(ctx, m, &o)).To(Equal(shifted))
		o.Plan = parsed(buffer.ReplaceAllString(text, "$1 0 "))
		Expect(save(ctx, m, &o)).To(Equal(text))
	})

	It("of a closed or empty Program is an error", func(ctx SpecContext) {
		Expect((*carve.Program)(nil).SavePlan(ctx, &bytes.Buffer{}, nil)).To(MatchError(carve.ErrClosed))
	})
})

// looped is a model with a body that is partitioned by itself.
func looped() string {
	return `graph "looped" {
  opset 17
  input %x: f32[N,4]
  const %n = i64[]{3}
  const %go = bool[]{true}
  %s = Exp(%x) "start"
  %y: f32[N,4] = Loop(%n, %go, %s | %x) "loop" {
    body: graph {
      input %i: i64[]
      input %c: bool[]
      input %v: f32[N,4]
      capture %x: f32[N,4]
      %a = Add(%v, %x) "a"
      %r = Relu(%a) "r"
      output %c, %r
    }
  }
  %z = Neg(%y) "end"
  output %z
}`
}

func graphOf(text string) *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	return g
}

var _ = It("what becomes of Options after Compile changes nothing in what a program says", func(ctx SpecContext) {
	m := carve.FromGraph(graphOf(branches()))
	defer m.Close()
	o := &carve.Options{Backends: []backend.Config{{Name: "cpu", Options: map[string]string{"amx": "off"}}}}
	p := mustCompile(ctx, m, o)
	defer p.Close()
	plan := func() string {
		var b bytes.Buffer
		Expect(p.SavePlan(ctx, &b, nil)).To(Succeed())
		return b.String()
	}
	before := plan()
	Expect(before).To(ContainSubstring("amx"))
	o.Backends[0].Options["amx"] = "on"
	o.Backends[0].Name = "mkl"
	Expect(plan()).To(Equal(before))
})
