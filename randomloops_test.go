package carve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/testshare"
)

// loopNet makes a random network with a loop in it, in two ways that compute the same: with a Loop or Scan, and with its body
// written out as often as it runs.
type loopNet struct {
	*randomNet
	unroll  bool
	it      int          // the iteration, where the body is written out
	index   *graph.Value // the iteration, in a body
	outputs []*graph.Value
}

// newLoopNet makes the network of a seed.
func newLoopNet(seed uint64, unroll bool) *loopNet {
	r := &randomNet{rng: rand.New(rand.NewPCG(seed, 23)), g: graph.New("loops")}
	r.g.Opsets[""] = 17
	l := &loopNet{randomNet: r, unroll: unroll}
	c, h, w := 1+r.rng.IntN(20), 4+r.rng.IntN(5), 4+r.rng.IntN(5)
	for i := range 1 + r.rng.IntN(2) {
		shape := graph.Shape{graph.Sym("N"), graph.D(c), graph.D(h), graph.D(w)}
		r.images = append(r.images, image{r.g.AddInput(fmt.Sprint("x", i), graph.TensorType(tensor.Float32, shape)), c, h, w})
	}
	l.steps(r.rng.IntN(3))
	l.loop(0)
	l.steps(r.rng.IntN(3))
	for _, m := range r.images[max(0, len(r.images)-4):] {
		l.outputs = append(l.outputs, m.v)
	}
	r.g.SetOutputs(l.outputs...)
	return l
}

// steps adds a few operators.
func (l *loopNet) steps(n int) {
	for range n {
		l.step() // what it gives as an output of a model is left out
	}
}

// within emits what fill does into a graph of its own, or in place where the body is written out, with these images, the
// random numbers of a seed, and everything as it was afterwards.
func (l *loopNet) within(g *graph.Graph, seed uint64, images []image, fill func()) {
	r := l.randomNet
	was, rng, before, names := r.g, r.rng, r.images, r.names
	r.g, r.rng, r.images = g, rand.New(rand.NewPCG(seed, 5)), images
	fill()
	r.g, r.rng, r.images = was, rng, before
	if !l.unroll {
		r.names = max(r.names, names)
	}
}

// carriedOf picks what the next iteration gets for an image: one of its size, which may be one that came in.
func (l *loopNet) carriedOf(m image) *graph.Value {
	for range 6 {
		if o := l.images[l.rng.IntN(len(l.images))]; o.c == m.c && o.h == m.h && o.w == m.w {
			if l.rng.IntN(4) == 0 {
				return o.v
			}
			return l.node([]string{"Tanh", "Sigmoid", "HardSwish"}[l.rng.IntN(3)], nil, o.v)
		}
	}
	w := l.constant(0.3, m.c, m.c, 1, 1)
	return l.node("Tanh", nil, l.node("Conv", nil, m.v, w))
}

// plan is what a loop is.
type loopPlan struct {
	seed     uint64
	carried  []image
	captured []image
	trips    int
	limit    int // iterations after which the condition ends it, -1 for none
	stacks   int
	depth    int
}

// body emits one iteration on images, the carried ones first. It returns what is carried and what is stacked.
func (l *loopNet) body(p *loopPlan) (next, stacked []*graph.Value) {
	in := l.images[:len(p.carried):len(p.carried)]
	for n := 1 + l.rng.IntN(5); n > 0; n-- {
		switch {
		case p.depth < 2 && l.rng.IntN(6) == 0:
			l.loop(p.depth + 1)
		case l.rng.IntN(6) == 0:
			l.branch()
		default:
			l.step()
		}
	}
	for _, m := range in {
		next = append(next, l.carriedOf(m))
	}
	for range p.stacks {
		stacked = append(stacked, l.node("Abs", nil, l.pick().v))
	}
	if p.stacks > 0 && l.rng.IntN(3) == 0 {
		stacked[0] = next[0]
	}
	return next, stacked
}

