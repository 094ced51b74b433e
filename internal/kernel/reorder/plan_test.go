package reorder_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/testshare"
)

// offset is where element (c, px) of an image is.
func offset(l reorder.Layout, channels, hw, c, px int) int {
	switch l {
	case reorder.NCHW:
		return c*hw + px
	case reorder.NHWC:
		return px*channels + c
	case reorder.NCHW8c:
		return (c/8*hw+px)*8 + c%8
	case reorder.NCHW16c:
	}
	return (c/16*hw+px)*16 + c%16
}

// lanesOf returns how many channels a block of a layout has, 0 for one without blocks.
func lanesOf(l reorder.Layout) int {
	switch l {
	case reorder.NCHW16c:
		return 16
	case reorder.NCHW8c:
		return 8
	case reorder.NCHW, reorder.NHWC:
	}
	return 0
}

const canary = 12345

// onTargets registers a spec per target of this machine, and, where choices depend on the second cache, for a small one and a large one.
func onTargets(text string, body func(isa.Target)) {
	for _, t := range isa.Targets() {
		caches := []int{t.SecondCache()}
		if t.Set == isa.AVX512 {
			caches = []int{1 << 20, 2 << 20}
		} else if t.Set == isa.AVX2 {
			caches = []int{32 << 10, 1 << 20}
		}
		for _, bytes := range caches {
			t := t // of its own for each
			t.Caches[1].Bytes = bytes
			It(fmt.Sprintf("%s (%s, %d KiB)", text, t.Class(), bytes>>10), func() { body(t) })
		}
	}
}

// checkReorder compares a plan with the definition, element by element, run whole and in a random order of chunks.
func checkReorder(target isa.Target, s reorder.Spec, r *rand.Rand, front bool) error {
	p, err := reorder.New(target, s)
	if err != nil {
		return err
	}
	return checkPlan(p, r, front)
}

func checkPlan(p *reorder.Plan, r *rand.Rand, front bool) error {
	s := p.Spec
	src, free := guarded((s.N-1)*s.SrcImage+s.From.Floats(s.C, s.HW), front)
	defer free()
	dst, freeDst := guarded((s.N-1)*s.DstImage+s.To.Floats(s.C, s.HW), front)
	defer freeDst()
	for i := range src {
		src[i] = r.Float32() + 1
	}
	want := make([]float32, len(dst))
	for i := range want {
		want[i] = canary
	}
	for n := range s.N {
		image := want[n*s.DstImage:]
		if s.To == reorder.NCHW16c || s.To == reorder.NCHW8c {
			clear(image[:s.To.Floats(s.C, s.HW)])
		}
		for c := range s.C {
			for px := range s.HW {
				if w := lanesOf(s.From); w > 0 && c == s.C-1 {
					for l := s.C % w; l > 0 && l < w; l++ {
						src[n*s.SrcImage+offset(s.From, s.C, s.HW, c/w*w+l, px)] = 0
					}
				}
				image[offset(s.To, s.C, s.HW, c, px)] = src[n*s.SrcImage+offset(s.From, s.C, s.HW, c, px)]
			}
		}
	}
	for round := range 2 {
		for i := range dst {
			dst[i] = canary
		}
		order := r.Perm(p.Chunks())
		if round == 0 {
			if err := p.Run(0, p.Chunks(), dst, src); err != nil {
				return err
			}
			order = nil
		}
		for _, i := range order {
			if err := p.Run(i, i+1, dst, src); err != nil {
				return err
			}
		}
		for i := range dst {
			if dst[i] != want[i] {
				return fmt.Errorf("round %d: float %d is %g, want %g", round, i, dst[i], want[i])
			}
		}
	}
	return nil
}

