package cast_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os/exec"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_double.go", "gen_words.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// guarded returns n bytes with a page behind them, or in front, that faults; behind is up to three bytes off where n is no multiple of four.
func guarded(r *rand.Rand, n int) []byte {
	GinkgoHelper()
	side := []guard.Side{guard.End, guard.Start}[r.IntN(2)]
	b, err := buffers.New((n+3)/4, side, DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b.Data))), 4*len(b.Data))
	if side == guard.End {
		return all[len(all)-n:]
	}
	return all[:n:n]
}

// floats are some at which truncation changes.
var floats = []float64{0, math.Copysign(0, -1), 0.99, -0.99, 1.5, 127.9, 128, 255.5, 256, -129, 65535.9, 1 << 31, -1 << 31, 1<<31 - 128, 1 << 32, -5e9, 1 << 53,
	1 << 62, 1 << 63, -1 << 63, 1 << 64, 3e19, 1e38, -1e38, math.Inf(1), math.Inf(-1), math.NaN(), 1e-45}

// halfway are integers next to the middle between two numbers of half precision, and at the ends of ranges.
var halfway = func() (out []uint64) {
	for shift := range 56 {
		for _, x := range []uint64{257, 259, 2049, 2051, 65519, 65520, 65521} {
			for d := range uint64(3) {
				out = append(out, x<<shift+d-1, -(x<<shift + d - 1))
			}
		}
	}
	return out
}()

// fill sets random elements, in a few of which there is something odd.
func fill(r *rand.Rand, b []byte, t cast.Type, odd bool) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	switch {
	case t == cast.Bool:
		for i := range b {
			b[i] &= 1
		}
	case t == cast.Float32:
		for i := 0; i < len(b); i += 4 {
			x := r.NormFloat64() * math.Exp2(float64(r.IntN(31)))
			if odd && r.IntN(10) == 0 || math.Abs(x) >= 1<<31 {
				x = floats[r.IntN(len(floats))]
			}
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(float32(x)))
		}
	case t == cast.Float64:
		for i := 0; i < len(b); i += 8 {
			x := r.NormFloat64() * math.Exp2(float64(r.IntN(31)))
			if odd && r.IntN(10) == 0 || math.Abs(x) >= 1<<31 {
				x = floats[r.IntN(len(floats))]
			}
			binary.LittleEndian.PutUint64(b[i:], math.Float64bits(x))
		}
	default:
		for i := 0; i < len(b) && odd; i += t.Size() {
			switch x := b[i:][:t.Size()]; r.IntN(4) {
			case 0:
				clear(x)
			case 1:
				var raw [8]byte
				binary.LittleEndian.PutUint64(raw[:], halfway[r.IntN(len(halfway))])
				copy(x, raw[:])
			}
		}
	}
}

// nearest returns the bits of the number of so many digits next to x, a whole number: math/big rounds it, once.
func nearest(x *big.Float, digits uint, least, most int, infinite uint16) (bits uint16) {
	y := new(big.Float).SetPrec(digits).SetMode(big.ToNearestEven).Set(x)
	if y.Signbit() && y.Sign() != 0 {
		bits = 1 << 15
	}
	switch exponent := y.MantExp(nil); {
	case y.Sign() == 0:
		return 0
	case exponent > most:
		return bits | infinite
	default:
		kept, _ := new(big.Float).SetMantExp(y.Abs(y), int(digits)-exponent).Uint64()
		return bits | uint16(exponent-least)<<(digits-1) + uint16(kept)
	}
}

