package reorder_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// elements are the types of casts, by their names in package tensor, whose Convert is the oracle.
var elements = map[reorder.Element]tensor.DType{reorder.Float32: tensor.Float32, reorder.Float16: tensor.Float16, reorder.BFloat16: tensor.BFloat16,
	reorder.Uint8: tensor.Uint8, reorder.Int8: tensor.Int8}

// odd are floats at which roundings and ranges end.
var odd = []float32{0, float32(math.Copysign(0, -1)), 0.5, 1.5, 2.5, -0.9, 255.9, 256, 300, -129, 65504, 65519, 65520, 1e-8, 6e-8, -3e-5, 1e38,
	1 << 31, -1 << 31, 1 << 62, 1 << 63, -1 << 63, -1 << 64, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xff812345),
	math.MaxFloat32, math.SmallestNonzeroFloat32, math.Float32frombits(0x3f808000), math.Float32frombits(0x3f818000), math.Float32frombits(0x38800fff)}

// values returns n elements of a type.
func values(e reorder.Element, n int, r *rand.Rand) []byte {
	out := make([]byte, n*e.Size())
	for i := range n {
		switch e {
		case reorder.Float32:
			x := odd[r.IntN(len(odd))]
			if r.IntN(2) == 0 {
				x = float32(r.NormFloat64() * 100)
			}
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(x))
		case reorder.Float16, reorder.BFloat16:
			binary.LittleEndian.PutUint16(out[2*i:], uint16(r.Uint32()))
		case reorder.Uint8, reorder.Int8:
			out[i] = byte(r.Uint32())
		}
	}
	return out
}

// guardedBytes is guarded for n bytes, the last of which lies before the page that faults.
func guardedBytes(n int) ([]byte, func()) {
	x, free := guarded((n+3)/4, false)
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
	return b[len(b)-n:], free
}

// alignedBytes is guarded for n bytes that begin at a page, and so at a cache line.
func alignedBytes(n int) ([]byte, func()) {
	x, free := guarded((n+3)/4, true)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), n), free
}

// quiet makes NaNs of Float32 in b quiet: a signalling one may become so on the way.
func quiet(b []byte) {
	for i := 0; i+4 <= len(b); i += 4 {
		if x := binary.LittleEndian.Uint32(b[i:]); x&0x7fffffff > 0x7f800000 {
			binary.LittleEndian.PutUint32(b[i:], x|0x400000)
		}
	}
}

// checkCast compares a cast with the definition, run whole and in a random order of chunks.
func checkCast(target isa.Target, s reorder.Spec, from, to reorder.Element, r *rand.Rand) error {
	c, err := reorder.NewCast(target, s, from, to)
	if err != nil {
		return err
	}
	return checkPlannedCast(c, s, from, to, r)
}

func checkPlannedCast(c *reorder.Cast, s reorder.Spec, from, to reorder.Element, r *rand.Rand) error {
	logical := values(from, s.N*s.C*s.HW, r)
	t, err := tensor.Convert(&tensor.Tensor{DType: elements[from], Shape: []int{s.N * s.C * s.HW}, Data: logical}, elements[to], nil)
	if err != nil {
		return err
	}
	src, free := guardedBytes(s.N * s.From.Floats(s.C, s.HW) * from.Size())
	defer free()
	dst, freeDst := guardedBytes(s.N * s.To.Floats(s.C, s.HW) * to.Size())
	defer freeDst()
	if n := len(dst); r.IntN(2) == 0 {
		var freeFront func()
		dst, freeFront = alignedBytes(n)
		defer freeFront()
	}
	want := make([]byte, len(dst))
	for n := range s.N {
		for ch := range s.C {
			for px := range s.HW {
				i := (n*s.C+ch)*s.HW + px
				at := (n*s.From.Floats(s.C, s.HW) + offset(s.From, s.C, s.HW, ch, px)) * from.Size()
				copy(src[at:], logical[i*from.Size():(i+1)*from.Size()])
				at = (n*s.To.Floats(s.C, s.HW) + offset(s.To, s.C, s.HW, ch, px)) * to.Size()
				copy(want[at:], t.Data[i*to.Size():(i+1)*to.Size()])
			}
		}
	}
	if to == reorder.Float32 {
		quiet(want)
	}
	for round := range 2 {
		for i := range dst {
			dst[i] = 0xa5
		}
		order := r.Perm(c.Chunks())
		if round == 0 {
			if err := c.Run(0, c.Chunks(), dst, src); err != nil {
				return err
			}
			order = nil
		}
		for _, i := range order {
			if err := c.Run(i, i+1, dst, src); err != nil {
				return err
			}
		}
		if to == reorder.Float32 {
			quiet(dst)
		}
		if !bytes.Equal(dst, want) {
			for i := range dst {
				if dst[i] != want[i] {
					return fmt.Errorf("round %d: byte %d is %#x, want %#x", round, i, dst[i], want[i])
				}
			}
		}
	}
	return nil
}

