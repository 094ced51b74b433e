package wire_test

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/internal/wire"
)

// sample is a message with a field of every wire type, a group among them.
func sample() []byte {
	var b []byte
	b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), 300)
	b = protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), 0x3f800000)
	b = protowire.AppendTag(b, 9, protowire.StartGroupType)
	b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), 7)
	b = protowire.AppendTag(b, 9, protowire.EndGroupType)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 3, protowire.Fixed64Type), 1<<40)
	b = protowire.AppendString(protowire.AppendTag(b, 4, protowire.BytesType), "abc")
	return b
}

// packed is a message whose only field holds b.
func packed(b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), b)
}

var _ = Describe("Each", func() {
	It("gives every field in order, and leaves out groups", func() {
		var seen []string
		Expect(wire.Each(sample(), func(f wire.Field) error {
			seen = append(seen, fmt.Sprintf("%d %d %s", f.Num, f.Val, f.Buf))
			return nil
		})).To(Succeed())
		Expect(seen).To(Equal([]string{"1 300 ", "2 1065353216 ", "3 1099511627776 ", "4 0 abc"}))
	})

	It("refers to the message", func() {
		msg := packed([]byte("abc"))
		Expect(wire.Each(msg, func(f wire.Field) error {
			Expect(&f.Buf[0]).To(BeIdenticalTo(&msg[2]))
			return nil
		})).To(Succeed())
	})

	It("stops with the function's error", func() {
		own, calls := errors.New("enough"), 0
		Expect(wire.Each(sample(), func(wire.Field) error { calls++; return own })).To(MatchError(own))
		Expect(calls).To(Equal(1))
	})

	DescribeTable("fails on", func(msg []byte, cause error) {
		Expect(wire.Each(msg, func(wire.Field) error { return nil })).To(MatchError(cause))
	},
		Entry("a tag that is cut", []byte{0x80}, wire.ErrTruncated),
		Entry("a string longer than the message", []byte{0x0a, 0x05, 'a'}, wire.ErrTruncated),
		Entry("a length of 2^63", []byte{0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, wire.ErrTruncated),
		Entry("a field of number 0", []byte{0x00, 0x01}, wire.ErrSyntax),
		Entry("a group that nobody began", []byte{0x0c}, wire.ErrSyntax),
		Entry("an unknown wire type", []byte{0x0f}, wire.ErrSyntax),
		Entry("a varint of 11 bytes", []byte{0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, wire.ErrSyntax),
	)
})

var _ = Describe("Field", func() {
	one := func(msg []byte) (out wire.Field) {
		Expect(wire.Each(msg, func(f wire.Field) error { out = f; return nil })).To(Succeed())
		return out
	}

	It("reads its content, or says that it has another type", func() {
		var b []byte
		var s string
		var n int64
		text := one(packed([]byte("abc")))
		Expect(text.Bytes(&b)).To(Succeed())
		Expect(text.Str(&s)).To(Succeed())
		Expect(string(b) + s).To(Equal("abcabc"))
		Expect(text.Int(&n)).To(MatchError(wire.ErrSyntax))
		number := one(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), ^uint64(0)))
		Expect(number.Int(&n)).To(Succeed())
		Expect(n).To(Equal(int64(-1)))
		Expect(number.Bytes(&b)).To(MatchError(wire.ErrSyntax))
		Expect(number.Str(&s)).To(MatchError(wire.ErrSyntax))
	})

	It("reads repeated numbers, packed or not", func() {
		var ints []int64
		var floats []float32
		Expect(one(packed([]byte{1, 0xac, 0x02})).Ints(&ints)).To(Succeed())
		Expect(one([]byte{0x08, 5}).Ints(&ints)).To(Succeed())
		Expect(ints).To(Equal([]int64{1, 300, 5}))
		Expect(one(packed([]byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40})).Floats(&floats)).To(Succeed())
		Expect(one([]byte{0x0d, 0, 0, 0, 0x3f}).Floats(&floats)).To(Succeed())
		Expect(floats).To(Equal([]float32{1, 2, 0.5}))
		Expect(one([]byte{0x08, 5}).Floats(&floats)).To(MatchError(wire.ErrSyntax))
		Expect(one(packed([]byte{0x80})).Ints(&ints)).To(MatchError(wire.ErrTruncated))
	})

	DescribeTable("counts what it will give", func(b []byte, elem protowire.Type, want int) {
		f := one(packed(b))
		Expect(f.Count(elem)).To(Equal(want))
		given := 0
		_ = f.Numbers(elem, func(uint64) { given++ })
		Expect(given).To(Equal(want))
	},
		Entry("varints", []byte{1, 0x80, 0x01, 2}, protowire.VarintType, 3),
		Entry("varints, the last one cut", []byte{1, 0x80}, protowire.VarintType, 1),
		Entry("4 bytes each, the last one cut", make([]byte, 11), protowire.Fixed32Type, 2),
		Entry("8 bytes each", make([]byte, 16), protowire.Fixed64Type, 2),
	)
})

func FuzzEach(f *testing.F) {
	f.Add(sample())
	f.Add(packed([]byte{1, 2, 3}))
	f.Fuzz(func(t *testing.T, msg []byte) {
		bytes := 0
		err := wire.Each(msg, func(fl wire.Field) error {
			bytes += len(fl.Buf)
			return fl.Numbers(protowire.VarintType, func(uint64) {})
		})
		if bytes > len(msg) {
			t.Fatalf("%d bytes of fields in a message of %d", bytes, len(msg))
		}
		if err != nil && !errors.Is(err, wire.ErrSyntax) && !errors.Is(err, wire.ErrTruncated) {
			t.Fatal(err)
		}
	})
}
