package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// Layout says in which order the elements of a tensor lie in its storage: an order of the dims, some of them split into
// blocks. It is data and comparable, so it serves as a map key. The zero Layout is row-major for any rank.
//
// A described layout is written as a tag: one letter per dim from outermost to innermost, "a" being dim 0; an upper-case
// letter says that the dim is split, and its blocks follow as size and letter. "aBcd16b" is NCHW16c, "acdb" is NHWC,
// "ABcd16b16a" the weights OIHW16i16o, "Ba16b" panels of 16 columns of a matrix. Split dims are padded to a multiple of
// their blocks, and the padding is zero.
//
// What cannot be described so is opaque: (backend, version, key). Only its owner's converters know its size and content.
type Layout struct {
	tag    string // "" for row-major
	opaque bool
}

// RowMajor is the layout of the host format: the dims in order, compact. It is the zero Layout.
var RowMajor = Layout{}

// Layouts of the embedded CPU backend and of common rivals.
var (
	NCHW16c = mustLayout("aBcd16b")
	NCHW8c  = mustLayout("aBcd8b")
	NHWC    = mustLayout("acdb")
)

// ErrOpaque is returned by PhysicalSize for opaque layouts: the owner's converter has to be asked.
var ErrOpaque = errors.New("opaque layout")

// ErrLayout is wrapped by errors about tags that describe no layout, or not one for the rank.
var ErrLayout = errors.New("bad layout")

// maxLayoutRank bounds described layouts: dims are named a to h.
const maxLayoutRank = 8

// OpaqueLayout returns the layout of a backend that cannot be described. All three strings must be non-empty and free of
// "@", ":" and spaces.
func OpaqueLayout(backend, version, key string) (Layout, error) {
	for _, s := range []string{backend, version, key} {
		if s == "" || strings.ContainsAny(s, "@: \t\n\"") {
			return Layout{}, fmt.Errorf("%w: opaque part %.80q", ErrLayout, s)
		}
	}
	return Layout{tag: backend + "@" + version + ":" + key, opaque: true}, nil
}

func mustLayout(tag string) Layout {
	l, err := ParseLayout(tag)
	if err != nil {
		panic(err)
	}
	return l
}

// ParseLayout returns the layout of a tag ("aBcd16b"), of a common name ("NCHW16c", "NHWC", "row-major", …) or of the
// String of an opaque layout. A tag in row-major order without blocks is the zero Layout.
func ParseLayout(s string) (Layout, error) {
	if s == "" || s == "row-major" {
		return RowMajor, nil
	}
	if i := strings.IndexByte(s, '@'); i > 0 {
		j := strings.IndexByte(s[i:], ':')
		if j < 0 {
			return Layout{}, fmt.Errorf("%w: %.80q", ErrLayout, s)
		}
		return OpaqueLayout(s[:i], s[i+1:i+j], s[i+j+1:])
	}
	tag := s
	if t, ok := tagOfName(s); ok {
		tag = t
	}
	var p parsedTag
	if err := p.read(tag); err != nil {
		return Layout{}, err
	}
	plain := p.splits == 0
	for i, d := range p.order[:p.rank] {
		plain = plain && i == d
	}
	if plain {
		return RowMajor, nil
	}
	return Layout{tag: tag}, nil
}

// tagOfName translates names of activation layouts, such as NCHW16c or NDHWC, to tags.
func tagOfName(s string) (string, bool) {
	i := strings.IndexAny(s, "0123456789")
	head, tail := s, ""
	if i >= 0 {
		head, tail = s[:i], s[i:]
		if !strings.HasSuffix(tail, "c") {
			return "", false
		}
	}
	base := map[string]string{"NCW": "abc", "NWC": "acb", "NCHW": "abcd", "NHWC": "acdb", "NCDHW": "abcde", "NDHWC": "acdeb"}[head]
	if base == "" {
		return "", false
	}
	if tail != "" {
		base = strings.Replace(base, "b", "B", 1) + strings.TrimSuffix(tail, "c") + "b"
	}
	return base, true
}

