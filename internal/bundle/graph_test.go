package bundle_test

import (
	"bytes"
	"encoding/binary"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bundle"
)

// weights returns numbers that differ.
func weights(n int, first float32) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = first + float32(i)/8
	}
	return out
}

// example is a graph with constants of several kinds, one of which two nodes read; an attribute has a tensor too.
func example() *graph.Graph {
	GinkgoHelper()
	g := graph.New("example")
	g.Opsets[""] = 17
	x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(2, 3)))
	shared := g.AddConst("shared", tensor.From(weights(6, 1), 2, 3))
	rows, err := tensor.From(weights(12, 100), 2, 6).Slice(1, 1, 4)
	Expect(err).NotTo(HaveOccurred())
	sliced := g.AddConst("sliced", rows)
	names := g.AddConst("names", tensor.FromStrings([]string{"", "ä", "longer"}, 3))
	add := func(op, name string, in ...*graph.Value) *graph.Value {
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: name, Inputs: in, Outputs: []string{name}})
		return n.Outputs[0]
	}
	a := add("Add", "a", x, shared)
	b := add("Mul", "b", a, shared)
	c := add("Sub", "c", b, sliced)
	d := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "ConstantOfShape"}, Name: "d", Inputs: []*graph.Value{names}, Outputs: []string{"d"},
		Attrs: []graph.Attr{graph.TensorAttr("value", tensor.From(weights(1, 7), 1))}})
	g.SetOutputs(c, d.Outputs[0])
	return g
}

// bundled returns a bundle of graphs.
func bundled(list ...*graph.Graph) *bundle.File {
	GinkgoHelper()
	var c bundle.Constants
	var parts []bundle.Part
	for i, g := range list {
		some, err := c.Graph(uint32(i), g)
		Expect(err).NotTo(HaveOccurred())
		parts = append(parts, some...)
	}
	f, err := bundle.Parse(image(append(parts, c.Parts()...)...))
	Expect(err).NotTo(HaveOccurred())
	return f
}

// with returns a bundle like f, of whose sections one has other bytes.
func with(f *bundle.File, id bundle.ID, b []byte) *bundle.File {
	GinkgoHelper()
	var parts []bundle.Part
	for _, k := range []bundle.ID{{Kind: bundle.KindGraph}, {Kind: bundle.KindUses}, {Kind: bundle.KindTable}, {Kind: bundle.KindData}} {
		old, err := f.Section(k, true)
		Expect(err).NotTo(HaveOccurred())
		if k == id {
			old = b
		}
		if old != nil {
			parts = append(parts, bundle.Bytes(k, old))
		}
	}
	x, err := bundle.Parse(image(parts...))
	Expect(err).NotTo(HaveOccurred())
	return x
}

func section(f *bundle.File, kind uint32) []byte {
	GinkgoHelper()
	b, err := f.Section(bundle.ID{Kind: kind}, true)
	Expect(err).NotTo(HaveOccurred())
	return bytes.Clone(b)
}

// reads reads graph 0.
func reads(f *bundle.File) (*graph.Graph, error) {
	p, err := f.Pool()
	if err != nil {
		return nil, err
	}
	return bundle.ReadGraph(f, 0, p)
}

