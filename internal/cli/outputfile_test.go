package cli_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("a file that a command reads", func() {
	kept := func(path string, run func()) {
		GinkgoHelper()
		before, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		run()
		Expect(os.ReadFile(path)).To(Equal(before))
	}

	DescribeTable("is not replaced by what it writes", func(ctx SpecContext, args ...string) {
		model := save(ctx, stem())
		for i, arg := range args {
			if arg == "MODEL" {
				args[i] = model
			}
		}
		kept(model, func() { Expect(fails(ctx, args...)).To(ContainSubstring("the command reads this file")) })
	},
		Entry("convert", "convert", "MODEL", "MODEL"),
		Entry("bundle", "bundle", "MODEL", "-o", "MODEL"),
		Entry("report", "report", "MODEL", "-o", "MODEL"),
		Entry("dump", "dump", "MODEL", "-o", "MODEL"),
		Entry("plan save", "plan", "save", "MODEL", "-o", "MODEL"),
		Entry("run --profile", "run", "MODEL", "--profile", "MODEL"),
		Entry("partition --svg", "partition", "MODEL", "--svg", "MODEL"),
	)
	DescribeTable("is not replaced by an output", func(ctx SpecContext, of, suffix string) {
		g, err := graph.Parse("graph \"g\" {\n  opset 17\n  input %x: f32[3]\n  %y = " + of + "\n  output %y\n}\n")
		Expect(err).NotTo(HaveOccurred())
		model, dir := save(ctx, g), GinkgoT().TempDir()
		data := filepath.Join(dir, "y"+suffix)
		content, err := tensor.New(tensor.Float32, 3)
		Expect(err).NotTo(HaveOccurred())
		if suffix == ".npy" {
			Expect(os.Rename(writeNPY(content), data)).To(Succeed())
		} else {
			writePB(data, "x", content)
		}
		kept(data, func() {
			Expect(fails(ctx, "run", model, "--input", "x="+data, "--output", dir)).To(ContainSubstring("the command reads this file"))
		})
		Expect(os.ReadDir(dir)).To(HaveLen(1))
		succeeds(ctx, "run", model, "--input", "x="+data, "--output", GinkgoT().TempDir())
	},
		Entry("as npy", "Relu(%x)", ".npy"),
		Entry("as protobuf", "Cast(%x; to=16)", ".pb"),
		Entry("a sequence", "SequenceConstruct(%x)", ".pb"),
	)
	It("may lie beside outputs", func(ctx SpecContext) {
		model, dir := save(ctx, stem()), GinkgoT().TempDir()
		data := filepath.Join(dir, "x.npy")
		Expect(os.Rename(writeNPY(tensor.From(make([]float32, 192), 1, 3, 8, 8)), data)).To(Succeed())
		kept(data, func() { succeeds(ctx, "run", model, "--input", "x="+data, "--output", dir) })
	})
	It("is known by any of its names", func(ctx SpecContext) {
		model := save(ctx, stem())
		link := filepath.Join(GinkgoT().TempDir(), "link.onnx")
		Expect(os.Symlink(model, link)).To(Succeed())
		kept(model, func() {
			Expect(fails(ctx, "bundle", link, "-o", model)).To(ContainSubstring("the command reads this file"))
			succeeds(ctx, "bundle", model, "-o", link) // the link is replaced
		})
	})
	It("may be one of data, a plan or a list of buffers", func(ctx SpecContext) {
		model := save(ctx, stem())
		data := writeNPY(tensor.From(make([]float32, 192), 1, 3, 8, 8))
		kept(data, func() {
			Expect(fails(ctx, "report", model, "--input", "x="+data, "-o", data)).To(ContainSubstring("the command reads this file"))
		})
		plan := filepath.Join(GinkgoT().TempDir(), "plan.txt")
		succeeds(ctx, "plan", "save", model, "-o", plan)
		kept(plan, func() {
			Expect(fails(ctx, "report", model, "--plan", plan, "-o", plan)).To(ContainSubstring("the command reads this file"))
		})
		list := filepath.Join(GinkgoT().TempDir(), "buffers.csv")
		Expect(os.WriteFile(list, []byte("id,lower,upper,size\na,0,10,4\n"), 0o600)).To(Succeed())
		kept(list, func() {
			Expect(fails(ctx, "memplan", list, "--svg", list)).To(ContainSubstring("the command reads this file"))
			Expect(fails(ctx, "memplan", list, "--output", list)).To(ContainSubstring("the command reads this file"))
		})
	})
})
