package main

import (
	"context"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/serve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// panicky is a backend with the reference kernels that panics when it runs nodes of one operator, or compiles those of another.
type panicky struct{ *reference.Backend }

const onRun, onCompile = "Neg", "Abs"

func (b *panicky) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	runs := false
	for n := range sub.Nodes() {
		if n.Is(onCompile) {
			panic("out of order")
		}
		runs = runs || n.Is(onRun)
	}
	e, err := b.Backend.Compile(ctx, sub, o)
	if err == nil && runs {
		return panickyExecutable{e}, nil
	}
	return e, err
}

type panickyExecutable struct{ backend.Executable }

func (e panickyExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	i, err := e.Executable.Specialize(ctx, b)
	return panickyInstance{i}, err
}

type panickyInstance struct{ backend.Instance }

func (panickyInstance) Enqueue(context.Context, *backend.RunArgs) (device.Event, error) {
	panic("out of order")
}

// apply returns the text of a graph of one operator.
func apply(op string) string {
	return "graph \"apply\" {\n  opset 17\n  input %x: f32[N,3]\n  %y: f32[N,3] = " + op + "(%x)\n  output %y\n}"
}

var _ = Describe("a backend that panics", func() {
	serving := func(ctx context.Context, strict bool) map[string]asker {
		GinkgoHelper()
		dir := GinkgoT().TempDir()
		for _, op := range []string{onRun, onCompile, "Identity"} {
			Expect(modeltest.Write(dir, strings.ToLower(op), 1, apply(op))).To(Succeed())
			Expect(modeltest.Write(dir, "batched_"+strings.ToLower(op), 1, apply(op))).To(Succeed())
			Expect(modeltest.Configure(dir, "batched_"+strings.ToLower(op), "max_batch_size: 8\ndynamic_batching { }")).To(Succeed())
		}
		b := &panicky{&reference.Backend{Name: "panicky"}}
		r, err := repository.OpenDir(ctx, dir, repository.Options{Compile: carve.Options{
			Backends: []backend.Config{{Name: "panicky"}}, Open: map[string]backend.Backend{"panicky": b}, Strict: strict,
		}})
		Expect(err).NotTo(HaveOccurred())
		l, err := listen.Start(serve.New(r, serve.Options{}), listen.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(l.Shutdown(ctx, 0)).To(Succeed())
			Expect(r.Close(ctx)).To(Succeed())
		})
		return askers(l)
	}
	one := func(model string) *oip.Request { return request(model, "x", tensor.From([]float32{1, -2, 3}, 1, 3)) }

	It("costs nobody an answer where others can run the nodes", func(ctx SpecContext) {
		for form, c := range serving(ctx, false) {
			for model, want := range map[string][]float32{"neg": {-1, 2, -3}, "abs": {1, 2, 3}, "identity": {1, -2, 3}} {
				for _, model := range []string{model, "batched_" + model} {
					have, err := c.Infer(ctx, one(model))
					Expect(err).NotTo(HaveOccurred(), form)
					Expect(tensor.Elements[float32](have.Outputs[0].Tensor)).To(Equal(want), form)
				}
			}
		}
	})

	It("is a typed error where none can, and other models answer at the same time", func(ctx SpecContext) {
		for form, c := range serving(ctx, true) {
			var group sync.WaitGroup
			for _, prefix := range []string{"", "batched_"} {
				for range 4 {
					group.Go(func() {
						defer GinkgoRecover()
						for range 20 {
							have, err := c.Infer(ctx, one(prefix+"identity"))
							Expect(err).NotTo(HaveOccurred(), form)
							Expect(tensor.Elements[float32](have.Outputs[0].Tensor)).To(Equal([]float32{1, -2, 3}), form)
							_, err = c.Infer(ctx, one(prefix+"neg"))
							Expect(err).To(MatchError(ContainSubstring("out of order")), form)
							if form == "HTTP" {
								Expect(err).To(HaveField("Status", 500))
							} else {
								Expect(status.Code(err)).To(Equal(codes.Internal), form)
							}
						}
					})
				}
			}
			group.Wait()
			_, err := c.Infer(ctx, one("abs"))
			Expect(err).To(MatchError(ContainSubstring("out of order")), form)
			if form == "HTTP" {
				Expect(err).To(HaveField("Status", 503))
			} else {
				Expect(status.Code(err)).To(Equal(codes.Unavailable), form)
			}
		}
	})
})