// define converts one element by the definition.
func define(dst []byte, to cast.Type, src []byte, from cast.Type) {
	var raw [8]byte
	copy(raw[:], src[:from.Size()])
	u := binary.LittleEndian.Uint64(raw[:])
	bits, single, real, whole := u, float32(u), float64(u), new(big.Float).SetUint64(u)
	signed := func(s int64) {
		bits, single, real, whole = uint64(s), float32(s), float64(s), new(big.Float).SetInt64(s)
	}
	switch {
	case from == cast.Int8:
		signed(int64(int8(u)))
	case from == cast.Int16:
		signed(int64(int16(u)))
	case from == cast.Int32:
		signed(int64(int32(u)))
	case from == cast.Int64:
		signed(int64(u))
	case from == cast.Float32 || from == cast.Float64:
		if single, real = math.Float32frombits(uint32(u)), math.Float64frombits(u); from == cast.Float32 {
			real = float64(single)
		} else {
			single = float32(real)
		}
		x := math.Trunc(real)
		switch {
		case x != x:
			bits = 0
		case x >= 1<<64:
			bits = math.MaxUint64
		case x >= 1<<63:
			bits = uint64(x)
		case x < -1<<63:
			bits = 1 << 63
		default:
			bits = uint64(int64(x))
		}
		if to != cast.Uint64 && x >= 1<<63 {
			bits = math.MaxInt64
		}
	}
	switch {
	case to == cast.Float32:
		bits = uint64(math.Float32bits(single))
	case to == cast.Float64:
		bits = math.Float64bits(real)
	case to == cast.Float16:
		bits = uint64(nearest(whole, 11, -13, 16, 0x7c00))
	case to == cast.BFloat16:
		bits = uint64(nearest(whole, 8, -125, 128, 0x7f80))
	case to == cast.Bool:
		truth := bits != 0
		if from == cast.Float32 || from == cast.Float64 {
			truth = real != 0
		}
		if bits = 0; truth {
			bits = 1
		}
	}
	binary.LittleEndian.PutUint64(raw[:], bits)
	copy(dst[:to.Size()], raw[:])
}

var _ = It("elements become those of the definition, for every pair of types and instruction set", func() {
	r := rand.New(rand.NewPCG(1, 2))
	for from := cast.Int8; from <= cast.Float64; from++ {
		for to := cast.Int8; to <= cast.BFloat16; to++ {
			if from == to || (from == cast.Float32 || from == cast.Float64) && to >= cast.Float16 {
				continue
			}
			for trial := range 12 {
				n := r.IntN(70)
				if trial == 0 {
					n = 2100
				}
				src, want := guarded(r, n*from.Size()), make([]byte, n*to.Size())
				fill(r, src, from, trial%3 != 0)
				for i := range n {
					define(want[i*to.Size():], to, src[i*from.Size():], from)
				}
				for _, t := range isa.Targets() {
					dst := guarded(r, len(want))
					cast.Elements(t.Set, dst, to, src, from, n)
					Expect(dst).To(Equal(want), "%v: %d from %d, %d elements", t.Set, to, from, n)
				}
			}
		}
	}
	Expect(func() { cast.Elements(isa.Host().Set, make([]byte, 7), cast.Float32, make([]byte, 2), cast.Int8, 2) }).To(Panic())
	Expect(func() { cast.Elements(isa.Host().Set, make([]byte, 8), cast.Float32, make([]byte, 1), cast.Int8, 2) }).To(Panic())
})

var _ = It("float32 becomes float64 and back, rounded to the nearest", func() {
	r := rand.New(rand.NewPCG(5, 5))
	for _, t := range isa.Targets() {
		for range 60 {
			n := 1 + r.IntN(200)
			src, wide := unsafe.Slice((*float32)(unsafe.Pointer(&guarded(r, 4*n)[0])), n), unsafe.Slice((*float64)(unsafe.Pointer(&guarded(r, 8*n)[0])), n)
			for i := range src {
				src[i] = math.Float32frombits(r.Uint32())
				if r.IntN(3) == 0 {
					src[i] = float32(floats[r.IntN(len(floats))])
				}
			}
			cast.Doubles(t.Set, wide, src)
			for i, x := range src {
				Expect(math.Float64bits(wide[i])&^(1<<51)).To(Equal(math.Float64bits(float64(x))&^(1<<51)), "%v of %d with %v", x, n, t)
			}
			for i := range wide {
				wide[i] = math.Float64frombits(r.Uint64())
				if r.IntN(2) == 0 {
					wide[i] = floats[r.IntN(len(floats))] * (1 + float64(r.IntN(3))*0x1p-25)
				}
			}
			cast.Singles(t.Set, src, wide)
			for i, x := range wide {
				want := float32(x)
				if math.IsNaN(x) {
					Expect(math.IsNaN(float64(src[i]))).To(BeTrue())
				} else {
					Expect(math.Float32bits(src[i])).To(Equal(math.Float32bits(want)), "%v of %d with %v", x, n, t)
				}
			}
			Expect(func() { cast.Doubles(t.Set, wide[:n-1:n-1], src) }).To(Panic())
		}
	}
})

