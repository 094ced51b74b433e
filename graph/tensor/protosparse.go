package tensor

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/internal/wire"
)

// ParseSparseProto reads an ONNX SparseTensorProto and returns it as a dense tensor, with the name of its values. The
// dense size is bounded by o.MaxDense (ErrTooLarge). Indices, linear ([NNZ]) or by axis ([NNZ, rank]), must be in range
// and ascending without a repeat; other errors are those of ParseProto.
func ParseSparseProto(b []byte, o *ProtoOptions) (name string, t *Tensor, err error) {
	var values, indices *Tensor
	dims := []int{}
	err = wire.Each(b, func(f wire.Field) error {
		switch f.Num {
		case 1, 2:
			var s []byte
			if err := f.Bytes(&s); err != nil {
				return err
			}
			n, v, err := ParseProto(s, o)
			if f.Num == 1 {
				name, values = n, v
			} else {
				indices = v
			}
			return err
		case 3:
			fault := false
			err := f.Numbers(protowire.VarintType, func(v uint64) {
				if fault = fault || len(dims) == maxRank; !fault {
					dims = append(dims, int(int64(v)))
				}
			})
			if fault {
				return fmt.Errorf("%w: tensor of rank above %d", ErrTooLarge, maxRank)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return name, nil, err
	}
	if values == nil || indices == nil || values.Rank() != 1 || indices.DType != Int64 {
		return name, nil, fmt.Errorf("%w: sparse tensor without a vector of values and int64 indices", ErrSyntax)
	}
	t, err = dense(values, indices, dims, o)
	return name, t, err
}

func dense(values, indices *Tensor, dims []int, o *ProtoOptions) (*Tensor, error) {
	limit := 64 << 20
	if o != nil && o.MaxDense > 0 {
		limit = o.MaxDense
	}
	n, err := NumElements(dims)
	if err != nil {
		return nil, err
	}
	dt := values.DType
	if dt.IsPacked() {
		return nil, fmt.Errorf("%w: sparse tensor of %v", ErrUnsupported, dt)
	}
	elem := max(dt.Size(), 1)
	if dt == String {
		elem = 16
	}
	if n > limit/elem {
		return nil, fmt.Errorf("%w: sparse tensor of %v%v made dense, limit %d bytes", ErrTooLarge, dt, dims, limit)
	}
	nnz := values.Len()
	byAxis := indices.Rank() == 2 && indices.Shape[0] == nnz && indices.Shape[1] == len(dims)
	if !byAxis && !(indices.Rank() == 1 && indices.Shape[0] == nnz) {
		return nil, fmt.Errorf("%w: %d values with indices of shape %v in a sparse tensor of rank %d", ErrShape, nnz, indices.Shape, len(dims))
	}
	t, err := New(dt, dims...)
	if err != nil {
		return nil, err
	}
	last, size := -1, dt.Size()
	for i := range nnz {
		at := 0
		if byAxis {
			for a, d := range dims {
				k := int(indices.Int64At(i*len(dims) + a))
				if k < 0 || k >= d {
					return nil, fmt.Errorf("%w: index %d of axis %d in a sparse tensor %v", ErrShape, k, a, dims)
				}
				at = at*d + k
			}
		} else {
			at = int(indices.Int64At(i))
		}
		if at <= last || at >= n {
			return nil, fmt.Errorf("%w: indices of a sparse tensor %v out of range or not ascending", ErrShape, dims)
		}
		last = at
		if dt == String {
			t.Strings[at] = values.Strings[i]
		} else {
			copy(t.Data[at*size:(at+1)*size], values.Data[i*size:])
		}
	}
	return t, nil
}