var _ = Describe("A graph in a bundle", func() {
	It("is the one that was written, with each constant once", func() {
		g := example()
		before := g.String()
		f := bundled(g, g)
		Expect(g.String()).To(Equal(before), "nothing is changed")
		p, err := f.Pool()
		Expect(err).NotTo(HaveOccurred())
		Expect(section(f, bundle.KindTable)).To(HaveLen(16 * 4))
		for i := range uint32(2) {
			got, err := bundle.ReadGraph(f, i, p)
			Expect(err).NotTo(HaveOccurred())
			Expect(got.String()).To(Equal(before))
			var shared *tensor.Tensor
			for v := range got.Constants() {
				if v.Name == "shared" {
					shared = v.Const
				}
			}
			Expect(tensor.Of[float32](shared)).To(Equal(weights(6, 1)))
			Expect(shared.IsAligned(64)).To(BeTrue())
		}
	})

	It("has constants whose bytes lie in the file, with room behind them", func() {
		f := bundled(example())
		p, err := f.Pool()
		Expect(err).NotTo(HaveOccurred())
		for i := range uint32(4) {
			b, err := p.Get(i)
			Expect(err).NotTo(HaveOccurred())
			at := binary.LittleEndian.Uint64(section(f, bundle.KindTable)[16*i:])
			Expect(at % 64).To(BeZero())
			Expect(bytes.Equal(b, p.Data()[at:][:len(b)])).To(BeTrue())
			Expect(len(p.Data()) - int(at) - len(b)).To(BeNumerically(">=", 64))
		}
		copied := bytes.Clone(p.Data())
		b, err := p.With(copied).Get(0)
		Expect(err).NotTo(HaveOccurred())
		b[0] ^= 1
		Expect(bytes.Equal(copied, p.Data())).To(BeFalse())
	})

	It("has large tables of which rows are read as they are", func() {
		g := graph.New("table")
		g.Opsets[""] = 17
		rows := g.AddInput("rows", graph.TensorType(tensor.Int64, graph.ShapeOf(3)))
		table := tensor.From(weights(5<<18+3, 1), 5<<18+3, 1)
		read := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Gather"}, Name: "g", Inputs: []*graph.Value{g.AddConst("table", table), rows}, Outputs: []string{"y"}})
		g.SetOutputs(read.Outputs[0])
		var c bundle.Constants
		parts, err := c.Graph(0, g)
		Expect(err).NotTo(HaveOccurred())
		f, err := bundle.Open(written(append(parts, c.Parts()...)...))
		Expect(err).NotTo(HaveOccurred())
		defer f.Close()
		Expect(f.Verify()).To(Succeed())
		got, err := reads(f)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.String()).To(Equal(g.String()))
	})

	It("takes no constants of devices, nor those without data", func() {
		var c bundle.Constants
		_, err := c.Add(&tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Device: tensor.DeviceID{Type: 2}, Handle: 1})
		Expect(err).To(MatchError(tensor.ErrUnsupported))
		_, err = c.Add(&tensor.Tensor{DType: tensor.Float32, Shape: []int{2}})
		Expect(err).To(MatchError(tensor.ErrUnsupported))
	})

	number := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	place := func(i int, at, n uint64) func(b []byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[16*i:], at)
			binary.LittleEndian.PutUint64(b[16*i+8:], n)
			return b
		}
	}
	none := func([]byte) []byte { return nil }

	DescribeTable("that lies is an error which names the place", func(kind uint32, lie func(b []byte) []byte, where uint32, offset int, expected string) {
		f := bundled(example())
		f = with(f, bundle.ID{Kind: kind}, lie(section(f, kind)))
		_, err := reads(f)
		at := int64(offset)
		if where > 0 {
			at += f.Offset(bundle.ID{Kind: where})
		}
		Expect(err).To(beFormatError(at, expected))
	},
		Entry("no graph", bundle.KindGraph, none, uint32(0), 0, "a section with graph 0"),
		Entry("another text", bundle.KindGraph, func(b []byte) []byte { return b[:len(b)/2] }, bundle.KindGraph, 0, "the text of a graph"),
		Entry("an empty text", bundle.KindGraph, func([]byte) []byte { return []byte{} }, bundle.KindGraph, 0, "the text of a graph"),
		Entry("too few uses", bundle.KindUses, func(b []byte) []byte { return b[:len(b)-1] }, bundle.KindGraph, 0, "the text of a graph"),
		Entry("too many uses", bundle.KindUses, func(b []byte) []byte { return append(b, 0) }, bundle.KindUses, 0, "as many numbers"),
		Entry("a constant that there is not", bundle.KindUses, func(b []byte) []byte { return append(number(4), b[4:]...) }, bundle.KindGraph, 0, "the text"),
		Entry("a constant beyond numbers", bundle.KindUses, func(b []byte) []byte { return append(number(math.MaxUint32), b[4:]...) }, bundle.KindGraph, 0, "the text"),
		Entry("a table that is cut off", bundle.KindTable, func(b []byte) []byte { return b[:len(b)-1] }, bundle.KindTable, 0, "entries of 16 bytes"),
		Entry("a constant between places", bundle.KindTable, place(0, 32, 24), bundle.KindGraph, 0, "the text"),
		Entry("a constant behind the end", bundle.KindTable, place(0, 1<<20, 24), bundle.KindGraph, 0, "the text"),
		Entry("a constant of endless bytes", bundle.KindTable, place(0, 0, math.MaxUint64), bundle.KindGraph, 0, "the text"),
		Entry("a place that wraps around", bundle.KindTable, place(0, math.MaxUint64-63, 128), bundle.KindGraph, 0, "the text"),
		Entry("fewer bytes than elements", bundle.KindTable, place(0, 0, 20), bundle.KindGraph, 0, "the text"),
		Entry("data that is cut off", bundle.KindData, func(b []byte) []byte { return b[:64] }, bundle.KindGraph, 0, "the text"),
		Entry("no data", bundle.KindData, none, bundle.KindGraph, 0, "the text"),
	)

	It("says of a constant where in the table the fault is", func() {
		f := bundled(example())
		f = with(f, bundle.ID{Kind: bundle.KindTable}, place(2, 32, 24)(section(f, bundle.KindTable)))
		p, err := f.Pool()
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Get(2)
		Expect(err).To(beFormatError(f.Offset(bundle.ID{Kind: bundle.KindTable})+32, "a constant in [0-9]+ bytes of data"))
		_, err = p.Get(9)
		Expect(err).To(beFormatError(f.Offset(bundle.ID{Kind: bundle.KindTable})+9*16, "one of 4 constants"))
	})

	It("has strings whose lengths are believed as far as there are bytes", func() {
		g := graph.New("names")
		g.Opsets[""] = 17
		v := g.AddConst("names", tensor.FromStrings([]string{"one", "three"}, 2))
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Identity"}, Name: "n", Inputs: []*graph.Value{v}, Outputs: []string{"y"}})
		g.SetOutputs(n.Outputs[0])
		f := bundled(g)
		got, err := reads(f)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.String()).To(Equal(g.String()))
		data := section(f, bundle.KindData)
		Expect(binary.LittleEndian.Uint32(data)).To(BeEquivalentTo(3))
		for _, n := range []uint32{2, 4, 13, math.MaxUint32} {
			binary.LittleEndian.PutUint32(data, n)
			_, err := reads(with(f, bundle.ID{Kind: bundle.KindData}, data))
			Expect(err).To(MatchError(bundle.ErrFormat), "a string of %d bytes", n)
		}
	})
})

