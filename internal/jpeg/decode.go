// Package jpeg decodes JPEG files (ITU-T T.81) to the pixels that the Independent JPEG Group's library and its successors
// give, bit by bit: nearly all models are trained on those, and ONNX defines its ImageDecoder by them. Go's image/jpeg
// transforms with other roundings. Sequential and progressive files with Huffman codes and 8 bits a sample are read, grey,
// YCbCr, RGB, CMYK and YCCK. It imports nothing of carve.
package jpeg

import (
	"encoding/binary"
	"errors"
)

// ErrFormat is wrapped by the errors about files that are damaged, and about kinds of JPEG that are not read.
var ErrFormat = errors.New("no JPEG file that is read")

// Markers, the second byte.
const (
	startOfImage, endOfImage = 0xd8, 0xd9
	sequential, progressive  = 0xc1, 0xc2 // sequential is extended; 0xc0 is baseline
	huffmanTables            = 0xc4
	startOfScan              = 0xda
	quantisationTables       = 0xdb
	restartInterval          = 0xdd
	jfifHeader, adobeHeader  = 0xe0, 0xee
)

// zigzag says where in a block, by rows, the coefficients of a file belong, in their order there.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// component is one plane of samples.
type component struct {
	id         byte
	h, v       int // samples beside and above each other in a unit
	table      byte
	w, rows    int // size in samples, without what fills blocks
	bw, bh     int // size in blocks, units filled
	coef       []int16
	quant      [64]uint16 // as it was when the first scan of the component began
	quantised  bool
	dc, ac     byte // tables in the scan that is read
	prediction int32
}

// decoder reads one file.
type decoder struct {
	b           []byte // what is left of the file
	spend       func(int)
	w, h        int
	progressive bool
	c           []component
	hmax, vmax  int
	quant       [4][64]uint16
	tables      [2][4]huffman // of DC and of AC coefficients
	interval    int
	jfif, adobe bool
	transform   byte
	bits        bitReader
	run         int // blocks in a row that a progressive scan leaves out
}

// Size returns the width and height that the file says, in pixels. Its error wraps ErrFormat.
func Size(b []byte) (w, h int, err error) {
	d := decoder{b: b}
	if err := d.segments(true); err != nil {
		return 0, 0, err
	}
	return d.w, d.h, nil
}

// Decode returns the pixels of a file, [height, width, 3], 8 bits of red, green and blue. It works in memory of four bytes a pixel and
// component beside. Spend is told about steps of work, each some nanoseconds. The error wraps ErrFormat, for files that end early too.
func Decode(b []byte, spend func(steps int)) ([]byte, error) {
	d := decoder{b: b, spend: spend}
	if err := d.segments(false); err != nil {
		return nil, err
	}
	return d.pixels()
}

// segments reads the file from marker to marker, up to the frame's header if that alone is wanted.
func (d *decoder) segments(header bool) error {
	if len(d.b) < 2 || d.b[0] != 0xff || d.b[1] != startOfImage {
		return ErrFormat
	}
	d.b = d.b[2:]
	for {
		marker, body, err := d.segment()
		if err != nil {
			return err
		}
		switch marker {
		case endOfImage:
			if d.c == nil {
				return ErrFormat
			}
			return nil
		case sequential - 1, sequential, progressive:
			d.progressive = marker == progressive
			if err = d.frame(body, header); err == nil && header {
				return nil
			}
		case huffmanTables:
			err = d.huffmanTables(body)
		case quantisationTables:
			err = d.quantisation(body)
		case restartInterval:
			if len(body) != 2 {
				return ErrFormat
			}
			d.interval = int(binary.BigEndian.Uint16(body))
		case startOfScan:
			err = d.scan(body)
		case jfifHeader:
			d.jfif = d.jfif || len(body) >= 5 && string(body[:5]) == "JFIF\x00"
		case adobeHeader:
			if len(body) >= 12 && string(body[:5]) == "Adobe" {
				d.adobe, d.transform = true, body[11]
			}
		default:
			if marker >= 0xc0 && marker < 0xd0 && marker != 0xc8 { // frames without losses, hierarchical ones, arithmetic codes
				return ErrFormat
			}
		}
		if err != nil {
			return err
		}
	}
}

// segment returns the next marker and what belongs to it.
func (d *decoder) segment() (byte, []byte, error) {
	for len(d.b) >= 2 {
		if d.b[0] != 0xff || d.b[1] == 0 || d.b[1] == 0xff || d.b[1] >= 0xd0 && d.b[1] < startOfImage {
			d.b = d.b[1:] // fill bytes, and what a scan has left
			continue
		}
		marker := d.b[1]
		if d.b = d.b[2:]; marker == endOfImage {
			return marker, nil, nil
		}
		if len(d.b) < 2 {
			break
		}
		n := int(binary.BigEndian.Uint16(d.b))
		if n < 2 || n > len(d.b) {
			break
		}
		body := d.b[2:n]
		d.b = d.b[n:]
		return marker, body, nil
	}
	return 0, nil, ErrFormat
}

// frame reads the sizes and components. Of the header alone nothing is allocated.
func (d *decoder) frame(b []byte, header bool) error {
	if d.c != nil || len(b) < 6 || b[0] != 8 || len(b) != 6+3*int(b[5]) {
		return ErrFormat
	}
	d.h, d.w = int(binary.BigEndian.Uint16(b[1:])), int(binary.BigEndian.Uint16(b[3:]))
	n := int(b[5])
	if d.w == 0 || d.h == 0 || n != 1 && n != 3 && n != 4 {
		return ErrFormat
	}
	if header {
		return nil
	}
	d.c = make([]component, n)
	for i := range d.c {
		s := b[6+3*i:]
		d.c[i] = component{id: s[0], h: int(s[1] >> 4), v: int(s[1] & 15), table: s[2]}
		if c := &d.c[i]; c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.table > 3 {
			return ErrFormat
		}
		d.hmax, d.vmax = max(d.hmax, d.c[i].h), max(d.vmax, d.c[i].v)
	}
	for i := range d.c {
		c := &d.c[i]
		if d.hmax%c.h != 0 || d.vmax%c.v != 0 {
			return ErrFormat
		}
		c.w, c.rows = ceil(d.w*c.h, d.hmax), ceil(d.h*c.v, d.vmax)
		c.bw, c.bh = ceil(d.w, 8*d.hmax)*c.h, ceil(d.h, 8*d.vmax)*c.v
		c.coef = make([]int16, c.bw*c.bh*64)
	}
	return nil
}

func ceil(a, b int) int { return (a + b - 1) / b }

// quantisation reads tables of steps, of 8 or 16 bits.
func (d *decoder) quantisation(b []byte) error {
	for len(b) > 0 {
		wide, id := int(b[0]>>4), b[0]&15
		b = b[1:]
		if wide > 1 || id > 3 || len(b) < 64<<wide {
			return ErrFormat
		}
		for i, at := range zigzag {
			if d.quant[id][at] = uint16(b[i]); wide == 1 {
				d.quant[id][at] = binary.BigEndian.Uint16(b[2*i:])
			}
		}
		b = b[64<<wide:]
	}
	return nil
}