var _ = Describe("Plan", func() {
	onTargets("moves every element between all layouts", func(target isa.Target) {
		r := rand.New(rand.NewPCG(1, 2))
		for range testshare.Of(40) {
			for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
				for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
					s := reorder.Spec{N: 1 + r.IntN(2), C: 1 + r.IntN(70), HW: 1 + r.IntN(90), From: from, To: to}
					if r.IntN(2) == 0 {
						s.SrcImage, s.DstImage = from.Floats(s.C, s.HW)+r.IntN(40), to.Floats(s.C, s.HW)+r.IntN(40)
					}
					Expect(checkReorder(target, s, r, r.IntN(2) == 0)).To(Succeed(), "%+v", s)
				}
			}
		}
	})
	onTargets("moves planes that lie multiples of 4 KiB apart", func(target isa.Target) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, s := range []reorder.Spec{{From: reorder.NCHW, To: reorder.NHWC}, {From: reorder.NHWC, To: reorder.NCHW}, {From: reorder.NCHW, To: reorder.NCHW16c},
			{From: reorder.NCHW16c, To: reorder.NCHW}} {
			for _, c := range []int{8, 16, 31, 40, 64} {
				s.N, s.C, s.HW = 2, c, 1024
				Expect(checkReorder(target, s, r, c%16 == 0)).To(Succeed(), "%+v", s)
			}
		}
	})
	onTargets("moves any few channels of any few pixels", func(target isa.Target) {
		r := rand.New(rand.NewPCG(25, 26))
		for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
			for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
				for c := 1; c <= 18; c++ {
					for _, hw := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33} {
						s := reorder.Spec{N: 1, C: c, HW: hw, From: from, To: to}
						Expect(checkReorder(target, s, r, r.IntN(2) == 0)).To(Succeed(), "%+v", s)
					}
				}
			}
		}
	})
	onTargets("cuts long tensors into chunks", func(target isa.Target) {
		r := rand.New(rand.NewPCG(3, 4))
		for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
			for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
				s := reorder.Spec{N: 1, C: 90, HW: 1111, From: from, To: to}
				p, err := reorder.New(target, s)
				Expect(err).NotTo(HaveOccurred())
				Expect(p.Chunks()).To(BeNumerically(">", 1))
				Expect(checkReorder(target, s, r, true)).To(Succeed(), "%+v", s)
			}
		}
	})
	onTargets("writes large tensors past the caches, and begins anywhere", func(target isa.Target) {
		r := rand.New(rand.NewPCG(9, 10))
		streamed := 0
		for range testshare.Of(20) {
			for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
				for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
					s := reorder.Spec{N: 1 + r.IntN(2), C: 1 + r.IntN(50), HW: 1 + r.IntN(90), From: from, To: to}
					if r.IntN(3) > 0 {
						s.C, s.HW = 16*(1+r.IntN(9)), 16*(1+r.IntN(24))
					}
					p, stream, err := reorder.NewStreaming(target, s)
					Expect(err).NotTo(HaveOccurred())
					if stream {
						streamed++
					}
					// In front, the destination begins at a page and so at a line; at the end it may not.
					Expect(checkPlan(p, r, r.IntN(3) > 0)).To(Succeed(), "%+v", s)
				}
			}
		}
		streams := streamed > 0
		Expect(streams).To(Equal(target.Set == isa.AVX2 || target.Set == isa.AVX512))
	})
	onTargets("moves planes of any number of whole tiles", func(target isa.Target) {
		r := rand.New(rand.NewPCG(35, 36))
		for range testshare.Of(30) {
			s := reorder.Spec{N: 1 + r.IntN(2), C: 1 + r.IntN(70), HW: 16 * (1 + r.IntN(240)), From: reorder.NCHW, To: reorder.NCHW16c}
			Expect(checkReorder(target, s, r, r.IntN(2) == 0)).To(Succeed(), "%+v", s)
		}
	})
	onTargets("writes planes that lie whole pages apart by way of the caches with AVX2", func(target isa.Target) {
		r := rand.New(rand.NewPCG(33, 34))
		for range 6 {
			s := reorder.Spec{N: 1 + r.IntN(2), C: 16 * (1 + r.IntN(4)), HW: 1024 * (1 + r.IntN(3)), From: reorder.NCHW16c, To: reorder.NCHW}
			p, stream, err := reorder.NewStreaming(target, s)
			Expect(err).NotTo(HaveOccurred())
			Expect(stream).To(Equal(target.Set == isa.AVX512), "%+v", s)
			Expect(checkPlan(p, r, r.IntN(2) == 0)).To(Succeed(), "%+v", s)
		}
	})
	onTargets("writes rows that do not begin at cache lines past the caches where they lie together", func(target isa.Target) {
		r := rand.New(rand.NewPCG(17, 18))
		parts := 0
		for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
			for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
				for _, size := range [][2]int{{300, 49}, {307, 196}, {100, 1500}, {17, 1111}, {255, 121}} { // channels, pixels
					s := reorder.Spec{N: 2, C: size[0], HW: size[1], From: from, To: to}
					p, stream, err := reorder.NewStreaming(target, s)
					Expect(err).NotTo(HaveOccurred())
					if stream && s.HW%2 == 1 && to != reorder.NCHW16c {
						parts++
					}
					Expect(checkPlan(p, r, r.IntN(2) == 0)).To(Succeed(), "%+v", s)
				}
			}
		}
		inParts := parts > 0
		Expect(inParts).To(Equal(target.Set == isa.AVX2 || target.Set == isa.AVX512))
	})
	onTargets("writes past the caches from any byte on", func(target isa.Target) {
		r := rand.New(rand.NewPCG(19, 20))
		for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
			for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
				for _, size := range [][2]int{{100, 49}, {64, 64}} { // channels, pixels
					p, _, err := reorder.NewStreaming(target, reorder.Spec{N: 1, C: size[0], HW: size[1], From: from, To: to})
					Expect(err).NotTo(HaveOccurred())
					src, want := make([]float32, from.Floats(size[0], size[1])), make([]float32, to.Floats(size[0], size[1]))
					for i := range src {
						src[i] = r.Float32()
					}
					Expect(p.Run(0, p.Chunks(), want, src)).To(Succeed())
					for _, off := range []int{1, 2, 3, 4, 37, 62} {
						bytes := make([]byte, 4*len(want)+off)
						dst := unsafe.Slice((*float32)(unsafe.Pointer(&bytes[off])), len(want))
						Expect(p.Run(0, p.Chunks(), dst, src)).To(Succeed())
						Expect(slices.Equal(dst, want)).To(BeTrue(), "%+v, %d bytes behind a line", p.Spec, off)
					}
				}
			}
		}
	})
	onTargets("writes rows that begin anywhere, into the caches too", func(target isa.Target) {
		r := rand.New(rand.NewPCG(21, 22))
		for from := reorder.NCHW; from <= reorder.NCHW8c; from++ {
			for to := reorder.NCHW; to <= reorder.NCHW8c; to++ {
				for _, size := range [][2]int{{3, 40}, {16, 16}, {24, 257}, {58, 121}, {100, 49}, {150, 20}, {300, 17}, {520, 33}} { // channels, pixels
					s := reorder.Spec{N: 2, C: size[0], HW: size[1], From: from, To: to}
					s.DstImage = to.Floats(s.C, s.HW) + r.IntN(5)
					for _, front := range []bool{true, false} {
						Expect(checkReorder(target, s, r, front)).To(Succeed(), "%+v", s)
					}
				}
				s := reorder.Spec{N: 1, C: 50, HW: 83, From: from, To: to}
				p, err := reorder.New(target, s)
				Expect(err).NotTo(HaveOccurred())
				src, want := make([]float32, from.Floats(s.C, s.HW)), make([]float32, to.Floats(s.C, s.HW))
				for i := range src {
					src[i] = r.Float32()
				}
				Expect(p.Run(0, p.Chunks(), want, src)).To(Succeed())
				for off := range 66 {
					bytes := make([]byte, 4*len(want)+off)
					dst := unsafe.Slice((*float32)(unsafe.Pointer(&bytes[off])), len(want))
					Expect(p.Run(0, p.Chunks(), dst, src)).To(Succeed())
					Expect(slices.Equal(dst, want)).To(BeTrue(), "%+v, %d bytes behind a line", s, off)
				}
			}
		}
	})
	onTargets("moves few channels", func(target isa.Target) {
		r := rand.New(rand.NewPCG(15, 16))
		for c := 1; c <= 5; c++ {
			for _, hw := range []int{1, 7, 8, 15, 16, 17, 40, 64, 333, 5000} {
				for _, s := range []reorder.Spec{{N: 1, From: reorder.NCHW, To: reorder.NHWC}, {N: 2, From: reorder.NHWC, To: reorder.NCHW},
					{N: 2, From: reorder.NCHW16c, To: reorder.NHWC}, {N: 1, From: reorder.NHWC, To: reorder.NCHW16c}} {
					s.C, s.HW = c, hw
					for _, front := range []bool{true, false} {
						Expect(checkReorder(target, s, r, front)).To(Succeed(), "%+v", s)
						p, stream, err := reorder.NewStreaming(target, s)
						Expect(err).NotTo(HaveOccurred())
						if stream {
							Expect(checkPlan(p, r, front)).To(Succeed(), "%+v", s)
						}
					}
				}
			}
		}
	})
	It("turns down impossible shapes, short buffers and wrong ranges", func() {
		for _, s := range []reorder.Spec{{}, {N: 1, C: -1, HW: 1}, {N: 1 << 20, C: 1 << 20, HW: 1 << 20}, {N: 1, C: 1, HW: 1, To: 4}, {N: 2, C: 4, HW: 4, SrcImage: 15}} {
			_, err := reorder.New(isa.Host(), s)
			Expect(err).To(MatchError(reorder.ErrShape))
			var typed *reorder.Error
			Expect(errors.As(err, &typed)).To(BeTrue())
		}
		p, err := reorder.New(isa.Host(), reorder.Spec{N: 1, C: 3, HW: 5, To: reorder.NCHW16c})
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Run(0, 1, make([]float32, 79), make([]float32, 15))).To(MatchError(reorder.ErrBuffer))
		Expect(p.Run(0, 1, make([]float32, 80), make([]float32, 14))).To(MatchError(reorder.ErrBuffer))
		Expect(p.Run(0, 2, make([]float32, 80), make([]float32, 15))).To(MatchError(reorder.ErrShape))
		Expect(p.Run(0, 1, make([]float32, 80), make([]float32, 15))).To(Succeed())
	})
	It("does not allocate when it runs", func() {
		p, err := reorder.New(isa.Host(), reorder.Spec{N: 1, C: 30, HW: 50, To: reorder.NCHW16c})
		Expect(err).NotTo(HaveOccurred())
		dst, src := make([]float32, 1600), make([]float32, 1500)
		Expect(testing.AllocsPerRun(10, func() { _ = p.Run(0, p.Chunks(), dst, src) })).To(BeZero())
	})
})

