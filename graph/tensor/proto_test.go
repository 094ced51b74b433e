package tensor_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/graph/tensor"
)

// msg builds a protobuf message field by field.
type msg []byte

func (m msg) int(num protowire.Number, vs ...int64) msg {
	for _, v := range vs {
		m = protowire.AppendVarint(protowire.AppendTag(m, num, protowire.VarintType), uint64(v))
	}
	return m
}

func (m msg) bytes(num protowire.Number, b []byte) msg {
	return protowire.AppendBytes(protowire.AppendTag(m, num, protowire.BytesType), b)
}

func (m msg) str(num protowire.Number, s string) msg { return m.bytes(num, []byte(s)) }

func (m msg) packed(num protowire.Number, vs ...int64) msg {
	var b []byte
	for _, v := range vs {
		b = protowire.AppendVarint(b, uint64(v))
	}
	return m.bytes(num, b)
}

func (m msg) floats(vs ...float32) msg {
	for _, v := range vs {
		m = protowire.AppendFixed32(protowire.AppendTag(m, 4, protowire.Fixed32Type), math.Float32bits(v))
	}
	return m
}

func header(dt tensor.DType, dims ...int64) msg { return msg{}.int(1, dims...).int(2, int64(dt)) }

var _ = Describe("TensorProto", func() {
	It("round trips every dtype", func() {
		for dt := tensor.Float32; dt <= tensor.Int2; dt++ {
			for _, shape := range [][]int{{}, {3, 5}, {0, 2}} {
				t, err := tensor.New(dt, shape...)
				Expect(err).NotTo(HaveOccurred())
				for i := range t.Data {
					t.Data[i] = byte(i)
					if dt == tensor.Bool {
						t.Data[i] &= 1
					}
				}
				for i := range t.Strings {
					t.Strings[i] = string(rune('a' + i))
				}
				b, err := tensor.AppendProto(nil, "w", t)
				Expect(err).NotTo(HaveOccurred())
				name, got, err := tensor.ParseProto(b, nil)
				Expect(err).NotTo(HaveOccurred(), "%v", t)
				Expect(name).To(Equal("w"))
				Expect(got.String()).To(Equal(t.String()))
				Expect(got.Bytes()).To(Equal(t.Bytes()))
				Expect(got.Strings).To(Equal(t.Strings))
			}
		}
	})

	It("references raw data", func() {
		b, err := tensor.AppendProto(nil, "", tensor.From([]int32{1, 2}))
		Expect(err).NotTo(HaveOccurred())
		_, t, err := tensor.ParseProto(b, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(&t.Data[0]).To(BeIdenticalTo(&b[len(b)-8]))
	})

	DescribeTable("typed fields", func(m msg, want ...float64) {
		_, t, err := tensor.ParseProto(m, nil)
		Expect(err).NotTo(HaveOccurred())
		got := make([]float64, t.Len())
		Expect(tensor.Decode(got, t)).To(Succeed())
		Expect(got).To(Equal(want))
	},
		Entry("float32, not packed", header(tensor.Float32, 2).floats(1, -2), 1.0, -2.0),
		Entry("float32, packed", header(tensor.Float32, 1).str(4, "\x00\x00\xc0\x3f"), 1.5),
		Entry("float32, in two pieces", header(tensor.Float32, 2).str(4, "\x00\x00\xc0\x3f").floats(4), 1.5, 4.0),
		Entry("float64", header(tensor.Float64, 1).str(10, "\x00\x00\x00\x00\x00\x00\xf8\x3f"), 1.5),
		Entry("int64, packed", header(tensor.Int64, 3).packed(7, -1, 0, 1<<62), -1.0, 0.0, float64(1<<62)),
		Entry("int64, not packed", header(tensor.Int64, 2).int(7, 5, -6), 5.0, -6.0),
		Entry("int32", header(tensor.Int32, 2).packed(5, -1, 7), -1.0, 7.0),
		Entry("int8", header(tensor.Int8, 2).packed(5, -1, 7), -1.0, 7.0),
		Entry("uint8", header(tensor.Uint8, 1).packed(5, 255), 255.0),
		Entry("int16", header(tensor.Int16, 1).packed(5, -300), -300.0),
		Entry("uint16", header(tensor.Uint16, 1).packed(5, 65535), 65535.0),
		Entry("uint32", header(tensor.Uint32, 1).packed(11, 1<<32-1), float64(1<<32-1)),
		Entry("uint64", header(tensor.Uint64, 1).packed(11, -1), 0x1p64),
		Entry("bool", header(tensor.Bool, 2).packed(5, 0, 1), 0.0, 1.0),
		Entry("bool above 1 in raw data", header(tensor.Bool, 2).str(9, "\x00\x07"), 0.0, 1.0),
		Entry("float16", header(tensor.Float16, 1).packed(5, 0x3c00), 1.0),
		Entry("bfloat16", header(tensor.BFloat16, 1).packed(5, 0x3f80), 1.0),
		Entry("float8", header(tensor.Float8E4M3FN, 1).packed(5, 0x38), 1.0),
		Entry("float8e8m0", header(tensor.Float8E8M0, 1).packed(5, 128), 2.0),
		Entry("int4, two in a number", header(tensor.Int4, 3).packed(5, 0x2f, 0x08), -1.0, 2.0, -8.0),
		Entry("float4", header(tensor.Float4E2M1, 2).packed(5, 0xf7), 6.0, -6.0),
		Entry("int2, four in a number", header(tensor.Int2, 4).packed(5, 0b11_10_01_00), 0.0, 1.0, -2.0, -1.0),
		Entry("unknown fields", header(tensor.Int8, 1).str(12, "doc").str(16, "\x0a\x00").packed(5, 3), 3.0),
	)

	It("reads complex numbers and strings", func() {
		_, t, err := tensor.ParseProto(header(tensor.Complex64, 1).floats(1, 2), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Elements[complex64](t)).To(Equal([]complex64{1 + 2i}))
		_, t, err = tensor.ParseProto(header(tensor.String, 2).str(6, "a").str(6, ""), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Strings).To(Equal([]string{"a", ""}))
	})

	DescribeTable("faults", func(m msg, want error) {
		_, _, err := tensor.ParseProto(m, nil)
		Expect(err).To(MatchError(want))
	},
		Entry("no data type", msg{}.int(1, 2), tensor.ErrDType),
		Entry("unknown data type", header(99, 1), tensor.ErrDType),
		Entry("negative dim", header(tensor.Int8, -1), tensor.ErrTooLarge),
		Entry("overflowing dims", header(tensor.Int8, 1<<40, 1<<40), tensor.ErrTooLarge),
		Entry("2^40 elements with no data", header(tensor.Float32, 1<<40), tensor.ErrShape),
		Entry("raw data too short", header(tensor.Float32, 2).str(9, "1234"), tensor.ErrShape),
		Entry("raw data too long", header(tensor.Float32, 1).str(9, "12345"), tensor.ErrShape),
		Entry("too few numbers", header(tensor.Int64, 2).packed(7, 1), tensor.ErrShape),
		Entry("numbers in another type's field", header(tensor.Int64, 1).packed(5, 1), tensor.ErrSyntax),
		Entry("raw data and numbers", header(tensor.Int64, 1).packed(7, 1).str(9, "12345678"), tensor.ErrSyntax),
		Entry("raw strings", header(tensor.String, 1).str(9, "a"), tensor.ErrShape),
		Entry("external data without a hook", header(tensor.Int8, 1).int(14, 1), tensor.ErrUnsupported),
		Entry("segments", header(tensor.Int8, 1).str(3, ""), tensor.ErrUnsupported),
		Entry("cut message", header(tensor.Int8, 1).str(9, "abc")[:6], tensor.ErrTruncated),
		Entry("wrong wire type", header(tensor.Int8, 1).int(9, 4), tensor.ErrSyntax),
		Entry("rank 65", header(tensor.Int8, make([]int64, 65)...), tensor.ErrTooLarge),
		Entry("varint longer than 10 bytes", header(tensor.Int64, 1).str(7, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), tensor.ErrSyntax),
	)

	It("asks for external data with what the file says", func() {
		x := tensor.External{Name: "w", DType: tensor.Int16, Shape: []int{2}, Location: "w.bin", Offset: 64, Length: 4, Checksum: "ab"}
		b := tensor.AppendExternalProto(nil, x)
		x.Bytes = 4
		name, t, err := tensor.ParseProto(b, &tensor.ProtoOptions{External: func(got tensor.External) ([]byte, error) {
			Expect(got).To(Equal(x))
			return []byte{1, 0, 2, 0}, nil
		}})
		Expect(err).NotTo(HaveOccurred())
		Expect(name).To(Equal("w"))
		Expect(t.Float64At(1)).To(Equal(2.0))
		_, _, err = tensor.ParseProto(b, &tensor.ProtoOptions{External: func(tensor.External) ([]byte, error) { return []byte{1}, nil }})
		Expect(err).To(MatchError(tensor.ErrShape))
		own := errors.New("gone")
		_, _, err = tensor.ParseProto(b, &tensor.ProtoOptions{External: func(tensor.External) ([]byte, error) { return nil, own }})
		Expect(err).To(MatchError(own))
	})
})

var _ = Describe("SparseTensorProto", func() {
	values := header(tensor.Float32, 2).floats(1, 2).str(8, "s")

	It("is made dense, from linear indices and from indices by axis", func() {
		for _, indices := range []msg{header(tensor.Int64, 2).packed(7, 1, 5), header(tensor.Int64, 2, 2).packed(7, 0, 1, 1, 2)} {
			name, t, err := tensor.ParseSparseProto(msg{}.bytes(1, values).bytes(2, indices).int(3, 2, 3), nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(name).To(Equal("s"))
			Expect(tensor.Of[float32](t)).To(Equal([]float32{0, 1, 0, 0, 0, 2}))
		}
	})

	DescribeTable("faults", func(indices msg, want error, dims ...int64) {
		_, _, err := tensor.ParseSparseProto(msg{}.bytes(1, values).bytes(2, indices).int(3, dims...), nil)
		Expect(err).To(MatchError(want))
	},
		Entry("out of range", header(tensor.Int64, 2).packed(7, 1, 6), tensor.ErrShape, int64(6)),
		Entry("negative", header(tensor.Int64, 2).packed(7, -1, 2), tensor.ErrShape, int64(6)),
		Entry("not ascending", header(tensor.Int64, 2).packed(7, 2, 2), tensor.ErrShape, int64(6)),
		Entry("axis out of range", header(tensor.Int64, 2, 1).packed(7, 1, 9), tensor.ErrShape, int64(6)),
		Entry("too few", header(tensor.Int64, 1).packed(7, 1), tensor.ErrShape, int64(6)),
		Entry("wrong dtype", header(tensor.Int32, 2).packed(5, 1, 2), tensor.ErrSyntax, int64(6)),
		Entry("2^40 elements", header(tensor.Int64, 2).packed(7, 1, 2), tensor.ErrTooLarge, int64(1<<40)),
	)
})

var _ = Describe("values", func() {
	DescribeTable("round trip", func(v tensor.Value) {
		b, err := tensor.AppendValue(nil, "v", v)
		Expect(err).NotTo(HaveOccurred())
		name, got, err := tensor.ParseValue(b, tensor.KindOf(v), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(name).To(Equal("v"))
		Expect(got).To(BeComparableTo(v))
	},
		Entry("sequence", &tensor.Sequence{DType: tensor.Int8, Items: []tensor.Value{tensor.From([]int8{1}), tensor.From([]int8{2, 3})}}),
		Entry("empty sequence", &tensor.Sequence{}),
		Entry("sequence of sequences", &tensor.Sequence{Items: []tensor.Value{&tensor.Sequence{}, &tensor.Sequence{}}}),
		Entry("empty optional", &tensor.Optional{}),
		Entry("optional of a tensor", &tensor.Optional{Item: tensor.From([]int8{1})}),
		Entry("optional of a sequence", &tensor.Optional{Item: &tensor.Sequence{}}),
		Entry("map", &tensor.Map{IntKeys: []int64{3, -1}, Values: &tensor.Sequence{DType: tensor.Int8, Items: []tensor.Value{tensor.From([]int8{1}), tensor.From([]int8{2})}}}),
		Entry("map of strings", &tensor.Map{StringKeys: []string{"a"}, Values: &tensor.Sequence{Items: []tensor.Value{&tensor.Optional{}}}}),
	)

	It("writes a map whose values are a tensor as one that holds a value a key", func() {
		m := &tensor.Map{StringKeys: []string{"a", "b"}, Values: tensor.From([]float32{1, 2})}
		b, err := tensor.AppendValue(nil, "m", m)
		Expect(err).NotTo(HaveOccurred())
		_, got, err := tensor.ParseValue(b, tensor.KindMap, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(BeComparableTo(&tensor.Map{StringKeys: m.StringKeys, Values: &tensor.Sequence{
			DType: tensor.Float32, Items: []tensor.Value{tensor.Scalar[float32](1), tensor.Scalar[float32](2)}}}))
		Expect(got.(*tensor.Map).Dense()).To(BeComparableTo(m.Values))
	})

	DescribeTable("maps that do not hold a value a key", func(m *tensor.Map) {
		_, err := tensor.AppendValue(nil, "m", m)
		Expect(err).To(MatchError(tensor.ErrShape))
		_, err = m.Dense()
		Expect(err).To(MatchError(tensor.ErrShape))
	},
		Entry("no values", &tensor.Map{IntKeys: []int64{1}}),
		Entry("too few", &tensor.Map{IntKeys: []int64{1, 2}, Values: tensor.From([]float32{1})}),
		Entry("a scalar", &tensor.Map{IntKeys: []int64{1}, Values: tensor.Scalar[float32](1)}),
		Entry("too many in a sequence", &tensor.Map{Values: &tensor.Sequence{Items: []tensor.Value{tensor.Scalar[float32](1)}}}),
		Entry("keys of two types", &tensor.Map{IntKeys: []int64{1}, StringKeys: []string{"a"}, Values: tensor.From([]float32{1, 2})}),
	)

	DescribeTable("faults", func(m msg, kind tensor.Kind, want error) {
		_, _, err := tensor.ParseValue(m, kind, nil)
		Expect(err).To(MatchError(want))
	},
		Entry("two dtypes", msg{}.bytes(3, header(tensor.Int8, 0)).bytes(3, header(tensor.Int16, 0)), tensor.KindSequence, tensor.ErrDType),
		Entry("two kinds", msg{}.bytes(3, header(tensor.Int8, 0)).bytes(5, nil), tensor.KindSequence, tensor.ErrSyntax),
		Entry("two values of an optional", msg{}.bytes(5, nil).bytes(5, nil), tensor.KindOptional, tensor.ErrSyntax),
		Entry("keys without values", msg{}.int(2, 7).int(3, 1, 2), tensor.KindMap, tensor.ErrSyntax),
		Entry("float keys", msg{}.int(2, 1), tensor.KindMap, tensor.ErrDType),
		Entry("no kind", msg{}, tensor.KindNone, tensor.ErrSyntax),
		Entry("nested too deep", nested(100), tensor.KindSequence, tensor.ErrTooLarge),
	)

	It("reads the data of ONNX's own cases of sequences and optionals", func() {
		dir := shared("onnx-backend-tests", "node")
		for name, kind := range map[string]tensor.Kind{
			"test_sequence_insert_at_back/test_data_set_0/input_0.pb":              tensor.KindSequence,
			"test_sequence_map_add_2_sequences/test_data_set_0/input_0.pb":         tensor.KindSequence,
			"test_identity_opt/test_data_set_0/input_0.pb":                         tensor.KindOptional,
			"test_optional_get_element_optional_tensor/test_data_set_0/input_0.pb": tensor.KindOptional,
		} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			Expect(err).NotTo(HaveOccurred())
			_, v, err := tensor.ParseValue(b, kind, nil)
			Expect(err).NotTo(HaveOccurred(), name)
			switch v := v.(type) {
			case *tensor.Sequence:
				Expect(v.Items).NotTo(BeEmpty(), name)
			case *tensor.Optional:
				Expect(v.Item).NotTo(BeNil(), name)
			}
		}
	})
})

func nested(n int) msg {
	m := msg{}
	for range n {
		m = msg{}.bytes(5, m)
	}
	return m
}

func FuzzProto(f *testing.F) {
	f.Add([]byte(header(tensor.Float32, 2).floats(1, 2)), uint8(1))
	f.Add([]byte(header(tensor.Int4, 3).packed(5, 1, 2)), uint8(1))
	f.Add([]byte(header(tensor.String, 1).str(6, "a")), uint8(1))
	f.Add([]byte(msg{}.bytes(1, header(tensor.Int8, 1).str(9, "a")).bytes(2, header(tensor.Int64, 1).packed(7, 1)).int(3, 4)), uint8(2))
	f.Add([]byte(nested(3)), uint8(3))
	f.Add([]byte(msg{}.int(2, 7).int(3, 1).bytes(5, nested(1))), uint8(4))
	f.Add([]byte(msg{}.int(2, 7).str(4, "a")), uint8(4))
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		o := &tensor.ProtoOptions{MaxDense: 1 << 16}
		name, v, err := tensor.ParseValue(b, tensor.Kind(kind%6), o)
		if err != nil {
			return
		}
		if x, ok := v.(*tensor.Tensor); ok {
			if err := x.Check(); err != nil {
				t.Fatal(err)
			}
		}
		first, err := tensor.AppendValue(nil, name, v)
		if err != nil {
			t.Fatal(err)
		}
		_, w, err := tensor.ParseValue(first, tensor.KindOf(v), o)
		if err != nil {
			t.Fatal(err)
		}
		second, err := tensor.AppendValue(nil, name, w)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("written again: %v", err)
		}
	})
}
