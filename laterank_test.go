package carve_test

import (
	"context"
	"runtime"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// noting is a backend that notes the operators of what it compiles.
type noting struct {
	backend.Backend
	mu  sync.Mutex
	ops []string
}

func (b *noting) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	b.mu.Lock()
	for n := range sub.Nodes() {
		b.ops = append(b.ops, n.Op.Name)
	}
	b.mu.Unlock()
	return b.Backend.Compile(ctx, sub, o)
}

// took returns the operators since it was last asked.
func (b *noting) took() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.ops
	b.ops = nil
	slices.Sort(out)
	return out
}

var _ = Describe("groups with operands of unknown rank", func() {
	const branches = `graph {
  opset 17
  input %x: f32[N,32]
  input %deep: bool[]
  const %scale = f32[32]{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32}
  const %axis = i64[1]{1}
  %picked = If(%deep | %x, %axis) {
    then_branch: graph {
      capture %x: f32[N,32]
      capture %axis: i64[1]
      %u = Unsqueeze(%x, %axis)
      output %u
    }
    else_branch: graph {
      capture %x: f32[N,32]
      capture %axis: i64[1]
      %i = Identity(%x)
      output %i
    }
  }
  %e = Exp(%picked) "exp"
  %m = Mul(%e, %scale) "mul"
  %s = Softmax(%m; axis=-1) "softmax"
  %shape = Shape(%s) "shape"
  output %s, %shape
}`
	// open returns a program with a cpu that notes what it compiles.
	open := func(ctx context.Context, text string, o carve.Options) (*carve.Program, *noting) {
		GinkgoHelper()
		cpu, err := backend.Open(backend.Config{Name: "cpu"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cpu.Close)
		b := &noting{Backend: cpu}
		o.Open, o.Backends = map[string]backend.Backend{"cpu": b}, []backend.Config{{Name: "cpu"}}
		p := compile(ctx, textModel(text), &o)
		b.took()
		return p, b
	}
	bytes := func(shape ...int) *tensor.Tensor {
		t, err := tensor.New(tensor.Uint8, shape...)
		Expect(err).NotTo(HaveOccurred())
		for i := range t.Data {
			t.Data[i] = byte(i*167 + 31)
		}
		return t
	}
	same := func(ctx context.Context, p *carve.Program, text string, feeds map[string]tensor.Value) {
		GinkgoHelper()
		got, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		want, err := compile(ctx, textModel(text), &carve.Options{Backends: onReference}).Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(HaveLen(len(want)))
		for name, w := range want {
			g, w := got[name].(*tensor.Tensor), w.(*tensor.Tensor)
			Expect(g.Shape).To(Equal(w.Shape))
			if w.DType != tensor.Float32 {
				Expect(g.Bytes()).To(Equal(w.Bytes()))
				continue
			}
			for i, v := range f32s(w) {
				Expect(f32s(g)[i]).To(BeNumerically("~", v, 1e-5))
			}
		}
	}

	It("are compiled for the ranks that a run finds, once", func(ctx SpecContext) {
		p, b := open(ctx, branches, carve.Options{Verify: true, Poison: true})
		run := func(rows int, deep bool) []string {
			same(ctx, p, branches, map[string]tensor.Value{"x": wave(rows, 32), "deep": tensor.Scalar(deep)})
			return b.took()
		}
		Expect(run(1, true)).To(BeEmpty()) // few bytes are the oracle's
		Expect(run(64, true)).To(ContainElements("Exp", "Mul", "Softmax"))
		Expect(run(64, false)).To(ContainElements("Exp", "Mul", "Softmax"))
		Expect(run(100, false)).To(BeEmpty())
		Expect(run(65, true)).To(BeEmpty())
		Expect(run(0, true)).To(BeEmpty())
		held := p.Memory()
		Expect(p.Trim()).To(BeNumerically(">", 0))
		Expect(p.Memory().Arenas + p.Memory().Kept).To(BeNumerically("<", held.Arenas+held.Kept))
		Expect(run(64, false)).To(BeEmpty())
	})

	It("are a whole model whose input has no rank", func(ctx SpecContext) {
		const text = "graph {\n  opset 17\n  input %x: f32[*]\n  const %m = i64[1]{-1}\n  %r = Relu(%x) \"relu\"\n  %t = Tanh(%r)\n  %f = Reshape(%t, %m)\n  output %t, %f\n}"
		p, b := open(ctx, text, carve.Options{})
		for _, shape := range [][]int{{2000}, {40, 50}, {2, 3, 5, 70}} {
			same(ctx, p, text, map[string]tensor.Value{"x": wave(shape...)})
			Expect(b.took()).To(ContainElements("Relu", "Tanh"))
			same(ctx, p, text, map[string]tensor.Value{"x": wave(shape...)})
			Expect(b.took()).To(BeEmpty())
		}
	})

	It("are found behind what makes a rank out of data", func(ctx SpecContext) {
		const text = "graph {\n  opset 17\n  input %x: f32[N]\n  input %to: i64[K]\n  %a = Reshape(%x, %to)\n  %b = Tanh(%a)\n  %c = Reshape(%b, %to)\n  %d = Exp(%c)\n  output %d\n}"
		p, b := open(ctx, text, carve.Options{})
		for _, to := range [][]int64{{40, 50}, {2, 10, 100}, {-1}} {
			same(ctx, p, text, map[string]tensor.Value{"x": wave(2000), "to": tensor.From(to)})
			Expect(b.took()).To(ContainElements("Tanh", "Exp"))
		}
	})

	It("know which of their dims are broadcast, and have no such knowledge when there is too much of it", func(ctx SpecContext) {
		const text = `graph {
  opset 17
  opset "com.microsoft" 1
  input %a: u8[*]
  input %b: u8[*]
  const %s = f32[]{0.05}
  const %z = u8[]{120}
  %y = com.microsoft::QLinearAdd(%a, %s, %z, %b, %s, %z, %s, %z)
  output %y
}`
		p, b := open(ctx, text, carve.Options{Verify: true, Poison: true})
		run := func(x, y []int) []string {
			same(ctx, p, text, map[string]tensor.Value{"a": bytes(x...), "b": bytes(y...)})
			return b.took()
		}
		Expect(run([]int{1, 6, 9, 8}, []int{1, 6, 9, 8})).To(Equal([]string{"Fused"}))
		Expect(run([]int{1, 6, 7, 7}, []int{1, 6, 7, 7})).To(BeEmpty())
		Expect(run([]int{2, 9, 5, 7}, []int{1, 9, 1, 1})).To(Equal([]string{"Fused"}))
		Expect(run([]int{3, 8, 6, 4}, []int{1, 8, 1, 1})).To(BeEmpty())
		made := 0
		for i := range 16 {
			shape := []int{1 + i&1*4, 1 + i>>1&1*4, 1 + i>>2&1*4, 1 + i>>3&1*4}
			if len(run(shape, []int{5, 5, 5, 5})) > 0 {
				made++
			}
		}
		Expect(made).To(BeNumerically("<", 16))
		Expect(run([]int{1, 3, 9, 6}, []int{2, 3, 1, 6})).To(BeEmpty())
	})

	It("are compiled for few bytes as well, where the oracle would expand them in each run", func(ctx SpecContext) {
		const text = "graph {\n  opset 17\n  opset \"com.microsoft\" 1\n  input %a: f32[*]\n  input %b: f32[*]\n  %y = com.microsoft::FusedMatMul(%a, %b; transB=1)\n  output %y\n}"
		p, b := open(ctx, text, carve.Options{})
		same(ctx, p, text, map[string]tensor.Value{"a": wave(2, 3), "b": wave(5, 3)})
		Expect(b.took()).NotTo(BeEmpty())
	})

	It("have what quantises around a pool with it", func(ctx SpecContext) {
		const text = `graph {
  opset 17
  opset "com.microsoft" 1
  input %x: u8[*]
  const %s = f32[]{0.05}
  const %z = u8[]{120}
  %y = com.microsoft::QLinearAveragePool(%x, %s, %z, %s, %z; kernel_shape=[3, 3])
  output %y
}`
		p, b := open(ctx, text, carve.Options{})
		same(ctx, p, text, map[string]tensor.Value{"x": bytes(1, 8, 9, 9)})
		Expect(b.took()).To(ContainElements("DequantizeLinear", "AveragePool", "QuantizeLinear"))
	})

	It("are compiled for the numbers of zero points that products of integers leave open", func(ctx SpecContext) {
		const text = "graph {\n  opset 17\n  input %a: u8[M,K]\n  input %b: u8[K,N]\n  input %az: u8[Y]\n  input %bz: u8[Z]\n  %y = MatMulInteger(%a, %b, %az, %bz)\n  output %y\n}"
		p, b := open(ctx, text, carve.Options{})
		run := func(m, az, bz int) []string {
			same(ctx, p, text, map[string]tensor.Value{"a": bytes(m, 32), "b": bytes(32, 24), "az": bytes(az), "bz": bytes(bz)})
			return b.took()
		}
		Expect(run(40, 1, 1)).To(ContainElement("MatMulInteger"))
		Expect(run(50, 1, 1)).To(BeEmpty())
		Expect(run(40, 1, 24)).To(ContainElement("MatMulInteger"))
	})

	It("are the whole model where these leave most shapes open, so that what lies between them is fused", func(ctx SpecContext) {
		const text = `graph {
  opset 17
  input %x: f32[*]
  const %heads = i64[4]{0,0,4,8}
  const %rows = i64[2]{-1,8}
  %h = Tanh(%x)
  %r = Reshape(%h, %heads)
  %q = Transpose(%r; perm=[0,2,1,3])
  %k = Transpose(%r; perm=[0,2,3,1])
  %s = MatMul(%q, %k)
  %m = Softmax(%s; axis=-1) "soft"
  %y = MatMul(%m, %q)
  %z = Reshape(%y, %rows)
  output %z
}`
		p, b := open(ctx, text, carve.Options{Verify: true, Poison: true})
		for range 2 {
			same(ctx, p, text, map[string]tensor.Value{"x": wave(2, 30, 32)})
		}
		Expect(b.took()).To(And(ContainElements("Tanh", "Fused"), Not(ContainElement("Softmax"))))
		rep, err := p.Report(ctx, map[string][]int{"x": {2, 30, 32}})
		Expect(err).NotTo(HaveOccurred())
		Expect(rep.Groups).To(HaveLen(1))
		same(ctx, p, text, map[string]tensor.Value{"x": wave(3, 17, 32)})
		Expect(b.took()).To(BeEmpty())
		_, err = p.Run(ctx, map[string]tensor.Value{"x": wave(3, 17, 31)})
		Expect(err).To(MatchError(ContainSubstring("Reshape")))

		p, _ = open(ctx, text, carve.Options{Pins: []partition.Pin{{Node: "soft", Backend: "cpu"}}})
		rep, err = p.Report(ctx, map[string][]int{"x": {2, 30, 32}})
		Expect(err).NotTo(HaveOccurred())
		Expect(len(rep.Groups)).To(BeNumerically(">", 1)) // what the user has placed stays there
	})

	It("write what has no shape before the run to the caller's tensor", func(ctx SpecContext) {
		const text = "graph {\n  opset 17\n  input %x: f32[*]\n  input %to: i64[K]\n  %t = Tanh(%x)\n  %r = Reshape(%t, %to)\n  %s = Softmax(%r; axis=-1)\n  output %s\n}"
		p, _ := open(ctx, text, carve.Options{Poison: true})
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		inputs := []*tensor.Tensor{wave(200, 500), tensor.From([]int64{100, 10, 100})}
		want, err := compile(ctx, textModel(text), &carve.Options{Backends: onReference}).Run(ctx, map[string]tensor.Value{"x": inputs[0], "to": inputs[1]})
		Expect(err).NotTo(HaveOccurred())
		got := wave(100, 10, 100)
		var before, after runtime.MemStats
		for i := range 11 {
			if i == 1 {
				runtime.ReadMemStats(&before)
			}
			Expect(s.RunInto(ctx, inputs, []*tensor.Tensor{got})).To(Succeed())
		}
		runtime.ReadMemStats(&after)
		Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 10*len(got.Bytes())/4))
		for i, v := range f32s(want["s"].(*tensor.Tensor)) {
			Expect(f32s(got)[i]).To(BeNumerically("~", v, 1e-6))
		}
	})

	It("say what is wrong by the model's names", func(ctx SpecContext) {
		const text = "graph {\n  opset 17\n  input %x: f32[*]\n  input %y: f32[*]\n  %e = Exp(%x) \"exp\"\n  %s = Add(%e, %y) \"sum\"\n  output %s\n}"
		p, _ := open(ctx, text, carve.Options{})
		feeds := map[string]tensor.Value{"x": wave(40, 50), "y": wave(40, 51)}
		_, err := p.Run(ctx, feeds)
		Expect(err).To(MatchError(carve.ErrRun))
		Expect(err).To(MatchError(ContainSubstring("sum")))
		feeds["y"] = wave(1, 50)
		same(ctx, p, text, feeds)
	})

	It("are found by the sizes of heads, which an Attention leaves open", func(ctx SpecContext) {
		const text = `graph {
  opset 23
  input %q: f32[B,H,L,D]
  input %k: f32[B,G,S,D]
  input %v: f32[B,G,S,E]
  input %m: bool[L,S]
  %y = Attention(%q, %k, %v, %m; is_causal=1)
  output %y
}`
		p, b := open(ctx, text, carve.Options{Verify: true, Poison: true})
		run := func(heads, own, queries, keys, size, to int) []string {
			seen := make([]bool, queries*keys)
			for i := range seen {
				seen[i] = i%3 > 0 || i < keys
			}
			same(ctx, p, text, map[string]tensor.Value{"q": wave(2, heads, queries, size), "k": wave(2, own, keys, size), "v": wave(2, own, keys, to),
				"m": tensor.From(seen, queries, keys)})
			return b.took()
		}
		Expect(run(4, 2, 10, 20, 16, 8)).To(ContainElement("Fused"))
		Expect(run(4, 2, 30, 30, 16, 8)).To(BeEmpty()) // lengths are of one Program
		Expect(run(8, 4, 10, 20, 16, 8)).To(ContainElement("Fused"))
		Expect(run(4, 2, 10, 20, 32, 24)).To(ContainElement("Fused"))
		Expect(run(4, 2, 10, 25, 16, 8)).To(BeEmpty())
		_, err := p.Run(ctx, map[string]tensor.Value{"q": wave(2, 5, 10, 16), "k": wave(2, 2, 20, 16), "v": wave(2, 2, 20, 8), "m": tensor.From(make([]bool, 200), 10, 20)})
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(err).To(MatchError(ContainSubstring("Attention")))
	})

	It("are found by sizes, where ranks were unknown before", func(ctx SpecContext) {
		const text = "graph {\n  opset 23\n  input %q: f32[*]\n  input %k: f32[*]\n  input %v: f32[*]\n  %y = Attention(%q, %k, %v; q_num_heads=4, kv_num_heads=2)\n  output %y\n}"
		p, b := open(ctx, text, carve.Options{})
		for range 2 {
			same(ctx, p, text, map[string]tensor.Value{"q": wave(2, 10, 64), "k": wave(2, 20, 32), "v": wave(2, 20, 32)})
		}
		Expect(b.took()).To(ContainElement("Fused")) // of an attention: that keys and values have the same length is known
		same(ctx, p, text, map[string]tensor.Value{"q": wave(2, 12, 64), "k": wave(2, 11, 32), "v": wave(2, 11, 32)})
		Expect(b.took()).To(BeEmpty())
		same(ctx, p, text, map[string]tensor.Value{"q": wave(2, 4, 10, 16), "k": wave(2, 2, 20, 16), "v": wave(2, 2, 20, 16)})
		Expect(b.took()).To(ContainElement("Fused"))
	})

	It("are run by several at a time, for no more ranks than are kept", func(ctx SpecContext) {
		const text = "graph {\n  opset 17\n  input %x: f32[*]\n  %e = Exp(%x)\n  %t = Tanh(%e)\n  output %t\n}"
		p, _ := open(ctx, text, carve.Options{MaxSessions: 4})
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				defer GinkgoRecover()
				shape := []int{2000}
				for k := range 12 {
					same(ctx, p, text, map[string]tensor.Value{"x": wave(shape...)})
					shape = append(shape, 1+(k+i)%2)
				}
			})
		}
		wg.Wait()
	})
})
