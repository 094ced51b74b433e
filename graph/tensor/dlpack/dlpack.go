// Package dlpack shares tensors with other libraries of the process in place, by DLPack's managed tensors: the structure with
// a version, and the older one without. Import makes a tensor of one that C code made; Export makes one for C code.
//
//	in, err := dlpack.Import((*dlpack.Versioned)(fromC))
//	if err != nil { … }
//	defer in.Close()
//	out, err := program.Run(ctx, map[string]tensor.Value{"x": in.Tensor()})
//
// A managed tensor has an owner who is told by its deleter, a C function, when it is not used any more: called once, by
// Close for what was imported, and by the consumer for what was exported. There are no finalizers: a tensor's storage may be
// in use when nobody holds the Imported any more, and C code must not be called from the garbage collector.
//
// A program that imports this package is linked dynamically on Linux, since it calls C functions; package tensor, whose
// Tensor has DLPack's layout, does not need it. The package imports graph/tensor and internal/dl. The structures are those
// of dlpack.h, versions 0.2 to 1.x.
package dlpack

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

// Tensor is C's DLTensor. Addresses are words: those of a device are no pointers.
type Tensor struct {
	Data       uintptr
	Device     tensor.DeviceID
	NDim       int32
	DType      DataType
	Shape      uintptr // *int64[NDim]
	Strides    uintptr // *int64[NDim], in elements; NULL, before version 1.2, means compact
	ByteOffset uint64
}

// DataType is C's DLDataType.
type DataType struct {
	Code  uint8
	Bits  uint8
	Lanes uint16
}

// Managed is C's DLManagedTensor, the older struct without a version.
type Managed struct {
	Tensor  Tensor
	Context uintptr
	Deleter uintptr // void (*)(DLManagedTensor *), may be NULL
}

// Versioned is C's DLManagedTensorVersioned.
type Versioned struct {
	Major, Minor uint32
	Context      uintptr
	Deleter      uintptr // void (*)(DLManagedTensorVersioned *), may be NULL
	Flags        uint64
	Tensor       Tensor
}

// Flags of a Versioned.
const (
	ReadOnly uint64 = 1 << 0
	Copied   uint64 = 1 << 1
	Padded   uint64 = 1 << 2 // elements of less than a byte have a byte each
)

// The version that Export writes, and whose major Import understands.
const (
	Major = 1
	Minor = 2
)

// Device types of DLPack whose memory the host reads like its own.
const (
	cudaHost tensor.DeviceType = 3
	rocmHost tensor.DeviceType = 11
)

// ErrVersion says that a managed tensor is of another major version.
var ErrVersion = errors.New("version is not supported")

// Error says which field of a managed tensor is wrong. Err wraps one of ErrVersion and the errors of package tensor.
type Error struct {
	Field string // of the C structure, such as "shape[2]"
	Err   error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return "dlpack: " + e.Field
	}
	return "dlpack: " + e.Field + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func bad(field string, cause error, format string, args ...any) error {
	return &Error{Field: field, Err: fmt.Errorf("%w: "+format, append([]any{cause}, args...)...)}
}
