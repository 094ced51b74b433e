package picture_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/picture"
	"github.com/carve-dev/carve/partition"
)

// branches is a model of everything that a picture shows: two backends, something fused, conversions in and between groups, control
// flow whose branches run on backends, a folded node, and a node of several results.
const branches = `graph {
  opset 17
  input %x: f32[1,16,8,8]
  input %c: bool[]
  const %w = f32[16,16,1,1]{NUMBERS}
  const %one = f32[1]{1}
  %two = Add(%one, %one) "two"
  %a = Conv(%x, %w) "conv"
  %r = Relu(%a) "relu"
  %m = MaxPool(%r; kernel_shape=[2,2], strides=[2,2]) "pool"
  %d = Conv(%m, %w) "last"
  %s = If(%c | %d) "choose" {
    then_branch: graph {
      capture %t: f32[1,16,4,4]
      %u = Exp(%t) "exp"
      output %u
    }
    else_branch: graph {
      capture %e: f32[1,16,4,4]
      %v = Neg(%e) "neg"
      output %v
    }
  }
  %y = Mul(%s, %two) "mul"
  output %y
}`

// model is a graph in text form, with NUMBERS of the weights put in.
func model(text string) *carve.Model {
	GinkgoHelper()
	text = strings.Replace(text, "NUMBERS", strings.TrimSuffix(strings.Repeat("0.5, ", 256), ", "), 1)
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	return carve.FromGraph(g)
}

