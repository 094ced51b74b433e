package repository_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/graph/tensor"
)

// grows is the text of a model whose state is all that it has been given so far.
const grows = `graph "grows" {
  opset 17
  input %x: f32[N]
  input %past: f32[P]
  %next: f32[T] = Concat(%past, %x; axis=0)
  %y: i64[1] = Shape(%next)
  output %y, %next
}`

// growsConfig says that a sequence begins with nothing.
const growsConfig = `sequence_batching { state [ { input_name: "past" output_name: "next" data_type: TYPE_FP32 dims: [ -1 ] } ] }`

var _ = Describe("sequences", func() {
	var v *repository.Version

	serving := func(ctx context.Context, model, config string, o repository.Options) {
		GinkgoHelper()
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, model)
		Expect(modeltest.Configure(dir, "m", config)).To(Succeed())
		var err error
		v, err = opened(ctx, dir, o).Acquire(ctx, "m", "")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { v.Release() })
	}
	numbered := func(n uint64) oip.Parameters { return oip.Parameters{Sequence: oip.SequenceID{Number: n}} }
	begins := func(p oip.Parameters) oip.Parameters { p.Start = true; return p }
	ends := func(p oip.Parameters) oip.Parameters { p.End = true; return p }

	// step answers one request of a sequence.
	step := func(ctx context.Context, p oip.Parameters, x ...float32) (*tensor.Tensor, error) {
		inputs := map[string]tensor.Value{"x": tensor.From(x)}
		turn, err := v.Sequences.Begin(ctx, p, inputs)
		if err != nil {
			return nil, err
		}
		out, _, err := v.Run(ctx, 0, inputs)
		if full := turn.End(out); err == nil {
			err = full
		}
		if err != nil {
			return nil, err
		}
		return out["y"].(*tensor.Tensor), nil
	}
	total := func(t *tensor.Tensor, err error) (float32, error) {
		if err != nil {
			return 0, err
		}
		return tensor.Elements[float32](t)[0], nil
	}
	unknown := And(HaveField("Code", oip.InvalidArgument), MatchError(ContainSubstring("must have sequence_start")))

	It("that end, or do not begin after all, while a request waits for its turn are not gone on with", func(ctx context.Context) {
		serving(ctx, modeltest.Total, modeltest.TotalConfig, repository.Options{})
		for _, outputs := range []map[string]tensor.Value{{"next": tensor.From([]float32{7})}, nil} {
			turn, err := v.Sequences.Begin(ctx, begins(ends(numbered(1))), map[string]tensor.Value{})
			Expect(err).NotTo(HaveOccurred())
			late := make(chan error, 1)
			go func() {
				_, err := step(ctx, numbered(1), 1)
				late <- err
			}()
			Consistently(late, "20ms").ShouldNot(Receive())
			Expect(turn.End(outputs)).To(Succeed())
			Eventually(late).Should(Receive(unknown))
			Expect(v.Sequences.Len()).To(BeZero())
		}
		Expect(total(step(ctx, begins(numbered(1)), 2))).To(Equal(float32(2)))
		Expect(total(step(ctx, numbered(1), 3))).To(Equal(float32(5)))
	})

	It("go on as they were behind a run that fails, but for one that was to begin them anew", func(ctx context.Context) {
		serving(ctx, modeltest.Total, modeltest.TotalConfig, repository.Options{})
		fails := func(p oip.Parameters) {
			GinkgoHelper()
			turn, err := v.Sequences.Begin(ctx, p, map[string]tensor.Value{})
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.End(nil)).To(Succeed())
		}
		Expect(total(step(ctx, begins(numbered(1)), 2))).To(Equal(float32(2)))
		fails(numbered(1))
		fails(ends(numbered(1)))
		Expect(total(step(ctx, numbered(1), 3))).To(Equal(float32(5)))
		fails(begins(numbered(1)))
		_, err := step(ctx, numbered(1), 4)
		Expect(err).To(unknown)
	})

	It("have states of no more bytes together than the limit of memory, whatever they grow to", func(ctx context.Context) {
		serving(ctx, grows, growsConfig, repository.Options{MemoryLimit: 1_010_000})
		x := make([]float32, 10_000)
		length := func(t *tensor.Tensor, err error) (int64, error) {
			if err != nil {
				return 0, err
			}
			return t.Int64At(0), nil
		}
		Expect(length(step(ctx, begins(numbered(1)), x...))).To(BeEquivalentTo(10_000))
		before := v.Bytes()
		Expect(length(step(ctx, begins(numbered(2)), x...))).To(BeEquivalentTo(10_000))
		Expect(v.Bytes()-before).To(BeNumerically(">=", 40_000), "the states count")
		n, err := 1, error(nil)
		for ; err == nil && n < 100; n++ {
			_, err = step(ctx, numbered(1), x...)
		}
		Expect(err).To(HaveField("Code", oip.Exhausted))
		Expect(err).To(MatchError(ContainSubstring("at most 1010000 are kept")))
		_, err = step(ctx, numbered(2), x...)
		Expect(err).To(HaveField("Code", oip.Exhausted))
		Expect(length(step(ctx, numbered(2), 1))).To(BeEquivalentTo(10_001))
		Expect(length(step(ctx, ends(numbered(1)), 1))).To(BeEquivalentTo(10_000*(n-1) + 1))
		Expect(v.Sequences.Bytes()).To(BeEquivalentTo(40_004))
		Expect(length(step(ctx, ends(numbered(2)), 1))).To(BeEquivalentTo(10_002))
		Expect(v.Sequences.Bytes()).To(BeZero())
	})

	It("that have not begun take no place", func(ctx context.Context) {
		const model = "graph \"m\" {\n  opset 17\n  input %x: f32[N]\n  input %id: i64[1]\n  %c: f32[1] = Cast(%id; to=1)\n  %y: f32[N] = Add(%x, %c)\n  output %y\n}"
		serving(ctx, model, `sequence_batching { oldest { max_candidate_sequences: 2 }
			control_input [ { name: "id" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 } ] } ] }`, repository.Options{})
		for i := range 4 {
			p := begins(oip.Parameters{Sequence: oip.SequenceID{Text: fmt.Sprint("s", i)}})
			_, err := step(ctx, p, 1)
			Expect(err).To(MatchError(ContainSubstring("wants a sequence_id that is a number")))
		}
		Expect(v.Sequences.Len()).To(BeZero())
		Expect(total(step(ctx, begins(numbered(3)), 1))).To(Equal(float32(4)))
	})
})