// block is one split of a dim: the innermost dims of the physical tensor, in order.
type block struct{ dim, size int }

// parsedTag is what a tag says. It is a value of fixed size, so that a tag is read without allocating.
type parsedTag struct {
	order  [maxLayoutRank]int // dim at each outer position, of which there are rank
	blocks [maxBlocks]block   // of which there are splits
	rank   int
	splits int
}

// Bounds of the blocks of a layout: their number, and their sizes.
const (
	maxBlocks = 4
	maxBlock  = 1 << 16
)

// read reads a tag into p, which is empty.
func (p *parsedTag) read(tag string) error {
	seen, upper := 0, 0
	i := 0
	for ; i < len(tag) && !(tag[i] >= '0' && tag[i] <= '9'); i++ {
		c := tag[i]
		d := int(c - 'a')
		if c >= 'A' && c <= 'Z' {
			d = int(c - 'A')
			upper |= 1 << d
		}
		if d < 0 || d >= maxLayoutRank || seen&(1<<d) != 0 {
			return badTag(tag, "dims must be distinct letters a to h")
		}
		seen |= 1 << d
		p.order[p.rank] = d
		p.rank++
	}
	if p.rank == 0 || seen != 1<<p.rank-1 {
		return badTag(tag, "dims must be a, b, c … without a gap")
	}
	split := 0
	for i < len(tag) {
		n, first := 0, i
		for ; i < len(tag) && tag[i] >= '0' && tag[i] <= '9' && n <= maxBlock; i++ {
			n = 10*n + int(tag[i]-'0')
		}
		if n < 2 || n > maxBlock || i == len(tag) || tag[first] == '0' {
			return badTag(tag, "a block is a size of 2 to 65536 and a letter")
		}
		d := int(tag[i] - 'a')
		if d < 0 || d >= p.rank {
			return badTag(tag, "block of an unknown dim")
		}
		split |= 1 << d
		if p.splits == maxBlocks {
			return badTag(tag, "more than 4 blocks")
		}
		p.blocks[p.splits] = block{d, n}
		p.splits++
		i++
	}
	if split != upper {
		return badTag(tag, "upper-case dims must be the split ones")
	}
	return nil
}

func badTag(tag, why string) error { return fmt.Errorf("%w: %.80q: %s", ErrLayout, tag, why) }

// IsRowMajor reports whether l is the host format's layout.
func (l Layout) IsRowMajor() bool { return l == RowMajor }

// IsOpaque reports whether only the owning backend knows the layout.
func (l Layout) IsOpaque() bool { return l.opaque }

// Owner returns the backend of an opaque layout, "" for others.
func (l Layout) Owner() string {
	if !l.opaque {
		return ""
	}
	return l.tag[:strings.IndexByte(l.tag, '@')]
}

// String returns the tag, "row-major", or "backend@version:key"; ParseLayout reads it back.
func (l Layout) String() string {
	if l.tag == "" {
		return "row-major"
	}
	return l.tag
}

// Name returns the common name for a tensor of that rank: "NCHW16c", "NHWC", "NCHW" for row-major activations of
// rank 3 to 5, otherwise String.
func (l Layout) Name(rank int) string {
	names := map[int][2]string{3: {"NCW", "NWC"}, 4: {"NCHW", "NHWC"}, 5: {"NCDHW", "NDHWC"}}[rank]
	if names[0] == "" || l.opaque {
		return l.String()
	}
	if l.tag == "" {
		return names[0]
	}
	for _, n := range names {
		if t, _ := tagOfName(n); t == l.tag {
			return n
		}
	}
	var p parsedTag
	if err := p.read(l.tag); err != nil {
		return l.tag
	}
	if p.rank == rank && p.splits == 1 && p.blocks[0].dim == 1 {
		n := fmt.Sprintf("%s%dc", names[0], p.blocks[0].size)
		if t, _ := tagOfName(n); t == l.tag {
			return n
		}
	}
	return l.tag
}

