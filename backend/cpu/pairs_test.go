package cpu_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// pairTargets are those that compute in a type: portable Go, and the host where it has the instructions.
func pairTargets(y pairs.Type) []isa.Target {
	return slices.DeleteFunc(isa.Targets(), func(t isa.Target) bool { return !y.On(t) })
}

// paired is a model under the option precision. Operands of products are numbers that the type holds while the graph is built, and so
// the reference kernels have multiplied those; the backend gets others that round to them.
type paired struct {
	*model
	dropped  int  // bits that rounding drops
	rounds   bool // activations
	operands []*graph.Value
	targets  []isa.Target
}

func newPaired(m *model) *paired {
	if m.chance(3) {
		m.options = map[string]string{"precision": "f16"}
		exact := func(t isa.Target) bool { return t.Float16() } // which adds up in float16: "adds up in float16" compares it
		return &paired{model: m, dropped: 13, rounds: true, targets: slices.DeleteFunc(pairTargets(pairs.Float16), exact)}
	}
	m.options = map[string]string{"precision": "bf16"}
	return &paired{model: m, dropped: 16, rounds: true, targets: pairTargets(pairs.BFloat16)}
}

// newHalves is the same for weights=f16.
func newHalves(m *model) *paired {
	m.options = map[string]string{"weights": "f16"}
	return &paired{model: m, dropped: 13, targets: isa.Targets()}
}

// operand makes the content of an input or constant, which no node has yet read, numbers that the type holds.
func (p *paired) operand(v *graph.Value) *graph.Value {
	GinkgoHelper()
	x := tensor.Of[float32](p.known[v])
	for i := range x {
		if p.dropped == 16 {
			x[i] = tensor.BFloat16ToFloat32(tensor.Float32ToBFloat16(x[i]))
		} else {
			x[i] = tensor.Float16ToFloat32(tensor.Float32ToFloat16(x[i]))
		}
	}
	p.operands = append(p.operands, v)
	return v
}

// compare moves operands by less than half of what the last place that stays is worth, where they are no small numbers, and compares.
func (p *paired) compare(outputs ...*graph.Value) {
	GinkgoHelper()
	for _, v := range p.operands {
		t := p.known[v]
		moved := make([]float32, t.Len())
		for i, x := range tensor.Of[float32](t) {
			b := math.Float32bits(x)
			if math.Abs(float64(x)) > 1e-3 {
				b += uint32(p.r.IntN(1<<p.dropped-1)) - (1<<(p.dropped-1) - 1)
			}
			moved[i] = math.Float32frombits(b)
		}
		if v.IsConst() {
			v.Const = tensor.From(moved, t.Shape...)
		} else {
			p.feeds[v.Name] = tensor.From(moved, t.Shape...)
		}
	}
	p.g.SetOutputs(outputs...)
	for _, t := range p.targets {
		w := way{target: t, threads: 2, strict: true}
		if p.chance(2) {
			w = way{target: t, threads: 1, strict: true, guarded: true, side: pick(p.model, guard.End, guard.Start)}
		}
		Expect(p.run(w)).To(Succeed(), "seed %d, %v\n%v", p.seed, w, p.model)
	}
}

// tail adds what is fused behind a product, or not.
func (p *paired) tail(y *graph.Value, bias int) *graph.Value {
	if bias > 0 && p.chance(2) {
		y = p.op("Add", y, p.constant(bias))
	}
	if p.chance(2) {
		y = p.op("Add", y, p.input(p.known[y].Shape...))
	}
	return activate(p.model, y)
}

// gemmOf compares a random Gemm.
func gemmOf(p *paired) {
	GinkgoHelper()
	rows, k, n := p.between(1, 40), p.between(1, 300), p.between(1, 100)
	x, w, a, b := []int{rows, k}, []int{k, n}, 0, 0
	if p.chance(3) {
		slices.Reverse(x)
		a = 1
	}
	if p.chance(2) {
		slices.Reverse(w)
		b = 1
	}
	in := []any{p.input(x...), p.operand(p.constant(w...))}
	if p.rounds {
		p.operand(in[0].(*graph.Value))
	}
	if p.chance(2) {
		in = append(in, p.constant(pick(p.model, []int{n}, []int{1, n}, []int{rows, n}, []int{1})...))
	}
	in = append(in, graph.IntAttr("transA", int64(a)), graph.IntAttr("transB", int64(b)))
	if p.chance(4) {
		in = append(in, graph.FloatAttr("alpha", 0.5), graph.FloatAttr("beta", 2))
	}
	p.compare(p.tail(p.op("Gemm", in...), 0))
}

