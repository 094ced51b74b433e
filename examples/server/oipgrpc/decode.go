package oipgrpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/serve"
	"github.com/carve-dev/carve/graph/tensor"
)

// errWire is wrapped by errors about messages that are no protobuf.
var errWire = errors.New("malformed message")

// call is a ModelInferRequest.
type call struct {
	oip.Request
	inputs []input
	raw    []*tensor.Tensor // bytes of inputs, in their order
	fault  error            // of what the message says, rather than how
	room   []byte           // to read fields in
	own    bool             // the field that is read lies in memory of its own
	last   string           // the model of the call before
	a      *serve.Admission // its place in the server
}

// admit implements admitted.
func (c *call) admit(a *serve.Admission) { c.a = a }

// calls keeps calls and the memory of their lists.
var calls = sync.Pool{New: func() any { return &call{} }}

// free keeps a call whose answer has been encoded. Nothing may use it any more.
func (c *call) free() {
	for i := range c.inputs {
		c.inputs[i].forget()
	}
	c.recycle()
	clear(c.Inputs)
	*c = call{inputs: c.inputs[:0], raw: c.raw[:0], room: c.room, last: kept(c.last), Request: oip.Request{Inputs: c.Inputs[:0]}}
	if cap(c.room) <= maxKept && cap(c.inputs) <= maxKept {
		calls.Put(c)
	}
}

// maxKept bounds what a call keeps: bytes, and inputs.
const maxKept = 1 << 10

// input is an input of a call as the wire has it.
type input struct {
	name, datatype string
	shape          []int64
	contents       []byte // an InferTensorContents
	typed          bool   // it has contents
}

// forget keeps what may be used for the input in the same place of another call.
func (in *input) forget() {
	*in = input{name: kept(in.name), datatype: kept(in.datatype), shape: in.shape}
	if cap(in.shape) > maxDims {
		in.shape = nil
	}
}

// Bounds of what is kept of an input: a name's bytes, and dims.
const (
	maxName = 64
	maxDims = 8
)

// kept returns a name that is short enough to be kept.
func kept(name string) string {
	if len(name) > maxName {
		return ""
	}
	return name
}

// text returns a string of a message, which is in UTF-8: the one before where it is the same, as clients ask for the same model over and over.
func (c *call) text(what, before string, b []byte) string {
	if string(b) == before {
		return before
	}
	if !utf8.Valid(b) {
		c.fault = oip.Errorf(oip.InvalidArgument, "%s is no UTF-8", what)
		return ""
	}
	return string(b)
}

// read reads a message. Tensors are copied once, out of the network's buffers.
func (c *call) read(m *message) error {
	if m.rest() <= minPart && m.left > 0 {
		if err := m.part(); err != nil {
			return err
		}
	}
	if len(m.have) == 1 && m.left == 0 { // as small messages have come
		return fields(m.have[0].ReadOnlyData(), c.whole)
	}
	for m.rest() > 0 {
		number, kind, err := m.tag()
		if err != nil {
			return err
		}
		if kind != protowire.BytesType {
			if err := m.pass(number, kind); err != nil {
				return err
			}
			continue
		}
		n, err := m.length()
		if err != nil {
			return err
		}
		if err := c.part(m, number, n); err != nil {
			return err
		}
	}
	return nil
}

// part takes a field of n bytes of a message that lies in several buffers, or is on the way.
func (c *call) part(m *message, number protowire.Number, n int) error {
	if number > 7 {
		return m.discard(n)
	}
	if err := m.believe(n); err != nil {
		return err
	}
	if number == 7 {
		t, err := c.contents(n)
		if err != nil {
			return err
		}
		if t == nil {
			return m.discard(n)
		}
		return m.fill(t.Data)
	}
	if n > maxKept { // an input with contents, which stay where they are
		b := make([]byte, n)
		if err := m.fill(b); err != nil {
			return err
		}
		c.own = true
		defer func() { c.own = false }()
		return c.field(number, b)
	}
	if n > cap(c.room) {
		c.room = make([]byte, max(n, 128))
	}
	if err := m.fill(c.room[:n]); err != nil {
		return err
	}
	return c.field(number, c.room[:n])
}