var _ = Describe("Gather", func() {
	check := func(target isa.Target, block int, r *rand.Rand, n, hw int, channels []int, table []reorder.Channel, front bool) error {
		floats := func(c int) int { return (c + block - 1) / block * block * hw }
		at := func(c, px int) int { return (c/block*hw+px)*block + c%block }
		var sources []reorder.Source
		var data [][]float32
		for i, c := range channels {
			s := reorder.Source{C: c}
			image := floats(c)
			if r.IntN(2) == 0 {
				s.Image = image + block*hw
				image = s.Image
			}
			sources = append(sources, s)
			x, free := guarded((n-1)*image+floats(c), front)
			defer free()
			for k := range x {
				x[k] = float32(1000*(i+1)) + r.Float32()
			}
			data = append(data, x)
		}
		blocks := (len(table) + block - 1) / block
		dstImage := blocks*hw*block + 32
		g, err := reorder.NewGather(target, block, n, hw, sources, table, dstImage)
		if err != nil {
			return err
		}
		dst, free := guarded((n-1)*dstImage+blocks*hw*block, front)
		defer free()
		for i := range dst {
			dst[i] = canary
		}
		for _, i := range r.Perm(g.Chunks()) {
			if err := g.Run(i, i+1, dst, data); err != nil {
				return err
			}
		}
		for i := range n {
			for c := range blocks * block {
				for px := range hw {
					want := float32(0)
					if c < len(table) && table[c].Tensor >= 0 {
						from := table[c]
						image := floats(channels[from.Tensor])
						if sources[from.Tensor].Image != 0 {
							image = sources[from.Tensor].Image
						}
						want = data[from.Tensor][i*image+at(from.Channel, px)]
					}
					if got := dst[i*dstImage+at(c, px)]; got != want {
						return fmt.Errorf("image %d, channel %d, pixel %d: %g, want %g", i, c, px, got, want)
					}
				}
			}
			if i+1 < n && dst[i*dstImage+blocks*hw*block] != canary {
				return fmt.Errorf("wrote behind image %d", i)
			}
		}
		return nil
	}
	onTargets("takes any channel from anywhere", func(target isa.Target) {
		r := rand.New(rand.NewPCG(5, 6))
		for range testshare.Of(60) {
			channels := []int{1 + r.IntN(40), 1 + r.IntN(70), 16}
			table := make([]reorder.Channel, 1+r.IntN(60))
			for c := range table {
				t := r.IntN(4) - 1
				if t >= 0 {
					table[c] = reorder.Channel{Tensor: t, Channel: r.IntN(channels[t])}
				} else {
					table[c].Tensor = -1
				}
			}
			Expect(check(target, 8+8*r.IntN(2), r, 1+r.IntN(2), 1+r.IntN(300), channels, table, r.IntN(2) == 0)).To(Succeed())
		}
	})
	onTargets("concatenates, splits and shuffles", func(target isa.Target) {
		r := rand.New(rand.NewPCG(7, 8))
		var concat, split, shuffle []reorder.Channel
		for i, c := range []int{24, 32, 7} {
			for k := range c {
				concat = append(concat, reorder.Channel{Tensor: i, Channel: k})
			}
		}
		for k := range 32 {
			split = append(split, reorder.Channel{Tensor: 1, Channel: k})
		}
		for k := range 24 {
			shuffle = append(shuffle, reorder.Channel{Tensor: 0, Channel: k%3*8 + k/3})
		}
		for _, table := range [][]reorder.Channel{concat, split, split[3:], shuffle} {
			for _, block := range []int{8, 16} {
				Expect(check(target, block, r, 2, 49, []int{24, 32, 7}, table, true)).To(Succeed())
			}
		}
	})
	It("turns down what does not exist", func() {
		one := []reorder.Source{{C: 4}}
		for _, table := range [][]reorder.Channel{nil, {{Tensor: 1}}, {{Channel: 4}}, {{Channel: -1}}} {
			_, err := reorder.NewGather(isa.Host(), 16, 1, 1, one, table, 0)
			Expect(err).To(MatchError(reorder.ErrShape))
		}
		g, err := reorder.NewGather(isa.Host(), 16, 1, 1, one, []reorder.Channel{{Channel: 3}}, 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Run(0, 1, make([]float32, 16), nil)).To(MatchError(reorder.ErrBuffer))
		Expect(g.Run(0, 1, make([]float32, 15), [][]float32{make([]float32, 16)})).To(MatchError(reorder.ErrBuffer))
		Expect(g.Run(0, 1, make([]float32, 16), [][]float32{make([]float32, 15)})).To(MatchError(reorder.ErrBuffer))
		Expect(g.Run(-1, 1, make([]float32, 16), [][]float32{make([]float32, 16)})).To(MatchError(reorder.ErrShape))
	})
})

