package reference_test

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	_ "golang.org/x/image/webp"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("ImageDecoder of formats that the program has registered", func() {
	It("gives the pixels of WebP files that libwebp gives", func() {
		list, err := filepath.Glob("testdata/webp/*.webp") // written by testdata/webp.py
		Expect(err).NotTo(HaveOccurred())
		Expect(list).NotTo(BeEmpty())
		for _, path := range list {
			b, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			p, err := os.ReadFile(strings.TrimSuffix(path, ".webp") + ".png")
			Expect(err).NotTo(HaveOccurred())
			img, err := png.Decode(bytes.NewReader(p))
			Expect(err).NotTo(HaveOccurred())
			w, h := img.Bounds().Dx(), img.Bounds().Dy()
			var want []byte
			for i := range w * h {
				r, g, b, _ := img.At(i%w, i/w).RGBA()
				want = append(want, byte(r>>8), byte(g>>8), byte(b>>8))
			}
			y := eval("ImageDecoder", 20, []*tensor.Tensor{tensor.From(b)})
			Expect(y.Shape).To(Equal([]int{h, w, 3}), path)
			Expect(bytes.Equal(y.Bytes(), want)).To(BeTrue(), path)
		}
	})

	It("refuses others, by their first bytes", func() {
		x := []*tensor.Tensor{tensor.From([]byte("\x00\x00\x00\x0cjP  \r\n\x87\n"))}
		_, err := reference.Evaluate(context.Background(), node("ImageDecoder", 20, x), values(x))
		Expect(err).To(MatchError(tensor.ErrUnsupported))
		Expect(err).To(MatchError(ContainSubstring(`begins with "\x00\x00\x00\fjP  \r\n\x87\n"`)))
	})
})