var _ = Describe("Notes in a bundle", func() {
	It("are those that were written", func() {
		n := &bundle.Notes{Facts: [][2]string{{"threads", "2"}}, Outputs: []bundle.Port{{Name: "y", Type: "f32[N]"}}, Checks: true,
			Options: bundle.Options{Backends: []string{"cpu"}, Bounds: map[string]int{"N": 8}, Threads: 2},
			Forms:   []bundle.Form{{Block: 1, Group: 2, Index: 3, Format: "NCHW16c", Constant: 4}},
			Saved:   []bundle.Saved{{Fingerprint: "one", Number: 5}}}
		p, err := n.Part()
		Expect(err).NotTo(HaveOccurred())
		f, err := bundle.Parse(image(p))
		Expect(err).NotTo(HaveOccurred())
		got, err := bundle.ReadNotes(f)
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(BeComparableTo(n))
	})

	DescribeTable("that are none are an error", func(text string) {
		f, err := bundle.Parse(image(bundle.Bytes(bundle.ID{Kind: bundle.KindNotes}, []byte(text))))
		Expect(err).NotTo(HaveOccurred())
		_, err = bundle.ReadNotes(f)
		Expect(err).To(beFormatError(bundle.Align, "notes"))
	},
		Entry("nothing", ""), Entry("no JSON", "threads 2"), Entry("cut off", `{"Facts": [["thre`), Entry("of another kind", `{"Facts": 3}`),
		Entry("beyond numbers", `{"Saved": [{"Number": 4294967296}]}`))

	It("that are not there are an error", func() {
		f, err := bundle.Parse(image(part(bundle.KindPlan, 0, 3)))
		Expect(err).NotTo(HaveOccurred())
		_, err = bundle.ReadNotes(f)
		Expect(err).To(beFormatError(0, "notes"))
	})

	DescribeTable("have defaults whose type fits their bytes", func(typ string, fits bool) {
		p, err := bundled(example()).Pool()
		Expect(err).NotTo(HaveOccurred())
		t, err := p.Tensor(0, typ) // 6 numbers
		if fits {
			Expect(err).NotTo(HaveOccurred())
			Expect(t.Check()).To(Succeed())
			return
		}
		Expect(err).To(MatchError(bundle.ErrFormat))
	},
		Entry("as written", "f32[2,3]", true), Entry("in another shape", "f32[6]", true), Entry("of more numbers", "f32[2,4]", false),
		Entry("of endless numbers", "f32[4000000000,4000000000]", false), Entry("of an open shape", "f32[N]", false),
		Entry("of no tensor", "seq(f32[2])", false), Entry("of strings", "string[2]", false), Entry("no type", "f33", false), Entry("nothing", "", false))

	It("say where a fault is", func() {
		f, err := bundle.Parse(image(part(bundle.KindNotes, 0, 3)))
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Fault(bundle.ID{Kind: bundle.KindNotes}, "a group", tensor.ErrShape)).To(beFormatError(bundle.Align, "a group"))
		Expect(f.Fault(bundle.ID{Kind: bundle.KindSaved}, "a group", tensor.ErrShape)).To(beFormatError(0, "a group"))
	})
})
