package opencl_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/opencl"
)

var _ = DescribeTable("dims of a batch that advance alike are one", func(a, b []int, want ...[4]int) {
	Expect(opencl.BatchOf(a, b)).To(Equal(want))
},
	Entry("of both", []int{2, 3}, []int{2, 3}, [4]int{6, 1, 1, 1}),
	Entry("of the first alone", []int{2, 3}, []int{}, [4]int{6, 1, 0, 1}),
	Entry("of the second alone", []int{}, []int{2, 3}, [4]int{6, 0, 1, 1}),
	Entry("but not where one stays", []int{2, 3}, []int{2, 1}, [4]int{2, 3, 1, 3}, [4]int{3, 1, 0, 1}),
	Entry("nor where each goes its way", []int{2, 1}, []int{1, 3}, [4]int{2, 1, 0, 3}, [4]int{3, 0, 1, 1}),
	Entry("across dims of 1", []int{2, 1, 3}, []int{2, 1, 3}, [4]int{6, 1, 1, 1}),
)

var _ = Describe("a file of the cache", func() {
	content := []byte("what a driver made")
	whole := opencl.EncodeBinary(content)

	It("comes back", func() { Expect(opencl.DecodeBinary(whole)).To(Equal(content)) })

	It("is ignored where it is cut off or changed", func() {
		for i := range whole {
			Expect(opencl.DecodeBinary(whole[:i])).To(BeNil())
			bad := append([]byte{}, whole...)
			bad[i] ^= 0x40
			Expect(opencl.DecodeBinary(bad)).To(BeNil())
		}
	})
})

func FuzzBinary(f *testing.F) {
	f.Add(opencl.EncodeBinary([]byte("x")))
	f.Add([]byte("carve opencl 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c := opencl.DecodeBinary(data); c != nil && string(opencl.EncodeBinary(c)) != string(data) {
			t.Errorf("%q is taken for %q", data, c)
		}
	})
}
