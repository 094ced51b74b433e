package reference_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = DescribeTable("elementwise kernels work on large operands in blocks", func(op string, since, result int, dt tensor.DType, others ...*tensor.Tensor) {
	const n = 3 << 20
	x, err := tensor.New(dt, 3, n/3)
	Expect(err).NotTo(HaveOccurred())
	for i, b := 0, x.Bytes(); i < len(b); i++ {
		b[i] = byte(i * 167 >> 3)
	}
	if dt == tensor.Float32 {
		for i, f := 0, tensor.Of[float32](x); i < len(f); i++ {
			f[i] = float32(i%1013)/100 - 4
		}
	}
	g := graph.New("g")
	var in []*graph.Value
	operands := []tensor.Value{x}
	for _, t := range others {
		if t == nil {
			t = x
		}
		operands = append(operands, t)
	}
	for _, v := range operands {
		in = append(in, g.AddInput("", graph.TypeOf(v.(*tensor.Tensor))))
	}
	node := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op, Since: since}, Inputs: in, Outputs: []string{"y"}})
	if op == "BitShift" {
		node.Attrs = graph.Attrs{graph.StringAttr("direction", "LEFT")}
	}
	var held, most int64
	c := reference.Call{Node: node, Inputs: operands, Reserve: func(bytes int64) error {
		held += bytes
		most = max(most, held)
		return nil
	}}
	out, err := c.Run()
	Expect(err).NotTo(HaveOccurred())
	Expect(held).To(BeZero())
	Expect(most).To(BeNumerically("<", result*n+20<<20), "beside the result of %d bytes", result*n)
	y := out[0].(*tensor.Tensor)
	Expect(y.Shape).To(Equal(x.Shape))

	// Pieces that are too short for blocks give the same.
	const piece = 1 << 19
	row := func(v tensor.Value, lo int) tensor.Value {
		t := *v.(*tensor.Tensor)
		if t.Len() > 1 {
			t.Shape, t.Offset = []int{piece}, lo*t.DType.Size()
		}
		return &t
	}
	for lo := 0; lo < n; lo += piece {
		var parts []tensor.Value
		for _, v := range operands {
			parts = append(parts, row(v, lo))
		}
		want, err := reference.Evaluate(nil, node, parts) //nolint:staticcheck // a context that is nil never ends
		Expect(err).NotTo(HaveOccurred())
		Expect(row(y, lo).(*tensor.Tensor).Bytes()).To(Equal(want[0].(*tensor.Tensor).Bytes()))
	}
},
	Entry("integers", "Add", 14, 1, tensor.Uint8, nil),
	Entry("three operands", "Max", 13, 1, tensor.Uint8, nil, nil),
	Entry("a shift", "BitShift", 11, 1, tensor.Uint8, nil),
	Entry("a number", "Sub", 14, 1, tensor.Uint8, tensor.From([]uint8{7}, 1)),
	Entry("a comparison", "Less", 13, 1, tensor.Uint8, nil),
	Entry("one operand", "Tanh", 13, 4, tensor.Float32),
	Entry("quantisation", "QuantizeLinear", 13, 1, tensor.Float32, tensor.Scalar(float32(0.02)), tensor.Scalar(uint8(100))),
	Entry("dequantisation", "DequantizeLinear", 13, 4, tensor.Uint8, tensor.Scalar(float32(0.02)), tensor.Scalar(uint8(100))),
)
