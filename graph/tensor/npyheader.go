package tensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const npyMagic = "\x93NUMPY"

// maxNPYHeader bounds the header's text; NumPy's own reader stops at 10,000 characters by default.
const maxNPYHeader = 1 << 16

// npyHeader is what stands before the elements of an npy file.
type npyHeader struct {
	dtype   DType
	size    int  // bytes of one element in the file
	big     bool // big-endian
	fortran bool
	unicode bool // elements are UTF-32 strings
	fixed   bool // elements are byte strings of fixed size
	shape   []int
	n       int // number of elements
	bytes   int // bytes of all elements
}

// npyPrefix returns the length of the whole header, from its first bytes (at least 12).
func npyPrefix(b []byte) (start, end int, err error) {
	if len(b) < 8 || string(b[:6]) != npyMagic {
		if len(b) < 8 && bytes.HasPrefix([]byte(npyMagic), b[:min(len(b), 6)]) {
			return 0, 0, fmt.Errorf("%w: npy header", ErrTruncated)
		}
		return 0, 0, fmt.Errorf("%w: no npy magic", ErrSyntax)
	}
	var n uint32
	switch b[6] {
	case 1:
		if len(b) < 10 {
			return 0, 0, fmt.Errorf("%w: npy header", ErrTruncated)
		}
		start, n = 10, uint32(binary.LittleEndian.Uint16(b[8:]))
	case 2, 3:
		if len(b) < 12 {
			return 0, 0, fmt.Errorf("%w: npy header", ErrTruncated)
		}
		start, n = 12, binary.LittleEndian.Uint32(b[8:])
	default:
		return 0, 0, fmt.Errorf("%w: npy version %d.%d", ErrUnsupported, b[6], b[7])
	}
	if n > maxNPYHeader {
		return 0, 0, fmt.Errorf("%w: npy header of %d bytes, limit %d", ErrTooLarge, n, maxNPYHeader)
	}
	return start, start + int(n), nil
}

// parseNPYHeader reads the text of a header: a Python literal of a dict with the keys descr, fortran_order and shape.
func parseNPYHeader(text []byte) (*npyHeader, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%w: npy header is not text", ErrSyntax)
	}
	p := &pyParser{s: string(text)}
	h := &npyHeader{}
	var descr string
	var seen [3]bool
	if !p.next('{') {
		return nil, fmt.Errorf("%w: npy header is no dict", ErrSyntax)
	}
	for !p.next('}') {
		key, ok := p.str()
		if !ok || !p.next(':') {
			return nil, p.fault()
		}
		var slot int
		switch key {
		case "descr":
			slot = 0
			if c := p.peek(); c == '[' || c == '(' {
				return nil, fmt.Errorf("%w: npy of a structured dtype", ErrUnsupported)
			}
			descr, ok = p.str()
		case "fortran_order":
			slot = 1
			h.fortran, ok = p.boolean()
		case "shape":
			slot = 2
			h.shape, ok = p.tuple()
		default:
			return nil, fmt.Errorf("%w: npy header key %.40q", ErrSyntax, key)
		}
		if !ok || seen[slot] {
			return nil, p.fault()
		}
		seen[slot] = true
		if !p.next(',') && p.peek() != '}' {
			return nil, p.fault()
		}
	}
	if strings.TrimSpace(p.s[p.i:]) != "" || seen != [3]bool{true, true, true} {
		return nil, p.fault()
	}
	if err := h.setDescr(descr); err != nil {
		return nil, err
	}
	var err error
	if h.n, err = NumElements(h.shape); err != nil {
		return nil, err
	}
	if h.size > 0 && h.n > (1<<62)/h.size {
		return nil, fmt.Errorf("%w: npy of shape %v with elements of %d bytes", ErrTooLarge, h.shape, h.size)
	}
	h.bytes = h.n * h.size
	return h, nil
}

// npyTypes are NumPy's type strings, without the order of bytes.
var npyTypes = map[string]DType{"b1": Bool, "?": Bool, "i1": Int8, "i2": Int16, "i4": Int32, "i8": Int64,
	"u1": Uint8, "u2": Uint16, "u4": Uint32, "u8": Uint64, "f2": Float16, "f4": Float32, "f8": Float64, "c8": Complex64, "c16": Complex128}

