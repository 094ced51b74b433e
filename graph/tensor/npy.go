package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/carve-dev/carve/internal/offheap"
)

// ParseNPY reads an npy file (versions 1 to 3, either byte order, C or Fortran order) from its bytes. The elements of a
// little-endian C-order file are referenced, not copied; the tensor keeps b alive. Structured dtypes, Python objects,
// dates and extended floats are refused with ErrUnsupported; other errors wrap ErrSyntax, ErrTruncated or ErrTooLarge.
// Bytes after the elements are refused.
func ParseNPY(b []byte) (*Tensor, error) {
	t, n, err := parseNPY(b)
	if err == nil && n != len(b) {
		return nil, fmt.Errorf("%w: %d bytes after the elements of an npy file", ErrSyntax, len(b)-n)
	}
	return t, err
}

// parseNPY also returns where the elements end.
func parseNPY(b []byte) (*Tensor, int, error) {
	start, end, err := npyPrefix(b)
	if err != nil {
		return nil, 0, err
	}
	if end > len(b) {
		return nil, 0, fmt.Errorf("%w: npy header", ErrTruncated)
	}
	h, err := parseNPYHeader(b[start:end])
	if err != nil {
		return nil, 0, err
	}
	if h.bytes > len(b)-end {
		return nil, 0, fmt.Errorf("%w: npy of shape %v needs %d bytes, %d are left", ErrTruncated, h.shape, h.bytes, len(b)-end)
	}
	t, err := h.tensor(b[end : end+h.bytes : end+h.bytes])
	return t, end + h.bytes, err
}

// ReadNPY reads an npy file from r, up to the end of its elements, and nothing behind. Memory grows with what r really
// holds, never with what the header claims. Errors are those of ParseNPY and of r.
func ReadNPY(r io.Reader) (*Tensor, error) { return readNPY(r, math.MaxUint64) }

// readNPY refuses more than mostStrings strings.
func readNPY(r io.Reader, mostStrings uint64) (*Tensor, error) {
	head := make([]byte, 12)
	n, err := io.ReadFull(r, head[:10])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	head = head[:n]
	if n == 10 && head[6] != 1 {
		m, err := io.ReadFull(r, head[10:12])
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return nil, err
		}
		head = head[:10+m]
	}
	start, end, err := npyPrefix(head)
	if err != nil {
		return nil, err
	}
	text, err := readExactly(r, end-start)
	if err != nil {
		return nil, fmt.Errorf("npy header: %w", err)
	}
	h, err := parseNPYHeader(text)
	if err != nil {
		return nil, err
	}
	if h.dtype == String && uint64(h.n) > mostStrings {
		return nil, fmt.Errorf("%w: %d strings, %d are left of the limit", ErrTooLarge, h.n, mostStrings)
	}
	data, err := readExactly(r, h.bytes)
	if err != nil {
		return nil, fmt.Errorf("npy of shape %v: %w", h.shape, err)
	}
	return h.tensor(data)
}

