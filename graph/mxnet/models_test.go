package mxnet_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
)

// backendLists are those on which every model is run.
var backendLists = [][]string{{"reference"}, {"cpu"}, {"mkl", "cpu"}}

// arrays reads an npz file.
func arrays(path string) map[string]*tensor.Tensor {
	GinkgoHelper()
	list, err := tensor.ReadNPZFile(path, nil)
	Expect(err).NotTo(HaveOccurred())
	out := map[string]*tensor.Tensor{}
	for _, a := range list {
		out[a.Name] = a.Tensor
	}
	return out
}

// fedWith returns options with the shapes and types of inputs.
func fedWith(inputs map[string]*tensor.Tensor) *mxnet.Options {
	o := &mxnet.Options{Shapes: map[string][]int{}, Types: map[string]tensor.DType{}}
	for name, t := range inputs {
		o.Shapes[name], o.Types[name] = t.Shape, t.DType
	}
	return o
}

// outputsOf compiles a graph for backends, each of which gets what it takes and no one before it does, and runs it.
func outputsOf(ctx context.Context, m *mxnet.Model, inputs map[string]*tensor.Tensor, backends ...string) []*tensor.Tensor {
	GinkgoHelper()
	out, _ := outputsAndNodes(ctx, m, inputs, backends...)
	return out
}

// outputsAndNodes is outputsOf, and says how many nodes each backend has run.
func outputsAndNodes(ctx context.Context, m *mxnet.Model, inputs map[string]*tensor.Tensor, backends ...string) (out []*tensor.Tensor, nodes map[string]int) {
	GinkgoHelper()
	var list []backend.Config
	for _, name := range backends {
		list = append(list, backend.Config{Name: name})
	}
	p, err := carve.Compile(ctx, carve.FromGraph(m.Graph), &carve.Options{Backends: list, Placement: carve.Priority, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(p.Close()).To(Succeed()) }()
	values := map[string]tensor.Value{}
	for _, v := range m.Graph.Inputs {
		Expect(inputs).To(HaveKey(v.Name), "input")
		values[v.Name] = inputs[v.Name]
	}
	got, err := p.Run(ctx, values)
	Expect(err).NotTo(HaveOccurred())
	for _, name := range m.Outputs {
		t, ok := got[name].(*tensor.Tensor)
		Expect(ok).To(BeTrue(), "output "+name)
		out = append(out, t)
	}
	nodes = map[string]int{}
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, g := range r.Groups {
		nodes[g.Backend] += len(g.Nodes)
	}
	return out, nodes
}

var models = []string{"control_flow", "deconv_native", "densenet", "efficientnet_se", "fp16_params", "group_shared", "lenet_module",
	"lstm_lm", "mlp_module", "mobilenet_v2", "np_semantics", "ops_activations", "ops_index", "ops_norms", "ops_pooling", "ops_shapes",
	"resnet_v1", "rnn_fused", "squeezenet", "ssd_head", "transformer", "unet_deconv"}

var _ = Describe("models that MXNet wrote", func() {
	for _, name := range models {
		for _, backends := range backendLists {
			It(fmt.Sprintf("%s computes on %v what MXNet computed", name, backends), func(ctx SpecContext) {
				dir := shared("mxnet-models", name)
				inputs, want := arrays(filepath.Join(dir, "inputs.npz")), arrays(filepath.Join(dir, "outputs.npz"))
				m, err := mxnet.Load(ctx, filepath.Join(dir, name+"-symbol.json"), fedWith(inputs))
				Expect(err).NotTo(HaveOccurred())
				defer m.Close()
				Expect(graph.Verify(m.Graph)).To(Succeed())
				got := outputsOf(ctx, m, inputs, backends...)
				Expect(got).To(HaveLen(len(want)))
				var bad []string
				most := 0.0
				for i, t := range got {
					w := want[fmt.Sprintf("out%d", i)]
					share, s := differ(t, w, tolerance(w, m.Graph.Outputs[i]))
					if s != "" {
						bad = append(bad, fmt.Sprintf("out%d %s: %s", i, m.Outputs[i], s))
					}
					most = math.Max(most, share)
				}
				row("model | backends | outputs | largest difference, of what is allowed", name, strings.Join(backends, ","), len(want), fmt.Sprintf("%.2f", most))
				Expect(bad).To(BeEmpty())
			})
		}
	}
})