// setDescr reads a NumPy type string such as "<f4".
func (h *npyHeader) setDescr(s string) error {
	if len(s) < 2 {
		return fmt.Errorf("%w: npy dtype %q", ErrSyntax, s)
	}
	kind := s
	switch s[0] {
	case '>':
		h.big, kind = true, s[1:]
	case '<', '|', '=':
		kind = s[1:]
	}
	h.dtype = npyTypes[kind]
	if h.dtype != Invalid {
		h.size = h.dtype.Size()
		return nil
	}
	if kind == "" {
		return fmt.Errorf("%w: npy dtype %q", ErrSyntax, s)
	}
	switch kind[0] {
	case 'U', 'S', 'a':
		n, err := strconv.ParseUint(kind[1:], 10, 31)
		if err != nil {
			return fmt.Errorf("%w: npy dtype %.40q", ErrSyntax, s)
		}
		h.dtype, h.size, h.fixed = String, int(n), true
		if kind[0] == 'U' {
			if n > 1<<28 {
				return fmt.Errorf("%w: npy dtype %q", ErrTooLarge, s)
			}
			h.size, h.unicode, h.fixed = int(n)*4, true, false
		}
		return nil
	case 'O':
		return fmt.Errorf("%w: npy of Python objects (a pickle)", ErrUnsupported)
	}
	return fmt.Errorf("%w: npy dtype %.40q", ErrUnsupported, s)
}

// pyParser reads the few Python literals of a header.
type pyParser struct {
	s string
	i int
}

func (p *pyParser) fault() error { return fmt.Errorf("%w: npy header at byte %d", ErrSyntax, p.i) }

func (p *pyParser) peek() byte {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
	if p.i == len(p.s) {
		return 0
	}
	return p.s[p.i]
}

func (p *pyParser) next(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.i++
	return true
}

// str reads a string without escapes, which no header needs.
func (p *pyParser) str() (string, bool) {
	q := p.peek()
	if q != '\'' && q != '"' {
		return "", false
	}
	n := strings.IndexByte(p.s[p.i+1:], q)
	if n < 0 {
		return "", false
	}
	v := p.s[p.i+1 : p.i+1+n]
	p.i += n + 2
	return v, !strings.Contains(v, `\`)
}

func (p *pyParser) boolean() (v, ok bool) {
	p.peek()
	for _, w := range []string{"True", "False"} {
		if strings.HasPrefix(p.s[p.i:], w) {
			p.i += len(w)
			return w == "True", true
		}
	}
	return false, false
}

// tuple reads a tuple of natural numbers, Python 2's trailing L allowed.
func (p *pyParser) tuple() ([]int, bool) {
	if !p.next('(') {
		return nil, false
	}
	dims := []int{}
	for !p.next(')') {
		c := p.peek()
		start := p.i
		for c >= '0' && c <= '9' && p.i < len(p.s) {
			if p.i++; p.i < len(p.s) {
				c = p.s[p.i]
			}
		}
		d, err := strconv.ParseInt(p.s[start:p.i], 10, 62)
		if err != nil || len(dims) == 64 {
			return nil, false
		}
		dims = append(dims, int(d))
		if p.i < len(p.s) && p.s[p.i] == 'L' {
			p.i++
		}
		if !p.next(',') && p.peek() != ')' {
			return nil, false
		}
	}
	return dims, true
}

// npyDescr returns the NumPy type string of a dtype, "" where NumPy has none.
func npyDescr(dt DType) string {
	switch dt {
	case Bool:
		return "|b1"
	case Int8:
		return "|i1"
	case Uint8:
		return "|u1"
	case Int16, Int32, Int64:
		return "<i" + strconv.Itoa(dt.Size())
	case Uint16, Uint32, Uint64:
		return "<u" + strconv.Itoa(dt.Size())
	case Float16, Float32, Float64:
		return "<f" + strconv.Itoa(dt.Size())
	case Complex64, Complex128:
		return "<c" + strconv.Itoa(dt.Size())
	}
	return ""
}

// npyHeaderBytes returns magic, version and header, padded so that the elements start at a multiple of 64 bytes.
func npyHeaderBytes(descr string, shape []int) []byte {
	var dims strings.Builder
	for i, d := range shape {
		if i > 0 {
			dims.WriteString(", ")
		}
		dims.WriteString(strconv.Itoa(d))
	}
	if len(shape) == 1 {
		dims.WriteByte(',')
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims.String())
	version, prefix := byte(1), 10
	if len(text) > 65000 {
		version, prefix = 2, 12
	}
	pad := (64 - (prefix+len(text)+1)%64) % 64
	n := len(text) + pad + 1
	b := append([]byte(npyMagic), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	b = append(b, text...)
	b = append(b, bytes.Repeat([]byte{' '}, pad)...)
	return append(b, '\n')
}
