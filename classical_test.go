package carve_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/onnxruntimetest"
)

var classicalSeed = flag.Int("classical-seed", 1, "seed of the classical models that are made for comparison with ONNX Runtime")

var _ = Describe("classical models beside ONNX Runtime", Label("onnxruntime"), func() {
	It("have its results: pipelines of scikit-learn, LightGBM and XGBoost", func(ctx SpecContext) {
		models, left, err := onnxruntimetest.Make(ctx, "onnxruntime, skl2onnx, onnxmltools, lightgbm, xgboost", filepath.Join("testdata", "classical.py"),
			GinkgoT().TempDir(), strconv.Itoa(*classicalSeed))
		if errors.Is(err, onnxruntimetest.ErrAbsent) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("without a converter, or without a kernel of ONNX Runtime", strings.Join(left, "\n"), ReportEntryVisibilityFailureOrVerbose)
		Expect(len(models)).To(BeNumerically(">=", 150))
		var bad []string
		for _, path := range models {
			want, err := onnxruntimetest.Wanted(path)
			Expect(err).NotTo(HaveOccurred())
			got, err := onnxruntimetest.Results(ctx, path)
			for _, w := range want {
				if err != nil {
					break
				}
				v, flat := onnxruntimetest.Flat(got[w.Name])
				if err = flat; err == nil {
					err = onnxruntimetest.Apart(v, w.Tensor, 0)
				}
			}
			if err != nil {
				bad = append(bad, fmt.Sprintf("%s: %v", filepath.Base(filepath.Dir(path)), err))
			}
		}
		Expect(strings.Join(bad, "\n")).To(BeEmpty())
	})
})

var _ = Describe("maps that a classifier gives", func() {
	DescribeTable("are the caller's, each with memory of its own", func(ctx SpecContext, rows int, labels graph.Attr) {
		g := graph.New("g")
		g.Opsets = map[string]int{"": 17, "ai.onnx.ml": 3}
		x := g.AddInput("x", graph.Type{DType: tensor.Float32, Shape: graph.Shape{graph.D(rows), graph.D(3)}})
		g.SetOutputs(g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "ZipMap"}, Inputs: []*graph.Value{x}, Outputs: []string{"p"},
			Attrs: []graph.Attr{labels}}).Outputs[0])
		p := compile(ctx, carve.FromGraph(g), nil)
		scores := make([]float32, 3*rows)
		for i := range scores {
			scores[i] = float32(i)
		}
		run := func() []tensor.Value {
			out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From(scores, rows, 3)})
			Expect(err).NotTo(HaveOccurred())
			return out["p"].(*tensor.Sequence).Items
		}
		first := run()
		for _, item := range first { // what a caller does with them
			m := item.(*tensor.Map)
			m.IntKeys, m.StringKeys = append(m.IntKeys, 99), append(m.StringKeys, "more")
			clear(m.IntKeys)
			clear(m.StringKeys)
			values := m.Values.(*tensor.Tensor)
			clear(values.Bytes())
			values.Data = append(values.Data, 1, 2, 3, 4)
			values.Shape[0] = 4
		}
		Expect(run()).To(HaveLen(rows))
		for i, item := range run() {
			m := item.(*tensor.Map)
			Expect(m.IntKeys).To(Equal(labels.Ints))
			Expect(m.StringKeys).To(Equal(labels.Strs))
			values := m.Values.(*tensor.Tensor)
			Expect(values.Shape).To(Equal([]int{3}))
			Expect(tensor.Of[float32](values)).To(Equal(scores[3*i : 3*i+3]))
		}
	},
		Entry("few", 2, graph.StringsAttr("classlabels_strings", "a", "b", "c")),
		Entry("many, of texts", 20, graph.StringsAttr("classlabels_strings", "a", "b", "c")),
		Entry("many, of integers", 20, graph.IntsAttr("classlabels_int64s", 7, 5, 6)),
	)

	It("are apart where two outputs have the same, and run by run", func(ctx SpecContext) {
		g := graph.New("g")
		g.Opsets = map[string]int{"": 17, "ai.onnx.ml": 3}
		x := g.AddInput("x", graph.Type{DType: tensor.Float32, Shape: graph.Shape{graph.Sym("N"), graph.D(2)}})
		p := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "ZipMap"}, Inputs: []*graph.Value{x}, Outputs: []string{"p"},
			Attrs: []graph.Attr{graph.IntsAttr("classlabels_int64s", 7, 5)}}).Outputs[0]
		q := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "ZipMap"}, Inputs: []*graph.Value{x}, Outputs: []string{"q"},
			Attrs: []graph.Attr{graph.IntsAttr("classlabels_int64s", 7, 5)}}).Outputs[0]
		g.SetOutputs(p, q)
		program := compile(ctx, carve.FromGraph(g), nil)
		for range 3 {
			out, err := program.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, 2, 3, 4}, 2, 2)})
			Expect(err).NotTo(HaveOccurred())
			for _, name := range []string{"p", "q"} {
				m := out[name].(*tensor.Sequence).Items[1].(*tensor.Map)
				Expect(m.IntKeys).To(Equal([]int64{7, 5}))
				Expect(tensor.Of[float32](m.Values.(*tensor.Tensor))).To(Equal([]float32{3, 4}))
				m.IntKeys[0] = 0
				clear(m.Values.(*tensor.Tensor).Bytes())
				out[name].(*tensor.Sequence).Items[1] = nil
			}
		}
		_, err := program.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{}, 0, 2)})
		Expect(err).NotTo(HaveOccurred())
	})

	It("are refused where there are not as many labels as columns", func(ctx SpecContext) {
		g := graph.New("g")
		g.Opsets = map[string]int{"": 17, "ai.onnx.ml": 3}
		x := g.AddInput("x", graph.Type{DType: tensor.Float32, Shape: graph.Shape{graph.Sym("N"), graph.Sym("C")}})
		g.SetOutputs(g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "ZipMap"}, Inputs: []*graph.Value{x}, Outputs: []string{"p"},
			Attrs: []graph.Attr{graph.IntsAttr("classlabels_int64s", 7, 5)}}).Outputs[0])
		_, err := compile(ctx, carve.FromGraph(g), nil).Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, 2, 3}, 1, 3)})
		Expect(err).To(MatchError(ContainSubstring("2 labels for 3 columns")))
	})
})

