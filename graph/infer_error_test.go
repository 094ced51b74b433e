package graph_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = DescribeTable("Inference refuses", refuses,
	Entry("a missing input", "Add", 1, ins("f32[3]"), graph.ErrArity, `input 1 "B"`),
	Entry("an omitted input", "Add", 1, ins("", "f32[3]"), graph.ErrArity, `input 0 "A"`),
	Entry("too many inputs", "Relu", 1, ins("f32[3]", "f32[3]"), graph.ErrArity, "at most 1 inputs"),
	Entry("too many outputs", "Relu", 2, ins("f32[3]"), graph.ErrArity, "at most 1 outputs"),
	Entry("nothing for a variadic port", "Max", 1, ins(), graph.ErrArity, `input 0 "data_0"`),
	Entry("an unknown attribute", "Relu", 1, ins("f32[3]"), graph.ErrAttr, `attribute "slope"`, num("slope", 1)),
	Entry("an attribute of the wrong kind", "Softmax", 1, ins("f32[3]"), graph.ErrAttr, "expected int, found float", graph.FloatAttr("axis", 1)),
	Entry("a missing attribute", "Cast", 1, ins("f32[3]"), graph.ErrAttr, `attribute "to"`),
	Entry("a type that is not admitted", "Acos", 1, ins("i64[3]"), graph.ErrTypeMismatch, "tensor(int64)"),
	Entry("two types for one variable", "Add", 1, ins("f32[3]", "f64[3]"), graph.ErrTypeMismatch, "expected tensor(float) as T is, found tensor(double)"),
	Entry("a sequence for a tensor", "Relu", 1, ins("seq(f32[3])"), graph.ErrTypeMismatch, "seq(tensor(float))"),
	Entry("shapes that do not broadcast", "Add", 1, ins("f32[2,3]", "f32[4]"), graph.ErrShapeMismatch, "broadcasts with [2,3], found f32[4]"),
	Entry("inner dims that differ", "MatMul", 1, ins("f32[2,3]", "f32[4,5]"), graph.ErrShapeMismatch, "expected 3 at axis 0, found f32[4,5]"),
	Entry("a scalar product", "MatMul", 1, ins("f32[]", "f32[4]"), graph.ErrShapeMismatch, "rank"),
	Entry("channels that differ", "Conv", 1, ins("f32[1,3,8,8]", "f32[4,2,3,3]"), graph.ErrShapeMismatch, "expected 2 channels"),
	Entry("more channels than a vector has", "BatchNormalization", 1, ins("f32[4]", "f32[4]", "f32[4]", "f32[4]", "f32[4]"), graph.ErrShapeMismatch,
		`input 1 "scale" (x1): shape mismatch: expected [1], since input 0 of shape [4] has no axis of channels and counts as one, found f32[4]`),
	Entry("a window larger than the input", "Conv", 1, ins("f32[1,3,2,8]", "f32[4,3,3,3]"), graph.ErrShapeMismatch, "extent of 3"),
	Entry("zero strides", "MaxPool", 1, ins("f32[1,3,8]"), graph.ErrAttr, "strides", ints("kernel_shape", 2), ints("strides", 0)),
	Entry("zero groups", "Conv", 1, ins("f32[1,3,8]", "f32[4,3,3]"), graph.ErrAttr, "group", num("group", 0)),
	Entry("a length that overflows between the strides", "ConvTranspose", 1, ins("f32[1,1,8589934593]", "f32[1,1,1]"), graph.ErrShapeMismatch, "results overflow", ints("strides", 2147483647)),
	Entry("a length that overflows as a multiple of the strides", "ConvTranspose", 1, ins("f32[1,1,8589934592]", "f32[1,1,1]"), graph.ErrShapeMismatch, "results overflow", ints("strides", 2147483647), str("auto_pad", "SAME_UPPER")),
	Entry("groups that do not divide the channels", "ConvTranspose", 1, ins("f32[1,3,8]", "f32[3,4,3]"), graph.ErrShapeMismatch, "a multiple of 2 groups at axis 0", num("group", 2)),
	Entry("a kernel shape that is not that of the weights", "Conv", 1, ins("f32[1,3,8]", "f32[4,3,3]"), graph.ErrShapeMismatch, "kernel_shape", ints("kernel_shape", 5)),
	Entry("a scalar image", "MaxPool", 1, ins("f32[]"), graph.ErrShapeMismatch, "rank of at least 3", ints("kernel_shape", 2)),
	Entry("an axis out of range", "Concat", 1, ins("f32[3]"), graph.ErrAttr, "axis", num("axis", 5)),
	Entry("parts that do not match", "Concat", 1, ins("f32[3,4]", "f32[2,4]"), graph.ErrShapeMismatch, "expected 3 at axis 0", num("axis", -1)),
	Entry("a shape of other size", "Reshape", 1, ins("f32[2,3]", "=[7]"), graph.ErrShapeMismatch, "as many elements as [2,3], found [7]"),
	Entry("two -1", "Reshape", 1, ins("f32[2,3]", "=[-1,-1]"), graph.ErrShapeMismatch, "at most one -1"),
	Entry("a dim that cannot be squeezed", "Squeeze", 1, ins("f32[2,3]", "=[0]"), graph.ErrShapeMismatch, "expected 1 at axis 0"),
	Entry("axes twice", "Unsqueeze", 1, ins("f32[2]", "=[0,0]"), graph.ErrShapeMismatch, "distinct axes"),
	Entry("a permutation that is none", "Transpose", 1, ins("f32[2,3]"), graph.ErrAttr, "permutation", ints("perm", 0, 0)),
	Entry("an index out of range", "Gather", 1, ins("f32[3,4]", "=[3]"), graph.ErrShapeMismatch, "from -3 to 2, found 3"),
	Entry("lengths that do not add up", "Split", 2, ins("f32[6]", "=[2,2]"), graph.ErrShapeMismatch, "add up to 6"),
	Entry("more outputs than lengths", "Split", 2, ins("f32[6]", "=[6]"), graph.ErrArity, "an output for each of 1 lengths, found 2"),
	Entry("fewer outputs than lengths", "Split", 1, ins("f32[6]", "=[2,4]"), graph.ErrArity, "an output for each of 2 lengths, found 1"),
	Entry("fewer outputs than num_outputs says", "Split@18", 3, ins("f32[8]"), graph.ErrAttr, "the number of outputs, 3, found 4", num("num_outputs", 4)),
	Entry("a step of 0", "Slice", 1, ins("f32[6]", "=[0]", "=[2]", "=[0]", "=[0]"), graph.ErrShapeMismatch, "other than 0"),
	Entry("negative dims", "ConstantOfShape", 1, ins("=[-3]"), graph.ErrShapeMismatch, "at least 0"),
	Entry("pads whose sum overflows to the dims of a result", "Pad", 1, ins("f32[2]", "=[9223372036854775807,9223372036854775807]"), graph.ErrShapeMismatch, "at most 1152921504606846976"),
	Entry("pads that leave nothing", "Pad", 1, ins("f32[2]", "=[-2,-1]"), graph.ErrShapeMismatch, "at least 0"),
	Entry("k beyond the axis", "TopK", 2, ins("f32[2]", "=[3]"), graph.ErrShapeMismatch, "found 3"),
	Entry("a bad equation", "Einsum", 1, ins("f32[2]"), graph.ErrAttr, "equation", str("equation", "i->j")),
	Entry("an element type that is none", "Cast", 1, ins("f32[2]"), graph.ErrAttr, "an element type, found 99", num("to", 99)),
	Entry("two values of a constant", "Constant", 1, ins(), graph.ErrAttr, "exactly one", num("value_int", 1), graph.FloatAttr("value_float", 1)),
	Entry("a scan without inputs", "Scan", 1, ins("f32[2]"), graph.ErrAttr, "body", num("num_scan_inputs", 1)),
)

