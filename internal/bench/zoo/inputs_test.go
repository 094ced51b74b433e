package main

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
)

var _ = Describe("inputs of a model file", func() {
	var dir, path string
	BeforeEach(func(ctx SpecContext) {
		dir = GinkgoT().TempDir()
		path = filepath.Join(dir, "tagger.onnx")
		g, err := graph.Parse(`graph {
  opset 17
  input %tokens: i64[batch,length]
  input %attention_mask: i64[batch,length]
  input %x: f32[batch,3]
  %y = Add(%tokens, %attention_mask)
  output %y
  output %x
}
`)
		Expect(err).NotTo(HaveOccurred())
		f, err := os.Create(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(onnx.Write(ctx, f, nil, &onnx.Model{Graph: g}, nil)).To(Succeed())
		Expect(f.Close()).To(Succeed())
	})

	It("are made where there are none, with the dims that are asked for, the same each time", func() {
		open, err := bindings("length=7")
		Expect(err).NotTo(HaveOccurred())
		folder, err := inputs{open: open}.of(path, filepath.Join(dir, "made"))
		Expect(err).NotTo(HaveOccurred())
		feeds, shapes, err := readFeeds(folder)
		Expect(err).NotTo(HaveOccurred())
		Expect(shapes).To(Equal(map[string][]int{"tokens": {1, 7}, "attention_mask": {1, 7}, "x": {1, 3}}))
		again, err := inputs{open: open}.of(path, filepath.Join(dir, "again"))
		Expect(err).NotTo(HaveOccurred())
		same, _, err := readFeeds(again)
		Expect(err).NotTo(HaveOccurred())
		Expect(same).To(Equal(feeds))
	})

	It("are those of the folder beside it, or in another one", func() {
		for _, in := range []inputs{{}, {folder: filepath.Join(dir, "other")}} {
			want := filepath.Join(dir, "tagger")
			if in.folder != "" {
				want = filepath.Join(in.folder, "tagger")
			}
			Expect(os.MkdirAll(want, 0o700)).To(Succeed())
			Expect(in.of(path, dir)).To(Equal(want))
		}
	})

	It("has dims of numbers", func() {
		_, err := bindings("length")
		Expect(err).To(MatchError(ContainSubstring("NAME=NUMBER")))
	})
})
