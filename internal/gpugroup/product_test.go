package gpugroup_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpugroup"
)

var _ = DescribeTable("dims of a batch that advance alike are one", func(a, b []int, want ...[4]int) {
	Expect(gpugroup.BatchOf(a, b)).To(Equal(want))
},
	Entry("of both", []int{2, 3}, []int{2, 3}, [4]int{6, 1, 1, 1}),
	Entry("of the first alone", []int{2, 3}, []int{}, [4]int{6, 1, 0, 1}),
	Entry("of the second alone", []int{}, []int{2, 3}, [4]int{6, 0, 1, 1}),
	Entry("but not where one stays", []int{2, 3}, []int{2, 1}, [4]int{2, 3, 1, 3}, [4]int{3, 1, 0, 1}),
	Entry("nor where each goes its way", []int{2, 1}, []int{1, 3}, [4]int{2, 1, 0, 3}, [4]int{3, 0, 1, 1}),
	Entry("across dims of 1", []int{2, 1, 3}, []int{2, 1, 3}, [4]int{6, 1, 1, 1}),
)
