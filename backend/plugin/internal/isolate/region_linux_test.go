//go:build amd64 || arm64

package isolate_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
)

func TestIsolate(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "backend/plugin/internal/isolate")
}

var _ = Describe("Region", func() {
	It("takes the place of a closed one whose blocks nobody holds", func() {
		for range 300 { // more than there are places
			r, err := isolate.NewRegion()
			Expect(err).NotTo(HaveOccurred())
			_, err = r.Alloc(1, 1)
			Expect(err).NotTo(HaveOccurred())
			r.Close()
		}
	})

	It("is turned down where those that are there hold every place", func() {
		var all []*isolate.Region
		defer func() {
			for _, r := range all {
				r.Close()
			}
		}()
		for range 300 {
			r, err := isolate.NewRegion()
			if err != nil {
				Expect(err).To(MatchError(ContainSubstring("shared memory")))
				return
			}
			all = append(all, r)
		}
		Fail("there are more places than addresses")
	})
})
