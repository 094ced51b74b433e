package carve_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

// smallZoo are models that run in well under a second.
var smallZoo = []string{"bert_tiny", "bert_tiny_op17", "gpt2_tiny", "gpt2_tiny_op17", "lstm_tagger", "mobilenet_v2",
	"shufflenet_v2_x1_0", "squeezenet1_1"}

// dynamicZoo are models with control flow or shapes that depend on data.
var dynamicZoo = []string{"ssdlite320_mobilenet_v3_large"}

// zoo returns the other models. It skips the spec where there is no zoo.
func largeZoo() []string {
	GinkgoHelper()
	names, err := zootest.Names()
	if errors.Is(err, zootest.ErrAbsent) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(smallZoo, n) })
}

// zooModel is an open model of the zoo with its inputs.
type zooModel struct {
	*carve.Model
	ref   *zootest.Reference
	feeds map[string]tensor.Value
}

// openZoo opens a model of the zoo, and skips the spec where there is none.
func openZoo(ctx context.Context, name string) zooModel {
	GinkgoHelper()
	ref, err := zootest.ReadReference(name)
	if errors.Is(err, zootest.ErrAbsent) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	m, err := carve.Open(ctx, zooPath(name))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(m.Close)
	feeds, err := ref.Feeds()
	Expect(err).NotTo(HaveOccurred())
	return zooModel{m, ref, feeds}
}

// shapes are those of the reference inputs.
func (z zooModel) shapes() map[string][]int {
	shapes := map[string][]int{}
	for _, in := range z.ref.Inputs {
		shapes[in.Name] = in.Dims
	}
	return shapes
}

// zooPath returns the file of a model, complete with its weights.
func zooPath(name string) string {
	GinkgoHelper()
	path, err := zootest.Materialize(name)
	Expect(err).NotTo(HaveOccurred())
	return path
}

// compiles opens a file and compiles it with the defaults, and returns the first error.
func compiles(ctx context.Context, path string) error {
	m, err := carve.Open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := carve.Compile(ctx, m, nil)
	if err != nil {
		return err
	}
	return p.Close()
}

// compile compiles a model, and closes the program at the spec's end.
func compile(ctx context.Context, m *carve.Model, o *carve.Options) *carve.Program {
	GinkgoHelper()
	p, err := carve.Compile(ctx, m, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	return p
}

// arguments returns what RunInto takes: inputs, and outputs of the shapes that Run gives.
func (z zooModel) arguments(ctx context.Context, p *carve.Program) (in, out []*tensor.Tensor) {
	GinkgoHelper()
	res, err := p.Run(ctx, z.feeds)
	Expect(err).NotTo(HaveOccurred())
	for _, port := range p.Inputs() {
		in = append(in, z.feeds[port.Name].(*tensor.Tensor))
	}
	for _, port := range p.Outputs() {
		r := res[port.Name].(*tensor.Tensor)
		t, err := tensor.New(r.DType, r.Shape...)
		Expect(err).NotTo(HaveOccurred())
		out = append(out, t)
	}
	return in, out
}

// checkZoo runs a model, compares the outputs with the reference's, and checks who runs what.
func checkZoo(ctx context.Context, name string) {
	GinkgoHelper()
	z := openZoo(ctx, name)
	p := compile(ctx, z.Model, &carve.Options{Verify: true})
	_, err := p.Report(ctx, nil) // for dims of 1: what is planned for them does not reach the run
	Expect(err).NotTo(HaveOccurred(), name)
	out, err := p.Run(ctx, z.feeds)
	Expect(err).NotTo(HaveOccurred(), name)
	ds, err := z.ref.Compare(out)
	Expect(err).NotTo(HaveOccurred(), name)
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	nodes := map[string]int{}
	for _, g := range r.Groups {
		nodes[g.Backend] += len(g.Nodes)
	}
	fmt.Fprintf(GinkgoWriter, "%s: %v, nodes %v\n", name, ds, nodes)
	if !slices.Contains(dynamicZoo, name) {
		Expect(slices.Sorted(maps.Keys(nodes))).To(HaveEach(BeElementOf("cpu", "host")), name)
	} else {
		Expect(nodes).To(HaveKey("cpu"))
	}
}

// checkAllocations runs RunInto again and again at one shape.
func checkAllocations(ctx context.Context, name string) {
	GinkgoHelper()
	z := openZoo(ctx, name)
	for _, threads := range []int{1, 2} {
		p := compile(ctx, z.Model, &carve.Options{Threads: threads})
		in, out := z.arguments(ctx, p)
		Expect(p.RunInto(ctx, in, out)).To(Succeed())
		var err error
		n := 1.0
		for try := 0; n > 0 && try < 3; try++ { // what earlier specs left behind may be cleaned up meanwhile
			n = testing.AllocsPerRun(2, func() { err = errors.Join(err, p.RunInto(ctx, in, out)) })
		}
		Expect(err).NotTo(HaveOccurred(), name)
		Expect(n).To(BeZero(), "%s, %d threads", name, threads)
		outputs := map[string]tensor.Value{}
		for i, port := range p.Outputs() {
			outputs[port.Name] = out[i]
		}
		_, err = z.ref.Compare(outputs)
		Expect(err).NotTo(HaveOccurred(), name)
		Expect(p.Close()).To(Succeed())
	}
}

var _ = Describe("the zoo", func() {
	for _, name := range smallZoo {
		It("agrees with the reference outputs and is cpu's: "+name, func(ctx SpecContext) { checkZoo(ctx, name) })
		It("runs into the caller's tensors without an allocation: "+name, func(ctx SpecContext) { checkAllocations(ctx, name) })
	}

	It("agrees with the reference outputs and is cpu's: the other models", Label("zoo"), func(ctx SpecContext) {
		for _, name := range largeZoo() {
			checkZoo(ctx, name)
		}
	})

	It("runs into the caller's tensors without an allocation: the other models", Label("zoo"), func(ctx SpecContext) {
		for _, name := range largeZoo() {
			if !slices.Contains(dynamicZoo, name) {
				checkAllocations(ctx, name)
			}
		}
	})
})
