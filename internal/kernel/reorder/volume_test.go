package reorder_test

import (
	"errors"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = Describe("Volume", func() {
	onTargets("moves every element between rows and blocks, in chunks of any order, and writes zeros behind the channels", func(target isa.Target) {
		r := rand.New(rand.NewPCG(51, 52))
		for range testshare.Of(60) {
			n, c, d, hw := 1+r.IntN(2), 1+r.IntN(50), 1+r.IntN(5), 1+r.IntN([]int{20, 300, 3000}[r.IntN(3)])
			rows, blocks := make([]float32, n*c*d*hw), make([]float32, n*d*((c+15)/16*16)*hw)
			for i := range blocks {
				blocks[i] = canary
			}
			want := make([]float32, len(blocks))
			for i := range rows {
				rows[i] = float32(i + 1)
				image, channel, slice, pixel := i/hw/d/c, i/hw/d%c, i/hw%d, i%hw
				want[(((image*d+slice)*((c+15)/16)+channel/16)*hw+pixel)*16+channel%16] = rows[i]
			}
			run := func(toBlocks bool, dst, src []float32) {
				v, err := reorder.NewVolume(target, n, c, d, hw, toBlocks)
				Expect(err).NotTo(HaveOccurred())
				for _, i := range r.Perm(v.Chunks()) {
					Expect(v.Run(i, i+1, dst, src)).To(Succeed())
				}
			}
			run(true, blocks, rows)
			Expect(blocks).To(Equal(want), "%d images, %d channels, %d slices, %d pixels", n, c, d, hw)
			back := make([]float32, len(rows))
			run(false, back, blocks)
			Expect(back).To(Equal(rows), "%d images, %d channels, %d slices, %d pixels", n, c, d, hw)
		}
	})

	It("says what it cannot move", func() {
		_, err := reorder.NewVolume(isa.Host(), 1, 0, 1, 1, true)
		Expect(errors.Is(err, reorder.ErrShape)).To(BeTrue())
		v, err := reorder.NewVolume(isa.Host(), 1, 3, 2, 4, true)
		Expect(err).NotTo(HaveOccurred())
		Expect(errors.Is(v.Run(0, v.Chunks(), make([]float32, 127), make([]float32, 24)), reorder.ErrBuffer)).To(BeTrue())
		Expect(errors.Is(v.Run(0, v.Chunks(), make([]float32, 128), make([]float32, 23)), reorder.ErrBuffer)).To(BeTrue())
		Expect(errors.Is(v.Run(0, v.Chunks()+1, make([]float32, 128), make([]float32, 24)), reorder.ErrShape)).To(BeTrue())
		Expect(v.Run(0, v.Chunks(), make([]float32, 128), make([]float32, 24))).To(Succeed())
	})
})
