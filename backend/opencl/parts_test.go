package opencl_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/opencl"
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