// pictureOf compiles and draws a model, with a measured run.
func pictureOf(ctx context.Context, m *carve.Model, o *carve.Options, inputs map[string]tensor.Value) *carve.Picture {
	GinkgoHelper()
	p, err := carve.Compile(ctx, m, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	options := &carve.PictureOptions{Model: "branches.onnx"}
	if inputs != nil {
		_, options.Profile, err = p.RunProfiled(ctx, inputs)
		Expect(err).NotTo(HaveOccurred())
	}
	picture, err := p.Picture(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	return picture
}

// example is the picture of branches, with the pool on the reference backend.
func example(ctx context.Context) *carve.Picture {
	GinkgoHelper()
	x, err := tensor.New(tensor.Float32, 1, 16, 8, 8)
	Expect(err).NotTo(HaveOccurred())
	c := tensor.From([]bool{true})
	c.Shape = []int{}
	return pictureOf(ctx, model(branches), &carve.Options{Threads: 1, Backends: []backend.Config{{Name: "cpu"}, {Name: "reference"}},
		Pins: []partition.Pin{{Node: "pool", Backend: "reference"}}}, map[string]tensor.Value{"x": x, "c": c})
}

// document is what WriteJSON writes of a picture.
func document(p *carve.Picture) *picture.Document {
	GinkgoHelper()
	var b bytes.Buffer
	Expect(p.WriteJSON(&b)).To(Succeed())
	d := &picture.Document{}
	dec := json.NewDecoder(&b)
	dec.DisallowUnknownFields()
	Expect(dec.Decode(d)).To(Succeed())
	return d
}

// html is the page of a picture.
func html(p *carve.Picture) string {
	GinkgoHelper()
	var b bytes.Buffer
	Expect(p.WriteHTML(&b)).To(Succeed())
	return b.String()
}

// nodeOf returns the drawn node that runs one of the model's.
func nodeOf(d *picture.Document, name string) (int, *picture.Node) {
	GinkgoHelper()
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Kind == picture.KindOp || n.Kind == picture.KindHost {
			for _, m := range n.Nodes {
				if m == name {
					return i, n
				}
			}
		}
	}
	Fail("nothing runs " + name)
	return -1, nil
}

var _ = Describe("a picture", func() {
	It("has every node of the model once, with what every backend is for it", func(ctx SpecContext) {
		d := document(example(ctx))
		count := map[string]int{}
		for _, n := range d.Nodes {
			if n.Kind == picture.KindOp || n.Kind == picture.KindHost {
				for _, m := range n.Nodes {
					count[m]++
				}
				Expect(n.Candidates).To(HaveLen(2))
				for i, c := range n.Candidates {
					Expect(c.Backend).To(Equal(d.Backends[i].Name))
					Expect(c.Chosen).To(Equal(c.Backend == n.Backend), "%s on %s", n.Name, c.Backend)
					Expect(c.Chosen || len(c.Reasons) > 0).To(BeTrue(), "nothing is said of %s on %s", n.Name, c.Backend)
				}
			}
		}
		Expect(count).To(Equal(map[string]int{"conv": 1, "relu": 1, "pool": 1, "last": 1, "choose": 1, "exp": 1, "neg": 1, "mul": 1}))
		Expect(d.Folded).To(Equal([]picture.Folded{{Node: "two", Kind: "constant"}}))

		_, conv := nodeOf(d, "conv")
		Expect(conv.Label).To(Equal("Conv + Relu"))
		Expect(conv.Property).To(Equal("conv-tail"))
		Expect(conv.Candidates[0].Nanoseconds).To(BeNumerically(">", 0))
		Expect(conv.Candidates[1].Nanoseconds).To(BeNumerically(">", 2*conv.Candidates[0].Nanoseconds), "plain kernels, one after the other")
		_, pool := nodeOf(d, "pool")
		Expect(pool.Backend).To(Equal("reference"))
		Expect(pool.Candidates[0].Reasons).To(Equal([]string{"pinned: the user pinned it to reference"}))
		_, host := nodeOf(d, "choose")
		Expect(host.Backend).To(Equal("host"))
		Expect(host.Candidates[0].Reasons).To(ContainElement(HavePrefix("host-scheduled")))
	})

	It("has edges that lead down, between nodes of one scope, and everything linked", func(ctx SpecContext) {
		d := document(example(ctx))
		for i, s := range d.Scopes {
			in := map[int]bool{}
			for _, at := range s.Nodes {
				in[at] = true
				Expect(d.Nodes[at].Scope).To(Equal(i))
			}
			if s.Owner >= 0 {
				Expect(d.Nodes[s.Owner].Inside).To(Equal(i))
			}
			for _, e := range s.Edges {
				Expect(e.From).To(BeNumerically("<", e.To))
				Expect(in).To(And(HaveKey(e.From), HaveKey(e.To)))
				Expect(e.Output).To(BeNumerically("<", len(d.Nodes[e.From].Outputs)))
			}
		}
		Expect(d.Arenas).NotTo(BeEmpty())
		Expect(d.Arenas[0].Scope).To(Equal(0), "the main graph's come first")
		for _, a := range d.Arenas {
			for _, b := range a.Buffers {
				Expect(b.Node).To(BeNumerically(">=", 0), "nobody makes %s", b.Name)
				Expect(b.Offset + b.Bytes).To(BeNumerically("<=", a.Bytes))
				Expect(b.End).To(And(BeNumerically(">", b.First), BeNumerically("<=", a.Steps)))
			}
		}
		ran := map[string]bool{}
		for _, s := range d.Run.Spans {
			Expect(s.Node).To(BeNumerically(">=", 0), "nothing is %s", s.Name)
			ran[d.Nodes[s.Node].Name] = true
		}
		Expect(ran).To(And(HaveKey("conv"), HaveKey("pool"), HaveKey("exp")))
		Expect(ran).NotTo(HaveKey("neg"))
	})

	It("has conversions with bytes and time", func(ctx SpecContext) {
		d := document(example(ctx))
		between := 0
		for _, n := range d.Nodes {
			if n.Kind != picture.KindConvert {
				continue
			}
			Expect(n.Label).To(MatchRegexp(`^NCHW\w* → NCHW\w*$`))
			Expect(n.Bytes).To(BeElementOf(int64(16*8*8*4), int64(16*4*4*4)))
			Expect(n.Nanoseconds).To(BeNumerically(">", 0))
			if n.Group < 0 {
				between++
			}
		}
		Expect(between).To(BeNumerically(">=", 2), "before the pool, and behind it")
	})

	It("is the same again", func(ctx SpecContext) {
		page := func() string {
			p := pictureOf(ctx, model(branches), &carve.Options{Threads: 1}, nil)
			return html(p)
		}
		Expect(page()).To(Equal(page()))
	})

	It("is a graph for Graphviz", func(ctx SpecContext) {
		var b bytes.Buffer
		Expect(example(ctx).WriteDOT(&b)).To(Succeed())
		text := b.String()
		Expect(text).To(HavePrefix("digraph \"branches.onnx\" {\n"))
		Expect(strings.Count(text, "{")).To(Equal(strings.Count(text, "}")))
		Expect(text).To(And(ContainSubstring(`label="Conv + Relu\nconv\ncpu"`), ContainSubstring(`label="then_branch"`)))
		if dot, err := exec.LookPath("dot"); err == nil {
			cmd := exec.CommandContext(ctx, dot, "-Tsvg")
			cmd.Stdin = &b
			out, err := cmd.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(out))
		}
	})
})

