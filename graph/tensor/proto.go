package tensor

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/internal/wire"
)

// Field numbers of TensorProto, from onnx.proto.
const (
	tpDims = iota + 1
	tpDataType
	tpSegment
	tpFloatData
	tpInt32Data
	tpStringData
	tpInt64Data
	tpName
	tpRawData
	tpDoubleData
	tpUint64Data
	tpDocString
	tpExternalData
	tpDataLocation
)

// maxRank bounds the rank of a tensor in a file.
const maxRank = 64

// External says where the data of a tensor in a model file lies outside of that file.
type External struct {
	Name     string // of the tensor
	DType    DType
	Shape    []int
	Bytes    int    // that dtype and shape need
	Location string // slash-separated path relative to the model's folder, as in the file: not to be trusted
	Offset   int64  // in bytes; 0 where the file says nothing
	Length   int64  // in bytes; -1 where the file says nothing
	Checksum string // SHA-1 in hexadecimal, or empty
}

// ProtoOptions settles what a TensorProto alone does not. nil means the defaults.
type ProtoOptions struct {
	// External returns exactly x.Bytes bytes of data kept outside; nil refuses such tensors with ErrUnsupported.
	External func(x External) ([]byte, error)
	// MaxDense bounds the bytes of a sparse tensor made dense; default 64 MiB.
	MaxDense int
}

// protoTensor is what a first pass over a TensorProto finds.
type protoTensor struct {
	name     string
	dt       DType
	dims     []int
	raw      []byte
	hasRaw   bool
	external bool
	ext      External
	typed    int    // the typed field that there is; 0 for none
	mixed    bool   // there is another one too
	count    int    // numbers in it
	chunks   int    // its occurrences
	packed   []byte // the last one's content
}

// typedField returns the field that holds elements of dt one by one, the wire type of its numbers, and how many
// numbers n elements take.
func typedField(dt DType, n int) (num int, elem protowire.Type, count int) {
	switch dt {
	case Float32:
		return tpFloatData, protowire.Fixed32Type, n
	case Complex64:
		return tpFloatData, protowire.Fixed32Type, 2 * n
	case Float64:
		return tpDoubleData, protowire.Fixed64Type, n
	case Complex128:
		return tpDoubleData, protowire.Fixed64Type, 2 * n
	case Int64:
		return tpInt64Data, protowire.VarintType, n
	case Uint32, Uint64:
		return tpUint64Data, protowire.VarintType, n
	case String:
		return tpStringData, protowire.BytesType, n
	}
	if dt.IsPacked() { // one number per byte of packed elements
		return tpInt32Data, protowire.VarintType, dt.Bytes(n)
	}
	return tpInt32Data, protowire.VarintType, n
}

// ParseProto reads an ONNX TensorProto. Data in raw_data, and packed float_data and double_data, is referenced and not
// copied: the tensor keeps b alive, and its elements may lie at any address (see Elements). The host is taken to be
// little-endian. Errors wrap ErrSyntax, ErrTruncated, ErrDType, ErrShape, ErrTooLarge or ErrUnsupported; the name is
// returned with them where it was read. Memory is bounded by a small multiple of len(b).
func ParseProto(b []byte, o *ProtoOptions) (name string, t *Tensor, err error) {
	p := protoTensor{dims: []int{}, ext: External{Length: -1}}
	if err := p.scan(b); err != nil {
		return p.name, nil, err
	}
	if !p.dt.Valid() {
		return p.name, nil, fmt.Errorf("%w: data type %d of a tensor", ErrDType, p.dt)
	}
	n, err := NumElements(p.dims)
	if err != nil {
		return p.name, nil, err
	}
	size := p.dt.Bytes(n)
	if size < 0 {
		return p.name, nil, fmt.Errorf("%w: shape %v of %v", ErrTooLarge, p.dims, p.dt)
	}
	t = &Tensor{DType: p.dt, Shape: p.dims}
	num, elem, count := typedField(p.dt, n)
	if p.count > 0 && (p.mixed || p.typed != num || len(p.raw) > 0 || p.external) {
		return p.name, nil, fmt.Errorf("%w: tensor of %v with data in field %d", ErrSyntax, p.dt, p.typed)
	}
	switch {
	case p.external:
		if t.Data, err = p.outside(o, size); err != nil {
			return p.name, nil, err
		}
	case p.hasRaw && p.count == 0 && p.dt != String:
		if len(p.raw) != size {
			return p.name, nil, fmt.Errorf("%w: %d bytes of raw data for %v%v, %d expected", ErrShape, len(p.raw), p.dt, p.dims, size)
		}
		t.Data = p.raw
	case p.count != count:
		return p.name, nil, fmt.Errorf("%w: %d numbers in field %d for %v%v, %d expected", ErrShape, p.count, num, p.dt, p.dims, count)
	case p.dt == String:
		err = p.strings(b, t, n)
	case p.chunks == 1 && len(p.packed) == size && elem != protowire.VarintType:
		t.Data = p.packed
	default:
		t.Data = alignedBytes(size)
		err = fillTyped(b, t, protowire.Number(num), elem)
	}
	if err != nil {
		return p.name, nil, err
	}
	if p.dt == Bool {
		t.Data = cleanBools(t.Data)
	}
	return p.name, t, nil
}