// whole takes a field that lies in one buffer.
func (c *call) whole(number protowire.Number, v value) error {
	switch {
	case v.kind == protowire.StartGroupType || v.kind == protowire.EndGroupType:
		return fmt.Errorf("%w: field %d is of wire type %d", errWire, number, v.kind)
	case v.kind != protowire.BytesType:
		return nil
	case number == 7:
		t, err := c.contents(len(v.b))
		if t != nil {
			copy(t.Data, v.b)
		}
		return err
	}
	return c.field(number, v.b)
}

// contents adds raw contents of n bytes, to be filled; nil where there are too many.
func (c *call) contents(n int) (*tensor.Tensor, error) {
	if len(c.raw) == oip.MaxTensors {
		c.fault = oip.TooMany("raw_input_contents")
		return nil, nil
	}
	t, err := oip.NewTensor(tensor.Uint8, nil, n)
	if err == nil {
		c.raw = append(c.raw, t)
	}
	return t, err
}

// field takes a field other than raw contents, of which it keeps nothing.
func (c *call) field(number protowire.Number, b []byte) error {
	switch number {
	case 1:
		c.last = c.text("model_name", c.last, b)
		c.Model = c.last
	case 2:
		c.Version = c.text("model_version", "", b)
	case 3:
		c.ID = c.text("id", "", b)
	case 4:
		name, value, err := parameter(b)
		if err != nil {
			return err
		}
		if err := c.Set(name, value); err != nil {
			c.fault = err
		}
	case 5:
		if len(c.inputs) == oip.MaxTensors {
			c.fault = oip.TooMany("inputs")
			return nil
		}
		var before input
		if n := len(c.inputs); n < cap(c.inputs) {
			before = c.inputs[:n+1][n]
		}
		in, err := c.input(before, b)
		c.inputs = append(c.inputs, in)
		return err
	case 6:
		return c.output(b)
	}
	return nil
}

// input reads an input, where another call had one before.
func (c *call) input(before input, b []byte) (in input, err error) {
	in.shape = before.shape[:0]
	err = fields(b, func(number protowire.Number, v value) error {
		switch number {
		case 1:
			in.name = c.text("an input's name", before.name, v.b)
		case 2:
			in.datatype = c.text("a datatype", before.datatype, v.b)
		case 3:
			if in.shape == nil {
				in.shape = make([]int64, 0, maxDims) // most have fewer
			}
			return v.varints(func(u uint64) {
				if len(in.shape) <= oip.MaxDims { // one more is found to be too many
					in.shape = append(in.shape, int64(u))
				}
			})
		case 4:
			c.shared(v.b, in.name)
		case 5:
			if in.typed = true; c.own && in.contents == nil {
				in.contents = v.b[:len(v.b):len(v.b)]
			} else {
				in.contents = append(in.contents, v.b...)
			}
		}
		return nil
	})
	return in, err
}

// shared notes a parameter of a tensor that asks for shared memory.
func (c *call) shared(b []byte, tensor string) {
	if name, _, err := parameter(b); err == nil && len(name) >= 13 && name[:13] == "shared_memory" {
		c.fault = oip.Errorf(oip.Unsupported, "tensor %.200q: shared memory is not supported", tensor)
	}
}

func (c *call) output(b []byte) error {
	if len(c.Outputs) == oip.MaxTensors {
		c.fault = oip.TooMany("outputs")
		return nil
	}
	var out oip.Output
	err := fields(b, func(number protowire.Number, v value) error {
		switch number {
		case 1:
			out.Name = c.text("an output's name", "", v.b)
		case 2:
			name, x, err := parameter(v.b)
			if n, ok := x.(int64); err == nil && name == "classification" {
				if !ok || n <= 0 || n > 1<<30 {
					c.fault = oip.Errorf(oip.InvalidArgument, "output %.200q: parameter classification has to be a number from 1 on", out.Name)
				}
				out.Classes = int(n)
			}
			c.shared(v.b, out.Name)
			return err
		}
		return nil
	})
	c.Outputs = append(c.Outputs, out)
	return err
}

