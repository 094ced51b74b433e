package reference_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
)

var _ = Describe("An error without a cause", func() {
	It("still names the node and the port", func() {
		Expect((&reference.Error{}).Error()).NotTo(BeEmpty())
		e := &reference.Error{Op: graph.Op{Name: "Conv"}, Node: "c", Port: "input W"}
		Expect(e.Error()).To(Equal(`Conv "c", input W`))
		Expect(e.Unwrap()).To(Succeed())
	})
})
