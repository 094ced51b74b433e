package jpeg_test

import (
	"bytes"
	"flag"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/jpeg"
)

var folder = flag.String("jpegs", "testdata", "`FOLDER` of files and pixels that testdata/make.py has written")

// pixels returns what a PNG file holds, 3 bytes a pixel.
func pixels(path string) (rgb []byte, w, h int) {
	b, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	img, err := png.Decode(bytes.NewReader(b))
	Expect(err).NotTo(HaveOccurred())
	w, h = img.Bounds().Dx(), img.Bounds().Dy()
	for i := range w * h {
		r, g, b, _ := img.At(i%w, i/w).RGBA()
		rgb = append(rgb, byte(r>>8), byte(g>>8), byte(b>>8))
	}
	return rgb, w, h
}

func files() []string {
	list, err := filepath.Glob(filepath.Join(*folder, "*.jpg"))
	Expect(err).NotTo(HaveOccurred())
	Expect(list).NotTo(BeEmpty())
	return list
}

func none(int) {}

var _ = Describe("Decode", func() {
	It("gives the pixels that libjpeg-turbo gives", func() {
		for _, path := range files() {
			b, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			want, wantW, wantH := pixels(strings.TrimSuffix(path, ".jpg") + ".png")
			w, h, err := jpeg.Size(b)
			Expect(err).NotTo(HaveOccurred(), path)
			Expect([]int{w, h}).To(Equal([]int{wantW, wantH}), path)
			got, err := jpeg.Decode(b, none)
			Expect(err).NotTo(HaveOccurred(), path)
			Expect(bytes.Equal(got, want)).To(BeTrue(), path)
		}
	})

	It("refuses files that end early", func() {
		for _, path := range files() {
			b, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			for n := range len(b) - 1 {
				_, err := jpeg.Decode(b[:n], none)
				Expect(err).To(MatchError(jpeg.ErrFormat), "%s, %d bytes", path, n)
			}
		}
	})

	It("takes or refuses damaged files", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, path := range files() {
			b, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			for range 200 {
				damaged := bytes.Clone(b)
				for range 1 + rng.IntN(3) {
					damaged[rng.IntN(len(b))] = byte(rng.Uint32())
				}
				check(damaged)
			}
		}
	})
})

// check decodes what is small, and wants all pixels or an error.
func check(b []byte) {
	w, h, err := jpeg.Size(b)
	if err != nil || w*h > 1<<20 {
		return
	}
	if rgb, err := jpeg.Decode(b, none); err == nil && len(rgb) != 3*w*h {
		panic("pixels are missing")
	}
}

func FuzzDecode(f *testing.F) {
	list, _ := filepath.Glob("testdata/*.jpg")
	for _, path := range list {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) { check(b) })
}
