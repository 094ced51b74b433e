package bundle

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Kinds of the sections that hold graphs and constants; others are from KindOther on.
const (
	KindGraph uint32 = iota + 1 // text of a graph, by number, whose constants are elided
	KindUses                    // by number of the graph: which constants its elided tensors are, in the order of the text
	KindTable                   // offset and bytes of each constant
	KindData                    // constants
	KindOther
)

// Constants are laid out like those that are packed when a model is compiled: apart by slack that kernels may read.
const (
	constAlign = 64
	constSlack = 64
)

func slot(n int64) int64 { return (n + constSlack + constAlign - 1) / constAlign * constAlign }

// Constants collects the constants of graphs on their way into a bundle: each once, however many graphs read it.
type Constants struct {
	at   map[*tensor.Tensor]uint32
	list []kept
	end  int64
}

type kept struct {
	t             *tensor.Tensor
	offset, bytes int64
	whole         bool // somebody reads all of it
}

// Add takes a constant, and returns its number. The error wraps tensor.ErrUnsupported for one whose bytes are not on the host.
func (c *Constants) Add(t *tensor.Tensor) (uint32, error) { return c.add(t, true) }

// add is Add of a constant that is read as a whole, or by rows.
func (c *Constants) add(t *tensor.Tensor, whole bool) (uint32, error) {
	if i, ok := c.at[t]; ok {
		c.list[i].whole = c.list[i].whole || whole
		return i, nil
	}
	k := kept{t: t, offset: c.end, whole: whole}
	switch {
	case t.DType == tensor.String:
		k.bytes = int64(len(stringBytes(t)))
	case !t.Device.IsHost() || t.Data == nil:
		return 0, fmt.Errorf("%w: the bytes of a constant %v lie on %v", tensor.ErrUnsupported, t, t.Device)
	case !t.IsCompact():
		k.bytes = int64(t.DType.Bytes(t.Len()))
	default:
		k.bytes = int64(len(t.Data) - t.Offset)
	}
	if c.at == nil {
		c.at = map[*tensor.Tensor]uint32{}
	}
	i := uint32(len(c.list))
	c.at[t], c.list = i, append(c.list, k)
	c.end += slot(k.bytes)
	return i, nil
}

// stringBytes writes strings with their lengths.
func stringBytes(t *tensor.Tensor) []byte {
	var b []byte
	for _, s := range t.Strings[:t.Len()] {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return b
}

// Graph returns the sections of a graph, which must not change until they are written.
func (c *Constants) Graph(number uint32, g *graph.Graph) ([]Part, error) {
	g, err := g.Clone()
	if err != nil {
		return nil, err
	}
	var uses []byte
	if err := c.strip(g, &uses); err != nil {
		return nil, err
	}
	return []Part{
		{ID{KindGraph, number}, func(w io.Writer) error { return graph.Print(w, g, nil) }},
		Bytes(ID{KindUses, number}, uses),
	}, nil
}

// Bytes is a section of some bytes.
func Bytes(id ID, b []byte) Part {
	return Part{id, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}}
}

// strip takes the data out of all constants, so that the text elides them, and lists them in the order of the text.
func (c *Constants) strip(g *graph.Graph, uses *[]byte) error {
	use := func(t *tensor.Tensor, whole bool) error {
		i, err := c.add(t, whole)
		*uses = binary.LittleEndian.AppendUint32(*uses, i)
		return err
	}
	for v := range g.Constants() {
		if !v.IsConst() || v.Const.Len() == 0 {
			continue
		}
		if err := use(v.Const, !rowwise(v)); err != nil {
			return fmt.Errorf("constant %v: %w", v, err)
		}
		v.Const = &tensor.Tensor{DType: v.Const.DType, Shape: v.Const.Shape, Device: v.Const.Device}
	}
	for n := range g.Nodes() {
		was := n.Attrs // shared with the original
		n.Attrs = slices.Clone(was)
		for i, a := range was {
			switch a.Kind {
			case graph.AttrTensor:
				a.Tensor = stripped(a.Tensor)
				if a.Tensor == was[i].Tensor {
					continue
				}
				if err := use(was[i].Tensor, true); err != nil {
					return fmt.Errorf("node %v: %w", n, err)
				}
			case graph.AttrTensors:
				list := append([]*tensor.Tensor(nil), a.Tensors...)
				for k, t := range list {
					if list[k] = stripped(t); list[k] == t {
						continue
					}
					if err := use(t, true); err != nil {
						return fmt.Errorf("node %v: %w", n, err)
					}
				}
				a.Tensors = list
			default:
				continue
			}
			n.Attrs[i] = a
		}
		for _, r := range n.Regions {
			if err := c.strip(r.Graph, uses); err != nil {
				return err
			}
		}
	}
	return nil
}

