package carve_test

import (
	"fmt"
	"math"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// textModel makes a model of a graph's text.
func textModel(text string) *carve.Model {
	GinkgoHelper()
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	m := carve.FromGraph(g)
	DeferCleanup(m.Close)
	return m
}

// wave returns a tensor of varied values in [-1, 1].
func wave(shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(math.Sin(float64(i)*0.7 + 0.3))
	}
	return tensor.From(data, append([]int{}, shape...)...)
}

// constant writes a constant of varied values as text.
func constant(name string, shape ...int) string {
	n := 1
	dims := make([]string, len(shape))
	for i, d := range shape {
		n *= d
		dims[i] = fmt.Sprint(d)
	}
	vals := make([]string, n)
	for i := range vals {
		vals[i] = fmt.Sprintf("%g", float32(math.Cos(float64(i)*0.9)/4))
	}
	return fmt.Sprintf("const %%%s = f32[%s]{%s}", name, strings.Join(dims, ","), strings.Join(vals, ", "))
}

// smallNet is a convolutional network with a residual, for images of any size and number.
func smallNet() string {
	return strings.Join([]string{
		`graph "net" {`,
		`  opset 17`,
		`  input %x: f32[N,3,H,W]`,
		`  ` + constant("w0", 20, 3, 3, 3),
		`  ` + constant("w1", 20, 20, 3, 3),
		`  ` + constant("fc", 20, 7),
		`  %a = Conv(%x, %w0; pads=[1, 1, 1, 1]) "conv0"`,
		`  %b = Relu(%a) "relu0"`,
		`  %c = Conv(%b, %w1; pads=[1, 1, 1, 1]) "conv1"`,
		`  %d = Add(%c, %b) "sum"`,
		`  %e = Sigmoid(%d) "gate"`,
		`  %p = GlobalAveragePool(%e) "pool"`,
		`  %f = Flatten(%p; axis=1) "flat"`,
		`  %y = MatMul(%f, %fc) "fc"`,
		`  output %y`,
		`}`}, "\n")
}

// bits returns a tensor's storage as a string, for exact comparisons.
func bits(v tensor.Value) string { return string(v.(*tensor.Tensor).Bytes()) }

// residentBytes returns the memory of this process that is in RAM, 0 where it is not known.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
