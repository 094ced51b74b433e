package convert_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// hoisted returns the text of a graph after Hoist, inner graphs first, and Eliminate.
func hoisted(body string) (*graph.Graph, []string) {
	GinkgoHelper()
	g := parse(body)
	var walk func(g *graph.Graph)
	walk = func(g *graph.Graph) {
		for n := range g.Nodes() {
			for _, r := range n.Regions {
				walk(r.Graph)
			}
		}
		convert.Hoist(g)
		_, err := convert.Eliminate(g)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Sort()).To(Succeed())
	}
	walk(g)
	Expect(graph.Verify(g)).To(Succeed())
	return g, lines(g)
}

var _ = Describe("Hoist", func() {
	// A blocked node reads and writes blocks of channels.
	const blocked = `ports(@host:NCHW16c -> @host:NCHW16c)`

	It("has what a loop captures converted before it, also out of loops in each other", func() {
		_, got := hoisted(`
  input %x: f32[1,16,8,8]
  input %w: f32[1,16,8,8]
  input %m: i64[]
  const %c = bool[]{true}
  %y: f32[1,16,8,8] = Loop(%m, %c, %x | %w) "outer" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[1,16,8,8]
      capture %w: f32[1,16,8,8]
      const %n = i64[]{2}
      %z: f32[1,16,8,8] = Loop(%n, %k, %v | %w) "inner" {
        body: graph {
          input %i2: i64[]
          input %k2: bool[]
          input %u: f32[1,16,8,8]
          capture %w: f32[1,16,8,8]
          %wb: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%w) "in"
          %a: f32[1,16,8,8] @host:NCHW16c = Relu(%wb) ` + blocked + `
          %b: f32[1,16,8,8] = carve::Convert(%a) "out"
          %s: f32[1,16,8,8] = Add(%u, %b)
          output %k2, %s
        }
      }
      output %k, %z
    }
  }
  output %y`)
		Expect(got[0]).To(ContainSubstring("@host:NCHW16c = carve::Convert(%w)"))
		converts := 0
		for _, l := range got {
			if strings.Contains(l, "carve::Convert") {
				converts++
			}
		}
		Expect(converts).To(Equal(2), "before the loops, and of what an iteration makes: %v", got)
	})

	It("has what a loop carries in the format of its body, converted before the first iteration and behind the last", func() {
		g, got := hoisted(`
  input %x: f32[1,16,8,8]
  input %m: i64[]
  const %c = bool[]{true}
  %y: f32[1,16,8,8] = Loop(%m, %c, %x |) "loop" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[1,16,8,8]
      %vb: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%v) "in"
      %a: f32[1,16,8,8] @host:NCHW16c = Relu(%vb) ` + blocked + `
      %b: f32[1,16,8,8] = carve::Convert(%a) "out"
      output %k, %b
    }
  }
  output %y`)
		loop := value(g, "y").Producer
		body := loop.Region("body")
		Expect(body.NumNodes()).To(Equal(1))
		Expect(body.Inputs[2].Format).To(Equal(graph.On(graph.NCHW16c)))
		Expect(loop.Inputs[2].Producer.IsCarve(graph.OpConvert)).To(BeTrue())
		Expect(g.Outputs[0].Producer.IsCarve(graph.OpConvert)).To(BeTrue())
		Expect(got).NotTo(BeEmpty())
	})

	It("leaves what one side alone wants in another format, and what another reader has converted", func() {
		for _, text := range []string{`
      %vb: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%v) "in"
      %a: f32[1,16,8,8] = Relu(%vb) ports(@host:NCHW16c -> @host:row-major)
      output %k, %a`, `
      %a: f32[1,16,8,8] @host:NCHW16c = Relu(%v) ports(@host:row-major -> @host:NCHW16c)
      %b: f32[1,16,8,8] = carve::Convert(%a) "out"
      output %k, %b`} {
			g, _ := hoisted(`
  input %x: f32[1,16,8,8]
  input %m: i64[]
  const %c = bool[]{true}
  %y: f32[1,16,8,8] = Loop(%m, %c, %x |) "loop" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[1,16,8,8]` + text + `
    }
  }
  output %y`)
			Expect(value(g, "y").Producer.Region("body").Inputs[2].Format).To(Equal(graph.HostFormat))
		}
	})

	const branches = `
  input %x: f32[1,16,8,8]
  input %c: bool[]
  %y: f32[1,16,8,8] = If(%c | %x) "if" {
    then_branch: graph {
      capture %x: f32[1,16,8,8]
      %vb: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%x) "in"
      %a: f32[1,16,8,8] @host:NCHW16c = Relu(%vb) ` + blocked + `
      %b: f32[1,16,8,8] = carve::Convert(%a) "out"
      output %b
    }
    else_branch: graph {
      capture %x: f32[1,16,8,8]
`

	It("has what both branches convert converted once, before and behind", func() {
		g, _ := hoisted(branches + `
      %vb2: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%x) "in2"
      %a2: f32[1,16,8,8] @host:NCHW16c = Sigmoid(%vb2) ` + blocked + `
      %b2: f32[1,16,8,8] = carve::Convert(%a2) "out2"
      output %b2
    }
  }
  output %y`)
		n := value(g, "y").Producer
		Expect(n.Region("then_branch").NumNodes()).To(Equal(1))
		Expect(n.Region("else_branch").NumNodes()).To(Equal(1))
		Expect(n.Outputs[0].Format).To(Equal(graph.On(graph.NCHW16c)))
	})

	It("leaves what one branch alone converts in it", func() {
		g, _ := hoisted(branches + `
      %a2: f32[1,16,8,8] = Sigmoid(%x)
      output %a2
    }
  }
  output %y`)
		n := value(g, "y").Producer
		Expect(n.Region("then_branch").NumNodes()).To(Equal(3))
		Expect(n.Outputs[0].Format).To(Equal(graph.HostFormat))
	})
})

var _ = Describe("MayCarry", func() {
	It("leaves to the host what may have another shape in the next iteration", func() {
		body := parse(`
  input %m: i64[]
  input %c: bool[]
  input %x: f32[1]
  input %f: f32[4]
  %y, %z = Loop(%m, %c, %x, %f) "loop" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[?1]
      input %w: f32[4]
      %n: f32[?2] = Concat(%v, %v; axis=0)
      %o: f32[4] = Neg(%w)
      output %k, %n, %o
    }
  }
  output %y, %z`).Outputs[0].Producer.Region("body")
		for k, steady := range []bool{false, true} {
			param, result := body.Inputs[2+k], body.Outputs[1+k]
			Expect(convert.MayCarry(param, result, graph.HostFormat)).To(BeTrue())
			Expect(convert.MayCarry(param, result, graph.Format{Device: cuda})).To(Equal(steady), "%v", param)
		}
	})
})