var _ = Describe("Cast", func() {
	onTargets("rounds and moves as the definition has it", func(target isa.Target) {
		r := rand.New(rand.NewPCG(1, 2))
		for small := reorder.Float16; small <= reorder.Int8; small++ {
			for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
				for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
					for range 4 {
						s := reorder.Spec{N: 1 + r.IntN(2), C: 1 + r.IntN(40), HW: 1 + r.IntN(150), From: from, To: to}
						Expect(checkCast(target, s, reorder.Float32, small, r)).To(Succeed(), "%+v to %d", s, small)
						Expect(checkCast(target, s, small, reorder.Float32, r)).To(Succeed(), "%+v from %d", s, small)
						Expect(checkCast(target, s, small, small, r)).To(Succeed(), "%+v of %d", s, small)
					}
				}
			}
		}
	})
	onTargets("moves elements of one and two bytes by tiles of any kind", func(target isa.Target) {
		r := rand.New(rand.NewPCG(23, 24))
		for _, e := range []reorder.Element{reorder.Uint8, reorder.Float16} {
			for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
				for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
					for _, c := range []int{2, 3, 4, 64, 72, 130} {
						for _, hw := range []int{1, 15, 16, 31, 32, 63, 64, 65, 97, 300} {
							s := reorder.Spec{N: 1, C: c, HW: hw, From: from, To: to}
							Expect(checkCast(target, s, e, e, r)).To(Succeed(), "%+v of %d", s, e)
						}
					}
				}
			}
		}
	})
	onTargets("moves and casts rows of any few channels", func(target isa.Target) {
		r := rand.New(rand.NewPCG(27, 28))
		layouts := []reorder.Layout{reorder.NHWC, reorder.NCHW16c, reorder.NCHW8c, reorder.NCHW}
		for c := 1; c <= 40; c++ {
			for _, from := range layouts {
				for _, to := range layouts {
					s := reorder.Spec{N: 1, C: c, HW: 1 + r.IntN(40), From: from, To: to}
					for _, pair := range [][2]reorder.Element{{reorder.Uint8, reorder.Uint8}, {reorder.Float16, reorder.Float16}, {reorder.Float32, reorder.Float16},
						{reorder.Uint8, reorder.Float32}} {
						Expect(checkCast(target, s, pair[0], pair[1], r)).To(Succeed(), "%+v from %d to %d", s, pair[0], pair[1])
					}
				}
			}
		}
	})
	onTargets("writes large tensors past the caches", func(target isa.Target) {
		r := rand.New(rand.NewPCG(7, 8))
		streamed := 0
		for small := reorder.Float16; small <= reorder.Int8; small++ {
			for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
				for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
					s := reorder.Spec{N: 1 + r.IntN(2), C: 16*(1+r.IntN(3)) - r.IntN(2), HW: 16 * (1 + r.IntN(20)), From: from, To: to}
					if r.IntN(3) == 0 {
						s.C, s.HW = 1+r.IntN(5), 64*(1+r.IntN(30))
					}
					for _, pair := range [][2]reorder.Element{{reorder.Float32, small}, {small, reorder.Float32}, {small, small}} {
						c, stream, err := reorder.NewStreamingCast(target, s, pair[0], pair[1])
						Expect(err).NotTo(HaveOccurred())
						if stream {
							streamed++
						}
						Expect(checkPlannedCast(c, s, pair[0], pair[1], r)).To(Succeed(), "%+v from %d to %d", s, pair[0], pair[1])
					}
				}
			}
		}
		if target.Set == isa.AVX512 {
			Expect(streamed).To(BeNumerically(">", 0))
		}
	})
	onTargets("knows every 16-bit float", func(target isa.Target) {
		src := make([]byte, 2<<16)
		for i := range 1 << 16 {
			binary.LittleEndian.PutUint16(src[2*i:], uint16(i))
		}
		for _, e := range []reorder.Element{reorder.Float16, reorder.BFloat16} {
			s := reorder.Spec{N: 1, C: 1, HW: 1 << 16}
			there, err := reorder.NewCast(target, s, e, reorder.Float32)
			Expect(err).NotTo(HaveOccurred())
			back, err := reorder.NewCast(target, s, reorder.Float32, e)
			Expect(err).NotTo(HaveOccurred())
			f, again := make([]byte, 4<<16), make([]byte, 2<<16)
			Expect(there.Run(0, there.Chunks(), f, src)).To(Succeed())
			Expect(back.Run(0, back.Chunks(), again, f)).To(Succeed())
			for i := range 1 << 16 {
				x := math.Float32frombits(binary.LittleEndian.Uint32(f[4*i:]))
				want := tensor.Float16ToFloat32(uint16(i))
				if e == reorder.BFloat16 {
					want = math.Float32frombits(uint32(i) << 16)
				}
				if x != want && (x == x || want == want) {
					Fail(fmt.Sprintf("%#x is %g, want %g", i, x, want))
				}
				if x == x && binary.LittleEndian.Uint16(again[2*i:]) != uint16(i) {
					Fail(fmt.Sprintf("%#x came back as %#x", i, binary.LittleEndian.Uint16(again[2*i:])))
				}
			}
		}
	})
	onTargets("rounds what lies between any two bfloat16", func(target isa.Target) {
		lows := []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff}
		n := len(lows) << 16
		src, dst := make([]byte, 4*n), make([]byte, 2*n)
		for i := range n {
			binary.LittleEndian.PutUint32(src[4*i:], uint32(i/len(lows))<<16|lows[i%len(lows)])
		}
		c, err := reorder.NewCast(target, reorder.Spec{N: 1, C: 1, HW: n}, reorder.Float32, reorder.BFloat16)
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Run(0, c.Chunks(), dst, src)).To(Succeed())
		for i := range n {
			up, low := uint16(i/len(lows)), lows[i%len(lows)]
			want := up
			switch {
			case up&0x7fff > 0x7f80 || up&0x7fff == 0x7f80 && low != 0:
				want = up&0x8000 | 0x7fc0
			case low > 0x8000 || low == 0x8000 && up&1 == 1:
				want++
			}
			if got := binary.LittleEndian.Uint16(dst[2*i:]); got != want {
				Fail(fmt.Sprintf("%#04x%04x became %#x, want %#x", up, low, got, want))
			}
		}
	})
	onTargets("changes rows of any length, as many as there is room for", func(target isa.Target) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, e := range []reorder.Element{reorder.Float16, reorder.BFloat16} {
			for n := range 70 {
				src := make([]uint16, n)
				for i := range src {
					src[i] = uint16(r.Uint32()) &^ 0x0400 &^ 0x0080 // no NaN
				}
				dst, back := make([]float32, n+1), make([]uint16, n+1)
				dst[n], back[n] = 7, 7
				reorder.FromHalf(target, dst, src, e)
				reorder.ToHalf(target, back, dst[:n], e)
				Expect(back[:n]).To(Equal(src))
				for i, h := range src {
					want := tensor.Float16ToFloat32(h)
					if e == reorder.BFloat16 {
						want = tensor.BFloat16ToFloat32(h)
					}
					Expect(dst[i]).To(Equal(want))
				}
				Expect(dst[n] == 7 && back[n] == 7).To(BeTrue())
			}
		}
		dst, half := []float32{7}, []uint16{7}
		reorder.FromHalf(target, dst, half, reorder.Uint8)
		reorder.ToHalf(target, half, dst, reorder.Float32)
		Expect(dst[0] == 7 && half[0] == 7).To(BeTrue(), "types that are no half precision")
	})
	It("cuts long tensors into chunks", func() {
		r := rand.New(rand.NewPCG(3, 4))
		for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
			for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
				s := reorder.Spec{N: 1, C: 90, HW: 1111, From: from, To: to}
				Expect(checkCast(isa.Host(), s, reorder.Float32, reorder.Uint8, r)).To(Succeed(), "%+v", s)
			}
		}
	})
	It("turns down other pairs of types, short buffers and wrong ranges", func() {
		s := reorder.Spec{N: 1, C: 3, HW: 5, To: reorder.NCHW16c}
		for _, e := range [][2]reorder.Element{{reorder.Float32, reorder.Float32}, {reorder.Uint8, reorder.Int8}, {reorder.Float16, reorder.BFloat16}, {reorder.Float32, 5}, {9, reorder.Float32}} {
			_, err := reorder.NewCast(isa.Host(), s, e[0], e[1])
			Expect(err).To(MatchError(reorder.ErrShape))
		}
		_, err := reorder.NewCast(isa.Host(), reorder.Spec{}, reorder.Float32, reorder.Uint8)
		Expect(err).To(MatchError(reorder.ErrShape))
		c, err := reorder.NewCast(isa.Host(), s, reorder.Float32, reorder.Float16)
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Run(0, 1, make([]byte, 159), make([]byte, 60))).To(MatchError(reorder.ErrBuffer))
		Expect(c.Run(0, 1, make([]byte, 160), make([]byte, 59))).To(MatchError(reorder.ErrBuffer))
		Expect(c.Run(0, 2, make([]byte, 160), make([]byte, 60))).To(MatchError(reorder.ErrShape))
		Expect(c.Run(0, 1, make([]byte, 160), make([]byte, 60))).To(Succeed())
	})
	It("does not allocate when it runs", func() {
		c, err := reorder.NewCast(isa.Host(), reorder.Spec{N: 1, C: 30, HW: 50, To: reorder.NHWC}, reorder.Float32, reorder.Float16)
		Expect(err).NotTo(HaveOccurred())
		dst, src := make([]byte, 3000), make([]byte, 6000)
		Expect(testing.AllocsPerRun(10, func() { _ = c.Run(0, c.Chunks(), dst, src) })).To(BeZero())
	})
})
