package rest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// maxDepth bounds how deep data may be nested.
const maxDepth = 64

// parseData reads an input's data: an array of n elements in row-major order, flat or nested. The text is JSON that
// encoding/json has looked at. Where it is nested as deeply as the shape has dims, it must have the shape's sizes.
func parseData(name string, dt tensor.DType, shape []int, n int, text string) (*tensor.Tensor, error) {
	if dt == tensor.Float16 || dt == tensor.BFloat16 {
		return nil, oip.Errorf(oip.InvalidArgument, "input '%s': floats of 16 bits have no form in JSON, use binary data", name)
	}
	t, err := oip.NewTensor(dt, shape, n)
	if err != nil {
		return nil, err
	}
	if dt == tensor.String {
		t.Strings = make([]string, n)
	}
	p := &dataParser{name: name, text: text, t: t, n: n}
	if err := p.array(0); err != nil {
		return nil, err
	}
	if p.i != n {
		return nil, p.errorf("has %d elements, its shape %v %d", p.i, shape, n)
	}
	if len(p.sizes) > 1 && len(p.sizes) == len(shape) && !slices.Equal(p.sizes, shape) {
		return nil, p.errorf("is nested as %v, its shape is %v", p.sizes, shape)
	}
	return t, nil
}

// dataParser reads nested arrays of elements into a tensor.
type dataParser struct {
	name  string
	text  string
	at    int
	t     *tensor.Tensor
	i, n  int   // elements read, and wanted
	sizes []int // of the arrays at each depth
	leaf  int   // the depth of elements
}

func (p *dataParser) errorf(format string, args ...any) error {
	return oip.Errorf(oip.InvalidArgument, "input '%.200s' "+format, append([]any{p.name}, args...)...)
}

// space skips white space and returns the next byte, 0 at the end.
func (p *dataParser) space() byte {
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// array reads an array at a depth.
func (p *dataParser) array(depth int) error {
	if p.space() != '[' {
		return p.errorf("has data that are no array")
	}
	if depth == maxDepth {
		return p.errorf("is nested deeper than %d arrays", maxDepth)
	}
	p.at++
	size := 0
	if p.space() == ']' {
		p.at++
		return p.sized(depth, 0)
	}
	for {
		if err := p.member(depth); err != nil {
			return err
		}
		size++
		c := p.space()
		p.at++
		if c == ']' {
			return p.sized(depth, size)
		}
		if c != ',' {
			return p.errorf("has data that are no JSON at byte %d", p.at-1)
		}
	}
}

// member reads an array or an element.
func (p *dataParser) member(depth int) error {
	if p.space() == '[' {
		if p.leaf == depth+1 {
			return p.errorf("has arrays beside elements")
		}
		return p.array(depth + 1)
	}
	if p.leaf != 0 && p.leaf != depth+1 || len(p.sizes) > depth+1 {
		return p.errorf("has elements at several depths")
	}
	p.leaf = depth + 1
	if p.i == p.n {
		return p.errorf("has more than the %d elements of its shape %v", p.n, p.t.Shape)
	}
	if err := p.element(); err != nil {
		return err
	}
	p.i++
	return nil
}

// sized notes the size of an array, which all at that depth must have.
func (p *dataParser) sized(depth, size int) error {
	for len(p.sizes) <= depth {
		p.sizes = append(p.sizes, -1)
	}
	if p.sizes[depth] >= 0 && p.sizes[depth] != size {
		return p.errorf("is nested unevenly: arrays of %d and of %d", p.sizes[depth], size)
	}
	p.sizes[depth] = size
	return nil
}

// token returns a number or a word.
func (p *dataParser) token() string {
	begin := p.at
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case ',', ']', ' ', '\t', '\n', '\r':
			return p.text[begin:p.at]
		}
	}
	return p.text[begin:]
}

// element reads one element.
func (p *dataParser) element() error {
	switch dt := p.t.DType; {
	case dt == tensor.String:
		return p.str()
	case dt == tensor.Bool:
		return p.boolean()
	case dt.IsFloat():
		word := p.token()
		f, err := strconv.ParseFloat(word, dt.Bits())
		if err != nil {
			return p.wrong(word, err)
		}
		if dt == tensor.Float32 {
			binary.LittleEndian.PutUint32(p.t.Data[4*p.i:], math.Float32bits(float32(f)))
		} else {
			binary.LittleEndian.PutUint64(p.t.Data[8*p.i:], math.Float64bits(f))
		}
		return nil
	case dt.IsUnsigned():
		word := p.token()
		u, err := strconv.ParseUint(word, 10, dt.Bits())
		if err != nil {
			return p.wrong(word, err)
		}
		p.put(u)
		return nil
	}
	word := p.token()
	n, err := strconv.ParseInt(word, 10, p.t.DType.Bits())
	if err != nil {
		return p.wrong(word, err)
	}
	p.put(uint64(n))
	return nil
}

func (p *dataParser) wrong(word string, err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return p.errorf("has element %.40s, which %v cannot hold", word, p.t.DType.Name())
	}
	return p.errorf("has element %.40s, which is no %v", word, p.t.DType.Name())
}

// put stores an integer's lower bytes.
func (p *dataParser) put(u uint64) {
	size := p.t.DType.Size()
	for k := range size {
		p.t.Data[p.i*size+k] = byte(u >> (8 * k))
	}
}

func (p *dataParser) boolean() error {
	switch word := p.token(); word {
	case "true", "1":
		p.t.Data[p.i] = 1
	case "false", "0":
		p.t.Data[p.i] = 0
	default:
		return p.wrong(word, nil)
	}
	return nil
}

// str reads a string.
func (p *dataParser) str() error {
	begin := p.at
	if p.text[p.at] != '"' {
		return p.wrong(p.token(), nil)
	}
	for p.at++; p.at < len(p.text) && p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			p.at++
		}
	}
	p.at = min(p.at+1, len(p.text))
	if err := json.Unmarshal([]byte(p.text[begin:p.at]), &p.t.Strings[p.i]); err != nil {
		return p.errorf("has data that are no JSON at byte %d", begin)
	}
	return nil
}