// stripped returns a tensor of an attribute without its data, the tensor itself where it has none.
func stripped(t *tensor.Tensor) *tensor.Tensor {
	if t == nil || t.Len() == 0 || t.Check() != nil {
		return t
	}
	return &tensor.Tensor{DType: t.DType, Shape: t.Shape}
}

// Parts returns the sections of the constants, which come behind those of all graphs.
func (c *Constants) Parts() []Part {
	table := make([]byte, 0, 16*len(c.list))
	for _, k := range c.list {
		table = binary.LittleEndian.AppendUint64(table, uint64(k.offset))
		table = binary.LittleEndian.AppendUint64(table, uint64(k.bytes))
	}
	return []Part{Bytes(ID{KindTable, 0}, table), {ID{KindData, 0}, c.write}}
}

func (c *Constants) write(w io.Writer) error {
	zero := make([]byte, constSlack+constAlign)
	for _, k := range c.list {
		b := k.t.Data
		switch {
		case k.t.DType == tensor.String:
			b = stringBytes(k.t)
		case !k.t.IsCompact():
			t, err := k.t.Clone()
			if err != nil {
				return err
			}
			b = t.Data
		default:
			b = b[k.t.Offset:]
		}
		for b = b[:k.bytes]; len(b) > 0; { // a table's pages are small ones in the page cache, too: see scatter
			n := len(b)
			if !k.whole && k.bytes >= manyBytes {
				n = min(n, smallPage)
			}
			if _, err := w.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
		if _, err := w.Write(zero[:slot(k.bytes)-k.bytes]); err != nil {
			return err
		}
	}
	return nil
}

// Pool hands out the constants of a bundle as views of its data. It is safe for concurrent use.
type Pool struct {
	f           *File
	table, data []byte
}

// Pool returns the constants. Their bytes are not read. The error is a *FormatError.
func (f *File) Pool() (*Pool, error) {
	table, err := f.Section(ID{KindTable, 0}, true)
	if err != nil {
		return nil, err
	}
	data, err := f.Section(ID{KindData, 0}, false)
	if err != nil {
		return nil, err
	}
	if len(table)%16 != 0 {
		return nil, fault(f.Offset(ID{KindTable, 0}), "entries of 16 bytes", "%d bytes", len(table))
	}
	return &Pool{f, table, data}, nil
}

// With returns the pool with a copy of the data in the place of the mapping's.
func (p *Pool) With(data []byte) *Pool { return &Pool{p.f, p.table, data} }

// Data returns what constants are views of.
func (p *Pool) Data() []byte { return p.data }

// Get returns a constant as bytes. The error is a *FormatError.
func (p *Pool) Get(i uint32) ([]byte, error) {
	off, n, err := p.place(i)
	if err != nil {
		return nil, err
	}
	return p.data[off : off+n : off+n], nil
}

// place returns where in the data a constant lies.
func (p *Pool) place(i uint32) (off, n uint64, err error) {
	at := int64(i) * 16
	where := p.f.Offset(ID{KindTable, 0}) + at
	if at >= int64(len(p.table)) {
		return 0, 0, fault(where, fmt.Sprintf("one of %d constants", len(p.table)/16), "number %d", i)
	}
	off, n = binary.LittleEndian.Uint64(p.table[at:]), binary.LittleEndian.Uint64(p.table[at+8:])
	size := uint64(len(p.data))
	if off%constAlign != 0 || off > size || n > size-off || size-off-n < constSlack {
		return 0, 0, fault(where, fmt.Sprintf("a constant in %d bytes of data", size), "%d bytes at %d", n, off)
	}
	return off, n, nil
}

// manyBytes is the size from which it matters how a table lies in memory: two large pages.
const manyBytes = 4 << 20

// smallPage is what a table is written by, so that a row needs little more than itself.
const smallPage = 4096

// scatter tells the system which constants of a graph, by their numbers, are tables of which runs read rows.
func (p *Pool) scatter(g *graph.Graph, numbers map[*tensor.Tensor]uint32) {
	data := p.f.Offset(ID{KindData, 0})
	for v := range g.Constants() {
		i, known := numbers[v.Const]
		if !known || len(v.Const.Data) < manyBytes || !rowwise(v) || p.f.mapping == nil {
			continue
		}
		if off, n, err := p.place(i); err == nil {
			p.f.mapping.Scattered(data+int64(off), int64(n))
		}
	}
	for n := range g.Nodes() {
		for _, r := range n.Regions {
			p.scatter(r.Graph, numbers)
		}
	}
}

// rowwise reports whether all that reads a value picks some of its elements.
func rowwise(v *graph.Value) bool {
	for _, u := range v.Uses() {
		if u.Slot != 0 || !u.Node.Is("Gather", "GatherND", "GatherElements") {
			return false
		}
	}
	return v.NumUses() > 0 && !v.IsOutput()
}

// ReadGraph reads a graph, whose constants are views of the pool's data. It is neither verified nor typed anew, and constants in the host's
// format have at least the bytes of their elements: what other formats need nobody has looked at. The error is a *FormatError.
func ReadGraph(f *File, number uint32, p *Pool) (*graph.Graph, error) {
	text, err := f.Section(ID{KindGraph, number}, true)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return nil, fault(0, fmt.Sprintf("a section with graph %d", number), "none")
	}
	uses, err := f.Section(ID{KindUses, number}, true)
	if err != nil {
		return nil, err
	}
	next, same, numbers := uses, map[uint32]*tensor.Tensor{}, map[*tensor.Tensor]uint32{}
	g, err := graph.ParseElided(string(text), func(e graph.Elided) (*tensor.Tensor, error) {
		if len(next) < 4 {
			return nil, fault(f.Offset(ID{KindUses, number}), "a number for every constant of the text", "%d bytes", len(uses))
		}
		i := binary.LittleEndian.Uint32(next)
		next = next[4:]
		b, err := p.Get(i)
		if err != nil {
			return nil, err
		}
		if t := same[i]; t != nil && t.DType == e.DType && slices.Equal(t.Shape, e.Shape) {
			return t, nil
		}
		t := &tensor.Tensor{DType: e.DType, Shape: e.Shape, Data: b}
		if e.DType == tensor.String {
			t.Data = nil
			t.Strings, err = readStrings(b)
		}
		same[i], numbers[t] = t, i
		return t, err
	})
	if err != nil {
		return nil, fault(f.Offset(ID{KindGraph, number}), "the text of a graph", "%v", err)
	}
	if len(next) > 0 {
		return nil, fault(f.Offset(ID{KindUses, number}), "as many numbers as the text has constants", "%d bytes more", len(next))
	}
	p.scatter(g, numbers)
	return g, nil
}

func readStrings(b []byte) (out []string, err error) {
	for len(b) > 0 {
		if len(b) < 4 {
			return nil, fmt.Errorf("%w: %d bytes of a string", io.ErrUnexpectedEOF, len(b))
		}
		n := uint64(binary.LittleEndian.Uint32(b))
		if b = b[4:]; n > uint64(len(b)) {
			return nil, fmt.Errorf("%w: a string of %d bytes in %d", io.ErrUnexpectedEOF, n, len(b))
		}
		out, b = append(out, string(b[:n])), b[n:]
	}
	return out, nil
}