// ReadNPYFile reads an npy file by its path. Only regular files are read.
func ReadNPYFile(path string) (*Tensor, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := ReadNPY(io.LimitReader(f, size))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// openRegular opens a regular file; what is none is not supported.
func openRegular(path string) (*os.File, int64, error) {
	f, info, err := offheap.OpenRegular(path)
	if errors.Is(err, offheap.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// readExactly reads n bytes. It allocates in steps, so that a false n costs at most twice what r holds plus 1 MiB.
func readExactly(r io.Reader, n int) ([]byte, error) {
	const first = 1 << 20
	b := alignedBytes(min(n, first))
	read := 0
	for {
		m, err := io.ReadFull(r, b[read:])
		read += m
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil, fmt.Errorf("%w: %d of %d bytes", ErrTruncated, read, n)
		case err != nil:
			return nil, err
		case read == n:
			return b, nil
		}
		grown := alignedBytes(min(n, 2*read))
		copy(grown, b)
		b = grown
	}
}

// tensor makes a tensor of the elements in data, which it may keep.
func (h *npyHeader) tensor(data []byte) (*Tensor, error) {
	t := &Tensor{DType: h.dtype, Shape: h.shape}
	if h.unicode || h.fixed {
		// A Go string's header costs more than a short element: the file's size still bounds it, but for empty elements.
		if h.size == 0 && h.n > 1<<20 {
			return nil, fmt.Errorf("%w: %d empty strings, limit %d", ErrTooLarge, h.n, 1<<20)
		}
		t.Strings = make([]string, h.n)
		for i := range t.Strings {
			s, err := h.text(data[i*h.size : (i+1)*h.size])
			if err != nil {
				return nil, err
			}
			t.Strings[i] = s
		}
	} else {
		t.Data = data
		if h.big {
			t.Data = swapped(data, h.dtype)
		}
		if h.dtype == Bool {
			for _, b := range t.Data {
				if b > 1 {
					return nil, fmt.Errorf("%w: bool element %d", ErrSyntax, b)
				}
			}
		}
	}
	if !h.fortran || len(h.shape) < 2 || h.n < 2 {
		return t, nil
	}
	t.Strides = make([]int, len(h.shape))
	s := 1
	for i, d := range h.shape {
		t.Strides[i] = s
		s *= d
	}
	return t.Clone()
}

// text reads one string, without the NULs that pad it.
func (h *npyHeader) text(b []byte) (string, error) {
	if h.fixed {
		return string(bytes.TrimRight(b, "\x00")), nil
	}
	var out []byte
	zeros := 0
	for ; len(b) > 0; b = b[4:] {
		c := binary.LittleEndian.Uint32(b)
		if h.big {
			c = binary.BigEndian.Uint32(b)
		}
		if c == 0 {
			zeros++
			continue
		}
		if c > utf8.MaxRune || !utf8.ValidRune(rune(c)) {
			return "", fmt.Errorf("%w: character U+%X in an npy string", ErrSyntax, c)
		}
		for ; zeros > 0; zeros-- {
			out = append(out, 0)
		}
		out = utf8.AppendRune(out, rune(c))
	}
	return string(out), nil
}

// swapped returns a copy with the bytes of every number reversed; complex numbers are two.
func swapped(b []byte, dt DType) []byte {
	size := dt.Size()
	if dt.IsComplex() {
		size /= 2
	}
	out := alignedBytes(len(b))
	for i := 0; i+size <= len(b); i += size {
		for k := range size {
			out[i+k] = b[i+size-1-k]
		}
	}
	return out
}

// WriteNPY writes a host tensor in version 1 of the format, little-endian and in C order. NumPy has no bfloat16, float8
// or packed types: those give ErrUnsupported, as do strings that end in NUL or are not UTF-8. Strings are written as
// UTF-32 of the longest one's length.
func WriteNPY(w io.Writer, t *Tensor) error {
	data, err := hostBytes(t)
	if err != nil {
		return err
	}
	if t.DType == String {
		return writeNPYStrings(w, t)
	}
	descr := npyDescr(t.DType)
	if descr == "" {
		return fmt.Errorf("%w: %v in npy", ErrUnsupported, t.DType)
	}
	if _, err := w.Write(npyHeaderBytes(descr, t.Shape)); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// maxNPYStrings bounds the bytes that strings, padded to the longest, may take in an npy file.
const maxNPYStrings = 1 << 31

func writeNPYStrings(w io.Writer, t *Tensor) error {
	if !t.IsCompact() {
		c, err := t.Clone()
		if err != nil {
			return err
		}
		t = c
	}
	elems := t.Strings[:t.Len()]
	width := 1
	for _, s := range elems {
		if !utf8.ValidString(s) || strings.HasSuffix(s, "\x00") {
			return fmt.Errorf("%w: string %.40q in npy", ErrUnsupported, s)
		}
		width = max(width, utf8.RuneCountInString(s))
	}
	if len(elems) > 0 && width > maxNPYStrings/4/len(elems) {
		return fmt.Errorf("%w: %d strings of %d characters in npy, limit %d bytes", ErrTooLarge, len(elems), width, maxNPYStrings)
	}
	if _, err := w.Write(npyHeaderBytes(fmt.Sprintf("<U%d", width), t.Shape)); err != nil {
		return err
	}
	buf := make([]byte, 4*width)
	for _, s := range elems {
		clear(buf)
		i := 0
		for _, r := range s {
			binary.LittleEndian.PutUint32(buf[i:], uint32(r))
			i += 4
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}
