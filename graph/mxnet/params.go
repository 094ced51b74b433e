package mxnet

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// Storage is how a file keeps an array.
type Storage int32

// The storage types of MXNet.
const (
	Dense     Storage = 0
	RowSparse Storage = 1 // some rows, and their numbers
	CSR       Storage = 2 // compressed sparse rows
)

// Array is an entry of a file of parameters.
type Array struct {
	Name    string         // as the file has it, such as arg:conv0_weight; "" in a list
	Tensor  *tensor.Tensor // all elements, whatever the Storage; nil for an array that is none
	Storage Storage
	Offset  int64 // where it begins in the file
}

// ParamsOptions bounds what is read of parameters. nil means the defaults.
type ParamsOptions struct {
	// MaxDense bounds the bytes of sparse arrays made dense, and of what an archive holds beyond four times its size; default
	// 256 MiB.
	MaxDense int
}

func (o *ParamsOptions) maxDense() int {
	if o != nil && o.MaxDense > 0 {
		return o.MaxDense
	}
	return 256 << 20
}

// Marks of the formats, little-endian.
const (
	listMagic = 0x112
	magicV1   = 0xF993FAC8
	magicV2   = 0xF993FAC9
	magicV3   = 0xF993FACA
)

// ParseParams reads parameters in every form that MXNet writes: lists and dictionaries of arrays in the formats V0 to V3,
// dense, row-sparse and CSR, a single array without a list, and NumPy's npz and npy of MXNet 2. Dense arrays of MXNet's own
// forms refer to b, which must not change; they may lie at any address. Faults are an *Error with the offset. No size is
// believed before the file is seen to have so many bytes.
func ParseParams(b []byte, o *ParamsOptions) ([]Array, error) {
	switch {
	case isArchive(b):
		return parseArchive(b, o)
	case isNPY(b):
		t, err := tensor.ParseNPY(b)
		if err != nil {
			return nil, &Error{Op: "load", Offset: 0, Err: err}
		}
		return []Array{{Name: "arr_0", Tensor: t}}, nil
	}
	r := &paramsReader{b: b, dense: o.maxDense()}
	if len(b) >= 4 {
		if m := binary.LittleEndian.Uint32(b); m >= magicV1 && m <= magicV3 {
			a, err := r.array()
			if err == nil && r.i < len(b) {
				err = r.fault(ErrSyntax, "%d bytes behind the array", len(b)-r.i)
			}
			return []Array{a}, err
		}
	}
	return r.list()
}

type paramsReader struct {
	b     []byte
	i     int
	dense int // bytes that sparse arrays may still take
}

func (r *paramsReader) fault(cause error, format string, args ...any) error {
	return &Error{Op: "load", Offset: int64(r.i), Err: fmt.Errorf("%w: "+format, append([]any{cause}, args...)...)}
}

// take returns the next n bytes.
func (r *paramsReader) take(n int) ([]byte, error) {
	if n < 0 || n > len(r.b)-r.i {
		return nil, r.fault(ErrTruncated, "%d bytes are expected, %d are left", n, len(r.b)-r.i)
	}
	out := r.b[r.i : r.i+n : r.i+n]
	r.i += n
	return out, nil
}