// recurrentOf compares a random recurrent operator over one step, whose state is given, or of which the recurrent weights are zeros: the states
// between steps, which are rounded, would not be those of the reference kernels.
func recurrentOf(p *paired) {
	GinkgoHelper()
	op := pick(p.model, "LSTM", "GRU", "RNN")
	gates := map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1}[op]
	seq, batch, in, hidden := p.between(1, 30), p.between(1, 4), p.between(1, 40), p.between(1, 40)
	dirs, direction := 1, pick(p.model, "forward", "reverse")
	if p.chance(3) {
		dirs, direction = 2, "bidirectional"
	}
	one := p.chance(2)
	if one {
		seq = 1
	}
	x, w := p.input(seq, batch, in), p.operand(p.scaled(0.3, dirs, gates*hidden, in))
	r, h := p.scaled(0, dirs, gates*hidden, hidden), p.input(dirs, batch, hidden)
	if p.rounds {
		p.operand(x)
	}
	if one && op != "GRU" { // whose recurrent weights stay, and so do states
		r = p.operand(p.scaled(0.3, dirs, gates*hidden, hidden))
		if p.rounds {
			p.operand(h)
		}
	}
	var lengths *graph.Value
	if op != "RNN" && p.chance(3) {
		list := make([]int32, batch)
		for b := range list {
			list[b] = int32(p.between(1, seq)) // behind none the state stays as it was before it was rounded
		}
		lengths = p.data(tensor.From(list))
	}
	out := p.ops(op, 2, x, w, r, p.constant(dirs, 2*gates*hidden), lengths, h, graph.IntAttr("hidden_size", int64(hidden)), graph.StringAttr("direction", direction))
	p.compare(out...)
}

// backAndForth has weights packed as options say, and compares what is unpacked with what they round to. It does so for convolutions too, where
// these have such weights.
func backAndForth(ctx context.Context, y pairs.Type, options map[string]string, suffix string, round func(float32) float32) {
	GinkgoHelper()
	for _, t := range isa.Targets() {
		if !y.On(t) {
			continue
		}
		options["isa"], options["winograd"] = t.String(), "off"
		b, err := cpu.Open(backend.Config{Name: "cpu", Options: options})
		Expect(err).NotTo(HaveOccurred())
		m := newModel(1)
		for _, v := range []*graph.Value{
			m.op("Conv", m.input(1, 20, 8, 8), m.constant(33, 20, 3, 3)),
			m.op("Conv", m.input(1, 21, 8, 8), m.constant(9, 7, 3, 2), group(3)),
			m.op("ConvTranspose", m.input(1, 21, 8), m.constant(21, 9, 3)),
			m.op("MatMul", m.input(5, 37), m.constant(37, 45)),
			m.op("Gemm", m.input(5, 37), m.constant(45, 37), graph.IntAttr("transB", 1)),
			m.op("LSTM", m.input(5, 2, 9), m.constant(2, 4*7, 9), m.constant(2, 4*7, 7), graph.IntAttr("hidden_size", 7), graph.StringAttr("direction", "bidirectional")),
		} {
			s := b.Supports(v.Producer).Signatures[0]
			if options["weights"] != "" && v.Producer.Is("Conv", "ConvTranspose") {
				continue
			}
			Expect(s.Name).To(HaveSuffix(suffix))
			format, w := s.Inputs[1].Format, v.Producer.Inputs[1].Const
			dims := w.Shape
			elements := w.Len()
			for _, c := range b.(convert.Source).ConvertersOf(format.Layout) {
				size, err := c.Size(format, tensor.Float32, dims)
				Expect(err).NotTo(HaveOccurred())
				move, err := c.Plan(tensor.Float32, dims)
				Expect(err).NotTo(HaveOccurred())
				if c.From != graph.HostFormat {
					size = int64(4 * elements)
				}
				out := &tensor.Tensor{DType: tensor.Float32, Shape: dims, Data: make([]byte, size)}
				Expect(move(ctx, out, w, convert.Exec{})).To(Succeed())
				w = out
				_, err = c.Plan(tensor.Float32, []int{1 << 62})
				Expect(err).To(HaveOccurred())
				_, err = c.Plan(tensor.Float32, []int{1 << 30, 1 << 28})
				Expect(err).To(HaveOccurred())
			}
			for i, x := range tensor.Of[float32](v.Producer.Inputs[1].Const) {
				Expect(tensor.Of[float32](w)[i]).To(Equal(round(x)), "%v %d", v.Producer, i)
			}
		}
	}
}

