package testcache_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/testcache"
)

func TestTestcache(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "testcache")
}

var _ = Describe("Folder", func() {
	var gcc, cache string
	BeforeEach(func() {
		var err error
		if gcc, err = exec.LookPath("gcc"); err != nil || runtime.GOOS != "linux" {
			Skip("no gcc here, or a cache that no variable moves")
		}
		cache = GinkgoT().TempDir()
		GinkgoT().Setenv("XDG_CACHE_HOME", cache)
	})
	folder := func(ctx SpecContext, texts ...string) string {
		GinkgoHelper()
		dir, err := testcache.Folder(ctx, "some", gcc, texts...)
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Dir(dir)).To(Equal(filepath.Join(cache, "carve-test", "some")))
		Expect(dir).To(BeADirectory())
		return dir
	}

	It("is the same for the same texts, and another for others, or for other parts of one", func(ctx SpecContext) {
		one := folder(ctx, "a", "bc")
		Expect(folder(ctx, "a", "bc")).To(Equal(one))
		Expect([]string{folder(ctx, "ab", "c"), folder(ctx, "abc"), folder(ctx, "a"), folder(ctx)}).NotTo(ContainElement(one))
	})

	It("keeps what is used, and removes what has not been for a week, itself too where others are asked for", func(ctx SpecContext) {
		old, dir := folder(ctx, "old"), folder(ctx, "new")
		used, unused := filepath.Join(dir, "used"), filepath.Join(dir, "unused")
		long := time.Now().Add(-8 * 24 * time.Hour)
		for _, f := range []string{used, unused} {
			Expect(os.WriteFile(f, []byte("x"), 0o600)).To(Succeed())
		}
		for _, f := range []string{used, unused, old, dir} {
			Expect(os.Chtimes(f, long, long)).To(Succeed())
		}
		testcache.Touch(used)
		Expect(folder(ctx, "new")).To(Equal(dir))
		Expect(used).To(BeARegularFile())
		Expect(unused).NotTo(BeAnExistingFile())
		Expect(old).NotTo(BeADirectory())
	})

	It("is an error where there is no such compiler", func(ctx SpecContext) {
		_, err := testcache.Folder(ctx, "some", filepath.Join(cache, "none"))
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})
