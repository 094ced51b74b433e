package files_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing/fstest"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/files"
	"github.com/carve-dev/carve/internal/offheap"
)

var _ = Describe("a set of files", func() {
	content := bytes.Repeat([]byte("0123456789"), 1000)
	var dir string
	BeforeEach(func() {
		dir = GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "weights"), content, 0o600)).To(Succeed())
	})

	It("maps files of the system, and reads them where a copy is asked for", func() {
		for _, c := range []bool{false, true} {
			s := files.Set{Copy: c}
			b, err := s.Path(filepath.Join(dir, "weights"))
			Expect(err).NotTo(HaveOccurred())
			Expect(b).To(Equal(content))
			Expect(s.Bytes).To(BeEquivalentTo(len(content)))
			Expect(s.Maps).To(HaveLen(map[bool]int{false: 1}[c]))
			Expect(s.Maps.Evict()).To(Succeed())
			Expect(b).To(Equal(content))
			Expect(s.Maps.Close()).To(Succeed())
			Expect(s.Maps.Close()).To(Succeed(), "again")
		}
	})

	It("keeps below a root", func() {
		root, err := os.OpenRoot(dir)
		Expect(err).NotTo(HaveOccurred())
		defer root.Close()
		var s files.Set
		b, err := s.In(root, "weights")
		Expect(err).NotTo(HaveOccurred())
		Expect(b).To(Equal(content))
		Expect(s.Maps.Close()).To(Succeed())
		_, err = s.In(root, "../weights")
		Expect(err).To(HaveOccurred())
	})

	It("reads aligned memory from a file system, and no more and no less than was there", func() {
		var s files.Set
		b, err := s.FS(fstest.MapFS{"weights": {Data: content}}, "weights")
		Expect(err).NotTo(HaveOccurred())
		Expect(b).To(Equal(content))
		Expect(uintptr(unsafe.Pointer(&b[0])) % 64).To(BeZero())
		_, err = s.FS(liar{1 << 10}, "weights")
		Expect(err).To(MatchError(tensor.ErrTruncated))
		_, err = s.FS(liar{1 << 50}, "weights")
		Expect(err).To(MatchError(tensor.ErrTooLarge))
		_, err = s.FS(fstest.MapFS{}, "../weights")
		Expect(err).To(MatchError(fs.ErrInvalid))
		Expect(s.Maps).To(BeEmpty())
	})

	It("takes regular files alone", func() {
		var s files.Set
		_, err := s.Path(dir)
		Expect(err).To(MatchError(offheap.ErrNotRegular))
		_, err = s.FS(os.DirFS(dir), ".")
		Expect(err).To(MatchError(offheap.ErrNotRegular))
		_, err = s.Path(filepath.Join(dir, "absent"))
		Expect(err).To(MatchError(fs.ErrNotExist))
	})
})

// liar is a file system of which every file is shorter than it says.
type liar struct{ size int64 }

func (l liar) Open(string) (fs.File, error) {
	f, err := fstest.MapFS{"f": {Data: []byte("short")}}.Open("f")
	return lyingFile{f, l}, err
}

type lyingFile struct {
	fs.File
	liar
}

func (f lyingFile) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	return lyingInfo{info, f.size}, err
}

type lyingInfo struct {
	fs.FileInfo
	size int64
}

func (i lyingInfo) Size() int64 { return i.size }
