package mkl_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/mkl"
)

var _ = Describe("primitives of several threads", func() {
	for _, lib := range libraries() {
		It(strings.TrimSpace("are made where they run, so that workers stand by one thread only "+lib), func() {
			creator, executor, err := mkl.Creates(open(lib), 1234567)
			Expect(err).NotTo(HaveOccurred())
			Expect(creator).NotTo(BeZero())
			Expect(creator).To(Equal(executor))
		})
	}
})
