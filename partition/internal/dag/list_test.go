package dag_test

import (
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/partition/internal/dag"
)

// model is the order list's oracle.
type model []int32

func (m *model) remove(x int32) { *m = slices.DeleteFunc(*m, func(y int32) bool { return y == x }) }

func (m *model) insertAfter(at, x int32) {
	i := slices.Index(*m, at) + 1 // -1 is not in the list: 0
	*m = slices.Insert(*m, i, x)
}

var _ = Describe("The order list", func() {
	It("does what a slice does", func() {
		r := rand.New(rand.NewPCG(1, 1))
		const n = 300
		l, m := dag.NewList(n), model{}
		for i := range int32(n) {
			m = append(m, i)
		}
		for range 20_000 {
			x := m[r.IntN(len(m))]
			l.Remove(x)
			m.remove(x)
			at := m[r.IntN(len(m))]
			switch r.IntN(4) {
			case 0:
				at = -1
			case 1:
				at = m[0] // the same place again and again uses up the labels there
			}
			l.InsertAfter(at, x)
			m.insertAfter(at, x)
			if a, b := m[r.IntN(n)], m[r.IntN(n)]; l.Before(a, b) != (slices.Index(m, a) < slices.Index(m, b)) {
				Fail("wrong comparison")
			}
		}
		Expect(l.Items()).To(Equal([]int32(m)))
		for i := 1; i < n; i++ {
			Expect(l.Before(m[i-1], m[i])).To(BeTrue())
		}
	})

	DescribeTable("takes many insertions at one place", func(place func(first int32) int32) {
		const n = 50_000
		l := dag.NewList(n)
		for x := int32(2); x < n; x++ {
			l.Remove(x)
		}
		for x := int32(2); x < n; x++ {
			l.InsertAfter(place(l.Items0()), x)
		}
		items := l.Items()
		Expect(items).To(HaveLen(n))
		for i := 1; i < n; i++ {
			if !l.Before(items[i-1], items[i]) {
				Fail("labels are out of order")
			}
		}
	},
		Entry("behind one item", func(int32) int32 { return 0 }),
		Entry("at the beginning", func(int32) int32 { return -1 }),
		Entry("behind the first", func(first int32) int32 { return first }),
	)

	It("replaces an item by another", func() {
		l := dag.NewList(5)
		l.Replace(1, 4)
		Expect(l.Items()).To(Equal([]int32{0, 4, 2, 3}))
		l.Replace(0, 3)
		Expect(l.Items()).To(Equal([]int32{3, 4, 2}))
		l.Replace(2, 3)
		Expect(l.Items()).To(Equal([]int32{4, 3}))
	})
})