var _ = Describe("Transpose2D", func() {
	// check compares a transposition between guard pages with the definition; what lies between rows is not touched.
	check := func(target isa.Target, transpose func(t isa.Target, dst, src []float32, rows, cols, ldSrc, ldDst int), rows, cols, ldSrc, ldDst int, front bool) {
		GinkgoHelper()
		src, free := guarded((rows-1)*ldSrc+cols, front)
		defer free()
		dst, freeDst := guarded((cols-1)*ldDst+rows, front)
		defer freeDst()
		for i := range src {
			src[i] = float32(i + 1)
		}
		for i := range dst {
			dst[i] = canary
		}
		transpose(target, dst, src, rows, cols, ldSrc, ldDst)
		for i, v := range dst {
			want := float32(canary)
			if c, r := i/ldDst, i%ldDst; r < rows {
				want = src[r*ldSrc+c]
			}
			if v != want {
				Fail(fmt.Sprintf("[%d, %d], strides %d and %d: float %d is %g, want %g", rows, cols, ldSrc, ldDst, i, v, want))
			}
		}
	}
	onTargets("transposes matrices of any shape", func(target isa.Target) {
		r := rand.New(rand.NewPCG(11, 12))
		for range testshare.Of(300) {
			rows, cols := 1+r.IntN(90), 1+r.IntN(90)
			if r.IntN(4) == 0 {
				rows = 1 + r.IntN(700)
			}
			ldSrc, ldDst := cols, rows
			if r.IntN(2) == 0 {
				ldSrc, ldDst = cols+r.IntN(20), rows+r.IntN(20)
			}
			check(target, reorder.Transpose2D, rows, cols, ldSrc, ldDst, r.IntN(2) == 0)
		}
		for _, s := range [][2]int{{3, 9001}, {9001, 3}, {2, 100}, {100, 4}, {17, 4100}, {1, 5000}, {1040, 260}, {100, 1024}, {1024, 70}, {35, 2048}} {
			check(target, reorder.Transpose2D, s[0], s[1], s[1], s[0], true)
		}
	})
	onTargets("writes past the caches", func(target isa.Target) {
		r := rand.New(rand.NewPCG(13, 14))
		for range testshare.Of(60) {
			rows, cols := 1+r.IntN(600), 1+r.IntN(200)
			check(target, reorder.TransposeStreaming, rows, cols, cols, (rows+15)/16*16, true)
		}
	})
	It("moves nothing where there is nothing", func() {
		reorder.Transpose2D(isa.Host(), nil, nil, 0, 5, 5, 1)
		reorder.Transpose2D(isa.Host(), nil, nil, 5, 0, 1, 5)
	})
})

