package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var castTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64, tensor.Bool, tensor.Uint8, tensor.Int8,
	tensor.Int16, tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Float16, tensor.BFloat16}

func to(dt tensor.DType) graph.Attr { return graph.IntAttr("to", int64(dt)) }

var _ = Describe("Cast", func() {
	for _, from := range castTypes {
		It("agrees with the reference kernels from "+from.String(), func() {
			m := newModel(1)
			x := small(m, from, 3, 787)
			if from.IsFloat() {
				x = m.op("Cast", m.op("Mul", m.input(3, 787), m.scalar(40)), to(from))
			}
			part := m.op("Slice", x, m.ints(5), m.ints(780), m.ints(1))
			var out []*graph.Value
			for _, dt := range castTypes {
				if dt != from && !(dt == tensor.Uint8 && from.IsFloat()) {
					out = append(out, m.op("Cast", x, to(dt)), m.op("Cast", part, to(dt)))
				}
			}
			m.check(out...)
		})
	}

	It("of floats that no integer holds agrees with the reference kernels", func() {
		m := newModel(1)
		x := m.feed(tensor.From([]float32{300, -300, 3e9, -3e9, 1e20, -1e20, 0.99, -0.99, 255.5, -1}, 10))
		var out []*graph.Value
		for _, dt := range castTypes[2:7] {
			out = append(out, m.op("Cast", x, to(dt)))
		}
		m.check(out...)
	})

	It("of integers rounds once to half precision", func() {
		m := newModel(1)
		big := []int64{0, 1, -1, 2049, 2051, -2049, 65504, 65519, 65520, -65520, 1<<24 + 1, 1<<24 + 1<<16, 1<<24 + 1<<16 + 1, 1<<31 - 1, 1 << 40, 1<<40 + 1<<32 + 1,
			-1<<40 - 1<<32 - 1, 1<<53 - 1, math.MaxInt64, math.MinInt64}
		x := m.feed(tensor.From(big, len(big)))
		m.exact(m.op("Cast", x, to(tensor.Float16)), m.op("Cast", x, to(tensor.BFloat16)))
	})

	It("of integers of every type and any size rounds once to half precision", seeds(30, func(m *model) {
		from := pick(m, tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64)
		x, err := tensor.New(from, pick(m, 1, 17, 300, 2500))
		Expect(err).NotTo(HaveOccurred())
		middles, drop := m.chance(2), m.between(0, 63)
		for b := x.Bytes(); len(b) > 0; b = b[from.Size():] {
			v := int64(m.r.Uint64() >> drop)
			if middles { // next to the middle of two numbers, or at the end of the range
				v = pick(m, int64(257), 259, 2049, 2051, 65520)<<m.between(0, 47) + int64(m.between(-1, 1))
			}
			if m.chance(2) {
				v = -v
			}
			var raw [8]byte
			binary.LittleEndian.PutUint64(raw[:], uint64(v))
			copy(b[:from.Size()], raw[:])
		}
		v := m.feed(x)
		m.exact(m.op("Cast", v, to(tensor.Float16)), m.op("Cast", v, to(tensor.BFloat16)))
	}))

	It("of float64 rounds once to half precision", seeds(5, func(m *model) {
		values := []float64{0, math.Copysign(0, -1), 65519.999, 65520, -65520.001, 1e39, -1e39, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, 0x1p-25, 0x1.000000001p-25, 0x1p-134,
			0x1.0000000001p-134, 0x1p-149, 0x1p-150, 0x1.8p-126, math.MaxFloat32, 3.4028236e38}
		for range 1000 {
			x := math.Ldexp(float64(m.between(1<<11, 1<<12)*2+1), m.between(-150, 20)-12) // next to the middle of two numbers
			values = append(values, x, x*(1+0x1p-40), -x*(1-0x1p-40), math.Ldexp(float64(m.between(1<<8, 1<<9)*2+1), m.between(-150, 130)-9)*(1+float64(m.between(-1, 1))*0x1p-40))
		}
		x := m.feed(tensor.From(values, len(values)))
		m.exact(m.op("Cast", x, to(tensor.Float16)), m.op("Cast", x, to(tensor.BFloat16)))
	}))

	It("to and from floats of 8 bits agrees with the reference kernels, for all of these and next to the middle of two", seeds(16, func(m *model) {
		dt := pick(m, tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2, tensor.Float8E5M2FNUZ)
		all, err := tensor.New(dt, 1<<8)
		Expect(err).NotTo(HaveOccurred())
		for i, b := 0, all.Bytes(); i < len(b); i++ {
			b[i] = byte(i)
		}
		values, err := tensor.Convert(all, tensor.Float32, nil)
		Expect(err).NotTo(HaveOccurred())
		numbers := []float32{float32(math.NaN()), math.Float32frombits(0xff800001), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, 1e-45, -1e-45, 449, 464, 465, -480, 61440, 61441}
		for range m.between(1, 3000) {
			a, b := tensor.Of[float32](values)[m.r.IntN(256)], tensor.Of[float32](values)[m.r.IntN(256)]
			numbers = append(numbers, math.Float32frombits(math.Float32bits(pick(m, a, (a+b)/2))+uint32(m.between(-1, 1))), math.Float32frombits(m.r.Uint32()))
		}
		x, y := m.feed(tensor.From(numbers, len(numbers))), m.feed(all)
		saturate := graph.IntAttr("saturate", int64(m.between(0, 1)))
		m.exact(m.op("Cast", m.op("Cast", x, to(dt), saturate), to(tensor.Float32)), m.op("Cast", y, to(tensor.Float32)),
			m.op("Cast", m.op("Cast", y, to(pick(m, tensor.Float8E5M2, tensor.Float8E4M3FNUZ)), saturate), to(tensor.Float32)),
			m.op("Cast", m.op("Cast", m.op("Cast", x, to(pick(m, tensor.Float16, tensor.BFloat16, tensor.Int64, tensor.Bool))), to(dt), saturate), to(tensor.Float16)),
			m.op("Cast", y, to(tensor.Float64)), m.op("Cast", y, to(tensor.Bool)))
	}))

	It("of half precision takes all numbers of it, in pieces of any length", func() {
		for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			m := newModel(1)
			t, err := tensor.New(dt, 1<<16)
			Expect(err).NotTo(HaveOccurred())
			for i, s := 0, tensor.Of[uint16](t); i < len(s); i++ {
				s[i] = uint16(i)
			}
			x := m.feed(t)
			part := m.op("Slice", x, m.ints(3), m.ints(1<<16-6))
			m.exact(m.op("Cast", x, to(tensor.Float32)), m.op("Cast", part, to(tensor.Float32)), m.op("Cast", part, to(tensor.Float64)),
				m.op("Cast", m.op("Cast", part, to(tensor.Float32)), to(dt)), m.op("Cast", part, to(tensor.Float16+tensor.BFloat16-dt)))
		}
	})
})

var _ = It("casts by way of float32 allocate nothing once they are planned", func(ctx SpecContext) {
	m := newModel(1)
	x := m.feed(as(m.floats(5000), tensor.Float16, false))
	Expect(m.allocations(ctx, m.op("Cast", x, to(tensor.Int32)), m.op("Cast", x, to(tensor.BFloat16)), m.op("Sign", x))).To(BeZero())
})

// exact is check without a tolerance: every number is the same, and NaN where it is none.
func (m *model) exact(outputs ...*graph.Value) {
	GinkgoHelper()
	m.check(outputs...)
	got, _ := mustExecute(m.g, m.feeds, &carve.Options{Strict: true})
	for _, v := range outputs {
		a, b := got[v.Name].(*tensor.Tensor), m.known[v]
		for i := range b.Len() {
			if x, y := a.Float64At(i), b.Float64At(i); x != y && (x == x || y == y) {
				Fail(fmt.Sprintf("%v %d is %g instead of %g", a.DType, i, x, y))
			}
		}
	}
}