// loop adds a loop, or its iterations.
func (l *loopNet) loop(depth int) {
	p := &loopPlan{seed: l.rng.Uint64(), trips: l.rng.IntN(5), limit: -1, depth: depth}
	for range 1 + l.rng.IntN(3) {
		p.carried = append(p.carried, l.pick())
	}
	for range l.rng.IntN(3) {
		p.captured = append(p.captured, l.pick())
	}
	if l.rng.IntN(3) == 0 {
		p.limit = l.rng.IntN(4)
	}
	if depth == 0 {
		p.stacks = l.rng.IntN(3)
	}
	if l.unroll {
		l.written(p)
		return
	}
	l.looped(p)
}

// written writes the iterations out.
func (l *loopNet) written(p *loopPlan) {
	cur := append([]image(nil), p.carried...)
	slices := make([][]*graph.Value, p.stacks)
	n := p.trips
	if p.limit >= 0 {
		n = min(n, p.limit+1)
	}
	was := l.it
	for it := range n {
		l.it = it
		l.within(l.g, p.seed, append(append([]image(nil), cur...), p.captured...), func() {
			next, stacked := l.body(p)
			for k, v := range next {
				cur[k].v = v
			}
			for k, v := range stacked {
				slices[k] = append(slices[k], l.node("Unsqueeze", nil, v, l.ints(0)))
			}
		})
	}
	l.it = was
	for _, m := range cur {
		l.keep(l.node("Identity", nil, m.v), m.c, m.h, m.w)
	}
	for k := range slices {
		if len(slices[k]) == 0 { // nothing to compare with
			l.outputs = append(l.outputs, l.node("Neg", nil, p.carried[0].v))
			continue
		}
		l.outputs = append(l.outputs, l.node("Concat", []graph.Attr{graph.IntAttr("axis", 0)}, slices[k]...))
	}
}

// looped makes a Loop.
func (l *loopNet) looped(p *loopPlan) {
	body := graph.New("body")
	body.Opsets[""] = 17
	index := body.AddInput("i", graph.TensorType(tensor.Int64, graph.Shape{}))
	goes := body.AddInput("go", graph.TensorType(tensor.Bool, graph.Shape{}))
	var images []image
	var captures []*graph.Value
	image4 := func(m image) graph.Type {
		return graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.D(m.c), graph.D(m.h), graph.D(m.w)})
	}
	for k, m := range p.carried {
		images = append(images, image{body.AddInput(fmt.Sprint("s", p.depth, k), image4(m)), m.c, m.h, m.w})
	}
	for k, m := range p.captured {
		captures = append(captures, m.v)
		images = append(images, image{body.AddCapture(fmt.Sprint("t", p.depth, k), image4(m)), m.c, m.h, m.w})
	}
	var results []*graph.Value
	was := l.index
	l.index = index
	l.within(body, p.seed, images, func() {
		next, stacked := l.body(p)
		cond := goes
		if p.limit >= 0 {
			cond = l.node("Less", nil, index, body.AddConst("limit", tensor.Scalar(int64(p.limit))))
		}
		results = append(append([]*graph.Value{cond}, next...), stacked...)
	})
	l.index = was
	body.SetOutputs(results...)
	l.names++
	spec := graph.NodeSpec{Op: graph.Op{Name: "Loop"}, Name: fmt.Sprint("loop", l.names), Captures: captures, Regions: []graph.Region{{Name: "body", Graph: body}},
		Inputs: []*graph.Value{l.g.AddConst("trips", tensor.Scalar(int64(p.trips))), l.g.AddConst("go", tensor.Scalar(true))}}
	for k, m := range p.carried {
		spec.Inputs = append(spec.Inputs, m.v)
		spec.Outputs = append(spec.Outputs, fmt.Sprint("l", l.names, "_", k))
	}
	for k := range p.stacks {
		spec.Outputs = append(spec.Outputs, fmt.Sprint("k", l.names, "_", k))
	}
	n := l.g.AddNode(spec)
	for k, m := range p.carried {
		l.keep(n.Outputs[k], m.c, m.h, m.w)
	}
	count := p.trips
	if p.limit >= 0 {
		count = min(count, p.limit+1)
	}
	for _, v := range n.Outputs[len(p.carried):] {
		if count == 0 {
			v = l.node("Neg", nil, p.carried[0].v)
		}
		l.outputs = append(l.outputs, v)
	}
}

