package main

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// blas is NVIDIA's library of matrix products, where it is found: what products are measured against.
type blas struct {
	handle, gemm uintptr
	one, zero    *float32
}

func openBLAS(path string, d *driver) (*blas, error) {
	names := []string{path}
	if path == "" {
		names = []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}
	}
	var lib *dl.Library
	var err error
	for _, n := range names {
		if lib, err = dl.Open(n); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	b := &blas{one: new(float32), zero: new(float32)}
	*b.one = 1
	create, err1 := lib.Symbol("cublasCreate_v2")
	stream, err2 := lib.Symbol("cublasSetStream_v2")
	var err3 error
	b.gemm, err3 = lib.Symbol("cublasGemmEx")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if r := int32(dl.Call(create, at(&b.handle))); r != 0 {
		return nil, fmt.Errorf("cublasCreate: error %d", r)
	}
	if r := int32(dl.Call(stream, b.handle, d.stream)); r != 0 {
		return nil, fmt.Errorf("cublasSetStream: error %d", r)
	}
	return b, nil
}

// product computes C = A × B of row-major matrices, which to the library are their transposes.
func (b *blas) product(s gpukernel.ProductShape, a, bb, c uintptr) error {
	kind := func(t gpukernel.Type) uintptr {
		switch t {
		case gpukernel.F16:
			return 2
		case gpukernel.BF16:
			return 14
		}
		return 0
	}
	compute := uintptr(68)
	if s.Precision == gpukernel.TF32 {
		compute = 77
	}
	r := int32(dl.Call(b.gemm, b.handle, 0, 0, uintptr(s.N), uintptr(s.M), uintptr(s.K), at(b.one), bb, kind(s.B.Type), uintptr(s.N),
		a, kind(s.A.Type), uintptr(s.K), at(b.zero), c, kind(s.C.Type), uintptr(s.N), compute, ^uintptr(0)))
	if r != 0 {
		return fmt.Errorf("cublasGemmEx: error %d", r)
	}
	return nil
}