// Dims describes a layout's storage of a tensor: physical dims from outermost to innermost.
type Dims struct {
	Order  []int // dim at each outer position
	Blocks []Block
}

// Block is a split of dim Dim into blocks of Size elements.
type Block struct{ Dim, Size int }

// Describe returns the structure of a described layout for a tensor of that rank. The error wraps ErrOpaque, or
// ErrLayout where the layout is one for another rank.
func (l Layout) Describe(rank int) (Dims, error) {
	var d Dims
	if l == RowMajor {
		for i := range rank {
			d.Order = append(d.Order, i)
		}
		return d, nil
	}
	var p parsedTag
	if err := l.parse(&p, rank); err != nil {
		return Dims{}, err
	}
	d.Order = slices.Clone(p.order[:rank])
	for _, b := range p.blocks[:p.splits] {
		d.Blocks = append(d.Blocks, Block{b.dim, b.size})
	}
	return d, nil
}

// IsBlocked reports whether a described layout splits dims into blocks.
func (l Layout) IsBlocked() bool { return !l.opaque && strings.ContainsAny(l.tag, "0123456789") }

// parse reads the tag of a layout that is not row-major, for a tensor of that rank.
func (l Layout) parse(p *parsedTag, rank int) error {
	if l.opaque {
		return fmt.Errorf("%w: %v", ErrOpaque, l)
	}
	if err := p.read(l.tag); err != nil {
		return err
	}
	if p.rank != rank {
		return fmt.Errorf("%w: %v for rank %d", ErrLayout, l, rank)
	}
	return nil
}

// PhysicalElements returns the number of elements, padding included, of a tensor stored in layout l. It allocates nothing
// but errors.
func (l Layout) PhysicalElements(dims []int) (int, error) {
	if l == RowMajor {
		return tensor.NumElements(dims)
	}
	var p parsedTag
	if err := l.parse(&p, len(dims)); err != nil {
		return 0, err
	}
	var mult, padded [maxLayoutRank]int
	for _, b := range p.blocks[:p.splits] {
		mult[b.dim] = max(mult[b.dim], 1) * b.size
	}
	for i, n := range dims {
		if m := mult[i]; m > 0 {
			n = (n + m - 1) / m * m
		}
		padded[i] = n
	}
	return tensor.NumElements(padded[:len(dims)])
}

// Format is where and how a value is stored: a device and a layout. It is comparable. The zero Format is row-major on the
// host, the "MXNet" format of the proposals.
type Format struct {
	Device tensor.DeviceID
	Layout Layout
}

// HostFormat is the zero Format: row-major on the host.
var HostFormat = Format{}

// On returns the format of a layout on the host.
func On(l Layout) Format { return Format{Layout: l} }

// String returns "host:row-major", "cuda:0:aBcd16b", …
func (f Format) String() string { return f.Device.String() + ":" + f.Layout.String() }

// Name is String with the common name of the layout for a tensor of that rank, such as "host:NCHW16c".
func (f Format) Name(rank int) string { return f.Device.String() + ":" + f.Layout.Name(rank) }

// PhysicalSize returns the bytes that a tensor of concrete dims occupies in format f, padding included. The error wraps
// ErrOpaque, ErrLayout or tensor.ErrTooLarge.
func PhysicalSize(f Format, dt tensor.DType, dims []int) (int64, error) {
	n, err := f.Layout.PhysicalElements(dims)
	if err != nil {
		return 0, err
	}
	b := dt.Bytes(n)
	if b < 0 {
		return 0, fmt.Errorf("%w: %v %v takes %d elements in %v", tensor.ErrTooLarge, dt, dims, n, f)
	}
	return int64(b), nil
}
