package carve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// reshaped returns a tensor of another shape, with the elements of t again and again.
func reshaped(t *tensor.Tensor, shape ...int) *tensor.Tensor {
	GinkgoHelper()
	out, err := tensor.New(t.DType, shape...)
	Expect(err).NotTo(HaveOccurred())
	for i := 0; i < len(out.Data) && len(t.Data) > 0; i += len(t.Data) {
		copy(out.Data[i:], t.Bytes())
	}
	for i := 0; i < len(out.Strings) && len(t.Strings) > 0; i += len(t.Strings) {
		copy(out.Strings[i:], t.Strings)
	}
	return out
}

// otherShapes returns shapes beside that of an operand.
func otherShapes(shape []int) [][]int {
	out := [][]int{append(slices.Clone(shape), 2)}
	if len(shape) > 0 {
		out = append(out, shape[1:])
	}
	for _, k := range []int{0, len(shape) - 1} {
		if k >= 0 && k < len(shape) {
			for _, d := range []int{1, -1} {
				s := slices.Clone(shape)
				if s[k] += d; s[k] >= 0 {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// known returns a graph whose inputs have the shapes of the feeds, and what inference says of it.
func known(g *graph.Graph, feeds map[string]tensor.Value) (*graph.Graph, error) {
	c, err := g.Clone()
	if err != nil {
		return nil, err
	}
	for _, v := range c.Inputs {
		if t, ok := feeds[v.Name].(*tensor.Tensor); ok {
			v.Type = graph.TensorType(t.DType, graph.ShapeOf(t.Shape...))
		}
	}
	k, err := c.Clone()
	if err != nil {
		return nil, err
	}
	_, err = graph.InferModel(k)
	return c, err
}

// vague gives the inputs of a graph dims of their own that only a run knows.
func vague(g *graph.Graph) {
	for _, v := range g.Inputs {
		for k := range v.Type.Shape {
			v.Type.Shape[k] = graph.Sym(fmt.Sprintf("d%d_%d", v.ID, k))
		}
	}
}

var errAccepted = errors.New("accepted")

// recovered is a log's handler that notes one that was recovered from: of a backend that refuses shapes so, whose group others run then.
type recovered struct {
	mu   sync.Mutex
	text string
}

func (p *recovered) Enabled(context.Context, slog.Level) bool { return true }
func (p *recovered) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p *recovered) WithGroup(string) slog.Handler            { return p }

// Handle implements slog.Handler.
func (p *recovered) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if text := a.Value.String(); strings.Contains(text, "panic") {
			p.mu.Lock()
			p.text = r.Message + ": " + text
			p.mu.Unlock()
		}
		return true
	})
	return nil
}

// runsOrFails runs a graph and reports what is neither a result nor an error that names a cause.
func runsOrFails(ctx context.Context, g *graph.Graph, feeds map[string]tensor.Value, wrong error, o *carve.Options) error {
	m := carve.FromGraph(g)
	defer m.Close()
	var noted recovered
	logged := carve.Options{}
	if o != nil {
		logged = *o
	}
	logged.Logger = slog.New(&noted)
	p, err := carve.Compile(ctx, m, &logged)
	if err == nil {
		defer p.Close()
		_, err = p.Run(ctx, feeds)
	}
	switch {
	case noted.text != "":
		return errors.New(noted.text)
	case err == nil && wrong != nil:
		return fmt.Errorf("%w: %w", errAccepted, wrong)
	case err != nil && slices.ContainsFunc([]string{"runtime error", "internal error", "panic in loop body"}, func(s string) bool { return strings.Contains(err.Error(), s) }):
		return err
	case err != nil && saysTwice(err):
		return fmt.Errorf("says its cause twice: %w", err)
	}
	return nil
}

// bothFailed finds the ends of what a group failed at, and what stood in for it.
var bothFailed = regexp.MustCompile(`(?s)^(.*) \(and its fallback failed: (.*)\)$`)

// saysTwice reports whether an error says that a group and what stood in for it failed at the same.
func saysTwice(err error) bool {
	parts := bothFailed.FindStringSubmatch(err.Error())
	return parts != nil && strings.HasSuffix(parts[1], parts[2])
}

var _ = Describe("operands of shapes that contradict each other", func() {
	all := func(ctx context.Context, every bool, change func(g *graph.Graph, feeds map[string]tensor.Value) map[string]tensor.Value, o *carve.Options) {
		GinkgoHelper()
		eachNodeCase(ctx, func(i int, c *nodeCase) error {
			var bad []error
			for k, v := range c.model.Graph.Inputs {
				t, ok := c.feeds[v.Name].(*tensor.Tensor)
				if !ok {
					continue
				}
				for n, shape := range otherShapes(t.Shape) {
					if !every && (i+k+n)%8 != 0 {
						continue
					}
					feeds := map[string]tensor.Value{}
					for name, x := range c.feeds {
						feeds[name] = x
					}
					feeds[v.Name] = reshaped(t, shape...)
					g, wrong := known(c.model.Graph, feeds)
					if slices.Contains(shape, 0) {
						wrong = nil // shapes without elements have some freedom: a dim that is computed as 0 copies none
					}
					if err := runsOrFails(ctx, g, change(g, feeds), wrong, o); err != nil {
						bad = append(bad, fmt.Errorf("input %d of %v: %w", k, shape, err))
					}
				}
			}
			return errors.Join(bad...)
		})
	}

	symbols := func(g *graph.Graph, feeds map[string]tensor.Value) map[string]tensor.Value {
		vague(g)
		return feeds
	}

	It("are errors where symbols stand for the dims", func(ctx SpecContext) { all(ctx, false, symbols, nil) })

	It("are errors where only a run knows them", func(ctx SpecContext) { all(ctx, false, hide, nil) })

	It("are errors where a run makes a scalar of what has an axis", func(ctx SpecContext) {
		feeds := map[string]tensor.Value{"x": tensor.From([]float32{1}), "s": tensor.From([]int64{})}
		for _, op := range []string{"Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "ArgMax"} {
			g, err := graph.Parse("graph {\n  opset 17\n  input %x: f32[1]\n  input %s: i64[0]\n  %a = Reshape(%x, %s)\n  %y = " + op + "(%a)\n  output %y\n}")
			Expect(err).NotTo(HaveOccurred())
			Expect(runsOrFails(ctx, g, feeds, errors.New(op), nil)).To(Succeed())
		}
	})

	It("are errors in an arm that takes the place of an If", func(ctx SpecContext) {
		const text = `graph {
  opset 19
  input %x: f32[33,S]
  const %yes = bool[]{true}
  %y = If(%yes | %x) "which" {
    then_branch: graph {
      capture %x: f32[33,S]
      const %none = f32[33,0]{}
      const %w = f32[3,2]{1, 2, 3, 4, 5, 6}
      %u = Concat(%none, %x; axis=1) "same"
      %g = Gemm(%u, %x, %w; transA=1) "sum"
      output %g
    }
    else_branch: graph {
      capture %x: f32[33,S]
      %g = Abs(%x)
      output %g
    }
  }
  output %y
}`
		p := compile(ctx, textModel(strings.Replace(text, "f32[3,2]{1, 2, 3, 4, 5, 6}", "f32[3,3]{1, 2, 3, 4, 5, 6, 7, 8, 9}", 1)), nil)
		_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(33, 3)})
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, map[string]tensor.Value{"x": wave(33, 5)})
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(err).To(MatchError(ContainSubstring(`"sum"`)))
	})

	DescribeTable("are errors in recurrent layers", func(ctx SpecContext, op string, gates int, bias, peepholes []int) {
		text := fmt.Sprintf(`graph {
  opset 14
  input %%x: f32[T,N,2]
  input %%w: f32[1,%[2]d,2]
  input %%r: f32[1,%[2]d,5]
  input %%b: f32[A,B]
  input %%p: f32[C,D]
  %%y = %[1]s
  output %%y
}`, op, 5*gates)
		p := compile(ctx, textModel(text), nil)
		run := func(bias, peepholes []int) error {
			_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(3, 2, 2), "w": wave(1, 5*gates, 2), "r": wave(1, 5*gates, 5), "b": wave(bias...), "p": wave(peepholes...)})
			return err
		}
		Expect(run([]int{1, 10 * gates}, []int{1, 15})).To(Succeed())
		err := run(bias, peepholes)
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(err).To(MatchError(ContainSubstring(`"layer"`)))
	},
		Entry("LSTM: too few biases", `LSTM(%x, %w, %r, %b, _, _, _, %p; hidden_size=5) "layer"`, 4, []int{1, 7}, []int{1, 15}),
		Entry("LSTM: biases of too many directions", `LSTM(%x, %w, %r, %b, _, _, _, %p; hidden_size=5) "layer"`, 4, []int{2, 40}, []int{1, 15}),
		Entry("LSTM: too few peepholes", `LSTM(%x, %w, %r, %b, _, _, _, %p; hidden_size=5) "layer"`, 4, []int{1, 40}, []int{1, 1}),
		Entry("GRU: too few biases", `GRU(%x, %w, %r, %b; hidden_size=5) "layer"`, 3, []int{1, 10}, []int{1, 15}),
		Entry("RNN: too many biases", `RNN(%x, %w, %r, %b; hidden_size=5) "layer"`, 1, []int{1, 11}, []int{1, 15}),
	)

	It("are errors: many, on every backend", Label("slow"), func(ctx SpecContext) {
		for _, o := range []*carve.Options{nil, {Backends: onReference}} {
			all(ctx, true, symbols, o)
			all(ctx, true, hide, o)
		}
	})
})
