package dlpack_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor/dlpack"
)

var _ = Describe("An error without a cause", func() {
	It("still names the field", func() {
		Expect((&dlpack.Error{Field: "shape[2]"}).Error()).To(Equal("dlpack: shape[2]"))
	})
})
