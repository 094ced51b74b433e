package mxnet_test

import (
	"bytes"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/cli"
)

// checkAndRun is a script: MODEL.onnx INPUTS.npz OUTPUTS.npz. The model is checked by onnx, and run by ONNX Runtime.
const checkAndRun = `
import sys, numpy, onnx, onnxruntime
model, inputs, outputs = sys.argv[1:]
onnx.checker.check_model(model, full_check=True)
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
data = numpy.load(inputs)
types = {"tensor(float)": "float32", "tensor(float16)": "float16"}
results = session.run(None, {i.name: data[i.name].astype(types.get(i.type, data[i.name].dtype)) for i in session.get_inputs()})
numpy.savez(outputs, **{"out%d" % i: x for i, x in enumerate(results)})
`

var _ = Describe("models of MXNet as ONNX", Label("onnxruntime"), func() {
	for _, name := range append(slices.Clone(models), "quant_mkldnn_fused", "quant_uint8") {
		It(name+" passes onnx's checker, and computes on ONNX Runtime what carve computes", func(ctx SpecContext) {
			if !strings.Contains(GinkgoLabelFilter(), "onnxruntime") {
				Skip("takes long: -ginkgo.label-filter=onnxruntime")
			}
			if err := exec.CommandContext(ctx, "python3", "-c", "import onnx, onnxruntime").Run(); err != nil {
				Skip("python3 has no onnx and onnxruntime")
			}
			dir, out := shared("mxnet-models", name), GinkgoT().TempDir()
			symbol, model := filepath.Join(dir, name+"-symbol.json"), filepath.Join(out, "model.onnx")
			inputs := arrays(filepath.Join(dir, "inputs.npz"))
			args := []string{"convert", symbol, model}
			for key, t := range inputs {
				args = append(args, "--shape", key+"="+strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ","), "[]"))
			}
			if name == "ops_pooling" { // ONNX Runtime has MaxRoiPool of older sets only
				args = append(args, "--opset", "21")
			}
			var stdout, stderr bytes.Buffer
			code := cli.Run(ctx, args, &stdout, &stderr)
			Expect(code).To(Equal(cli.ExitOK), stderr.String())
			results := filepath.Join(out, "results.npz")
			said, err := exec.CommandContext(ctx, "python3", "-c", checkAndRun, model, filepath.Join(dir, "inputs.npz"), results).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(said))
			o := fedWith(inputs)
			o.Types = nil // the command knows none but the model's
			m, err := mxnet.Load(ctx, symbol, o)
			Expect(err).NotTo(HaveOccurred())
			defer m.Close()
			for _, v := range m.Graph.Inputs {
				inputs[v.Name], err = tensor.Convert(inputs[v.Name], v.Type.DType, nil)
				Expect(err).NotTo(HaveOccurred())
			}
			want := outputsOf(ctx, m, inputs, "reference")
			half := name == "fp16_params"
			if strings.HasPrefix(name, "quant") { // integers are rounded to either side
				most := 0.0
				for i, g := range inOrder(results) {
					for k := range g.Len() {
						most = math.Max(most, math.Abs(g.Float64At(k)-want[i].Float64At(k))/2e-2)
					}
				}
				row("model as ONNX | onnx's checker | results on ONNX Runtime | largest difference, of what is allowed", name, "passes", len(want), fmt.Sprintf("%.2f", most))
				Expect(most).To(BeNumerically("<=", 1))
				return
			}
			share, problem := apart(inOrder(results), want, m.Graph.Outputs, half, 0)
			row("model as ONNX | onnx's checker | results on ONNX Runtime | largest difference, of what is allowed", name, "passes", len(want), fmt.Sprintf("%.2f", share))
			Expect(problem).To(BeEmpty())
		}, NodeTimeout(5*time.Minute))
	}
})
