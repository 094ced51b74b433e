package plugin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph/tensor"
)

// declarations are the structs of a header with their members, without comments, in order.
func declarations(header string) map[string][]string {
	header = regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(header, "")
	out := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?s)typedef struct \w+ \{\n(.*?)\n\} (\w+);`).FindAllStringSubmatch(header, -1) {
		for member := range strings.SplitSeq(m[1], ";") {
			if member = strings.Join(strings.Fields(member), " "); member != "" {
				out[m[2]] = append(out[m[2]], member)
			}
		}
	}
	return out
}

// constants are the macros of a header with their values.
func constants(header string) map[string]string {
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^#define (CARVE_\w+) (\S+)`).FindAllStringSubmatch(header, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// Every earlier minor version lies in testdata, in a folder that it names: the header, and a plugin that was written for it.
var _ = Describe("an earlier version of the header", func() {
	folders, err := filepath.Glob("testdata/1.*")
	var entries []TableEntry
	for _, dir := range folders {
		entries = append(entries, Entry(filepath.Base(dir), dir))
	}

	It("lies in testdata for every minor up to today's", func() {
		Expect(err).NotTo(HaveOccurred())
		Expect(folders).To(ContainElement("testdata/1.0"))
		Expect(constants(plugin.Header)["CARVE_ABI_MINOR"]).To(Equal("1"), "a new minor needs the folder of the one before")
	})

	DescribeTable("is a prefix of today's", func(dir string) {
		old, err := os.ReadFile(filepath.Join(dir, "carve_plugin.h"))
		Expect(err).NotTo(HaveOccurred())
		now := declarations(plugin.Header)
		structs := declarations(string(old))
		Expect(len(structs)).To(BeNumerically(">", 30))
		for name, members := range structs {
			Expect(len(now[name])).To(BeNumerically(">=", len(members)), name)
			Expect(now[name][:len(members)]).To(Equal(members), name)
			if len(now[name]) > len(members) {
				Expect(members[0]).To(Equal("uint32_t size"), "%s has no size, and grew", name)
			}
		}
		today := constants(plugin.Header)
		for name, value := range constants(string(old)) {
			if name != "CARVE_ABI_MINOR" {
				Expect(today).To(HaveKeyWithValue(name, value))
			}
		}
	}, entries)

	DescribeTable("has plugins that run", func(ctx SpecContext, dir string) {
		path := build(GinkgoTB(), filepath.Join(dir, "odd.c")) // which includes the header beside it
		r := use(ctx, path, tensor.From([]float32{1, -2, 3, -4, 5, -6}, 2, 3))
		Expect(slices.ContainsFunc(r.Rejected, func(x carve.RejectedReport) bool { return x.Backend == "odd" })).To(BeFalse())
		Expect(r.Groups[0].Backend).To(Equal("odd"))
	}, entries)
})
