package reference

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	_ "image/png" // registered
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/jpeg"
)

var imageKernels = []kernel{{"ImageDecoder", 20, imageDecoder}}

// picture is a decoded image, 3 bytes a pixel, rows from top to bottom.
type picture struct {
	w, h int
	rgb  []byte
}

// imageDecoder decodes PNG, JPEG, BMP, TIFF (uncompressed) and portable pixmaps, chosen by their first bytes, and what the program has
// registered decoders for with package image, such as those of golang.org/x/image for WebP and other kinds of TIFF. A file that
// cannot be read gives an empty image, as the operator has it; a format that is not known is an error.
func imageDecoder(c *Call) {
	x := c.input(0)
	if x.DType != tensor.Uint8 || len(x.Shape) != 1 {
		c.wantType(0, x, false)
	}
	b := x.Bytes()
	format := c.Node.Str("pixel_format", "RGB")
	depth := 3
	switch format {
	case "RGB", "BGR":
	case "Grayscale":
		depth = 1
	default:
		c.fail("pixel_format", ErrAttribute, "%q", format)
	}
	var p *picture
	switch {
	case bytes.HasPrefix(b, []byte("\xff\xd8")):
		p = c.decodeJPEG(b)
	case bytes.HasPrefix(b, []byte("BM")):
		p = c.decodeBMP(b)
	case bytes.HasPrefix(b, []byte("II*\x00")) || bytes.HasPrefix(b, []byte("MM\x00*")):
		if p = c.decodeTIFF(b); p == nil {
			p = c.decodeRegistered(b)
		}
	case len(b) > 2 && b[0] == 'P' && b[1] >= '1' && b[1] <= '6':
		p = c.decodePNM(b)
	default:
		p = c.decodeRegistered(b)
	}
	if p == nil {
		c.result(0, tensor.Uint8, []int{0, 0, depth})
		return
	}
	dst := c.result(0, tensor.Uint8, []int{p.h, p.w, depth}).Bytes()
	switch format {
	case "RGB":
		copy(dst, p.rgb)
	case "BGR":
		for i := 0; i < len(dst); i += 3 {
			dst[i], dst[i+1], dst[i+2] = p.rgb[i+2], p.rgb[i+1], p.rgb[i]
		}
	case "Grayscale":
		for i := range dst {
			r, g, b := uint32(p.rgb[3*i]), uint32(p.rgb[3*i+1]), uint32(p.rgb[3*i+2])
			dst[i] = byte((r*19595 + g*38470 + b*7471 + 1<<15) >> 16)
		}
	}
}

// newPicture returns an empty image, nil for sizes that make no sense, and for those of more than most pixels: a header alone takes no memory.
func (c *Call) newPicture(w, h, most int) *picture {
	if w < 1 || h < 1 || w > 1<<24 || h > 1<<24 || w*h > most {
		return nil
	}
	return &picture{w: w, h: h, rgb: make([]byte, c.reserve("output image", []int{h, w, 3}, 1))}
}

const (
	// jpegPixels are the most pixels that a byte of a JPEG file makes: blocks of 64 samples take a bit each, and a plane has a sixteenth of the
	// samples or more.
	jpegPixels = 8 * 64 * 16
	// pngPixels are those of a PNG file: a pixel takes a bit or more, and a byte of a deflate stream unpacks to 1032 at most.
	pngPixels = 8 * 1032
	// otherPixels are what a file of another format may have however short it is: pixels of one colour take no bytes of a WebP file at all.
	otherPixels = 1 << 24
)

// decodeJPEG gives the pixels of libjpeg.
func (c *Call) decodeJPEG(b []byte) *picture {
	w, h, err := jpeg.Size(b)
	if err != nil {
		return nil
	}
	p := c.newPicture(w, h, jpegPixels*len(b))
	if p == nil {
		return nil
	}
	c.reserve("the decoder's planes", []int{h + 32, w + 32, 4}, 4)
	if p.rgb, err = jpeg.Decode(b, c.spend); err != nil {
		return nil
	}
	return p
}