// hostile are names that mean something to HTML, scripts, DOT, terminals and those who write from right to left.
var hostile = []string{
	"</script><script>window.hit=1</script>", `"><img src=x onerror="window.hit=1">`, "<!--", "]]>", `\"];window.hit=1;//`, "{{data}}", "{{script}}", "${window.hit=1}",
	"\u202egnp.exe", "a\x00b\x1b[31m", "__proto__", "constructor", strings.Repeat("very long ", 1000), "\u2028window.hit=1", "' onclick='window.hit=1", "javascript:window.hit=1",
}

// hostileModel is a chain of nodes with such names.
func hostileModel() *carve.Model {
	GinkgoHelper()
	g := graph.New("hostile")
	g.Opsets[""] = 17
	v := g.AddInput("<b>in</b>", graph.TensorType(tensor.Float32, graph.ShapeOf(4)))
	for i, name := range hostile {
		op := []string{"Neg", "Exp"}[i%2]
		v = g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: name, Inputs: []*graph.Value{v}, Outputs: []string{name + "!"}}).Outputs[0]
	}
	g.SetOutputs(v)
	return carve.FromGraph(g)
}

var _ = Describe("names of a hostile model", func() {
	It("end no element, and no string of DOT", func(ctx SpecContext) {
		p := pictureOf(ctx, hostileModel(), nil, nil)
		page := html(p)
		Expect(strings.Count(page, "</script")).To(Equal(2), "those of the page")
		Expect(strings.Count(page, "<script")).To(Equal(2))
		Expect(page).NotTo(ContainSubstring("<img"))
		Expect(page).NotTo(ContainSubstring("<!--"))
		data := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
		Expect(data).To(HaveLen(2))
		Expect(data[1]).NotTo(ContainSubstring("<"))
		var d picture.Document
		Expect(json.Unmarshal([]byte(data[1]), &d)).To(Succeed())
		_, n := nodeOf(&d, hostile[0])
		Expect(n.Name).To(Equal(hostile[0]), "it is there, as text")
		for _, n := range d.Nodes {
			Expect(len([]rune(n.Name))).To(BeNumerically("<=", 300))
		}
		var b bytes.Buffer
		Expect(p.WriteDOT(&b)).To(Succeed())
		strung := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`).ReplaceAllString(b.String(), `""`)
		Expect(strung).NotTo(ContainSubstring("window"))
	})

	It("are text in a browser, where nothing is loaded and nothing else runs", func(ctx SpecContext) {
		b := browse(save(html(pictureOf(ctx, hostileModel(), nil, nil))), false)
		for _, tab := range []string{"memory", "timeline", "nodes", "graph"} {
			b.click("#tab-" + tab)
		}
		b.eval(`document.querySelector('#graph').focus()`)
		for range len(hostile) + 4 {
			b.key("n")
			Expect(b.eval(`document.querySelectorAll('#pane img, #pane script, #pane b').length`)).To(BeEquivalentTo(0))
		}
		b.click("#search")
		b.write("onerror")
		Expect(b.text("#hits")).To(ContainSubstring(hostile[1]))
		Expect(b.eval(`window.hit`)).To(BeNil())
		// What a fault would have put into the page does not run either.
		b.eval(`document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.hit=1">')`)
		b.eval(`document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hit=1'}))`)
		b.frame()
		Expect(b.eval(`window.hit`)).To(BeNil(), "the policy admits no other script")
	})
})

// save writes a page to a file and returns its address.
func save(page string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "report.html")
	Expect(os.WriteFile(path, []byte(page), 0o600)).To(Succeed())
	return "file://" + path
}

// network is a random graph of that many products, each of two of the results before it.
func network(seed uint64, n int) *graph.Graph {
	rng := rand.New(rand.NewPCG(seed, 2))
	g := graph.New("network")
	g.Opsets[""] = 17
	values := []*graph.Value{g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(4, 4))), g.AddInput("z", graph.TensorType(tensor.Float32, graph.ShapeOf(4, 4)))}
	for i := range n {
		name := fmt.Sprintf("/block%d/product%d", i/100, i)
		near := func() *graph.Value { return values[max(len(values)-1-rng.IntN(20), 0)] }
		v := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Name: name, Inputs: []*graph.Value{values[len(values)-1], near()}, Outputs: []string{name + ":0"}}).Outputs[0]
		values = append(values, v)
	}
	g.SetOutputs(values[len(values)-1])
	return g
}

var _ = Describe("the size of a page", func() {
	It("is below 3 MB for 1,000 nodes", func(ctx SpecContext) {
		page := html(pictureOf(ctx, carve.FromGraph(network(1, 1000)), nil, nil))
		fmt.Fprintf(GinkgoWriter, "%d bytes\n", len(page))
		Expect(len(page)).To(BeNumerically("<", 3_000_000))
	})
})
