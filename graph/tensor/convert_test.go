package tensor_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Convert", func() {
	It("gives what ONNX's own cases for Cast expect", func() {
		dirs, err := filepath.Glob(filepath.Join(shared("onnx-backend-tests", "node"), "test_cast_*"))
		Expect(err).NotTo(HaveOccurred())
		tried := 0
		for _, dir := range dirs {
			in := load(filepath.Join(dir, "test_data_set_0", "input_0.pb"))
			want := load(filepath.Join(dir, "test_data_set_0", "output_0.pb"))
			got, err := tensor.Convert(in, want.DType, &tensor.ConvertOptions{NoSaturate: strings.Contains(dir, "no_saturate")})
			Expect(err).NotTo(HaveOccurred(), dir)
			Expect(got.String()).To(Equal(want.String()), dir)
			for i := range want.Len() {
				g, w := got.Float64At(i), want.Float64At(i)
				if g != w && !(math.IsNaN(g) && math.IsNaN(w)) {
					Fail(filepath.Base(dir))
				}
			}
			tried++
		}
		Expect(tried).To(BeNumerically(">", 30))
	})

	DescribeTable("one element", func(from *tensor.Tensor, dt tensor.DType, want string) {
		t, err := tensor.Convert(from, dt, nil)
		Expect(err).NotTo(HaveOccurred())
		s, err := tensor.Convert(t, tensor.String, nil)
		Expect(err).NotTo(HaveOccurred())
		if dt == tensor.String {
			s = t
		}
		Expect(s.Strings[0]).To(Equal(want))
	},
		Entry("truncates towards zero", tensor.From([]float32{-1.9}), tensor.Int8, "-1"),
		Entry("integers lose their higher bits", tensor.From([]int64{300}), tensor.Uint8, "44"),
		Entry("a sign becomes high bits", tensor.From([]int8{-1}), tensor.Uint32, "4294967295"),
		Entry("NaN is true", tensor.From([]float32{float32(math.NaN())}), tensor.Bool, "True"),
		Entry("zero is false", tensor.From([]float64{math.Copysign(0, -1)}), tensor.Bool, "False"),
		Entry("uint64 above int64", tensor.From([]uint64{1<<64 - 1}), tensor.Float64, "1.8446744073709552e+19"),
		Entry("uint64 rounded to float32 once", tensor.From([]uint64{1<<63 + 1<<39 + 1}), tensor.Float32, "9.223373e+18"),
		Entry("int64 rounded to bfloat16 once", tensor.From([]int64{259<<46 - 1}), tensor.BFloat16, "1.82e+16"),
		Entry("a negative int64 rounded to bfloat16 once", tensor.From([]int64{-(257<<46 + 1)}), tensor.BFloat16, "-1.82e+16"),
		Entry("uint64 rounded to bfloat16 once", tensor.From([]uint64{257<<55 + 1}), tensor.BFloat16, "9.3e+18"),
		Entry("float64 to uint64", tensor.From([]float64{1 << 63}), tensor.Uint64, "9223372036854775808"),
		Entry("NaN to an integer", tensor.From([]float32{float32(math.NaN())}), tensor.Int32, "0"),
		Entry("infinity to int64", tensor.From([]float64{math.Inf(1)}), tensor.Int64, "9223372036854775807"),
		Entry("bool to float", tensor.From([]bool{true}), tensor.Float32, "1.0"),
		Entry("float to string", tensor.From([]float32{0.1}), tensor.String, "0.1"),
		Entry("whole float to string", tensor.From([]float32{-3}), tensor.String, "-3.0"),
		Entry("small float to string", tensor.From([]float64{1.5e-7}), tensor.String, "1.5e-07"),
		Entry("infinity to string", tensor.From([]float64{math.Inf(-1)}), tensor.String, "-inf"),
		Entry("string to float", tensor.FromStrings([]string{"1.5e3"}), tensor.Float32, "1500.0"),
		Entry("string INF", tensor.FromStrings([]string{"-INF"}), tensor.Float64, "-inf"),
		Entry("string out of range", tensor.FromStrings([]string{"1e400"}), tensor.Float64, "inf"),
		Entry("string to int", tensor.FromStrings([]string{" -42 "}), tensor.Int16, "-42"),
		Entry("string to int4", tensor.FromStrings([]string{"-8"}), tensor.Int4, "-8"),
		Entry("large integer string", tensor.FromStrings([]string{"18446744073709551615"}), tensor.Uint64, "18446744073709551615"),
		Entry("float16 in as few digits as it needs", tensor.From([]float32{0.1}), tensor.Float16, "0.1"),
		Entry("complex to string", tensor.From([]complex64{1 - 2i}), tensor.String, "(1.0-2.0j)"),
		Entry("complex widened", tensor.From([]complex64{1 - 2i}), tensor.Complex128, "(1.0-2.0j)"),
		Entry("real to complex", tensor.From([]int32{4}), tensor.Complex64, "(4.0+0.0j)"),
		Entry("complex to real", tensor.From([]complex128{4 + 1i}), tensor.Int32, "4"),
	)

	It("reads integers of all lengths, whatever they are written like", func() {
		r := rand.New(rand.NewPCG(5, 6))
		var texts []string
		var want []int64
		for range 300 {
			v := r.Int64() >> r.IntN(64)
			if r.IntN(2) == 0 {
				v = -v
			}
			text := strconv.FormatInt(v, 10)
			switch r.IntN(6) {
			case 0:
				text = " " + text + "\n"
			case 1:
				if v >= 0 {
					text = "+" + text
				}
			case 2:
				v %= 1 << 40
				text = strconv.FormatInt(v, 10) + ".75"
			}
			texts, want = append(texts, text), append(want, v)
		}
		got, err := tensor.Convert(tensor.FromStrings(texts), tensor.Int64, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[int64](got)).To(Equal(want))
		for _, bad := range []string{"", "-", "1-", "--1", "12a", "1 2", "/", ":"} {
			_, err := tensor.Convert(tensor.FromStrings([]string{"1", bad}), tensor.Int64, nil)
			Expect(err).To(MatchError(tensor.ErrSyntax), bad)
			Expect(err).To(MatchError(ContainSubstring("element 1")))
		}
	})

	It("names a string that is no number", func() {
		_, err := tensor.Convert(tensor.FromStrings([]string{"1", "one"}), tensor.Float32, nil)
		Expect(err).To(MatchError(tensor.ErrSyntax))
		Expect(err).To(MatchError(ContainSubstring(`element 1, "one"`)))
	})

	It("rounds to float8e8m0 as told", func() {
		in := tensor.From([]float64{0.7, 1, 1.4, 1.5, 3, 0, math.Inf(1), 0x1p-200})
		for mode, want := range map[tensor.RoundMode][]byte{
			tensor.RoundUp:      {127, 127, 128, 128, 129, 0, 255, 0},
			tensor.RoundDown:    {126, 127, 127, 127, 128, 0, 255, 0},
			tensor.RoundNearest: {126, 127, 127, 128, 129, 0, 255, 0},
		} {
			t, err := tensor.Convert(in, tensor.Float8E8M0, &tensor.ConvertOptions{Round: mode})
			Expect(err).NotTo(HaveOccurred())
			Expect(t.Data).To(Equal(want))
		}
	})

	It("converts every pair of numeric types, long and strided tensors too", func() {
		for from := tensor.Float32; from <= tensor.Int2; from++ {
			if from == tensor.String {
				continue
			}
			src, err := tensor.New(from, 3, 1031)
			Expect(err).NotTo(HaveOccurred())
			if !from.IsComplex() {
				ones := make([]float64, src.Len())
				for i := range ones {
					ones[i] = float64(i & 1)
				}
				Expect(tensor.Encode(src, ones)).To(Succeed())
			}
			for to := tensor.Float32; to <= tensor.Int2; to++ {
				t, err := tensor.Convert(src, to, nil)
				Expect(err).NotTo(HaveOccurred(), "%v to %v", from, to)
				if from.IsComplex() || to.IsComplex() || to == tensor.String || from == tensor.Float8E8M0 || to == tensor.Float8E8M0 {
					continue
				}
				for i := range t.Len() {
					want := float64(i & 1)
					if (from == tensor.Int2 || to == tensor.Int2) && want == 1 {
						want = t.Float64At(1)
					}
					if t.Float64At(i) != want {
						Fail(from.String() + " to " + to.String())
					}
				}
			}
		}
		view := &tensor.Tensor{DType: tensor.Float32, Shape: []int{2, 2}, Strides: []int{1, 2}, Data: tensor.From([]float32{1, 2, 3, 4}).Data}
		t, err := tensor.Convert(view, tensor.Int64, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[int64](t)).To(Equal([]int64{1, 3, 2, 4}))
		Expect(view.Float64At(1)).To(Equal(3.0))
	})

	It("refuses a tensor whose storage is too short", func() {
		_, err := tensor.Convert(&tensor.Tensor{DType: tensor.Int64, Shape: []int{4}, Data: make([]byte, 8)}, tensor.Int8, nil)
		Expect(err).To(MatchError(tensor.ErrShape))
	})
})

