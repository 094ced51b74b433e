package carve_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
)

func document(name string) string {
	GinkgoHelper()
	data, err := os.ReadFile(name)
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}

var _ = Describe("the documents", func() {
	It("list the passes as the table has them", func() {
		var listed []string
		for _, m := range regexp.MustCompile("(?m)^\\d+\\. `([a-z-]+)`").FindAllStringSubmatch(document("ARCHITECTURE.md"), -1) {
			listed = append(listed, m[1])
		}
		Expect(listed).To(Equal(carve.PassNames()))
	})

	It("list every package of the library", func() {
		readme := document("README.md")
		err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "internal" || name == "testdata" || name == "examples" || name == "cmd") {
				return fs.SkipDir
			}
			if files, _ := filepath.Glob(filepath.Join(path, "*.go")); path != "." && len(files) > 0 {
				Expect(readme).To(ContainSubstring("| `" + filepath.ToSlash(path) + "` |"))
			}
			return nil
		})
		Expect(err).NotTo(HaveOccurred())
	})

	It("show the server that an example runs", func() {
		block := regexp.MustCompile("(?s)batcher, err := .*?\n```").FindString(document("README.md"))
		example := regexp.MustCompile(`\s+`).ReplaceAllString(strings.ReplaceAll(document("example_test.go"), "mux.HandleFunc", "http.HandleFunc"), " ")
		Expect(block).NotTo(BeEmpty())
		Expect(example).To(ContainSubstring(strings.TrimSpace(regexp.MustCompile(`\s+`).ReplaceAllString(strings.TrimSuffix(block, "```"), " "))))
	})

	It("link to files that are there", func() {
		code := regexp.MustCompile("(?s)```.*?```")
		for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "PERFORMANCE.md", "SECURITY.md"} {
			for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(code.ReplaceAllString(document(name), ""), -1) {
				Expect(m[1]).To(BeAnExistingFile(), "in "+name)
			}
		}
	})
})
