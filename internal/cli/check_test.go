package cli_test

import (
	"cmp"
	"context"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

func init() {
	backend.Register("wrong", func(c backend.Config) (backend.Backend, error) {
		by, err := strconv.ParseFloat(cmp.Or(c.Options["by"], "1"), 32)
		return wrong{&reference.Backend{Name: "wrong"}, float32(by), c.Options["precision"]}, err
	})
}

// wrong is a backend whose groups with an Add or a Relu add something to their first result, and that names a precision.
type wrong struct {
	*reference.Backend
	by        float32
	precision string
}

func (w wrong) Info() backend.Info {
	i := w.Backend.Info()
	i.Precision = w.precision
	return i
}

func (w wrong) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	e, err := w.Backend.Compile(ctx, sub, o)
	if err != nil {
		return nil, err
	}
	for n := range sub.Nodes() {
		if n.Is("Add", "Relu") {
			return wrongExecutable{e, w.by}, nil
		}
	}
	return e, nil
}

type wrongExecutable struct {
	backend.Executable
	by float32
}

func (w wrongExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	i, err := w.Executable.Specialize(ctx, b)
	if err != nil {
		return nil, err
	}
	return wrongInstance{i, w.by}, nil
}

type wrongInstance struct {
	backend.Instance
	by float32
}

func (w wrongInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	event, err := w.Instance.Enqueue(ctx, a)
	if err == nil {
		for i, x := range tensor.Of[float32](a.Outputs[0]) {
			tensor.Of[float32](a.Outputs[0])[i] = x + w.by
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

	DescribeTable("allows what the precision that the backend names rounds away, and no more", func(ctx SpecContext, by, precision string, code int) {
		r := carve(ctx, "run", save(ctx, affine()), "--dim", "N=2", "--backend", "wrong", "--check", "--backend-option", "wrong.by="+by,
			"--backend-option", "wrong.precision="+precision)
		Expect(r.code).To(Equal(code), "%s", r.stderr)
	},
		Entry("float32", "0.005", "", 1),
		Entry("half precision", "0.005", "f16", 1),
		Entry("half precision, nearer", "0.001", "f16", 0),
		Entry("bfloat16", "0.005", "bf16", 0),
		Entry("bfloat16, farther", "1", "bf16", 1))
})
