package mxnet_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

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

// outputsOf compiles a graph for backends, and runs it.
func outputsOf(ctx context.Context, m *mxnet.Model, inputs map[string]*tensor.Tensor, backends ...string) []*tensor.Tensor {
	GinkgoHelper()
	var list []backend.Config
	for _, name := range backends {
		list = append(list, backend.Config{Name: name})
	}
	p, err := carve.Compile(ctx, carve.FromGraph(m.Graph), &carve.Options{Backends: list, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(p.Close()).To(Succeed()) }()
	values := map[string]tensor.Value{}
	for _, v := range m.Graph.Inputs {
		Expect(inputs).To(HaveKey(v.Name), "input")
		values[v.Name] = inputs[v.Name]
	}
	got, err := p.Run(ctx, values)
	Expect(err).NotTo(HaveOccurred())
	var out []*tensor.Tensor
	for _, name := range m.Outputs {
		t, ok := got[name].(*tensor.Tensor)
		Expect(ok).To(BeTrue(), "output "+name)
		out = append(out, t)
	}
	return out
}

// differ says how far two tensors are apart: the largest difference by the standard deviation of want, or of type and shape.
func differ(got, want *tensor.Tensor, tolerance float64) string {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("%v, expected %v", got, want)
	}
	a, b := make([]float64, got.Len()), make([]float64, want.Len())
	if err := tensor.Decode(a, got); err != nil {
		return err.Error()
	}
	if err := tensor.Decode(b, want); err != nil {
		return err.Error()
	}
	mean, square := 0.0, 0.0
	for _, x := range b {
		mean += x / float64(len(b))
	}
	for _, x := range b {
		square += (x - mean) * (x - mean) / float64(len(b))
	}
	scale := math.Sqrt(square)
	if !(scale > 0) || math.IsInf(scale, 0) {
		scale = math.Max(1, math.Abs(mean))
	}
	for i := range a {
		same := a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i])
		if !same && !(math.Abs(a[i]-b[i]) <= tolerance*scale) {
			return fmt.Sprintf("element %d is %v, expected %v (deviation %v)", i, a[i], b[i], scale)
		}
	}
	return ""
}

// tolerance is relative to the standard deviation: as the data's README allows. A float16 result that is cast to float32 at the end
// is as exact as a float16 one.
func tolerance(want *tensor.Tensor, v *graph.Value) float64 {
	n := v.Producer
	switch {
	case want.DType == tensor.Float16, n != nil && n.Is("Cast") && n.Inputs[0].Type.DType == tensor.Float16:
		return 2e-3
	case want.DType.IsFloat():
		return 1e-4
	}
	return 0
}

// withinHalf is for backends that compute half precision in float32, and so round less often than MXNet does: two units in the last
// place of a float16 of the element's size, or of the standard deviation where elements cancel.
func withinHalf(got, want *tensor.Tensor) string {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("%v, expected %v", got, want)
	}
	square := 0.0
	for i := range want.Len() {
		square += want.Float64At(i) * want.Float64At(i) / float64(want.Len())
	}
	for i := range want.Len() {
		a, b := got.Float64At(i), want.Float64At(i)
		if !(math.Abs(a-b) <= math.Max(math.Abs(b), math.Sqrt(square))/512) {
			return fmt.Sprintf("element %d is %v, expected %v", i, a, b)
		}
	}
	return ""
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
				for i, t := range got {
					w := want[fmt.Sprintf("out%d", i)]
					if name == "fp16_params" && backends[0] != "reference" {
						Expect(withinHalf(t, w)).To(BeEmpty(), m.Outputs[i])
						continue
					}
					if s := differ(t, w, tolerance(w, m.Graph.Outputs[i])); s != "" {
						bad = append(bad, fmt.Sprintf("out%d %s: %s", i, m.Outputs[i], s))
					}
				}
				Expect(bad).To(BeEmpty())
			})
		}
	}
})
