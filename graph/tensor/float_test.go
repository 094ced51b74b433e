package tensor_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

// nearest finds, by search over every bit pattern, the value of dt nearest to x with ties to the even pattern.
func nearest(values []float64, x float64) []int {
	best, at := math.Inf(1), []int{}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		switch d := math.Abs(v - x); {
		case d < best:
			best, at = d, []int{i}
		case d == best:
			at = append(at, i)
		}
	}
	return at
}

func allValues(dt tensor.DType) []float64 {
	n := 1 << dt.Bits()
	t, err := tensor.New(dt, n)
	Expect(err).NotTo(HaveOccurred())
	for i := range n {
		switch dt.Bits() {
		case 16:
			t.Data[2*i], t.Data[2*i+1] = byte(i), byte(i>>8)
		case 8:
			t.Data[i] = byte(i)
		case 4:
			t.Data[i/2] |= byte(i << (i & 1 * 4))
		case 2:
			t.Data[i/4] |= byte(i << (i & 3 * 2))
		}
	}
	out := make([]float64, n)
	Expect(tensor.Decode(out, t)).To(Succeed())
	return out
}

var _ = Describe("float16 and bfloat16", func() {
	It("reads every pattern as it writes it", func() {
		for i := range 1 << 16 {
			h := uint16(i)
			if f := tensor.Float16ToFloat32(h); f == f {
				if tensor.Float32ToFloat16(f) != h {
					Fail("float16")
				}
			}
			if f := tensor.BFloat16ToFloat32(h); f == f {
				if tensor.Float32ToBFloat16(f) != h {
					Fail("bfloat16")
				}
			}
		}
	})

	It("rounds halfway cases to even, and what lies beside them to the nearer one", func() {
		for i := uint16(0); i < 0x7bff; i++ {
			lo, hi := tensor.Float16ToFloat32(i), tensor.Float16ToFloat32(i+1)
			mid := (lo + hi) / 2
			even := i + i&1
			if got := tensor.Float32ToFloat16(mid); got != even {
				Fail("midpoint")
			}
			if tensor.Float32ToFloat16(math.Nextafter32(mid, 0)) != i || tensor.Float32ToFloat16(math.Nextafter32(mid, hi)) != i+1 {
				Fail("beside a midpoint")
			}
		}
		Expect(tensor.Float32ToFloat16(65519)).To(Equal(uint16(0x7bff)))
		Expect(tensor.Float32ToFloat16(65520)).To(Equal(uint16(0x7c00)))
		Expect(tensor.Float32ToBFloat16(math.MaxFloat32)).To(Equal(uint16(0x7f80)))
	})

	It("rounds float64 once", func() {
		// 1 + 2^-11 + 2^-40 lies above a midpoint of float16, but float32 would round it to that midpoint.
		t, err := tensor.Convert(tensor.From([]float64{1 + 0x1p-11 + 0x1p-40}), tensor.Float16, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Float64At(0)).To(Equal(1 + 0x1p-10))
	})
})

var _ = DescribeTable("small floats against a search over all their values", func(dt tensor.DType) {
	values := allValues(dt)
	largest := 0.0
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			largest = max(largest, v)
		}
	}
	var probes []float64
	for i, v := range values {
		if i+1 < len(values) {
			probes = append(probes, v, (v+values[i+1])/2, v*1.001, v*0.999)
		}
	}
	probes = append(probes, largest*1.01, -largest*1.01, 1e-30, -1e-30, largest*4)
	for _, x := range probes {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		t, err := tensor.Convert(tensor.From([]float64{x}), dt, nil)
		Expect(err).NotTo(HaveOccurred())
		want := nearest(values, x)
		pick := values[want[0]]
		if len(want) > 1 && pick != values[want[1]] && want[0]&1 == 1 {
			pick = values[want[1]]
		}
		Expect(t.Float64At(0)).To(Equal(pick), "%v of %v", dt, x)
	}
},
	Entry(nil, tensor.Float8E4M3FN), Entry(nil, tensor.Float8E4M3FNUZ), Entry(nil, tensor.Float8E5M2),
	Entry(nil, tensor.Float8E5M2FNUZ), Entry(nil, tensor.Float4E2M1))

var _ = DescribeTable("values that the formats' specifications name", func(dt tensor.DType, bits byte, want float64) {
	v := allValues(dt)[bits]
	if math.IsNaN(want) {
		Expect(math.IsNaN(v)).To(BeTrue())
		return
	}
	Expect(v).To(Equal(want))
},
	Entry("E4M3FN max", tensor.Float8E4M3FN, byte(0x7e), 448.0),
	Entry("E4M3FN NaN", tensor.Float8E4M3FN, byte(0xff), math.NaN()),
	Entry("E4M3FN smallest", tensor.Float8E4M3FN, byte(1), 0x1p-9),
	Entry("E4M3FNUZ max", tensor.Float8E4M3FNUZ, byte(0x7f), 240.0),
	Entry("E4M3FNUZ NaN", tensor.Float8E4M3FNUZ, byte(0x80), math.NaN()),
	Entry("E5M2 max", tensor.Float8E5M2, byte(0x7b), 57344.0),
	Entry("E5M2 infinity", tensor.Float8E5M2, byte(0xfc), math.Inf(-1)),
	Entry("E5M2 NaN", tensor.Float8E5M2, byte(0x7d), math.NaN()),
	Entry("E5M2FNUZ max", tensor.Float8E5M2FNUZ, byte(0x7f), 57344.0),
	Entry("E5M2FNUZ smallest", tensor.Float8E5M2FNUZ, byte(1), 0x1p-17),
	Entry("E8M0 smallest", tensor.Float8E8M0, byte(0), 0x1p-127),
	Entry("E8M0 one", tensor.Float8E8M0, byte(127), 1.0),
	Entry("E8M0 NaN", tensor.Float8E8M0, byte(255), math.NaN()),
	Entry("E2M1 max", tensor.Float4E2M1, byte(7), 6.0),
	Entry("int4 lowest", tensor.Int4, byte(8), -8.0),
	Entry("uint4 highest", tensor.Uint4, byte(15), 15.0),
	Entry("int2 lowest", tensor.Int2, byte(2), -2.0),
	Entry("uint2 highest", tensor.Uint2, byte(3), 3.0),
)
