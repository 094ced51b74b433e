package mxnet_test

import (
	"fmt"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
)

var _ = Describe("models with dims left open", func() {
	// The first dim of every input is open. Left out are models whose first dim is no batch, or whose operators need it as a number.
	for _, name := range []string{"densenet", "efficientnet_se", "fp16_params", "group_shared", "lenet_module", "mlp_module",
		"mobilenet_v2", "np_semantics", "ops_activations", "ops_norms", "quant_uint8", "resnet_v1", "squeezenet", "transformer", "unet_deconv"} {
		It(name+" computes what MXNet computed", func(ctx SpecContext) {
			dir := shared("mxnet-models", name)
			inputs, want := arrays(filepath.Join(dir, "inputs.npz")), arrays(filepath.Join(dir, "outputs.npz"))
			o := fedWith(inputs)
			for name, shape := range o.Shapes {
				o.Shapes[name] = append([]int{-1}, shape[1:]...)
			}
			m, err := mxnet.Load(ctx, filepath.Join(dir, name+"-symbol.json"), o)
			Expect(err).NotTo(HaveOccurred())
			defer m.Close()
			Expect(graph.Verify(m.Graph)).To(Succeed())
			var bad []string
			for i, t := range outputsOf(ctx, m, inputs, "reference") {
				w := want[fmt.Sprintf("out%d", i)]
				limit := tolerance(w, m.Graph.Outputs[i])
				if name == "quant_uint8" {
					limit = 1 // see the specs of quantised models; here shapes are looked at
				}
				if _, s := differ(t, w, limit); s != "" {
					bad = append(bad, m.Outputs[i]+": "+s)
				}
			}
			Expect(bad).To(BeEmpty())
		})
	}
	It("need no shapes where the parameters tell them", func(ctx SpecContext) {
		for _, name := range []string{"densenet", "efficientnet_se", "mobilenet_v2", "resnet_v1", "squeezenet", "lenet_module", "unet_deconv"} {
			dir := shared("mxnet-models", name)
			m, err := mxnet.Load(ctx, filepath.Join(dir, name+"-symbol.json"), nil)
			Expect(err).NotTo(HaveOccurred())
			shape := m.Graph.Inputs[0].Type.Shape
			Expect(shape).To(HaveLen(4))
			Expect(shape[0].String()).To(Equal("batch"))
			Expect(slices.Index([]string{"1", "2", "3"}, shape[1].String())).To(BeNumerically(">=", 0))
			inputs, want := arrays(filepath.Join(dir, "inputs.npz")), arrays(filepath.Join(dir, "outputs.npz"))
			got := outputsOf(ctx, m, inputs, "cpu")
			for i, t := range got {
				w := want[fmt.Sprintf("out%d", i)]
				_, problem := differ(t, w, tolerance(w, m.Graph.Outputs[i]))
				Expect(problem).To(BeEmpty(), name)
			}
			Expect(m.Close()).To(Succeed())
		}
	})
})
