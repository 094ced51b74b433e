package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("quickstart", func() {
	It("recognises the samples and says how the model was carved", func(ctx SpecContext) {
		var out bytes.Buffer
		Expect(run(ctx, &out, nil)).To(Succeed())
		for d := range 10 {
			Expect(out.String()).To(MatchRegexp(`digit-%d\.png +looks like a %d \(\d+%%\)`, d, d))
		}
		Expect(out.String()).To(And(
			ContainSubstring("0 on cpu: conv1, relu1, pool1, conv2, relu2, pool2, flatten, dense, softmax"),
			ContainSubstring("conv2.weight from host:NCHW to host:ABcd16b16a, 18432 bytes, when the model is compiled"),
			ContainSubstring("pool2.out from host:NCHW16c to host:NCHW, 5120 bytes, at each run, in group 0"),
			MatchRegexp(`host: arena \d+ bytes, lower bound \d+, without a plan \d+`),
		))
	})

	It("ships weights below 200 kB", func() {
		info, err := os.Stat("digits.onnx")
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Size()).To(BeNumerically("<", 200_000))
	})

	It("reads images of other sizes", func(ctx SpecContext) {
		large := enlarge(filepath.Join("testdata", "digit-7.png"), 3)
		var out bytes.Buffer
		Expect(run(ctx, &out, []string{large})).To(Succeed())
		Expect(out.String()).To(MatchRegexp(`large\.png +looks like a 7 `))
	})

	DescribeTable("turns down", func(ctx SpecContext, make func(path string), problem string) {
		path := filepath.Join(GinkgoT().TempDir(), "image.png")
		make(path)
		Expect(run(ctx, &bytes.Buffer{}, []string{path})).To(MatchError(ContainSubstring(problem)))
	},
		Entry("a file that is no image", func(path string) { write(path, []byte("digit")) }, "unknown format"),
		Entry("an oblong", func(path string) { writePNG(path, image.NewGray(image.Rect(0, 0, 16, 8))) }, "16 by 8 pixels"),
		Entry("an image that is too small", func(path string) { writePNG(path, image.NewGray(image.Rect(0, 0, 7, 7))) }, "7 by 7 pixels"),
		Entry("a file that is absent", func(string) {}, "no such file"),
	)

	It("averages areas", func() {
		img := image.NewGray(image.Rect(2, 2, 18, 18)) // two pixels a side per area
		img.SetGray(2, 2, color.Gray{Y: 255})
		img.SetGray(17, 17, color.Gray{Y: 51})
		p := shrink(img)
		Expect(p[0]).To(BeNumerically("~", 0.25, 1e-6))
		Expect(p[63]).To(BeNumerically("~", 0.05, 1e-6))
		Expect(p[1:63]).To(HaveEach(BeZero()))
	})
})

// enlarge writes a copy of an image with factor times as many pixels a side.
func enlarge(path string, factor int) string {
	GinkgoHelper()
	data, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	img, err := png.Decode(bytes.NewReader(data))
	Expect(err).NotTo(HaveOccurred())
	n := img.Bounds().Dx() * factor
	big := image.NewRGBA(image.Rect(0, 0, n, n))
	for i := range n * n {
		big.Set(i%n, i/n, img.At(i%n/factor, i/n/factor))
	}
	out := filepath.Join(GinkgoT().TempDir(), "large.png")
	writePNG(out, big)
	return out
}

func writePNG(path string, img image.Image) {
	GinkgoHelper()
	var b bytes.Buffer
	Expect(png.Encode(&b, img)).To(Succeed(), fmt.Sprint(img.Bounds()))
	write(path, b.Bytes())
}

func write(path string, data []byte) {
	GinkgoHelper()
	Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
}
