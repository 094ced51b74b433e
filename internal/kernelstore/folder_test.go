package kernelstore_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernelstore"
)

const magic = "carve x 1\n"

var _ = Describe("a file", func() {
	content := []byte("what a driver made")
	whole := kernelstore.Encode(magic, content)

	It("comes back", func() { Expect(kernelstore.Decode(magic, whole)).To(Equal(content)) })

	It("is ignored where it is cut off or changed", func() {
		for i := range whole {
			Expect(kernelstore.Decode(magic, whole[:i])).To(BeNil())
			bad := append([]byte{}, whole...)
			bad[i] ^= 0x40
			Expect(kernelstore.Decode(magic, bad)).To(BeNil())
		}
	})
})

var _ = Describe("a folder", func() {
	It("keeps content by key, and replaces what is not whole", func() {
		dir := filepath.Join(GinkgoT().TempDir(), "a", "b")
		f, err := kernelstore.OpenFolder(dir, "x")
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Get("k")).To(BeNil())
		f.Put("k", []byte("one"))
		f.Put("l", []byte("two"))
		Expect(f.Get("k")).To(BeEquivalentTo("one"))
		again, err := kernelstore.OpenFolder(dir, "x")
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Get("l")).To(BeEquivalentTo("two"))
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(2))
		for _, name := range files {
			Expect(os.WriteFile(name, []byte("carve x 1\nno"), 0o600)).To(Succeed())
		}
		Expect(f.Get("k")).To(BeNil())
		f.Put("k", []byte("three"))
		Expect(f.Get("k")).To(BeEquivalentTo("three"))
	})

	It("is swept of what writers left behind that ended, an hour later", func() {
		dir := GinkgoT().TempDir()
		f, err := kernelstore.OpenFolder(dir, "x")
		Expect(err).NotTo(HaveOccurred())
		f.Put("k", []byte("one"))
		for _, name := range []string{"old.part", "new.part", "folder.part/x", "mine"} {
			at := filepath.Join(dir, name)
			Expect(os.MkdirAll(filepath.Dir(at), 0o700)).To(Succeed())
			Expect(os.WriteFile(at, []byte("carve"), 0o600)).To(Succeed())
			Expect(os.Chtimes(at, time.Time{}, time.Now().Add(-2*time.Hour))).To(Succeed())
		}
		Expect(os.Chtimes(filepath.Join(dir, "new.part"), time.Time{}, time.Now())).To(Succeed())
		f, err = kernelstore.OpenFolder(dir, "x")
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Join(dir, "old.part")).NotTo(BeAnExistingFile())
		for _, name := range []string{"new.part", "folder.part/x", "mine"} {
			Expect(filepath.Join(dir, name)).To(BeARegularFile())
		}
		Expect(f.Get("k")).To(BeEquivalentTo("one"))
	})

	It("keeps nothing where it is off, and says so where it cannot be made", func() {
		f, err := kernelstore.OpenFolder("off", "x")
		Expect(err).NotTo(HaveOccurred())
		f.Put("k", []byte("one"))
		Expect(f.Get("k")).To(BeNil())
		_, err = kernelstore.OpenFolder(filepath.Join(os.DevNull, "x"), "x")
		Expect(err).To(HaveOccurred())
	})
})

func FuzzFile(f *testing.F) {
	f.Add(kernelstore.Encode(magic, []byte("x")))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c := kernelstore.Decode(magic, data); c != nil && string(kernelstore.Encode(magic, c)) != string(data) {
			t.Errorf("%q is taken for %q", data, c)
		}
	})
}
