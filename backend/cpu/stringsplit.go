package cpu

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
)

// StringSplit finds separators in eight bytes at a time: a first pass counts parts, which tells how wide rows are, and a second one writes them.

// splitter splits strings at a delimiter of one byte, at a longer one, or at runs of white space.
type splitter struct {
	delimiter string // "" for white space
	one       uint64 // a delimiter of one byte, eight times
	limit     int    // of splits, negative for none
}

const (
	mostParts = 1 << 28            // of a result, with those that are empty
	everyByte = 0x0101010101010101 // the least bit of each byte
	highBits  = 0x80 * everyByte
)

// separators returns the high bits of the bytes that are separators.
func (p *splitter) separators(x uint64) uint64 {
	if p.delimiter != "" {
		x ^= p.one
		return ^((x&^highBits + 0x7f*everyByte) | x) & highBits
	}
	low := x &^ highBits // sums of the lower seven bits carry into the eighth
	controls := (low + (0x80-'\t')*everyByte) &^ (low + (0x80-'\r'-1)*everyByte)
	blanks := ^((low ^ ' '*everyByte) + 0x7f*everyByte)
	return (controls | blanks) &^ x & highBits
}

// marks returns the high bits of the separators among the eight bytes of s from i on. What lies behind its end counts as such where that ends words.
func (p *splitter) marks(s string, i int) uint64 {
	rest := len(s) - i
	if rest >= 8 {
		return p.separators(load64(s[i:]))
	}
	inside := uint64(1)<<(8*rest) - 1
	found := p.separators(loadRest(s, i)) & inside
	if p.delimiter == "" {
		found |= highBits &^ inside
	}
	return found
}

func load64(s string) uint64 {
	return binary.LittleEndian.Uint64([]byte(s[:8]))
}

// loadRest returns the bytes of s from i on, which are less than eight.
func loadRest(s string, i int) uint64 {
	n := len(s)
	switch {
	case n >= 8:
		return load64(s[n-8:]) >> (8 * (8 - (n - i)))
	case n >= 4: // with bytes in the middle twice, which are the same
		last := binary.LittleEndian.Uint32([]byte(s[n-4:]))
		return uint64(binary.LittleEndian.Uint32([]byte(s[:4]))) | uint64(last)<<(8*(n-4))
	}
	return uint64(s[0]) | uint64(s[n/2])<<(8*(n/2)) | uint64(s[n-1])<<(8*(n-1))
}

// count returns how many parts a string has.
func (p *splitter) count(s string) int {
	n := 0
	switch {
	case len(p.delimiter) > 1:
		n = strings.Count(s, p.delimiter) + 1
	case p.delimiter != "":
		n = 1
		for i := 0; i < len(s); i += 8 {
			n += bits.OnesCount64(p.marks(s, i))
		}
	default:
		before := uint64(0x80) // the eighth bit of the byte before
		for i := 0; i < len(s); i += 8 {
			m := p.marks(s, i)
			n += bits.OnesCount64(^m & (m<<8 | before) & highBits)
			before = m >> 56
		}
	}
	if p.limit >= 0 {
		n = min(n, p.limit+1)
	}
	return n
}

// split writes the parts of a string, of which there are as many as count says. The last keeps what follows, but white space at the end.
func (p *splitter) split(parts []string, s string) {
	switch {
	case len(parts) == 0:
	case p.delimiter != "" && len(parts) == 1:
		parts[0] = s
	case len(p.delimiter) > 1:
		last := len(parts) - 1
		for k := range last {
			at := strings.Index(s, p.delimiter)
			parts[k], s = s[:at], s[at+len(p.delimiter):]
		}
		parts[last] = s
	case p.delimiter != "":
		p.splitBytes(parts, s)
	default:
		p.splitWords(parts, s)
	}
}

func (p *splitter) splitBytes(parts []string, s string) {
	from, last := 0, len(parts)-1
	for i, k := 0, 0; k < last; i += 8 {
		for m := p.marks(s, i); m != 0 && k < last; m &= m - 1 {
			at := i + bits.TrailingZeros64(m)/8
			parts[k] = s[from:at]
			from, k = at+1, k+1
		}
	}
	parts[last] = s[from:]
}

func (p *splitter) splitWords(parts []string, s string) {
	from, k, last := -1, 0, len(parts)-1 // from is where a word began, -1 between words
	before := uint64(0x80)
	for i := 0; i < len(s); i += 8 {
		m := p.marks(s, i)
		for edges := m ^ (m<<8 | before); edges != 0; edges &= edges - 1 {
			at := i + bits.TrailingZeros64(edges)/8
			if from < 0 {
				if from = at; k == last {
					parts[last] = strings.TrimRight(s[from:], " \t\n\v\f\r")
					return
				}
				continue
			}
			parts[k] = s[from:at]
			from, k = -1, k+1
		}
		before = m >> 56
	}
}

func splitStrings(c *choice) error {
	x, n := c.x[0], c.in.n
	p := splitter{delimiter: n.Str("delimiter", ""), limit: -1}
	if len(p.delimiter) == 1 {
		p.one = uint64(p.delimiter[0]) * everyByte
	}
	if v := n.Int("maxsplit", -1); v >= 0 && v < 1<<30 {
		p.limit = int(v)
	}
	if err := c.reserve(8 * len(x.Strings)); err != nil {
		return err
	}
	c.at = slices.Grow(c.at[:0], len(x.Strings))[:len(x.Strings)]
	widest := 0
	for i, s := range x.Strings {
		c.at[i] = p.count(s)
		widest = max(widest, c.at[i])
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	shape := append(slices.Clone(x.Shape), widest)
	if widest > 0 && len(x.Strings) > mostParts/widest {
		return fmt.Errorf("%v: %w: %d strings of %d parts", n, tensor.ErrTooLarge, len(x.Strings), widest)
	}
	y, err := c.texts(0, shape)
	if err != nil {
		return err
	}
	if len(y) > 0 {
		for i, s := range x.Strings {
			row := y[i*widest:][:widest]
			p.split(row[:c.at[i]], s)
			clear(row[c.at[i]:])
		}
	}
	z, err := c.result(1, tensor.Int64, x.Shape)
	if err == nil && len(z) > 0 {
		for i, k := range c.at {
			place.Elements[int64](z)[i] = int64(k)
		}
	}
	return err
}

func init() { textTable.Register("StringSplit", operator{Signatures: choosingSignatures}) }
