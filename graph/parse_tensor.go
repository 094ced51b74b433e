package graph

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// tensor reads `f32[2]{1, 2}`. An elided one is asked of the caller under that name.
func (p *parser) tensor(name string) *tensor.Tensor {
	start := p.pos
	dt := p.dtype()
	s := p.shape()
	dims, ok := s.Static()
	if !ok || dt == tensor.Invalid {
		p.pos = start
		p.fail("data need an element type and a shape of numbers")
	}
	n, err := tensor.NumElements(dims)
	if err != nil {
		p.pos = start
		p.failWith(err)
	}
	p.expect("{")
	if p.space(); p.accept("...") {
		return p.elided(Elided{Name: name, DType: dt, Shape: dims}, start)
	}
	if n > len(p.text)-p.pos {
		p.pos = start
		p.fail("the text does not hold %d elements", n)
	}
	t, err := tensor.New(dt, dims...)
	if err != nil {
		p.pos = start
		p.failWith(err)
	}
	e := tensorText{parser: p, t: t}
	for i := range n {
		if i > 0 {
			p.space()
			p.expect(",")
		}
		p.space()
		e.element(i)
	}
	p.space()
	p.expect("}")
	e.store()
	return t
}

// elided reads ` 768 bytes #0123456789abcdef}`.
func (p *parser) elided(e Elided, start int) *tensor.Tensor {
	p.blank()
	e.Bytes = int(p.integer())
	p.blank()
	p.keyword("bytes")
	p.blank()
	p.expect("#")
	if word := p.ahead(); word != "" {
		sum, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			p.fail("bad checksum")
		}
		e.Checksum = sum
		p.pos += len(word)
	}
	p.expect("}")
	end := p.pos
	p.pos = start
	if p.data == nil {
		p.failWith(fmt.Errorf("%w: %q", ErrElided, capped(e.Name)))
	}
	t, err := p.data(e)
	if err == nil && t == nil {
		err = fmt.Errorf("%w: %q", ErrElided, capped(e.Name))
	}
	if err == nil {
		if rest := strings.TrimLeft(p.text[end:], " "); !strings.HasPrefix(rest, "@") { // else it is as large as its format wants
			err = t.Check()
		}
		if err == nil && (t.DType != e.DType || !sameDims(ShapeOf(t.Shape...), e.Shape)) {
			err = fmt.Errorf("%w: %v supplied for %v%v", ErrElided, t, e.DType, ShapeOf(e.Shape...))
		}
	}
	if err != nil {
		p.failWith(err)
	}
	p.pos = end
	return t
}

// tensorText fills a tensor. Elements of packed types are collected and written at the end.
type tensorText struct {
	parser *parser
	t      *tensor.Tensor
	floats []float64
	ints   []int64
}

func (e *tensorText) element(i int) {
	p, t := e.parser, e.t
	size := t.DType.Size()
	switch dt := t.DType; {
	case dt == tensor.String:
		t.Strings[i] = p.quoted()
	case dt == tensor.Bool:
		switch word := p.ahead(); word {
		case "true", "false":
			p.pos += len(word)
			if word == "true" {
				t.Data[i] = 1
			}
		default:
			p.fail("expected true or false")
		}
	case dt.IsComplex():
		p.expect("(")
		e.float(t.Data[i*size:], size/2)
		p.expect(",")
		p.blank()
		e.float(t.Data[i*size+size/2:], size/2)
		p.expect(")")
	case dt == tensor.Float32 || dt == tensor.Float64:
		e.float(t.Data[i*size:], size)
	case dt.IsFloat():
		e.small(i)
	default:
		e.integer(i)
	}
}

// float writes a number of size 4 or 8 to b.
func (e *tensorText) float(b []byte, size int) {
	p := e.parser
	start := p.pos
	s := p.number()
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		x, err := strconv.ParseUint(hex, 16, 8*size)
		if err != nil {
			p.pos = start
			p.fail("bad bits %q", capped(s))
		}
		if size == 4 {
			binary.LittleEndian.PutUint32(b, uint32(x))
		} else {
			binary.LittleEndian.PutUint64(b, x)
		}
		return
	}
	f, err := strconv.ParseFloat(s, 8*size)
	if err != nil || strings.ContainsAny(s, "_xX") {
		p.pos = start
		p.fail("bad number %q", capped(s))
	}
	if size == 4 {
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(f)))
	} else {
		binary.LittleEndian.PutUint64(b, math.Float64bits(f))
	}
}

// small reads an element of a type of 16 bits or fewer.
func (e *tensorText) small(i int) {
	p := e.parser
	start := p.pos
	s := p.number()
	if hex, ok := strings.CutPrefix(s, "0x"); ok && !e.t.DType.IsPacked() {
		x, err := strconv.ParseUint(hex, 16, e.t.DType.Bits())
		if err != nil {
			p.pos = start
			p.fail("bad bits %q", capped(s))
		}
		size := e.t.DType.Size()
		for k := range size {
			e.t.Data[i*size+k] = byte(x >> (8 * k))
		}
		return
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != f {
		p.pos = start
		p.fail("bad number %q", capped(s))
	}
	if e.t.DType.IsPacked() {
		e.floats = append(e.floats, f)
		return
	}
	one := tensor.Tensor{DType: e.t.DType, Shape: []int{1}, Data: e.t.Data[i*e.t.DType.Size() : (i+1)*e.t.DType.Size()]}
	if err := tensor.Encode(&one, []float64{f}); err != nil {
		p.pos = start
		p.failWith(err)
	}
}

func (e *tensorText) integer(i int) {
	p, dt := e.parser, e.t.DType
	start := p.pos
	var n int64
	var err error
	if dt.IsUnsigned() {
		var u uint64
		u, err = strconv.ParseUint(p.number(), 10, dt.Bits())
		n = int64(u)
	} else {
		n, err = strconv.ParseInt(p.number(), 10, dt.Bits())
	}
	if err != nil {
		p.pos = start
		p.fail("bad element of %v", dt)
	}
	if dt.IsPacked() {
		e.ints = append(e.ints, n)
		return
	}
	for k := range dt.Size() {
		e.t.Data[i*dt.Size()+k] = byte(n >> (8 * k))
	}
}

// store writes the elements of packed types.
func (e *tensorText) store() {
	var err error
	switch {
	case e.floats != nil:
		err = tensor.Encode(e.t, e.floats)
	case e.ints != nil:
		err = tensor.EncodeInts(e.t, e.ints)
	}
	if err != nil {
		e.parser.failWith(err)
	}
}