var _ = Describe("CheckNode", func() {
	It("checks results as well", func() {
		g := graph.New("g")
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Add"}, Inputs: []*graph.Value{operand(g, "f32[3]"), operand(g, "f32[3]")}, Outputs: []string{"y"}})
		Expect(graph.CheckNode(n)).To(Succeed())
		n.Outputs[0].Type = graph.TensorType(tensor.Float64, nil)
		err := graph.CheckNode(n)
		var e *graph.InferError
		Expect(errors.As(err, &e)).To(BeTrue())
		Expect(*e).To(Equal(graph.InferError{Op: n.Op, Port: `output 0 "C"`, Value: "y", Expected: "tensor(float) as T is", Found: "tensor(double)", Err: graph.ErrTypeMismatch}))
	})
	It("lets operators without a schema pass", func() {
		g := graph.New("g")
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "com.example", Name: "Thing"}, Outputs: []string{"y"}})
		Expect(graph.CheckNode(n)).To(Succeed())
		Expect(graph.InferNode(n)).To(Succeed())
	})
	It("wraps the errors of registered operators", func() {
		cause := errors.New("no")
		graph.RegisterSchema(&graph.Schema{Domain: "test.check", Name: "Bad", Since: 1, Infer: func(*graph.Inference) error { return cause }})
		n := graph.New("g").AddNode(graph.NodeSpec{Op: graph.Op{Domain: "test.check", Name: "Bad"}, Name: "b"})
		Expect(graph.InferNode(n)).To(MatchError(cause))
		Expect(graph.InferNode(n).Error()).To(HavePrefix(`test.check.Bad "b": `))
	})
})
