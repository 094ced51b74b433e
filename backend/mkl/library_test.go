package mkl_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// fake compiles a library that claims a version, and has nothing else.
func fake(major, minor int) string {
	GinkgoHelper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		Skip("no C compiler")
	}
	dir := GinkgoT().TempDir()
	src, out := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libdnnl.so")
	text := strings.NewReplacer("MAJOR", string(rune('0'+major)), "MINOR", string(rune('0'+minor))).Replace(
		`static const struct { int v[3]; const char *hash; unsigned cpu, gpu; } v = {{MAJOR, MINOR, 0}, "", 1, 0};
const void *dnnl_version(void) { return &v; }`)
	Expect(os.WriteFile(src, []byte(text), 0o600)).To(Succeed())
	b, err := exec.Command(cc, "-shared", "-fPIC", "-o", out, src).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(b))
	return out
}

// shortened returns a file that is no library: a line of text, or half of one.
func shortened(part int) string {
	GinkgoHelper()
	out := filepath.Join(GinkgoT().TempDir(), "libdnnl.so")
	b := []byte("not here\n")
	if part > 0 {
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		b, err = os.ReadFile(self)
		Expect(err).NotTo(HaveOccurred())
		b = b[:len(b)/2]
	}
	Expect(os.WriteFile(out, b, 0o600)).To(Succeed())
	return out
}

var _ = Describe("the library", func() {
	DescribeTable("is unavailable, with the reason; programs run without it", func(ctx SpecContext, path func() string, reason string) {
		config := backend.Config{Name: "mkl", Options: map[string]string{"library": path()}}
		_, err := mkl.Open(config)
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err.Error()).To(ContainSubstring(reason))

		g := parse(small)
		p := program(ctx, g, carve.Options{Backends: []backend.Config{config}})
		expectAgreement(ctx, p, g)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		where, reasons, found := r.Why("c")
		Expect(found).To(BeTrue())
		Expect(where).To(Equal("cpu"))
		Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "mkl"), HaveField("Reason", HavePrefix("unavailable: ")),
			HaveField("Reason", ContainSubstring(reason)))))

		_, err = carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Placement: carve.Priority, Strict: true, Backends: []backend.Config{config, {Name: "cpu"}}})
		Expect(err).To(MatchError(backend.ErrUnavailable))
	},
		Entry("where there is none", func() string { return "/does/not/exist/libdnnl.so" }, "/does/not/exist/libdnnl.so"),
		Entry("where it is a text", func() string { return shortened(0) }, "library"),
		Entry("where it is cut off", func() string { return shortened(1) }, "library"),
		Entry("where a folder has its name", func() string { return GinkgoT().TempDir() }, "library"),
		Entry("where another has its name", func() string { return "libc.so.6" }, "libc.so.6"),
		Entry("where it is too old", func() string { return fake(1, 9) }, "has version 1.9.0; 2.6 to 3.x are known"),
		Entry("where it is an old one of a known major version", func() string { return fake(2, 5) }, "has version 2.5.0"),
		Entry("where it is too new", func() string { return fake(4, 0) }, "has version 4.0.0"),
		Entry("where a symbol is missing", func() string { return fake(3, 9) }, "symbol is missing"),
	)

	It("says how a file of the current folder is written", func() {
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "libdnnl-here.so"), nil, 0o600)).To(Succeed())
		GinkgoT().Chdir(dir)
		_, err := mkl.Open(backend.Config{Options: map[string]string{"library": "libdnnl-here.so"}})
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(ContainSubstring(filepath.Join(".", "libdnnl-here.so"))))
		Expect(err).To(MatchError(HaveSuffix("the file in this folder is ." + string(filepath.Separator) + "libdnnl-here.so")))
	})

	DescribeTable("has options", func(key, value string) {
		open("")
		_, err := mkl.Open(backend.Config{Options: map[string]string{key: value}})
		Expect(err).To(MatchError(backend.ErrOption))
	},
		Entry("but not others", "color", "red"),
		Entry("for layouts, but of activations", "layout", "ABcd16b16a"),
		Entry("for layouts, but not of nonsense", "layout", "nonsense"),
		Entry("for failures, but at known stages", "fail", "always"),
	)

	for _, lib := range libraries() {
		It(strings.TrimSpace("says what it is "+lib), func() {
			b := open(lib)
			i := b.Info()
			Expect(i.Name).To(Equal("mkl"))
			Expect(i.Version).To(MatchRegexp(`^oneDNN \d+\.\d+\.\d+$`))
			Expect(i.Path).NotTo(BeEmpty())
			Expect(i.Threads).To(BeTrue())
		})

		DescribeTable(strings.TrimSpace("gives its descriptors in carve's terms "+lib), func(tag string, dims ...int) {
			b := open(lib)
			l, err := graph.ParseLayout(tag)
			Expect(err).NotTo(HaveOccurred())
			got, ok, err := mkl.Decoded(b, l, dims)
			Expect(err).NotTo(HaveOccurred())
			Expect(ok).To(BeTrue())
			Expect(got).To(Equal(l))
			bytes, err := mkl.DescriptorBytes(b, l, dims)
			Expect(err).NotTo(HaveOccurred())
			Expect(graph.PhysicalSize(graph.On(l), tensor.Float32, dims)).To(Equal(bytes))
		},
			Entry("row-major", "row-major", 2, 3, 5, 7),
			Entry("channels last", "acdb", 2, 3, 5, 7),
			Entry("blocks of 16", "aBcd16b", 2, 35, 5, 7),
			Entry("blocks of 8", "aBcd8b", 2, 35, 5, 7),
			Entry("one dim", "aBc16b", 2, 35, 5),
			Entry("three dims", "aBcde16b", 2, 35, 3, 4, 5),
			Entry("dense weights", "ABcd16b16a", 40, 20, 3, 3),
			Entry("weights of an image", "Acdb16a", 40, 3, 3, 3),
			Entry("depthwise weights", "Abcd16a", 40, 1, 3, 3),
			Entry("a matrix in panels", "BA16a64b", 20, 40),
		)

		DescribeTable(strings.TrimSpace("has weights of groups that fold "+lib), func(tag, folded string, dims ...int) {
			f, back := mkl.Folded(open(lib), tag, dims)
			Expect(f).To(Equal(folded))
			if folded != "none" {
				Expect(back).To(Equal(tag))
			}
		},
			Entry("one output each", "Abcde16a", "Abcd16a", 32, 1, 1, 3, 3),
			Entry("whole blocks", "aBCde16c16b", "ABcd16b16a", 2, 32, 16, 3, 3),
			Entry("padded blocks", "aBCde16c16b", "none", 2, 20, 16, 3, 3),
		)
	}
})