// cleanBools returns b, or a copy with every byte above 1 made 1: Go's bool has no other values.
func cleanBools(b []byte) []byte {
	for _, v := range b {
		if v > 1 {
			c := alignedBytes(len(b))
			for i, v := range b {
				c[i] = min(v, 1)
			}
			return c
		}
	}
	return b
}

// scan is the first pass.
func (p *protoTensor) scan(b []byte) error {
	return wire.Each(b, func(f wire.Field) error {
		var err error
		var v int64
		var s []byte
		switch f.Num {
		case tpDims:
			fault := false
			err = f.Numbers(protowire.VarintType, func(v uint64) {
				if len(p.dims) < maxRank {
					p.dims = append(p.dims, int(int64(v)))
				} else {
					fault = true
				}
			})
			if fault {
				return fmt.Errorf("%w: tensor of rank above %d", ErrTooLarge, maxRank)
			}
		case tpDataType:
			if err = f.Int(&v); v < 0 || v >= numDTypes {
				return fmt.Errorf("%w: data type %d of a tensor", ErrDType, v)
			}
			p.dt = DType(v)
		case tpSegment:
			return fmt.Errorf("%w: tensor in segments", ErrUnsupported)
		case tpName:
			err = f.Str(&p.name)
		case tpRawData:
			err = f.Bytes(&p.raw)
			p.hasRaw = true
		case tpFloatData:
			err = p.typedField(f, protowire.Fixed32Type)
		case tpDoubleData:
			err = p.typedField(f, protowire.Fixed64Type)
		case tpInt32Data, tpInt64Data, tpUint64Data:
			err = p.typedField(f, protowire.VarintType)
		case tpStringData:
			err = p.typedField(f, protowire.BytesType)
		case tpDataLocation:
			err = f.Int(&v)
			p.external = v == 1
		case tpExternalData:
			if err = f.Bytes(&s); err == nil {
				err = p.ext.entry(s)
			}
		}
		return err
	})
}

func (p *protoTensor) typedField(f wire.Field, elem protowire.Type) error {
	n, err := f.Count(elem)
	if n == 0 {
		return err
	}
	p.mixed = p.mixed || p.typed != 0 && p.typed != int(f.Num)
	p.typed = int(f.Num)
	p.count += n
	p.chunks++
	p.packed = f.Buf
	return err
}