var _ = Describe("Tile", func() {
	onTargets("transposes small matrices", func(target isa.Target) {
		for rows := range 17 {
			for cols := range 17 {
				src, free := guarded(max(1, (max(rows, 1)-1)*20+cols), false)
				for i := range src {
					src[i] = float32(i + 1)
				}
				var dst [256]float32
				for i := range dst {
					dst[i] = canary
				}
				reorder.Tile(target, &dst, unsafe.Pointer(&src[0]), 80, rows, cols)
				for i, v := range dst {
					want := float32(canary)
					if c, r := i/16, i%16; c < cols {
						want = 0
						if r < rows {
							want = src[r*20+c]
						}
					}
					Expect(v).To(Equal(want), "%d rows, %d cols, float %d", rows, cols, i)
				}
				free()
			}
		}
	})
})

var _ = Describe("generated files", func() {
	It("are what the generator writes", func(ctx SpecContext) {
		err := asm.Verify(ctx, "gen_main.go", "gen_transpose.go", "gen_tiles.go", "gen_eights.go", "gen_weave.go", "gen_lanes.go", "gen_cast.go", "gen_casttiles.go",
			"gen_moves.go", "gen_shortweave.go", "gen_lined.go", "gen_neon.go")
		if errors.Is(err, exec.ErrNotFound) {
			Skip("no go command to run the generator with")
		}
		Expect(err).NotTo(HaveOccurred())
	})
})