// decodeRegistered uses a decoder that the program has registered with package image: that of PNG, and others.
func (c *Call) decodeRegistered(b []byte) *picture {
	head, format, err := image.DecodeConfig(bytes.NewReader(b))
	if errors.Is(err, image.ErrFormat) {
		c.fail(c.portName(0), tensor.ErrUnsupported, "an image that begins with %q; package image has no decoder registered for it", b[:min(len(b), 12)])
	}
	if err != nil {
		return nil
	}
	most := pngPixels * len(b)
	if format != "png" {
		most = max(most, otherPixels)
	}
	p := c.newPicture(head.Width, head.Height, most)
	if p == nil {
		return nil
	}
	c.reserve("the decoder's image", []int{head.Height, head.Width, 4}, 2)
	img, _, err := image.Decode(bytes.NewReader(b))
	if err != nil || img.Bounds().Dx() != p.w || img.Bounds().Dy() != p.h {
		return nil
	}
	if format == "webp" && p.fromVideo(c, img) {
		return p
	}
	o := img.Bounds().Min
	for i := range p.w * p.h {
		n := color.NRGBAModel.Convert(img.At(o.X+i%p.w, o.Y+i/p.w)).(color.NRGBA)
		p.rgb[3*i], p.rgb[3*i+1], p.rgb[3*i+2] = n.R, n.G, n.B
		c.spend(4)
	}
	return p
}

// decodeBMP reads uncompressed bitmaps of 8 (with a palette), 24 and 32 bits.
func (c *Call) decodeBMP(b []byte) *picture {
	if len(b) < 54 {
		return nil
	}
	le := binary.LittleEndian
	start, head := int(le.Uint32(b[10:])), int(le.Uint32(b[14:]))
	w, h := int(int32(le.Uint32(b[18:]))), int(int32(le.Uint32(b[22:])))
	bits, compression := int(le.Uint16(b[28:])), le.Uint32(b[30:])
	if bits != 8 && bits != 24 && bits != 32 || compression != 0 || head < 40 || head > 1<<10 {
		return nil
	}
	up := h > 0
	p := c.newPicture(w, max(h, -h), len(b)*8/bits)
	if p == nil {
		return nil
	}
	stride := (p.w*bits/8 + 3) &^ 3
	if start > len(b) || (len(b)-start)/stride < p.h {
		return nil
	}
	palette := b[min(14+head, len(b)):]
	for r := range p.h {
		row := b[start+r*stride:]
		to := r
		if up {
			to = p.h - 1 - r
		}
		for x := range p.w {
			px := row[x*bits/8:]
			if bits == 8 {
				if len(palette) < 4*int(px[0])+4 {
					return nil
				}
				px = palette[4*int(px[0]):]
			}
			copy(p.rgb[(to*p.w+x)*3:], []byte{px[2], px[1], px[0]})
		}
		c.spend(4 * p.w)
	}
	return p
}

// tiffTags are the entries of a TIFF's directory that decodeTIFF reads.
var tiffTags = []uint16{256, 257, 258, 259, 262, 273, 277, 279, 284}

// tiffDirectory returns the numbers of the first directory's entries by tag; nil where the file is damaged. Of several entries
// with one tag the first counts, so that it takes no more memory than a few files.
func tiffDirectory(b []byte, order binary.ByteOrder) map[uint16][]uint32 {
	at := int(order.Uint32(b[4:]))
	if at > len(b)-2 {
		return nil
	}
	entries := map[uint16][]uint32{}
	for k := range int(order.Uint16(b[at:])) {
		e := at + 2 + 12*k
		if e+12 > len(b) {
			return nil
		}
		tag, kind, n := order.Uint16(b[e:]), order.Uint16(b[e+2:]), int(order.Uint32(b[e+4:]))
		size := map[uint16]int{3: 2, 4: 4}[kind]
		data := b[e+8 : e+12]
		if size == 0 || n > len(b) || entries[tag] != nil || !slices.Contains(tiffTags, tag) {
			continue
		}
		if n*size > 4 {
			off := int(order.Uint32(data))
			if off > len(b) || n*size > len(b)-off {
				return nil
			}
			data = b[off:]
		}
		for i := range n {
			if size == 2 {
				entries[tag] = append(entries[tag], uint32(order.Uint16(data[2*i:])))
			} else {
				entries[tag] = append(entries[tag], order.Uint32(data[4*i:]))
			}
		}
	}
	return entries
}

