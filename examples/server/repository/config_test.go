package repository_test

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("a configuration", func() {
	// matrix has an input with two open dims, the first of which rows can be joined in.
	const matrix = "graph \"m\" {\n  opset 17\n  input %x: f32[N,M,3]\n  %y: f32[N,M,3] = Identity(%x)\n  output %y\n}"
	const fixed = "graph \"m\" {\n  opset 17\n  input %x: f32[1,3]\n  %y: f32[1,3] = Identity(%x)\n  output %y\n}"
	load := func(ctx context.Context, model, config string) (*repository.Repository, error) {
		GinkgoHelper()
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, model)
		Expect(modeltest.Configure(dir, "m", config)).To(Succeed())
		r := opened(ctx, dir, repository.Options{Explicit: true})
		return r, r.Load(ctx, "m", repository.Upload{})
	}

	DescribeTable("that says what cannot be, or what is not done, is an error",
		func(ctx context.Context, model, config, says string) {
			_, err := load(ctx, model, config)
			Expect(err).To(MatchError(repository.ErrConfig))
			Expect(err).To(MatchError(ContainSubstring(says)))
			Expect(err).To(HaveField("Code", oip.InvalidArgument))
		},
		Entry("a default level without levels", matrix, "max_batch_size: 4 dynamic_batching { default_priority_level: 1 }", "default_priority_level is 1, which is none of the 0"),
		Entry("levels without a default one", matrix, "max_batch_size: 4 dynamic_batching { priority_levels: 3 }", "default_priority_level is 0, which is none of the 3"),
		Entry("a default level beyond the last", matrix, "max_batch_size: 4 dynamic_batching { priority_levels: 3 default_priority_level: 4 }", "default_priority_level is 4"),
		Entry("more levels than any", matrix, "max_batch_size: 4 dynamic_batching { priority_levels: 18446744073709551615 default_priority_level: 4 }", "priority_levels is"),
		Entry("policies by level", matrix, "max_batch_size: 4 dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 1 value: { max_queue_size: 3 } } }", "priority_queue_policy"),
		Entry("a late request that goes on", matrix, "max_batch_size: 4 dynamic_batching { default_queue_policy { timeout_action: DELAY } }", "timeout_action is DELAY"),
		Entry("a preferred size of no rows", matrix, "max_batch_size: 4 dynamic_batching { preferred_batch_size: [ 2, 0 ] }", "preferred_batch_size is 0"),
		Entry("a preferred size that is too large", matrix, "max_batch_size: 4 dynamic_batching { preferred_batch_size: [ 8 ] }", "preferred_batch_size is 8, max_batch_size 4"),
		Entry("too many instances together", matrix, "instance_group [ { count: 1024 }, { count: 1 } ]", "at most 1024 are taken together"),
		Entry("other dims than the model's", matrix, `input [ { name: "x" data_type: TYPE_FP32 dims: [ 2, 2, 4 ] } ]`, "its dims are declared [2 2 4], the model has [-1 -1 3]"),
		Entry("more dims than the model's", matrix, `max_batch_size: 4 input [ { name: "x" data_type: TYPE_FP32 dims: [ 4, -1, 3 ] } ]`, "its dims are declared [4 -1 3], the model has [-1 3]"),
		Entry("a negative dim", matrix, `input [ { name: "x" data_type: TYPE_FP32 dims: [ -2, -1, 3 ] } ]`, "its dims are declared [-2 -1 3]"),
		Entry("an output's dims", matrix, `output [ { name: "y" data_type: TYPE_FP32 dims: [ 2, 2, 4 ] } ]`, `output "y": its dims are declared [2 2 4]`),
		Entry("an input twice", matrix, `input [ { name: "x" dims: [ 1, 1, 3 ] }, { name: "x" dims: [ 2, 2, 3 ] } ]`, `input "x" is declared twice`),
		Entry("batches of a model of one row", fixed, "max_batch_size: 4", "max_batch_size is 4, the first dim of input \"x\" of shape [1 3] is not open"),
		Entry("an initial state of another shape", "graph \"m\" {\n  opset 17\n  input %x: f32[1]\n  input %s: f32[2]\n  %y: f32[2] = Add(%x, %s)\n  output %y\n}",
			`sequence_batching { state [ { input_name: "s" output_name: "y" dims: [ 3 ] } ] }`, `the initial one of "s" has shape [3], the model's input [2]`),
	)

	It("may have a max_batch_size that is only large enough", func(ctx context.Context) {
		r, err := load(ctx, adds(4), "max_batch_size: 2147483647 dynamic_batching { preferred_batch_size: [ 1000000000 ] }")
		Expect(err).NotTo(HaveOccurred())
		v, err := r.Acquire(ctx, "m", "")
		Expect(err).NotTo(HaveOccurred())
		defer v.Release()
		Expect(v.Bytes()).To(BeNumerically("<", 16<<20))
		var group sync.WaitGroup
		for k := range 32 {
			group.Go(func() {
				defer GinkgoRecover()
				x := make([]float32, 1+3000*(k%4))
				out, _, err := v.Run(ctx, 0, map[string]tensor.Value{"x": tensor.From(x)})
				Expect(err).NotTo(HaveOccurred())
				Expect(tensor.Elements[float32](out["y"].(*tensor.Tensor))).To(And(HaveLen(len(x)), HaveEach(float32(4))))
			})
		}
		group.Wait()
	})

	It("gives open dims the sizes that it declares", func(ctx context.Context) {
		r, err := load(ctx, matrix, `max_batch_size: 4 input [ { name: "x" data_type: TYPE_FP32 dims: [ 5, -1 ] } ]`)
		Expect(err).NotTo(HaveOccurred())
		v, err := r.Describe("m", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(v.Inputs[0].Shape).To(Equal([]int64{-1, 5, 3}))
		Expect(v.Inputs[0].Fits([]int{2, 5, 3})).To(BeTrue())
		Expect(v.Inputs[0].Fits([]int{2, 4, 3})).To(BeFalse())
		text, err := v.Config.MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring(`"dims":[5,3]`))
	})
})

