package offheap_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/offheap"
)

func files() int64 { return offheap.Total().Files }

var _ = Describe("MapFile", func() {
	const size = 3*64<<10 + 77
	var (
		content []byte
		file    *os.File
	)
	BeforeEach(func() {
		content = make([]byte, size)
		for i := range content {
			content[i] = byte(i * 7 >> 3)
		}
		name := filepath.Join(GinkgoT().TempDir(), "weights")
		Expect(os.WriteFile(name, content, 0o600)).To(Succeed())
		var err error
		file, err = os.Open(name)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { file.Close() })
	})

	DescribeTable("gives the bytes of the range", func(off, n int64) {
		before := files()
		m, err := offheap.MapFile(file, off, n)
		Expect(err).NotTo(HaveOccurred())
		Expect(file.Close()).To(Succeed())
		Expect(m.Bytes()).To(HaveLen(int(n)))
		Expect(m.Bytes()).To(HaveCap(int(n)))
		Expect(bytes.Equal(m.Bytes(), content[off:off+n])).To(BeTrue())
		if runtime.GOOS == "linux" && n > 0 {
			Expect(m.Mapped()).To(BeTrue())
		}
		Expect(files() - before).To(Equal(n))
		Expect(m.Evict()).To(Succeed())
		Expect(bytes.Equal(m.Bytes(), content[off:off+n])).To(BeTrue())
		Expect(m.Close()).To(Succeed())
		Expect(m.Bytes()).To(BeNil())
		Expect(m.Close()).To(Succeed())
		Expect(m.Evict()).To(Succeed())
		Expect(files()).To(Equal(before))
	},
		Entry("whole file", int64(0), int64(size)),
		Entry("one byte", int64(5), int64(1)),
		Entry("last byte", int64(size-1), int64(1)),
		Entry("across pages", int64(4095), int64(2)),
		Entry("from a page border", int64(8192), int64(10000)),
		Entry("odd offset to the end", int64(70001), int64(size-70001)),
		Entry("nothing", int64(100), int64(0)),
		Entry("nothing at the end", int64(size), int64(0)),
	)

	DescribeTable("refuses ranges outside the file", func(off, n int64) {
		m, err := offheap.MapFile(file, off, n)
		Expect(m).To(BeNil())
		Expect(err).To(MatchError(offheap.ErrOutsideFile))
		var e *offheap.Error
		Expect(errors.As(err, &e)).To(BeTrue())
		Expect(e.File).To(Equal(file.Name()))
		Expect(e.Offset).To(Equal(off))
		Expect(e.Bytes).To(Equal(n))
	},
		Entry("one byte too many", int64(0), int64(size+1)),
		Entry("begins behind the end", int64(size+1), int64(0)),
		Entry("negative offset", int64(-1), int64(10)),
		Entry("negative size", int64(0), int64(-1)),
		Entry("sum overflows", int64(10), int64(math.MaxInt64)),
		Entry("offset overflows", int64(math.MaxInt64), int64(10)),
	)

	It("refuses what is not a regular file", func() {
		dir, err := os.Open(GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		defer dir.Close()
		_, err = offheap.MapFile(dir, 0, 0)
		Expect(err).To(MatchError(offheap.ErrNotRegular))
		r, w, err := os.Pipe()
		Expect(err).NotTo(HaveOccurred())
		defer r.Close()
		defer w.Close()
		_, err = offheap.MapFile(r, 0, 0)
		Expect(err).To(MatchError(offheap.ErrNotRegular))
	})

	It("reports a closed and a nil file", func() {
		Expect(file.Close()).To(Succeed())
		_, err := offheap.MapFile(file, 0, 1)
		Expect(err).To(MatchError(os.ErrClosed))
		_, err = offheap.MapFile(nil, 0, 1)
		Expect(err).To(MatchError(os.ErrInvalid))
	})

	It("returns mappings that became unreachable", func() {
		before := files()
		func() {
			m, err := offheap.MapFile(file, 0, size)
			Expect(err).NotTo(HaveOccurred())
			Expect(m.Bytes()[3]).To(Equal(content[3]))
		}()
		Eventually(func() int64 { runtime.GC(); return files() }).Should(Equal(before))
	})
})

var _ = Describe("Scattered", func() {
	It("leaves the bytes what they are, wherever the range lies", func() {
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		name := filepath.Join(GinkgoT().TempDir(), "table")
		Expect(os.WriteFile(name, content, 0o600)).To(Succeed())
		file, err := os.Open(name)
		Expect(err).NotTo(HaveOccurred())
		defer file.Close()
		for _, begin := range []int64{0, 5000} {
			m, err := offheap.MapFile(file, begin, int64(len(content))-begin)
			Expect(err).NotTo(HaveOccurred())
			for _, r := range [][2]int64{{0, 1 << 20}, {100, 1 << 19}, {1 << 18, 10}, {0, 0}, {-1, 5}, {5, -1}, {1 << 20, 1}, {1 << 62, 1 << 62}} {
				m.Scattered(r[0], r[1])
			}
			Expect(bytes.Equal(m.Bytes(), content[begin:])).To(BeTrue())
			Expect(m.Evict()).To(Succeed())
			Expect(bytes.Equal(m.Bytes(), content[begin:])).To(BeTrue())
			Expect(m.Close()).To(Succeed())
			m.Scattered(0, 4096)
		}
	})
})
