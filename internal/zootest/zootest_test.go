package zootest_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

func output(name, dtype string, std float64, dims []int, values ...float64) zootest.Output {
	o := zootest.Output{Name: name, DType: dtype, Dims: dims, Step: 1, Values: values}
	o.Stats.Std = std
	return o
}

var _ = Describe("Compare", func() {
	scores := output("scores", "float32", 0.1, []int{3}, 0.9, 0.9, 0.5)
	labels := output("labels", "int64", 1, []int{3}, 7, 8, 9)
	ref := &zootest.Reference{Outputs: []zootest.Output{scores, labels}}
	with := func(s []float32, l []int64) map[string]tensor.Value {
		return map[string]tensor.Value{"scores": tensor.From(s), "labels": tensor.From(l)}
	}

	It("takes equal outputs, and rows exchanged among ties", func() {
		d, err := ref.Compare(with([]float32{0.9, 0.9, 0.5}, []int64{7, 8, 9}))
		Expect(err).NotTo(HaveOccurred())
		Expect(d[1]).To(Equal(zootest.Distance{Output: "labels"}))
		d, err = ref.Compare(with([]float32{0.9, 0.9, 0.5}, []int64{8, 7, 9}))
		Expect(err).NotTo(HaveOccurred())
		Expect(d[1].Tied).To(BeTrue())
	})

	DescribeTable("turns down", func(s []float32, l []int64, want string) {
		_, err := ref.Compare(with(s, l))
		Expect(err).To(MatchError(ContainSubstring(want)))
	},
		Entry("labels exchanged without a tie", []float32{0.9, 0.9, 0.5}, []int64{7, 9, 8}, "labels"),
		Entry("a wrong label", []float32{0.9, 0.9, 0.5}, []int64{7, 7, 9}, "labels"),
		Entry("a distant score", []float32{0.9, 0.9, 0.5001}, []int64{7, 8, 9}, "scores"),
		Entry("NaN", []float32{0.9, float32(math.NaN()), 0.5}, []int64{7, 8, 9}, "scores"),
		Entry("another shape", []float32{0.9, 0.9}, []int64{7, 8, 9}, "expected float32[3]"),
	)

	It("allows what the other runtime's own optimised run needed", func() {
		o := output("y", "float32", 2, []int{1}, 1)
		o.Diff = 1e-3
		r := &zootest.Reference{Outputs: []zootest.Output{o}}
		_, err := r.Compare(map[string]tensor.Value{"y": tensor.From([]float32{1.039})})
		Expect(err).NotTo(HaveOccurred())
		_, err = r.Compare(map[string]tensor.Value{"y": tensor.From([]float32{1.041})})
		Expect(err).To(HaveOccurred())
	})
})

var _ = Describe("Input", func() {
	hi := 10.0
	DescribeTable("generates by kind", func(in zootest.Input, want []float64) {
		in.Seed = "1"
		t, err := in.Tensor()
		Expect(err).NotTo(HaveOccurred())
		got := make([]float64, t.Len())
		Expect(tensor.Decode(got, t)).To(Succeed())
		Expect(got).To(Equal(want))
	},
		Entry("step", zootest.Input{Kind: "step", N: 2, DType: "int64", Dims: []int{1, 4}}, []float64{1, 1, 0, 0}),
		Entry("half of an odd number", zootest.Input{Kind: "half", DType: "int64", Dims: []int{5}}, []float64{0, 0, 0, 1, 1}),
		Entry("anything else", zootest.Input{Kind: "?", DType: "float32", Dims: []int{2}}, []float64{0, 0}),
	)

	It("stays within its bounds", func() {
		for _, in := range []zootest.Input{{Kind: "uniform", DType: "float32", Lo: -3, Hi: &hi, Dims: []int{1000}},
			{Kind: "image", DType: "float32", Lo: -3, Hi: &hi, Dims: []int{1, 3, 33, 20}}, {Kind: "randint", DType: "int64", Hi: &hi, Dims: []int{1000}}} {
			in.Seed = "15"
			t, err := in.Tensor()
			Expect(err).NotTo(HaveOccurred())
			var sum float64
			for i := range t.Len() {
				Expect(t.Float64At(i)).To(And(BeNumerically(">=", -3), BeNumerically("<", 10)))
				sum += t.Float64At(i)
			}
			Expect(sum/float64(t.Len())).To(BeNumerically("~", 3.75, 1.25), in.Kind)
		}
	})
})

var _ = Describe("Materialize", func() {
	It("gives the same file at every call", func() {
		path, err := zootest.Materialize("gpt2_tiny")
		if errors.Is(err, zootest.ErrAbsent) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		again, err := zootest.Materialize("gpt2_tiny")
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(Equal(path))
		bytes, err := zootest.WeightBytes("gpt2_tiny")
		Expect(err).NotTo(HaveOccurred())
		info, err := os.Stat(filepath.Join(filepath.Dir(path), "gpt2_tiny.bin"))
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Size()).To(Equal(bytes))
	})
})