var _ = Describe("priorities", func() {
	DescribeTable("count from a model's default level, where it has levels",
		func(ctx context.Context, config string, priorities, order []int) {
			dir := GinkgoT().TempDir()
			write(dir, "m", 1, adds(4))
			Expect(modeltest.Configure(dir, "m", config)).To(Succeed())
			r := opened(ctx, dir, repository.Options{Runs: 1, Compile: carve.Options{Backends: []backend.Config{{Name: "slow"}, {Name: "reference"}}, Placement: carve.Priority}})
			v, err := r.Acquire(ctx, "m", "")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { v.Release() })
			began, gone, answered := make(chan bool, len(order)+1), make(chan bool), make(chan int, len(order)+1)
			run := func() {
				began <- true
				<-gone
			}
			slow.Store(&run)
			DeferCleanup(slow.Store, (*func())(nil))
			DeferCleanup(func() { close(gone) })
			ask := func(priority int) {
				go func() {
					defer GinkgoRecover()
					_, _, err := v.Run(ctx, uint64(priority), map[string]tensor.Value{"x": tensor.From([]float32{0})})
					Expect(err).NotTo(HaveOccurred())
					answered <- priority
				}()
			}
			ask(9)
			Eventually(began).Should(Receive())
			for i, p := range priorities {
				ask(p)
				Eventually(v.Waiting).Should(Equal(i + 1))
			}
			for _, next := range append([]int{9}, order...) {
				Eventually(gone).Should(BeSent(true))
				Eventually(answered).Should(Receive(Equal(next)))
			}
		},
		Entry("none", "", []int{2, 0, 1}, []int{2, 0, 1}),
		Entry("levels", "dynamic_batching { priority_levels: 3 default_priority_level: 2 }", []int{3, 7, 0, 2, 1}, []int{1, 7, 0, 2, 3}),
		Entry("levels of requests that are batched", "max_batch_size: 1 dynamic_batching { priority_levels: 3 default_priority_level: 2 }", []int{3, 7, 0, 2, 1}, []int{1, 7, 0, 2, 3}),
	)

	It("of one model are compared with the default of others", func() {
		levels := &repository.Batching{Levels: 3, Level: 2}
		Expect([]int{repository.Rank(levels, 1), repository.Rank(levels, 0), repository.Rank(levels, 3), repository.Rank(nil, 1)}).To(Equal([]int{-1, 0, 1, 0}))
	})
})
