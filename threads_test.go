package carve_test

import (
	"context"
	"runtime"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// divided is a backend whose instances divide work over the stream of each run, and count the parts.
type divided struct {
	*faulty
	threads bool // of its own
	parts   atomic.Int64
}

func (d *divided) Info() backend.Info {
	i := d.faulty.Info()
	i.Threads = d.threads
	return i
}

func (d *divided) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	e, err := d.faulty.Compile(ctx, sub, o)
	return &dividedExecutable{e, d}, err
}

type dividedExecutable struct {
	backend.Executable
	d *divided
}

func (e *dividedExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	i, err := e.Executable.Specialize(ctx, b)
	return &dividedInstance{i, e.d}, err
}

type dividedInstance struct {
	backend.Instance
	d *divided
}

func (i *dividedInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	a.Workers.Parallel(1000, func(int, int) { i.d.parts.Add(1) })
	return i.Instance.Enqueue(ctx, a)
}

var _ = Describe("the pool", func() {
	BeforeEach(func() { // one core would be one part
		old := runtime.GOMAXPROCS(4)
		DeferCleanup(func() { runtime.GOMAXPROCS(old) })
	})

	DescribeTable("is parked while a backend runs that has threads of its own", func(ctx SpecContext, own bool, parts string, least int) {
		d := &divided{faulty: newFaulty("divided", "Neg"), threads: own}
		p := compile(ctx, textModel("graph {\n  opset 17\n  input %x: f32[4]\n  %a = Neg(%x)\n  %b = Exp(%a)\n  %c = Neg(%b)\n  output %c\n}"),
			&carve.Options{Threads: 2, Backends: []backend.Config{{Name: "divided"}}, Open: map[string]backend.Backend{"divided": d}})
		_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(4)})
		Expect(err).NotTo(HaveOccurred())
		Expect(d.parts.Load()).To(BeNumerically(parts, least), "of two groups")
	},
		Entry("so that its work is in one part", true, "==", 2),
		Entry("and no other", false, ">", 2),
	)
})
