package mkl_test

import (
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/mkl"
)

var _ = Describe("teams", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("let as many runs into the library as processors allow "+lib), func(processors, threads, most int) {
			b := open(lib)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			inside, threadsOf, err := mkl.Inside(b, threads, most, 24)
			Expect(err).NotTo(HaveOccurred())
			Expect(inside).To(Equal(most))
			if threadsOf > 0 {
				Expect(threadsOf).To(BeNumerically("<=", most), "executors keep their threads")
			}
		},
			Entry(nil, 4, 1, 4), Entry(nil, 4, 2, 2), Entry(nil, 4, 3, 1), Entry(nil, 4, 4, 1), Entry(nil, 4, 9, 1), Entry(nil, 1, 1, 1), Entry(nil, 2, 1, 2),
		)
	}
})