// parameter reads an entry of a map of parameters: bool, int64, string, float64, uint64 or []byte.
func parameter(b []byte) (name string, x any, err error) {
	err = fields(b, func(number protowire.Number, v value) error {
		switch number {
		case 1:
			name = string(v.b)
		case 2:
			return fields(v.b, func(number protowire.Number, v value) error {
				switch {
				case number == 1 && v.kind == protowire.VarintType:
					x = v.u != 0
				case number == 2 && v.kind == protowire.VarintType:
					x = int64(v.u)
				case number == 3 && v.kind == protowire.BytesType:
					x = string(v.b)
				case number == 4 && v.kind == protowire.Fixed64Type:
					x = math.Float64frombits(v.u)
				case number == 4 && v.kind == protowire.BytesType: // of the repository's calls
					x = v.b
				case number == 5 && v.kind == protowire.VarintType:
					x = v.u
				}
				return nil
			})
		}
		return nil
	})
	return name, x, err
}

// tensors makes the request's inputs of what was read; limit bounds the elements of one, and a counts what they take beside the message.
func (c *call) tensors(limit int64, a counter) error {
	defer c.recycle()
	if c.fault != nil {
		return c.fault
	}
	if len(c.raw) > 0 && len(c.raw) != len(c.inputs) {
		return oip.Errorf(oip.InvalidArgument, "%d raw_input_contents for %d inputs", len(c.raw), len(c.inputs))
	}
	for i, in := range c.inputs {
		dt, err := oip.DType(in.datatype)
		if err != nil {
			return err
		}
		shape, n, err := oip.Shape(in.name, in.shape, limit)
		if err != nil {
			return err
		}
		if len(c.raw) == 0 && n <= len(in.contents) || dt == tensor.String && len(c.raw) > 0 && n <= len(c.raw[i].Data)/4 {
			if err := a.Hold(oip.Memory(dt, n)); err != nil {
				return err
			}
		}
		var t *tensor.Tensor
		switch {
		case len(c.raw) == 0:
			t, err = parseContents(in, dt, shape, n)
		case in.typed:
			err = oip.Errorf(oip.InvalidArgument, "contents field must not be specified when using raw_input_contents for '%s'", in.name)
		case dt == tensor.String:
			var list []string
			if list, err = oip.ParseStrings(in.name, c.raw[i].Data, n); err == nil {
				t = tensor.FromStrings(list, shape...)
			}
		case len(c.raw[i].Data) != dt.Bytes(n):
			err = oip.Errorf(oip.InvalidArgument, "unexpected total byte size %d for input '%s', expecting %d", len(c.raw[i].Data), in.name, dt.Bytes(n))
		default:
			t, c.raw[i] = c.raw[i], nil
			t.DType, t.Shape = dt, shape
		}
		if err != nil {
			return err
		}
		c.Inputs = append(c.Inputs, oip.Named{Name: in.name, Tensor: t})
	}
	return nil
}

// recycle gives back raw contents that have not become inputs.
func (c *call) recycle() {
	for i, t := range c.raw {
		oip.Recycle(t)
		c.raw[i] = nil
	}
}

// size returns the bytes of the call's tensors.
func (c *call) size() int64 {
	var n int64
	for _, t := range c.raw {
		n += int64(len(t.Data))
	}
	for _, in := range c.inputs {
		n += int64(len(in.contents))
	}
	return n
}

