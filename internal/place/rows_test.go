package place_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/place"
)

// bytes returns where each byte of a value of that size lies.
func bytes(m place.Memory, size int) []int {
	var out []int
	for at := 0; at < size; {
		off, n := m.Piece(at, size-at)
		for i := range n {
			out = append(out, m.Off+off+i)
		}
		at += n
	}
	return out
}

var _ = Describe("a Memory in rows", func() {
	whole := place.Memory{Slot: 1, Off: 8, Size: 240}

	It("has its bytes where rows of rows put them", func() {
		for _, outer := range []struct{ off, row, pitch, count int }{{0, 240, 240, 1}, {0, 24, 40, 6}, {16, 24, 40, 6}, {8, 12, 60, 4}} {
			m, ok := whole.Rows(outer.off, outer.row, outer.pitch, outer.count)
			Expect(ok).To(BeTrue())
			size := outer.row * outer.count
			all := bytes(m, size)
			Expect(all).To(HaveLen(size))
			Expect(all[size-1]).To(Equal(m.Off + m.Size - 1))
			found := 0
			for count := 1; count <= size; count++ {
				for row := 1; row*count <= size; row++ {
					pitch := size / count
					for _, off := range []int{0, pitch - row, 4} {
						if off+row > pitch {
							continue
						}
						part, ok := m.Rows(off, row, pitch, count)
						if !ok {
							continue
						}
						found++
						var want []int
						for i := range count {
							want = append(want, all[off+i*pitch:][:row]...)
						}
						Expect(bytes(part, row*count)).To(Equal(want), "%v: %d rows of %d/%d from %d: %v", m, count, row, pitch, off, part)
					}
				}
			}
			Expect(found).To(BeNumerically(">", 100))
		}
	})

	It("has the strides of dims that its rows are whole dims of", func() {
		m, _ := whole.Rows(0, 24, 48, 5) // [5, 2, 3] of four bytes
		s, ok := m.Strides([]int{5, 2, 3}, 4)
		Expect(ok).To(BeTrue())
		Expect(s).To(Equal([]int{12, 3, 1}))
		s, ok = m.Strides([]int{1, 5, 1, 6}, 4)
		Expect(ok).To(BeTrue())
		Expect([]int{s[1], s[3]}).To(Equal([]int{12, 1}))
		for _, d := range [][]int{{2, 5, 3}, {10, 3}, {30}, {2, 15}} {
			_, ok := m.Strides(d, 4)
			Expect(ok).To(BeFalse(), "%v", d)
		}
		s, ok = whole.Strides([]int{5, 2, 6}, 4)
		Expect(ok).To(BeTrue())
		Expect(s).To(Equal([]int{12, 6, 1}))
	})

	It("has runs of its rows, or of parts of them", func() {
		m, _ := whole.Rows(0, 24, 48, 5)
		for n, want := range map[int]place.Runs{24: {Near: 48}, 12: {Near: 12, Far: 48, Group: 2}, 8: {Near: 8, Far: 48, Group: 3}} {
			r, ok := m.Runs(n)
			Expect(ok).To(BeTrue())
			Expect(r).To(Equal(want))
			for i := range 120 / n {
				off, count := r.At(i, 3)
				at, _ := m.Piece(i*n, n)
				Expect(off).To(Equal(at))
				Expect(count).To(BeNumerically(">", 0))
			}
		}
		for _, n := range []int{16, 48, 120} {
			_, ok := m.Runs(n)
			Expect(ok).To(BeFalse())
		}
		r, ok := whole.Runs(16)
		Expect(ok).To(BeTrue())
		Expect(r).To(Equal(place.Runs{Near: 16}))
	})
})
