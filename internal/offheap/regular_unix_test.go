//go:build unix

package offheap

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("opening regular files", func() {
	It("waits for nobody, not even where a FIFO took the file's place after the look", func() {
		dir := GinkgoT().TempDir()
		pipe, plain := filepath.Join(dir, "pipe"), filepath.Join(dir, "plain")
		Expect(syscall.Mkfifo(pipe, 0o600)).To(Succeed())
		Expect(os.WriteFile(plain, []byte("abc"), 0o600)).To(Succeed())
		done := make(chan error, 2)
		go func() {
			defer GinkgoRecover()
			_, _, err := OpenRegular(pipe)
			done <- err
			_, _, err = openRegular(pipe, func(string) (fs.FileInfo, error) { return os.Stat(plain) }, os.OpenFile)
			done <- err
		}()
		for range 2 {
			var err error
			Eventually(done).Should(Receive(&err))
			Expect(err).To(MatchError(ErrNotRegular))
		}
	})

	It("reads files of a bounded size", func() {
		plain := filepath.Join(GinkgoT().TempDir(), "plain")
		Expect(os.WriteFile(plain, []byte("abc"), 0o600)).To(Succeed())
		Expect(ReadRegular(plain, 3)).To(Equal([]byte("abc")))
		_, err := ReadRegular(plain, 2)
		Expect(err).To(MatchError(ErrSize))
		_, err = ReadRegular(filepath.Dir(plain), 2)
		Expect(err).To(MatchError(ErrNotRegular))
	})
})