// decodeTIFF reads the first image of a baseline file: uncompressed strips of 8-bit grey or RGB pixels.
func (c *Call) decodeTIFF(b []byte) *picture {
	var order binary.ByteOrder = binary.LittleEndian
	if b[0] == 'M' {
		order = binary.BigEndian
	}
	if len(b) < 8 {
		return nil
	}
	entries := tiffDirectory(b, order)
	one := func(tag uint16, def uint32) int {
		if v := entries[tag]; len(v) > 0 {
			def = v[0]
		}
		return int(def)
	}
	samples := one(277, 1)
	if entries == nil || one(259, 1) != 1 || one(258, 1) != 8 || one(284, 1) != 1 || samples != 1 && samples != 3 && samples != 4 {
		return nil
	}
	p := c.newPicture(one(256, 0), one(257, 0), len(b)/samples)
	if p == nil {
		return nil
	}
	var data []byte
	counts := entries[279]
	for i, off := range entries[273] {
		if i >= len(counts) || int(off) > len(b) || int(counts[i]) > len(b)-int(off) {
			return nil
		}
		data = append(data, b[off:int(off)+int(counts[i])]...)
		if len(data) >= p.w*p.h*samples {
			break
		}
	}
	if len(data) < p.w*p.h*samples {
		return nil
	}
	invert := byte(0)
	if samples == 1 && one(262, 1) == 0 { // white is zero
		invert = 0xff
	}
	for i := range p.w * p.h {
		px := data[i*samples:]
		if samples == 1 {
			px = []byte{px[0], px[0], px[0]}
		}
		for k := range 3 {
			p.rgb[3*i+k] = px[k] ^ invert
		}
		c.spend(4)
	}
	return p
}

// decodePNM reads portable bitmaps, graymaps and pixmaps, plain and raw, of up to 255 levels.
func (c *Call) decodePNM(b []byte) *picture {
	kind := b[1] - '0'
	pos := 2
	number := func() (int, bool) {
		for pos < len(b) && (b[pos] <= ' ' || b[pos] == '#') {
			if b[pos] == '#' {
				for pos < len(b) && b[pos] != '\n' {
					pos++
				}
				continue
			}
			pos++
		}
		n, start := 0, pos
		for pos < len(b) && b[pos] >= '0' && b[pos] <= '9' && n < 1<<30 {
			n = n*10 + int(b[pos]-'0')
			pos++
		}
		return n, pos > start
	}
	w, ok1 := number()
	h, ok2 := number()
	levels, ok3 := 1, true
	if kind != 1 && kind != 4 {
		levels, ok3 = number()
	}
	if !ok1 || !ok2 || !ok3 || levels < 1 || levels > 255 {
		return nil
	}
	channels := 1
	if kind == 3 || kind == 6 {
		channels = 3
	}
	most := len(b) / channels
	if kind == 4 {
		most *= 8
	}
	p := c.newPicture(w, h, most)
	if p == nil {
		return nil
	}
	raw := b[min(pos+1, len(b)):]
	stride := p.w * channels
	if kind == 4 {
		stride = (p.w + 7) / 8
	}
	if kind >= 4 && len(raw)/stride < p.h {
		return nil
	}
	for i := range p.w * p.h {
		for k := range 3 {
			v, ok := 0, true
			switch {
			case k >= channels:
				v = int(p.rgb[3*i])
				p.rgb[3*i+k] = byte(v)
				continue
			case kind == 4:
				v = 1 - int(raw[i/p.w*stride+i%p.w/8]>>(7-i%p.w%8)&1)
			case kind > 4:
				v = int(raw[i*channels+k])
			case kind == 1:
				for pos < len(b) && b[pos] != '0' && b[pos] != '1' {
					pos++
				}
				if ok = pos < len(b); ok {
					v = 1 - int(b[pos]-'0')
					pos++
				}
			default:
				v, ok = number()
			}
			if !ok || v > levels {
				return nil
			}
			p.rgb[3*i+k] = byte((v*255 + levels/2) / levels)
		}
		c.spend(4)
	}
	return p
}