var _ = Describe("Elements", func() {
	It("copies what lies at an odd address and shares the rest", func() {
		buf := append([]byte{0}, tensor.From([]float32{1, 2}).Data...)
		t := &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Data: buf, Offset: 1}
		if t.IsAligned(4) {
			t.Offset, t.Shape = 0, []int{1}
		}
		Expect(tensor.Of[float32](t)).To(BeNil())
		Expect(tensor.Elements[float32](t)).To(HaveLen(t.Len()))
		Expect(tensor.Elements[float64](t)).To(BeNil())
		whole := tensor.From([]float32{1, 2})
		Expect(&tensor.Elements[float32](whole)[0]).To(BeIdenticalTo(&tensor.Of[float32](whole)[0]))
	})
})

func load(path string) *tensor.Tensor {
	GinkgoHelper()
	b, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	_, t, err := tensor.ParseProto(b, nil)
	Expect(err).NotTo(HaveOccurred(), path)
	return t
}

func BenchmarkConvert(b *testing.B) {
	for _, pair := range [][2]tensor.DType{{tensor.Float32, tensor.Float16}, {tensor.Float16, tensor.Float32},
		{tensor.Float32, tensor.Float8E4M3FN}, {tensor.Int64, tensor.Int32}, {tensor.Float32, tensor.Int64}} {
		b.Run("from="+pair[0].String()+"/to="+pair[1].String(), func(b *testing.B) {
			t, err := tensor.New(pair[0], 1<<16)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(t.NumBytes()))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tensor.Convert(t, pair[1], nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