func (r *paramsReader) u32() (uint32, error) {
	b, err := r.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (r *paramsReader) u64() (uint64, error) {
	b, err := r.take(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// list reads the whole of a file: a head, arrays, and names or none.
func (r *paramsReader) list() ([]Array, error) {
	magic, err := r.u64()
	if err != nil {
		return nil, err
	}
	if magic != listMagic {
		r.i = 0
		return nil, r.fault(ErrSyntax, "%#x does not begin a file of parameters", magic)
	}
	if _, err := r.u64(); err != nil {
		return nil, err
	}
	n, err := r.count("arrays", 4)
	if err != nil {
		return nil, err
	}
	var out []Array
	for i := range n {
		a, err := r.array()
		if err != nil {
			return nil, located(err, "", fmt.Sprintf("array %d", i))
		}
		out = append(out, a)
	}
	at := r.i
	names, err := r.count("names", 8)
	if err != nil {
		return nil, err
	}
	if names != 0 && names != n {
		r.i = at
		return nil, r.fault(ErrSyntax, "%d names for %d arrays", names, n)
	}
	seen := make(map[string]bool, names)
	for i := range names {
		at := r.i
		size, err := r.u64()
		if err != nil {
			return nil, err
		}
		name, err := r.take(int(min(size, math.MaxInt64)))
		if err != nil {
			return nil, err
		}
		if seen[string(name)] {
			r.i = at
			return nil, r.fault(ErrSyntax, "two arrays named %.80q", name)
		}
		seen[string(name)] = true
		out[i].Name = string(name)
	}
	if r.i < len(r.b) {
		return nil, r.fault(ErrSyntax, "%d bytes behind the names", len(r.b)-r.i)
	}
	return out, nil
}

// count reads how many things of at least size bytes follow.
func (r *paramsReader) count(what string, size uint64) (int, error) {
	n, err := r.u64()
	if err != nil {
		return 0, err
	}
	if n > uint64(len(r.b)-r.i)/size {
		r.i -= 8
		return 0, r.fault(ErrTooLarge, "%d %s in a file of %d bytes", n, what, len(r.b))
	}
	return int(n), nil
}

// maxRank bounds the dims of an array.
const maxRank = 64

// array reads an array of any version.
func (r *paramsReader) array() (a Array, err error) {
	a.Offset = int64(r.i)
	magic, err := r.u32()
	if err != nil {
		return a, err
	}
	switch magic {
	case magicV2, magicV3:
		return r.modern(a, magic == magicV3)
	case magicV1:
		shape, err := r.shape()
		if err != nil || len(shape) == 0 {
			return a, err
		}
		a.Tensor, err = r.data(shape)
		return a, err
	}
	if magic > maxRank { // the number of dims in the oldest version
		r.i = int(a.Offset)
		return a, r.fault(ErrSyntax, "%#x does not begin an array", magic)
	}
	shape := make([]int, magic)
	for i := range shape {
		d, err := r.u32()
		if err != nil {
			return a, err
		}
		shape[i] = int(d)
	}
	if len(shape) == 0 {
		return a, nil
	}
	a.Tensor, err = r.data(shape)
	return a, err
}

// shape reads dims of 64 bits; nil for a shape that is not known.
func (r *paramsReader) shape() ([]int, error) {
	n, err := r.u32()
	if err != nil {
		return nil, err
	}
	rank := int32(n)
	if rank == -1 {
		return nil, nil
	}
	if rank < 0 || rank > maxRank {
		r.i -= 4
		return nil, r.fault(ErrSyntax, "%d dims", rank)
	}
	shape := make([]int, rank)
	for i := range shape {
		d, err := r.u64()
		if err != nil {
			return nil, err
		}
		if int64(d) == -1 {
			return nil, nil
		}
		if d > math.MaxInt64 {
			r.i -= 8
			return nil, r.fault(ErrSyntax, "a dim of %d", int64(d))
		}
		shape[i] = int(d)
	}
	return shape, nil
}

// modern reads the rest of an array of version 2, or of 3, where no dims are a scalar.
func (r *paramsReader) modern(a Array, scalars bool) (Array, error) {
	at := r.i
	kind, err := r.u32()
	if err != nil {
		return a, err
	}
	a.Storage = Storage(int32(kind))
	if a.Storage == -1 {
		a.Storage = Dense
	}
	if a.Storage < Dense || a.Storage > CSR || scalars && a.Storage != Dense {
		r.i = at
		return a, r.fault(ErrSyntax, "storage type %d", int32(kind))
	}
	var stored []int
	if a.Storage != Dense {
		if stored, err = r.shape(); err != nil {
			return a, err
		}
	}
	shape, err := r.shape()
	if err != nil {
		return a, err
	}
	if shape == nil || len(shape) == 0 && !scalars {
		return a, nil // none
	}
	if a.Storage == Dense {
		a.Tensor, err = r.data(shape)
		return a, err
	}
	a.Tensor, err = r.sparse(a.Storage, stored, shape)
	return a, err
}

// dtypes are MXNet's type flags.
var dtypes = [...]tensor.DType{0: tensor.Float32, 1: tensor.Float64, 2: tensor.Float16, 3: tensor.Uint8, 4: tensor.Int32,
	5: tensor.Int8, 6: tensor.Int64, 7: tensor.Bool, 8: tensor.Int16, 9: tensor.Uint16, 10: tensor.Uint32, 11: tensor.Uint64,
	12: tensor.BFloat16}

// header reads the device, which says nothing, and the element type.
func (r *paramsReader) header() (tensor.DType, error) {
	if _, err := r.take(8); err != nil {
		return 0, err
	}
	return r.dtype()
}

func (r *paramsReader) dtype() (tensor.DType, error) {
	flag, err := r.u32()
	if err != nil {
		return 0, err
	}
	if int(flag) >= len(dtypes) {
		r.i -= 4
		return 0, r.fault(ErrSyntax, "type flag %d", flag)
	}
	return dtypes[flag], nil
}

// data reads device, type and elements of a dense array.
func (r *paramsReader) data(shape []int) (*tensor.Tensor, error) {
	dt, err := r.header()
	if err != nil {
		return nil, err
	}
	return r.elements(dt, shape)
}

// elements reads as many elements as the shape has.
func (r *paramsReader) elements(dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	n, err := tensor.NumElements(shape)
	if err != nil || n > math.MaxInt64/16 {
		return nil, r.fault(ErrTooLarge, "shape %v", shape)
	}
	b, err := r.take(dt.Bytes(n))
	if err != nil {
		return nil, err
	}
	if dt == tensor.Bool && slices.ContainsFunc(b, func(x byte) bool { return x > 1 }) {
		b = slices.Clone(b)
		for i, x := range b {
			b[i] = min(x, 1)
		}
	}
	return &tensor.Tensor{DType: dt, Shape: shape, Data: b}, nil
}

// sparse reads the rest of a sparse array, and makes it dense.
func (r *paramsReader) sparse(kind Storage, stored, shape []int) (*tensor.Tensor, error) {
	dt, err := r.header()
	if err != nil {
		return nil, err
	}
	numAux := 1
	if kind == CSR {
		numAux = 2
	}
	var auxType [2]tensor.DType
	var auxShape [2][]int
	for i := range numAux {
		if auxType[i], err = r.dtype(); err != nil {
			return nil, err
		}
		if auxShape[i], err = r.shape(); err != nil {
			return nil, err
		}
		if !auxType[i].IsInt() || len(auxShape[i]) != 1 {
			return nil, r.fault(ErrSyntax, "indices of type %v and shape %v", auxType[i], auxShape[i])
		}
	}
	data, err := r.elements(dt, stored)
	if err != nil {
		return nil, err
	}
	var aux [2][]int64
	for i := range numAux {
		t, err := r.elements(auxType[i], auxShape[i])
		if err != nil {
			return nil, err
		}
		aux[i] = make([]int64, t.Len())
		if err := tensor.DecodeInts(aux[i], t); err != nil {
			return nil, r.fault(ErrSyntax, "indices: %v", err)
		}
	}
	n, err := tensor.NumElements(shape)
	if err != nil || n > r.dense || dt.Bytes(n) > r.dense {
		return nil, r.fault(ErrTooLarge, "shape %v of a sparse array", shape)
	}
	r.dense -= dt.Bytes(n)
	out, err := tensor.New(dt, shape...)
	if err != nil {
		return nil, r.fault(ErrTooLarge, "shape %v of a sparse array: %v", shape, err)
	}
	if kind == CSR {
		err = fillRows(out, data, aux[0], aux[1])
	} else {
		err = fillSlices(out, data, aux[0])
	}
	if err != nil {
		return nil, r.fault(ErrSyntax, "%v", err)
	}
	return out, nil
}

// fillSlices puts the rows of data where index says.
func fillSlices(out, data *tensor.Tensor, index []int64) error {
	if len(index) == 0 {
		return nil
	}
	if len(out.Shape) == 0 || !slices.Equal(data.Shape, append([]int{len(index)}, out.Shape[1:]...)) {
		return fmt.Errorf("%d rows of shape %v for an array of shape %v", len(index), data.Shape, out.Shape)
	}
	row := len(data.Data) / len(index)
	for i, k := range index {
		if k < 0 || k >= int64(out.Shape[0]) {
			return fmt.Errorf("row %d of %d", k, out.Shape[0])
		}
		copy(out.Data[int(k)*row:][:row], data.Data[i*row:])
	}
	return nil
}

// fillRows puts element j of data, for start[i] <= j < start[i+1], into row i and column column[j].
func fillRows(out, data *tensor.Tensor, start, column []int64) error {
	if len(out.Shape) != 2 || len(start) != out.Shape[0]+1 && len(start) != 0 || data.Len() != len(column) {
		return fmt.Errorf("%d starts and %d columns for %d elements and an array of shape %v", len(start), len(column), data.Len(), out.Shape)
	}
	size := out.DType.Bytes(1)
	for i := range len(start) - 1 {
		lo, hi := start[i], start[i+1]
		if lo < 0 || hi < lo || hi > int64(len(column)) {
			return fmt.Errorf("row %d has the elements from %d to %d of %d", i, lo, hi, len(column))
		}
		for j := lo; j < hi; j++ {
			k := column[j]
			if k < 0 || k >= int64(out.Shape[1]) {
				return fmt.Errorf("column %d of %d", k, out.Shape[1])
			}
			copy(out.Data[(i*out.Shape[1]+int(k))*size:][:size], data.Data[int(j)*size:])
		}
	}
	return nil
}