var _ = Describe("The option precision", func() {
	It("multiplies matrices of bfloat16, with their tails", seeds(60, func(m *model) {
		p := newPaired(m)
		k, n := p.between(1, 200), p.between(1, 150)
		shape := []int{p.between(1, 40), k}
		if p.chance(2) {
			shape = append([]int{p.between(1, 4)}, shape...)
		}
		if p.chance(8) {
			shape = []int{k}
		}
		x, w := p.operand(p.input(shape...)), p.operand(p.constant(k, n))
		p.compare(p.tail(p.op("MatMul", x, w), n))
	}))

	It("multiplies those of Gemm, transposed or not", seeds(60, func(m *model) { gemmOf(newPaired(m)) }))

	It("convolves bfloat16, with tails, in groups, over one and two axes, transposed or not", seeds(150, func(m *model) {
		p := newPaired(m)
		groups := pick(m, 1, 1, 1, 2, 3)
		c, oc := groups*p.between(5, 40), groups*p.between(1, 40)
		if groups == 1 { // those of few results are exact
			oc += 4
		}
		spatial, taps := []int{p.between(3, 14), p.between(3, 14)}, []int{p.between(1, 3), p.between(1, 3)}
		if p.chance(3) {
			spatial, taps = spatial[:1], taps[:1]
		}
		stride, pad := make([]int64, len(taps)), make([]int64, 2*len(taps))
		for i := range taps {
			stride[i], pad[i] = int64(p.between(1, 2)), int64(p.between(0, taps[i]-1))
		}
		x := p.operand(p.input(append([]int{p.between(1, 2), c}, spatial...)...))
		op, w := "Conv", append([]int{oc, c / groups}, taps...)
		if p.chance(4) {
			op, w = "ConvTranspose", append([]int{c, oc / groups}, taps...)
		}
		in := []any{x, p.operand(p.scaled(0.2, w...))}
		if p.chance(2) {
			in = append(in, p.constant(oc))
		}
		p.compare(p.tail(p.op(op, append(in, strides(stride...), pads(pad...), group(groups))...), 0))
	}))

	It("rounds operands of attention, and what becomes of scores", seeds(40, func(m *model) {
		p := newPaired(m)
		batch, own, share, size, to := p.between(1, 2), p.between(1, 3), pick(m, 1, 1, 2, 20), p.between(1, 70), p.between(1, 70)
		rows, keys := p.between(9, 150), p.between(1, 140)
		if share == 20 {
			rows = pick(m, 1, rows)
		}
		heads := func(n, rows, size int) (x, y *graph.Value) { // and as the product reads them
			if p.chance(2) {
				x = p.operand(p.input(batch, rows, n, size))
				return x, p.op("Transpose", x, graph.IntsAttr("perm", 0, 2, 1, 3))
			}
			x = p.operand(p.input(batch, n, rows, size))
			return x, x
		}
		shared := func(y *graph.Value, rows, size int) *graph.Value {
			if share == 1 {
				return y
			}
			y = p.op("Expand", p.op("Unsqueeze", y, p.ints(2)), p.ints(int64(batch), int64(own), int64(share), int64(rows), int64(size)))
			return p.op("Reshape", y, p.ints(int64(batch), int64(own*share), int64(rows), int64(size)))
		}
		_, q := heads(own*share, rows, size)
		_, k := heads(own, keys, size)
		x, v := heads(own, keys, to)
		if p.chance(2) {
			q = p.op("Mul", q, p.scalar(0.5))
		}
		scores := p.op("MatMul", q, p.op("Transpose", shared(k, keys, size), graph.IntsAttr("perm", 0, 1, 3, 2)))
		scores = p.op("Add", p.op("Mul", scores, p.scalar(0.3)), p.input(1, 1, rows, keys))
		y := p.op("MatMul", p.op("Softmax", scores, axis(-1)), shared(v, keys, to))
		largest := 0.0
		for _, f := range tensor.Of[float32](p.known[x]) {
			largest = max(largest, math.Abs(float64(f)))
		}
		want := tensor.Of[float32](p.known[y])
		p.judge = func(got map[string]tensor.Value) string {
			for i, f := range tensor.Of[float32](got[y.Name].(*tensor.Tensor)) { // weights sum to one, and each is off by a rounding
				if d := math.Abs(float64(f) - float64(want[i])); !(d <= largest*(halfTypes[tensor.BFloat16]+1e-4)) {
					return fmt.Sprintf("%g instead of %g at %d", f, want[i], i)
				}
			}
			return ""
		}
		p.compare(y)
	}))

	It("rounds inputs and states of recurrent operators", seeds(30, func(m *model) { recurrentOf(newPaired(m)) }))

	It("rounds images that are channels of another one", func() {
		p := newPaired(newModel(1))
		x := p.operand(p.input(1, 64, 9, 9))
		parts := p.ops("Split", 2, x, p.ints(32, 32), axis(1))
		p.compare(p.op("Concat", p.op("Conv", parts[0], p.operand(p.constant(16, 32, 1, 1))), p.op("Conv", parts[1], p.operand(p.constant(32, 32, 3, 3)), pads(1, 1, 1, 1)), axis(1)))
	})

	It("leaves depthwise convolutions, those of few channels or results and over three axes, and products of activations exact", func() {
		m := newModel(1)
		m.options = map[string]string{"precision": "bf16"}
		for _, y := range []*graph.Value{
			m.op("Conv", m.input(1, 24, 9, 9), m.constant(24, 1, 3, 3), group(24)),
			m.op("Conv", m.input(1, 24, 9, 9), m.constant(24, 4, 3, 3), group(6)),
			m.op("Conv", m.input(1, 3, 9, 9), m.constant(16, 3, 3, 3)),
			m.op("Conv", m.input(1, 32, 9, 9), m.constant(3, 32, 3, 3)),
			m.op("Conv", m.input(1, 20, 5, 5, 5), m.constant(16, 20, 3, 3, 3)),
			m.op("MatMul", m.input(5, 6), m.input(6, 7)),
		} {
			m.g.SetOutputs(y)
			for _, t := range pairTargets(pairs.BFloat16) {
				Expect(m.run(way{target: t, threads: 1, strict: true})).To(Succeed(), "%v", y.Producer)
			}
		}
	})

	It("gives the same bits for every number of threads", func(ctx context.Context) {
		m := newModel(1)
		x := m.op("Relu", m.op("Conv", m.input(2, 40, 30, 30), m.constant(70, 40, 3, 3)))
		y := m.op("MatMul", m.op("Reshape", x, m.ints(70, 28*56)), m.scaled(0.1, 28*56, 90))
		m.g.SetOutputs(y)
		for _, kind := range []pairs.Type{pairs.BFloat16, pairs.Float16} {
			var first []byte
			targets := pairTargets(kind)
			for _, threads := range []int{1, 2, 3} {
				out, r := mustExecute(m.g, m.feeds, &carve.Options{Threads: threads, Backends: []backend.Config{{Name: "cpu", Options: map[string]string{
					"precision": kind.String(), "isa": targets[len(targets)-1].String()}}}})
				Expect(r.Groups).To(ConsistOf(HaveField("Precision", kind.String())))
				if first == nil {
					first = out[y.Name].(*tensor.Tensor).Bytes()
				}
				Expect(out[y.Name].(*tensor.Tensor).Bytes()).To(Equal(first))
			}
		}
	})

	It("adds up in float16 within its roundings, and not where float16 does not hold the weights", func() {
		if !isa.Host().Float16() {
			Skip("this processor has no arithmetic of float16 that is used")
		}
		m := newModel(1)
		large := m.floats(64, 64)
		tensor.Of[float32](large)[9] = 70000
		x := m.op("Relu", m.op("Conv", m.input(1, 40, 12, 12), m.scaled(0.1, 64, 40, 3, 3)))
		y := m.op("MatMul", m.op("Reshape", x, m.ints(100, 64)), m.scaled(0.1, 64, 90))
		z := m.op("MatMul", m.op("Reshape", x, m.ints(100, 64)), m.data(large))
		m.g.SetOutputs(y, z)
		out, _ := mustExecute(m.g, m.feeds, &carve.Options{Backends: []backend.Config{{Name: "cpu", Options: map[string]string{"precision": "f16", "winograd": "off"}}}})
		for v, tolerance := range map[*graph.Value]float64{y: 0.01, z: 0.01 * 70000} { // of results of about 2, and of large ones, whose operands have been added up in float16
			got, want, differs := tensor.Of[float32](out[v.Name].(*tensor.Tensor)), tensor.Of[float32](m.known[v]), false
			for i := range want {
				Expect(got[i]).To(BeNumerically("~", want[i], tolerance), "%v %d", v, i)
				differs = differs || math.Abs(float64(got[i]-want[i])) > 1e-4
			}
			Expect(differs).To(BeTrue())
		}
	})

	It("gives rounded weights back to who needs them row-major", func(ctx context.Context) {
		backAndForth(ctx, pairs.BFloat16, map[string]string{"precision": "bf16"}, "-bf16", func(x float32) float32 { return tensor.BFloat16ToFloat32(tensor.Float32ToBFloat16(x)) })
		backAndForth(ctx, pairs.Float16, map[string]string{"precision": "f16"}, "-f16", func(x float32) float32 { return tensor.Float16ToFloat32(tensor.Float32ToFloat16(x)) })
	})

	It("is named where it has effect, said to have none where there are no instructions, and refused there under Strict", func(ctx context.Context) {
		m := newModel(1)
		y := m.op("MatMul", m.input(3, 20), m.constant(20, 30))
		m.g.SetOutputs(y)
		for i := range 2 * len(isa.Targets()) {
			t, kind := isa.Targets()[i/2], []pairs.Type{pairs.BFloat16, pairs.Float16}[i%2]
			list := []backend.Config{{Name: "cpu", Options: map[string]string{"precision": kind.String(), "isa": t.String()}}}
			b, err := cpu.Open(list[0])
			Expect(err).NotTo(HaveOccurred())
			if kind.On(t) {
				tiles := ""
				if kind == pairs.BFloat16 && t.BFloat16Tiles() {
					tiles = " by AMX"
				}
				Expect(b.Info()).To(And(HaveField("Precision", kind.String()), HaveField("Unmet", ""), HaveField("Processor", HaveSuffix(", products in "+kind.String()+tiles))))
				continue
			}
			Expect(b.Info()).To(And(HaveField("Precision", ""), HaveField("Unmet", ContainSubstring("precision=%v: no ", kind))))
			out, r := mustExecute(m.g, m.feeds, &carve.Options{Backends: list})
			Expect(differ(out[y.Name].(*tensor.Tensor), m.known[y])).To(Succeed())
			Expect(r.Groups).To(ConsistOf(HaveField("Precision", "")))
			_, _, err = execute(m.g, m.feeds, &carve.Options{Backends: list, Strict: true})
			Expect(err).To(MatchError(backend.ErrUnavailable))
		}
	})

	It("is modelled to do twice the work, where there are laws", func() {
		law := func(precision, class, signature string) backend.Law {
			b, err := cpu.Open(backend.Config{Name: "cpu", Options: map[string]string{"precision": precision}})
			Expect(err).NotTo(HaveOccurred())
			l, _ := b.Info().Efficiency.For(class, signature)
			return l
		}
		if !isa.Host().BFloat16() {
			Skip("this processor has no products of bfloat16 that are used")
		}
		for class, signature := range map[string]string{"conv": "nchw16c", "product": "packed"} {
			exact := law("f32", class, signature)
			Expect(exact.Work).To(BeNumerically(">", 0))
			Expect(law("bf16", class, signature+"-bf16").Work).To(Equal(exact.Work / 2))
			Expect(law("bf16", class, signature).Work).To(Equal(exact.Work), "of nodes that stay exact")
		}
	})

	It("is one of three", func() {
		for _, value := range []string{"", "f64", "BF16", "high"} {
			_, err := cpu.Open(backend.Config{Name: "cpu", Options: map[string]string{"precision": value}})
			Expect(err).To(MatchError(backend.ErrOption), fmt.Sprint(value))
		}
		b, err := cpu.Open(backend.Config{Name: "cpu", Options: map[string]string{"precision": "f32"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Info().Precision).To(BeEmpty())
	})
})

var _ = Describe("Weights whose numbers are the same in float16", func() {
	It("are kept so, with the results of float32, bit by bit", seeds(30, func(m *model) {
		k, n := pick(m, m.between(128, 300), 1024), pick(m, m.between(128, 200), 512)
		x := m.input(pick(m, 1, m.between(2, 40)), k)
		y := m.op("MatMul", x, m.data(as(m.floats(k, n), tensor.Float16, true)))
		if m.chance(2) {
			y = m.op("Gemm", x, m.data(as(m.floats(n, k), tensor.Float16, true)), m.constant(n), graph.IntAttr("transB", 1))
		}
		y = m.op("Relu", y)
		m.sample(y)
		for _, t := range isa.Targets() {
			var got [2]map[string]tensor.Value
			for i, weights := range []map[string]string{{"isa": t.String()}, {"isa": t.String(), "weights": "f32"}} {
				got[i], _ = mustExecute(m.g, m.feeds, &carve.Options{Strict: true, Backends: []backend.Config{{Name: "cpu", Options: weights}}})
			}
			Expect(got[0][y.Name].(*tensor.Tensor).Bytes()).To(Equal(got[1][y.Name].(*tensor.Tensor).Bytes()), "seed %d, %v", m.seed, t)
		}
	}))

	It("are large, and all of one tensor", func() {
		m := newModel(3)
		almost := as(m.floats(130, 140), tensor.Float16, true)
		tensor.Of[float32](almost)[130*140-1] = 1.0001
		node := map[string]*graph.Node{
			"small": m.op("MatMul", m.input(2, 100), m.data(as(m.floats(100, 100), tensor.Float16, true))).Producer,
			"same":  m.op("MatMul", m.input(2, 130), m.data(as(m.floats(130, 140), tensor.Float16, true))).Producer,
			"but":   m.op("MatMul", m.input(2, 130), m.data(almost)).Producer,
		}
		for _, t := range isa.Targets() {
			for _, weights := range []string{"", "f32"} {
				options := map[string]string{"isa": t.String()}
				if weights != "" {
					options["weights"] = weights
				}
				b, err := cpu.Open(backend.Config{Name: "cpu", Options: options})
				Expect(err).NotTo(HaveOccurred())
				for name, n := range node {
					narrow := HaveSuffix("-f16")
					if name != "same" || weights == "f32" || t.Set == isa.Portable {
						narrow = Not(narrow)
					}
					Expect(b.Supports(n).Signatures[0].Name).To(narrow, "%v %s %q", t, name, weights)
				}
			}
		}
	})
})

var _ = Describe("The option weights=f16", func() {
	It("keeps weights of products in half precision, and multiplies float32", seeds(60, func(m *model) { gemmOf(newHalves(m)) }))

	It("does so in MatMul, of any rank", seeds(40, func(m *model) {
		p := newHalves(m)
		k, n := p.between(1, 200), p.between(1, 150)
		y := p.op("MatMul", p.input(pick(m, []int{k}, []int{3, k}, []int{2, 5, k})...), p.operand(p.constant(k, n)))
		p.compare(p.tail(y, n))
	}))

	It("does so in recurrent operators", seeds(30, func(m *model) { recurrentOf(newHalves(m)) }))

	It("gives rounded weights back to who needs them row-major", func(ctx context.Context) {
		backAndForth(ctx, pairs.Float32, map[string]string{"weights": "f16"}, "-f16", func(x float32) float32 { return tensor.Float16ToFloat32(tensor.Float32ToFloat16(x)) })
	})

	It("leaves weights that float16 does not hold, and convolutions", func() {
		b, err := cpu.Open(backend.Config{Name: "cpu", Options: map[string]string{"weights": "f16", "isa": "portable"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Info().Precision).To(Equal("f32 with f16 weights"))
		m := newModel(1)
		large, infinite := m.floats(20, 30), m.floats(20, 30)
		tensor.Of[float32](large)[77], tensor.Of[float32](infinite)[77] = -65520, float32(math.Inf(1))
		narrow := HaveSuffix("-f16")
		for y, matcher := range map[*graph.Value]OmegaMatcher{
			m.op("MatMul", m.input(3, 20), m.data(m.floats(20, 30))):    narrow,
			m.op("MatMul", m.input(3, 20), m.data(infinite)):            narrow,
			m.op("MatMul", m.input(3, 20), m.data(large)):               Not(narrow),
			m.op("MatMul", m.input(3, 20), m.input(20, 30)):             Not(narrow),
			m.op("Conv", m.input(1, 20, 5, 5), m.constant(9, 20, 1, 1)): Not(narrow),
		} {
			Expect(b.Supports(y.Producer).Signatures[0].Name).To(matcher, "%v", y.Producer)
			Expect(b.Supports(y.Producer).Signatures[0].Name).To(matcher, "again")
		}
	})

	It("is one of two, and excludes other precisions", func() {
		for _, options := range []map[string]string{{"weights": ""}, {"weights": "bf16"}, {"weights": "f16", "precision": "bf16"}, {"weights": "f16", "precision": "f16"}} {
			_, err := cpu.Open(backend.Config{Name: "cpu", Options: options})
			Expect(err).To(MatchError(backend.ErrOption))
		}
	})
})
