package dlpack_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/graph/tensor/dlpack"
	"github.com/carve-dev/carve/internal/dl"
)

// FuzzImport imports tensors with whatever fields: the result is well formed, or an *Error names the field.
func FuzzImport(f *testing.F) {
	if !dl.Supported {
		f.Skip("no libraries on this platform")
	}
	list := func(xs ...int64) []byte {
		var b []byte
		for _, x := range xs {
			b = binary.LittleEndian.AppendUint64(b, uint64(x))
		}
		return b
	}
	f.Add(uint8(2), uint8(32), uint16(1), int32(2), int32(1), uint64(0), uint64(0), list(2, 3), list(3, 1))
	f.Add(uint8(1), uint8(4), uint16(1), int32(1), int32(1), uint64(4), uint64(1), list(5), list(-2))
	f.Add(uint8(0), uint8(64), uint16(1), int32(3), int32(2), uint64(1), uint64(1<<63), list(1<<40, 1<<40, 2), list(1<<62, -1<<62, 0))
	f.Add(uint8(6), uint8(8), uint16(2), int32(-1), int32(0), uint64(0), uint64(0), []byte{}, []byte{})
	buffer := make([]byte, 1<<16)
	f.Fuzz(func(t *testing.T, code, bits uint8, lanes uint16, ndim, dev int32, flags, offset uint64, shape, strides []byte) {
		words := func(b []byte) []int64 {
			out := make([]int64, 65)
			for i := 0; i < len(out) && len(b) >= 8; i, b = i+1, b[8:] {
				out[i] = int64(binary.LittleEndian.Uint64(b))
			}
			return out
		}
		dims, steps := words(shape), words(strides)
		m := &dlpack.Versioned{Major: dlpack.Major, Flags: flags, Tensor: dlpack.Tensor{
			Data: uintptr(unsafe.Pointer(&buffer[len(buffer)/2])), Device: tensor.DeviceID{Type: tensor.DeviceType(dev)}, NDim: ndim,
			DType: dlpack.DataType{Code: code, Bits: bits, Lanes: lanes}, Shape: uintptr(unsafe.Pointer(&dims[0])), ByteOffset: offset}}
		if len(strides) > 0 {
			m.Tensor.Strides = uintptr(unsafe.Pointer(&steps[0]))
		}
		var named *dlpack.Error
		from, to, err := m.Tensor.Extent(flags)
		if err != nil {
			if !errors.As(err, &named) || named.Field == "" {
				t.Fatalf("%v names no field", err)
			}
			return
		}
		if from > 0 || to < 0 || offset > uint64(len(buffer)) || from < -len(buffer)/2 || to > len(buffer)/2-int(offset) {
			return // there is no such memory to look at
		}
		in, err := dlpack.Import(m)
		if err != nil {
			if !errors.As(err, &named) {
				t.Fatalf("%v names no field", err)
			}
			return
		}
		x := in.Tensor()
		if err := x.Check(); err != nil {
			t.Fatalf("%v is not well formed: %v", x, err)
		}
		if x.Device.IsHost() && x.Len() < 1<<20 {
			if _, err := x.Clone(); err != nil {
				t.Fatal(err)
			}
		}
		in.Close()
		runtime.KeepAlive(dims)
		runtime.KeepAlive(steps)
	})
}
