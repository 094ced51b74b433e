package memplan_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan"
)

var _ = It("a context that is nil never ends", func() {
	bufs := []memplan.Buffer{{Size: 3, Lower: 0, Upper: 2}, {Size: 4, Lower: 1, Upper: 3}}
	p, err := memplan.Pack(nil, bufs, nil) //nolint:staticcheck // that is what is looked at
	Expect(err).NotTo(HaveOccurred())
	Expect(p.Height).To(Equal(int64(7)))
})
