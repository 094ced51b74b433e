package mxnet

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanner reads JSON piece by piece, so that what a file makes of memory is bounded by its size, and every fault has an
// offset. Strings without escapes share the file's memory.
type scanner struct {
	s string
	i int
}

func (r *scanner) fault(format string, args ...any) error {
	return &Error{Op: "load", Offset: int64(r.i), Err: fmt.Errorf("%w: "+format, append([]any{ErrSyntax}, args...)...)}
}

func (r *scanner) space() {
	for r.i < len(r.s) {
		switch r.s[r.i] {
		case ' ', '\t', '\r', '\n':
			r.i++
		default:
			return
		}
	}
}

// next returns the next byte that is no space, 0 at the end.
func (r *scanner) next() byte {
	r.space()
	if r.i < len(r.s) {
		return r.s[r.i]
	}
	return 0
}

func (r *scanner) expect(c byte) error {
	if got := r.next(); got != c {
		if got == 0 {
			return &Error{Op: "load", Offset: int64(r.i), Err: fmt.Errorf("%w: %q is expected", ErrTruncated, c)}
		}
		return r.fault("%q is expected, found %q", c, got)
	}
	r.i++
	return nil
}

// str reads a string.
func (r *scanner) str() (string, error) {
	if err := r.expect('"'); err != nil {
		return "", err
	}
	start := r.i
	for ; r.i < len(r.s); r.i++ {
		switch c := r.s[r.i]; {
		case c == '"':
			out := r.s[start:r.i]
			r.i++
			return out, nil
		case c == '\\':
			return r.escaped(start)
		}
	}
	return "", &Error{Op: "load", Offset: int64(start), Err: fmt.Errorf("%w: a string without an end", ErrTruncated)}
}

// escaped reads a string on from its first escape.
func (r *scanner) escaped(start int) (string, error) {
	var b strings.Builder
	b.WriteString(r.s[start:r.i])
	for r.i < len(r.s) {
		c := r.s[r.i]
		r.i++
		switch c {
		case '"':
			return b.String(), nil
		case '\\':
			if err := r.escape(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", &Error{Op: "load", Offset: int64(start), Err: fmt.Errorf("%w: a string without an end", ErrTruncated)}
}

func (r *scanner) escape(b *strings.Builder) error {
	if r.i >= len(r.s) {
		return r.fault("a backslash at the end")
	}
	c := r.s[r.i]
	r.i++
	switch c {
	case 'n':
		b.WriteByte('\n')
	case 'r':
		b.WriteByte('\r')
	case 't':
		b.WriteByte('\t')
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case '"', '\\', '/':
		b.WriteByte(c)
	case 'u':
		if r.i+4 > len(r.s) {
			return r.fault("a short escape")
		}
		n, err := strconv.ParseUint(r.s[r.i:r.i+4], 16, 32)
		if err != nil {
			return r.fault("escape %q", r.s[r.i:r.i+4])
		}
		r.i += 4
		b.WriteRune(rune(n)) // halves of pairs become the replacement rune: MXNet writes none
	default:
		return r.fault("escape %q", c)
	}
	return nil
}

// integer reads a whole number of 32 bits.
func (r *scanner) integer() (int, error) {
	r.space()
	start := r.i
	for r.i < len(r.s) && (r.s[r.i] == '-' || r.s[r.i] >= '0' && r.s[r.i] <= '9') {
		r.i++
	}
	n, err := strconv.ParseInt(r.s[start:r.i], 10, 32)
	if err != nil {
		r.i = start
		return 0, r.fault("a whole number is expected")
	}
	return int(n), nil
}

// object calls f for each key, behind its colon.
func (r *scanner) object(f func(key string) error) error {
	if err := r.expect('{'); err != nil {
		return err
	}
	if r.next() == '}' {
		r.i++
		return nil
	}
	for {
		r.space()
		at := r.i
		key, err := r.str()
		if err != nil {
			return err
		}
		if !utf8.ValidString(key) {
			r.i = at
			return r.fault("a key that is no text")
		}
		if err := r.expect(':'); err != nil {
			return err
		}
		if err := f(key); err != nil {
			return err
		}
		if r.next() == ',' {
			r.i++
			continue
		}
		return r.expect('}')
	}
}

// array calls f for each element.
func (r *scanner) array(f func() error) error {
	if err := r.expect('['); err != nil {
		return err
	}
	if r.next() == ']' {
		r.i++
		return nil
	}
	for {
		if err := f(); err != nil {
			return err
		}
		if r.next() == ',' {
			r.i++
			continue
		}
		return r.expect(']')
	}
}

// integers reads a list of whole numbers.
func (r *scanner) integers() (out []int, err error) {
	err = r.array(func() error {
		n, err := r.integer()
		out = append(out, n)
		return err
	})
	return out, err
}
