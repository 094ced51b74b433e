package gpugroup_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpugroup"
)

var _ = Describe("recordings of launches", func() {
	at := func(n int) []gpugroup.Base { return []gpugroup.Base{{Handle: 7}, {Handle: uintptr(n), Offset: 16}} }

	It("are made from the second run on, until it fails", func() {
		var r gpugroup.Recordings
		Expect(r.Ready()).To(BeFalse())
		Expect(r.Ready()).To(BeTrue())
		r.Fail()
		Expect(r.Ready()).To(BeFalse())
	})

	It("are found by places, and the one that was not used for longest is dropped", func() {
		var r gpugroup.Recordings
		bases := at(1)
		for n := 1; n <= 4; n++ {
			copy(bases, at(n)) // the caller's, used again
			Expect(r.Keep(bases, uintptr(100+n))).To(BeZero())
		}
		handle, _ := r.Find(at(1))
		Expect(handle).To(BeEquivalentTo(101))
		Expect(r.Keep(at(5), 105)).To(BeEquivalentTo(102))
		handle, pays := r.Find(at(2))
		Expect(handle).To(BeZero())
		Expect(pays).To(BeTrue())
		Expect(r.Drop()).To(ConsistOf(uintptr(101), uintptr(103), uintptr(104), uintptr(105)))
		Expect(r.Drop()).To(BeEmpty())
	})

	It("do not pay where operands lie elsewhere each time", func() {
		var r gpugroup.Recordings
		paid := 0
		for n := range 100 {
			if _, pays := r.Find(at(n)); pays {
				paid++
				r.Keep(at(n), 1)
			}
		}
		Expect(paid).To(Equal(8))
	})
})