// parseContents reads an InferTensorContents: fields 1 to 8 hold bool, int32, int64, uint32, uint64, float, double, bytes.
func parseContents(in input, dt tensor.DType, shape []int, n int) (*tensor.Tensor, error) {
	want := contentsField(dt)
	if want == 0 {
		return nil, oip.Errorf(oip.InvalidArgument, "input '%s': contents have no form for %s, use raw_input_contents", in.name, in.datatype)
	}
	if n > len(in.contents) {
		return nil, oip.Errorf(oip.InvalidArgument, "input '%s' has fewer elements than its shape %v", in.name, in.shape)
	}
	t, err := oip.NewTensor(dt, shape, n)
	if err != nil {
		return nil, err
	}
	if dt == tensor.String {
		t.Strings = make([]string, 0, n)
	}
	i, size := 0, dt.Size()
	put := func(u uint64) {
		if i < n {
			for k := range size {
				t.Data[i*size+k] = byte(u >> (8 * k))
			}
		}
		i++
	}
	err = fields(in.contents, func(number protowire.Number, v value) error {
		switch {
		case number != want:
			return oip.Errorf(oip.InvalidArgument, "input '%s' of %s has contents of another datatype", in.name, in.datatype)
		case dt == tensor.String:
			i++
			if i <= n {
				t.Strings = append(t.Strings, string(v.b))
			}
			return nil
		case number == 6:
			return v.fixed(4, put)
		case number == 7:
			return v.fixed(8, put)
		case number == 1:
			return v.varints(func(u uint64) { put(min(u, 1)) })
		}
		return v.varints(put)
	})
	if err == nil && i != n {
		err = oip.Errorf(oip.InvalidArgument, "input '%s' has %d elements, its shape %v %d", in.name, i, in.shape, n)
	}
	return t, err
}

// contentsField returns the field of InferTensorContents for a type, 0 for none.
func contentsField(dt tensor.DType) protowire.Number {
	switch dt {
	case tensor.Bool:
		return 1
	case tensor.Int8, tensor.Int16, tensor.Int32:
		return 2
	case tensor.Int64:
		return 3
	case tensor.Uint8, tensor.Uint16, tensor.Uint32:
		return 4
	case tensor.Uint64:
		return 5
	case tensor.Float32:
		return 6
	case tensor.Float64:
		return 7
	case tensor.String:
		return 8
	}
	return 0
}

// value is a field's value in the wire format.
type value struct {
	kind protowire.Type
	u    uint64 // of varints and fixed numbers
	b    []byte
}

// fields calls f for each field of a message. The error wraps errWire, or is f's.
func fields(b []byte, f func(protowire.Number, value) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(n))
		}
		b = b[n:]
		v := value{kind: kind}
		switch kind {
		case protowire.VarintType:
			v.u, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var u uint32
			u, n = protowire.ConsumeFixed32(b)
			v.u = uint64(u)
		case protowire.Fixed64Type:
			v.u, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			v.b, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(n))
		}
		b = b[n:]
		if err := f(number, v); err != nil {
			return err
		}
	}
	return nil
}

// varints calls f for a number, or for all of a packed field.
func (v value) varints(f func(uint64)) error {
	if v.kind == protowire.VarintType {
		f(v.u)
		return nil
	}
	for b := v.b; len(b) > 0; {
		u, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(n))
		}
		f(u)
		b = b[n:]
	}
	return nil
}

// fixed calls f for a number of so many bytes, or for all of a packed field.
func (v value) fixed(size int, f func(uint64)) error {
	if v.kind == protowire.Fixed32Type && size == 4 || v.kind == protowire.Fixed64Type && size == 8 {
		f(v.u)
		return nil
	}
	if v.kind != protowire.BytesType || len(v.b)%size != 0 {
		return fmt.Errorf("%w: numbers of %d bytes in %d bytes", errWire, size, len(v.b))
	}
	for b := v.b; len(b) > 0; b = b[size:] {
		if size == 4 {
			f(uint64(binary.LittleEndian.Uint32(b)))
		} else {
			f(binary.LittleEndian.Uint64(b))
		}
	}
	return nil
}
