package cli_test

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

func init() {
	backend.Register("wrong", func(backend.Config) (backend.Backend, error) {
		return wrong{&reference.Backend{Name: "wrong", Format: graph.HostFormat}}, nil
	})
}

// wrong is a backend whose groups with an Add or a Relu add 1 to their first result.
type wrong struct{ *reference.Backend }

func (w wrong) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	e, err := w.Backend.Compile(ctx, sub, o)
	if err != nil {
		return nil, err
	}
	for n := range sub.Nodes() {
		if n.Is("Add", "Relu") {
			return wrongExecutable{e}, nil
		}
	}
	return e, nil
}

type wrongExecutable struct{ backend.Executable }

func (w wrongExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	i, err := w.Executable.Specialize(ctx, b)
	if err != nil {
		return nil, err
	}
	return wrongInstance{i}, nil
}

type wrongInstance struct{ backend.Instance }

func (w wrongInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	event, err := w.Instance.Enqueue(ctx, a)
	if err == nil {
		for i, x := range tensor.Of[float32](a.Outputs[0]) {
			tensor.Of[float32](a.Outputs[0])[i] = x + 1
		}
	}
	return event, err
}

var _ = Describe("run --check", func() {
	It("names the first node that differs and exits with 1", func(ctx SpecContext) {
		dir := filepath.Join(GinkgoT().TempDir(), "out")
		r := carve(ctx, "run", save(ctx, affine()), "--dim", "N=2", "--backend", "wrong", "--check", "--output", dir)
		Expect(r.code).To(Equal(1))
		Expect(r.stderr).To(MatchRegexp(`(?m)^carve: check: node "add" \(Add\) on wrong: `))
		Expect(filepath.Join(dir, "y.npy")).To(BeAnExistingFile())
	})
})
