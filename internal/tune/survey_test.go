package tune_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/measurements"
	"github.com/carve-dev/carve/internal/tune"
	"github.com/carve-dev/carve/partition"
)

// nodes returns the nodes of a graph's text by name.
func nodes(text string) map[string]*graph.Node {
	GinkgoHelper()
	g, err := graph.Parse("graph {\n  opset 17\n" + text + "\n}")
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	out := map[string]*graph.Node{}
	for n := range g.Nodes() {
		out[n.Name] = n
	}
	return out
}

func host() tune.Host {
	return tune.Host{Threads: 2, Processor: "p", Backends: map[string]tune.Implementation{"a": {Version: "1"}, "b": {Version: "7"}}}
}

// sig is a signature of a node in one format.
func sig(name string, n *graph.Node) *graph.Signature {
	s := graph.UniformSignature(name, n, graph.HostFormat)
	return &s
}

// names lists tasks with their signatures.
func names(tasks []*tune.Task) (out []string) {
	for _, t := range tasks {
		out = append(out, t.String()+" "+strings.Fields(t.Key.Signature)[0])
	}
	return out
}

var _ = Describe("A survey", func() {
	const text = `  input %x: f32[8,8]
  input %y: f32[N,8]
  %a = Relu(%x) "a"
  %b = Relu(%a) "b"
  %c = Add(%b, %x) "c"
  %d = Relu(%y) "d"
  output %c
  output %d`

	It("has a task for everything that differs, once, and those that do the same work side by side", func() {
		n := nodes(text)
		s := tune.NewSurvey(host(), nil)
		for _, name := range []string{"a", "b", "c"} {
			for _, b := range []string{"a", "b"} {
				Expect(s.Node(n[name], b, sig("s", n[name]), 1e5)).To(BeZero())
			}
		}
		s.Node(n["a"], "a", sig("t", n["a"]), 1e5)
		Expect(names(s.Tasks())).To(Equal([]string{"Relu/14 on a s", "Relu/14 on b s", "Relu/14 on a t", "Add/14 on a s", "Add/14 on b s"}))
	})

	It("leaves out what cannot win", func() {
		n := nodes(text)
		s := tune.NewSurvey(host(), nil)
		s.Node(n["a"], "a", sig("s", n["a"]), 1e5)
		s.Node(n["a"], "b", sig("s", n["a"]), 9e5)
		s.Node(n["c"], "a", sig("s", n["c"]), 100)
		s.Node(n["c"], "b", sig("s", n["c"]), 900) // that is little more than two conversions
		Expect(names(s.Tasks())).To(Equal([]string{"Relu/14 on a s", "Add/14 on a s", "Add/14 on b s"}))
	})

	It("takes of many signatures those that the model likes", func() {
		n := nodes(text)
		s := tune.NewSurvey(host(), nil)
		for i := range 20 {
			s.Node(n["a"], "a", sig(string(rune('a'+i)), n["a"]), 1e5+float64((i*7)%20))
		}
		Expect(s.Tasks()).To(HaveLen(6))
		Expect(names(s.Tasks())).To(ContainElement("Relu/14 on a a"))
		Expect(names(s.Tasks())).NotTo(ContainElement("Relu/14 on a b"), "its cost is the eighth")
	})

	It("needs the values of symbols", func() {
		n := nodes(text)
		s := tune.NewSurvey(host(), nil)
		s.Node(n["d"], "a", sig("s", n["d"]), 1e5)
		Expect(s.Tasks()).To(BeEmpty())
		s = tune.NewSurvey(host(), graph.Bindings{"N": 8})
		s.Node(n["d"], "a", sig("s", n["d"]), 1e5)
		s.Node(n["a"], "a", sig("s", n["a"]), 1e5)
		tasks := s.Tasks()
		Expect(tasks).To(HaveLen(1), "they are the same there")
		dims, static := tasks[0].Graph.Inputs[0].Type.Shape.Static()
		Expect(static).To(BeTrue())
		Expect(dims).To(Equal([]int{8, 8}))
		Expect(graph.Verify(tasks[0].Graph)).To(Succeed())
	})

	It("tells constants apart by their content where they are small", func() {
		n := nodes(`  input %x: f32[8,8]
  const %s = i64[2]{4, 16}
  const %t = i64[2]{16, 4}
  %a = Reshape(%x, %s) "a"
  %b = Reshape(%x, %t) "b"
  %c = Reshape(%x, %s) "c"
  output %a
  output %b
  output %c`)
		s := tune.NewSurvey(host(), nil)
		for _, name := range []string{"a", "b", "c"} {
			s.Node(n[name], "a", sig("s", n[name]), 1e5)
		}
		Expect(s.Tasks()).To(HaveLen(2))
	})

	It("scales what was not measured like what was", func() {
		n := nodes(text)
		s := tune.NewSurvey(host(), nil)
		cache, err := measurements.Open(GinkgoT().TempDir(), nil)
		Expect(err).NotTo(HaveOccurred())
		s.Node(n["a"], "a", sig("s", n["a"]), 1e5)
		s.Node(n["a"], "a", sig("far", n["a"]), 1e7)
		s.Node(n["c"], "a", sig("far", n["c"]), 2e7)
		s.Node(n["c"], "b", sig("s", n["c"]), 2e5)
		tasks := s.Tasks()
		Expect(names(tasks)).To(Equal([]string{"Add/14 on b s", "Relu/14 on a s"}))
		Expect(cache.Put(tasks[1].Key, measurements.Entry{Nanos: 3e5, Runs: 1})).To(Succeed())
		Expect(tune.Recall(cache, tasks)).To(Equal(tasks[:1]))
		c := &tune.Choice{Whole: "measured", Times: s.Times()}
		l := tune.NewLookup(host(), c, nil)
		Expect(l.Node(n["a"], "a", sig("s", n["a"]), 1)).To(Equal(3e5))
		Expect(l.Node(n["b"], "a", sig("s", n["b"]), 1)).To(Equal(3e5), "it is the same operator")
		Expect(l.Node(n["a"], "a", sig("far", n["a"]), 1)).To(Equal(3e7))
		Expect(l.Node(n["c"], "a", sig("far", n["c"]), 1)).To(Equal(6e7), "as others of the backend")
		Expect(l.Node(n["c"], "b", sig("s", n["c"]), 1)).To(BeZero(), "nothing of it was measured")
		Expect(l.Hits()).To(Equal(3))
	})

	It("has tasks for several points, and what does not depend on them once", func() {
		n := nodes(text)
		l := tune.NewSurveys(host(), []graph.Bindings{{"N": 2}, {"N": 64}})
		ask := func(t partition.Times, name, backend string) float64 {
			return t.Node(n[name], backend, sig("s", n[name]), 1e5)
		}
		for _, name := range []string{"c", "d"} {
			Expect(ask(l, name, "a")).To(BeZero())
			Expect(ask(l, name, "b")).To(BeZero())
		}
		tasks := l.Tasks()
		Expect(names(tasks)).To(ConsistOf("Add/14 on a s", "Add/14 on b s", "Relu/14 on a s", "Relu/14 on b s", "Relu/14 on a s", "Relu/14 on b s"))
		cache, err := measurements.Open(GinkgoT().TempDir(), nil)
		Expect(err).NotTo(HaveOccurred())
		for _, t := range tasks {
			ns := 1000.0 // of Add
			switch {
			case strings.HasPrefix(t.Key.Operator, "Relu") && strings.Contains(t.Key.Shapes, "64"):
				ns = 97_999
			case strings.HasPrefix(t.Key.Operator, "Relu"):
				ns = 1999
			}
			if t.Backend == "b" {
				ns *= 2
			}
			Expect(cache.Put(t.Key, measurements.Entry{Nanos: ns, Runs: 1})).To(Succeed())
		}
		Expect(tune.Recall(cache, tasks)).To(BeEmpty())
		c := l.Choice()
		c.Whole = "measured"
		Expect(c.Points).To(HaveLen(2))
		Expect(c.Points[0].Weight*3000).To(BeNumerically("~", c.Points[1].Weight*99_000, 1e-6), "runs of both count the same")
		known := tune.NewLookup(host(), c, nil)
		Expect(ask(known, "d", "a")).To(BeNumerically("~", c.Points[0].Weight*1999+c.Points[1].Weight*97_999, 1e-6))
		Expect(ask(known, "c", "b")).To(BeNumerically("~", (c.Points[0].Weight+c.Points[1].Weight)*2000, 1e-6))
		Expect(ask(known, "c", "?")).To(BeZero())
		Expect(tune.ParseChoice(c.Text())).To(Equal(c))
	})

	It("knows conversions by shape and formats", func() {
		n := nodes(text)
		s := tune.NewSurvey(host(), nil)
		turned, err := graph.ParseLayout("ba")
		Expect(err).NotTo(HaveOccurred())
		hop := &convert.Converter{Name: "turn", To: graph.On(turned), Cost: convert.HostCost}
		for _, v := range []*graph.Value{n["a"].Outputs[0], n["b"].Outputs[0], n["d"].Outputs[0]} {
			Expect(s.Conversion(v, hop)).To(BeZero())
		}
		tasks := s.Tasks()
		Expect(tasks).To(HaveLen(1), "of the last one the shape is open")
		Expect(tasks[0].Type).To(Equal(graph.TensorType(tensor.Float32, graph.ShapeOf(8, 8))))
		cache, err := measurements.Open(GinkgoT().TempDir(), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(cache.Put(tasks[0].Key, measurements.Entry{Nanos: 42, Runs: 1})).To(Succeed())
		l := tune.NewLookup(host(), nil, cache)
		Expect(l.Conversion(n["a"].Outputs[0], hop)).To(Equal(42.0))
		Expect(l.Conversion(n["d"].Outputs[0], hop)).To(BeZero())
	})

	It("reads a cache only for the same host", func() {
		n := nodes(text)
		s := tune.NewSurvey(host(), nil)
		s.Node(n["a"], "a", sig("s", n["a"]), 1e5)
		cache, err := measurements.Open(GinkgoT().TempDir(), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(cache.Put(s.Tasks()[0].Key, measurements.Entry{Nanos: 42, Runs: 1})).To(Succeed())
		get := func(h tune.Host) float64 {
			return tune.NewLookup(h, nil, cache).Node(n["a"], "a", sig("s", n["a"]), 1)
		}
		Expect(get(host())).To(Equal(42.0))
		h := host()
		h.Threads = 1
		Expect(get(h)).To(BeZero())
		h = host()
		h.Processor = "q"
		Expect(get(h)).To(BeZero())
		for _, x := range []tune.Implementation{{Version: "2"}, {Version: "1", Options: "isa"}, {Version: "1", Processor: "avx"}} {
			h = host()
			h.Backends["a"] = x
			Expect(get(h)).To(BeZero())
		}
		h = host()
		h.Backends["b"] = tune.Implementation{Version: "8"}
		Expect(get(h)).To(Equal(42.0), "it is another backend's")
	})
})

var _ = Describe("Fingerprint", func() {
	of := func(text string) string {
		GinkgoHelper()
		g, err := graph.Parse("graph {\n  opset 17\n" + text + "\n}")
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		return tune.Fingerprint(g)
	}
	const text = "  input %x: f32[N,8]\n  const %w = f32[8]{1,2,3,4,5,6,7,8}\n  %a = Mul(%x, %w) \"a\"\n  %b = LeakyRelu(%a; alpha=0.5) \"b\"\n  output %b"

	It("is that of the computation, not of names", func() {
		Expect(of(text)).To(Equal(of(strings.NewReplacer("%a", "%q", `"b"`, `"z"`).Replace(text))))
		for _, r := range [][2]string{{"8]", "9]"}, {"Mul", "Sub"}, {"0.5", "0.25"}, {"%x, %w", "%w, %x"}, {"N", "4"}, {"output %b", "output %a"}, {"{1,", "{0,"}} {
			changed := strings.ReplaceAll(text, r[0], r[1])
			if r[0] == "8]" {
				changed = strings.ReplaceAll(changed, "7,8}", "7,8,9}")
			}
			Expect(of(changed)).NotTo(Equal(of(text)), r[1])
		}
	})
})
