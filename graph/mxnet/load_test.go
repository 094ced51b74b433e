package mxnet_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing/fstest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/mxnettest"
)

// one is a symbol with one operator on the input x.
func one(op, attrs string, version int) []byte {
	return []byte(fmt.Sprintf(`{"nodes":[{"op":"null","name":"x","inputs":[]},{"op":%q,"name":"y","attrs":{%s},"inputs":[[0,0,0]]}],`+
		`"arg_nodes":[0],"heads":[[1,0,0]],"attrs":{"mxnet_version":["int",%d]}}`, op, attrs, version))
}

func shaped(dims ...int) *mxnet.Options { return &mxnet.Options{Shapes: map[string][]int{"x": dims}} }

var _ = Describe("a model in two files", func() {
	var dir string
	write := func(name string, data []byte) string {
		GinkgoHelper()
		path := filepath.Join(dir, name)
		Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
		return path
	}
	BeforeEach(func() {
		dir = GinkgoT().TempDir()
		write("net-symbol.json", []byte(mxnettest.Perceptron))
	})
	It("is found by symbol, parameters and prefix, with the newest epoch or another", func(ctx SpecContext) {
		older := mxnettest.Params(tensor.Named{Name: "arg:fc1_weight", Tensor: tensor.From([]float32{0, 0, 0, 0, 0, 0, 0, 0}, 4, 2)},
			tensor.Named{Name: "arg:fc1_bias", Tensor: tensor.From([]float32{0, 0, 0, 0}, 4)},
			tensor.Named{Name: "arg:fc2_weight", Tensor: tensor.From(make([]float32, 12), 3, 4)})
		old := write("net-0009.params", older)
		newest := write("net-0010.params", mxnettest.PerceptronParams())
		write("net-large.params", nil) // of another model
		nine := 9
		for _, x := range []struct {
			path string
			o    *mxnet.Options
			want string
		}{
			{filepath.Join(dir, "net-symbol.json"), nil, newest},
			{filepath.Join(dir, "net"), nil, newest},
			{old, nil, old},
			{filepath.Join(dir, "net-symbol.json"), &mxnet.Options{Epoch: &nine}, old},
			{filepath.Join(dir, "net-symbol.json"), &mxnet.Options{Params: old, Copy: true}, old},
		} {
			Expect(mxnet.IsModel(x.path)).To(BeTrue())
			m, err := mxnet.Load(ctx, x.path, x.o)
			Expect(err).NotTo(HaveOccurred())
			Expect(m.ParamsFile).To(Equal(x.want))
			Expect(m.Close()).To(Succeed())
		}
		missing := 3
		_, err := mxnet.Load(ctx, filepath.Join(dir, "net"), &mxnet.Options{Epoch: &missing})
		Expect(err).To(MatchError(fs.ErrNotExist))
	})
	It("has the inputs that are fed, with a batch that is open, and MXNet's names of results", func(ctx SpecContext) {
		write("net-0001.params", mxnettest.PerceptronParams())
		m, err := mxnet.Load(ctx, filepath.Join(dir, "net-symbol.json"), nil)
		Expect(err).NotTo(HaveOccurred())
		defer m.Close()
		Expect(m.Graph.Inputs).To(HaveLen(1)) // without the label
		Expect(m.Graph.Inputs[0].Name).To(Equal("data"))
		Expect(m.Graph.Inputs[0].Type.String()).To(Equal("f32[batch,2]"))
		Expect(m.Outputs).To(Equal([]string{"softmax_output"}))
		out := outputsOf(ctx, m, map[string]*tensor.Tensor{"data": tensor.From([]float32{1, 2}, 1, 2)}, "cpu")
		e := []float64{math.Exp(1), math.Exp(2), math.Exp(3)}
		for i := range e {
			Expect(out[0].Float64At(i)).To(BeNumerically("~", e[i]/(e[0]+e[1]+e[2]), 1e-6))
		}
	})
	It("gives the results of layers inside", func(ctx SpecContext) {
		write("net-0001.params", mxnettest.PerceptronParams())
		m, err := mxnet.Load(ctx, filepath.Join(dir, "net"), &mxnet.Options{Outputs: []string{"fc1_output", "relu1"}})
		Expect(err).NotTo(HaveOccurred())
		defer m.Close()
		out := outputsOf(ctx, m, map[string]*tensor.Tensor{"data": tensor.From([]float32{1, 2}, 1, 2)}, "reference")
		Expect(out[0].Data).To(Equal(tensor.From([]float32{1, 2, 3, -1}, 1, 4).Data))
		Expect(out[1].Data).To(Equal(tensor.From([]float32{1, 2, 3, 0}, 1, 4).Data))
		_, err = mxnet.Load(ctx, filepath.Join(dir, "net"), &mxnet.Options{Outputs: []string{"fc7_output"}})
		Expect(err).To(MatchError(mxnet.ErrOutput))
	})
	It("is read from a file system", func(ctx SpecContext) {
		files := fstest.MapFS{"models/net-symbol.json": {Data: []byte(mxnettest.Perceptron)}, "models/net-0000.params": {Data: mxnettest.PerceptronParams()}}
		m, err := mxnet.LoadFS(ctx, files, "models/net-symbol.json", nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.ParamsFile).To(Equal("models/net-0000.params"))
	})
	It("is refused without its parameters, naming one", func(ctx SpecContext) {
		_, err := mxnet.Load(ctx, filepath.Join(dir, "net-symbol.json"), nil)
		Expect(err).To(MatchError(mxnet.ErrParameter))
		var own *mxnet.Error
		Expect(errors.As(err, &own)).To(BeTrue())
		Expect(own.Node).To(Equal("fc1_weight"))
		Expect(own.File).To(HaveSuffix("net-symbol.json"))
	})
	It("keeps weights in the file", func(ctx SpecContext) {
		write("net-0001.params", mxnettest.PerceptronParams())
		m, err := mxnet.Load(ctx, filepath.Join(dir, "net"), nil)
		Expect(err).NotTo(HaveOccurred())
		defer m.Close()
		list, err := mxnet.ParseParams(mxnettest.PerceptronParams(), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(list[0].Storage).To(Equal(mxnet.Dense))
		b := mxnettest.PerceptronParams()
		list, err = mxnet.ParseParams(b, nil)
		Expect(err).NotTo(HaveOccurred())
		list[0].Tensor.Data[0]++ // the same memory
		Expect(b).NotTo(Equal(mxnettest.PerceptronParams()))
	})
})

var _ = Describe("older symbols", func() {
	run := func(ctx SpecContext, text []byte, x *tensor.Tensor) *tensor.Tensor {
		GinkgoHelper()
		m, err := mxnet.Parse(ctx, text, nil, shaped(x.Shape...))
		Expect(err).NotTo(HaveOccurred())
		return outputsOf(ctx, m, map[string]*tensor.Tensor{"x": x}, "reference")[0]
	}
	It("mean all elements by argmax of axis -1, before 0.9.5", func(ctx SpecContext) {
		x := tensor.From([]float32{1, 5, 2, 7, 0, 3}, 2, 3)
		Expect(run(ctx, one("argmax", `"axis":"-1"`, 904), x).Data).To(Equal(tensor.From([]float32{3}, 1).Data))
		Expect(run(ctx, one("argmax", `"axis":"-1"`, 905), x).Data).To(Equal(tensor.From([]float32{1, 0}, 2).Data))
	})
	It("have reshape's target_shape with 0 for the rest", func(ctx SpecContext) {
		x := tensor.From([]float32{1, 5, 2, 7, 0, 3}, 2, 3)
		Expect(run(ctx, one("Reshape", `"target_shape":"(0, 2)"`, 800), x).Shape).To(Equal([]int{3, 2}))
	})
})

var _ = DescribeTable("attributes are strict", func(op, attrs string, cause error) {
	_, err := mxnet.Parse(nil, one(op, attrs, 10901), nil, shaped(2, 4, 6, 6)) //nolint:staticcheck // nil is a context without an end
	Expect(err).To(MatchError(cause))
	var own *mxnet.Error
	Expect(errors.As(err, &own)).To(BeTrue())
	Expect(own.Node).To(Equal("y"))
	Expect(own.Offset).To(BeNumerically(">", 0))
},
	Entry("one that is not there", "relu", `"alpha":"1"`, mxnet.ErrAttribute),
	Entry("a value that is none of the admitted", "Activation", `"act_type":"swish9"`, mxnet.ErrAttribute),
	Entry("no value", "Activation", ``, mxnet.ErrAttribute),
	Entry("text for a number", "_plus_scalar", `"scalar":"much"`, mxnet.ErrAttribute),
	Entry("text for a truth value", "sum", `"keepdims":"perhaps"`, mxnet.ErrAttribute),
	Entry("a list of the wrong length", "Pooling", `"kernel":"(2,2)","stride":"(1,1,1)"`, mxnet.ErrAttribute),
	Entry("a sum that begins with a number", "_npi_sum", `"initial":"5"`, mxnet.ErrAttribute),
	Entry("an axis that is not there", "sum", `"axis":"7"`, mxnet.ErrAttribute),
	Entry("codes that ask for more dims", "Reshape", `"shape":"(0,0,0,0,0)"`, mxnet.ErrInputs),
	Entry("an operator that nobody knows", "Frobnicate", ``, mxnet.ErrOperator),
	Entry("an operator for training", "CTCLoss", ``, mxnet.ErrUnsupported),
	Entry("more numbers than memory", "SliceChannel", `"num_outputs":"2000000000"`, mxnet.ErrInputs),
)

var _ = It("tells an input whose shape must be given", func() {
	_, err := mxnet.Parse(nil, one("SwapAxis", `"dim1":"0","dim2":"1"`, 10901), nil, nil) //nolint:staticcheck // nil is a context without an end
	Expect(err).To(MatchError(mxnet.ErrShape))
})

var _ = It("translates for all sizes where the operators allow", func(ctx SpecContext) {
	m, err := mxnet.Parse(ctx, one("Reshape", `"shape":"(-3, 0, -4, 2, -1)"`, 10901), nil, shaped(-1, -1, 5, -1))
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.Verify(m.Graph)).To(Succeed())
	x := tensor.From(make([]float32, 2*3*5*8), 2, 3, 5, 8)
	Expect(outputsOf(ctx, m, map[string]*tensor.Tensor{"x": x}, "reference")[0].Shape).To(Equal([]int{6, 5, 2, 4}))
})