var _ = It("float64 are rounded to odd float32, of which math/big knows both neighbours", func() {
	r := rand.New(rand.NewPCG(7, 7))
	for _, t := range isa.Targets() {
		for range 60 {
			n := 1 + r.IntN(100)
			dst, src := unsafe.Slice((*float32)(unsafe.Pointer(&guarded(r, 4*n)[0])), n), unsafe.Slice((*float64)(unsafe.Pointer(&guarded(r, 8*n)[0])), n)
			for i := range src {
				switch r.IntN(4) {
				case 0:
					src[i] = math.Float64frombits(r.Uint64())
				case 1:
					src[i] = floats[r.IntN(len(floats))] * (1 + float64(r.IntN(3)-1)*0x1p-40)
				case 2: // about the smallest of float32
					src[i] = r.NormFloat64() * math.Exp2(float64(-120-r.IntN(40)))
				default:
					src[i] = float64(float32(r.NormFloat64())) * (1 + float64(r.IntN(5)-2)*0x1p-25)
				}
			}
			cast.Oddly(t.Set, dst, src)
			for i, x := range src {
				if math.IsNaN(x) || math.IsInf(x, 0) || x == 0 {
					if y := float64(dst[i]); math.Float64bits(y) != math.Float64bits(x) && (x == x || y == y) {
						Fail(fmt.Sprintf("%v of %v with %v", y, x, t))
					}
					continue
				}
				y, accuracy := new(big.Float).SetPrec(24).SetMode(big.ToZero).SetFloat64(x).Float32()
				switch {
				case math.IsInf(float64(y), 0):
					y = float32(math.Copysign(math.MaxFloat32, x))
				case float64(y) == x && accuracy == big.Exact:
				default:
					if math.Abs(float64(y)) > math.Abs(x) {
						y = math.Float32frombits(math.Float32bits(y) - 1)
					}
					y = math.Float32frombits(math.Float32bits(y) | 1)
				}
				if math.Float32bits(dst[i]) != math.Float32bits(y) {
					Fail(fmt.Sprintf("%v, not %v, of %v with %v", dst[i], y, x, t))
				}
			}
		}
	}
	Expect(func() { cast.Oddly(isa.Host().Set, make([]float32, 1), make([]float64, 2)) }).To(Panic())
})

var _ = It("totals are those of float64, row by row, with both signs of the distance between rows", func() {
	r := rand.New(rand.NewPCG(6, 6))
	for _, t := range isa.Targets() {
		for i := range 80 {
			n, rows := r.IntN(60), 1+r.IntN(20)
			if i == 0 {
				n, rows = 1100, 3
			}
			by, multiplies, exclusive := n+r.IntN(5), r.IntN(2) == 0, r.IntN(2) == 0
			size := (rows-1)*by + n
			src, dst := unsafe.Slice((*float32)(unsafe.Pointer(&guarded(r, 4*size+4)[0])), size), unsafe.Slice((*float32)(unsafe.Pointer(&guarded(r, 4*size+4)[0])), size)
			totals := unsafe.Slice((*float64)(unsafe.Pointer(&guarded(r, 8*n+8)[0])), n)
			for i := range src {
				if src[i] = float32(r.NormFloat64()); r.IntN(40) == 0 {
					src[i] = float32(floats[r.IntN(len(floats))])
				}
			}
			want, sums, first := make([]float32, size), make([]float64, n), 0
			for j := range totals {
				totals[j] = float64(r.IntN(2))
			}
			copy(sums, totals)
			if r.IntN(2) == 0 {
				first, by = (rows-1)*by, -by
			}
			for row := range rows {
				for j := range sums {
					at, before := first+row*by+j, sums[j]
					if sums[j] += float64(src[at]); multiplies {
						sums[j] = before * float64(src[at])
					}
					if want[at] = float32(sums[j]); exclusive {
						want[at] = float32(before)
					}
				}
			}
			cast.Totals(t.Set, multiplies, exclusive, dst, src, first, by, rows, totals)
			for row := range rows {
				for j := range sums {
					at := first + row*by + j
					if math.Float32bits(dst[at]) != math.Float32bits(want[at]) && (dst[at] == dst[at] || want[at] == want[at]) {
						Fail(fmt.Sprintf("%v, not %v: %d rows of %d by %d with %v", dst[at], want[at], rows, n, by, t))
					}
				}
			}
			for j := range sums {
				if totals[j] != sums[j] && (totals[j] == totals[j] || sums[j] == sums[j]) {
					Fail(fmt.Sprintf("%v, not %v, at the end", totals[j], sums[j]))
				}
			}
		}
		Expect(func() {
			cast.Totals(t.Set, false, false, make([]float32, 11), make([]float32, 12), 8, -4, 3, make([]float64, 4))
		}).To(Panic())
	}
})