var _ = DescribeTable("a LabelEncoder's keys that are NaN are found from version 4 on, as in ONNX Runtime", func(ctx SpecContext, version int, dt tensor.DType, want ...int64) {
	none := math.NaN()
	keys, x := []float64{1, none, 0, none}, []float64{none, math.Copysign(none, -1), math.Copysign(0, -1), 1, math.Inf(1)}
	of := func(list []float64) *tensor.Tensor {
		t, err := tensor.Convert(tensor.From(list), dt, nil)
		Expect(err).NotTo(HaveOccurred())
		return t
	}
	attrs := []graph.Attr{graph.TensorAttr("keys_tensor", of(keys)), graph.TensorAttr("values_tensor", tensor.From([]int64{10, 20, 30, 40})),
		graph.TensorAttr("default_tensor", tensor.From([]int64{-7}))}
	if version < 4 {
		attrs = []graph.Attr{graph.FloatsAttr("keys_floats", tensor.Of[float32](of(keys))...), graph.IntsAttr("values_int64s", 10, 20, 30, 40), graph.IntAttr("default_int64", -7)}
	}
	for _, name := range []string{"cpu", "reference"} {
		g := graph.New("g")
		g.Opsets = map[string]int{"": 17, "ai.onnx.ml": version}
		in := g.AddInput("x", graph.Type{DType: dt, Shape: graph.Shape{graph.D(len(x))}})
		g.SetOutputs(g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "LabelEncoder"}, Inputs: []*graph.Value{in}, Outputs: []string{"y"}, Attrs: attrs}).Outputs[0])
		p := compile(ctx, carve.FromGraph(g), &carve.Options{Backends: []backend.Config{{Name: name}}})
		out, err := p.Run(ctx, map[string]tensor.Value{"x": of(x)})
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[int64](out["y"].(*tensor.Tensor))).To(Equal(want), name)
	}
},
	Entry("version 2", 2, tensor.Float32, int64(-7), int64(-7), int64(30), int64(10), int64(-7)),
	Entry("version 4", 4, tensor.Float32, int64(20), int64(20), int64(30), int64(10), int64(-7)),
	Entry("version 4 of float64", 4, tensor.Float64, int64(20), int64(20), int64(30), int64(10), int64(-7)),
)
