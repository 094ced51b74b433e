package reference_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
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

var _ = Describe("ImageDecoder of files whose headers say more than they hold", func() {
	const side = 16000
	little := func(parts ...any) []byte {
		var b bytes.Buffer
		for _, p := range parts {
			Expect(binary.Write(&b, binary.LittleEndian, p)).To(Succeed())
		}
		return b.Bytes()
	}
	big := func(parts ...any) []byte {
		var b bytes.Buffer
		for _, p := range parts {
			Expect(binary.Write(&b, binary.BigEndian, p)).To(Succeed())
		}
		return b.Bytes()
	}
	head := big([]byte("IHDR"), uint32(side), uint32(side), []byte{8, 2, 0, 0, 0})
	DescribeTable("gives an empty image, and takes no memory for it", func(file func() []byte) {
		b := file()
		x := []*tensor.Tensor{tensor.From(append(b, make([]byte, 1000)...))}
		n := node("ImageDecoder", 20, x)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		y, err := reference.Evaluate(context.Background(), n, values(x))
		runtime.ReadMemStats(&after)
		if bytes.HasPrefix(b, []byte("II")) { // may be of a kind that another decoder reads
			Expect(err).To(MatchError(tensor.ErrUnsupported))
		} else {
			Expect(err).NotTo(HaveOccurred())
			Expect(y[0].(*tensor.Tensor).Shape).To(Equal([]int{0, 0, 3}))
		}
		Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 1<<20))
	},
		Entry("PNG", func() []byte {
			return append([]byte("\x89PNG\r\n\x1a\n"), big(uint32(13), head, crc32.ChecksumIEEE(head), uint32(100), []byte("IDAT"))...)
		}),
		Entry("JPEG", func() []byte {
			return big(uint16(0xffd8), uint16(0xffc0), uint16(17), []byte{8}, uint16(side), uint16(side), []byte{3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0})
		}),
		Entry("BMP", func() []byte {
			return little([]byte("BM"), uint32(0), uint32(0), uint32(54), uint32(40), int32(side), int32(side), uint16(1), uint16(24), make([]byte, 24))
		}),
		Entry("BMP of rows from top to bottom", func() []byte {
			return little([]byte("BM"), uint32(0), uint32(0), uint32(54), uint32(40), int32(side), int32(-side), uint16(1), uint16(8), make([]byte, 24))
		}),
		Entry("TIFF whose strips lie over each other", func() []byte {
			b := little([]byte("II*\x00"), uint32(8), uint16(7))
			entry := func(tag uint16, n, value uint32) { b = append(b, little(tag, uint16(4), n, value)...) }
			entry(256, 1, side)
			entry(257, 1, side)
			entry(258, 1, 8)
			entry(277, 1, 3)
			entry(262, 1, 2)
			entry(273, 90, 8)
			return append(b, little(uint16(279), uint16(4), uint32(90), uint32(8))...)
		}),
		Entry("WebP without loss, whose pixels take no bytes", func() []byte {
			return little([]byte("RIFF"), uint32(26), []byte("WEBPVP8L"), uint32(14), []byte{0x2f}, uint32(side-1|(side-1)<<14), make([]byte, 9))
		}),
		Entry("portable bitmap", func() []byte { return []byte("P4 16000 16000\n") }),
		Entry("portable pixmap", func() []byte { return []byte("P6 16000 16000 255\n") }),
		Entry("plain portable pixmap", func() []byte { return []byte("P3 16000 16000 255\n1 2 3") }),
	)
})
