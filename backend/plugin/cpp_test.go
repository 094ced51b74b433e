package plugin_test

import (
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/property"
)

// guarded compiles the plugin in C++ that throws somewhere, and skips where there is no compiler.
func guarded(throws string) string {
	GinkgoHelper()
	cpp, err := exec.LookPath("g++")
	if err != nil || !dl.Supported {
		Skip("a plugin in C++ cannot be built here")
	}
	out := filepath.Join(GinkgoT().TempDir(), "guard.so")
	args := []string{"-std=c++11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC", "-I", ".", "-DTHROWS=" + throws, "-o", out,
		"testdata/guard.cpp"}
	text, err := exec.Command(cpp, args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(text))
	return out
}

var _ = Describe("a plugin in C++", func() {
	DescribeTable("that throws", func(ctx SpecContext, throws string, code property.Code, text string) {
		m := relu()
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "guard"}, {Name: "cpu"}}, Plugins: []string{guarded(throws)}})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, -2, 3}, 1, 3)})
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))).To(Equal([]float32{1, 0, 3}))
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		var why []string
		for _, n := range r.Rejected {
			if n.Backend == "guard" {
				why = append(why, n.Reason)
			}
		}
		if code == "" {
			Expect(why).To(BeEmpty())
			Expect(r.Groups[0].Backend).To(Equal("guard"))
			return
		}
		Expect(why).To(ContainElement(SatisfyAll(HavePrefix(string(code)), ContainSubstring(text))))
	},
		Entry("nothing", "NOTHING", property.Code(""), ""),
		Entry("a std::runtime_error", "RUNTIME_ERROR", property.RunFailed, `enqueue: failed: "the unit is on fire"`),
		Entry("a number", "NUMBER", property.RunFailed, "no std::exception"),
		Entry("carve::refused", "REFUSED", property.CompileFailed, `refused: "not on a Sunday"`),
		Entry("a std::out_of_range", "ARGUMENT", property.SpecializeFail, "specialize: bad argument"),
	)

	It("that throws std::bad_alloc is out of memory", func(ctx SpecContext) {
		m := relu()
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "guard"}}, Plugins: []string{guarded("BAD_ALLOC")}})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		_, err = p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, -2, 3}, 1, 3)})
		Expect(err).To(MatchError(device.ErrOutOfMemory))
	})

	It("has an input come again in compact storage", func(ctx SpecContext) {
		m := relu()
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "guard"}}, Plugins: []string{guarded("NOTHING")}, Strict: true})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		columns := tensor.From([]float32{1, -2, 3, -4, 5, -6}, 3, 2)
		columns.Shape, columns.Strides = []int{2, 3}, []int{1, 2} // the transposed matrix
		out, err := p.Run(ctx, map[string]tensor.Value{"x": columns})
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))).To(Equal([]float32{1, 3, 5, 0, 0, 0}))
	})

	It("needs no more than the two headers", func() {
		Expect(plugin.HeaderCPP).To(ContainSubstring(`#include "carve_plugin.h"`))
		Expect(strings.Count(plugin.HeaderCPP, "#include \"")).To(Equal(1))
	})
})
