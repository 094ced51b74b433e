package pending_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/pending"
)

var _ = Describe("an unfinished file", func() {
	It("is spoken of by the finished one's path", func() {
		path := filepath.Join(GinkgoT().TempDir(), "nowhere", "model.onnx")
		_, err := pending.Create(path)
		Expect(err).To(MatchError(fs.ErrNotExist))
		Expect(err).To(MatchError(ContainSubstring("create " + path + ": ")))
	})

	It("lies hidden beside the finished one, whatever the length of its name", func() {
		dir := GinkgoT().TempDir()
		for _, name := range []string{"model.onnx", strings.Repeat("x", 250)} {
			f, err := pending.Create(filepath.Join(dir, name))
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Close()).To(Succeed())
			Expect(filepath.Dir(f.Name())).To(Equal(dir))
			Expect(filepath.Base(f.Name())).To(HavePrefix("."))
			Expect(os.Rename(f.Name(), filepath.Join(dir, name))).To(Succeed())
		}
		left, err := os.ReadDir(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(left).To(HaveLen(2))
	})

	It("is removed an hour after its writer was killed, and nothing else is", func() {
		dir := GinkgoT().TempDir()
		made := func() string {
			f, err := pending.Create(filepath.Join(dir, "model.onnx"))
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Close()).To(Succeed())
			return f.Name()
		}
		old, fresh := made(), made()
		others := []string{"model.onnx", ".model.onnx.1.part", "my.carve-part", ".folder.carve-part/x"}
		for _, name := range others {
			path := filepath.Join(dir, name)
			Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
			Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
			Expect(os.Chtimes(path, time.Time{}, time.Now().Add(-48*time.Hour))).To(Succeed())
		}
		Expect(os.Chtimes(filepath.Join(dir, ".folder.carve-part"), time.Time{}, time.Now().Add(-48*time.Hour))).To(Succeed())
		Expect(os.Chtimes(old, time.Time{}, time.Now().Add(-61*time.Minute))).To(Succeed())
		Expect(os.Chtimes(fresh, time.Time{}, time.Now().Add(-50*time.Minute))).To(Succeed())
		pending.Sweep(filepath.Join(dir, "another.onnx"))
		Expect(old).NotTo(BeAnExistingFile())
		Expect(fresh).To(BeAnExistingFile())
		for _, name := range others {
			Expect(filepath.Join(dir, name)).To(BeAnExistingFile())
		}
		pending.Sweep(filepath.Join(dir, "no such folder", "x"))
	})
})