// entry reads one key with its value of external_data.
func (x *External) entry(b []byte) error {
	var key, value string
	err := wire.Each(b, func(f wire.Field) error {
		switch f.Num {
		case 1:
			return f.Str(&key)
		case 2:
			return f.Str(&value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch key {
	case "location":
		x.Location = value
	case "checksum":
		x.Checksum = value
	case "offset", "length":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: %s %.40q of external data", ErrSyntax, key, value)
		}
		if key == "offset" {
			x.Offset = n
		} else {
			x.Length = n
		}
	}
	return nil
}

// outside fetches external data.
func (p *protoTensor) outside(o *ProtoOptions, size int) ([]byte, error) {
	if o == nil || o.External == nil {
		return nil, fmt.Errorf("%w: external data in %.80q", ErrUnsupported, p.ext.Location)
	}
	if p.dt == String {
		return nil, fmt.Errorf("%w: strings as external data", ErrUnsupported)
	}
	x := p.ext
	x.Name, x.DType, x.Shape, x.Bytes = p.name, p.dt, p.dims, size
	if x.Length >= 0 && x.Length != int64(size) {
		return nil, fmt.Errorf("%w: %d bytes of external data for %v%v, %d expected", ErrShape, x.Length, p.dt, p.dims, size)
	}
	data, err := o.External(x)
	if err == nil && len(data) != size {
		err = fmt.Errorf("%w: %d bytes of external data for %v%v, %d expected", ErrShape, len(data), p.dt, p.dims, size)
	}
	return data, err
}

func (p *protoTensor) strings(b []byte, t *Tensor, n int) error {
	t.Strings = make([]string, 0, n)
	return wire.Each(b, func(f wire.Field) error {
		if f.Num == tpStringData {
			t.Strings = append(t.Strings, string(f.Buf))
		}
		return nil
	})
}

// fillTyped writes the numbers of a typed field, already counted, to t.
func fillTyped(b []byte, t *Tensor, num protowire.Number, elem protowire.Type) error {
	i, size := 0, t.DType.Size()
	if t.DType.IsPacked() {
		size = 1
	}
	if t.DType.IsComplex() {
		size /= 2
	}
	le := binary.LittleEndian
	return wire.Each(b, func(f wire.Field) error {
		if f.Num != num {
			return nil
		}
		return f.Numbers(elem, func(v uint64) {
			if i+size > len(t.Data) { // a malformed varint counts otherwise than it reads
				return
			}
			switch size {
			case 1:
				t.Data[i] = byte(v)
			case 2:
				le.PutUint16(t.Data[i:], uint16(v))
			case 4:
				le.PutUint32(t.Data[i:], uint32(v))
			case 8:
				le.PutUint64(t.Data[i:], v)
			}
			i += size
		})
	})
}

// AppendProto appends t as an ONNX TensorProto to b. The tensor must be on the host and not be bigger than 2 GiB, which
// is protobuf's limit.
func AppendProto(b []byte, name string, t *Tensor) ([]byte, error) {
	b, payload, err := AppendProtoHead(b, name, t)
	if err != nil {
		return b, err
	}
	return append(b, payload...), nil
}

// AppendProtoHead appends all of a TensorProto but its elements, which must follow as they are: the message is what
// was appended with payload behind it. It spares a copy where a file is written. The payload of a String tensor is nil.
// A compact tensor's payload is its storage.
func AppendProtoHead(b []byte, name string, t *Tensor) (head, payload []byte, err error) {
	data, err := hostBytes(t)
	if err != nil {
		return b, nil, err
	}
	if len(data) > 1<<31-1 {
		return b, nil, fmt.Errorf("%w: tensor of %d bytes in a message, limit %d", ErrTooLarge, len(data), 1<<31-1)
	}
	b = appendProtoType(b, t.DType, t.Shape)
	if t.DType == String {
		s := t
		if !t.IsCompact() {
			if s, err = t.Clone(); err != nil {
				return b, nil, err
			}
		}
		for _, e := range s.Strings[:t.Len()] {
			b = protowire.AppendTag(b, tpStringData, protowire.BytesType)
			b = protowire.AppendString(b, e)
		}
	}
	b = appendName(b, tpName, name)
	if t.DType == String {
		return b, nil, nil
	}
	b = protowire.AppendTag(b, tpRawData, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(data)))
	return b, data, nil
}

// AppendExternalProto appends a TensorProto whose data lies outside, as x says.
func AppendExternalProto(b []byte, x External) []byte {
	b = appendProtoType(b, x.DType, x.Shape)
	b = appendName(b, tpName, x.Name)
	entry := func(key, value string) {
		var e []byte
		e = appendName(e, 1, key)
		e = appendName(e, 2, value)
		b = protowire.AppendTag(b, tpExternalData, protowire.BytesType)
		b = protowire.AppendBytes(b, e)
	}
	entry("location", x.Location)
	entry("offset", strconv.FormatInt(x.Offset, 10))
	if x.Length >= 0 {
		entry("length", strconv.FormatInt(x.Length, 10))
	}
	if x.Checksum != "" {
		entry("checksum", x.Checksum)
	}
	b = protowire.AppendTag(b, tpDataLocation, protowire.VarintType)
	return protowire.AppendVarint(b, 1)
}

func appendProtoType(b []byte, dt DType, shape []int) []byte {
	if len(shape) > 0 {
		var dims []byte
		for _, d := range shape {
			dims = protowire.AppendVarint(dims, uint64(d))
		}
		b = protowire.AppendTag(b, tpDims, protowire.BytesType)
		b = protowire.AppendBytes(b, dims)
	}
	b = protowire.AppendTag(b, tpDataType, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(dt))
}

func appendName(b []byte, num protowire.Number, name string) []byte {
	if name == "" {
		return b
	}
	b = protowire.AppendTag(b, num, protowire.BytesType)
	return protowire.AppendString(b, name)
}
