package gpugroup_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
)

var _ = Describe("Casts beside conversions", func() {
	d := &gpugroup.Device{ID: tensor.DeviceID{Type: 77}, Kernels: gpukernel.Generic(8, 32<<10), Ceilings: gpugroup.Ceilings{Arithmetic: 100, Memory: 10, Kernel: 1000}}
	here := func(l graph.Layout) graph.Format { return graph.Format{Device: d.ID, Layout: l} }
	kept := func(t gpukernel.Type, l graph.Layout) graph.Format { return here(lower.KeptLayout(t, l)) }

	It("have no kernel, and give those in the group what they would make", func(ctx SpecContext) {
		// Of shape [1, 2, 1, 3], with channels last on the device.
		shape := []int{1, 2, 1, 3}
		g := graph.New("casts")
		g.Opsets = map[string]int{"": 21}
		typed := func(v *graph.Value, dt tensor.DType, f graph.Format) *graph.Value {
			v.Type, v.Format = graph.TensorType(dt, graph.ShapeOf(shape...)), f
			return v
		}
		input := func(name string, dt tensor.DType, f graph.Format) *graph.Value {
			return typed(g.AddInput(name, graph.Type{}), dt, f)
		}
		node := func(op graph.Op, dt tensor.DType, f graph.Format, in ...*graph.Value) *graph.Value {
			n := g.AddNode(graph.NodeSpec{Op: op, Inputs: in, Outputs: []string{""}, Attrs: []graph.Attr{graph.IntAttr("to", int64(dt))}})
			if op.Name == "Cast" {
				n.SigName = "converted"
			}
			return typed(n.Outputs[0], dt, f)
		}
		cast, convert := graph.Op{Name: "Cast"}, graph.Op{Domain: graph.CarveDomain, Name: graph.OpConvert}
		x := input("x", tensor.Int64, kept(gpukernel.F32, graph.NHWC))
		a := node(cast, tensor.Float32, here(graph.NHWC), x)
		b := node(cast, tensor.Float32, here(graph.NHWC), x)
		h := node(graph.Op{Name: "Add"}, tensor.Float32, here(graph.NHWC), a, b)
		y := node(cast, tensor.Float16, kept(gpukernel.F32, graph.NHWC), h)
		z := node(graph.Op{Name: "Neg"}, tensor.Float16, here(graph.RowMajor), node(convert, tensor.Float16, here(graph.RowMajor), y))
		u := input("u", tensor.Float16, here(graph.RowMajor))
		w := node(cast, tensor.Float32, here(graph.NHWC), node(convert, tensor.Float16, kept(gpukernel.F32, graph.NHWC), u))
		g.SetOutputs(y, z, w)

		group, err := d.Plan(ctx, g, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(group.Steps).To(HaveLen(1), "a sum, with what follows")
		p, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.Address, fibre.Kernels(group.Plans...)...)
		if errors.Is(err, fibre.ErrNoCompiler) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		in := [][]byte{tensor.From([]float32{1, 2, 3, 4, 5, 4099}, 6).Bytes(), converted(tensor.Float16, 1, 2, 3, 4, 5, 6)}
		out := [][]byte{make([]byte, 24), make([]byte, 12), make([]byte, 24)}
		args, memory := &backend.RunArgs{}, [][]byte{}
		add := func(list *[]*tensor.Tensor, b []byte) {
			memory = append(memory, b)
			*list = append(*list, &tensor.Tensor{Device: d.ID, Handle: uintptr(len(memory))})
		}
		for _, b := range in {
			add(&args.Inputs, b)
		}
		for _, b := range out {
			add(&args.Outputs, b)
		}
		for _, b := range group.Requirements.Buffers {
			add(&args.Buffers, make([]byte, b.Bytes))
		}
		launch(group, p, d.ID, args, memory)
		Expect(p.Close()).To(Succeed())
		Expect(out[0]).To(Equal(tensor.From([]float32{2, 4, 6, 8, 10, 8198}, 6).Bytes()), "which the conversion rounds")
		Expect(out[1]).To(Equal(converted(tensor.Float16, -2, -6, -10, -4, -8, -8200)))
		Expect(out[2]).To(Equal(tensor.From([]float32{1, 4, 2, 5, 3, 6}, 6).Bytes()))
	})

	DescribeTable("are offered", func(text string, want ...string) {
		g, err := graph.Parse("graph {\n  opset 21\n" + text + "\n}")
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		for n := range g.Nodes() {
			if !n.Is("Cast") {
				continue
			}
			var got []string
			for _, s := range d.Supports(n).Signatures {
				in, out := s.Inputs[0].Format.Layout.String(), s.Outputs[0].Format.Layout.String()
				got = append(got, fmt.Sprintf("%s %s %s %.0f", s.Name, in, out, s.Extra))
			}
			Expect(got).To(Equal(want))
		}
	},
		Entry("beside a head, in front of which a kernel is one more", "  input %x: u8[2,3,4,5]\n  const %w = f32[1,3,1,1]{1, 2, 3}\n  %c = Cast(%x; to=1)\n  %y = Conv(%c, %w)\n  output %y",
			"rendered row-major row-major 1075", "converted gpu@1:f32-acdb acdb 0", "converted gpu@1:f32-row-major row-major 0"),
		Entry("beside what is rendered with it", "  input %x: u8[6]\n  %c = Cast(%x; to=1)\n  %y = Neg(%c)\n  output %y", "rendered row-major row-major 250", "converted gpu@1:f32-row-major row-major 0"),
		Entry("on both sides, between floats", "  input %x: f32[6]\n  %y = Cast(%x; to=10)\n  output %y", "rendered row-major row-major 1004", "converted gpu@1:f16-row-major row-major 0", "converted row-major gpu@1:f32-row-major 0"),
		Entry("not of integers of 32 bits, which do not come back", "  input %x: i32[6]\n  %y = Cast(%x; to=1)\n  output %y", "rendered row-major row-major 0"),
		Entry("not where it rounds twice", "  input %x: i32[6]\n  %y = Cast(%x; to=10)\n  output %y", "rendered row-major row-major 0"),
		Entry("not to integers", "  input %x: f32[2,3]\n  %y = Cast(%x; to=7)\n  output %y", "rendered row-major row-major 0"))
})

// converted returns the bytes of numbers as elements of a type.
func converted(dt tensor.DType, x ...float32) []byte {
	GinkgoHelper()
	t, err := tensor.Convert(tensor.From(x, len(x)), dt, nil)
	Expect(err).NotTo(HaveOccurred())
	return t.Bytes()
}