// branch adds an If on whether the iteration is even, or what its branch does.
func (l *loopNet) branch() {
	m := l.pick()
	list := append([]image{m}, l.pick())
	seeds := [2]uint64{l.rng.Uint64(), l.rng.Uint64()}
	arm := func(g *graph.Graph, k int, images []image) (out *graph.Value) {
		l.within(g, seeds[k], images, func() {
			l.step()
			m := m
			m.v = l.images[0].v
			out = l.carriedOf(m)
		})
		return out
	}
	if l.unroll {
		l.keep(l.node("Identity", nil, arm(l.g, l.it%2, list)), m.c, m.h, m.w)
		return
	}
	var regions []graph.Region
	var captures []*graph.Value
	for _, c := range list {
		captures = append(captures, c.v)
	}
	for k, name := range []string{"then_branch", "else_branch"} {
		g := graph.New(name)
		g.Opsets[""] = 17
		var images []image
		for i, c := range list {
			t := graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.D(c.c), graph.D(c.h), graph.D(c.w)})
			images = append(images, image{g.AddCapture(fmt.Sprint("b", i), t), c.c, c.h, c.w})
		}
		g.SetOutputs(arm(g, k, images))
		regions = append(regions, graph.Region{Name: name, Graph: g})
	}
	two, zero := l.g.AddConst("two", tensor.Scalar(int64(2))), l.g.AddConst("zero", tensor.Scalar(int64(0)))
	even := l.node("Equal", nil, l.node("Mod", nil, l.index, two), zero)
	l.names++
	n := l.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "If"}, Name: fmt.Sprint("if", l.names), Inputs: []*graph.Value{even}, Captures: captures,
		Regions: regions, Outputs: []string{fmt.Sprint("i", l.names)}})
	l.keep(n.Outputs[0], m.c, m.h, m.w)
}

// runLoops computes random loops, and what they are written out.
func runLoops(ctx context.Context, from, to uint64, others func(rng *rand.Rand) []*carve.Options) {
	GinkgoHelper()
	turn := newTurned()
	for seed := from; seed < to; seed++ {
		l, written := newLoopNet(seed, false), newLoopNet(seed, true)
		feeds := l.feeds(1 + l.rng.IntN(2))
		m, w := carve.FromGraph(l.g), carve.FromGraph(written.g)
		text := l.g.String()
		fail := func(what string, err any) {
			GinkgoHelper()
			Fail(fmt.Sprintf("seed %d: %s: %v\n%s", seed, what, err, text))
		}
		want, _, err := compute(ctx, w, &carve.Options{Backends: onReference, Strict: true}, feeds)
		if err != nil {
			fail("written out", err)
		}
		list := append([]*carve.Options{{Backends: onReference, Strict: true, Verify: true, Poison: true}, {Verify: true, Poison: true}, layered(l.rng, turn)}, others(l.rng)...)
		for _, o := range list {
			got, _, err := compute(ctx, m, o, feeds)
			if err != nil {
				fail(fmt.Sprint(o.Backends), err)
			}
			for k, v := range l.g.Outputs {
				a, b := got[v.Name].(*tensor.Tensor), want[written.g.Outputs[k].Name].(*tensor.Tensor)
				if d := far(a, b); !(d <= 1) {
					fail(fmt.Sprint(o.Backends), fmt.Sprintf("output %d is %.1f tolerances away", k, d))
				}
			}
		}
		m.Close()
		w.Close()
	}
}

var _ = Describe("Random loops", func() {
	devices := func(rng *rand.Rand) []*carve.Options {
		b := fake.New(fake.Options{Name: "device"})
		return []*carve.Options{{Open: map[string]backend.Backend{"device": b}, Backends: []backend.Config{{Name: "device"}}, Verify: true, Poison: true, Streams: 1 + rng.IntN(2)}}
	}

	It("give what their iterations give when they are written out", func(ctx SpecContext) {
		runLoops(ctx, 0, uint64(testshare.Of(60)), devices)
	})

	It("do so in great number", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		runLoops(ctx, 60, 2000, devices)
	})
})
