//go:build unix

package bundle_test

import (
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/bundle"
	"github.com/carve-dev/carve/internal/offheap"
)

var _ = Describe("a pipe", func() {
	It("is refused, and not waited for", func() {
		path := filepath.Join(GinkgoT().TempDir(), "pipe")
		Expect(syscall.Mkfifo(path, 0o600)).To(Succeed())
		Expect(bundle.IsFile(path)).To(BeFalse())
		_, err := bundle.Open(path)
		Expect(err).To(MatchError(offheap.ErrNotRegular))
	})
})
