package pending_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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

	It("may be read by whom the umask allows, or by whom the file may be read that it replaces", func() {
		if runtime.GOOS == "windows" {
			Skip("permissions are not told by mode there")
		}
		dir := GinkgoT().TempDir()
		plain := filepath.Join(dir, "plain")
		Expect(os.WriteFile(plain, nil, 0o666)).To(Succeed()) // as the umask has it
		for name, mode := range map[string]fs.FileMode{"new": 0, "private": 0o600, "open": 0o664} {
			path := filepath.Join(dir, name)
			like := plain
			if mode != 0 {
				like = path
				Expect(os.WriteFile(path, []byte("old"), 0o600)).To(Succeed())
				Expect(os.Chmod(path, mode)).To(Succeed())
			}
			want, err := os.Stat(like)
			Expect(err).NotTo(HaveOccurred())
			f, err := pending.Create(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Close()).To(Succeed())
			Expect(pending.Place(f, path)).To(Succeed())
			info, err := os.Stat(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode()).To(Equal(want.Mode()), name)
			Expect(info.Size()).To(BeZero())
		}
	})

	It("does not take the place of a folder, and says so of the folder's path", func() {
		path := filepath.Join(GinkgoT().TempDir(), "folder")
		Expect(os.Mkdir(path, 0o755)).To(Succeed())
		f, err := pending.Create(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Close()).To(Succeed())
		Expect(pending.Place(f, path)).To(MatchError("replace " + path + ": it is a folder"))
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
